"""Every decision vector through POST /v1/take. The server's clock is set by the test, which takes a build that allows it."""

import json
import os

import pytest

from client import Connection
from policies import limits
from program import ROOT

SCENARIOS = [json.loads(line) for line in (ROOT / "tests" / "vectors" / "named.us.jsonl").read_text().splitlines()]

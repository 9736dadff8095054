"""Every decision vector through the JSON API. The test sets the server's clock, which takes a build that allows it."""

import json
import os

import pytest

from client import Connection
from policies import limits
from program import ROOT

SCENARIOS = [json.loads(line) for line in (ROOT / "tests" / "vectors" / "named.us.jsonl").read_text().splitlines()]

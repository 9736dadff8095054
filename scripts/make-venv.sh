#!/bin/sh
# Makes build/venv with what tests/requirements.txt names; does nothing when it is there and up to date.
set -eu
cd "$(dirname "$0")/.."

# A copy of the list inside the environment tells what was installed into it.
if cmp -s tests/requirements.txt build/venv/requirements.txt; then
    exit 0
fi
python=/usr/bin/python3
[ -x "$python" ] || python=python3
"$python" -m venv --clear build/venv
build/venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
cp tests/requirements.txt build/venv/requirements.txt

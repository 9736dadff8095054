#!/bin/sh
# Makes build/reference/ratelimit, the reference rate limit service that Envoy's project has, from its Go module; does nothing when it is
# there and of this version. It takes minutes.
set -eu
cd "$(dirname "$0")/.."

module=github.com/envoyproxy/ratelimit/src/service_cmd@v1.4.1-0.20260122083618-3fb702589d36

folder=$PWD/build/reference
if [ -x "$folder/ratelimit" ] && [ "$(cat "$folder/version" 2>/dev/null)" = "$module" ]; then
    exit 0
fi

go=$(scripts/find-go.sh "$folder")
# -modcacherw: or `make clean` could not remove what was fetched.
GOPATH=$folder/go GOBIN=$folder GOFLAGS=-modcacherw CGO_ENABLED=0 "$go" install "$module"
mv "$folder/service_cmd" "$folder/ratelimit"
echo "$module" >"$folder/version"

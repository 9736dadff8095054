#!/bin/sh
# Installs the Debian or Ubuntu packages that a make target needs, and nothing when all are there.
#
#     scripts/install-packages.sh GROUP...
#
# A group is a first word of the table below, which is the only list of packages in the tree. Where there is no dpkg, each
# package is looked for by its third column instead, and what is missing is named, to be installed by hand.
set -eu

table='
build       gcc                    program gcc
build       libc6-dev              header  stdlib.h
build       make                   program make
build       meson                  program meson
build       ninja-build            program ninja
build       pkg-config             program pkg-config
build       libxxhash-dev          header  xxhash.h
build       libjansson-dev         library jansson
build       libhttp-parser-dev     header  http_parser.h
build       libssl-dev             header  openssl/ssl.h
build       libuv1-dev             header  uv.h
build       libyaml-dev            header  yaml.h
build       libnghttp2-dev         header  nghttp2/nghttp2.h
build       libprotobuf-c-dev      header  protobuf-c/protobuf-c.h
build       protobuf-c-compiler    program protoc-c
build       zlib1g-dev             header  zlib.h
build       libzstd-dev            header  zstd.h
build       libcairo2-dev          library cairo
build       libfontconfig-dev      library fontconfig
uring       liburing-dev           library liburing
python      python3                program python3
python      python3-venv           module  ensurepip
python      ca-certificates        none    -
fuzz        clang                  program clang
fuzz        CLANG-RUNTIME          runtime clang
check       libcmocka-dev          library cmocka
check       clang-tidy             program clang-tidy
check       spin                   program spin
check       git                    program git
check       tzdata                 none    -
check       mandoc                 program mandoc
check       groff-base             program groff
e2e         nginx                  program nginx
e2e         caddy                  program caddy
e2e         haproxy                program haproxy
e2e         apache2-bin            program apache2
e2e         lua-socket             none    -
e2e         openssl                program openssl
e2e         redis-server           program redis-server
e2e         redis-tools            program redis-cli
e2e         libhiredis-dev         header  hiredis/hiredis.h
e2e         systemd                program systemd-analyze
e2e         tzdata                 none    -
e2e         chromium               program chromium
check-long  gcc-aarch64-linux-gnu  program aarch64-linux-gnu-gcc
check-long  libc6-dev-arm64-cross  none    -
check-long  qemu-user              program qemu-aarch64
check-long  libcmocka-dev:arm64    none    -
check-long  libjansson-dev:arm64   none    -
check-long  libhttp-parser2.9:arm64 none   -
check-long  libssl-dev:arm64       none    -
check-long  libuv1-dev:arm64       none    -
check-long  libyaml-dev:arm64      none    -
check-long  libnghttp2-dev:arm64   none    -
check-long  libprotobuf-c-dev:arm64 none   -
check-long  zlib1g-dev:arm64       none    -
check-long  libzstd-dev:arm64      none    -
check-long  libcairo2-dev:arm64    none    -
check-long  libfontconfig-dev:arm64 none   -
bench       wrk                    program wrk
bench       nginx                  program nginx
bench       redis-server           program redis-server
bench       redis-tools            program redis-benchmark
bench       nghttp2-client         program h2load
bench       goaccess               program goaccess
bench       mawk                   program awk
bench       util-linux             program taskset
peers       wrk                    program wrk
peers       nginx                  program nginx
peers       haproxy                program haproxy
peers       redis-server           program redis-server
peers       redis-tools            program redis-benchmark
peers       nghttp2-client         program h2load
peers       python3-venv           module  ensurepip
peers       default-jdk-headless   program javac
peers       maven                  program mvn
peers       protobuf-compiler      program protoc
peers-rust  cargo-web              program cargo
'

die() {
    echo "install-packages: $*" >&2
    exit 1
}

# The sanitizers' and libFuzzer's runtime, in either of the two places where clang has kept it.
has_clang_runtime() {
    directory=$(clang -print-resource-dir 2>/dev/null) || return 1
    for file in "$directory"/lib/linux/libclang_rt.fuzzer-*.a "$directory"/lib/*/libclang_rt.fuzzer.a; do
        [ -e "$file" ] && return 0
    done
    return 1
}

# Is this package (or, without dpkg, what stands for it) there?
is_there() {
    package=$1 kind=$2 what=$3
    if [ "$kind" = runtime ]; then
        has_clang_runtime
    elif [ "$have_dpkg" = yes ]; then
        architectures="$(dpkg --print-architecture)|all"
        case $package in *:*) architectures=${package#*:} ;; esac
        dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "${package%:*}" 2>/dev/null |
            grep -qxE "($architectures) installed"
    else
        case $kind in
        program) PATH=$PATH:/usr/sbin:/usr/local/sbin command -v "$what" >/dev/null ;;
        header) echo "#include <$what>" | cc -E - >/dev/null 2>&1 ;;
        library) pkg-config --exists "$what" 2>/dev/null ;;
        module) python3 -c "import $what" 2>/dev/null ;;
        none) true ;; # cannot be told; the build will
        esac
    fi
}

# Prints what is missing of the groups asked for: package, kind and name, a line each.
list_missing() {
    for group in "$@"; do
        echo "$table" | while read -r in_group package kind what; do
            [ "$in_group" = "$group" ] || continue
            is_there "$package" "$kind" "$what" || echo "$package $kind $what"
        done
    done
}

# The package of clang's runtime is named after clang's version; before 14.0.6 it was part of another package.
clang_runtime_package() {
    major=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\).*/\1/p' | head -n 1)
    for package in "libclang-rt-$major-dev" "libclang-common-$major-dev"; do
        if [ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then
            echo "$package"
            return
        fi
    done
    die "no package with clang's runtime is known (looked for libclang-rt-$major-dev)"
}

[ $# -gt 0 ] || die "usage: $0 GROUP..."
for group in "$@"; do
    echo "$table" | grep -q "^$group " || die "unknown group: $group"
done
have_dpkg=no
if command -v dpkg-query >/dev/null; then
    have_dpkg=yes
fi

missing=$(list_missing "$@")
[ -n "$missing" ] || exit 0

if [ "$have_dpkg" = no ] || ! command -v apt-get >/dev/null; then
    echo "install-packages: there is no apt-get on this system; please install these by other means:" >&2
    echo "$missing" | while read -r package kind what; do
        case $kind in
        program) echo "    the program $what" ;;
        header) echo "    the C header $what (Debian: $package)" ;;
        library) echo "    the C library $what, known to pkg-config (Debian: $package)" ;;
        module) echo "    python3's module $what (Debian: $package)" ;;
        runtime) echo "    the libFuzzer and sanitizer runtime of clang (Debian: libclang-rt-dev)" ;;
        esac
    done >&2
    exit 1
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "not root and no sudo; please install:" $(echo "$missing" | cut -d' ' -f1)
    as_root=sudo
fi

case $missing in
*:arm64*)
    # Libraries for the emulated machine come from Debian's own arm64 packages.
    $as_root dpkg --add-architecture arm64
    ;;
esac
# A source of packages that does not answer need not be one that we need: the installation itself decides.
$as_root apt-get update -q || echo "install-packages: apt-get update reported problems; going on" >&2

packages=
for package in $(echo "$missing" | cut -d' ' -f1); do
    if [ "$package" = CLANG-RUNTIME ]; then
        package=$(clang_runtime_package)
    fi
    packages="$packages $package"
done

# Debian starts a server when it installs one. The tests start their own, on other ports, and want nothing of that.
no_services=/usr/sbin/policy-rc.d
if [ ! -e "$no_services" ]; then
    trap '$as_root rm -f "$no_services"' EXIT
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$no_services" >/dev/null
    $as_root chmod 755 "$no_services"
fi
echo "install-packages: installing$packages"
# shellcheck disable=SC2086 # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $packages

missing=$(list_missing "$@")
[ -z "$missing" ] || die "still missing after installation:" $(echo "$missing" | cut -d' ' -f1)

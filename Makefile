# A thin front for meson, ninja and tests/run.py. On Debian and Ubuntu every target first installs the packages that it
# needs; elsewhere it names those that are missing.

# Where `make install` puts things; DESTDIR is put before it, for packaging.
PREFIX ?= /usr/local
DESTDIR ?=
# How long `make fuzz` runs each target.
FUZZ_SECONDS ?= 600

RELEASE = build/release
PACKAGES = scripts/install-packages.sh
PYTHON = $(shell [ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)

.PHONY: build run check check-long bench bench-peers fuzz install format clean help

build: ## compile the library and the examples
	@$(PACKAGES) build
	@# A warning that only another compiler knows must not keep anyone from building; `make check` is strict.
	@[ -f $(RELEASE)/build.ninja ] || meson setup $(RELEASE) --buildtype=release -Dtests=disabled -Dwerror=false
	@ninja -C $(RELEASE)

run: build ## serve a small policy on 127.0.0.1:8080, until Ctrl-C
	@$(RELEASE)/src/caudal serve examples/quickstart.yaml

check: ## all tests: under ten minutes on two cores
	@$(PACKAGES) build python fuzz check e2e
	@$(PYTHON) tests/run.py check

check-long: ## the same and more: clang-tidy, Spin models, 64-bit Arm, clang, long fuzzing; about an hour
	@$(PACKAGES) build uring python fuzz check e2e check-long
	@$(PYTHON) tests/run.py check-long

# Few and short rounds; each of the programs by itself has more of both.
bench: build ## measure the speed of a decision: in the library, beside nginx and Redis, in a Redis, by leases from it, over gRPC, and on a log; a few minutes
	@meson test -C $(RELEASE) --benchmark --verbose --test-args='--rounds 3'
	@$(PACKAGES) python bench
	@$(PYTHON) bench/http.py $(RELEASE)/src/caudal --rounds 3 --seconds 1 --json $(RELEASE)/http.json
	@$(PYTHON) bench/resp.py $(RELEASE)/src/caudal --rounds 3 --share 0.2 --json $(RELEASE)/resp.json
	@$(PYTHON) bench/redis.py $(RELEASE)/bench --rounds 3 --calls 50000 --json $(RELEASE)/redis.json
	@$(PYTHON) bench/leases.py $(RELEASE) --rounds 3 --seconds 1 --json $(RELEASE)/leases.json
	@$(PYTHON) bench/grpc.py $(RELEASE)/src/caudal --alone --rounds 3 --seconds 1 --json $(RELEASE)/grpc.json
	@$(PYTHON) bench/replay.py $(RELEASE) --rounds 1 --json $(RELEASE)/replay.json

bench-peers: build ## install what others use, measure beside it, and write bench/RESULTS.md; half an hour, and once more as long to install
	@bench/peers/install.sh
	@$(PYTHON) bench/peers.py $(RELEASE)

fuzz: ## run every fuzz target for FUZZ_SECONDS
	@$(PACKAGES) build python fuzz
	@FUZZ_SECONDS=$(FUZZ_SECONDS) $(PYTHON) tests/run.py fuzz

install: build ## install the library, its headers and its pkg-config file
	@meson configure $(RELEASE) -Dprefix=$(PREFIX)
	@DESTDIR=$(DESTDIR) meson install -C $(RELEASE)

format: ## lay out the C code
	@$(PACKAGES) python
	@$(PYTHON) tests/gates/format.py --fix

clean: ## remove all that was built
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile

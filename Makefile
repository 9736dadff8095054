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

.PHONY: build run check check-long bench fuzz install format clean help

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
	@$(PACKAGES) build python fuzz check e2e check-long
	@$(PYTHON) tests/run.py check-long

bench: build ## measure the speed of a decision: in the library, beside nginx, Redis and the reference rate limit service, in a Redis, and by leases from it
	@meson test -C $(RELEASE) --benchmark --verbose
	@$(PACKAGES) python bench
	@$(PYTHON) bench/http.py $(RELEASE)/src/caudal --json $(RELEASE)/http.json
	@$(PYTHON) bench/resp.py $(RELEASE)/src/caudal --json $(RELEASE)/resp.json
	@$(PYTHON) bench/redis.py $(RELEASE)/bench --json $(RELEASE)/redis.json
	@$(PYTHON) bench/leases.py $(RELEASE) --json $(RELEASE)/leases.json
	@$(PYTHON) bench/grpc.py $(RELEASE)/src/caudal --json $(RELEASE)/grpc.json

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

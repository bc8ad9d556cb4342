# The front door. meson and ninja do the work; every target sets up what it needs first, so that
# each works as the first command on a fresh Debian 12.

NINJA := ninja --quiet
SAN   := -Db_sanitize=address,undefined
QUIET := >/dev/null
TESTS := -Dtests=true --buildtype=debugoptimized --werror

.PHONY: all run test test-build lint soak bench fuzz clean setup-build setup-test setup-bench

all: setup-build build/build.ninja
	@$(NINJA) -C build

run: all
	@build/afloat demo --serve

test: lint test-build
	@tools/run-tests quick

soak: test-build
	@tools/run-tests full

test-build: setup-test build/asan/build.ninja build/tsan/build.ninja build/fuzz/build.ninja
	@$(NINJA) -C build/asan
	@$(NINJA) -C build/tsan unit-loop unit-store
	@$(NINJA) -C build/fuzz

lint: setup-test
	@tools/lint

bench: setup-bench build/bench/build.ninja
	@$(NINJA) -C build/bench
	@bench/run

fuzz: setup-test build/fuzz/build.ninja
	@$(NINJA) -C build/fuzz
	@tools/run-fuzz $${SECONDS_EACH:-60}

setup-build:
	@scripts/setup build

setup-test:
	@scripts/setup build test

setup-bench:
	@scripts/setup build bench

build/build.ninja: | setup-build
	@meson setup build $(QUIET)

build/asan/build.ninja: | setup-test
	@meson setup build/asan $(TESTS) $(SAN) $(QUIET)

build/tsan/build.ninja: | setup-test
	@meson setup build/tsan $(TESTS) -Db_sanitize=thread -Db_lundef=false $(QUIET)

build/fuzz/build.ninja: | setup-test
	@CC=clang meson setup build/fuzz $(TESTS) -Dfuzz=true $(SAN) -Db_lundef=false $(QUIET)

build/bench/build.ninja: | setup-bench
	@meson setup build/bench -Dbench=true $(QUIET)

clean:
	rm -rf build

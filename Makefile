# The front door. meson and ninja do the work; every target sets up what it needs first, so that
# each works as the first command on a fresh Debian 12.

NINJA := ninja --quiet
SAN   := -Db_sanitize=address,undefined
DEBUG := --buildtype=debugoptimized --werror
TESTS := -Dtests=true $(DEBUG)

export PREFIX DESTDIR

PARTS := $(wildcard src/*/meson.build tests/unit/*/meson.build)

.PHONY: all run install uninstall deb reproducible test-fresh test-systemd test test-build lint soak bench fuzz clean web screenshots setup-build setup-test setup-bench

all: build/build.ninja
	@$(NINJA) -C build

run: all
	@build/afloat demo --serve

install: all
	@tools/install install

uninstall:
	@tools/install uninstall

deb: all
	@scripts/setup deb
	@tools/make-deb

# two builds of the same sources are the same bytes
reproducible: setup-build web
	@tools/reproducible

# the README's commands in a fresh Debian, with the time that each takes; SUITE=1 runs the tests there, too
test-fresh:
	@tools/test-fresh

# the package in a booted Debian: socket, stop, restart, upgrade, crash, logout, removal
test-systemd: deb
	@scripts/setup systemd
	@tools/test-systemd

test: test-build
	@tools/run-tests quick

soak: test-build
	@tools/run-tests full

test-build: setup-test build/asan/build.ninja build/tsan/build.ninja build/fuzz/build.ninja
	@$(NINJA) -C build/asan
	@$(NINJA) -C build/tsan tests/unit-loop tests/unit-store
	@$(NINJA) -C build/fuzz
	@tools/mcp-tools

lint: setup-test
	@tools/lint

bench: setup-bench build/bench/build.ninja
	@$(NINJA) -C build/bench
	@bench/run

fuzz: setup-test build/fuzz/build.ninja
	@$(NINJA) -C build/fuzz
	@tools/run-fuzz $${SECONDS_EACH:-60}

# the page, once for all build directories; at once when web/ did not change
web: setup-build
	@tools/build-web

# pictures of the page's main views, light and dark, in build/screenshots; those that pages show in docs/pictures
screenshots: all setup-test
	@AFLOAT_BIN=build/afloat node tests/browser/screenshots.mjs
	@cp build/screenshots/permission-light.png docs/pictures/web-light.png
	@cp build/screenshots/editor-dark.png docs/pictures/web-dark.png
	@tools/terminal_picture.py build/afloat docs/pictures/terminal.svg

setup-build:
	@scripts/setup build

setup-test:
	@scripts/setup build test

setup-bench:
	@scripts/setup build bench

build/build.ninja: $(PARTS) | web
	@tools/configure build

build/asan/build.ninja: $(PARTS) | setup-test web
	@tools/configure build/asan $(TESTS) $(SAN) -Dbench=true

build/tsan/build.ninja: $(PARTS) | setup-test web
	@tools/configure build/tsan $(TESTS) -Db_sanitize=thread -Db_lundef=false

build/fuzz/build.ninja: $(PARTS) | setup-test web
	@CC=clang tools/configure build/fuzz $(DEBUG) -Dfuzz=true $(SAN) -Db_lundef=false

build/bench/build.ninja: $(PARTS) | setup-bench web
	@tools/configure build/bench -Dbench=true

clean:
	rm -rf build

# SPDX-License-Identifier: MIT OR Apache-2.0
# `make prove` and `make test` work on a fresh machine; `make help` lists the rest.

PREFIX ?= /usr/local
TARGET := $(or $(CARGO_TARGET_DIR),target)
ISOLATOR := $(TARGET)/release/isolator
SHARE := $(TARGET)/generated
# A service may have none.
HOME ?= $(shell getent passwd $$(id -u) | cut -d: -f6)
export HOME
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

# Seven rows of ten seconds: about 90 s with what lies between them.
PROVE ?= --loads idle,cpu,l2,storage,system,net,ipi --duration 10s --warm-up 1s

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
BIN := $(DESTDIR)$(PREFIX)/bin
LIB := $(DESTDIR)$(PREFIX)/lib/isolator
MAN := $(DESTDIR)$(PREFIX)/share/man/man1
SCHEMA := $(DESTDIR)$(PREFIX)/share/isolator/schema
# Where the machine's Python looks, which has a folder of its own below /usr/local.
SITE = $(shell python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null)
PYTHON = $(DESTDIR)$(or $(if $(filter /usr/local,$(PREFIX)),$(SITE)),$(PREFIX)/lib/python3/dist-packages)
MAN3 := $(DESTDIR)$(PREFIX)/share/man/man3
CMAKE := $(DESTDIR)$(PREFIX)/lib/cmake/isolator
BASH := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSH := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISH := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d

# The lab's guests run a static binary; the scope is a plugin of QEMU. GUEST=aarch64 LAB="matrix short --arch aarch64"
# for guests of another architecture.
GUEST := $(shell uname -m)
MUSL := $(GUEST)-unknown-linux-musl
LAB ?= matrix short
KERNEL ?= --arch $(GUEST)
BESIDE ?= $(TARGET)/release
PARTS := $(BESIDE)/isolator-$(GUEST) $(BESIDE)/isolator-scope.so

.PHONY: build prove check test lab guest gate kernel bench bench-side-by-side fuzz docs dist packages test-packages install lib install-lib uninstall clean-root help lab-page

build: ## the program in release mode, its man pages, completions and JSON schemas
	@tools/bootstrap build
	cargo build --release --locked --package isolator
	@$(ISOLATOR) generate $(SHARE)

prove: ## does this machine hold its deadline? about 90 s; any verdict ends with status 0
	@tools/bootstrap prove
	cargo build --profile prove --locked --package isolator --no-default-features
	@$(TARGET)/prove/isolator prove $(PROVE) || [ $$? -eq 2 ]

check: ## format, clippy and unit tests: while you work; five minutes at most
	@tools/bootstrap check
	@tools/test check

test: ## everything that CI checks: before you hand in; some 20 minutes on two CPUs
	@tools/bootstrap test
	@tools/test

lab-page:
	@tools/proof $@

# tools/proof has what each needs and takes.
proof-%:
	@tools/proof $*

lab: build guest ## real kernels in QEMU: what reaches an isolated CPU, seen from outside; a few minutes
	@tools/bootstrap lab $(GUEST)
	@$(ISOLATOR) lab $(LAB)

guest: ## the program that guests run, and the scope, beside the program
	@tools/bootstrap guest $(MUSL)
	cargo build --release --locked --package isolator --target $(MUSL) --config 'profile.release.strip="symbols"'
	@install -D $(TARGET)/$(MUSL)/release/isolator $(BESIDE)/isolator-$(GUEST)
	@$(MAKE) --no-print-directory -C lab/scope OUT=$(abspath $(BESIDE))

gate: build guest ## the lab's committed baseline: has anything grown? a minute or two; status 2 where it has
	@tools/bootstrap lab $(GUEST)
	@$(ISOLATOR) lab gate lab/baseline.json

kernel: build ## Linux with the isolator, for the lab; KERNEL="--config debian" for packages; 10 minutes on two cores
	@tools/bootstrap kernel $(GUEST)
	@$(ISOLATOR) kernel build $(KERNEL)

# PART: program messages calls fleet.
bench: build ## own figures against cyclictest, oslat and other crates' rings, into docs/results/performance.md; PART=messages for some
	@tools/bootstrap test
	@tools/bootstrap bench
	@tools/bench $(PART)

# BEFORE: another build of the program.
bench-side-by-side: build ## the hot loops of BEFORE=PROGRAM and of this build, in one run; two minutes
	@tools/bootstrap test
	cargo build --release --locked --package isolator-proof --bin isolator-bench
	@$(TARGET)/release/isolator-bench side-by-side $(BEFORE) $(ISOLATOR)

fuzz: ## every reader of foreign bytes, ten minutes each; FUZZ="SECONDS READER..." for others
	@tools/bootstrap test
	@tools/fuzz $(FUZZ)

docs: build ## the pages of docs/reference that are made from the program
	cp $(SHARE)/reference/* docs/reference

# MACHINES: this machine's alone, or others.
dist: ## static binaries for x86_64 and aarch64 in dist/, with checksums and bills of materials
	@tools/bootstrap guest $(MUSL)
	@tools/dist $(MACHINES)

packages: ## .deb, .rpm, wheel and image of what dist builds, in dist/; docs/howto/packages.md lists them
	@tools/bootstrap packages $(MUSL)
	@tools/dist $(MACHINES)
	@tools/packages

# PACKAGES: lint crates deb development tarball wheel rpm image.
test-packages: ## install each of dist/ without a compiler, prove, remove it, see that nothing is left; root only, minutes
	@tools/bootstrap packages $(MUSL)
	@tools/test-packages $(PACKAGES)

install: | $(SHARE) ## program, man pages, completions, JSON schemas, and what make lab or make guest left for guests; PREFIX and DESTDIR as usual
	install -d $(BIN) $(MAN) $(SCHEMA) $(BASH) $(ZSH) $(FISH)
	install -m 755 $(ISOLATOR) $(BIN)
	$(if $(wildcard $(PARTS)),install -D -m 755 -t $(LIB) $(wildcard $(PARTS)))
	install -m 644 $(SHARE)/man/*.1 $(MAN)
	install -m 644 $(SHARE)/schema/*.json $(SCHEMA)
	install -m 644 $(SHARE)/completions/isolator.bash $(BASH)/isolator
	install -m 644 $(SHARE)/completions/_isolator $(ZSH)
	install -m 644 $(SHARE)/completions/isolator.fish $(FISH)

lib: ## libisolator for C: header in crates/libisolator/include, libraries in target/release
	@tools/bootstrap build
	cargo build --release --locked --package isolator-c
	crates/libisolator/link $(TARGET)/release/libisolator.a $(TARGET)/release/libisolator.so

install-lib: lib | $(SHARE) ## libisolator with its headers, files for pkg-config and CMake, man pages and Python module
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(CMAKE) $(DESTDIR)$(PREFIX)/include $(MAN3) $(PYTHON)
	install -m 644 $(SHARE)/man/isolator_*.3 $(MAN3)
	install -m 644 crates/libisolator/include/isolator.h crates/libisolator/include/isolator.hpp $(DESTDIR)$(PREFIX)/include
	install -m 644 crates/libisolator/python/isolator.py $(PYTHON)
	install -m 644 $(TARGET)/release/libisolator.a $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(TARGET)/release/libisolator.so $(DESTDIR)$(PREFIX)/lib/libisolator.so.1
	ln -sf libisolator.so.1 $(DESTDIR)$(PREFIX)/lib/libisolator.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' crates/libisolator/isolator.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/isolator.pc
	install -m 644 crates/libisolator/cmake/isolator-config.cmake $(CMAKE)
	sed 's|@VERSION@|$(VERSION)|' crates/libisolator/cmake/isolator-config-version.cmake.in >$(CMAKE)/isolator-config-version.cmake
	@[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

$(SHARE):
	@$(MAKE) build

uninstall: ## what install and install-lib put there
	rm -f $(DESTDIR)$(PREFIX)/include/isolator.h $(DESTDIR)$(PREFIX)/include/isolator.hpp $(DESTDIR)$(PREFIX)/lib/libisolator.* $(DESTDIR)$(PREFIX)/lib/pkgconfig/isolator.pc
	rm -rf $(LIB) $(CMAKE) $(dir $(SCHEMA))
	rm -f $(MAN3)/isolator_*.3 $(PYTHON)/isolator.py
	rm -f $(BIN)/isolator $(MAN)/isolator.1 $(MAN)/isolator-*.1
	rm -f $(BASH)/isolator $(ZSH)/_isolator $(FISH)/isolator.fish

clean-root: ## `make prove` and `make test` in fresh Debian roots (root only, slow)
	tools/clean-root make prove
	tools/clean-root make test

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile | expand -t 12
	@tools/proof help

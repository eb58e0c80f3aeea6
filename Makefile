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

.PHONY: build prove check test proof-model proof-mutations proof-models proof-monitor proof-programs proof-agreement proof-messages proof-kills lab guest lab-page proof-live proof-guests proof-lab proof-response gate kernel proof-kernel proof-kernel-short proof-causes proof-faults proof-boot proof-units proof-ros2 proof-fleet proof-cluster proof-howtos bench bench-side-by-side fuzz docs dist packages test-packages install lib install-lib uninstall clean-root help

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

proof-model: ## the kernel part's ordering in every interleaving and by the kernel's memory model, each rule broken; a few minutes
	@tools/bootstrap model
	@kernel/model/check
	@kernel/litmus/check || [ $$? -eq 77 ]

# TIMES: mutations in all.
TIMES ?= 50000
proof-mutations: ## every reader of foreign bytes on damaged seeds, to the last rendering; some minutes
	@tools/bootstrap build
	cargo run --release --locked --config 'profile.release.overflow-checks=true' --package isolator-foreign -- $(TIMES)

# LIME: a program lime-rtw, which is run beside; on a kernel after 6.12 in a guest, for whose kernel it is built (LIME_KERNEL=debian-rt).
# PYTHON: 3.12 or later.
proof-models: $(if $(LIME),build guest) ## the loops that are found in programs, beside what LiME's reference package makes of them, into docs/results/monitor.md; minutes
	@tools/bootstrap test
	@tools/proof-models docs/results/monitor.md $(ISOLATOR)

# ON: kernels of the lab, as debian-rt:7.2; then the page is left as it is. TEST=bounds:: for some tests.
proof-monitor: build guest ## the tests of monitor's loops, cycles and causes in guests of other kernels, into docs/results/monitor.md; half an hour
	@tools/bootstrap lab
	@tools/proof-monitor docs/results/monitor.md $(ISOLATOR) $(ON)

# PROGRAM: cyclictest JACK PipeWire LinuxCNC ethercrab. One alone leaves the page as it is.
proof-programs: ## the loops of cyclictest, jackd, PipeWire, LinuxCNC and ethercrab, beside what these say of themselves, into docs/results/monitor.md; root only, two minutes
	@tools/bootstrap programs
	cargo build --locked --package isolator
	@tools/proof-programs docs/results/monitor.md $(TARGET)/debug/isolator $(PROGRAM)

proof-agreement: ## a followed cycle beside the program's own clock readings, into docs/results/monitor.md; root only, two minutes
	@tools/bootstrap test
	@tools/proof-agreement docs/results/monitor.md

proof-messages: ## the rings between CPUs: every interleaving, the rules of memory, 10,000 kills of either end; some minutes
	@tools/bootstrap build
	@tools/proof-messages

proof-kills: ## 200 runs killed at random moments: nothing holds, at most a second is lost, what is left is read; BUSY=1 with all CPUs busy; a quarter of an hour
	@tools/bootstrap build
	KILLS=$(or $(KILLS),200) cargo test --locked --release --package isolator --test all -- kills:: --nocapture

lab: build guest ## real kernels in QEMU: what reaches an isolated CPU, seen from outside; a few minutes
	@tools/bootstrap lab $(GUEST)
	@$(ISOLATOR) lab $(LAB)

guest: ## the program that guests run, and the scope, beside the program
	@tools/bootstrap guest $(MUSL)
	cargo build --release --locked --package isolator --target $(MUSL) --config 'profile.release.strip="symbols"'
	@install -D $(TARGET)/$(MUSL)/release/isolator $(BESIDE)/isolator-$(GUEST)
	@$(MAKE) --no-print-directory -C lab/scope OUT=$(abspath $(BESIDE))

lab-page: build guest ## the published matrix again, its tables into docs/results/lab.md; about ten minutes
	@tools/bootstrap lab $(GUEST)
	cargo build --release --locked --package isolator-proof
	$(TARGET)/release/isolator-proof lab-page $(ISOLATOR) docs/results/lab.md

proof-lab: build guest ## the same scenarios five times, their tables into docs/results/lab.md; about ten minutes
	@tools/bootstrap lab $(GUEST)
	cargo build --release --locked --package isolator-proof
	$(TARGET)/release/isolator-proof proof-lab $(ISOLATOR) docs/results/lab.md

proof-live: build ## the same runs with and without --live and a browser, in alternation, their table into docs/results/performance.md; five minutes
	cargo build --release --locked --package isolator-proof
	$(TARGET)/release/isolator-proof proof-live $(ISOLATOR) docs/results/performance.md

proof-guests: ## the lab's tests in guests, of which make test runs one; some minutes
	@tools/bootstrap test
	@$(MAKE) --no-print-directory guest BESIDE=$(TARGET)/debug
	cargo test --locked --workspace --test all -- --include-ignored guests:: lab:: --test-threads 1

proof-response: build guest ## a million edges answered under all storms, in instructions, its tables into docs/results/lab.md; some minutes
	@tools/bootstrap lab $(GUEST)
	cargo build --release --locked --package isolator-proof
	GUEST=$(GUEST) $(TARGET)/release/isolator-proof proof-response $(ISOLATOR) docs/results/lab.md

gate: build guest ## the lab's committed baseline: has anything grown? a minute or two; status 2 where it has
	@tools/bootstrap lab $(GUEST)
	@$(ISOLATOR) lab gate lab/baseline.json

kernel: build ## Linux with the isolator, for the lab; KERNEL="--config debian" for packages; 10 minutes on two cores
	@tools/bootstrap kernel $(GUEST)
	@$(ISOLATOR) kernel build $(KERNEL)

# PART: steps cost tick silence storms mappings uapi findings wedge teardown fuzz memory nmi debug kasan kcsan elsewhere others; VERSION: 6.12, 6.12+debug; SHARE=10 does a tenth.
proof-kernel: kernel guest ## the claims of the kernel part, seen in guests, their tables into docs/results/kernel.md; hours, PART="wedge cost" for some
	@tools/bootstrap lab $(GUEST)
	@$(ISOLATOR) kernel build $(KERNEL) --unpatched
	cargo build --release --locked --package isolator-proof
	GUEST=$(GUEST) $(TARGET)/release/isolator-proof proof-kernel $(ISOLATOR) docs/results/kernel.md $(PART)

# The kernel that cost needs beside it, without the series, is left out, and so are debug kernels and other versions.
SHORT_PARTS = tick silence mappings uapi wedge teardown fuzz memory nmi
proof-kernel-short: kernel guest ## the same on one kernel, with a twentieth of the rounds, into a page beside the program; 40 minutes at most
	@tools/bootstrap lab $(GUEST)
	cargo build --release --locked --package isolator-proof
	@cp docs/results/kernel.md $(TARGET)/kernel.md
	GUEST=$(GUEST) SHARE=20 $(TARGET)/release/isolator-proof proof-kernel $(ISOLATOR) $(TARGET)/kernel.md $(SHORT_PARTS)

# PART: trials debian-rt-bpf debian-bpf debian-rt-tracefs debian-tracefs debian-rt-osnoise debian-7.2-rt-bpf
# debian-7.2-bpf cost cost-monitor; SHARE=10 does a tenth.
proof-causes: build guest ## test in guests the names and senders of provoked interruptions, for docs/results/causes.md; an hour, PART= for less
	@tools/bootstrap lab $(GUEST)
	cargo build --release --locked --package isolator-proof
	cargo build --release --locked --package isolator-proof --target $(MUSL)
	$(TARGET)/release/isolator-proof proof-causes $(ISOLATOR) $(TARGET)/$(MUSL)/release/isolator-proof docs/results/causes.md $(PART)

# FAULTS: how many on each loader.
proof-faults: ## faults at every change that tune makes, on each loader, and on the way back; some minutes
	@tools/bootstrap build
	ISOLATOR_FAULTS=$(or $(FAULTS),5000) cargo test --locked --package isolator-tune --lib -- --ignored --nocapture proof_faults

# LOADERS: grub systemd-boot fleet.
proof-boot: guest ## tune on a Debian that really boots, from GRUB, from systemd-boot, and by fleet; root only, half an hour
	@tools/bootstrap boot
	@tools/bootstrap test
	@tools/proof-boot $(LOADERS)

# SUITES: releases of Debian.
proof-units: guest ## units of systemd that tune writes, and a profile that TuneD applies, on a Debian trixie and a sid that really boot; root only, a quarter of an hour
	@tools/bootstrap boot
	@tools/proof-units $(SUITES)

# LAUNCH: a clone of ros2/launch, without which the launch actions are not tried.
proof-ros2: build ## the ROS 2 package: built by colcon, tested beside a real rclpy; a minute or two
	@tools/bootstrap test
	@tools/proof-ros2 $(ISOLATOR)

proof-fleet: build ## Ansible at work on eight hosts with their own sshd, and faults; root only, some minutes
	@tools/bootstrap test
	@tools/proof-fleet $(ISOLATOR)

# PART: kubernetes slurm.
proof-cluster: guest ## the manifests on a real Kubernetes, the batch script on a real Slurm; root only, minutes, the first time 20
	@tools/bootstrap cluster
	@tools/proof-cluster $(PART)

# PAGES: docs/howto/audio.md, for instance; SUITE: trixie; SECONDS: how long each measurement takes.
proof-howtos: build guest ## the commands of tutorial, how-tos and questions, each page on a bare Debian of its own; root only, half an hour
	@tools/bootstrap root
	@tools/proof-howtos $(ISOLATOR) $(PAGES)

# PART: program messages calls fleet.
bench: build ## own figures against cyclictest, oslat and other crates' rings, into docs/results/performance.md; PART=messages for some
	@tools/bootstrap test
	@tools/bootstrap bench
	@tools/bench $(PART)

# BEFORE: another build of the program.
bench-side-by-side: build ## the hot loops of BEFORE=PROGRAM and of this build, in one run; two minutes
	@tools/bootstrap test
	cargo build --release --locked --package isolator-bench
	@$(TARGET)/release/isolator-bench side-by-side $(BEFORE) $(ISOLATOR)

fuzz: ## every parser of foreign text, ten minutes each; FUZZ="SECONDS TARGET..." for others
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

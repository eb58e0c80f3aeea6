# SPDX-License-Identifier: MIT OR Apache-2.0
SUMMARY = "Takes a Linux machine from stock to a proven deadline"
DESCRIPTION = "Audits a machine for real-time use, isolates CPUs, measures wakeup latency under load and explains it."
SECTION = "console/utils"
LICENSE = "(MIT | Apache-2.0) & GPL-2.0-only"
LIC_FILES_CHKSUM = "\
    file://LICENSE-MIT;md5=@MIT@ \
    file://LICENSE-APACHE;md5=@APACHE@ \
    file://LICENSE-GPL-2.0;md5=@GPL-2.0@ \
"

# The kernel part of the collector of causes.
DEPENDS = "clang-native"

SRC_URI = "file://isolator-${PV}.tar.gz"

inherit cargo

require isolator-crates.inc

CARGO_SRC_DIR = "crates/cli"
CARGO_LOCK_PATH = "${S}/Cargo.lock"

export CLANG = "${STAGING_BINDIR_NATIVE}/clang"
export ISOLATOR_COMMIT = "v${PV}"

COMPATIBLE_HOST = "(x86_64|aarch64).*-linux"

RRECOMMENDS:${PN} = "fio stress-ng"

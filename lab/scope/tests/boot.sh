#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Sourced by the tests in a guest and by the bench: what is common to booting a kernel with guest.c as its init.
# shellcheck disable=SC2034 # used where this is sourced
set -euo pipefail
scope=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
plugin=$scope/isolator-scope.so
boot_line="quiet nokaslr panic=-1 isolcpus=managed_irq,domain,1 nohz_full=1 rcu_nocbs=1 irqaffinity=0 tsc=reliable nowatchdog nosoftlockup skew_tick=1"

cannot() { echo "${0##*/}: $*" >&2; exit 1; }
skip() { echo "${0##*/}: skipped: $*"; exit 77; }

# kernel: sets architecture, emulator, guest_cc, console
look_at_kernel() {
    [ -r "$1" ] || cannot "cannot read kernel '$1'; give a bzImage or an arm64 Image"
    if [ "$(dd if="$1" bs=1 skip=514 count=4 status=none)" = HdrS ]; then
        architecture=x86_64 guest_cc=${GUEST_CC:-cc} console=ttyS0
        emulator=(qemu-system-x86_64)
    elif [ "$(dd if="$1" bs=1 skip=56 count=3 status=none)" = ARM ]; then
        architecture=aarch64 guest_cc=${GUEST_CC:-aarch64-linux-gnu-gcc} console=ttyAMA0
        emulator=(qemu-system-aarch64 -M "virt,gic-version=3")
    else
        cannot "$1 is neither a bzImage nor an arm64 Image"
    fi
    command -v "${emulator[0]}" >/dev/null || skip "no ${emulator[0]}; install QEMU 7.2 or newer"
    emulator+=(-accel "tcg,thread=multi" -cpu max -smp 2 -m 512 -nodefaults -display none -no-reboot -kernel "$1")
}

# folder: makes folder/initramfs
build_guest() {
    command -v "${guest_cc%% *}" >/dev/null || skip "no $guest_cc; name a compiler for $architecture in GUEST_CC"
    # shellcheck disable=SC2086 # a compiler with its options
    $guest_cc -O2 -static -pthread -Wall -Wextra -Werror -o "$1/init" "$scope/tests/guest.c"
    "$scope/tests/initramfs" "$1/init" >"$1/initramfs"
}

# initrd log words-for-the-boot-line [emulator option...]
boot() {
    local initrd=$1 log=$2 words=$3
    shift 3
    timeout -k 5 "${LIMIT:-180}" "${emulator[@]}" -initrd "$initrd" -serial "file:$log" \
        -append "console=$console $boot_line $words" "$@" </dev/null
}

# folder: makes folder/symbols, by a boot of folder/initramfs
read_symbols() {
    local text=$1/log port=()
    [ "$architecture" != x86_64 ] || text=$1/port port=(-debugcon "file:$1/port")
    boot "$1/initramfs" "$1/log" mode=symbols "${port[@]}"
    tr -d '\r' <"$text" | sed -n 's/^S //p' >"$1/symbols"
}

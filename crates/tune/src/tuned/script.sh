#!/bin/sh
# Made by `isolator tune export`, which TuneD calls by start, stop and verify.
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The interrupts of a device go to its CPUs. TuneD names interrupts by their numbers alone, which change from boot to boot.
set -u
device='' cpus=''
before=/run/isolator-tuned

# The numbers of the device's interrupts: its messages, and what is named after it.
numbers() {
    for folder in "/sys/class/net/$device/device" "/sys/class/sound/$device/device" "/sys/bus/pci/devices/$device"; do
        [ ! -d "$folder/msi_irqs" ] || ls "$folder/msi_irqs"
    done
    for action in "/proc/irq/"*"/$device" "/proc/irq/"*"/$device-"*; do
        [ ! -d "$action" ] || basename "$(dirname "$action")"
    done
}

status=0
case ${1:-} in
start)
    mkdir -p "$before" || exit 1
    for number in $(numbers | sort -un); do
        file=/proc/irq/$number/smp_affinity_list
        [ -e "$file" ] || continue
        [ -e "$before/$number" ] || cat "$file" >"$before/$number"
        echo "$cpus" >"$file" || { echo "interrupt $number of $device refuses CPUs $cpus" >&2; rm -f "$before/$number"; }
    done
    ;;
stop)
    for file in "$before"/*; do
        [ -e "$file" ] || continue
        cat "$file" >"/proc/irq/${file##*/}/smp_affinity_list" || status=1
    done
    rm -rf "$before"
    ;;
verify)
    for file in "$before"/*; do
        [ -e "$file" ] || continue
        now=$(cat "/proc/irq/${file##*/}/smp_affinity_list")
        [ "$now" = "$cpus" ] || { echo "interrupt ${file##*/} of $device has CPUs $now, not $cpus" >&2; status=1; }
    done
    ;;
*)
    echo "usage: $0 start|stop|verify" >&2
    status=1
    ;;
esac
exit $status

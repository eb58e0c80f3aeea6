// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's name and parts: host name, processor, memory, maker, firmware.
//!
//! PCs and servers say it by DMI (`/sys/class/dmi/id`), most boards by the device tree.

use crate::tree::Tree;
use machine::Snapshot;

pub(crate) fn read(tree: &mut Tree, machine: &mut Snapshot) {
    let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
    let board = tree.word("proc/device-tree/model");
    machine.hostname = tree.word("proc/sys/kernel/hostname");
    machine.boot_id = tree.word("proc/sys/kernel/random/boot_id");
    machine.architecture =
        tree.word("proc/sys/kernel/arch").or_else(|| architecture(&cpuinfo).map(str::to_string));
    machine.cpu_model = cpu_model(&cpuinfo).or_else(|| board.clone());
    machine.memory_bytes = memory_bytes(&tree.text("proc/meminfo").unwrap_or_default());
    machine.product = join(tree, &["sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name"]).or(board);
    machine.firmware = join(
        tree,
        &["sys/class/dmi/id/bios_vendor", "sys/class/dmi/id/bios_version", "sys/class/dmi/id/bios_date"],
    )
    .or_else(|| {
        tree.word("proc/device-tree/chosen/u-boot,version").map(|version| format!("U-Boot {version}"))
    });
    machine.clocksource = tree.word("sys/devices/system/clocksource/clocksource0/current_clocksource");
}

/// The value of `key` in the first block of `/proc/cpuinfo` that has it.
pub(crate) fn field<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields
        .filter(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
        .find(|value| !value.is_empty())
}

/// As `uname -m` would say it, where `/proc/cpuinfo` tells: `/proc/sys/kernel/arch` is new in Linux 6.1.
fn architecture(cpuinfo: &str) -> Option<&'static str> {
    if let Some(flags) = field(cpuinfo, "flags") {
        return Some(if flags.split(' ').any(|flag| flag == "lm") { "x86_64" } else { "i686" });
    }
    if let Some(isa) = field(cpuinfo, "isa") {
        return Some(if isa.starts_with("rv32") { "riscv32" } else { "riscv64" });
    }
    match field(cpuinfo, "CPU architecture") {
        Some("8") | Some("AArch64") => Some("aarch64"),
        Some("7") => Some("armv7l"),
        _ => None,
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    if let Some(name) = ["model name", "cpu model", "cpu"].iter().find_map(|key| field(cpuinfo, key)) {
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let (maker, part) = (field(cpuinfo, "CPU implementer")?, field(cpuinfo, "CPU part")?);
    Some(format!("implementer {maker} part {part}"))
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The words in those files in one line.
fn join(tree: &mut Tree, paths: &[&str]) -> Option<String> {
    let words: Vec<String> = paths.iter().filter_map(|path| tree.word(path)).collect();
    if words.is_empty() { None } else { Some(words.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    fn identity(files: &[(&str, &str)]) -> Snapshot {
        let (_folder, mut tree) = made_of(files);
        let mut machine = Snapshot::default();
        read(&mut tree, &mut machine);
        machine
    }

    #[test]
    fn names_a_board_by_its_device_tree() {
        let machine = identity(&[
            ("proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd42\n",
            ),
            ("proc/meminfo", "MemTotal:       64349460 kB\nMemFree: 1 kB\n"),
        ]);
        assert_eq!(machine.product.as_deref(), Some("NVIDIA Jetson AGX Orin Developer Kit"));
        assert_eq!(machine.cpu_model.as_deref(), Some("implementer 0x41 part 0xd42"));
        assert_eq!(machine.architecture.as_deref(), Some("aarch64"));
        assert_eq!(machine.memory_bytes, Some(64_349_460 * 1024));
        assert_eq!(machine.firmware, None);
    }

    #[test]
    fn names_a_pc_by_dmi() {
        let machine = identity(&[
            ("sys/class/dmi/id/sys_vendor", "Dell Inc.\n"),
            ("sys/class/dmi/id/product_name", "Precision Tower 7810\n"),
            ("sys/class/dmi/id/bios_vendor", "Dell Inc.\n"),
            ("sys/class/dmi/id/bios_version", "A34\n"),
            ("sys/class/dmi/id/bios_date", "10/19/2020\n"),
            ("proc/cpuinfo", "model name\t: Intel(R) Xeon(R)   CPU\nflags\t\t: fpu lm\n"),
        ]);
        assert_eq!(machine.product.as_deref(), Some("Dell Inc. Precision Tower 7810"));
        assert_eq!(machine.firmware.as_deref(), Some("Dell Inc. A34 10/19/2020"));
        assert_eq!(machine.cpu_model.as_deref(), Some("Intel(R) Xeon(R) CPU"));
        assert_eq!(machine.architecture.as_deref(), Some("x86_64"));
    }

    #[test]
    fn absurd_memory_is_unknown() {
        for total in ["99999999999999999999 kB", "18446744073709551615 kB", "-1 kB", "much", ""] {
            let machine = identity(&[("proc/meminfo", &format!("MemTotal: {total}\n"))]);
            assert_eq!(machine.memory_bytes, None, "{total}");
        }
    }
}

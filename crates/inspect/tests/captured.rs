// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines that were captured as files, read as if they were this one; `machines/README.md` says which.

#[path = "common/capture.rs"]
mod capture;

use std::path::Path;

use machine::snapshot::{Cpu, Preemption};
use machine::{CpuSet, Snapshot};

use crate::capture::lay_out;

fn captured(name: &str) -> Snapshot {
    inspect::read(lay_out(name, |_| None).path())
}

fn cpu(machine: &Snapshot, id: u32) -> &Cpu {
    machine.cpu(id).unwrap()
}

fn online(machine: &Snapshot) -> String {
    machine.online().to_string()
}

#[test]
fn tells_which_cpus_are_offline_without_a_list_of_them() {
    let machine = captured("offline-cpus");
    assert_eq!(machine.cpus.len(), 16);
    assert_eq!(online(&machine), "0-1,3-4,6-12,15");
    assert_eq!(cpu(&machine, 0).siblings.to_string(), "0,8");
    assert_eq!(cpu(&machine, 10).siblings.to_string(), "10");
    assert_eq!(*cpu(&machine, 13), Cpu { id: 13, node: Some(0), ..Cpu::default() });
    assert_eq!(machine.architecture.as_deref(), Some("x86_64"));
    assert_eq!(machine.unread, Vec::<String>::new());
}

#[test]
fn reads_a_hybrid_machine() {
    let machine = captured("hybrid");
    assert_eq!(online(&machine), "0-19");
    assert_eq!(cpu(&machine, 3).siblings.to_string(), "2-3");
    assert_eq!(cpu(&machine, 12).siblings.to_string(), "12");
    assert_eq!(machine.siblings_of(&"2-4".parse().unwrap()).to_string(), "5");
    assert_eq!(cpu(&machine, 19).governor.as_deref(), Some("powersave"));
    assert_eq!(machine.kernel.release.as_deref(), Some("6.1.0-13-amd64"));
    assert_eq!(machine.kernel.preemption, Preemption::Dynamic);
    assert_eq!(machine.cpu_model.as_deref(), Some("13th Gen Intel(R) Core(TM) i7-1370P"));
    assert_eq!(machine.product.as_deref(), Some("HP HP EliteBook 840 14 inch G10 Notebook PC"));
    assert_eq!(machine.firmware.as_deref(), Some("HP V70 Ver. 01.02.03 09/13/2023"));
    assert_eq!(machine.hypervisor, None);
    assert_eq!(machine.container, None);
    assert_eq!(machine.unread, Vec::<String>::new());
}

#[test]
fn reads_an_arm_machine_whose_nohz_full_is_null() {
    let machine = captured("arm64");
    assert_eq!(online(&machine), "0-19");
    assert!(machine.isolation.nohz_full.is_empty());
    assert_eq!(machine.architecture.as_deref(), Some("aarch64"));
    assert_eq!(machine.cpu_model.as_deref(), Some("implementer 0x41 part 0xd87"));
    assert_eq!(cpu(&machine, 7).package, Some(36));
    assert_eq!(machine.hypervisor, None);
    assert_eq!(machine.unread, Vec::<String>::new());
}

#[test]
fn reads_256_cpus_in_nodes_that_are_known_by_mask_only() {
    let machine = captured("ppc64");
    assert_eq!(online(&machine), "0-255");
    assert_eq!(cpu(&machine, 13).siblings.to_string(), "12-15");
    assert_eq!(cpu(&machine, 13).package, None);
    let nodes = [0, 32, 64, 96, 128, 160, 192, 224].map(|id| cpu(&machine, id).node.unwrap());
    assert_eq!(nodes, [0, 1, 4, 5, 8, 9, 12, 13]);
    assert_eq!(machine.cpu_model.as_deref(), Some("POWER7 (architected), altivec supported"));
}

#[test]
fn tells_present_cpus_from_possible_ones() {
    let machine = captured("two-threads");
    assert_eq!((online(&machine).as_str(), machine.cpus.len()), ("0-1", 2));
    assert_eq!(machine.possible.to_string(), "0-7");
    assert_eq!(machine.siblings_of(&CpuSet::from_iter([0])).to_string(), "1");
    assert_eq!(machine.memory_bytes, Some(400_016_779_264 * 1024));
}

#[test]
fn a_contradictory_node_table_leaves_the_nodes_unknown() {
    let machine = captured("wrong-numa");
    assert_eq!(online(&machine), "0-7");
    assert!(machine.cpus.iter().all(|cpu| cpu.node.is_none()));
    assert_eq!(machine.unread, ["/sys/devices/system/node: cpus 0-7 are in several nodes"]);
}

#[test]
fn lists_in_braces_expand_in_order() {
    let text = "[cpu{0-2,5}]\nid: {0-4:4*2}\nlist: {0,6}-{1,7}\nkind: x\n[all]\ntasks: {1-2,9}\nx: a:b\n";
    let expected = [
        ("all/tasks", "1\n2\n9\n"),
        ("all/x", "a:b\n"),
        ("cpu0/id", "0\n"),
        ("cpu0/kind", "x\n"),
        ("cpu0/list", "0-1\n"),
        ("cpu1/id", "0\n"),
        ("cpu1/kind", "x\n"),
        ("cpu1/list", "6-7\n"),
        ("cpu2/id", "4\n"),
        ("cpu2/kind", "x\n"),
        ("cpu2/list", "0-1\n"),
        ("cpu5/id", "4\n"),
        ("cpu5/kind", "x\n"),
        ("cpu5/list", "6-7\n"),
    ];
    assert_eq!(
        capture::files(text),
        expected.map(|(path, content)| (path.to_string(), content.to_string())).into()
    );
}

#[test]
fn every_capture_survives_json() {
    for name in capture::names() {
        let machine = captured(&name);
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), machine, "{name}");
    }
}

#[test]
fn absurd_content_is_named_and_never_believed() {
    let absurd: [&[u8]; 6] =
        [b"-1-4294967296,,", b"\xff\xfe\0\0", b"(((((", b"0-99999999999", &[b'f'; 5000], b"\n\n::::\n"];
    for content in absurd {
        let machine = inspect::read(lay_out("two-threads", |_| Some(content.to_vec())).path());
        let shown = String::from_utf8_lossy(content);
        assert!(
            machine.unread.iter().any(|entry| entry.starts_with("/sys/devices/system/cpu/online: ")),
            "{shown}"
        );
        assert!(machine.cpus.iter().all(|cpu| cpu.core.is_none() && cpu.siblings.is_empty()), "{shown}");
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), machine);
    }
}

#[test]
fn reads_the_machine_it_runs_on() {
    let machine = inspect::read(Path::new("/"));
    assert!(!machine.online().is_empty());
    assert!(machine.kernel.release.is_some());
    assert!(machine.memory_bytes > Some(0));
}

#[test]
fn an_absent_root_is_a_machine_of_which_nothing_is_known() {
    assert_eq!(inspect::read(Path::new("/nonexistent/root")), Snapshot::default());
}

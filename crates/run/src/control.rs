// SPDX-License-Identifier: MIT OR Apache-2.0
//! The control thread: off the measured CPUs and their siblings, and stopped by signals in order.

use machine::{CpuSet, Snapshot};
use rt::Policy;

/// The CPUs for loads and control where none were named: all that are online, allowed to this process,
/// neither measured nor sharing a core with a measured one. Where that leaves none, siblings are used after
/// all.
pub fn house_keeping(machine: &Snapshot, measured: &CpuSet) -> CpuSet {
    let others = machine.online().without(measured);
    let apart = others.without(&machine.siblings_of(measured));
    if apart.is_empty() { others } else { apart }
}

/// Keeps the calling thread, and every thread and process it starts from now on, on `house_keeping`. The
/// thread itself goes before ordinary ones there, where this user may do that: the kernel overwrites what it
/// reads too late, and loads run there, too.
pub fn stay_on(house_keeping: &CpuSet) -> rt::Result<()> {
    let _ = Policy::Fifo(1).apply(true);
    rt::thread::set_affinity(&house_keeping.iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::snapshot::Cpu;

    fn machine(cores: u32) -> Snapshot {
        let cpu = |id| Cpu {
            id,
            online: true,
            siblings: [id, (id + cores) % (2 * cores)].into_iter().collect(),
            ..Cpu::default()
        };
        Snapshot { cpus: (0..2 * cores).map(cpu).collect(), ..Snapshot::default() }
    }

    #[test]
    fn house_keeping_leaves_the_siblings_of_measured_cpus_idle() {
        let measured = "2-3".parse().unwrap();
        assert_eq!(house_keeping(&machine(4), &measured).to_string(), "0-1,4-5");
    }

    #[test]
    fn what_the_control_thread_starts_is_ordinary() {
        let all = rt::thread::affinity().into_iter().collect();
        let of_both = move || {
            stay_on(&all).unwrap();
            let own = Policy::current().unwrap();
            let started = std::thread::spawn(|| Policy::current().unwrap()).join().unwrap();
            (own, started)
        };
        let (own, started) = std::thread::spawn(of_both).join().unwrap();
        assert_eq!(started, Policy::Other);
        // Without the right to a real-time priority it stays as it was.
        assert!([Policy::Fifo(1), Policy::Other].contains(&own), "{own:?}");
    }

    #[test]
    fn house_keeping_uses_a_sibling_where_nothing_else_is_left() {
        let measured = "0".parse().unwrap();
        assert_eq!(house_keeping(&machine(1), &measured).to_string(), "1");
    }
}

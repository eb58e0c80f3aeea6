// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frequency governor and idle states of each CPU.
//!
//! Limit: a latency that a process requests through `/dev/cpu_dma_latency` has no file to read it from.

use crate::tree::Tree;
use machine::Snapshot;
use machine::snapshot::IdleState;

pub(crate) fn read(tree: &mut Tree, machine: &mut Snapshot) {
    for cpu in &mut machine.cpus {
        let folder = format!("sys/devices/system/cpu/cpu{}", cpu.id);
        cpu.governor = tree.word(&format!("{folder}/cpufreq/scaling_governor"));
        (cpu.idle_states, cpu.idle_states_unread) = idle_states(tree, &format!("{folder}/cpuidle"));
        // The file says 0 where there is no bound, and n/a where no latency at all is tolerated.
        cpu.idle_latency_limit_us =
            match tree.text(&format!("{folder}/power/pm_qos_resume_latency_us")).as_deref() {
                Some("n/a") => Some(0),
                Some(text) => text.parse().ok().filter(|limit| *limit != 0),
                None => None,
            };
    }
}

/// The states, and how many more there are that could not be read.
fn idle_states(tree: &mut Tree, folder: &str) -> (Vec<IdleState>, u32) {
    let (mut states, mut unread) = (Vec::new(), 0);
    for number in tree.numbered(folder, "state") {
        let state = format!("{folder}/state{number}");
        let Some(exit_latency_us) = tree.number(&format!("{state}/latency")) else {
            unread += 1;
            continue;
        };
        states.push(IdleState {
            name: tree.word(&format!("{state}/name")).unwrap_or_else(|| format!("state{number}")),
            exit_latency_us,
            // Bits: 1 by the user, 2 by the driver.
            disabled: tree.number::<u64>(&format!("{state}/disable")).is_some_and(|bits| bits != 0),
        });
    }
    (states, unread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;
    use machine::snapshot::Cpu;

    #[test]
    fn reads_the_governor_and_idle_states_in_order() {
        let cpu = "sys/devices/system/cpu/cpu1";
        let file = |path: &str| format!("{cpu}/{path}");
        let states =
            [("state0", "POLL", "0", "0"), ("state2", "C6", "133", "1"), ("state10", "C10", "890", "0")];
        let mut files = vec![(file("cpufreq/scaling_governor"), "schedutil\n".to_string())];
        for (state, name, latency, disabled) in states {
            files.push((file(&format!("cpuidle/{state}/name")), format!("{name}\n")));
            files.push((file(&format!("cpuidle/{state}/latency")), format!("{latency}\n")));
            files.push((file(&format!("cpuidle/{state}/disable")), format!("{disabled}\n")));
        }
        files.push((file("cpuidle/state3/name"), "without latency".to_string()));
        files.push((file("power/pm_qos_resume_latency_us"), "n/a\n".to_string()));
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (_folder, mut tree) = made_of(&files);
        let mut machine = Snapshot { cpus: vec![Cpu { id: 1, ..Cpu::default() }], ..Snapshot::default() };
        read(&mut tree, &mut machine);
        let cpu = &machine.cpus[0];
        let seen: Vec<_> =
            cpu.idle_states.iter().map(|state| (state.name.as_str(), state.disabled)).collect();
        assert_eq!(seen, [("POLL", false), ("C6", true), ("C10", false)]);
        assert_eq!(cpu.idle_states_unread, 1);
        assert_eq!(cpu.idle_states[2].exit_latency_us, 890);
        assert_eq!(cpu.governor.as_deref(), Some("schedutil"));
        assert_eq!(cpu.idle_latency_limit_us, Some(0));
    }

    #[test]
    fn a_resume_latency_of_zero_is_no_bound() {
        let (_folder, mut tree) =
            made_of(&[("sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us", "0\n")]);
        let mut machine = Snapshot { cpus: vec![Cpu::default()], ..Snapshot::default() };
        read(&mut tree, &mut machine);
        assert_eq!(machine.cpus, [Cpu::default()]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's log: only lines about a parameter's effect, and about failures.
//!
//! Live it is `/dev/kmsg`, which `kernel.dmesg_restrict` keeps from all but root; of a captured tree, and as
//! a second choice, `/var/log/dmesg`. The ring may have lost its beginning; then a line that is not there
//! proves nothing.

use super::live;
use crate::tree::Tree;
use machine::inventory::{KernelLog, line_matches};
use machine::registry;

/// Most lines that are kept.
const LINES: usize = 200;

/// Lines that matter besides those that the table of settings names.
const MORE: &[&str] = &[
    "Unknown kernel command line parameters",
    "RT throttling activated",
    "DL replenish lagged too much",
    "Marking TSC unstable",
    "TSC found unstable",
    "timekeeping watchdog*unstable",
    "rcu_sched self-detected stall",
    "rcu_preempt self-detected stall",
    "rcu*detected stalls on CPUs",
    "scheduling while atomic",
    "Fair server disabled",
    "EFI runtime services",
    "Core temperature above threshold",
    "x86/split lock",
    "blocked for more than",
    "soft lockup",
];

pub(super) fn read(tree: &mut Tree) -> KernelLog {
    let patterns = registry::boot().flat_map(|setting| setting.rejected.iter().chain(setting.accepted));
    let patterns: Vec<&str> = patterns.copied().chain(MORE.iter().copied()).collect();
    let mut log = KernelLog::default();
    if tree.live() {
        let path = "/dev/kmsg";
        let mut first = None;
        let read = live::kernel_log(|line, number| {
            first.get_or_insert(number);
            keep(&mut log.lines, &patterns, line);
        });
        match read {
            Ok(()) if first.is_some() => {
                return KernelLog { source: Some(path.into()), from_boot: first == Some(0), ..log };
            }
            Ok(()) => {}
            Err(error) => log.unread = Some(format!("{path}: {}", error::reason(&error))),
        }
    }
    let path = "var/log/dmesg";
    if let Some(text) = tree.hint(path) {
        // The kernel's banner comes first.
        log.from_boot = text.lines().take(3).any(|line| line.contains("Linux version"));
        for line in text.lines() {
            keep(&mut log.lines, &patterns, line);
        }
        log.source = Some(format!("/{path}"));
        log.unread = None;
    }
    log
}

fn keep(lines: &mut Vec<String>, patterns: &[&str], line: &str) {
    if lines.len() < LINES && patterns.iter().any(|pattern| line_matches(pattern, line)) {
        let text =
            line.split_once("] ").filter(|(stamp, _)| stamp.starts_with('[')).map_or(line, |(_, text)| text);
        lines.push(text.chars().take(1000).map(|c| if c.is_control() { ' ' } else { c }).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn keeps_the_lines_that_matter_without_their_stamps() {
        let text = "[    0.000000] Linux version 6.12.1\n\
            [    0.1] Housekeeping: nohz unsupported. Build with CONFIG_NO_HZ_FULL\n\
            [    0.2] Something else\n\
            [    0.3] \x1b[31mUnknown kernel command line parameters \"foo\", will be passed to user space.\n";
        let log = read(&mut made_of(&[("var/log/dmesg", text)]).1);
        assert_eq!(log.source.as_deref(), Some("/var/log/dmesg"));
        assert!(log.from_boot);
        assert_eq!(log.lines.len(), 2);
        assert_eq!(log.matching("nohz unsupported").count(), 1);
        assert!(log.lines[1].starts_with(" [31mUnknown"), "{:?}", log.lines);
    }

    #[test]
    fn a_log_that_is_not_there_has_no_source() {
        assert_eq!(read(&mut made_of(&[]).1), KernelLog::default());
    }
}

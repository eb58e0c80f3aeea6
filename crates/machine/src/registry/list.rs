// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of CPUs as the boot line has them: ranges, `2-20:1/4`, `N` for the last CPU, `all`, and the flags of
//! `isolcpus`.
//!
//! As `bitmap_parselist` (lib/bitmap-str.c) and `housekeeping_isolcpus_setup` (kernel/sched/isolation.c) read
//! them. A CPU beyond the last possible one makes the kernel drop the whole parameter, so it is an error here
//! too. Limit: `N` and `all` are taken since Linux 5.13 and 5.14; older kernels drop the list.

use super::ValueKind;
use crate::CpuSet;

/// The elements of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ValueList {
    /// Flags before the list.
    pub flags: Vec<String>,
    /// The CPUs.
    pub cpus: CpuSet,
    /// Whether it has `N` or `all`, which other readers of the list misread.
    pub by_letter: bool,
}

/// Why the kernel drops a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It names a CPU that cannot be.
    #[error("cpu {0} is beyond the last one, {1}; the kernel drops the whole list")]
    OutOfRange(u64, u32),
    /// It is none.
    #[error("'{0}' is not a list of CPUs; the kernel drops it")]
    Unreadable(String),
}

/// The flags that `isolcpus` knows.
pub const FLAGS: &[&str] = &["nohz", "domain", "managed_irq"];

/// Reads the value of a parameter that takes CPUs, on a machine whose highest possible CPU is `last`.
pub fn read(takes: ValueKind, value: &str, last: u32) -> Result<ValueList, Wrong> {
    let mut listed = ValueList::default();
    let mut rest = value;
    match takes {
        ValueKind::FlagsAndCpus => {
            while rest.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
                let (flag, after) = rest.split_once(',').unwrap_or((rest, ""));
                if !flag.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
                    return Err(Wrong::Unreadable(shorten(value)));
                }
                listed.flags.push(flag.to_string());
                rest = after;
            }
        }
        ValueKind::MaybeCpus if value.is_empty() => {
            listed.cpus = (0..=last).collect();
            return Ok(listed);
        }
        _ => {}
    }
    for region in rest.split(',').map(str::trim).filter(|region| !region.is_empty()) {
        add(region, last, &mut listed)
            .map_err(|error| error.unwrap_or_else(|| Wrong::Unreadable(shorten(value))))?;
    }
    Ok(listed)
}

/// One of `3`, `3-7`, `3-7:1/2`, `3-N`, `all`; `Err(None)` where it is none of them.
fn add(region: &str, last: u32, listed: &mut ValueList) -> Result<(), Option<Wrong>> {
    let (range, pattern) = match region.split_once(':') {
        Some((range, pattern)) => (range, Some(pattern)),
        None => (region, None),
    };
    let mut number = |text: &str| -> Result<u64, Option<Wrong>> {
        if text == "N" {
            listed.by_letter = true;
            return Ok(last.into());
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(None);
        }
        text.parse().map_err(|_| None)
    };
    let (first, end) = if range.eq_ignore_ascii_case("all") {
        (0, number("N")?)
    } else {
        match range.split_once('-') {
            Some((first, end)) => (number(first)?, number(end)?),
            None => {
                let cpu = number(range)?;
                (cpu, cpu)
            }
        }
    };
    if first > end {
        return Err(None);
    }
    if end > u64::from(last) {
        return Err(Some(Wrong::OutOfRange(end, last)));
    }
    let (used, group) = match pattern {
        None => (1, 1),
        Some(pattern) => {
            let (used, group) = pattern.split_once('/').ok_or(None)?;
            (used.parse::<u64>().map_err(|_| None)?, group.parse::<u64>().map_err(|_| None)?)
        }
    };
    if group == 0 || used == 0 || used > group {
        return Err(None);
    }
    let chosen = (first..=end).filter(|cpu| (cpu - first) % group < used);
    listed.cpus = listed.cpus.or(&chosen.filter_map(|cpu| u32::try_from(cpu).ok()).collect());
    Ok(())
}

fn shorten(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(takes: ValueKind, value: &str) -> String {
        read(takes, value, 7).map_or_else(|why| why.to_string(), |listed| listed.cpus.to_string())
    }

    #[test]
    fn reads_what_the_kernel_reads() {
        for (value, expected) in [
            ("2-3", "2-3"),
            ("", ""),
            ("4-N", "4-7"),
            ("all", "0-7"),
            ("ALL", "0-7"),
            ("0-7:1/4", "0,4"),
            ("0-7:2/4,7", "0-1,4-5,7"),
            (" 1, 2 ", "1-2"),
            ("8", "cpu 8 is beyond the last one, 7; the kernel drops the whole list"),
            ("1,2-99", "cpu 99 is beyond the last one, 7; the kernel drops the whole list"),
            ("3-1", "'3-1' is not a list of CPUs; the kernel drops it"),
            ("4-n", "'4-n' is not a list of CPUs; the kernel drops it"),
            ("0-7:3/2", "'0-7:3/2' is not a list of CPUs; the kernel drops it"),
            ("-1", "'-1' is not a list of CPUs; the kernel drops it"),
            ("0x3", "'0x3' is not a list of CPUs; the kernel drops it"),
        ] {
            assert_eq!(cpus(ValueKind::Cpus, value), expected, "{value}");
        }
        assert_eq!(cpus(ValueKind::MaybeCpus, ""), "0-7");
    }

    #[test]
    fn flags_stand_before_the_list() {
        let listed = read(ValueKind::FlagsAndCpus, "managed_irq,domain,2-3", 7).unwrap();
        assert_eq!(
            (listed.flags, listed.cpus.to_string().as_str()),
            (vec!["managed_irq".into(), "domain".into()], "2-3")
        );
        // Begins with a letter, so it is a flag, and no CPU is named.
        let all = read(ValueKind::FlagsAndCpus, "all", 7).unwrap();
        assert_eq!((all.flags, all.cpus.len()), (vec!["all".to_string()], 0));
        assert!(read(ValueKind::FlagsAndCpus, "inverse2,3", 7).is_err());
        assert!(read(ValueKind::FlagsAndCpus, "4-N", 7).unwrap().by_letter);
    }
}

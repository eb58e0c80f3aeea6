// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of a boot line that decide together which CPUs there are, and which are isolated.

use super::{ValueKind, list};
use crate::CpuSet;
use crate::boot::line::{BootWord, kernel_words};
use crate::snapshot::Kernel;

/// The word that leaves the fewest CPUs to the next boot, and how many: the lowest numbers.
pub fn limit(line: &str) -> Option<(BootWord<'_>, u32)> {
    let limits = kernel_words(line).filter_map(|word| {
        let number = word.value.and_then(|value| value.parse::<u32>().ok());
        match word.name.replace('-', "_").as_str() {
            "nosmp" => Some((word, 1)),
            // Without any but the one that boots.
            "maxcpus" => number.map(|number| (word, number.max(1))),
            "nr_cpus" | "possible_cpus" => number.filter(|number| *number > 0).map(|number| (word, number)),
            _ => None,
        }
    });
    limits.min_by_key(|(_, number)| *number)
}

/// Those of `cpus` that a boot with `line` does not have, and the word that takes them away.
pub fn taken_away<'a>(line: &'a str, cpus: &CpuSet) -> Option<(BootWord<'a>, CpuSet)> {
    let (word, number) = limit(line)?;
    let gone: CpuSet = cpus.iter().filter(|cpu| *cpu >= number).collect();
    (!gone.is_empty()).then_some((word, gone))
}

/// A word that a kernel drops with a warning, and the one before it that says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedWord<'a> {
    /// The dropped one.
    pub word: BootWord<'a>,
    /// The one before it.
    pub by: BootWord<'a>,
}

/// The words of `line` that `kernel` drops since an earlier one names other CPUs.
///
/// `isolcpus=` and `nohz_full=` had one mask from Linux 4.15 to 5.17 (housekeeping_setup() in
/// kernel/sched/isolation.c), and have one for each kind of work since. Lists with letters, and kernels that
/// take over much of newer ones, are not judged.
pub fn dropped<'a>(line: &'a str, kernel: &Kernel) -> Vec<DroppedWord<'a>> {
    let one_mask = match (kernel.at_least(4, 15), kernel.at_least(5, 18)) {
        (Some(true), Some(newer)) if !kernel.takes_over() => !newer,
        _ => return Vec::new(),
    };
    let mut taken: Vec<(BootWord<'a>, list::ValueList)> = Vec::new();
    let mut dropped = Vec::new();
    for word in kernel_words(line) {
        let (takes, usual) = match () {
            () if word.is("isolcpus") => (ValueKind::FlagsAndCpus, "domain"),
            () if word.is("nohz_full") => (ValueKind::Cpus, "nohz"),
            () => continue,
        };
        let Ok(mut read) = list::read(takes, word.value.unwrap_or_default(), LAST) else { continue };
        if read.by_letter || read.cpus.is_empty() {
            continue;
        }
        if read.flags.is_empty() {
            read.flags.push(usual.to_string());
        }
        let against = |(_, other): &&(BootWord<'a>, list::ValueList)| {
            let meets = one_mask || other.flags.iter().any(|flag| read.flags.contains(flag));
            meets && other.cpus != read.cpus
        };
        match taken.iter().find(against) {
            Some((by, _)) => dropped.push(DroppedWord { word, by: *by }),
            None => taken.push((word, read)),
        }
    }
    dropped
}

/// Above the last CPU of any machine (CONFIG_NR_CPUS).
const LAST: u32 = 8191;

/// The CPUs that the last `isolcpus=` of `words` names; none where there is none that can be read.
pub fn isolated<S: AsRef<str>>(words: &[S]) -> CpuSet {
    let word = words.iter().map(|word| BootWord::new(word.as_ref())).rfind(|word| word.is("isolcpus"));
    let value = word.and_then(|word| word.value).unwrap_or_default();
    list::read(ValueKind::FlagsAndCpus, value, LAST).map(|read| read.cpus).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_of_cpus_counts() {
        for (line, expected) in [
            ("quiet", None),
            ("maxcpus=4 nr-cpus=2", Some(("nr-cpus=2", 2))),
            ("nr_cpus=0 possible_cpus=0", None),
            ("maxcpus=0", Some(("maxcpus=0", 1))),
            ("nosmp", Some(("nosmp", 1))),
            ("possible_cpus=3 -- nr_cpus=1", Some(("possible_cpus=3", 3))),
            ("maxcpus=all", None),
        ] {
            assert_eq!(limit(line).map(|(word, number)| (word.raw, number)), expected, "{line}");
        }
        let cpus = isolated(&["skew_tick=1", "isolcpus=managed_irq,domain,2-3"]);
        let gone = taken_away("nr_cpus=3", &cpus).map(|(_, gone)| gone.to_string());
        assert_eq!((cpus.to_string(), gone), ("2-3".into(), Some("3".into())));
        assert_eq!(taken_away("nr_cpus=4", &cpus), None);
    }

    #[test]
    fn a_list_against_an_earlier_one_is_dropped() {
        let both = Some("nohz_full=3");
        for (release, line, expected) in [
            ("5.15.0-rt", "isolcpus=2-3 nohz_full=3", both),
            ("5.15.0-rt", "isolcpus=managed_irq,domain,3 nohz_full=3", None),
            ("5.15.0-rt", "nohz_full=3 isolcpus=2", Some("isolcpus=2")),
            ("4.19.0", "isolcpus=2-3 quiet nohz_full=3", both),
            ("4.14.0", "isolcpus=2-3 nohz_full=3", None),
            ("5.18.0", "isolcpus=2-3 nohz_full=3", None),
            ("6.12.0", "isolcpus=nohz,domain,2-3 nohz_full=3", both),
            ("6.12.0", "isolcpus=2 isolcpus=managed_irq,3", None),
            ("5.14.0-427.el9.x86_64", "isolcpus=2-3 nohz_full=3", None),
            ("5.15.0", "isolcpus=2-N nohz_full=3", None),
            ("5.15.0", "isolcpus=2-3 -- nohz_full=3", None),
            ("", "isolcpus=2-3 nohz_full=3", None),
        ] {
            let kernel = Kernel { release: Some(release.to_string()), ..Kernel::default() };
            let found = dropped(line, &kernel).first().map(|found| found.word.raw);
            assert_eq!(found, expected, "{release} {line}");
        }
    }
}

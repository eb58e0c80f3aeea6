// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's own record of its interruptions, set against the scope's: two lists of names in order, aligned
//! so that as many as possible agree. Nothing else joins them: the guest's clock and the emulator's are not
//! one.
//!
//! The guest traces for longer than the window lasts, so what it names before the first and after the last
//! agreement does not count against it: of all alignments of the same names the one that spans the least of
//! its record is taken.

use std::collections::BTreeMap;

use evidence::lab::Witness;
use similar::{Algorithm, DiffOp};

use crate::scope::{self, Excursion};

/// No longer lists are aligned, since that takes time by the square; the rest is counted and reported.
const LONGEST: usize = 20_000;

/// How many differences are listed.
const TOLD: usize = 5;

/// The collector's names of an excursion, and the functions that the kernel enters for the same thing: the
/// scope sees those. One excursion may hold several: an interrupt that comes while another is served does not
/// begin a new one.
const NAMES: &[(&str, &str)] = &[
    ("local timer", "sysvec_apic_timer_interrupt"),
    ("reschedule", "sysvec_reschedule_ipi"),
    ("call function", "sysvec_call_function"),
    ("call function", "sysvec_call_function_single"),
    ("irq work", "sysvec_irq_work"),
    ("page fault", "exc_page_fault"),
    ("system call", "do_syscall_64"),
    ("system call", "el0_svc"),
    ("irq", "__handle_irq_event_percpu"),
    // arm64's timer and IPIs; the latter's own names would be a second time.
    ("irq", "handle_percpu_devid_irq"),
];

/// Compares what the collector named of one CPU with what the scope recorded of it.
pub fn compare(scenario: &str, cpu: u32, trace: &str, record: &str) -> Witness {
    let (named, named_beyond) = longest(trace.lines().filter_map(event));
    let seen = scope::excursions(record).filter(|one| one.cpu == cpu);
    let (seen, seen_beyond) = longest(seen.flat_map(served));
    let pairs = tightest(&named, &seen);
    let within = match (pairs.first(), pairs.last()) {
        (Some((first, _)), Some((last, _))) => *first..last + 1,
        // Silence: all that the guest names lies around the window.
        _ if seen.is_empty() => 0..0,
        _ => 0..named.len(),
    };
    let unmatched = within.clone().filter(|n| pairs.binary_search_by_key(n, |(a, _)| *a).is_err());
    let untrue = unmatched.map(|n| format!("only the guest names {}", named[n]));
    let seen_by_guest = pairs.iter().map(|(_, b)| *b).collect::<std::collections::BTreeSet<_>>();
    let unnamed = (0..seen.len())
        .filter(|n| !seen_by_guest.contains(n))
        .map(|n| format!("the guest does not name {}", seen[n]));
    let (named_count, matched) = (within.len() as u64, pairs.len() as u64);
    let share = |of: u64| if of == 0 { 1.0 } else { matched as f64 / of as f64 };
    Witness {
        scenario: scenario.to_string(),
        cpu,
        named: named_count,
        seen: seen.len() as u64,
        named_beyond,
        seen_beyond,
        matched,
        recall: share(seen.len() as u64),
        precision: share(named_count),
        differences: untrue.chain(unnamed).take(TOLD).collect(),
    }
}

/// The aligned entries of a list, and how many are beyond.
fn longest(mut list: impl Iterator<Item = String>) -> (Vec<String>, u64) {
    let compared = list.by_ref().take(LONGEST).collect();
    (compared, list.count() as u64)
}

/// The event of a line: `12345678 local timer`.
fn event(line: &str) -> Option<String> {
    let name = line.split_once(' ')?.1.trim();
    NAMES.iter().any(|(event, _)| *event == name).then(|| name.to_string())
}

/// The events of one excursion, as the collector names them; an excursion that holds none that is known
/// stands for itself.
fn served(excursion: Excursion) -> Vec<String> {
    let mut served = Vec::new();
    for (function, count) in &excursion.path {
        if let Some((event, _)) = NAMES.iter().find(|(_, name)| name == function) {
            served.extend(std::iter::repeat_n(
                event.to_string(),
                usize::try_from(*count).unwrap_or(LONGEST).min(LONGEST),
            ));
        }
    }
    if served.is_empty() {
        served.push(scope::name(&excursion.entry, excursion.offset));
    }
    served
}

/// As many names as two lists have in common in one order, as pairs of places. The guest traces from before
/// the window until after it, so these names are then looked for where they span the least of its list.
fn tightest(named: &[String], seen: &[String]) -> Vec<(usize, usize)> {
    let mut numbers = BTreeMap::new();
    let mut numbered = |list: &[String]| {
        let number = |name: &String| {
            let next = numbers.len();
            *numbers.entry(name.clone()).or_insert(next)
        };
        list.iter().map(number).collect::<Vec<_>>()
    };
    let (named, seen) = (numbered(named), numbered(seen));
    let mut common = Vec::new();
    for part in similar::capture_diff_slices(Algorithm::Myers, &named, &seen) {
        if let DiffOp::Equal { new_index, len, .. } = part {
            common.extend(new_index..new_index + len);
        }
    }
    let wanted = common.iter().map(|n| seen[*n]).collect::<Vec<_>>();
    shortest(&named, &wanted).into_iter().zip(common).collect()
}

/// Where all of `wanted` lie in order in the shortest stretch of a list; empty where they do not.
fn shortest(list: &[usize], wanted: &[usize]) -> Vec<usize> {
    let (mut best, mut from) = (Vec::new(), 0);
    let Some(last) = wanted.len().checked_sub(1) else { return best };
    loop {
        // The first end from here on, and then the last begin for that end.
        let mut wants = wanted.iter().peekable();
        let Some(end) = (from..list.len())
            .find(|n| wants.next_if(|want| **want == list[*n]).is_some() && wants.len() == 0)
        else {
            return best;
        };
        let (mut places, mut place) = (vec![end; wanted.len()], end);
        for n in (0..last).rev() {
            place -= 1;
            while list[place] != wanted[n] {
                place -= 1;
            }
            places[n] = place;
        }
        if best.is_empty() || end - places[0] < best[last] - best[0] {
            best.clone_from(&places);
        }
        from = places[0] + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "1000 local timer\n2000 local timer\n2500 other vector\n3000 call function\n4000 irq work\n5000 local timer\n";

    fn record(excursions: &[(&str, &[(&str, u64)])]) -> String {
        let line = |(entry, path): &(&str, &[(&str, u64)])| {
            let path = serde_json::to_string(path).unwrap();
            format!("{{\"cpu\":1,\"n\":0,\"entry\":\"{entry}\",\"instructions\":1,\"path\":{path}}}\n")
        };
        excursions.iter().map(line).collect()
    }

    #[test]
    fn a_guest_that_names_what_the_scope_saw_has_recall_and_precision_of_one() {
        let record = record(&[
            ("asm_sysvec_apic_timer_interrupt", &[("sysvec_apic_timer_interrupt", 2)]),
            (
                "asm_sysvec_call_function_single",
                &[("sysvec_call_function_single", 1), ("sysvec_irq_work", 1)],
            ),
        ]);
        let witness = compare("x", 1, TRACE, &record);
        assert_eq!((witness.seen, witness.named, witness.matched), (4, 4, 4));
        assert_eq!((witness.recall, witness.precision, witness.differences.len()), (1.0, 1.0, 0));
    }

    #[test]
    fn what_the_guest_names_around_the_window_does_not_count() {
        let outside = "1000 local timer\n1500 system call\n";
        let inside = "1000 local timer\n".repeat(3);
        let timer: (&str, &[(&str, u64)]) = ("asm_x", &[("sysvec_apic_timer_interrupt", 1)]);
        let after = "1500 system call\n".to_string() + outside;
        let witness =
            compare("x", 1, &[&outside.repeat(2), inside.as_str(), &after].concat(), &record(&[timer; 3]));
        assert_eq!((witness.seen, witness.named, witness.matched), (3, 3, 3));
        let silent = compare("x", 1, &after, "");
        assert_eq!((silent.seen, silent.named, silent.recall, silent.precision), (0, 0, 1.0, 1.0));
    }

    #[test]
    fn names_are_looked_for_where_they_span_the_least() {
        assert_eq!(shortest(&[1, 2, 9, 1, 9, 9, 2, 1, 2, 3], &[1, 2]), [0, 1]);
        assert_eq!(shortest(&[1, 9, 1, 9, 3, 2, 3, 1], &[1, 2, 3]), [2, 5, 6]);
        assert_eq!(shortest(&[1, 2], &[2, 1]), [0; 0]);
        assert_eq!(shortest(&[1], &[]), [0; 0]);
    }

    #[test]
    fn what_is_beyond_the_longest_lists_is_counted() {
        let line = "1000 local timer\n";
        let timer: (&str, &[(&str, u64)]) = ("asm_x", &[("sysvec_apic_timer_interrupt", 1)]);
        let witness = compare("x", 1, &line.repeat(LONGEST + 7), &record(&vec![timer; LONGEST + 3]));
        assert_eq!((witness.named_beyond, witness.seen_beyond), (7, 3));
        assert_eq!((witness.seen, witness.matched), (LONGEST as u64, LONGEST as u64));
    }

    #[test]
    fn what_only_one_of_them_saw_is_told() {
        let record = record(&[
            ("asm_sysvec_apic_timer_interrupt", &[("sysvec_apic_timer_interrupt", 1)]),
            ("asm_exc_page_fault", &[("exc_page_fault", 1)]),
            ("asm_sysvec_irq_work", &[("sysvec_irq_work", 1)]),
        ]);
        let witness = compare("x", 1, TRACE, &record);
        assert!(witness.recall < 1.0 && witness.precision < 1.0);
        assert!(witness.differences.contains(&"the guest does not name page fault".to_string()));
        assert!(witness.differences.contains(&"only the guest names call function".to_string()));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's own record of its interruptions, set against the scope's: two lists of names in order, aligned so that
//! as many as possible agree. Nothing else joins them: the guest's clock and the emulator's are not one.
//!
//! The guest traces for longer than the window lasts, so what it names before the first and after the last agreement
//! does not count against it.

use evidence::lab::Witness;

use crate::scope;

/// No longer lists are aligned; the rest is cut off on both sides.
const LONGEST: usize = 4000;

/// How many differences are told.
const TOLD: usize = 5;

/// Tracepoints of entries, and the scope's names for them. An interrupt of a device has one entry for each vector.
const NAMES: &[(&str, &str)] = &[
    ("local_timer_entry", "asm_sysvec_apic_timer_interrupt"),
    ("reschedule_entry", "asm_sysvec_reschedule_ipi"),
    ("call_function_entry", "asm_sysvec_call_function"),
    ("call_function_single_entry", "asm_sysvec_call_function_single"),
    ("irq_work_entry", "asm_sysvec_irq_work"),
    ("sys_enter", "entry_SYSCALL_64"),
    ("irq_handler_entry", "irq_vector"),
];

/// Compares what tracefs printed for one CPU with what the scope recorded of it.
pub fn compare(scenario: &str, cpu: u32, trace: &str, record: &str) -> Witness {
    let named = trace.lines().filter_map(event).take(LONGEST).collect::<Vec<_>>();
    let seen = scope::excursions(record).filter(|one| one.cpu == cpu);
    let seen = seen.map(|one| class(&scope::name(&one.entry, one.offset))).take(LONGEST).collect::<Vec<_>>();
    let pairs = align(&named, &seen);
    let within = match (pairs.first(), pairs.last()) {
        (Some((first, _)), Some((last, _))) => *first..last + 1,
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
        matched,
        recall: share(seen.len() as u64),
        precision: share(named_count),
        differences: untrue.chain(unnamed).take(TOLD).collect(),
    }
}

/// The entry that a line of a trace names: `isolator-99 [001] d.h.. 12.345678: local_timer_entry: vector=236`.
fn event(line: &str) -> Option<String> {
    let name = line.split(": ").nth(1)?.split(':').next()?.trim();
    NAMES.iter().find(|(event, _)| *event == name).map(|(_, entry)| entry.to_string())
}

fn class(entry: &str) -> String {
    if entry.starts_with("irq_vector") { "irq_vector".to_string() } else { entry.to_string() }
}

/// The longest common subsequence of two lists, as pairs of places in order.
fn align(a: &[String], b: &[String]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    let mut longest = vec![0u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * width + j] = if a[i] == b[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "# tracer: nop\n\
        isolator-99 [001] d.h.. 1.000: local_timer_entry: vector=236\n\
        isolator-99 [001] d.h.. 2.000: local_timer_entry: vector=236\n\
        isolator-99 [001] d.h.. 3.000: call_function_single_entry: vector=251\n\
        isolator-99 [001] d.h.. 4.000: irq_work_entry: vector=246\n\
        isolator-99 [001] d.h.. 5.000: local_timer_entry: vector=236\n";

    fn record(entries: &[&str]) -> String {
        let line = |e: &&str| format!("{{\"cpu\":1,\"n\":0,\"entry\":\"{e}\",\"instructions\":1}}\n");
        entries.iter().map(line).collect()
    }

    #[test]
    fn a_guest_that_names_what_the_scope_saw_has_recall_and_precision_of_one() {
        let record = record(&[
            "asm_sysvec_apic_timer_interrupt",
            "asm_sysvec_call_function_single",
            "asm_sysvec_irq_work",
        ]);
        let witness = compare("x", 1, TRACE, &record);
        assert_eq!((witness.seen, witness.matched, witness.recall, witness.precision), (3, 3, 1.0, 0.75));
    }

    #[test]
    fn what_only_one_of_them_saw_is_told() {
        let record =
            record(&["asm_sysvec_apic_timer_interrupt", "asm_exc_page_fault", "asm_sysvec_irq_work"]);
        let witness = compare("x", 1, TRACE, &record);
        assert!(witness.recall < 1.0 && witness.precision < 1.0);
        assert!(witness.differences.contains(&"the guest does not name asm_exc_page_fault".to_string()));
    }
}

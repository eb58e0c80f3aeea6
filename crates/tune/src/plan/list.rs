// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of CPUs and cores as users write them, and their faults. Whether the machine has them is asked
//! later.

use machine::CpuSet;

use super::choose::refuse;
use crate::action::PlanRefusal;

/// The CPUs in `text`; each named once, by number.
pub fn cpus(text: &str) -> Result<CpuSet, PlanRefusal> {
    let text = text.trim();
    if text.is_empty() {
        return refuse(
            "the list of CPUs is empty",
            "name some (--cpus 2-3), or say how many cores (--cores 1)",
        );
    }
    if let Some(word) = text.split([',', '-']).find(|word| matches!(word.trim(), "N" | "n" | "all")) {
        return refuse(
            format!("'{}' in a list of CPUs means something else to each kernel and tool", word.trim()),
            "write the number of the last CPU instead",
        );
    }
    if text.contains(':') {
        return refuse(
            "strides (0-7:1/2) are not understood by all that reads the list",
            "name the CPUs (0,2,4,6)",
        );
    }
    let set: CpuSet = text.parse().map_err(|error: machine::cpuset::CpuSetError| {
        let text = error.to_string();
        let (reason, cure) = text.split_once("; ").unwrap_or((&text, "write it as 0,2-5"));
        PlanRefusal { reason: reason.to_string(), cure: cure.to_string() }
    })?;
    let named: usize = text.split(',').map(length).sum();
    if named > set.len() {
        let twice = set.iter().find(|cpu| text.split(',').filter(|part| holds(part, *cpu)).count() > 1);
        return refuse(
            format!("cpu {} is named twice", twice.unwrap_or_default()),
            format!("name each once (--cpus {set})"),
        );
    }
    Ok(set)
}

/// The number of cores in `text`.
pub fn count(text: &str) -> Result<u32, PlanRefusal> {
    match text.trim().parse() {
        Ok(0) => refuse("no core is asked for", "ask for at least one (--cores 1)"),
        Ok(count) => Ok(count),
        Err(_) => refuse(
            format!("'{}' is not a number of cores", text.trim().chars().take(20).collect::<String>()),
            "say how many physical cores to isolate (--cores 2)",
        ),
    }
}

/// How many CPUs a part of a list that parses names.
fn length(part: &str) -> usize {
    match ends(part) {
        Some((first, last)) => (last - first) as usize + 1,
        None => 0,
    }
}

fn holds(part: &str, cpu: u32) -> bool {
    ends(part).is_some_and(|(first, last)| (first..=last).contains(&cpu))
}

fn ends(part: &str) -> Option<(u32, u32)> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let ends = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (ends.0 <= ends.1).then_some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_each_cpu_once_and_by_number() {
        assert_eq!(cpus(" 2,4-5 ").unwrap().to_string(), "2,4-5");
        for (text, said) in [
            (
                "",
                "cannot plan: the list of CPUs is empty; name some (--cpus 2-3), or say how many cores (--cores 1)",
            ),
            (
                "4-N",
                "cannot plan: 'N' in a list of CPUs means something else to each kernel and tool; write the number of the \
                 last CPU instead",
            ),
            ("2-4,3", "cannot plan: cpu 3 is named twice; name each once (--cpus 2-4)"),
            ("x", "cannot plan: 'x' is not a list of CPUs: a CPU is a number; write it as 0,2-5"),
            (
                "3-1",
                "cannot plan: '3-1' is not a list of CPUs: a range ends before it begins; write it as 0,2-5",
            ),
            ("-1", "cannot plan: '-1' is not a list of CPUs: a CPU is a number; write it as 0,2-5"),
            (
                "0-7:1/2",
                "cannot plan: strides (0-7:1/2) are not understood by all that reads the list; name the CPUs (0,2,4,6)",
            ),
        ] {
            assert_eq!(cpus(text).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn a_number_of_cores_is_above_zero() {
        assert_eq!(count("2"), Ok(2));
        for text in ["0", "-1", "1.5", "two", "", "99999999999"] {
            let said = count(text).unwrap_err().to_string();
            assert!(said.contains("(--cores"), "{said}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Taints as people read them: what disturbed several loads or CPUs alike is one line.

use std::collections::BTreeMap;

use evidence::Taint;
use evidence::document::ProveDocument;
use machine::CpuSet;

use crate::text;

/// Taints that differ in load, CPU and figures at the most.
pub(crate) struct TaintGroup<'a>(Vec<&'a Taint>);

/// All of `taints`, those that are alike together, in the order of the first of each.
pub(crate) fn groups(taints: &[Taint]) -> Vec<TaintGroup<'_>> {
    let mut groups: Vec<TaintGroup> = Vec::new();
    for taint in taints {
        match groups.iter_mut().find(|group| alike(group.0[0], taint)) {
            Some(group) => group.0.push(taint),
            None => groups.push(TaintGroup(vec![taint])),
        }
    }
    groups
}

/// Taints that the user accepted, as reasons why a verdict does not say more.
pub(crate) fn accepted(document: &ProveDocument) -> Vec<String> {
    let groups = groups(&document.taints);
    let accepted = groups.iter().filter(|group| group.accepted());
    accepted
        .map(|group| format!("accepted taint {}{}: {}", group.code(), group.place(), group.reason()))
        .collect()
}

/// Everything that speaks against a verdict, for a page, with taints that are alike as one reason.
pub(crate) fn reasons(document: &ProveDocument) -> Vec<String> {
    let groups = groups(&document.taints);
    let said = groups.iter().enumerate().flat_map(|(place, group)| {
        group.0.iter().map(move |taint| (format!("tainted by {taint}"), (place, group)))
    });
    let said = said.collect::<BTreeMap<_, _>>();
    let mut given = vec![false; groups.len()];
    let mut reasons = Vec::new();
    for reason in &document.verdict.reasons {
        match said.get(&**reason) {
            None => reasons.push(reason.page().to_string()),
            Some((place, group)) if !std::mem::replace(&mut given[*place], true) => {
                reasons.push(format!("tainted by {}{}: {}", group.code(), group.place(), group.reason()));
            }
            Some(_) => {}
        }
    }
    reasons
}

impl TaintGroup<'_> {
    pub fn code(&self) -> &str {
        &self.0[0].code
    }

    pub fn accepted(&self) -> bool {
        self.0[0].accepted
    }

    pub fn cure(&self) -> Option<&str> {
        self.0[0].cure.as_deref()
    }

    /// Each of them where there are several.
    pub fn each(&self) -> Vec<String> {
        let several = self.0.iter().filter(|_| self.0.len() > 1);
        several.map(|taint| text::clean(&taint.to_string())).collect()
    }

    /// ` under net on cpu 1`, or ` 3 times (under cpu, net; on cpus 1-2)`; empty where it disturbed every
    /// row.
    pub fn place(&self) -> String {
        let mut loads: Vec<String> = Vec::new();
        for load in self.0.iter().filter_map(|taint| taint.load.as_deref()) {
            let load = text::short(load, 24);
            if !loads.contains(&load) {
                loads.push(load);
            }
        }
        let cpus = self.0.iter().filter_map(|taint| taint.cpu).collect::<CpuSet>();
        let mut places = Vec::new();
        if !loads.is_empty() {
            places.push(format!("under {}", loads.join(", ")));
        }
        if !cpus.is_empty() {
            places.push(format!("on {}", text::cpus(&cpus)));
        }
        match (self.0.len(), places.is_empty()) {
            (_, true) => String::new(),
            (1, _) => format!(" {}", places.join(" ")),
            (many, _) => format!(" {many} times ({})", places.join("; ")),
        }
    }

    /// The reason, with the span of each figure: `the hypervisor took 10 to 250 ms`.
    pub fn reason(&self) -> String {
        let mut words = self.0[0].reason.split(' ').map(|word| (word, word)).collect::<Vec<_>>();
        for taint in &self.0[1..] {
            for ((low, high), word) in words.iter_mut().zip(taint.reason.split(' ')) {
                if number(word) < number(low) {
                    *low = word;
                }
                if number(word) > number(high) {
                    *high = word;
                }
            }
        }
        let span = |(low, high): &(&str, &str)| match low == high {
            true => low.to_string(),
            false => format!("{low} to {high}"),
        };
        text::clean(&words.iter().map(span).collect::<Vec<_>>().join(" "))
    }
}

fn alike(one: &Taint, other: &Taint) -> bool {
    let of = |taint: &Taint| {
        (taint.code.clone(), taint.cure.clone(), taint.accepted, taint.load.is_some(), taint.cpu.is_some())
    };
    of(one) == of(other) && figures_apart(&one.reason, &other.reason)
}

/// Whether two texts say the same but for their figures. A number after `cpu` is a name.
fn figures_apart(one: &str, other: &str) -> bool {
    let (one, other) = (one.split(' ').collect::<Vec<_>>(), other.split(' ').collect::<Vec<_>>());
    let named = |place: usize| place > 0 && matches!(one[place - 1], "cpu" | "cpus");
    one.len() == other.len()
        && one
            .iter()
            .zip(&other)
            .enumerate()
            .all(|(place, (a, b))| a == b || (number(a).is_some() && number(b).is_some() && !named(place)))
}

fn number(word: &str) -> Option<f64> {
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    if digits.starts_with(|first: char| first.is_ascii_digit()) {
        word.replace(',', "").parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::taint;

    fn steal(load: &str, cpu: u32, reason: &str) -> Taint {
        Taint { load: Some(load.into()), cpu: Some(cpu), ..Taint::new(taint::STEAL, reason, "isolate") }
    }

    #[test]
    fn what_differs_in_place_and_figures_alone_is_one_line() {
        let took = |ms: u64| format!("the hypervisor took {ms} ms");
        let taints = [
            Taint::new(taint::NOT_REAL_TIME_KERNEL, "PREEMPT", "boot another"),
            steal("idle", 1, &took(20)),
            steal("net", 1, &took(100)),
            Taint { accepted: true, ..steal("cpu", 1, &took(5)) },
            steal("net", 2, &took(9)),
        ];
        let groups = groups(&taints);
        let said =
            groups.iter().map(|group| format!("{}{}: {}", group.code(), group.place(), group.reason()));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                "not-real-time-kernel: PREEMPT",
                "steal 3 times (under idle, net; on cpus 1-2): the hypervisor took 9 to 100 ms",
                "steal under cpu on cpu 1: the hypervisor took 5 ms",
            ]
        );
        assert_eq!(groups.iter().map(|group| group.each().len()).collect::<Vec<_>>(), [0, 3, 0]);
    }

    #[test]
    fn names_of_cpus_are_no_figures() {
        let shares = |cpu: u32, other: u32| {
            let reason = format!("cpu {cpu} shares its core with cpu {other}");
            Taint { cpu: Some(cpu), ..Taint::new(taint::SMT_SIBLING, reason, "take it offline") }
        };
        assert_eq!(groups(&[shares(2, 0), shares(3, 1)]).len(), 2);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices whose interrupts a plan gave to the CPUs of its loop: the plans that `isolator tune` keeps for the
//! unit that applies them at each boot.
//!
//! Of a plan three lines of an action are read, as the program writes them; a plan in another form names no
//! device.

use std::collections::BTreeMap;

use machine::CpuSet;

use crate::tree::Tree;

const FOLDER: &str = "var/lib/isolator/tune";

/// Names of such devices, with those CPUs.
pub(super) fn read(tree: &Tree) -> BTreeMap<String, CpuSet> {
    let names = tree.hint_names(FOLDER).into_iter();
    let plans = names.filter(|name| name.starts_with("plan-") && name.ends_with(".json")).take(16);
    let texts = plans.filter_map(|name| tree.hint(&format!("{FOLDER}/{name}")));
    texts.flat_map(|text| devices(&text)).collect()
}

fn devices(plan: &str) -> Vec<(String, CpuSet)> {
    let lines: Vec<&str> = plan.lines().map(str::trim).collect();
    let value = |line: Option<&&str>, key: &str| {
        let rest = line?.strip_prefix(&format!("\"{key}\": \""))?;
        rest.strip_suffix("\",").map(str::to_string)
    };
    let starts = lines.iter().enumerate().filter(|(_, line)| **line == "\"kind\": \"device-irqs\",");
    let found = starts.filter_map(|(at, _)| {
        let device = value(lines.get(at + 1), "target")?;
        Some((device, value(lines.get(at + 2), "value")?.parse().ok()?))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    #[test]
    fn finds_the_device_of_a_kept_plan() {
        let plan = "{\n  \"actions\": [\n    {\n      \"kind\": \"device-irqs\",\n      \"target\": \"eth1\",\n      \"value\": \"6\",\n      \"reason\": \"x\"\n    }\n  ]\n}\n";
        let (_folder, tree) = made_of(&[("var/lib/isolator/tune/plan-0123.json", plan)]);
        assert_eq!(read(&tree), [("eth1".to_string(), "6".parse().unwrap())].into());
        for (name, text) in [("1-trial.json", plan), ("plan-0.json", "{}"), ("plan-1.json", &plan[..60])] {
            let (_folder, tree) = made_of(&[(&format!("var/lib/isolator/tune/{name}"), text)]);
            assert_eq!(read(&tree), BTreeMap::new(), "{name}");
        }
    }
}

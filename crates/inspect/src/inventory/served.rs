// SPDX-License-Identifier: MIT OR Apache-2.0
//! Devices whose interrupts a plan gave to the CPUs of its loop: the plans that `isolator tune` keeps for the
//! unit that applies them at each boot. A plan in another form names no device.

use std::collections::BTreeMap;

use machine::CpuSet;
use serde_json::Value;

use crate::tree::Tree;

/// The folder in which `isolator tune` keeps records of its changes, and plans.
pub const RECORDS: &str = "/var/lib/isolator/tune";

/// Names of such devices, with those CPUs.
pub(super) fn read(tree: &Tree) -> BTreeMap<String, CpuSet> {
    let folder = RECORDS.trim_start_matches('/');
    let names = tree.hint_names(folder).into_iter();
    let plans = names.filter(|name| name.starts_with("plan-") && name.ends_with(".json")).take(16);
    let texts = plans.filter_map(|name| tree.hint(&format!("{folder}/{name}")));
    texts.flat_map(|text| devices(&text)).collect()
}

fn devices(plan: &str) -> Vec<(String, CpuSet)> {
    let plan: Value = serde_json::from_str(plan).unwrap_or_default();
    let actions = plan["actions"].as_array().into_iter().flatten();
    let given = actions.filter(|action| action["kind"] == "device-irqs").filter_map(|action| {
        Some((action["target"].as_str()?.to_string(), action["value"].as_str()?.parse().ok()?))
    });
    given.collect()
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which machines an inventory has, as `ansible-inventory` reads it, and whether one of them is there twice.

use std::collections::{BTreeMap, BTreeSet};

use evidence::{Error, Result};
use serde_json::Value;

use super::{AnsibleJob, ansible, not_there};

/// The machines that the job is about, in the inventory's order.
pub fn hosts(job: &AnsibleJob) -> Result<Vec<String>> {
    let on = job.inventory.display();
    if !untrusted::is_there(&job.inventory) && !job.inventory.to_string_lossy().contains(',') {
        return Err(Error::on("read the inventory", &on, "no such file or directory", "check the path"));
    }
    // It names commands, and may be one: they run with the rights of this user.
    if !job.force && untrusted::is_there(&job.inventory) {
        untrusted::private(&job.inventory).map_err(|error| {
            let cure = "Ansible runs what it says: use one of your own, or --force";
            Error::on("use the inventory", &on, error::reason(&error), cure)
        })?;
    }
    let mut command = ansible("ansible-inventory", job);
    command.arg("--list");
    let ran = command.output().map_err(|error| not_there("ansible-inventory", &error))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let why = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason");
        return Err(Error::on("read the inventory", &on, why, "fix it: ansible-inventory --list shows more"));
    }
    let listed: Value = serde_json::from_slice(&ran.stdout)
        .map_err(|error| Error::on("read the inventory", &on, error, "try ansible-inventory --list"))?;
    let found = hosts_of(&listed, "all");
    if found.is_empty() {
        let why = match &job.hosts {
            Some(pattern) => format!("no machine is called {pattern}"),
            None => "it has no machine".to_string(),
        };
        return Err(Error::on("read the inventory", &on, why, "see ansible-inventory --graph"));
    }
    if !job.force
        && let Some((one, other, address)) = twice(&listed, &found)
    {
        let why = format!("{one} and {other} are the same machine ({address}), and would disturb each other");
        return Err(Error::on("use the inventory", &on, why, "take one out, or use --force"));
    }
    Ok(found)
}

/// The hosts of a group and of those below it, each once. An inventory's program may list a group below
/// itself.
pub fn hosts_of(listed: &Value, group: &str) -> Vec<String> {
    let names = |group: &str, key: &str| -> Vec<String> {
        let list = listed[group][key].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_string).collect()
    };
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let (mut groups, mut visited) = (vec![group.to_string()], BTreeSet::new());
    while let Some(group) = groups.pop() {
        if visited.insert(group.clone()) {
            found.extend(names(&group, "hosts").into_iter().filter(|host| seen.insert(host.clone())));
            groups.extend(names(&group, "children").into_iter().rev());
        }
    }
    found
}

/// Two names with one address and port. An address that Ansible makes up as it goes is not known here.
pub fn twice(listed: &Value, hosts: &[String]) -> Option<(String, String, String)> {
    let mut seen = BTreeMap::new();
    for host in hosts {
        let variables = &listed["_meta"]["hostvars"][host];
        let text = |name: &str| match &variables[name] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let address = text("ansible_host").unwrap_or_else(|| host.clone()).to_lowercase();
        if address.contains("{{") {
            continue;
        }
        let port = text("ansible_port").unwrap_or_else(|| "22".to_string());
        let place = format!("{address} port {port}");
        if let Some(other) = seen.insert(place.clone(), host.clone()) {
            return Some((other, host.clone(), place));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hosts_are_found_once_in_whatever_groups_they_are() {
        let listed = json!({"all": {"children": ["ungrouped", "robots", "hall"]}, "robots": {"hosts": ["b", "a"]},
            "hall": {"children": ["robots"], "hosts": ["c"]}});
        assert_eq!(hosts_of(&listed, "all"), ["b", "a", "c"]);
    }

    #[test]
    fn groups_below_themselves_are_visited_once() {
        let listed = json!({"all": {"children": ["a"]}, "a": {"children": ["all", "a"], "hosts": ["x"]}});
        assert_eq!(hosts_of(&listed, "all"), ["x"]);
        let chain = (0..50_000).map(|n| (format!("g{n}"), json!({"children": [format!("g{}", n + 1)]})));
        let mut chain: serde_json::Map<_, _> = chain.collect();
        chain.insert("g50000".to_string(), json!({"hosts": ["last"]}));
        assert_eq!(hosts_of(&Value::Object(chain), "g0"), ["last"]);
    }

    #[test]
    fn every_circle_of_groups_ends() {
        for (listed, from, found) in [
            (json!({"a": {"children": ["a"], "hosts": ["x"]}}), "a", vec!["x"]),
            (json!({"a": {"children": ["b"]}, "b": {"children": ["a"], "hosts": ["x"]}}), "a", vec!["x"]),
            (
                json!({"a": {"children": ["b"]}, "b": {"children": ["c"]}, "c": {"children": ["a"], "hosts": ["x"]}}),
                "b",
                vec!["x"],
            ),
            // The same group by two ways, and a host in each.
            (
                json!({"a": {"children": ["b", "c"]}, "b": {"children": ["d"]}, "c": {"children": ["d"]}, "d": {"hosts": ["x", "y"]}}),
                "a",
                vec!["x", "y"],
            ),
            (json!({"a": {"children": ["a", "a", "a"], "hosts": ["x", "x"]}}), "a", vec!["x"]),
            (json!({"a": {"children": ["absent"], "hosts": ["x"]}}), "a", vec!["x"]),
            (json!({"a": {"children": "a", "hosts": "x"}}), "a", vec![]),
            (json!({"a": {"children": [7, null, ["a"]], "hosts": [1, "x"]}}), "a", vec!["x"]),
            (json!({"a": null}), "a", vec![]),
            (json!(["a"]), "a", vec![]),
        ] {
            assert_eq!(hosts_of(&listed, from), found, "{listed}");
        }
        // Every group below every other.
        let names: Vec<String> = (0..300).map(|n| format!("g{n}")).collect();
        let all = names.iter().map(|name| (name.clone(), json!({"children": names, "hosts": [name]})));
        assert_eq!(hosts_of(&Value::Object(all.collect()), "g0").len(), 300);
    }

    #[test]
    fn one_address_under_two_names_is_one_machine_but_not_with_another_port() {
        let hosts = ["a", "b"].map(str::to_string);
        let listed = |b: Value| json!({"_meta": {"hostvars": {"a": {"ansible_host": "Robot.lan"}, "b": b}}});
        let same = listed(json!({"ansible_host": "robot.lan", "ansible_port": 22}));
        let (one, other, place) = twice(&same, &hosts).unwrap();
        assert_eq!((one.as_str(), other.as_str(), place.as_str()), ("a", "b", "robot.lan port 22"));
        assert_eq!(
            twice(&listed(json!({"ansible_host": "robot.lan", "ansible_port": "2222"})), &hosts),
            None
        );
        assert_eq!(twice(&listed(json!({"ansible_host": "{{ found }}"})), &hosts), None);
        assert_eq!(twice(&json!({}), &hosts), None);
    }
}

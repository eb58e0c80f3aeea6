// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which machines an inventory has, as `ansible-inventory` reads it, and whether one of them is there twice.

use std::collections::BTreeMap;

use evidence::{Error, Result};
use serde_json::Value;

use super::{Job, ansible, not_there};

/// The machines that the job is about, in the inventory's order.
pub fn hosts(job: &Job) -> Result<Vec<String>> {
    let on = job.inventory.display();
    if !job.inventory.exists() && !job.inventory.to_string_lossy().contains(',') {
        return Err(Error::new("read the inventory", &on, "no such file or directory", "check the path"));
    }
    let mut command = ansible("ansible-inventory", job);
    command.arg("--list");
    let ran = command.output().map_err(|error| not_there("ansible-inventory", &error))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        let why = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it says not why");
        return Err(Error::new(
            "read the inventory",
            &on,
            why,
            "mend it: ansible-inventory --list shows more",
        ));
    }
    let listed: Value = serde_json::from_slice(&ran.stdout)
        .map_err(|error| Error::new("read the inventory", &on, error, "try ansible-inventory --list"))?;
    let mut found = Vec::new();
    collect(&listed, "all", &mut found);
    if found.is_empty() {
        let why = match &job.hosts {
            Some(pattern) => format!("no machine is called {pattern}"),
            None => "it has no machine".to_string(),
        };
        return Err(Error::new("read the inventory", &on, why, "see ansible-inventory --graph"));
    }
    if !job.force
        && let Some((one, other, address)) = twice(&listed, &found)
    {
        let why = format!("{one} and {other} are the same machine ({address}), and would disturb each other");
        return Err(Error::new("use the inventory", &on, why, "take one out, or use --force"));
    }
    Ok(found)
}

/// The hosts of a group and of those below it.
fn collect(listed: &Value, group: &str, found: &mut Vec<String>) {
    let names = |key: &str| -> Vec<String> {
        let list = listed[group][key].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_string).collect()
    };
    for host in names("hosts") {
        if !found.contains(&host) {
            found.push(host);
        }
    }
    for child in names("children") {
        collect(listed, &child, found);
    }
}

/// Two names with one address and port. An address that Ansible makes up as it goes is not known here.
fn twice(listed: &Value, hosts: &[String]) -> Option<(String, String, String)> {
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
        let mut found = Vec::new();
        collect(&listed, "all", &mut found);
        assert_eq!(found, ["b", "a", "c"]);
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers of what Ansible gives: an inventory's machines, and the events of a run.

use std::collections::BTreeSet;
use std::fs;

use fleet::ansible::document::{FleetRunDocument, MachineOutcome};
use fleet::ansible::{AnsibleJob, AnsibleVerb, inventory as inventories, outcome};
use report::terminal::{self, Style};

const STYLE: Style = Style { color: false, width: 80 };

/// The output of `ansible-inventory --list`.
pub(crate) fn inventory(data: &[u8]) {
    let Ok(listed) = serde_json::from_slice(data) else { return };
    let hosts = inventories::hosts_of(&listed, "all");
    assert_eq!(hosts.iter().collect::<BTreeSet<_>>().len(), hosts.len(), "{hosts:?}");
    let _ = inventories::twice(&listed, &hosts);
}

/// The file `events.jsonl` of a run on two machines.
pub(crate) fn events(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let events = folder.path().join("events.jsonl");
    if fs::write(&events, data).is_err() {
        return;
    }
    let hosts = ["a", "b"].map(str::to_string);
    for verb in AnsibleVerb::ALL {
        for check in [false, true] {
            let job = AnsibleJob { verb, check, folder: folder.path().into(), ..AnsibleJob::default() };
            if let Ok(hosts) = outcome::of(&job, &hosts, &events) {
                shown(&FleetRunDocument {
                    schema_version: 1,
                    verb: verb.name().to_string(),
                    check,
                    inventory: String::new(),
                    folder: String::new(),
                    hosts,
                });
            }
        }
    }
}

fn shown(document: &FleetRunDocument) {
    let _ = (terminal::fleet_run(document, STYLE), serde_json::to_string(document));
    // No bundle was brought: no machine is known to hold its limit.
    assert!(document.hosts.iter().all(|host| host.outcome != MachineOutcome::Held));
}

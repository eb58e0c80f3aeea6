// SPDX-License-Identifier: MIT OR Apache-2.0
//! For which machine and boot a plan was made, and whether it still is the plan that was made.

use std::io::Read;
use std::path::Path;

use machine::Snapshot;
use sha2::{Digest, Sha256};

use super::document::{MadeFor, Plan, PlanDocument, SCHEMA_VERSION};
use crate::action::PlanRefusal;

/// Longest identity that is read; both are one line.
const LIMIT: u64 = 4096;

impl MadeFor {
    /// The machine below `root`, of which `machine` was read.
    pub fn here(root: &Path, machine: &Snapshot) -> Self {
        MadeFor {
            hostname: machine.hostname.clone(),
            machine_sha256: digest_of(&root.join("etc/machine-id")),
            kernel: machine.kernel.release.clone(),
            boot_sha256: digest_of(&root.join("proc/sys/kernel/random/boot_id")),
        }
    }

    /// Why a plan that was made for `self` must not be done on the machine `here`.
    pub fn refuses(&self, here: &MadeFor) -> Option<PlanRefusal> {
        if let Some(refusal) = self.refuses_machine(here) {
            return Some(refusal);
        }
        if differ(&self.kernel, &here.kernel) || differ(&self.boot_sha256, &here.boot_sha256) {
            return Some(PlanRefusal {
                reason: "the plan was made before this machine was last booted, and what it decided by may have changed"
                    .to_string(),
                cure: "plan again".to_string(),
            });
        }
        None
    }

    /// As [`MadeFor::refuses`], whatever boot it is.
    pub fn refuses_machine(&self, here: &MadeFor) -> Option<PlanRefusal> {
        let by_id = self.machine_sha256.is_some() && here.machine_sha256.is_some();
        // A host name can change on one machine; its identity does not.
        let other = if by_id {
            self.machine_sha256 != here.machine_sha256
        } else {
            differ(&self.hostname, &here.hostname)
        };
        other.then(|| PlanRefusal {
            reason: format!(
                "the plan was made for another machine ({})",
                self.hostname.as_deref().unwrap_or("without a name")
            ),
            cure: "plan on this one".to_string(),
        })
    }
}

/// Whether both are known, and not the same.
fn differ(one: &Option<String>, other: &Option<String>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

/// SHA-256 of a short text without the space around it.
fn digest_of(path: &Path) -> Option<String> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    untrusted::open(path).ok()?.take(LIMIT).read_to_string(&mut text).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| hexadecimal(text.as_bytes()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    machine::hexadecimal(&Sha256::digest(bytes))
}

impl PlanDocument {
    /// The digest that belongs to the rest of the document.
    fn due_digest(&self) -> String {
        let bare = PlanDocument { digest: String::new(), ..self.clone() };
        // The document has strings, numbers and lists alone, which JSON always takes.
        hexadecimal(&serde_json::to_vec(&bare).unwrap_or_default())
    }

    /// Refuses a plan that was changed after it was made.
    pub(super) fn check_unchanged(&self) -> Result<(), PlanRefusal> {
        if self.digest == self.due_digest() {
            return Ok(());
        }
        Err(PlanRefusal {
            reason: "the plan was changed after it was made: its digest is not that of its content"
                .to_string(),
            cure: "plan again, with other options where another result is wanted".to_string(),
        })
    }
}

impl Plan {
    /// With its digest, which ends the making of a plan.
    pub fn sealed(mut self) -> Plan {
        self.digest = PlanDocument::from(self.clone()).due_digest();
        self
    }

    /// The plan in `text`, which is what `tune plan --json` printed.
    pub fn read(text: &str) -> Result<Plan, PlanRefusal> {
        let refuse = |reason: String| PlanRefusal {
            reason,
            cure: "give a file that tune plan --json wrote".to_string(),
        };
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| refuse(format!("the file is not JSON: {error}")))?;
        if value.get("refused").is_some() {
            return Err(refuse("the file holds a refusal, not a plan".to_string()));
        }
        // Whatever else has a version is no plan of another one.
        if value.get("actions").is_none() {
            return Err(refuse("the file is not a plan: it has no actions".to_string()));
        }
        match value.get("schema_version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(SCHEMA_VERSION) => {}
            Some(version) => {
                return Err(PlanRefusal {
                    reason: format!(
                        "the plan has version {version}, and this program reads {}",
                        SCHEMA_VERSION
                    ),
                    cure: "plan again with this program".to_string(),
                });
            }
            None => return Err(refuse("the file is not a plan".to_string())),
        }
        let document: PlanDocument = serde_json::from_value(value)
            .map_err(|error| refuse(format!("the file is not a plan: {error}")))?;
        Plan::try_from(document)
    }
}

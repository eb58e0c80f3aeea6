// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of each machine: from the events that the collection's callback wrote, and by the bundle that
//! was brought.

use std::collections::BTreeMap;
use std::path::Path;

use evidence::verdict::VerdictOutcome;
use evidence::{Bundle, Error, Result, Verdict};
use serde::Deserialize;

use super::document::{HostOutcome, MachineOutcome};
use super::{AnsibleJob, AnsibleVerb};

/// The task whose failure says that a machine was rolled back, and the last of those that change a machine
/// that holds; both are in `fleet/ansible/roles/tune/tasks/main.yml`.
const ROLLED_BACK: &str = "Rolled back";
const KEPT: &str = "Keep it";

/// The most settings that are named among those that are not in force.
const LISTED: usize = 6;

/// A line of the callback `fleet/ansible/plugins/callback/hosts.py`.
#[derive(Debug, Deserialize)]
struct CallbackEvent {
    host: String,
    task: String,
    kind: CallbackKind,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: RoleFacts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CallbackKind {
    Changed,
    Failed,
    Unreachable,
    Told,
}

/// The report of the roles about a machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RoleFacts {
    isolator_in_force: Option<bool>,
    isolator_not_in_force: Vec<String>,
    isolator_undone: bool,
}

/// The known progress of a machine.
#[derive(Debug, Default)]
struct MachineProgress {
    changed: u32,
    /// The last failure: unreachable or not, the task, the reason.
    failed: Option<(bool, String, String)>,
    in_force: Option<bool>,
    /// Targets of the plan that are not.
    not_in_force: Vec<String>,
    undone: bool,
    /// The last task that changed something.
    last: String,
}

/// Longest list of events that is read.
const LONGEST: u64 = 64 << 20;

/// The outcomes of `hosts`.
pub fn of(job: &AnsibleJob, hosts: &[String], events: &Path) -> Result<Vec<HostOutcome>> {
    let text = untrusted::read(events, LONGEST).map_err(|error| Error::io("read", events, &error))?;
    let text = String::from_utf8_lossy(&text);
    let known = read(&text);
    let nothing = MachineProgress::default();
    let one = |host: &String| {
        let known = known.get(host).unwrap_or(&nothing);
        let bundle = job.folder.join("bundles").join(format!("{host}.tar.zst"));
        let bundle = bundle.is_file().then_some(bundle);
        let (outcome, reason) = became(job.verb, job.check, known, bundle.as_deref());
        HostOutcome {
            host: host.clone(),
            outcome,
            reason,
            changed: known.changed,
            bundle: bundle.map(|_| format!("bundles/{host}.tar.zst")),
        }
    };
    Ok(hosts.iter().map(one).collect())
}

/// The machines that could not be cleared, and why.
pub fn not_cleared(events: &Path) -> Result<Vec<(String, String)>> {
    let text = untrusted::read(events, LONGEST).map_err(|error| Error::io("read", events, &error))?;
    let known = read(&String::from_utf8_lossy(&text));
    Ok(known.into_iter().filter_map(|(host, known)| Some((host, plain(&known.failed?.2)))).collect())
}

fn read(text: &str) -> BTreeMap<String, MachineProgress> {
    let mut all: BTreeMap<String, MachineProgress> = BTreeMap::new();
    // A line that was cut off, where the run was killed, tells nothing.
    for event in text.lines().filter_map(|line| serde_json::from_str::<CallbackEvent>(line).ok()) {
        let known = all.entry(event.host).or_default();
        match event.kind {
            CallbackKind::Changed => {
                known.changed += 1;
                known.last = event.task;
            }
            CallbackKind::Failed | CallbackKind::Unreachable => {
                // What failed first is why.
                let before = known.failed.take().filter(|_| event.task == ROLLED_BACK);
                let message = before.map_or(event.message, |(_, _, why)| why);
                known.failed = Some((event.kind == CallbackKind::Unreachable, event.task, message));
            }
            CallbackKind::Told => {
                known.in_force = event.data.isolator_in_force.or(known.in_force);
                known.undone |= event.data.isolator_undone;
                if event.data.isolator_in_force.is_some() {
                    known.not_in_force = event.data.isolator_not_in_force;
                }
            }
        }
    }
    all
}

fn became(
    verb: AnsibleVerb,
    check: bool,
    known: &MachineProgress,
    bundle: Option<&Path>,
) -> (MachineOutcome, String) {
    if let Some((unreachable, task, message)) = &known.failed {
        return match (unreachable, task.as_str()) {
            (true, _) => (MachineOutcome::Unreachable, format!("{task}: {}", plain(message))),
            (false, ROLLED_BACK) => (MachineOutcome::RolledBack, plain(message)),
            (false, _) => (MachineOutcome::Failed, format!("{task}: {}", plain(message))),
        };
    }
    match (verb, known.in_force) {
        (AnsibleVerb::Prove, _) if check => (MachineOutcome::WouldChange, "it would be measured".to_string()),
        (AnsibleVerb::Prove, _) => measured(bundle, known),
        (AnsibleVerb::Rollback, _) if known.undone => (MachineOutcome::Undone, String::new()),
        (_, None) if check => (MachineOutcome::WouldChange, "the program is not on it yet".to_string()),
        (_, None) => broken_off(known),
        (AnsibleVerb::Rollback, _) => broken_off(known),
        (_, Some(true)) => (MachineOutcome::InForce, String::new()),
        (AnsibleVerb::Verify, Some(false)) => (MachineOutcome::NotInForce, list(&known.not_in_force)),
        (AnsibleVerb::Plan, Some(false)) => (MachineOutcome::WouldChange, list(&known.not_in_force)),
        (AnsibleVerb::Apply, Some(false)) if check => {
            (MachineOutcome::WouldChange, list(&known.not_in_force))
        }
        (AnsibleVerb::Apply, Some(false)) if known.last == KEPT => measured(bundle, known),
        (AnsibleVerb::Apply, Some(false)) => broken_off(known),
    }
}

/// Some of many.
fn list(names: &[String]) -> String {
    let shown = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The bundle's result, judged here.
fn measured(bundle: Option<&Path>, known: &MachineProgress) -> (MachineOutcome, String) {
    let Some(path) = bundle else { return broken_off(known) };
    match Bundle::open(path) {
        Ok(bundle) => {
            let verdict = Verdict::of(&bundle);
            let became = match verdict.outcome {
                VerdictOutcome::Held => MachineOutcome::Held,
                VerdictOutcome::Exceeded => MachineOutcome::Exceeded,
                VerdictOutcome::Unproven => MachineOutcome::Unproven,
            };
            (became, verdict.reasons.into_iter().next().unwrap_or_default().into())
        }
        Err(error) => (MachineOutcome::Failed, error.to_string()),
    }
}

/// The run ended before it told anything of this machine.
fn broken_off(known: &MachineProgress) -> (MachineOutcome, String) {
    match known.last.as_str() {
        "" => (MachineOutcome::NotReached, "it was not begun".to_string()),
        last => (MachineOutcome::Failed, format!("the run was broken off after: {last}; do it again")),
    }
}

/// Ansible's words without its own frame, and for what people meet most with the cure.
fn plain(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let lower = line.to_lowercase();
    let none = ["not found", "no such file", "permission denied", "no python"];
    if lower.contains("python") && none.iter().any(|word| lower.contains(word)) {
        return "it has no Python, which Ansible needs there; install python3 on it".to_string();
    }
    line.trim_start_matches("Task failed: ").trim_end_matches(':').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(verb: AnsibleVerb, check: bool, lines: &str) -> (MachineOutcome, String) {
        let known = read(lines).remove("a").unwrap_or_default();
        became(verb, check, &known, None)
    }

    #[test]
    fn the_last_failure_decides_and_a_rescued_one_is_a_rollback() {
        let rescued = r#"{"host":"a","task":"Prove","kind":"failed","message":"exceeded: late"}
{"host":"a","task":"Roll back","kind":"changed"}
{"host":"a","task":"Rolled back","kind":"failed","message":"something could not be done"}"#;
        assert_eq!(
            outcome_of(AnsibleVerb::Apply, false, rescued),
            (MachineOutcome::RolledBack, "exceeded: late".into())
        );
        let stuck = r#"{"host":"a","task":"Prove","kind":"failed","message":"exceeded: late"}
{"host":"a","task":"Roll back","kind":"failed","message":"isolator: cannot roll back"}"#;
        let (outcome, reason) = outcome_of(AnsibleVerb::Apply, false, stuck);
        assert_eq!(
            (outcome, reason.as_str()),
            (MachineOutcome::Failed, "Roll back: isolator: cannot roll back")
        );
        let gone = r#"{"host":"a","task":"Apply","kind":"unreachable","message":"Task failed: Data could not be sent.\nmore"}"#;
        assert_eq!(
            outcome_of(AnsibleVerb::Apply, false, gone),
            (MachineOutcome::Unreachable, "Apply: Data could not be sent.".into())
        );
    }

    #[test]
    fn a_machine_without_python_is_told_as_that() {
        let line = r#"{"host":"a","task":"Look","kind":"failed","message":"/bin/sh: 1: /usr/bin/python3: not found"}"#;
        let (outcome, reason) = outcome_of(AnsibleVerb::Prove, false, line);
        assert_eq!(outcome, MachineOutcome::Failed);
        assert!(reason.ends_with("install python3 on it"), "{reason}");
    }

    #[test]
    fn of_a_machine_that_nothing_is_told_of_nothing_is_claimed() {
        for verb in AnsibleVerb::ALL {
            assert_eq!(outcome_of(verb, false, "").0, MachineOutcome::NotReached, "{verb:?}");
            assert_eq!(
                outcome_of(verb, false, r#"{"host":"a","task":"cut o"#).0,
                MachineOutcome::NotReached,
                "{verb:?}"
            );
        }
        let undone = r#"{"host":"a","task":"Tell","kind":"told","data":{"isolator_undone":true}}"#;
        assert_eq!(outcome_of(AnsibleVerb::Rollback, false, undone), (MachineOutcome::Undone, String::new()));
        // Begun, but neither measured nor failed: its run was broken off.
        let begun = r#"{"host":"a","task":"Tell","kind":"told","data":{"isolator_in_force":false}}
{"host":"a","task":"Apply the plan","kind":"changed"}"#;
        let (outcome, reason) = outcome_of(AnsibleVerb::Apply, false, begun);
        assert_eq!(
            (outcome, reason.as_str()),
            (MachineOutcome::Failed, "the run was broken off after: Apply the plan; do it again")
        );
    }

    #[test]
    fn what_is_not_in_force_is_named() {
        let line = r#"{"host":"a","task":"Tell","kind":"told","data":{"isolator_in_force":false,
            "isolator_not_in_force":["1","2","3","4","5","6","7","8"]}}"#
            .replace('\n', "");
        assert_eq!(
            outcome_of(AnsibleVerb::Verify, false, &line),
            (MachineOutcome::NotInForce, "1, 2, 3, 4, 5, 6 and 2 more".into())
        );
        assert_eq!(outcome_of(AnsibleVerb::Apply, true, &line).0, MachineOutcome::WouldChange);
        let all = r#"{"host":"a","task":"Tell","kind":"told","data":{"isolator_in_force":true}}"#;
        assert_eq!(outcome_of(AnsibleVerb::Apply, false, all), (MachineOutcome::InForce, String::new()));
    }
}

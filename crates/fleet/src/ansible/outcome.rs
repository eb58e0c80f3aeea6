// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of each machine: from the events that the collection's callback wrote, and by the bundle that
//! was brought.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use evidence::verdict::VerdictOutcome;
use evidence::{Bundle, Error, Result, Verdict};
use serde::Deserialize;
use untrusted::Lines;

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

/// Longest event of a machine that is read. Others' are read whatever one machine writes.
const LONGEST: u64 = 256 << 10;

/// Characters of a machine's words that are shown.
const SHOWN: usize = 500;

/// The outcomes of `hosts`.
pub fn of(job: &AnsibleJob, hosts: &[String], events: &Path) -> Result<Vec<HostOutcome>> {
    let known = read_file(events)?;
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
    let known = read_file(events)?;
    Ok(known.into_iter().filter_map(|(host, known)| Some((host, plain(&known.failed?.2)))).collect())
}

fn read_file(events: &Path) -> Result<BTreeMap<String, MachineProgress>> {
    let file = untrusted::open(events).and_then(read);
    file.map_err(|error| Error::io("read", events, &error))
}

fn read(events: impl Read) -> io::Result<BTreeMap<String, MachineProgress>> {
    let mut all: BTreeMap<String, MachineProgress> = BTreeMap::new();
    let mut lines = Lines::of(events);
    while let Some((line, is_cut)) = lines.next_cut(LONGEST)? {
        // A line that was cut off, where the run was killed, tells nothing.
        let event = if is_cut { too_long(&line) } else { serde_json::from_str(&line).ok() };
        let Some(event) = event else { continue };
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
    Ok(all)
}

/// The failure of the machine that wrote too long a line, by the beginning of that.
fn too_long(line: &str) -> Option<CallbackEvent> {
    let value = |name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
        serde_json::Deserializer::from_str(rest).into_iter::<String>().next()?.ok()
    };
    let message = format!("the machine reported more than {} KiB", LONGEST >> 10);
    let (host, task, data) = (value("host")?, value("task")?, RoleFacts::default());
    Some(CallbackEvent { host, task, kind: CallbackKind::Failed, message, data })
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
    line.trim_start_matches("Task failed: ").trim_end_matches(':').chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(verb: AnsibleVerb, check: bool, lines: &str) -> (MachineOutcome, String) {
        let known = read(lines.as_bytes()).unwrap().remove("a").unwrap_or_default();
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
    fn a_line_of_any_length_is_its_own_machines_failure_alone() {
        let before = br#"{"host": "b", "task": "Tell", "kind": "told", "data": {"isolator_in_force": true}}"#;
        let begin = br#"{"host": "a", "task": "Look", "kind": "told", "data": {"isolator_not_in_force": [""#;
        let after = br#"{"host": "c", "task": "Look", "kind": "unreachable", "message": "gone"}"#;
        let long = io::repeat(b'x').take(70 << 20);
        let events = before.chain(&b"\n"[..]).chain(&begin[..]).chain(long).chain(&b"\"]}}\n"[..]);
        let known = read(events.chain(&after[..])).unwrap();
        assert_eq!(known["b"].in_force, Some(true));
        let failed = |host: &str| known[host].failed.clone().unwrap();
        assert_eq!(failed("a"), (false, "Look".into(), "the machine reported more than 256 KiB".into()));
        assert_eq!(failed("c"), (true, "Look".into(), "gone".into()));
        // What is short enough to be read is too long to be shown.
        assert_eq!(plain(&"x".repeat(100_000)).len(), SHOWN);
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

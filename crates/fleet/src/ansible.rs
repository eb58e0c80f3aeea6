// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many machines at once, by Ansible: it connects, copies, schedules and stops; nothing of that is ours.
//!
//! ```text
//! inventory -> ansible-inventory -> hosts -> ansible-playbook isolator.rt.VERB
//!     -> events.jsonl, bundles/, plans/ -> outcome of each
//! ```
//! The collection `isolator.rt` (`fleet/ansible`) comes with the program and is laid out in the run's folder,
//! beside a playbook of one line, where Ansible finds it besides its own, and where it shows what was run. A
//! machine's outcome is what its last event says, or what is in its bundle.
//!
//! Each playbook leaves machines as it found them. After Ctrl-C, and on machines that were lost meanwhile,
//! the playbook `clear` does that in its place.

pub mod document;
pub mod inventory;
pub mod outcome;

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evidence::{Error, Result};
use serde_json::{Map, Value, json};
use signal_hook::consts::SIGINT;
use signal_hook::{flag, low_level};

pub use document::FleetRunDocument;
use document::{HostOutcome, MachineOutcome};

/// Version of the document.
const SCHEMA_VERSION: u32 = 1;

/// The collection: names below `fleet/ansible`, and contents.
const COLLECTION: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/collection.rs"));

/// Options by which SSH notices that a machine is gone.
const ALIVE: &str = "-o ServerAliveInterval=10 -o ServerAliveCountMax=3";

/// Where events go, below the run's folder.
const EVENTS: &str = "events.jsonl";

/// The verb of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnsibleVerb {
    #[default]
    /// Measure, and bring the evidence.
    Prove,
    /// Say what would be changed.
    Plan,
    /// Change it, measure, keep it or roll it back.
    Apply,
    /// Is it in force?
    Verify,
    /// Give back what was there before.
    Rollback,
}

impl AnsibleVerb {
    /// All of them.
    pub const ALL: [AnsibleVerb; 5] = [
        AnsibleVerb::Prove,
        AnsibleVerb::Plan,
        AnsibleVerb::Apply,
        AnsibleVerb::Verify,
        AnsibleVerb::Rollback,
    ];

    /// The verb's, and the playbook's, name.
    pub fn name(self) -> &'static str {
        match self {
            AnsibleVerb::Prove => "prove",
            AnsibleVerb::Plan => "plan",
            AnsibleVerb::Apply => "apply",
            AnsibleVerb::Verify => "verify",
            AnsibleVerb::Rollback => "rollback",
        }
    }
}

/// On which machines, and how.
#[derive(Debug, Clone, Default)]
pub struct AnsibleJob {
    /// The verb.
    pub verb: AnsibleVerb,
    /// A file, a folder or a program that Ansible reads as an inventory.
    pub inventory: PathBuf,
    /// Of it, the machines of this pattern.
    pub hosts: Option<String>,
    /// Where evidence, plans and the log go.
    pub folder: PathBuf,
    /// How many machines at once.
    pub forks: Option<u32>,
    /// Sizes of a roll-out's batches.
    pub batches: Option<Vec<String>>,
    /// Whether machines may be rebooted.
    pub reboot: bool,
    /// Change nothing.
    pub check: bool,
    /// Go on though the inventory has a machine twice, or another user can change it.
    pub force: bool,
    /// Words for `prove`; those of the inventory where absent.
    pub prove: Option<String>,
    /// Words for `tune plan`; those of the inventory where absent.
    pub plan: Option<String>,
    /// Static programs by architecture.
    pub programs: Vec<(String, PathBuf)>,
    /// More words for `ansible-playbook`.
    pub words: Vec<String>,
    /// Show nothing of what happens.
    pub quiet: bool,
}

/// Runs the playbook, and returns the outcome of each machine.
pub fn run(job: &AnsibleJob) -> Result<FleetRunDocument> {
    let hosts = inventory::hosts(job)?;
    let playbook = lay_out(job)?;
    // What an earlier run into this folder told is no outcome of this one.
    let events = job.folder.join(EVENTS);
    evidence::writer::replace(&events, b"")?;
    let (ended, is_interrupted) = play(job, &playbook, &events)?;
    let mut hosts = outcome::of(job, &hosts, &events)?;
    clear(job, &mut hosts, is_interrupted)?;
    // Ansible says 0, 2 (a host failed) and 4 (one was not reached); else it did nothing.
    if !matches!(ended, 0 | 2 | 4) && hosts.iter().all(|host| host.changed == 0 && host.bundle.is_none()) {
        let log = job.folder.join("ansible.log");
        let why = format!("it ended with status {ended}");
        return Err(Error::on(
            "run",
            "ansible-playbook",
            why,
            format!("see what it said above, or in {}", log.display()),
        ));
    }
    Ok(FleetRunDocument {
        schema_version: SCHEMA_VERSION,
        verb: job.verb.name().to_string(),
        check: job.check,
        inventory: job.inventory.display().to_string(),
        folder: job.folder.display().to_string(),
        hosts,
    })
}

/// The collection and the playbook, whose path this is.
fn lay_out(job: &AnsibleJob) -> Result<PathBuf> {
    // What Ansible runs lies here: no other user may have a say in it.
    let ours = |path: &Path| {
        untrusted::Folder::ours(path).map_err(|error| Error::io("write to the folder", path, &error))
    };
    ours(&job.folder)?;
    // Ansible finds it again by its name.
    untrusted::private(&job.folder).map_err(|error| {
        let cure = "choose a folder within folders of your own";
        Error::on("run Ansible in", job.folder.display(), error::reason(&error), cure)
    })?;
    let folder = job.folder.join("ansible");
    let root = folder.join("collections/ansible_collections/isolator/rt");
    for (name, content) in COLLECTION {
        let path = root.join(name);
        let parent = path.parent().unwrap_or(&root);
        ours(parent)?;
        evidence::writer::replace(&path, content)?;
    }
    let verb = job.verb.name();
    let playbook = folder.join(format!("{verb}.yml"));
    evidence::writer::replace(&playbook, format!("- import_playbook: isolator.rt.{verb}\n").as_bytes())?;
    Ok(playbook)
}

/// Clears what the playbook could not: machines that it was working on when it was interrupted, and those
/// that it lost. The reason of a machine that cannot be cleared says what is left on it.
fn clear(job: &AnsibleJob, hosts: &mut [HostOutcome], is_interrupted: bool) -> Result<()> {
    let is_left = |host: &HostOutcome| {
        let is_lost = host.outcome == MachineOutcome::Unreachable && host.changed > 0;
        !job.check && (is_lost || is_interrupted && host.outcome != MachineOutcome::Held)
    };
    let left = hosts.iter().filter(|host| is_left(host)).map(|host| host.host.clone()).collect::<Vec<_>>();
    if left.is_empty() {
        return Ok(());
    }
    let folder = job.folder.join("ansible");
    let playbook = folder.join("clear.yml");
    evidence::writer::replace(&playbook, b"- import_playbook: isolator.rt.clear\n")?;
    let events = job.folder.join("clear.jsonl");
    evidence::writer::replace(&events, b"")?;
    let job = AnsibleJob { hosts: Some(left.join(",")), batches: None, ..job.clone() };
    play(&job, &playbook, &events)?;
    for (host, why) in outcome::not_cleared(&events)? {
        for host in hosts.iter_mut().filter(|one| one.host == host) {
            host.reason = format!(
                "{}; not cleared: {why}; run the same again, or isolator fleet rollback",
                host.reason
            );
        }
    }
    Ok(())
}

/// Runs the playbook to its end, and gives its status, and whether it was interrupted.
fn play(job: &AnsibleJob, playbook: &Path, events: &Path) -> Result<(i32, bool)> {
    let mut command = ansible("ansible-playbook", job);
    command.arg(playbook);
    command.arg("--extra-vars").arg(Value::Object(variables(job)?).to_string());
    if let Some(forks) = job.forks {
        command.arg("--forks").arg(forks.to_string());
    }
    if job.check {
        command.arg("--check");
    }
    command.args(&job.words);
    command.env("ANSIBLE_STDOUT_CALLBACK", "isolator.rt.hosts");
    command.env("ISOLATOR_EVENTS", events);
    command.env("ANSIBLE_LOG_PATH", absolute(&job.folder.join("ansible.log"))?);
    // A machine without power says no farewell: half a minute of silence is one.
    let own = std::env::var("ANSIBLE_SSH_COMMON_ARGS").unwrap_or_default();
    command.env("ANSIBLE_SSH_COMMON_ARGS", format!("{own} {ALIVE}").trim());
    // Ansible's own file of hosts to try again, and its cowsay, are not for us.
    command.env("ANSIBLE_RETRY_FILES_ENABLED", "false").env("ANSIBLE_NOCOWS", "true");
    if job.quiet {
        command.stdout(Stdio::null());
    } else {
        // Progress is no result: standard output is for that.
        let error = std::io::stderr().as_fd().try_clone_to_owned();
        command.stdout(error.map_or_else(|_| Stdio::null(), Stdio::from));
    }
    // A Ctrl-C reaches Ansible too, which then ends; its results until then are reported.
    let interrupted = Arc::new(AtomicBool::new(false));
    let kept = flag::register(SIGINT, Arc::clone(&interrupted));
    let status = command.status().map_err(|error| not_there("ansible-playbook", &error))?;
    kept.map(low_level::unregister).ok();
    Ok((status.code().unwrap_or(-1), interrupted.load(Ordering::Relaxed)))
}

/// The playbook's variables. They go before those of the inventory, so that only what was given is among
/// them.
fn variables(job: &AnsibleJob) -> Result<Map<String, Value>> {
    let mut all = Map::new();
    let programs: Map<String, Value> = job
        .programs
        .iter()
        .map(|(architecture, path)| (architecture.clone(), path.display().to_string().into()))
        .collect();
    all.insert("isolator_programs".to_string(), Value::Object(programs));
    all.insert("isolator_folder".to_string(), absolute(&job.folder)?.display().to_string().into());
    all.insert("isolator_reboot".to_string(), job.reboot.into());
    let given = [("isolator_prove", &job.prove), ("isolator_plan", &job.plan)];
    for (name, value) in given {
        if let Some(value) = value {
            all.insert(name.to_string(), value.as_str().into());
        }
    }
    if let Some(batches) = &job.batches {
        all.insert("isolator_batches".to_string(), json!(batches));
    }
    Ok(all)
}

/// One of Ansible's programs, with the inventory and what both need.
fn ansible(program: &str, job: &AnsibleJob) -> Command {
    let mut command = Command::new(program);
    command.arg("--inventory").arg(&job.inventory);
    if let Some(hosts) = &job.hosts {
        command.arg("--limit").arg(hosts);
    }
    command.env("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", "true");
    // Ansible refuses to start without a locale of UTF-8.
    command.env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::inherit());
    command
}

fn not_there(program: &str, error: &std::io::Error) -> Error {
    let why = if error.kind() == ErrorKind::NotFound {
        "it is not installed".to_string()
    } else {
        error::reason(error)
    };
    Error::on("run", program, why, crate::install_or("your distribution's package"))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Error::io("find", path, &error))
}

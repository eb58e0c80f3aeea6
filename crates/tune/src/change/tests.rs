// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan's whole life on a Debian machine in memory: apply, trial boot, confirm, the next boots, roll back;
//! and each refusal with its cure.

use std::path::{Path, PathBuf};

use machine::snapshot::{Cpu, Preemption};
use tempfile::TempDir;

use machine::Snapshot;
use machine::boot::line;

use super::*;
use crate::plan::{Intent, MadeFor, Plan, Profile, WantedCpus};
use crate::record::StepOutcome;
use crate::system::CommandResult;
use crate::system::memory::MemoryMachine;
use crate::system::{self, System};
use crate::transaction::Restoration;

/// The line of the machine before a plan.
const STOCK: &str = "root=UUID=1111aaaa-0000-4000-8000-222233334444 ro quiet";

fn debian() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/fixtures/boot/debian")
}

/// A machine, and the folder in which what reads files finds them.
struct World {
    system: MemoryMachine,
    folder: TempDir,
    facts: Snapshot,
    stamps: u32,
}

impl World {
    fn new() -> World {
        let mut system = MemoryMachine::of_folder(&debian());
        for kernel in ["vmlinuz-6.12.9-rt-amd64", "initrd.img-6.12.9-rt-amd64"] {
            system.put(&format!("/boot/{kernel}"), b"");
        }
        for (path, text) in [
            ("/proc/self/mounts", "/dev/sda2 / ext4 rw 0 0"),
            ("/proc/sys/kernel/random/boot_id", "first"),
            ("/etc/machine-id", "0123456789abcdef0123456789abcdef"),
            ("/proc/irq/default_smp_affinity", "f"),
            ("/proc/irq/9/smp_affinity_list", "0-3"),
            ("/run/systemd/system/x", ""),
            ("/etc/systemd/system/x", ""),
            ("/etc/security/limits.d/x", ""),
        ] {
            system.put(path, format!("{text}\n").as_bytes());
        }
        system.answer = Some(|system, command| {
            let output = if command[0] == "grub-mkconfig" { mkconfig(system) } else { String::new() };
            CommandResult { good: true, output: output.into_bytes(), complaint: String::new() }
        });
        system.power_on();
        let cpu = |id| Cpu { id, online: true, siblings: [id].into_iter().collect(), ..Cpu::default() };
        let mut facts = Snapshot { cpus: (0..4).map(cpu).collect(), ..Snapshot::default() };
        facts.possible = (0..4).collect();
        facts.architecture = Some("x86_64".into());
        facts.kernel.release = Some("6.12.9-rt-amd64".into());
        facts.kernel.preemption = Preemption::RealTime;
        facts.kernel.command_line = Some(STOCK.into());
        facts.settings.insert("/proc/irq/default_smp_affinity".into(), "f".into());
        facts.hostname = Some("robot".into());
        World { system, folder: tempfile::tempdir().unwrap(), facts, stamps: 0 }
    }

    fn here(&mut self) -> Here<'_> {
        std::fs::remove_dir_all(self.folder.path()).unwrap();
        std::fs::create_dir(self.folder.path()).unwrap();
        self.system.dump(self.folder.path());
        self.stamps += 1;
        Here {
            system: &mut self.system,
            root: self.folder.path(),
            machine: &self.facts,
            stamp: format!("20260101-00000{}", self.stamps),
        }
    }

    fn plan(&mut self, no_reboot: bool) -> Plan {
        let here = self.here();
        let intent = Intent { no_reboot, ..Intent::new(Profile::Periodic, WantedCpus::Cores(1)) };
        crate::plan::plan(here.machine, &MadeFor::here(here.root, here.machine), &intent).unwrap()
    }

    fn reboot(&mut self, id: &str, line: &str) {
        self.system = self.system.after_power_cut(crate::system::memory::PowerCut::Everything);
        self.system.put("/proc/sys/kernel/random/boot_id", id.as_bytes());
        self.facts.kernel.command_line = Some(line.into());
        let isolated = line::value(line, "isolcpus").and_then(|list| list.rsplit(',').next()?.parse().ok());
        self.facts.isolation.isolated = isolated.unwrap_or_default();
    }

    fn files(&self) -> Vec<(String, String)> {
        let files = self.system.files().into_iter();
        let files = files.filter(|(path, _)| !path.starts_with("/var/lib/isolator/"));
        files.map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap())).collect()
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.system.read(path).unwrap()).unwrap()
    }

    fn edit(&mut self, path: &str, from: &str, to: &str) {
        let text = self.text(path);
        assert!(text.contains(from), "{path}: {from} is not in {text}");
        self.system.put(path, text.replace(from, to).as_bytes());
    }

    fn apply(&mut self, plan: &Plan) -> crate::Result<Applied> {
        apply(&mut self.here(), plan, Options::default())
    }

    fn boot_with(&mut self, id: &str, plan: &Plan) {
        self.reboot(id, &format!("{STOCK} {}", plan.boot_line()));
    }

    fn confirm(&mut self) -> crate::Result<Applied> {
        confirm(&mut self.here(), "/usr/bin/isolator")
    }

    /// Applies the settings of a plan without its boot line.
    fn apply_settings(&mut self, plan: &Plan) -> crate::Result<Applied> {
        apply(&mut self.here(), plan, Options { runtime_only: true, ..Options::default() })
    }

    fn roll_back(&mut self) -> crate::Result<RolledBack> {
        roll_back(&mut self.here(), None)
    }
}

fn mkconfig(system: &MemoryMachine) -> String {
    let mut texts = vec![system::text(system, "/etc/default/grub").unwrap()];
    for name in system.names("/etc/default/grub.d").unwrap() {
        texts.push(system::text(system, &format!("/etc/default/grub.d/{name}")).unwrap());
    }
    let (line, _, _) = inspect::boot::grub::generator(&texts);
    let menu = std::fs::read_to_string(debian().join("boot/grub/grub.cfg")).unwrap();
    menu.replace("ro  quiet", &format!("ro  {}", line.unwrap()))
}

#[test]
fn a_plan_lives_from_its_trial_to_its_end_and_leaves_no_byte() {
    let mut world = World::new();
    let before = world.files();
    let plan = world.plan(false);
    assert!(
        plan.boot_line().to_string().starts_with("isolcpus=managed_irq,domain,3"),
        "{}",
        plan.boot_line()
    );
    let applied = world.apply(&plan).unwrap();
    assert_eq!(applied.boot, BootChange::Trial { start: "reboot".into() });
    assert_eq!(applied.records, ["20260101-000002-runtime", "20260101-000002-trial"]);
    assert_eq!(world.system.settings["/proc/irq/9/smp_affinity_list"], "0-2\n");
    // Once is enough.
    let again = world.apply(&plan).unwrap();
    assert_eq!(again.records, Vec::<String>::new());
    assert_eq!(again.already, ["the settings of this plan", "the boot line of this plan"]);
    // Not before it was booted.
    let error = world.confirm().unwrap_err().to_string();
    assert_eq!(error, "cannot confirm the boot line: it has not been booted yet; run: reboot");
    // A boot of the old entry, since the trial failed.
    world.reboot("second", STOCK);
    let error = world.confirm().unwrap_err().to_string();
    assert!(error.contains("this boot runs without isolcpus=managed_irq,domain,3"), "{error}");
    let failed = status(&mut world.here()).unwrap();
    let (runtime, trial) = (&failed.records[0], &failed.records[1]);
    assert!(runtime.ended > 0 && runtime.lost.is_empty(), "{runtime:?}");
    assert_eq!(trial.lost, Vec::<String>::new());
    assert!(
        failed.next[0]
            .starts_with("isolator tune rollback, then plan and apply again: this boot runs without"),
        "{failed:?}"
    );
    // The trial.
    world.boot_with("third", &plan);
    assert_eq!(world.system.settings["/proc/irq/9/smp_affinity_list"], "0-3\n");
    let status_now = status(&mut world.here()).unwrap();
    assert!(status_now.next[0].starts_with("isolator tune confirm"), "{status_now:?}");
    let confirmed = world.confirm().unwrap();
    assert_eq!(
        confirmed.boot,
        BootChange::Lasting {
            fallback: "the entry 'Debian GNU/Linux, with Linux 6.12.9-rt-amd64 (recovery mode)'".into()
        }
    );
    let text =
        |path: &str| world.system.files().get(path).map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    assert!(text("/boot/grub/grub.cfg").unwrap().contains("ro  quiet isolcpus=managed_irq,domain,3"));
    assert!(!text("/boot/grub/custom.cfg").unwrap_or_default().contains("isolator-trial"));
    assert!(!text("/boot/grub/grubenv").unwrap().contains("isolator-trial"));
    let unit = text(UNIT).unwrap();
    assert!(
        unit.contains("ExecStart=/usr/bin/isolator tune apply --at-boot /var/lib/isolator/tune/plan-"),
        "{unit}"
    );
    let again = world.confirm().unwrap();
    assert_eq!(again.already, ["this plan is confirmed"]);
    // The next boot does the settings again.
    world.boot_with("fourth", &plan);
    let at_boot = Options { at_boot: true, ..Options::default() };
    let applied = apply(&mut world.here(), &plan, at_boot).unwrap();
    assert_eq!(applied.records.len(), 1, "{applied:?}");
    assert_eq!(world.system.settings["/proc/irq/9/smp_affinity_list"], "0-2\n");
    // And all of it ends.
    let undone = world.roll_back().unwrap();
    let left = undone.records.iter().flat_map(|record| &record.undone);
    assert!(!left.clone().any(|undone| matches!(undone.became, Restoration::Left(_))), "{undone:?}");
    assert_eq!(world.files(), before);
    assert_eq!(world.system.settings["/proc/irq/9/smp_affinity_list"], "0-3\n");
    assert!(
        world
            .system
            .commands
            .contains(&["systemctl", "disable", "isolator-tune.service"].map(String::from).to_vec())
    );
    assert_eq!(world.roll_back().unwrap().records.len(), 0);
}

#[test]
fn a_dry_run_says_everything_and_does_nothing() {
    let mut world = World::new();
    let plan = world.plan(false);
    let dry = Options { dry_run: true, ..Options::default() };
    let applied = apply(&mut world.here(), &plan, dry).unwrap();
    let what: Vec<&str> = applied.steps.iter().map(|step| step.what.as_str()).collect();
    assert!(
        what.contains(&"/proc/irq/9/smp_affinity_list") && what.contains(&"/boot/grub/custom.cfg"),
        "{what:?}"
    );
    assert_eq!(world.system.changes, Vec::<String>::new());
}

#[test]
fn a_dry_run_leaves_out_what_is_so_already() {
    let mut world = World::new();
    let plan = world.plan(false);
    world.system.settings.insert("/proc/irq/9/smp_affinity_list".into(), "0-2\n".into());
    let dry = Options { dry_run: true, ..Options::default() };
    let applied = apply(&mut world.here(), &plan, dry).unwrap();
    let outcome =
        |what: &str| applied.steps.iter().find(|step| step.what == what).map(|step| step.outcome.clone());
    assert_eq!(outcome("/proc/irq/9/smp_affinity_list"), None);
    assert_eq!(outcome("/boot/grub/custom.cfg"), Some(StepOutcome::Pending));
}

#[test]
fn refuses_a_plan_of_another_machine_another_boot_or_another_hand() {
    let mut world = World::new();
    let plan = world.plan(false);
    let refused = |world: &mut World, plan: &Plan| {
        let error = world.apply(plan).unwrap_err().to_string();
        assert_eq!(world.system.changes, Vec::<String>::new(), "{error}");
        error
    };
    let mut edited = plan.clone();
    edited.actions[0].value += " mitigations=off";
    let error = Plan::read(&serde_json::to_string(&edited).unwrap()).unwrap_err();
    assert!(error.to_string().contains("its digest is not that of its content"), "{error}");
    world.system.put("/etc/machine-id", b"ffffffffffffffffffffffffffffffff\n");
    assert_eq!(
        refused(&mut world, &plan),
        "cannot apply the plan: the plan was made for another machine (robot); plan on this one"
    );
    let mut world = World::new();
    world.system.put("/proc/sys/kernel/random/boot_id", b"later\n");
    assert!(refused(&mut world, &plan).ends_with("; plan again"));
    let mut world = World::new();
    world.facts.services.push("TuneD".into());
    world.system.put("/etc/tuned/active_profile", b"realtime\n");
    assert_eq!(
        refused(&mut world, &plan),
        "cannot apply the plan: TuneD is active (profile 'realtime') and would write its own values back; give it \
         the plan as its profile by isolator tune export, or stop it: systemctl disable --now tuned"
    );
}

#[test]
fn a_second_plan_waits_for_the_end_of_the_first() {
    let mut world = World::new();
    let first = world.plan(false);
    let second = world.plan(true);
    world.apply(&first).unwrap();
    let error = world.apply(&second).unwrap_err().to_string();
    assert!(error.contains("another one is in force (record 20260101-000003-runtime)"), "{error}");
    world.roll_back().unwrap();
    world.apply(&second).unwrap();
}

#[test]
fn shows_words_that_another_program_set() {
    let mut world = World::new();
    let menu = world.text("/boot/grub/grub.cfg");
    world.system.put("/boot/grub/grub.cfg", menu.replace("ro  quiet", "ro  quiet skew_tick=1").as_bytes());
    let plan = world.plan(false);
    assert!(plan.boot_line().to_string().contains("skew_tick=1"), "{}", plan.boot_line());
    let applied = world.apply(&plan).unwrap();
    assert_eq!(applied.already, ["skew_tick=1 in the boot line, set by another program"]);
    let custom = world.text("/boot/grub/custom.cfg");
    assert_eq!(custom.matches("skew_tick=1").count(), 1, "{custom}");
}

#[test]
fn an_interrupted_apply_is_undone_before_the_next() {
    use crate::system::memory::InjectedFault;
    let mut world = World::new();
    let before = world.files();
    let plan = world.plan(false);
    let mut whole = world.system.clone();
    std::mem::swap(&mut whole, &mut world.system);
    world.apply(&plan).unwrap();
    let points = world.system.changes.len();
    for at in (0..points).step_by(7) {
        world.system = whole.clone();
        world.system.fault = Some((at, InjectedFault::Kill));
        assert!(world.apply(&plan).is_err());
        world.system = world.system.clone().revived();
        world.apply(&plan).unwrap();
        world.roll_back().unwrap();
        assert_eq!(world.files(), before, "after a kill at change {at}");
    }
}

#[test]
fn a_boot_line_is_tried_after_the_settings_were_confirmed() {
    let mut world = World::new();
    let plan = world.plan(false);
    world.apply_settings(&plan).unwrap();
    world.confirm().unwrap();
    let applied = world.apply(&plan).unwrap();
    assert_eq!(applied.boot, BootChange::Trial { start: "reboot".into() });
    assert_eq!(applied.already, ["the settings of this plan"]);
    let custom = world.text("/boot/grub/custom.cfg");
    assert!(custom.contains(&plan.boot_line().to_string()), "{custom}");
    // The trial is made last although the settings are confirmed.
    world.boot_with("second", &plan);
    let confirmed = world.confirm().unwrap();
    assert!(matches!(confirmed.boot, BootChange::Lasting { .. }), "{confirmed:?}");
    let menu = world.text("/boot/grub/grub.cfg");
    assert!(menu.contains(&plan.boot_line().to_string()), "{menu}");
}

#[test]
fn a_boot_line_that_no_file_has_is_not_already_so() {
    let mut world = World::new();
    let plan = world.plan(false);
    world.apply(&plan).unwrap();
    world.facts.kernel.command_line =
        Some(format!("root=UUID=1111aaaa-0000-4000-8000-222233334444 ro quiet {}", plan.boot_line()));
    world.system.put("/boot/grub/custom.cfg", b"");
    let error = world.apply(&plan).unwrap_err();
    assert!(error.why.starts_with("/boot/grub/custom.cfg has the words of record"), "{error}");
    assert!(error.cure.contains("isolator tune rollback"), "{error}");
    world.roll_back().unwrap();
    let again = world.apply(&plan).unwrap();
    assert!(matches!(again.boot, BootChange::Trial { .. }));
}

#[test]
fn confirm_refuses_what_verify_finds_not_in_force() {
    let mut world = World::new();
    let plan = world.plan(false);
    world.apply(&plan).unwrap();
    // The kernel took an earlier list of another program.
    let line = format!("root=UUID=1111aaaa-0000-4000-8000-222233334444 ro isolcpus=1-3 {}", plan.boot_line());
    world.reboot("second", &line);
    world.facts.isolation.isolated = "1-3".parse().unwrap();
    let before = world.files();
    let error = world.confirm().unwrap_err().to_string();
    assert!(error.contains("isolcpus = managed_irq,domain,3 is not in force, it is 1-3"), "{error}");
    assert_eq!(world.files(), before);
    world.facts.kernel.command_line = Some(line.replace("isolcpus=1-3 ", ""));
    world.facts.isolation.isolated = "3".parse().unwrap();
    world.confirm().unwrap();
}

#[test]
fn confirm_refuses_settings_that_another_program_wrote_back() {
    let mut world = World::new();
    let plan = world.plan(false);
    world.apply_settings(&plan).unwrap();
    world.system.settings.insert("/proc/irq/default_smp_affinity".into(), "f\n".into());
    let error = world.confirm().unwrap_err().to_string();
    assert!(error.contains("/proc/irq/default_smp_affinity: it is f now"), "{error}");
    assert!(!world.system.files().contains_key(UNIT));
}

#[test]
fn a_record_that_cannot_be_read_stops_no_other() {
    let mut world = World::new();
    let before = world.files();
    let plan = world.plan(false);
    world.apply(&plan).unwrap();
    world.system.put("/var/lib/isolator/tune/20200101-000000-boot.json", b"{");
    assert!(world.apply(&plan).is_err());
    assert!(status(&mut world.here()).unwrap().next.iter().any(|next| next.contains("20200101-000000-boot")));
    let undone = world.roll_back().unwrap();
    assert_eq!(undone.left.len(), 1, "{undone:?}");
    assert_eq!(world.files(), before);
}

#[test]
fn refuses_words_for_a_kernel_with_its_own_line() {
    let mut world = World::new();
    world.facts.kernel.line_is_built_in = true;
    let plan = world.plan(false);
    let error = world.apply(&plan).unwrap_err().to_string();
    assert!(error.contains("CONFIG_CMDLINE"), "{error}");
    assert_eq!(world.system.changes, Vec::<String>::new());
    assert!(world.apply_settings(&plan).is_ok());
}

#[test]
fn confirm_names_no_unit_where_no_systemd_runs() {
    let mut world = World::new();
    world.system.remove("/run/systemd/system/x").unwrap();
    world.system.remove_folder("/run/systemd/system").unwrap();
    let plan = world.plan(false);
    world.apply_settings(&plan).unwrap();
    let confirmed = world.confirm().unwrap();
    assert!(confirmed.skipped.iter().any(|skipped| skipped.reason.contains("no systemd runs here")));
    assert!(!confirmed.next.iter().any(|next| next.contains("systemctl")), "{:?}", confirmed.next);
}

#[test]
fn no_space_for_the_second_record_changes_nothing() {
    use crate::system::memory::InjectedFault;
    let mut world = World::new();
    let plan = world.plan(false);
    let (files, settings) = (world.files(), world.system.settings.clone());
    let whole = world.system.clone();
    world.apply(&plan).unwrap();
    let first = world.system.changes.iter().position(|change| change.starts_with("set ")).unwrap();
    for at in whole.changes.len()..first {
        world.system = whole.clone();
        world.system.fault = Some((at, InjectedFault::Full));
        let error = world.apply(&plan).err();
        let names = world.system.names(crate::places::RECORDS).unwrap_or_default();
        assert!(error.is_none() || !names.iter().any(|name| name.starts_with("plan-")), "at {at}: {names:?}");
        // Before the first setting changes all the space is there.
        assert!(error.is_none_or(|_| world.files() == files && world.system.settings == settings), "at {at}");
    }
}

#[test]
fn confirm_refuses_a_program_that_systemd_cannot_run() {
    let mut world = World::new();
    let plan = world.plan(false);
    world.apply_settings(&plan).unwrap();
    for path in ["/opt/a\"b/isolator", "/opt/it's/isolator", "/opt/a\\b/isolator", "/opt/a\nb/isolator"] {
        let error = confirm(&mut world.here(), path).unwrap_err().to_string();
        assert!(error.contains("quotes, backslashes or control characters"), "{error}");
        assert!(!error.contains('\n') && !world.system.files().contains_key(UNIT));
    }
}

mod inputs;

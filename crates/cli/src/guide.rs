// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator` alone on a terminal: two questions, and then audit, plan, proof, change, proof and comparison,
//! one command after the other. A plan that needs a boot is confirmed after it, and its service started:
//! until then only the boot line is in force, and the second proof would not measure the rest. Each command
//! is shown before it runs. What was done stands in a folder, so that the same command goes on there, also
//! after a boot.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::tune::places::UNIT;
use ::tune::plan::Plan;
use clap::CommandFactory;
use error::Error;
use machine::Use;
use machine::purpose::FORMS;
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGINT;
use untrusted::Folder;

use crate::args::Cli;
use crate::next::quoted;
use crate::outcome::{Outcome, VerbResult};
use crate::output::print;

/// Where everything is kept, below the current folder.
const FOLDER: &str = "isolator-guide";
/// The file of answers and finished steps.
const STATE: &str = "guide.json";
/// The plan.
const PLAN: &str = "plan.json";
/// Neither state nor plan is longer.
const LONGEST: u64 = 16 << 20;

/// The answers and finished steps so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Guide {
    /// The purpose of the machine.
    purpose: String,
    /// Whether it may boot again.
    may_boot: bool,
    /// The steps that were done or left out.
    done: Vec<GuideStep>,
    /// The bundle before the change, below the folder; absent where none was measured.
    before: Option<String>,
    /// The bundle after it.
    after: Option<String>,
    /// The boot in which the plan was applied; absent where it was not.
    applied_in: Option<String>,
}

/// A step, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum GuideStep {
    Doctor,
    Plan,
    Before,
    Apply,
    Confirm,
    After,
    Compare,
}

const STEPS: [GuideStep; 7] = [
    GuideStep::Doctor,
    GuideStep::Plan,
    GuideStep::Before,
    GuideStep::Apply,
    GuideStep::Confirm,
    GuideStep::After,
    GuideStep::Compare,
];

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// A command.
    Step(GuideStep),
    /// The machine has to boot first.
    Boot,
    /// Nothing: it is done.
    End,
}

impl GuideStep {
    /// Its purpose, for the line above its command.
    fn says(self) -> &'static str {
        match self {
            GuideStep::Doctor => "look for causes of latency; changes nothing",
            GuideStep::Plan => "plan the changes; changes nothing",
            GuideStep::Before => "measure the machine as it is, under loads",
            GuideStep::Apply => "make the changes; isolator tune rollback undoes them",
            GuideStep::Confirm => "keep the boot line, and make the settings of this boot",
            GuideStep::After => "measure the same again",
            GuideStep::Compare => "compare both measurements",
        }
    }
}

impl Guide {
    /// The next step, where the machine runs in the boot `boot_id` and the plan `needs_boot`.
    fn coming(&self, boot_id: &str, has_plan: bool, needs_boot: bool) -> Coming {
        let possible = |step: &GuideStep| match step {
            GuideStep::Apply => has_plan,
            GuideStep::Confirm => needs_boot && self.applied_in.is_some(),
            GuideStep::After => self.applied_in.is_some() && self.before.is_some(),
            GuideStep::Compare => self.before.is_some() && self.after.is_some(),
            _ => true,
        };
        let next = STEPS.into_iter().filter(possible).find(|step| !self.done.contains(step));
        match next {
            Some(GuideStep::Confirm | GuideStep::After)
                if needs_boot && self.applied_in.as_deref() == Some(boot_id) =>
            {
                Coming::Boot
            }
            Some(step) => Coming::Step(step),
            None => Coming::End,
        }
    }
}

/// Leads through it on a terminal; else prints the help.
pub fn run() -> VerbResult {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        print(&Cli::command().render_help().to_string())?;
        return Ok(Outcome::Done);
    }
    if !rustix::process::geteuid().is_root() {
        let why = "only root may measure and tune";
        return Err(Error::new(
            "lead through a proof",
            why,
            "run sudo isolator; isolator --help has the verbs",
        )
        .into());
    }
    let at_prompt = Arc::new(AtomicBool::new(true));
    let stopped = Arc::new(AtomicBool::new(false));
    // Ctrl-C at a question ends the guide; while a command runs it is the command's.
    signal_hook::flag::register_conditional_default(SIGINT, Arc::clone(&at_prompt))?;
    signal_hook::flag::register(SIGINT, Arc::clone(&stopped))?;
    let Some((folder, mut guide)) = begin()? else { return Ok(Outcome::Done) };
    loop {
        let plan = plan(&folder);
        let needs_boot = plan.as_ref().is_some_and(|plan| !plan.boot_line().is_empty());
        let step = match guide.coming(&boot_id(), plan.is_some(), needs_boot) {
            Coming::Step(step) => step,
            Coming::Boot => {
                say(
                    "\nThe boot line takes effect at the next boot. Boot the machine, then type isolator in this folder again.",
                )?;
                return Ok(Outcome::Done);
            }
            Coming::End => return end(&guide),
        };
        let mut words = command(step, &guide, &folder, plan.as_ref());
        let steps = STEPS.into_iter().filter(|step| guide.may_boot || *step != GuideStep::Confirm);
        let steps = steps.collect::<Vec<_>>();
        let number = steps.iter().position(|known| *known == step).unwrap_or(0) + 1;
        let shown = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        say(&format!("\nStep {number} of {}: {}\n  isolator {shown}", steps.len(), step.says()))?;
        match answer(step)? {
            Answer::Run(options) => words.extend(options),
            Answer::Skip => {
                guide.done.push(step);
                save(&folder, &guide)?;
                continue;
            }
            Answer::End => {
                say("To go on, type isolator in this folder again.")?;
                return Ok(Outcome::Done);
            }
        }
        stopped.store(false, Ordering::SeqCst);
        at_prompt.store(false, Ordering::SeqCst);
        let status = Command::new(std::env::current_exe()?).args(&words).status();
        at_prompt.store(true, Ordering::SeqCst);
        let status = status.map_err(|error| {
            format!("cannot run this program again: {}; mount /proc", error::reason(&error))
        })?;
        // A limit that does not hold is what the change is for.
        let is_done = matches!(status.code(), Some(0 | 2)) && !stopped.load(Ordering::SeqCst);
        if !is_done {
            say("That step was not finished. Run it again, leave it out, or end here.")?;
            continue;
        }
        match step {
            GuideStep::Before => guide.before = bundle(&words),
            GuideStep::After => guide.after = bundle(&words),
            GuideStep::Apply => guide.applied_in = Some(boot_id()),
            GuideStep::Confirm if !start_service()? => continue,
            GuideStep::Doctor | GuideStep::Plan | GuideStep::Confirm | GuideStep::Compare => {}
        }
        guide.done.push(step);
        save(&folder, &guide)?;
    }
}

/// The guide that was begun in this folder, or a new one with the answers to both questions. `None` where the
/// input ended.
fn begin() -> Result<Option<(Folder, Guide)>, Box<dyn std::error::Error>> {
    if untrusted::is_there(Path::new(FOLDER).join(STATE)) {
        let folder = Folder::ours(Path::new(FOLDER))
            .map_err(|error| Error::io("go on in", Path::new(FOLDER), &error))?;
        let guide = load(&folder)?;
        say(&format!(
            "Goes on for {}, as {FOLDER}/{STATE} says; remove {FOLDER} to begin anew.",
            guide.purpose
        ))?;
        return Ok(Some((folder, guide)));
    }
    say(&format!(
        "This leads from an audit to a proven deadline: doctor, tune plan, prove, tune\napply, prove, compare. All files go to {FOLDER}. isolator --help has the verbs.\n\nWhat is the machine for?"
    ))?;
    for (form, about) in FORMS {
        say(&format!("  {form:<19}{about}"))?;
    }
    let purpose = loop {
        let Some(text) = ask("use")? else { return Ok(None) };
        match text.parse::<Use>() {
            Ok(purpose) => break purpose,
            Err(why) => say(&format!("Not understood: {why}"))?,
        }
    };
    let may_boot = loop {
        let Some(text) = ask("May it boot again, for settings of the boot line? [y/n]")? else {
            return Ok(None);
        };
        match text.to_lowercase().as_str() {
            "y" | "yes" => break true,
            "n" | "no" => break false,
            _ => say("Write y or n.")?,
        }
    };
    let folder =
        Folder::ours(Path::new(FOLDER)).map_err(|error| Error::io("write to", Path::new(FOLDER), &error))?;
    let guide = Guide {
        purpose: purpose.asked,
        may_boot,
        done: Vec::new(),
        before: None,
        after: None,
        applied_in: None,
    };
    save(&folder, &guide)?;
    Ok(Some((folder, guide)))
}

/// The words of a step's command.
fn command(step: GuideStep, guide: &Guide, folder: &Folder, plan: Option<&Plan>) -> Vec<String> {
    let below = |name: &str| format!("{FOLDER}/{name}");
    let purpose = || guide.purpose.clone();
    let before = || below(guide.before.as_deref().unwrap_or("before"));
    let mut words: Vec<String> = match step {
        GuideStep::Doctor => vec!["doctor".into(), "--use".into(), purpose()],
        GuideStep::Plan => {
            let mut words = vec!["tune".into(), "plan".into(), "--use".into(), purpose()];
            words.extend((!guide.may_boot).then(|| "--no-reboot".to_string()));
            words.extend(["--json".into(), below(PLAN)]);
            words
        }
        GuideStep::Before => vec!["prove".into(), "--use".into(), purpose()],
        GuideStep::Apply => vec!["tune".into(), "apply".into(), below(PLAN)],
        GuideStep::Confirm => vec!["tune".into(), "confirm".into()],
        GuideStep::After => vec!["prove".into(), "--like".into(), before()],
        GuideStep::Compare => {
            vec!["compare".into(), before(), below(guide.after.as_deref().unwrap_or("after"))]
        }
    };
    // Measured before where the plan isolates, so that both runs are of the same CPUs.
    let isolates = plan.filter(|plan| step == GuideStep::Before && !plan.real_time.is_empty());
    if let Some(plan) = isolates {
        words.extend(["--cpus".into(), plan.real_time.to_string()]);
    }
    match step {
        GuideStep::Before => words.extend(["-o".into(), below(&fresh(folder, "before"))]),
        GuideStep::After => words.extend(["-o".into(), below(&fresh(folder, "after"))]),
        _ => {}
    }
    words
}

/// Starts the service that a confirmed plan has, which makes its settings of this boot; says whether they are
/// made. A plan of the boot line alone has none.
fn start_service() -> Result<bool, Box<dyn std::error::Error>> {
    if !untrusted::is_there(UNIT) {
        return Ok(true);
    }
    let service = Path::new(UNIT).file_name().unwrap_or_default();
    say(&format!("  systemctl start {}", service.display()))?;
    let started = Command::new("systemctl").arg("start").arg(service).status();
    if started.is_ok_and(|status| status.success()) {
        return Ok(true);
    }
    say("The service did not start: see journalctl -u isolator-tune, then run that step again.")?;
    Ok(false)
}

/// A name that no bundle has yet: one that broke off stays.
fn fresh(folder: &Folder, name: &str) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_string()).chain(numbered).find(|name| !folder.has(name)).unwrap_or_default()
}

/// The bundle that a command wrote, below the folder: the value of its last -o.
fn bundle(words: &[String]) -> Option<String> {
    let at = words.iter().rposition(|word| word == "-o")?;
    words.get(at + 1)?.strip_prefix(FOLDER)?.strip_prefix('/').map(str::to_string)
}

/// The user's answer to a step.
enum Answer {
    Run(Vec<String>),
    Skip,
    End,
}

fn answer(step: GuideStep) -> Result<Answer, Box<dyn std::error::Error>> {
    loop {
        let Some(text) = ask("Enter runs it, s leaves it out, q ends here; or options to add")? else {
            return Ok(Answer::End);
        };
        let words = text.split_whitespace().map(str::to_string).collect::<Vec<_>>();
        match text.as_str() {
            "" => return Ok(Answer::Run(Vec::new())),
            "s" => return Ok(Answer::Skip),
            "q" => return Ok(Answer::End),
            _ if words[0].starts_with('-')
                && !words.iter().any(|word| word == "-o" || word == "--output") =>
            {
                return Ok(Answer::Run(words));
            }
            _ => say(&format!(
                "Not understood: write nothing, s, q, or options of isolator {} but -o.",
                match step {
                    GuideStep::Doctor => "doctor",
                    GuideStep::Plan => "tune plan",
                    GuideStep::Before | GuideStep::After => "prove",
                    GuideStep::Apply => "tune apply",
                    GuideStep::Confirm => "tune confirm",
                    GuideStep::Compare => "compare",
                }
            ))?,
        }
    }
}

/// The last lines.
fn end(guide: &Guide) -> VerbResult {
    let text = match (&guide.applied_in, &guide.after) {
        (None, _) => "Nothing was changed.".to_string(),
        (Some(_), None) => "The plan is applied, and was not measured.".to_string(),
        (Some(_), Some(_)) => format!("Both measurements are in {FOLDER}."),
    };
    say(&format!("\n{text}"))?;
    if guide.applied_in.is_some() {
        let keeps = "isolator tune confirm keeps the changes; ";
        let keeps = if guide.done.contains(&GuideStep::Confirm) { "" } else { keeps };
        say(&format!("next: {keeps}isolator tune rollback undoes the changes"))?;
    }
    Ok(Outcome::Done)
}

fn say(text: &str) -> evidence::Result<()> {
    print(&format!("{text}\n"))
}

/// Asks, and takes a line; `None` where there is no more.
fn ask(question: &str) -> io::Result<Option<String>> {
    // On a terminal that has gone the answer does not come either.
    let _ = write!(io::stdout(), "{question}> ").and_then(|()| io::stdout().flush());
    let mut line = String::new();
    Ok((io::stdin().read_line(&mut line)? > 0).then(|| line.trim().to_string()))
}

fn load(folder: &Folder) -> Result<Guide, Error> {
    let path = folder.path().join(STATE);
    let cure = format!("remove {FOLDER} to begin anew");
    let text = folder.read(STATE, LONGEST).map_err(|error| Error::io("read", &path, &error))?;
    let guide: Guide =
        serde_json::from_slice(&text).map_err(|error| Error::on("read", path.display(), error, &cure))?;
    match guide.purpose.parse::<Use>() {
        Ok(_) => Ok(guide),
        Err(why) => Err(Error::on("read", path.display(), why, cure)),
    }
}

fn save(folder: &Folder, guide: &Guide) -> Result<(), Box<dyn std::error::Error>> {
    let text = serde_json::to_string_pretty(guide)? + "\n";
    folder
        .replace_synced(STATE, text.as_bytes())
        .map_err(|error| Error::io("write", &folder.path().join(STATE), &error))?;
    Ok(())
}

/// The plan, where one was made.
fn plan(folder: &Folder) -> Option<Plan> {
    let text = folder.read(PLAN, LONGEST).ok()?;
    Plan::read(std::str::from_utf8(&text).ok()?).ok()
}

/// The number of this boot.
fn boot_id() -> String {
    untrusted::text("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guide(done: usize) -> Guide {
        Guide {
            purpose: "control:1kHz".into(),
            may_boot: true,
            done: STEPS[..done].to_vec(),
            before: (done > 2).then(|| "before".into()),
            after: (done > 5).then(|| "after".into()),
            applied_in: (done > 3).then(|| "first".into()),
        }
    }

    #[test]
    fn steps_come_in_their_order_and_wait_for_the_boot() {
        let coming = |done: usize, boot: &str| guide(done).coming(boot, done > 1, true);
        for (done, step) in STEPS.iter().enumerate().take(4) {
            assert_eq!(coming(done, "first"), Coming::Step(*step));
        }
        assert_eq!(coming(4, "first"), Coming::Boot);
        for (done, step) in STEPS.iter().enumerate().skip(4) {
            assert_eq!(coming(done, "second"), Coming::Step(*step));
        }
        assert_eq!(coming(7, "second"), Coming::End);
    }

    #[test]
    fn a_plan_without_a_boot_line_needs_no_boot_and_no_confirmation_before_the_second_proof() {
        assert_eq!(guide(4).coming("first", true, false), Coming::Step(GuideStep::After));
    }

    #[test]
    fn without_a_plan_or_a_change_nothing_is_left_to_compare() {
        let no_plan = guide(3);
        assert_eq!(no_plan.coming("first", false, false), Coming::End);
        let not_applied = Guide { applied_in: None, ..guide(4) };
        assert_eq!(not_applied.coming("first", true, true), Coming::End);
    }

    #[test]
    fn the_bundle_of_a_command_is_the_value_of_its_last_o() {
        let words = |text: &str| text.split(' ').map(str::to_string).collect::<Vec<_>>();
        assert_eq!(bundle(&words("prove -o isolator-guide/before-2 --loads idle")), Some("before-2".into()));
        assert_eq!(bundle(&words("prove -o /tmp/x")), None);
    }
}

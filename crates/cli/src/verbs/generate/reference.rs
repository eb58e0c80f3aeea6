// SPDX-License-Identifier: MIT OR Apache-2.0
//! `docs/reference`: pages made from the tables that the program itself uses.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};
use doctor::{ALL, Check, Profile};
use evidence::cause::CauseKind;
use evidence::taint;
use machine::advice::{Aim, Manual, SettingId};
use run::finding::NOTES;
use schemars::{Schema, schema_for};

use crate::args::Cli;

mod example;

/// Name and text of each page.
pub fn pages(documents: &[(&'static str, Schema)]) -> Vec<(&'static str, String)> {
    vec![
        ("checks.md", checks()),
        ("probes.md", probes()),
        ("taints.md", taints()),
        ("notes.md", notes()),
        ("causes.md", causes()),
        ("advice.md", advice()),
        ("rules.md", rules()),
        ("exit-status.md", exit_status()),
        ("json.md", json(documents)),
        ("json-types.txt", super::shapes::list(documents)),
        ("capabilities.md", capabilities()),
    ]
}

/// The head of a page, up to its table.
fn page(title: &str, text: &str) -> String {
    format!(
        "<!-- SPDX-License-Identifier: MIT OR Apache-2.0 -->\n<!-- Written by make docs, not to be edited -->\n# {title}\n\n{text}\n\n"
    )
}

fn table(page: &mut String, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let _ = writeln!(page, "| {} |\n|{}", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.trim().replace('|', "\\|")).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

fn checks() -> String {
    let names = Profile::ALL.map(Profile::name).join("`, `");
    let mut page = page(
        "Checks of `isolator doctor`",
        &format!(
            "A check answers a question about the machine: PASS, WARN, FAIL, UNKNOWN or N/A. Its weight depends on the profile (`{names}`); \
             where a profile has none the check is not applied. The advice depends on the machine: `isolator doctor --explain CHECK` prints it \
             with the evidence, and [advice.md](advice.md) has the settings."
        ),
    );
    let mut group = None;
    for check in ALL.iter().copied().flatten() {
        if group != Some(check.group()) {
            group = Some(check.group());
            let title = check.group().name();
            let _ = writeln!(page, "{}## {title}\n", if page.ends_with("|\n") { "\n" } else { "" });
            let head = ["Check", "Question", "Weight", "Why it matters", "Source"];
            table(&mut page, &head, []);
        }
        let row = [format!("`{}`", check.id), check.question.into(), weights(check), check.why.into()];
        let cells = row.into_iter().chain([check.source.to_string()]).map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(page, "| {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    page
}

/// `high; poll medium; server none`: what most profiles have, and the exceptions.
fn weights(check: &Check) -> String {
    let name = |profile| check.weight(profile).map_or("none".to_string(), |weight| weight.to_string());
    let all = Profile::ALL.map(name);
    let count = |wanted: &String| all.iter().filter(|weight| *weight == wanted).count();
    let usual = all.iter().rev().max_by_key(|weight| count(weight)).cloned().unwrap_or_default();
    let others = Profile::ALL.into_iter().zip(&all).filter(|(_, weight)| **weight != usual);
    let others = others.map(|(profile, weight)| format!("; {profile} {weight}")).collect::<String>();
    usual + &others
}

fn probes() -> String {
    let mut page = page(
        "Probes and loads",
        "A row of a run is one probe under one load on one CPU at one period: `isolator prove --probe NAME,… --loads NAME,…`, \
         `isolator measure PROBE`.\n\n\
         Without options `prove` runs the probe `wakeup` under the load `idle` for 20 s, after 2 s that are not recorded. Its thread has \
         SCHED_FIFO priority 80, a period of 1 ms (`clock_nanosleep` with TIMER_ABSTIME on CLOCK_MONOTONIC) and locked memory. The limit is 10 % \
         of the period. It measures the isolated CPUs, else the last CPU. cyclictest holds `/dev/cpu_dma_latency` at 0 by default; Isolator leaves \
         idle states as they are unless `--dma-latency` says otherwise.",
    );
    page.push_str("## Probes\n\n");
    let all = measure::probes::MEANINGS.into_iter().chain([measure::probes::OWN_LOOP]);
    let rows =
        all.map(|(name, sample, alike)| vec![format!("`{name}`"), sample.to_string(), alike.to_string()]);
    table(&mut page, &["Probe", "A sample", "Alike"], rows);
    page.push_str(
        "\n## Loads\n\nLoads run on the housekeeping CPUs: all but the measured ones and their hyperthreads (`--house-keeping LIST`). They do not \
         compete with the measured thread for its CPU; `ipi` sends interrupts there. `all` means every load that this machine can run. \
         `isolator load --list` shows which these are, and the packages that others need.\n\n",
    );
    let rows = load::catalog().into_iter().map(|load| {
        let needs = if load.packages.is_empty() { "-".to_string() } else { load.packages.join(", ") };
        vec![format!("`{}`", load.name), load.about.to_string(), needs, load.source.to_string()]
    });
    table(&mut page, &["Load", "Work", "Debian packages", "Idea from"], rows);
    page
}

fn taints() -> String {
    let mut page = page(
        "Taints",
        "A taint is a disturbance of a run, or of the claim made from it. Every output shows it, and the verdict cannot be *held* unless the \
         user accepts it by `--accept CODE,…`. A run's own taint has the CPU, the file and the value.",
    );
    let rows = taint::TEXTS.iter();
    let rows = rows.map(|text| vec![format!("`{}`", text.code), text.meaning.into(), text.cure.into()]);
    table(&mut page, &["Code", "Meaning", "Cure"], rows);
    page
}

fn notes() -> String {
    let mut page = page(
        "Notes and refusals",
        "Before a run the program compares the request with the machine. A *note* is recorded and has no effect on the verdict. A *refusal* \
         ends the run before it starts, with status 1. [Taints](taints.md) have their own page; some findings are a note or a taint, by the \
         request.",
    );
    let rows = NOTES.iter().map(|note| {
        vec![format!("`{}`", note.code), note.effect.into(), note.meaning.into(), note.cure.into()]
    });
    table(&mut page, &["Code", "Effect", "Meaning", "Cure"], rows);
    page
}

/// The cure where no event tells, so that `isolator why` has no advice.
const UNEXPLAINED: &str = "look at what the bundle says that the collector did not see; `isolator measure hardware` shows time that firmware or a \
     hypervisor takes";

fn causes() -> String {
    let schema = serde_json::to_value(schema_for!(CauseKind)).unwrap_or_default();
    let meaning = |kind: CauseKind| {
        let all = schema["oneOf"].as_array().into_iter().flatten();
        let own = all.filter(|entry| entry["const"] == kind.name());
        own.filter_map(|entry| entry["description"].as_str()).collect::<String>().replace('\n', " ")
    };
    let mut page = page(
        "Causes of spikes",
        "`isolator why` names what took the CPU during a spike. The advice is that for a run on CPU 3 of a machine of four CPUs with a \
         PREEMPT_RT kernel, Linux 6.12; on another machine it names that machine's CPUs, files and values.",
    );
    let advice = example::advice_on_causes();
    let rows = CauseKind::ALL.iter().copied().map(|kind| {
        let found = advice.iter().filter(|(known, ..)| *known == kind);
        let found = found.map(|(_, name, text)| match name.as_str() {
            "" => text.clone(),
            name => format!("`{name}`: {text}"),
        });
        let name = format!("{} (`{}`)", kind.label(), kind.name());
        let advice = match kind {
            CauseKind::Unexplained => UNEXPLAINED.to_string(),
            _ => found.collect::<Vec<_>>().join("<br>"),
        };
        vec![name, meaning(kind), advice]
    });
    table(&mut page, &["Cause", "Meaning", "Advice, by name"], rows);
    page
}

fn advice() -> String {
    let machine = example::machine();
    let mut page = page(
        "Advice and settings",
        "The settings that the doctor, the preflight and `isolator why` advise, with the value for CPU 3 of the machine of \
         [causes.md](causes.md) and the profile `periodic`. `isolator tune plan` sets those that name it; the others are left, for the reason \
         in brackets.",
    );
    let aim = Aim {
        machine: &machine,
        profile: Profile::Periodic,
        isolated: example::measured(),
        housekeeping: example::housekeeping(),
    };
    let rows = SettingId::ALL.iter().map(|setting| {
        let text = match setting.name().contains("cpuN") {
            true => setting.advice_on(&aim, &aim.isolated),
            false => setting.advice(&aim),
        };
        let entry = setting.entry();
        vec![format!("`{}`", setting.name()), text.to_string(), entry.reason.into(), entry.cost.into()]
    });
    table(&mut page, &["Setting", "Advice", "Reason", "Cost"], rows);
    page.push_str("\n## Advice that no plan carries out\n\n");
    let rows = Manual::ALL.iter().map(|manual| vec![subject(&format!("{manual:?}")), manual.reason().into()]);
    table(&mut page, &["Subject", "Reason"], rows);
    page
}

/// `BootLine` as `boot line`.
fn subject(name: &str) -> String {
    let apart = |c: char| if c.is_uppercase() { format!(" {}", c.to_lowercase()) } else { c.to_string() };
    name.chars().map(apart).collect::<String>().trim_start().to_string()
}

fn rules() -> String {
    page(
        "Rules of `isolator lint`",
        "Calls and states that a real-time thread must not have in its cycles. A note does not change the exit status. `realtime:` is the Linux \
         Foundation's wiki, <https://wiki.linuxfoundation.org/realtime/start>; `Documentation/` is in the sources of Linux.",
    ) + &lint::rule::table()
}

/// The exit statuses in a verb's help, by status; `None` where it has none.
fn statuses(help: &str) -> Option<[String; 3]> {
    let (_, text) = help.split_once("Exit status: ")?;
    let text = text.split("\n\n").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found: [String; 3] = Default::default();
    let mut status = 0;
    for part in text.split("; ") {
        let number = part.split_whitespace().next().and_then(|word| word.parse::<usize>().ok());
        let rest = match number.filter(|number| *number < 3) {
            Some(number) => {
                status = number;
                part.split_once(' ').map_or("", |(_, rest)| rest)
            }
            None => part,
        };
        if !found[status].is_empty() {
            found[status].push_str("; ");
        }
        found[status].push_str(rest.split(". ").next().unwrap_or_default().trim_end_matches('.'));
    }
    Some(found)
}

fn exit_status() -> String {
    let mut page = page(
        "Exit status",
        "0: the limit holds, or the work was done. 1: it could not be done, and one line on standard error names the operation, its object, the \
         reason and the cure. 2: the limit does not hold, or is not proven to. `isolator run` ends with the status of the command that it runs. \
         `make prove` takes 2 as a success, since it is a verdict.",
    );
    table(&mut page, &["Verb", "0", "1", "2"], ends(&Cli::command(), ""));
    page
}

/// A line for each verb below `command` that is run, with its statuses.
fn ends(command: &Command, before: &str) -> Vec<Vec<String>> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let of = |verb: &Command| {
        let name = format!("{before}{}", verb.get_name());
        if verb.has_subcommands() {
            return ends(verb, &format!("{name} "));
        }
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        let [held, could_not, exceeded] = statuses(&help).unwrap_or_default();
        vec![vec![format!("`{name}`"), held, could_not, exceeded]]
    };
    verbs.flat_map(of).collect()
}

/// Rights that suffice without root. A test (`capabilities::`) runs each command with nothing else.
const CAPABILITIES: &[(&str, &str, &str)] = &[
    ("isolator doctor", "", "checks of files that root alone may read answer UNKNOWN"),
    ("isolator load --list", "", ""),
    ("isolator tune plan", "", "facts of the machine that root alone may read are listed as not known"),
    (
        "isolator prove --loads idle --duration 1s --policy other",
        "",
        "taints `not-real-time-policy` and, by the limit, `memory-not-locked`; causes are suspects without times",
    ),
    (
        "isolator prove --loads idle --duration 1s",
        "CAP_SYS_NICE, CAP_IPC_LOCK",
        "causes are suspects without times; the limits rtprio 98 and memlock unlimited suffice, too (`isolator setup-user`)",
    ),
    (
        "isolator prove --loads idle --duration 1s --causes bpf",
        "CAP_SYS_NICE, CAP_IPC_LOCK, CAP_BPF, CAP_PERFMON",
        "",
    ),
];

fn capabilities() -> String {
    let mut page = page(
        "Capabilities that suffice without root",
        "A test runs each of these commands as a user with these capabilities alone. Grant them to a group of users by `isolator setup-user` \
         ([how](../howto/without-root.md)), to a service by `AmbientCapabilities=`, to a container by `--cap-add`.",
    );
    let rows = CAPABILITIES.iter().map(|(command, needs, without)| {
        let needs = if needs.is_empty() { "none" } else { needs };
        vec![format!("`{command}`"), needs.into(), without.to_string()]
    });
    table(&mut page, &["Command", "Capabilities", "Without more"], rows);
    page.push_str(
        "\nOther commands name the capabilities that they lack:\n\n\
         - `isolator monitor PID` and `isolator prove --program PID`: CAP_BPF and CAP_PERFMON; for `--begin` and `--end` CAP_SYS_ADMIN and\n  \
         CAP_SYS_PTRACE. A program that stamps its own cycles with libisolator needs none but access to `/proc/PID/fd`.\n\
         - `isolator lint PID`: CAP_BPF and CAP_PERFMON; for calls of the C library CAP_SYS_ADMIN, for another user's\n  \
         program CAP_SYS_PTRACE.\n\
         - `isolator measure ethercat --device NAME`: CAP_NET_RAW.\n\
         - `isolator tune apply`, `confirm` and `rollback`, `isolator setup-user`: root.\n\
         - `isolator lab`: none; `isolator kernel build`: none.\n\n\
         Capabilities that the program's file gives (`setcap`) stay with `prove`, `measure`, `monitor` and `lint`. The other verbs give them up.\n",
    );
    page
}

fn json(documents: &[(&'static str, Schema)]) -> String {
    let mut page = page(
        "JSON",
        "`--json` prints the result as JSON, `--json=FILE` writes it to a file. Names have their units: `_ns`, `_us`. Each document has a \
         `schema_version`, which is raised where a reader of the former version would be wrong.\n\n\
         Packages install a JSON Schema (2020-12) of each document in `/usr/share/isolator/schema`; the tarball has them in `schema/`. In a \
         clone `make build` writes them to `target/generated/schema`, and `isolator generate FOLDER` to `FOLDER/schema`. \
         [json-types.txt](json-types.txt) has a digest of each type in them: the difference between two versions names the types that changed.",
    );
    let rows = documents.iter().map(|(name, schema)| {
        let text = schema.get("description").and_then(|text| text.as_str()).unwrap_or_default();
        let first = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
        vec![format!("`{name}.schema.json`"), first]
    });
    table(&mut page, &["Schema", "Content"], rows);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_text_gives_each_status() {
        let help = "Text.\n\nExit status: 0 done, or\nall in force; 1 it\ncould not; one line says why; 2 (verify) not. Ctrl-C ends.\n\nMore.";
        let found = statuses(help).unwrap();
        assert_eq!(found, ["done, or all in force", "it could not; one line says why", "(verify) not"]);
        assert_eq!(statuses("Nothing"), None);
    }

    #[test]
    fn each_cause_has_a_meaning_and_advice() {
        let page = causes();
        let rows: Vec<&str> = page.lines().filter(|line| line.contains("(`")).collect();
        assert_eq!(rows.len(), CauseKind::ALL.len(), "{page}");
        for row in rows {
            assert!(row.split(" | ").all(|cell| !cell.trim_matches(['|', ' ']).is_empty()), "{row}");
        }
    }

    #[test]
    fn each_taint_and_note_has_a_meaning_and_a_cure() {
        assert_eq!(taint::TEXTS.len(), taint::CODES.len());
        let all = taint::TEXTS.iter().map(|text| (text.code, text.meaning, text.cure));
        for (code, meaning, cure) in all.chain(NOTES.iter().map(|note| (note.code, note.meaning, note.cure)))
        {
            assert!(!meaning.trim().is_empty() && !cure.is_empty(), "{code}");
        }
    }
}

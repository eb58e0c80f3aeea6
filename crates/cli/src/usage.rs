// SPDX-License-Identifier: MIT OR Apache-2.0
//! Before and after the parser: what `--json` takes along, and one line for a command line that cannot be
//! read.

use std::error::Error as _;
use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use crate::args::Cli;

/// Joins `--json` and the file after it, so that `--json - `, `--json out.json` and a bare `--json` before
/// another argument all mean what they look like.
pub fn join_json(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    let mut plain = false;
    for arg in args {
        let file = arg == "-" || arg.to_string_lossy().ends_with(".json");
        match joined.last_mut() {
            Some(last) if !plain && last == "--json" && file => {
                last.push("=");
                last.push(arg);
            }
            _ => {
                plain |= arg == "--";
                joined.push(arg);
            }
        }
    }
    joined
}

/// The fault in a command line of which `verb` is the first word, in one line with the cure.
pub fn line(error: &Error, verb: Option<&str>) -> String {
    let said = |kind| error.get(kind).map(value_text).unwrap_or_default();
    let nearest = |kind| error.get(kind).map(nearest).unwrap_or_default();
    let name = |text: String| text.split([' ', '=', '[']).next().unwrap_or_default().to_string();
    let command = Cli::command();
    let verb = verb.filter(|verb| command.find_subcommand(verb).is_some());
    let program = verb.map_or("isolator".to_string(), |verb| format!("isolator {verb}"));
    let why = match error.kind() {
        ErrorKind::ValueValidation => {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            format!(
                "cannot use '{}' for {}: {why}",
                said(ContextKind::InvalidValue),
                name(said(ContextKind::InvalidArg))
            )
        }
        ErrorKind::UnknownArgument => {
            let near = nearest(ContextKind::SuggestedArg);
            let cure = if near.is_empty() { String::new() } else { format!("; did you mean {near}?") };
            format!("{program} takes no '{}'{cure}", said(ContextKind::InvalidArg))
        }
        ErrorKind::InvalidSubcommand => {
            let near = nearest(ContextKind::SuggestedSubcommand);
            let cure = if near.is_empty() {
                let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
                format!("choose from {}", verbs.map(|verb| verb.get_name()).collect::<Vec<_>>().join(", "))
            } else {
                format!("did you mean {near}?")
            };
            format!("there is no verb '{}'; {cure}", said(ContextKind::InvalidSubcommand))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "no verb was given".to_string()
        }
        ErrorKind::MissingRequiredArgument => {
            let lacks = said(ContextKind::InvalidArg);
            let is_process = matches!(lacks.as_str(), "<PROGRAM>" | "<PID>");
            let hint = if is_process {
                ", a process number: pgrep prints none where no such program runs"
            } else {
                ""
            };
            format!("{program} lacks {lacks}{hint}")
        }
        ErrorKind::ArgumentConflict => format!(
            "{} cannot be given together with {}",
            name(said(ContextKind::InvalidArg)),
            name(said(ContextKind::PriorArg))
        ),
        _ if error.get(ContextKind::InvalidArg).is_some() => {
            format!("{} lacks its value", name(said(ContextKind::InvalidArg)))
        }
        kind => kind.to_string(),
    };
    // Who names the cure needs no manual.
    if why.contains("; write") || why.contains("; give") {
        why
    } else {
        format!("{why}; see {program} --help")
    }
}

fn value_text(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(several) => several.join(" "),
        other => other.to_string(),
    }
}

/// Of several suggestions, which come in order of their likeness, the most likely one.
fn nearest(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(several) => several.last().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[path = "../tests/common/pages.rs"]
#[expect(dead_code, reason = "the tests of the pages themselves need the rest")]
mod pages;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn split(text: &str) -> impl Iterator<Item = OsString> {
        text.split(' ').map(OsString::from)
    }

    #[test]
    fn json_takes_a_dash_or_a_json_file_but_never_a_bundle() {
        let join = |text: &str| {
            let joined = join_json(split(text));
            joined.iter().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(join("isolator compare --json a b"), "isolator compare --json a b");
        assert_eq!(join("isolator prove --json - --quiet"), "isolator prove --json=- --quiet");
        assert_eq!(join("isolator prove --json out.json"), "isolator prove --json=out.json");
        assert_eq!(join("isolator run -- tool --json -"), "isolator run -- tool --json -");
    }

    #[test]
    fn a_command_line_that_cannot_be_read_becomes_one_line_with_the_cure() {
        for (args, expected) in [
            (
                "isolator prove --period 1000",
                "cannot use '1000' for --period: it has no unit; write 1000us, 1000ms or 1000s",
            ),
            (
                "isolator prove --priority x",
                "cannot use 'x' for --priority: invalid digit found in string; see isolator prove --help",
            ),
            (
                "isolator prove --polcy fifo",
                "isolator prove takes no '--polcy'; did you mean --policy?; see isolator prove --help",
            ),
            ("isolator prove --limit", "--limit lacks its value; see isolator prove --help"),
            (
                "isolator prove --limit 1ms --limit 2ms",
                "--limit cannot be given together with --limit; see isolator prove --help",
            ),
            ("isolator compare a", "isolator compare lacks <AFTER>; see isolator compare --help"),
            ("isolator porve", "there is no verb 'porve'; did you mean prove?; see isolator --help"),
            (
                "isolator monitor",
                "isolator monitor lacks <PROGRAM>, a process number: pgrep prints none where no such program runs; \
                 see isolator monitor --help",
            ),
            ("isolator export a", "isolator export lacks --as <FORMAT>; see isolator export --help"),
            ("isolator", "no verb was given; see isolator --help"),
            ("isolator proof", "there is no verb 'proof'; did you mean prove?; see isolator --help"),
        ] {
            let error = Cli::try_parse_from(split(args)).unwrap_err();
            assert_eq!(line(&error, args.split(' ').nth(1)), expected, "{args}");
        }
        let error = Cli::try_parse_from(split("isolator xyzzy")).unwrap_err();
        let verbs = line(&error, Some("xyzzy"));
        assert!(
            verbs.starts_with(
                "there is no verb 'xyzzy'; choose from prove, measure, monitor, lint, load, report, "
            ),
            "{verbs}"
        );
        assert!(verbs.ends_with("; see isolator --help") && !verbs.contains("generate"), "{verbs}");
    }

    #[test]
    fn each_command_of_a_page_can_be_parsed() {
        let (mut wrong, mut parsed) = (Vec::new(), 0);
        for block in pages::all_pages().iter().flat_map(|page| &page.blocks) {
            for words in block.commands() {
                parsed += 1;
                let args = join_json(words.iter().map(OsString::from));
                // Without a verb it leads through a proof.
                if words.len() > 1
                    && let Err(error) = Cli::try_parse_from(args)
                    && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
                {
                    let verb = words.get(1).map(String::as_str);
                    wrong.push(format!("{}: {}: {}", block.place, words.join(" "), line(&error, verb)));
                }
            }
        }
        assert!(parsed > 0, "no command was found");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

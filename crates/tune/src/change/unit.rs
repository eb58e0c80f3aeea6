// SPDX-License-Identifier: MIT OR Apache-2.0
//! The unit that does the settings again at every boot. It runs as root, so its program must be one that only
//! root can write, and its line is quoted as systemd.service(5) and systemd.syntax(7) ask.

use std::path::Path;

use super::applied::Applied;
use super::here::Here;
use crate::action::Skipped;
use crate::places::UNIT;
use crate::record::Step;
use crate::record::kept::Kept;
use crate::record::own::OwnPart;
use crate::system::System;
use crate::{Error, Result};

/// The steps that install and enable it; none where no systemd runs.
pub(super) fn steps(
    here: &mut Here<'_>,
    program: &str,
    plan: &str,
    applied: &mut Applied,
) -> Result<Vec<Step>> {
    if here.system.stat("/run/systemd/system").is_err() {
        applied.skipped.push(Skipped {
            what: "settings at every boot".into(),
            reason: format!("no systemd runs here; have `{program} tune apply --at-boot {plan}` run at boot"),
        });
        return Ok(Vec::new());
    }
    if program.chars().any(|letter| letter.is_control() || matches!(letter, '"' | '\'' | '\\')) {
        return Err(refused(
            program,
            "systemd runs no program whose path has quotes, backslashes or control characters",
        ));
    }
    // Files below a folder are of a machine where the program lies elsewhere.
    if here.root == Path::new("/") {
        only_roots(here.system, program)?;
    }
    let text = text(program, plan);
    let old = Kept::of(here.system, UNIT)?;
    let new = Some(Kept::new(&text, old.as_ref()));
    let systemctl = |rest: &[&str]| -> Vec<String> {
        ["systemctl"].iter().chain(rest).map(ToString::to_string).collect()
    };
    let command = |run, undo| Step::Command { run, undo, volatile: false, needed: true };
    Ok(vec![
        command(Vec::new(), systemctl(&["daemon-reload"])),
        Step::File { path: UNIT.into(), old, new, own: OwnPart::Lines },
        command(systemctl(&["daemon-reload"]), Vec::new()),
        command(
            systemctl(&["enable", "isolator-tune.service"]),
            systemctl(&["disable", "isolator-tune.service"]),
        ),
    ])
}

fn text(program: &str, plan: &str) -> String {
    format!(
        "# Made by `isolator tune confirm`; `isolator tune rollback` takes it away again.\n[Unit]\n\
         Description=Isolator: the settings of the confirmed plan\nAfter=systemd-udev-trigger.service irqbalance.service\n\
         ConditionPathExists={plan}\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
         ExecStart={} tune apply --at-boot {plan}\n\n[Install]\nWantedBy=multi-user.target\n",
        quoted(program)
    )
}

/// A program's path, which has neither quotes nor backslashes, as one word of `ExecStart=`. Variables are not
/// looked for in the first word, so `$` stays as it is.
fn quoted(path: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._+-".contains(letter);
    if path.chars().all(plain) {
        return path.to_string();
    }
    format!("\"{}\"", path.replace('%', "%%"))
}

fn refused(program: &str, why: &str) -> Error {
    Error::new(
        format!("let {UNIT} run {} at every boot", untrusted::text::clean(program)),
        why,
        "install it where only root can write (install -o root -m 755 isolator /usr/local/bin/) and confirm with that one",
    )
}

/// Refuses a program that, or a folder of whose path, another user than root can write.
fn only_roots(system: &dyn System, program: &str) -> Result<()> {
    let real = system.real_path(program).map_err(|error| refused(program, &error::reason(&error)))?;
    let ends = real.match_indices('/').map(|(at, _)| at.max(1)).chain([real.len()]);
    for path in ends.map(|end| &real[..end]) {
        let stat = system.stat(path).map_err(|error| refused(program, &error::reason(&error)))?;
        if stat.uid != 0 {
            return Err(refused(program, &format!("{path} belongs to another user than root")));
        }
        if stat.mode & 0o022 != 0 {
            return Err(refused(program, &format!("other users than root can write {path}")));
        }
        if stat.folder == (path == real) {
            return Err(refused(program, &format!("{path} is not a program")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_a_path_as_systemd_reads_it() {
        for (path, word) in [
            ("/usr/local/bin/isolator", "/usr/local/bin/isolator"),
            ("/opt/my tools/isolator", "\"/opt/my tools/isolator\""),
            ("/opt/50%/isolator", "\"/opt/50%%/isolator\""),
            ("/opt/$HOME/isolator", "\"/opt/$HOME/isolator\""),
            ("/opt/a;b/isolator", "\"/opt/a;b/isolator\""),
        ] {
            assert_eq!(quoted(path), word);
        }
    }

    #[test]
    fn refuses_a_program_that_others_can_write() {
        use std::os::unix::fs::PermissionsExt;
        let system = crate::system::Real::new(Path::new("/")).unwrap();
        assert_eq!(only_roots(&system, "/bin/sh"), Ok(()));
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("isolator");
        let path = program.to_str().unwrap();
        assert!(only_roots(&system, path).unwrap_err().why.contains("no such file"));
        std::fs::write(&program, "").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = only_roots(&system, path).unwrap_err().to_string();
        assert!(
            error.contains("other users than root can write") || error.contains("belongs to another user"),
            "{error}"
        );
        assert!(error.contains("install it where only root can write"), "{error}");
        assert_eq!(
            only_roots(&system, link.to_str().unwrap()),
            Ok(()),
            "a link is followed to what it leads to"
        );
        assert!(only_roots(&system, "/usr/bin").unwrap_err().why.contains("is not a program"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The capabilities that `docs/reference/capabilities.md` states suffice: each of its commands is run by a
//! user who has nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{
    PROGRAM, Ran, UNPRIVILEGED, folder, installed, reference, skipped, skipped_for_lack_of_cpus,
    skipped_for_lack_of_root,
};

/// The rows of the page: a command, and its capabilities as `setpriv` names them.
fn rows() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(reference().join("capabilities.md")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `isolator "));
    rows.map(|row| {
        let (command, rest) = row.split_once("` | ").unwrap();
        let needed = rest.split(" | ").next().unwrap().split(", ").filter(|name| *name != "none");
        let needed = needed.map(|name| name.strip_prefix("CAP_").expect(name).to_lowercase());
        (command.to_string(), needed.collect())
    })
    .collect()
}

#[test]
fn the_stated_capabilities_suffice() {
    if skipped_for_lack_of_root()
        || skipped_for_lack_of_cpus()
        || skipped(!installed("setpriv"), "it needs setpriv")
    {
        return;
    }
    let rows = rows();
    assert!(rows.len() >= 6, "{rows:?}");
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // The folder of the build may be closed to others. Copied by another process: see `isolator_as_nobody`.
    let program = folder.path().join("isolator");
    assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().unwrap().success());
    for (command, needed) in rows {
        let has_bpf = Path::new("/sys/kernel/btf/vmlinux").exists();
        if skipped(command.contains("bpf") && !has_bpf, "it needs a kernel with BTF") {
            continue;
        }
        let capabilities =
            ["-all".to_string()].into_iter().chain(needed.iter().map(|name| format!("+{name}")));
        let capabilities = capabilities.collect::<Vec<_>>().join(",");
        let (user, group) = (format!("--reuid={UNPRIVILEGED}"), format!("--regid={UNPRIVILEGED}"));
        let mut run = Command::new("setpriv");
        run.args([user.as_str(), group.as_str(), "--clear-groups"]);
        for set in ["--bounding-set", "--inh-caps", "--ambient-caps"] {
            run.args([set, &capabilities]);
        }
        run.arg(&program).args(command.split(' ')).current_dir(folder.path()).stdin(Stdio::null());
        let ran = Ran::from(run.output().unwrap());
        let is_done = if command.starts_with("prove") { [Some(0), Some(2)] } else { [Some(0); 2] };
        assert!(is_done.contains(&ran.status), "{command} with {capabilities}: {ran:#?}");
        let taints = ["not-real-time-policy", "memory-not-locked"];
        let lacks = |code: &&&str| ran.stdout.contains(&format!("taint: {code}"));
        let lacking = taints.iter().filter(lacks).collect::<Vec<_>>();
        assert!(needed.is_empty() || lacking.is_empty(), "{command} with {capabilities}: {lacking:?}");
    }
}

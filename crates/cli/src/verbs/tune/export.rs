// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune export`: a plan as a profile of TuneD.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use ::tune::tuned::{self, HEAD, MAIN_FILE, ProfileFile};
use evidence::Error;
use untrusted::Folder;

use super::verify;
use crate::args::TuneExportArgs;
use crate::next;
use crate::outcome::{Outcome, VerbResult};
use crate::output::print;

/// No file of a profile is longer.
const LONGEST: u64 = 1 << 20;

pub fn run(args: &TuneExportArgs) -> VerbResult {
    let plan = verify::read_to(&args.plan, "read", "export")?;
    if args.format != "tuned" {
        let why = "a plan cannot be written so";
        return Err(Error::on("export as", &args.format, why, "choose tuned").into());
    }
    let name = args.output.file_name().and_then(|name| name.to_str()).filter(|name| tuned::is_name(name));
    let Some(name) = name else {
        let why = "the folder's name is the profile's, which has letters, digits, '_', '.' and '-'";
        let what = "write the profile to";
        return Err(Error::on(what, args.output.display(), why, "choose another folder with -o").into());
    };
    let profile = tuned::profile(&plan);
    let fail = |error| Error::io("write the profile to", &args.output, &error);
    let folder = Folder::ours(&args.output).map_err(fail)?;
    for file in &profile.files {
        may_replace(&folder, file)?;
    }
    for file in &profile.files {
        folder.replace(&file.path, file.text.as_bytes()).map_err(fail)?;
        if file.is_program {
            let file = folder.file(&file.path).map_err(fail)?;
            file.set_permissions(Permissions::from_mode(0o755)).map_err(fail)?;
        }
    }
    print(&format!("Profile: {}\n", args.output.join(MAIN_FILE).display()))?;
    for left in &profile.left_out {
        print(&format!("Left out: {}: {}\n", left.what, left.reason))?;
    }
    let name = next::quoted(name);
    print(&format!(
        "next: tuned-adm profile {name}, with the folder in /etc/tuned/profiles, or /etc/tuned before TuneD 2.24\n"
    ))?;
    Ok(Outcome::Done)
}

/// Refuses to write over a file that an export did not write.
fn may_replace(folder: &Folder, file: &ProfileFile) -> Result<(), Error> {
    if !folder.has(&file.path) {
        return Ok(());
    }
    let text = folder.read(&file.path, LONGEST).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').take(2);
    if lines.into_iter().any(|line| line.starts_with(HEAD.as_bytes())) {
        return Ok(());
    }
    let path = folder.path().join(&file.path);
    let why = "it is there and was not made by this program";
    Err(Error::on("write", path.display(), why, "choose another folder with -o, or move it away"))
}

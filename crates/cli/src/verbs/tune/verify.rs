// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator tune verify`: whether what a plan asks for is so on this machine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ::tune::plan::{MadeFor, Plan, PlanRefusal};
use ::tune::system::Real;
use ::tune::transaction::store;
use ::tune::verify;
use evidence::Error;

use crate::args::TuneVerifyArgs;
use crate::outcome::{Document, VerbResult};

/// No plan is longer.
const LONGEST: u64 = 16 << 20;
/// Where applied plans are kept, below the root folder.
const STORE: &str = "var/lib/isolator/tune";

pub fn run(args: &TuneVerifyArgs) -> VerbResult {
    args.out.ready()?;
    let path = if args.plan == "last" { last(&args.root)? } else { PathBuf::from(&args.plan) };
    let plan = read(&path)?;
    let machine = inspect::read_whole(&args.root);
    // Another boot of the same machine is what one verifies after a reboot.
    if let Some(refusal) = plan.made_for.refuses_machine(&MadeFor::here(&args.root, &machine)) {
        return Err(refused(&path, "use the plan", refusal).into());
    }
    let verified = verify::verify(&plan, &machine, &refused_interrupts(&args.root));
    args.out.print_text(report::terminal::tune::verified(&verified, args.out.style()).trim_end());
    args.out.json(&verified)?;
    verified.ended()
}

/// Those that did not let themselves be moved in this boot, whichever plan asked it of them: a plan that is
/// made anew, and says the same, has another digest.
fn refused_interrupts(root: &Path) -> Vec<u32> {
    let Ok(system) = Real::new(root) else { return Vec::new() };
    let boot = store::boot_id(&system);
    let records = store::all(&system).unwrap_or_default().into_iter();
    let records = records.filter(|record| record.boot_id == boot);
    records.flat_map(|record| record.refused_interrupts().collect::<Vec<_>>()).collect()
}

/// The plan in the file `path`.
pub fn read(path: &Path) -> Result<Plan, Error> {
    read_to(path, "read the plan", "use the plan")
}

/// As [`read`]; errors say that it could not be read by `read`, and what was to be done with it by `what`.
pub fn read_to(path: &Path, read: &str, what: &str) -> Result<Plan, Error> {
    let fail = |error| Error::io(read, path, &error);
    let text = untrusted::read(path, LONGEST).map_err(fail)?;
    let text = String::from_utf8(text).map_err(|_| fail(std::io::Error::other("it is no UTF-8 text")))?;
    Plan::read(&text).map_err(|refusal| refused(path, what, refusal))
}

/// The copy of the plan that was applied last on the machine below `root`.
fn last(root: &Path) -> Result<PathBuf, Error> {
    let folder = root.join(STORE);
    let none = || {
        Error::on(
            "verify",
            "the last plan",
            "none was applied here",
            "give the file that tune plan --json wrote",
        )
    };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(none()),
        Err(error) => return Err(Error::io("read", &folder, &error)),
    };
    let plans = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("plan-") && name.ends_with(".json")
    });
    plans.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok()).ok_or_else(none)
}

fn refused(path: &Path, what: &str, refusal: PlanRefusal) -> Error {
    Error::on(what, path.display(), refusal.reason, refusal.cure)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator setup-user`: rights to measure without being root, given and taken.

use std::path::Path;

use ::tune::system::Real;
use ::tune::user::{self, UserRights};
use error::Error;

use super::tune::here::LocalMachine;
use super::tune::rollback;
use crate::args::SetupUserArgs;
use crate::outcome::{Outcome, VerbResult};

pub fn run(args: &SetupUserArgs) -> VerbResult {
    args.here.out.ready()?;
    let root = &args.here.root;
    let what = if args.undo { "take rights from users" } else { "give rights to users" };
    if args.undo && !args.users.is_empty() {
        let users = args.users.join(", ");
        let cure = format!("leave the names out, or take {users} out of the group by gpasswd -d");
        return Err(Error::new(
            format!("take the rights from {users} alone"),
            "--undo takes them from all users",
            cure,
        )
        .into());
    }
    let mut machine = LocalMachine::open(root, what, !args.dry_run)?;
    let _accounts = if args.dry_run { None } else { lock_accounts(root, what)? };
    if args.undo {
        let undone = user::undo(&mut machine.here(root))?;
        return rollback::ended(&undone, &args.here.out, "isolator setup-user --undo");
    }
    let wanted = UserRights {
        users: args.users.clone(),
        group: args.group.clone(),
        program: args.capabilities,
        dry_run: args.dry_run,
    };
    let applied = user::set_up(&mut machine.here(root), &wanted)?;
    args.here.out.json(&applied)?;
    args.here.out.print_text(report::terminal::tune::applied(&applied).trim_end());
    Ok(Outcome::Done)
}

/// Keeps useradd and its like from changing the same files until it is closed.
fn lock_accounts(root: &Path, what: &str) -> Result<Option<std::fs::File>, Error> {
    let lock = Real::new(root).and_then(|system| system.lock_accounts());
    lock.map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::PermissionDenied => {
            let why = "another program changes users or groups (/etc/.pwd.lock)";
            Error::new(what, why, "wait until it has ended")
        }
        _ => Error::os(what, &error, "look at /etc/.pwd.lock"),
    })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Roles of this program beside a command line for people: parts of it start it again under other names.

use std::process::ExitCode;

use lab::guest::{alone, storm};

use crate::{by_verb, snapshot, started};

/// Runs as one of those, where this process was started as one.
pub fn main() -> Option<ExitCode> {
    if lab::guest::is_init() {
        return Some(lab::guest::main());
    }
    match std::env::args_os().nth(1)?.to_str()? {
        load::WORKER_VERB => Some(load::worker_main(std::env::args().skip(2))),
        lab::child::VERB => Some(lab::child::become_child(std::env::args().skip(2))),
        started::VERB => Some(started::main(std::env::args_os().skip(2))),
        snapshot::VERB => Some(snapshot::main(std::env::args_os().skip(2))),
        alone::VERB => Some(alone::main(std::env::args().skip(2))),
        storm::VERB => Some(storm::runner::main(std::env::args().skip(2))),
        storm::owner::VERB => {
            let program = std::env::args_os().take(1);
            Some(storm::owner::main(std::env::args_os().skip(2), |rest| by_verb(program.chain(rest))))
        }
        _ => None,
    }
}

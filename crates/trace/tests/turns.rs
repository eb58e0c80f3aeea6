// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs whose runtime runs a loop on any of its threads: none is taken for the loop.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use trace::follow::{Follower, LoopChoice};

use crate::truth::build::of_go;
use crate::truth::run::{cannot_watch, one_at_a_time};

/// A program that is ended with the test.
struct Going(Child);

impl Going {
    fn start(mut command: Command, style: &str) -> Going {
        let mut child = command.arg(style).stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = child.stdout.take().expect("the output is a pipe");
        BufReader::new(output).read_line(&mut String::new()).expect("the program reports its start");
        Going(child)
    }

    /// Its loops, as they are described.
    fn loops(&self, choice: &LoopChoice) -> Result<Vec<(String, Vec<String>)>, String> {
        let follower = Follower::attach(self.0.id(), choice, "not used", &AtomicBool::new(false));
        let follower = follower.map_err(|error| error.to_string())?.expect("nothing stopped it");
        Ok(follower.loops().iter().map(|found| (found.waits_with.clone(), found.notes.clone())).collect())
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn takes_no_thread_of_go_for_a_loop() {
    let skipped = |why: String| println!("skipped: {why}");
    if let Some(why) = cannot_watch() {
        return skipped(why);
    }
    let _turn = one_at_a_time();
    for style in ["ticker", "sleep", "locked"] {
        let command = match of_go() {
            Ok(command) => command,
            Err(why) => return skipped(why),
        };
        let found = Going::start(command, style).loops(&LoopChoice::default());
        match (style, found) {
            ("locked", Ok(loops)) => {
                let [(waits_with, notes)] = &loops[..] else { panic!("{loops:?}") };
                assert!(waits_with.starts_with("a futex"), "{waits_with}");
                assert!(notes.iter().any(|note| note.contains("runtime.LockOSThread")), "{notes:?}");
            }
            (_, Err(why)) => {
                assert!(style != "locked" && why.contains("a program of Go"), "{style}: {why}");
                assert!(why.contains("; lock the goroutine to a thread (runtime.LockOSThread)"), "{why}");
            }
            (_, found) => panic!("{style}: {found:?}"),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest to type in. There is no shell in it: the verbs of this program, and the few words that a person
//! needs to look around.

use std::fs;
use std::io::{BufRead, Write};
use std::process::{Command, Stdio};

use crate::guest::{Result, storm};

const HELP: &str = "  measure, prove, load, run, …   this program's verbs, as on any machine
  storm NAME…                    storms, taking turns
  cat FILE · ls [FOLDER] · write FILE TEXT
  exit                           powers the guest off";

/// Reads and obeys lines until `exit`.
pub fn run() -> Result<()> {
    println!("A guest of the lab, whose times are the emulator's and no latencies. Type help, or exit.");
    let mut lines = std::io::stdin().lock().lines();
    loop {
        print!("guest> ");
        std::io::stdout().flush()?;
        let Some(line) = lines.next() else { return Ok(()) };
        let line = line?;
        let words = line.split_whitespace().collect::<Vec<_>>();
        if words.first() == Some(&"exit") {
            return Ok(());
        }
        if let Err(error) = obey(&words) {
            println!("{error}");
        }
    }
}

fn obey(words: &[&str]) -> Result<()> {
    match words {
        [] => {}
        ["help"] => println!("{HELP}"),
        ["cat", file] => print!("{}", String::from_utf8_lossy(&fs::read(file)?)),
        ["ls"] => return obey(&["ls", "/"]),
        ["ls", folder] => {
            for entry in fs::read_dir(folder)? {
                println!("{}", entry?.file_name().to_string_lossy());
            }
        }
        ["write", file, text @ ..] => fs::write(file, text.join(" "))?,
        ["storm", names @ ..] => {
            let order = storm::StormJob {
                storms: names.iter().map(ToString::to_string).collect(),
                measured: inspect::read("/".as_ref()).isolation.isolated,
                seed: 1,
                times: 1,
            };
            let mut blowing = Command::new("/proc/self/exe");
            blowing.args([storm::VERB, &serde_json::to_string(&order)?]).stdin(Stdio::piped());
            let mut blowing = blowing.spawn()?;
            if let Some(mut begin) = blowing.stdin.take() {
                begin.write_all(b"\n")?;
            }
            blowing.wait()?;
        }
        verb => {
            Command::new("/proc/self/exe").args(verb).status()?;
        }
    }
    Ok(())
}

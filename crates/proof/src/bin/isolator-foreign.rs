// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator-foreign TIMES [READER...]`: so many mutations in all, shared by the readers. Status 1 where one
//! makes a reader panic, or the process takes more than 256 MiB. `isolator-foreign input READER NUMBER`
//! writes one of them.

use std::io::Write;
use std::process::ExitCode;

use proof::foreign::{self, ALL, ForeignReader, mutation};

/// The most memory that all readers together may have resident.
const MOST_BYTES: u64 = 256 << 20;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.as_slice() {
        [word, reader, number] if word == "input" => input(reader, number),
        [times, names @ ..] => campaign(times, names),
        [] => Err("cannot mutate: no number was given; run isolator-foreign 50000".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("isolator-foreign: {why}");
            ExitCode::FAILURE
        }
    }
}

fn input(reader: &str, number: &str) -> Result<(), String> {
    let number = number.parse().map_err(|_| format!("cannot use '{number}': it is not a number"))?;
    let data = mutation::mutated(&foreign::seeds(reader), number);
    std::io::stdout().write_all(&data).map_err(|error| format!("cannot write the input: {error}"))
}

fn campaign(times: &str, names: &[String]) -> Result<(), String> {
    let times: u64 = times.parse().map_err(|_| format!("cannot use '{times}': it is not a number"))?;
    let readers: Vec<ForeignReader> = ALL
        .into_iter()
        .filter(|reader| names.is_empty() || names.iter().any(|name| name == reader.name))
        .collect();
    let each = times.div_ceil((readers.len() as u64).max(1));
    let mut failed = Vec::new();
    let most = || mutation::most_resident_bytes().unwrap_or(0);
    for reader in &readers {
        match mutation::run(reader, 0, each) {
            Ok(()) => {
                println!("{}: {each} mutations, no panic; at most {} MiB resident", reader.name, most() >> 20)
            }
            Err(why) => failed.push(why),
        }
    }
    let most = most();
    if most > MOST_BYTES {
        failed.push(format!("more than {} MiB were resident", MOST_BYTES >> 20));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\nisolator-foreign: ")) }
}

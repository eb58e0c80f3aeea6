// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator-proof PROOF ISOLATOR PAGE`: measures in guests with the program `ISOLATOR` and puts the tables
//! into `PAGE`. `proof-kernel` takes names of parts after the page. `proof-causes` takes this program for
//! guests before the page, and parts after it. `isolator-proof table NAME PAGE COMMAND`: puts the table that
//! a command prints into its place.
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

use evidence::lab::MatrixDocument;
use lab::matrix;
use proof::{causes, claims, guests, live, page, published, repeats, responses, simulated};

/// The heap of the measured program.
#[global_allocator]
static HEAP: rt::heap::KeepingHeap = rt::heap::KeepingHeap::new();

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["lab-page", isolator, page] => lab_page(Path::new(isolator), Path::new(page)),
        ["table", name, page, command @ ..] => page::put_printed(Path::new(page), name, command),
        ["proof-live", isolator, page] => tables("proof-live", (isolator, page), live::run, "it disturbs"),
        ["proof-lab", isolator, page] => tables("proof-lab", (isolator, page), repeats::run, "did not repeat"),
        ["proof-response", isolator, page] => {
            tables(&guests::table("proof-response")?, (isolator, page), responses::run, "not reached")
        }
        ["proof-kernel", isolator, page, parts @ ..] => {
            claims::run(Path::new(isolator), Path::new(page), parts)
        }
        ["proof-causes", isolator, guest, page, parts @ ..] => {
            causes::run(Path::new(isolator), Path::new(guest), Path::new(page), parts)
        }
        ["proof-claims", page] => simulated::run(Path::new(page), simulated::RUNS),
        ["proof-claims", page, runs] => simulated::run(Path::new(page), runs.parse()?),
        ["causes-guest", collector, rounds, only @ ..] => causes::in_guest(collector, rounds.parse()?, only),
        ["causes-trial"] => causes::trials::in_guest(),
        ["causes-cost", collector] => causes::cost::in_guest(collector),
        _ => Err("usage: isolator-proof lab-page|proof-live|proof-lab|proof-response|proof-kernel|proof-causes PROGRAM PAGE [PART...], or table NAME PAGE COMMAND"
            .into()),
    }
}

fn lab_page(isolator: &Path, page: &Path) -> Result<()> {
    const NAME: &str = "published";
    let scratch = tempfile::tempdir()?;
    let document: MatrixDocument =
        guests::lab(isolator, &["matrix", NAME, "--fresh"], &scratch.path().join(NAME))?;
    let tables = published::tables(&document, &matrix::named(NAME)?.published);
    print!("{tables}");
    page::put(page, "lab-page", &tables)
}

/// Measures in guests, puts the tables into the page, and fails if they have deviations.
fn tables(
    name: &str,
    (isolator, page): (&str, &str),
    measure: fn(&Path, &Path) -> Result<guests::Proof>,
    lacking: &str,
) -> Result<()> {
    page::has_place(Path::new(page), name)?;
    let scratch = tempfile::tempdir()?;
    let (tables, wrong) = measure(Path::new(isolator), scratch.path())?;
    print!("{tables}");
    page::put(Path::new(page), name, &tables)?;
    if wrong.is_empty() { Ok(()) } else { Err(format!("{lacking}: {}", wrong.join("; ")).into()) }
}

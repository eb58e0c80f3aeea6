// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that describe a board: what is accepted has lines, and each line at most one place in the kernel's chips.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::response::board::Board;

fuzz_target!(|text: &str| {
    let Ok(board) = Board::parse(text) else { return };
    let last = board.lines - 1;
    assert!(board.check_line("--in", last).is_ok() && board.check_line("--in", board.lines).is_err());
    for line in [0, last / 2, last] {
        if let Some((label, number)) = board.chip_of(line) {
            assert!(number < board.lines && !label.contains("{address}"));
        }
    }
});

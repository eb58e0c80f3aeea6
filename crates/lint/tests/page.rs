// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page for users has the rules as the program has them.

use std::path::Path;

#[test]
fn the_page_has_the_table_of_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lint.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let table = lint::rule::table();
    assert!(page.contains(&table), "docs/lint.md must have this table:\n{table}");
}

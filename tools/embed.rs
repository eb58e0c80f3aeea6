// SPDX-License-Identifier: MIT OR Apache-2.0
//! For build scripts: puts a folder of the repository into a program, so that a binary copied elsewhere has
//! it too. Two calls of the standard library do it: no crate is needed.

use std::fs;
use std::path::{Path, PathBuf};

/// Writes `table` into the build's folder: `&[(name, include_bytes!(file)), …]` of all files below `folder`,
/// whose path begins at the crate's own.
pub fn embed(folder: &str, table: &str) {
    // Of this run, not of the compilation: a build folder may have been copied from another checkout.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&own).join(folder);
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    list(&root, &mut files);
    files.sort();
    let entry = |file: &PathBuf| {
        let name = file.strip_prefix(&root).expect("it lies below").display().to_string();
        format!("({name:?}, include_bytes!({:?})),\n", file.display().to_string())
    };
    let text = format!("&[\n{}]\n", files.iter().map(entry).collect::<String>());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    // What is linked from another build folder is written anew, not over.
    let _ = fs::remove_file(out.join(table));
    fs::write(out.join(table), text).expect("the build folder can be written");
}

/// All files below a folder.
fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // What editors and test runs leave behind is no part of it.
        if entry.file_name().to_string_lossy().starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() { list(&path, files) } else { files.push(path) }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header: what the sources say, and a header that compilers take. `UPDATE=1 cargo test -p isolator-c --test header` writes it anew.

use std::path::{Path, PathBuf};
use std::process::Command;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn it_is_what_the_sources_say() {
    let config = cbindgen::Config::from_file(here("cbindgen.toml")).unwrap();
    let mut made = Vec::new();
    cbindgen::generate_with_config(here("."), config).unwrap().write(&mut made);
    let (made, path) = (String::from_utf8(made).unwrap(), here("include/isolator.h"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(made == committed, "include/isolator.h is not what the sources say: write it with UPDATE=1");
}

#[test]
fn compilers_take_it_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, standard, file) in [("cc", "-std=c99", "header.c"), ("c++", "-std=c++17", "header.cc")] {
        let source = folder.path().join(file);
        std::fs::write(
            &source,
            "#include <isolator.h>\nint main(void) { return isolator_version() == 0; }\n",
        )
        .unwrap();
        let compile = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"])
            .arg(here("include"))
            .arg(&source)
            .output();
        let output = match compile {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: no {compiler} here: {error}");
                continue;
            }
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the collector's kernel part with clang. Where there is none, the program is built without it and
//! says so when it is asked for: an empty file stands for the object.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "bpf/events.bpf.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let object = Path::new(&out).join("events.o");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_string());
    // Paths of this build have no place in the object: the same commit gives the same bytes.
    let here = env::current_dir().expect("cargo runs build scripts in the package's folder");
    let built = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c", SOURCE, "-o"])
        .arg(&object)
        .arg(format!("-ffile-prefix-map={}=.", here.display()))
        .arg("-fdebug-compilation-dir=.")
        .status();
    match built {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {SOURCE}: {status}"),
        Err(error) => {
            println!(
                "cargo::warning=built without the BPF part of lint, since {clang} cannot be run ({error}); install clang and build again"
            );
            fs::write(&object, []).expect("OUT_DIR can be written to");
        }
    }
}

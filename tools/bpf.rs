// SPDX-License-Identifier: MIT OR Apache-2.0
//! For build scripts: compiles a BPF part with clang. Where clang is missing, the program is built without it
//! and says so when it is asked for: an empty file stands for the object.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Compiles `bpf/NAME.bpf.c` of the crate into `NAME.o` of the build's folder, and for kernels whose programs
/// cannot read pointers into `NAME-plain.o`; `part` is what the program is without where that cannot be done.
pub fn compile(name: &str, part: &str) {
    compile_as(name, "", &[], part);
    compile_plain(name, part);
}

/// The second of these alone.
pub fn compile_plain(name: &str, part: &str) {
    compile_as(name, "-plain", &["-DPLAIN"], part);
}

fn compile_as(name: &str, kind: &str, options: &[&str], part: &str) {
    let source = format!("bpf/{name}.bpf.c");
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=../../tools/bpf.h");
    println!("cargo::rerun-if-changed=../../tools/per_cpu.h");
    println!("cargo::rerun-if-changed=../../tools/quota.h");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=PATH");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let object = Path::new(&out).join(format!("{name}{kind}.o"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_string());
    // Registers lie elsewhere on each.
    let target = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("aarch64") => "-D__TARGET_ARCH_arm64",
        _ => "-D__TARGET_ARCH_x86",
    };
    // Paths of this build have no place in the object: the same commit gives the same bytes.
    let here = env::current_dir().expect("cargo runs build scripts in the package's folder");
    let built = Command::new(&clang)
        .args([target, "-I../../tools", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"])
        .args(options)
        .args(["-c", &source, "-o"])
        .arg(&object)
        .arg(format!("-ffile-prefix-map={}=.", here.display()))
        .arg("-fdebug-compilation-dir=.")
        .status();
    match built {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {source}: {status}"),
        Err(error) => {
            println!(
                "cargo::warning=built without {part}, since {clang} cannot be run ({error}); install clang and build again"
            );
            fs::write(&object, []).expect("OUT_DIR can be written to");
        }
    }
}

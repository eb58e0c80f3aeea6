// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of `make install-lib`, as CMake, Meson and pkg-config find them: a program is configured, built
//! against the shared and the static library, and run; and `make uninstall` leaves no file.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{archive, here, output, shared};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs a recipe of the Makefile with this build's libraries in place of those that `make lib` makes.
fn make(target: &str, built: &Path, prefix: &Path) -> Option<String> {
    let mut make = Command::new("make");
    make.args(["--no-print-directory", "-C"]).arg(here("../..")).args(["-o", "lib", "-o", "build", target]);
    make.arg(format!("TARGET={}", built.display())).arg(format!("PREFIX={}", prefix.display()));
    // The prefix is no place where the machine looks: ldconfig is left out.
    output(make.arg("DESTDIR=/").env_remove("CARGO_TARGET_DIR").env_remove("MAKEFLAGS"))
}

/// The library in a prefix of its own; `None` where there is no compiler or no make.
fn installed(folder: &Path) -> Option<PathBuf> {
    let (built, prefix) = (folder.join("target"), folder.join("prefix"));
    for part in ["release", "generated/man"] {
        std::fs::create_dir_all(built.join(part)).unwrap();
    }
    std::fs::write(built.join("generated/man/isolator_version.3"), "").unwrap();
    std::fs::copy(archive(), built.join("release/libisolator.a")).unwrap();
    std::fs::copy(shared(folder)?, built.join("release/libisolator.so")).unwrap();
    make("install-lib", &built, &prefix).map(|_| prefix)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn has(tool: &str) -> bool {
    output(Command::new(tool).arg("--version")).is_some()
}

/// Runs what was built; by which libraries it was linked is asked of the program itself.
fn runs(program: &Path, prefix: &Path, is_shared: bool) {
    let said = output(Command::new(program).env("LD_LIBRARY_PATH", prefix.join("lib"))).unwrap();
    assert_eq!(said, format!("isolator {VERSION}\n"), "{}", program.display());
    if let Some(linked) = output(Command::new("readelf").arg("-d").arg(program)) {
        assert_eq!(linked.contains("libisolator.so.1"), is_shared, "{}: {linked}", program.display());
    }
}

#[test]
fn cmake_finds_both_libraries_by_version() {
    let folder = tempfile::tempdir().unwrap();
    let Some(prefix) = installed(folder.path()).filter(|_| has("cmake")) else { return };
    let configure = |wanted: &str| {
        let mut cmake = Command::new("cmake");
        cmake.arg("-S").arg(here("tests/consumer")).arg("-B").arg(folder.path().join(wanted));
        cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())).arg(format!("-DWANTED={wanted}"));
        cmake
    };
    output(&mut configure(VERSION)).unwrap();
    let build = folder.path().join(VERSION);
    output(Command::new("cmake").arg("--build").arg(&build)).unwrap();
    runs(&build.join("shared"), &prefix, true);
    runs(&build.join("static"), &prefix, false);
    let refused = configure("99").output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains(&format!("version: {VERSION}")), "{said}");
}

#[test]
fn meson_finds_both_libraries_by_pkg_config_and_cmake() {
    let folder = tempfile::tempdir().unwrap();
    let Some(prefix) = installed(folder.path()).filter(|_| has("meson") && has("ninja") && has("pkg-config"))
    else {
        return;
    };
    let build = folder.path().join("build");
    let mut setup = Command::new("meson");
    setup.arg("setup").arg(&build).arg(here("tests/consumer"));
    setup.arg(format!("--pkg-config-path={}", prefix.join("lib/pkgconfig").display()));
    setup.arg(format!("--cmake-prefix-path={}", prefix.display()));
    output(&mut setup).unwrap();
    output(Command::new("ninja").arg("-C").arg(&build)).unwrap();
    runs(&build.join("shared"), &prefix, true);
    runs(&build.join("static"), &prefix, false);
    if build.join("by-cmake").exists() {
        runs(&build.join("by-cmake"), &prefix, true);
    }
}

#[test]
fn uninstall_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(prefix) = installed(folder.path()) else { return };
    assert!(files(&prefix).len() > 8, "{:?}", files(&prefix));
    make("uninstall", &folder.path().join("target"), &prefix).unwrap();
    assert_eq!(files(&prefix), [] as [PathBuf; 0]);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tools that building a kernel needs on this machine, and the packages that have them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::architecture::Architecture;
use crate::{Error, Result};

/// A program or a header, and the Debian package that has it.
struct Need(&'static str, ToolKind);

enum ToolKind {
    Program(&'static str),
    Header(&'static str),
}

use ToolKind::{Header, Program};

/// The needs of every kernel.
const ALWAYS: &[Need] = &[
    Need("make", Program("make")),
    Need("gcc", Program("gcc")),
    Need("binutils", Program("ld")),
    Need("patch", Program("patch")),
    Need("flex", Program("flex")),
    Need("bison", Program("bison")),
    Need("bc", Program("bc")),
    Need("xz-utils", Program("xz")),
];

/// objtool reads what the compiler made.
const X86: &[Need] = &[Need("libelf-dev", Header("gelf.h"))];

/// A distribution's configuration signs its modules.
const SIGNED: &[Need] = &[Need("libssl-dev", Header("openssl/ssl.h"))];

/// `CONFIG_DEBUG_INFO_BTF`.
const TYPES: &[Need] = &[Need("pahole", Program("pahole"))];

/// `make bindeb-pkg`.
const PACKAGES: &[Need] = &[
    Need("dpkg-dev", Program("dpkg-buildpackage")),
    Need("debhelper", Program("dh")),
    Need("rsync", Program("rsync")),
    Need("kmod", Program("depmod")),
    Need("cpio", Program("cpio")),
];

/// The purpose of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// For guests.
    Guest,
    /// With a machine's configuration.
    Machine,
    /// With the distribution's, as packages.
    Packages,
}

/// The cross compiler's prefix; empty where the machine's own compiler will do.
pub fn prefix(architecture: Architecture) -> &'static str {
    match architecture {
        _ if architecture == Architecture::of_this_program() => "",
        Architecture::X86_64 => "x86_64-linux-gnu-",
        Architecture::Aarch64 => "aarch64-linux-gnu-",
    }
}

/// Refuses where something is missing, and names the packages. `has_types`: the kernel has its types in it.
pub fn check(architecture: Architecture, purpose: Purpose, has_types: bool) -> Result<()> {
    let mut needs = ALWAYS.iter().collect::<Vec<_>>();
    if architecture == Architecture::X86_64 {
        needs.extend(X86);
    }
    if purpose != Purpose::Guest {
        needs.extend(SIGNED);
    }
    if purpose == Purpose::Packages {
        needs.extend(PACKAGES);
    }
    if has_types {
        needs.extend(TYPES);
    }
    let mut missing =
        needs.into_iter().filter(|need| !is_here(&need.1)).map(|need| need.0.to_string()).collect::<Vec<_>>();
    let prefix = prefix(architecture);
    if !prefix.is_empty() && !has_program(&format!("{prefix}gcc")) {
        missing.push(format!("gcc-{}", prefix.trim_end_matches('-').replace('_', "-")));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let sudo = if rustix::process::getuid().is_root() { "" } else { "sudo " };
    let (verb, names) = (if missing.len() == 1 { "is" } else { "are" }, missing.join(" "));
    let why = format!("{} {verb} not installed", missing.join(", "));
    Err(Error::on(
        "build a kernel",
        format!("of {architecture}"),
        why,
        format!("{sudo}apt-get install {names}"),
    ))
}

fn is_here(kind: &ToolKind) -> bool {
    match kind {
        Program(name) => has_program(name),
        // Unknown without a compiler, and the compiler is named.
        Header(name) => !has_program("gcc") || has_header(name),
    }
}

/// Whether a program is on the search path.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn has_header(name: &str) -> bool {
    let mut cc = Command::new("gcc");
    let cc = cc.args(["-E", "-x", "c", "-o", "/dev/null", "-"]);
    let Ok(mut cc) = cc.stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else { return false };
    let written = cc.stdin.take().is_some_and(|mut input| writeln!(input, "#include <{name}>").is_ok());
    cc.wait().is_ok_and(|status| written && status.success())
}

/// The compiler, as it calls itself.
pub fn compiler(architecture: Architecture) -> Result<String> {
    let program = format!("{}gcc", prefix(architecture));
    let output = Command::new(&program).arg("--version").output();
    let output = output.map_err(|e| Error::io("run", Path::new(&program), &e))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or(&program).to_string())
}

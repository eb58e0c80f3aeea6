// SPDX-License-Identifier: MIT OR Apache-2.0
//! Debian's kernels, taken out of their packages without installing them.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::architecture::Architecture;
use crate::patience::Patience;
use crate::{Error, Result, store};

/// A kernel's image, unpacked.
#[derive(Debug, Clone)]
pub struct Image {
    /// Its release, as in `uname -r`.
    pub release: String,
    /// The file.
    pub image: PathBuf,
    /// `lib/modules/RELEASE` of its package.
    pub modules: Option<PathBuf>,
    /// SHA-256 of the file.
    pub digest: String,
}

/// The newest image of a series that the machine's package sources have, or else Debian's unstable suite.
pub fn find(
    asked: &str,
    version: &str,
    flavour: &str,
    architecture: Architecture,
    patience: &Patience,
    say: &dyn Fn(&str),
) -> Result<Image> {
    let machine = architecture.debian();
    let newest = |apt: &Apt| apt.newest(version, flavour, machine);
    let Some((apt, package)) = offered(machine, patience, say, newest)? else {
        let cure = "add a Debian suite that has it to the package sources, or give a kernel's file";
        let why = format!(
            "neither the package sources nor Debian's unstable suite have linux-image-{version}*{flavour}-{machine}"
        );
        return Err(Error::on("find the kernel", asked, why, cure));
    };
    let folder = store::folder("kernels")?.join(&package);
    let release = package.trim_start_matches("linux-image-").to_string();
    if !folder.is_dir() {
        say(&format!("fetches {package}"));
        // Newer packages leave image and modules to others.
        let parts = ["binary", "modules"].map(|part| format!("linux-{part}-{release}"));
        let parts = parts.into_iter().filter(|part| apt.version_of(part).is_some());
        apt.unpack(&std::iter::once(package.clone()).chain(parts).collect::<Vec<_>>(), &folder)?;
    }
    let modules = ["lib/modules", "usr/lib/modules"].map(|at| folder.join(at).join(&release));
    let modules = modules.into_iter().find(|folder| folder.is_dir());
    let beside = modules.as_ref().map(|folder| folder.join("vmlinuz")).filter(|image| image.is_file());
    let image = beside.unwrap_or_else(|| folder.join("boot").join(format!("vmlinuz-{release}")));
    let digest = store::digest_of(&image)?;
    Ok(Image { release, image, modules, digest })
}

/// Whose packages have what `wanted` looks for, and what it found: the machine's package sources, else
/// Debian's unstable suite, which has newer versions of Linux. Lists are read where the ones at hand do not
/// have it.
pub(crate) fn offered(
    machine: &str,
    patience: &Patience,
    say: &dyn Fn(&str),
    wanted: impl Fn(&Apt) -> Option<String>,
) -> Result<Option<(Apt, String)>> {
    let look = |apt: Option<Apt>, fresh: bool, whose: &str| -> Result<Option<(Apt, String)>> {
        let Some(apt) = apt else { return Ok(None) };
        if fresh {
            say(&format!("reads the package lists{whose}"));
            apt.update()?;
        }
        Ok(wanted(&apt).map(|found| (apt, found)))
    };
    for fresh in [false, true] {
        if let Some(found) = look(Some(Apt::new(machine, patience)?), fresh, "")? {
            return Ok(Some(found));
        }
        // Looked for again: the machine's own lists say where the mirror is.
        let unstable = Apt::unstable(machine, patience)?;
        if let Some(found) = look(unstable, fresh, " of Debian's unstable suite")? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// apt with package lists of its own, so that neither root nor another architecture's lists on this machine
/// are needed; sources and keys are the machine's.
pub(crate) struct Apt {
    state: PathBuf,
    options: Vec<String>,
    stop: Arc<AtomicBool>,
}

/// Debian's keys, from the package debian-archive-keyring, which every Debian has.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// How often a request to end is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Apt {
    /// With the machine's own package sources.
    pub(crate) fn new(machine: &str, patience: &Patience) -> Result<Apt> {
        Apt::with(machine, machine, &[], patience)
    }

    /// With Debian's unstable suite and nothing else, from the mirror that the machine's own sources have;
    /// none where they have no mirror of Debian's. What is fetched is unpacked, never installed.
    pub(crate) fn unstable(machine: &str, patience: &Patience) -> Result<Option<Apt>> {
        let targets = ["indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"];
        let known = Apt::new(machine, patience)?.run("apt-get", &targets)?;
        let Some(mirror) = known.lines().find_map(|line| line.strip_prefix("Debian ")) else {
            return Ok(None);
        };
        let name = format!("{machine}-unstable");
        let list = store::folder("apt")?.join(&name).join("sources.list");
        let options =
            [format!("Dir::Etc::sourcelist={}", list.display()), "Dir::Etc::sourceparts=-".to_string()];
        let apt = Apt::with(machine, &name, &options, patience)?;
        let text = format!("deb [signed-by={KEYRING}] {mirror} unstable main\n");
        fs::write(&list, text).map_err(|e| Error::io("write", &list, &e))?;
        Ok(Some(apt))
    }

    /// With lists and packages in the folder `name`.
    fn with(machine: &str, name: &str, more: &[String], patience: &Patience) -> Result<Apt> {
        let state = store::folder("apt")?.join(name);
        for folder in ["lists/partial", "archives/partial"] {
            let folder = state.join(folder);
            fs::create_dir_all(&folder).map_err(|e| Error::io("make the folder", &folder, &e))?;
        }
        let status = state.join("status");
        fs::write(&status, "").map_err(|e| Error::io("write", &status, &e))?;
        let at = state.display();
        let options = [
            format!("Dir::State={at}"),
            format!("Dir::State::status={at}/status"),
            format!("Dir::Cache={at}"),
            format!("APT::Architecture={machine}"),
            format!("APT::Architectures={machine}"),
            "APT::Sandbox::User=root".to_string(),
        ];
        let options = options.iter().chain(more);
        Ok(Apt {
            state,
            options: options.flat_map(|option| ["-o".to_string(), option.clone()]).collect(),
            stop: Arc::clone(&patience.stop),
        })
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<String> {
        let failed = |why: &str| {
            let cure = "look at the package sources and the network, or give a kernel's file";
            Error::on("run", format!("{program} {}", args.join(" ")), why, cure)
        };
        let mut command = Command::new(program);
        command.current_dir(&self.state).args(&self.options).args(args);
        let output = self.output(&mut command).map_err(|e| failed(&e.to_string()))?;
        self.go_on()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let why = said.lines().rfind(|line| line.starts_with("E:")).unwrap_or("it failed");
            return Err(failed(why));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::SeqCst) {
            return Err(Error::on("fetch", "a kernel", "it was told to end", "run it again"));
        }
        Ok(())
    }

    /// The output of a program; it is ended on request.
    fn output(&self, command: &mut Command) -> io::Result<Output> {
        // A group of its own: a terminal's Ctrl-C is for this program, which says so and ends the other.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn()?;
        let process = Pid::from_child(&child);
        let (tell, told) = channel();
        std::thread::spawn(move || tell.send(child.wait_with_output()));
        loop {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(output) => return output,
                Err(_) if self.stop.load(Ordering::SeqCst) => {
                    // Its methods of fetching are children of its own.
                    let _ = kill_process_group(process, Signal::TERM);
                }
                Err(_) => {}
            }
        }
    }

    pub(crate) fn update(&self) -> Result<()> {
        let _alone = self.alone()?;
        self.run("apt-get", &["update", "-qq"]).map(drop)
    }

    /// Waits until no other program fetches into these lists and packages, and keeps others out until the
    /// file is closed.
    fn alone(&self) -> Result<File> {
        let path = self.state.join("lock");
        let file = File::create(&path).map_err(|e| Error::io("write", &path, &e))?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOOK_EVERY),
                Err(e) => return Err(Error::io("lock", &path, &e.into())),
            }
            self.go_on()?;
        }
    }

    /// The package of the newest release: names hold the version, so the largest by its numbers.
    fn newest(&self, version: &str, flavour: &str, machine: &str) -> Option<String> {
        let names = self.run("apt-cache", &["pkgnames", &format!("linux-image-{version}.")]).ok()?;
        newest_of(names.lines(), flavour, machine)
    }

    /// The version of a package that would be fetched.
    pub(crate) fn version_of(&self, package: &str) -> Option<String> {
        let shown = self.run("apt-cache", &["show", "--no-all-versions", package]).ok()?;
        shown.lines().find_map(|line| line.strip_prefix("Version: ")).map(str::to_string)
    }

    /// Unpacks packages into `folder`, whole or not at all.
    pub(crate) fn unpack(&self, packages: &[String], folder: &Path) -> Result<()> {
        let _alone = self.alone()?;
        // Another program may have done so meanwhile.
        if folder.is_dir() {
            return Ok(());
        }
        // Not beside the others: what is there is whole.
        let half = self.state.join("unpacked");
        let _ = fs::remove_dir_all(&half);
        for package in packages {
            self.unpack_one(package, &half)?;
        }
        fs::rename(&half, folder).map_err(|e| Error::io("move into place", folder, &e))
    }

    fn unpack_one(&self, package: &str, folder: &Path) -> Result<()> {
        self.run("apt-get", &["download", "-qq", package])?;
        let entries = fs::read_dir(&self.state).map_err(|e| Error::io("read", &self.state, &e))?;
        let file = entries.flatten().map(|entry| entry.path()).find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
        });
        let file = file.ok_or_else(|| Error::on("unpack", package, "apt left no package", "try again"))?;
        let unpacked = self.output(Command::new("dpkg-deb").arg("-x").arg(&file).arg(folder));
        self.go_on()?;
        if !unpacked.is_ok_and(|output| output.status.success()) {
            return Err(Error::on(
                "unpack",
                file.display(),
                "dpkg-deb failed",
                "free some space, or remove the file",
            ));
        }
        fs::remove_file(&file).map_err(|e| Error::io("remove", &file, &e))
    }
}

/// The newest of packages such as `linux-image-6.12.117+deb12-rt-amd64`.
fn newest_of<'a>(names: impl Iterator<Item = &'a str>, flavour: &str, machine: &str) -> Option<String> {
    let end = format!("{flavour}-{machine}");
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let version = name.strip_prefix("linux-image-")?.strip_suffix(&end)?;
        version.split(['.', '-', '+']).map(|part| part.trim_start_matches("deb").parse().ok()).collect()
    };
    names.filter_map(|name| Some((numbers(name)?, name))).max().map(|(_, name)| name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_image_is_the_largest_by_numbers_and_of_the_flavour() {
        let names = [
            "linux-image-6.12.90+deb12-rt-amd64",
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.12.117+deb12-rt-amd64",
            "linux-image-6.12.117+deb12-rt-amd64-dbg",
            "linux-image-6.12.117+deb12-rt-amd64-unsigned",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-image-6.12-rt-amd64",
        ];
        let newest = |flavour| newest_of(names.into_iter(), flavour, "amd64");
        assert_eq!(newest("-rt").as_deref(), Some("linux-image-6.12.117+deb12-rt-amd64"));
        assert_eq!(newest("").as_deref(), Some("linux-image-6.12.117+deb12-amd64"));
        assert_eq!(
            newest_of(["linux-image-6.1.0-55-rt-amd64"].into_iter(), "-rt", "amd64").as_deref(),
            Some("linux-image-6.1.0-55-rt-amd64")
        );
        assert_eq!(newest_of(names.into_iter(), "-rt", "arm64"), None);
    }
}

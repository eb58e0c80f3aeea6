// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a kernel's source comes from, and a tree of it with our series in it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::architecture::Architecture;
use crate::build::BuildObserver;
use crate::build::series::PatchSeries;
use crate::debian::{Apt, offered};
use crate::{Error, Result, store};

/// A kernel's source.
#[derive(Debug, Clone)]
pub enum KernelSource {
    /// An archive: of a distribution's package, or given.
    Archive {
        /// The file.
        file: PathBuf,
        /// Its name in words.
        name: String,
    },
    /// A folder, which is copied and not changed.
    Folder(PathBuf),
}

impl KernelSource {
    /// The given source, else the distribution's package `linux-source-VERSION`.
    pub fn find(version: &str, given: Option<&Path>, watch: &BuildObserver<'_>) -> Result<KernelSource> {
        let Some(path) = given else { return package(version, watch) };
        let path = fs::canonicalize(path).map_err(|e| Error::io("use the source", path, &e))?;
        if !path.is_dir() {
            let name = path.display().to_string();
            return Ok(KernelSource::Archive { file: path, name });
        }
        if path.join("Makefile").is_file() {
            return Ok(KernelSource::Folder(path));
        }
        let why = "it has no Makefile";
        Err(Error::on("use the source", path.display(), why, "give the top folder of a kernel's source"))
    }

    /// Its description, in words.
    pub fn name(&self) -> String {
        match self {
            KernelSource::Archive { name, .. } => name.clone(),
            KernelSource::Folder(folder) => folder.display().to_string(),
        }
    }

    /// Tells two sources apart: an archive's name, size and time; a folder's files as make sees them.
    pub fn digest(&self) -> Result<String> {
        match self {
            KernelSource::Archive { file, name } => {
                let mut text = format!("{name}\n");
                stamp(file, &mut text)?;
                Ok(store::digest(&[text.as_bytes()]))
            }
            KernelSource::Folder(folder) => {
                let mut text = String::new();
                for file in store::files_below(folder)? {
                    stamp(&file, &mut text)?;
                }
                Ok(store::digest(&[text.as_bytes()]))
            }
        }
    }

    /// Lays the source out in `tree`, which must not exist.
    pub fn lay_out(&self, tree: &Path) -> Result<()> {
        fs::create_dir_all(tree).map_err(|e| Error::io("make the folder", tree, &e))?;
        let mut unpack = Command::new("tar");
        unpack.arg("-C").arg(tree).stderr(Stdio::piped());
        let done = match self {
            KernelSource::Archive { file, .. } => {
                unpack.args(["--strip-components=1", "-xf"]).arg(file).output()
            }
            KernelSource::Folder(folder) => {
                let mut pack = Command::new("tar");
                // What another build left there would be taken for ours.
                pack.args(["--exclude=*.o", "--exclude=*.cmd", "--exclude=./.git", "--exclude=./.config"]);
                pack.args(["--exclude=./include/config", "--exclude=./include/generated"]);
                pack.arg("--exclude=./arch/*/include/generated")
                    .arg("-C")
                    .arg(folder)
                    .args(["-cf", "-", "."]);
                let packed = pack.stdout(Stdio::piped()).spawn();
                packed.and_then(|mut packed| {
                    let pipe = packed.stdout.take().map_or(Stdio::null(), Stdio::from);
                    let done = unpack.args(["-xf", "-"]).stdin(pipe).output();
                    packed.wait()?;
                    done
                })
            }
        };
        let why = match done {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => last_line(&output.stderr),
            Err(error) => error.to_string(),
        };
        Err(Error::on("unpack", self.name(), why, "free some space, or give another source with --source"))
    }
}

/// The package's archive, fetched and unpacked once for each of its versions.
fn package(version: &str, watch: &BuildObserver<'_>) -> Result<KernelSource> {
    let package = format!("linux-source-{version}");
    let machine = Architecture::of_this_program().debian();
    let newest = |apt: &Apt| apt.version_of(&package);
    let Some((apt, newest)) = offered(machine, watch.patience, watch.say, newest)? else {
        let cure = "add a Debian suite that has it to the package sources, or give a source with --source";
        let why = format!("neither the package sources nor Debian's unstable suite have {package}");
        return Err(Error::on("find the source of Linux", version, why, cure));
    };
    let fetch = |newest: &str| -> Result<(String, PathBuf)> {
        let name = format!("{package} {newest}");
        let folder = store::folder("sources")?.join(name.replace(' ', "_"));
        if !folder.is_dir() {
            (watch.say)(&format!("fetches {name}, about 150 MB"));
            apt.unpack(std::slice::from_ref(&package), &folder)?;
        }
        Ok((name, folder))
    };
    let (name, folder) = match fetch(&newest) {
        Ok(fetched) => fetched,
        // A suite moves on, and takes away what older lists have.
        Err(error) => {
            apt.update()?;
            let now = apt.version_of(&package).filter(|now| *now != newest);
            fetch(&now.ok_or(error)?)?
        }
    };
    let archives = store::files_below(&folder)?;
    let archive = archives.into_iter().find(|file| file.to_string_lossy().contains(".tar."));
    let missing =
        || Error::on("use", folder.display(), "it holds no archive", "remove that folder and try again");
    Ok(KernelSource::Archive { file: archive.ok_or_else(missing)?, name })
}

fn stamp(file: &Path, text: &mut String) -> Result<()> {
    let data = fs::metadata(file).map_err(|e| Error::io("read", file, &e))?;
    let line = format!("{} {} {}.{}\n", file.display(), data.len(), data.mtime(), data.mtime_nsec());
    text.push_str(&line);
    Ok(())
}

/// Puts a version's series into a tree: new files, then hooks, without any fuzz, as `git am` would.
pub fn apply(series: &PatchSeries, version: &str, tree: &Path) -> Result<()> {
    for (name, text) in series.new_files() {
        let file = tree.join(name);
        let folder = file.parent().unwrap_or(tree);
        fs::create_dir_all(folder).map_err(|e| Error::io("make the folder", folder, &e))?;
        fs::write(&file, text).map_err(|e| Error::io("write", &file, &e))?;
    }
    for (name, text) in series.hooks(version)? {
        patch(tree, text, &[]).map_err(|why| {
            let cure = "build the version that the series is for, or port the series with --series";
            Error::on("apply the patch", name, why, cure)
        })?;
    }
    Ok(())
}

/// Takes a version's series out of a tree again.
pub fn remove(series: &PatchSeries, version: &str, tree: &Path) -> Result<()> {
    for (name, text) in series.hooks(version)?.into_iter().rev() {
        patch(tree, text, &["-R"]).map_err(|why| {
            let cure = "use a tree that was built with this program's series";
            Error::on("take out the patch", name, why, cure)
        })?;
    }
    for (name, _) in series.new_files() {
        let file = tree.join(name);
        fs::remove_file(&file).map_err(|e| Error::io("remove", &file, &e))?;
    }
    Ok(())
}

/// Applies one patch, or with `-R` in `how` takes it out; what the program said first where it does not
/// apply.
pub fn patch(tree: &Path, text: &[u8], how: &[&str]) -> std::result::Result<(), String> {
    let mut patch = Command::new("patch");
    patch.args(how).args(["-p1", "-F0", "-f", "--no-backup-if-mismatch", "-r", "-", "-d"]).arg(tree);
    let patch = patch.env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut patch = patch.spawn().map_err(|e| format!("patch: {e}"))?;
    // It reads all of its input before it writes much.
    if let Some(mut input) = patch.stdin.take() {
        input.write_all(text).map_err(|e| e.to_string())?;
    }
    let output = patch.wait_with_output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = |line: &&str| line.contains("FAILED") || line.contains("can't find file");
    let at = said.lines().position(|line| failed(&line));
    let Some(at) = at else { return Err(last_line(&[output.stdout, output.stderr].concat())) };
    let lines = said.lines().collect::<Vec<_>>();
    // `patching file X` stands above the hunks of X.
    let file = lines[..at].iter().rev().find_map(|line| line.strip_prefix("patching file "));
    let why = lines[at].trim_end_matches('.').split(" -- ").next().unwrap_or_default();
    Err(file.map_or_else(|| why.to_string(), |file| format!("{file}: {why}")))
}

/// The last line of what a program said.
pub fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said).into_owned();
    said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed").trim().to_string()
}

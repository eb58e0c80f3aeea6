// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real machine, or its files below a folder.
//!
//! Below a folder no link may lead out of it, and no command runs: what is in the folder is not what runs here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use machine::CpuSet;
use rustix::thread::CpuSet as Mask;

use super::{Ran, Stat, System};

/// The machine below a root folder; `/` is this one.
pub struct Real {
    root: PathBuf,
}

impl Real {
    /// The machine whose files lie below `root`.
    pub fn new(root: &Path) -> io::Result<Real> {
        Ok(Real { root: root.canonicalize()? })
    }

    /// Whether this process may change the machine that runs; below another folder the files' bits decide.
    pub fn may_change(&self) -> bool {
        !self.live() || rustix::process::geteuid().is_root()
    }

    /// Whether this is the machine that runs.
    pub fn live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Tasks that a captured tree names are not those that run here.
    fn only_live(&self) -> io::Result<()> {
        if self.live() { Ok(()) } else { Err(io::Error::other("its tasks do not run here")) }
    }

    /// The path as this process sees it; what exists of it may not lead out of the root by a link.
    fn at(&self, path: &str) -> io::Result<PathBuf> {
        let full = self.root.join(path.trim_start_matches('/'));
        if !self.live() {
            let mut there = full.clone();
            while !there.exists() {
                if !there.pop() {
                    break;
                }
            }
            if !there.canonicalize()?.starts_with(&self.root) {
                return Err(io::Error::other("a link leads out of the root folder"));
            }
        }
        Ok(full)
    }
}

impl System for Real {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = self.at(path)?;
        if !fs::metadata(&path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        fs::read(path)
    }

    fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.at(path)?)?;
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    fn stat(&self, path: &str) -> io::Result<Stat> {
        let meta = fs::metadata(self.at(path)?)?;
        Ok(Stat {
            folder: meta.is_dir(),
            mode: meta.mode() & 0o7777,
            uid: meta.uid(),
            gid: meta.gid(),
            changed_s: meta.mtime(),
        })
    }

    fn real_path(&self, path: &str) -> io::Result<String> {
        let real = self.at(path)?.canonicalize()?;
        let below = real
            .strip_prefix(&self.root)
            .map_err(|_| io::Error::other("a link leads out of the root folder"))?;
        Ok(format!("/{}", below.display()))
    }

    fn free_bytes(&self, path: &str) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(self.at(path)?)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn affinity(&self, task: u32) -> io::Result<CpuSet> {
        self.only_live()?;
        let mask = rustix::thread::sched_getaffinity(Some(pid(task)?))?;
        let limit = u32::try_from(Mask::MAX_CPU).unwrap_or(u32::MAX);
        Ok((0..limit).filter(|cpu| mask.is_set(*cpu as usize)).collect())
    }

    fn write(&mut self, path: &str, bytes: &[u8], stat: Stat) -> io::Result<()> {
        let path = self.at(path)?;
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(stat.mode).open(path)?;
        file.write_all(bytes)?;
        // vfat has neither owners nor bits; it says so by an error that changes nothing.
        if file.metadata()?.mode() & 0o7777 != stat.mode {
            let _ = file.set_permissions(fs::Permissions::from_mode(stat.mode));
        }
        let meta = file.metadata()?;
        if (meta.uid(), meta.gid()) != (stat.uid, stat.gid) {
            let _ = fchown(&file, Some(stat.uid), Some(stat.gid));
        }
        Ok(())
    }

    fn sync(&mut self, path: &str) -> io::Result<()> {
        File::open(self.at(path)?)?.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from)?, self.at(to)?)
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path)?)
    }

    fn sync_folder(&mut self, path: &str) -> io::Result<()> {
        File::open(self.at(path)?)?.sync_all()
    }

    fn make_folder(&mut self, path: &str) -> io::Result<()> {
        fs::create_dir(self.at(path)?)
    }

    fn remove_folder(&mut self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.at(path)?)
    }

    fn set(&mut self, path: &str, text: &str) -> io::Result<()> {
        // Some settings refuse to be truncated, and one write is one value.
        let mut file = OpenOptions::new().write(true).open(self.at(path)?)?;
        file.write_all(text.as_bytes())
    }

    fn set_affinity(&mut self, task: u32, cpus: &CpuSet) -> io::Result<()> {
        self.only_live()?;
        let mut mask = Mask::new();
        for cpu in cpus.iter() {
            let cpu = cpu as usize;
            if cpu >= Mask::MAX_CPU {
                return Err(io::Error::other(format!("this program sets at most {} CPUs", Mask::MAX_CPU)));
            }
            mask.set(cpu);
        }
        Ok(rustix::thread::sched_setaffinity(Some(pid(task)?), &mask)?)
    }

    fn run(&mut self, command: &[String]) -> io::Result<Ran> {
        if !self.live() {
            return Err(io::Error::other("no command runs for files below a folder"));
        }
        let Some((program, rest)) = command.split_first() else { return Ok(Ran::default()) };
        let done = Command::new(program).args(rest).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").output()?;
        let complaint = String::from_utf8_lossy(&done.stderr);
        let complaint = complaint.lines().map(str::trim).rfind(|line| !line.is_empty());
        Ok(Ran {
            good: done.status.success(),
            output: done.stdout,
            complaint: complaint.unwrap_or("it said nothing").to_string(),
        })
    }
}

fn pid(task: u32) -> io::Result<rustix::thread::Pid> {
    let raw = i32::try_from(task).ok().and_then(rustix::thread::Pid::from_raw);
    raw.ok_or_else(|| io::Error::other("no task has that number"))
}

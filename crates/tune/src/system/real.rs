// SPDX-License-Identifier: MIT OR Apache-2.0
//! A real machine, or its files below a folder.
//!
//! Below a folder no link may lead out of it, and no command runs: what is in the folder is not what runs
//! here. All of it is reached by the root's descriptor, what is written by its folder's; its last name is
//! never
//! followed.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use machine::CpuSet;
use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, RenameFlags, ResolveFlags, StatVfsMountFlags, Timespec,
    Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;
use rustix::thread::CpuSet as Mask;
use sha2::{Digest, Sha256};

mod dress;

use super::{CommandResult, FileAccess, SUFFIX, Stat, System, folder};

/// The program that runs, whatever its name is now.
const OWN: &str = "/proc/self/exe";
/// The attribute by which a file gives capabilities.
const CAPABILITY: &str = "security.capability";
/// No file that is read here is as long.
const LONGEST: u64 = 64 << 20;

/// The machine below a root folder; `/` is this one.
pub struct Real {
    root: PathBuf,
    /// The root itself: another user may put another folder under its name.
    folder: OwnedFd,
}

/// A path, and what is held open of it.
struct SeenPath {
    path: PathBuf,
    _held: Option<OwnedFd>,
}

impl AsRef<Path> for SeenPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

fn by_descriptor(held: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()))
}

impl Real {
    /// The machine whose files lie below `root`.
    pub fn new(root: &Path) -> io::Result<Real> {
        // A link under its name may lead to this machine.
        let (folder, root) = untrusted::unlinked_folder(root)?;
        Ok(Real { root, folder })
    }

    /// The root itself, opened: nothing that takes its name meanwhile.
    pub fn root_folder(&self) -> io::Result<File> {
        self.folder.try_clone().map(File::from)
    }

    /// Whether this process may change the machine that runs; below another folder the files' bits decide.
    pub fn may_change(&self) -> bool {
        !self.live() || rustix::process::geteuid().is_root()
    }

    /// Whether this is the machine that runs.
    pub fn live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Keeps programs that change users and groups (lckpwdf(3)) from it while the file is open; none where
    /// the machine has no file for that, and an error where one of them is at work.
    pub fn lock_accounts(&self) -> io::Result<Option<File>> {
        let file = match self.to_write("/etc/.pwd.lock") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Some(file))
    }

    /// Tasks that a captured tree names are not those that run here.
    fn only_live(&self) -> io::Result<()> {
        if self.live() { Ok(()) } else { Err(io::Error::other("its tasks do not run here")) }
    }

    /// The file or folder at `path`, opened: no link leads out of the root, whatever becomes of it meanwhile.
    fn within(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let below = path.trim_start_matches('/');
        if self.live() {
            return Ok(rustix::fs::open(self.root.join(below), flags, Mode::empty())?);
        }
        let below = if below.is_empty() { "." } else { below };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.folder, below, flags, Mode::empty(), resolve) {
            Ok(found) => Ok(found),
            Err(Errno::XDEV) => Err(out_of_root()),
            // Linux before 5.6 has no such call.
            Err(Errno::NOSYS) => {
                let full = self.root.join(below).canonicalize()?;
                let full = Some(full).filter(|full| full.starts_with(&self.root)).ok_or_else(out_of_root)?;
                Ok(rustix::fs::open(full, flags, Mode::empty())?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The path of what is there as this process sees it.
    fn at(&self, path: &str) -> io::Result<SeenPath> {
        if self.live() {
            return Ok(SeenPath { path: self.root.join(path.trim_start_matches('/')), _held: None });
        }
        let held = self.within(path, OFlags::PATH | OFlags::CLOEXEC)?;
        Ok(SeenPath { path: by_descriptor(&held), _held: Some(held) })
    }

    /// The folder of `path`, and the last name in it.
    fn folder<'p>(&self, path: &'p str) -> io::Result<(OwnedFd, &'p str)> {
        let name = path.rsplit('/').next().filter(|name| !matches!(*name, "" | "." | ".."));
        let name = name.ok_or_else(|| io::Error::other("it names no file"))?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok((self.within(folder(path), flags)?, name))
    }

    /// A regular file that is there, opened to be written over.
    fn to_write(&self, path: &str) -> io::Result<File> {
        let (folder, name) = self.folder(path)?;
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&folder, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
    }
}

/// SHA-256 of what can be read, hexadecimal, and its length.
fn digest_of(mut file: File) -> io::Result<(String, u64)> {
    let (mut digest, mut length) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((machine::hexadecimal(&digest.finalize()), length));
        }
        digest.update(&buffer[..read]);
        length += read as u64;
    }
}

fn out_of_root() -> io::Error {
    io::Error::other("a link leads out of the root folder")
}

impl System for Real {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let path = self.at(path)?;
        if !fs::metadata(&path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut bytes = Vec::new();
        untrusted::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST {
            return Err(io::Error::other("it is longer than any file of this kind"));
        }
        Ok(bytes)
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
            names: meta.nlink(),
            changed_ns: meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec()),
        })
    }

    fn real_path(&self, path: &str) -> io::Result<String> {
        let real = self.at(path)?.as_ref().canonicalize()?;
        let root = if self.live() { self.root.clone() } else { fs::read_link(by_descriptor(&self.folder))? };
        let below = real.strip_prefix(root).map_err(|_| out_of_root())?;
        Ok(format!("/{}", below.display()))
    }

    fn free_bytes(&self, path: &str) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(self.at(path)?.as_ref())?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn affinity(&self, task: u32) -> io::Result<CpuSet> {
        self.only_live()?;
        let mask = rustix::thread::sched_getaffinity(Some(pid(task)?))?;
        let limit = u32::try_from(Mask::MAX_CPU).unwrap_or(u32::MAX);
        Ok((0..limit).filter(|cpu| mask.is_set(*cpu as usize)).collect())
    }

    fn digest(&self, path: &str) -> io::Result<String> {
        Ok(digest_of(untrusted::open(self.at(path)?)?)?.0)
    }

    fn own_program(&self) -> io::Result<(String, u64)> {
        digest_of(untrusted::open(OWN)?)
    }

    fn file_capabilities(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut value = [0; 64];
        match rustix::fs::getxattr(self.at(path)?.as_ref(), CAPABILITY, &mut value[..]) {
            Ok(length) => Ok(value[..length].to_vec()),
            Err(Errno::NODATA | Errno::NOTSUP) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn write_beside(&mut self, path: &str, bytes: &[u8], new: Stat) -> io::Result<Option<String>> {
        let (at, name) = self.folder(path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let like = match rustix::fs::openat(&at, name, flags, Mode::empty()) {
            Ok(file) => Some(File::from(file)),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(like) = &like {
            let meta = like.metadata()?;
            if !meta.is_file() {
                return Err(io::Error::other("not a regular file"));
            }
            // Its other names would keep the old bytes.
            if meta.nlink() > 1 {
                return Ok(None);
            }
        }
        // What is left of a dead process is told by the end of its name.
        let drawn = |random: u64| format!("{name}.{random:016x}{SUFFIX}").into();
        let (beside, mut file) = untrusted::create_new(at.as_fd(), 0o600, drawn)?;
        let filled = file.write_all(bytes).and_then(|()| match &like {
            Some(like) => dress::like(&file, like),
            None => dress::anew(&file, new).map(|()| true),
        });
        match filled {
            Ok(true) => Ok(Some(format!("{}/{}", folder(path).trim_end_matches('/'), beside.display()))),
            unlike => {
                let _ = rustix::fs::unlinkat(&at, &beside, AtFlags::empty());
                unlike.map(|_| None)
            }
        }
    }

    fn overwrite(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.to_write(path)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)
    }

    fn set_changed(&mut self, path: &str, changed_ns: i64) -> io::Result<()> {
        let at = Timespec {
            tv_sec: changed_ns.div_euclid(1_000_000_000),
            tv_nsec: changed_ns.rem_euclid(1_000_000_000) as _,
        };
        let file = self.to_write(path)?;
        let keep = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT as _ };
        Ok(rustix::fs::futimens(&file, &Timestamps { last_access: keep, last_modification: at })?)
    }

    fn sync(&mut self, path: &str) -> io::Result<()> {
        self.to_write(path)?.sync_all()
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let ((one, from), (other, to)) = (self.folder(from)?, self.folder(to)?);
        Ok(rustix::fs::renameat(&one, from, &other, to)?)
    }

    fn exchange(&mut self, one: &str, other: &str) -> io::Result<()> {
        let ((first, one), (second, other)) = (self.folder(one)?, self.folder(other)?);
        Ok(rustix::fs::renameat_with(&first, one, &second, other, RenameFlags::EXCHANGE)?)
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        let (folder, name) = self.folder(path)?;
        Ok(rustix::fs::unlinkat(&folder, name, AtFlags::empty())?)
    }

    fn sync_folder(&mut self, path: &str) -> io::Result<()> {
        // Opened directly: it is a folder, which is not read.
        File::open(self.at(path)?)?.sync_all()
    }

    fn make_folder(&mut self, path: &str) -> io::Result<()> {
        let (folder, name) = self.folder(path)?;
        Ok(rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755))?)
    }

    fn remove_folder(&mut self, path: &str) -> io::Result<()> {
        let (folder, name) = self.folder(path)?;
        Ok(rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR)?)
    }

    fn set(&mut self, path: &str, text: &str) -> io::Result<()> {
        // Some settings refuse to be truncated, and one write is one value.
        if self.live() {
            return self.to_write(path)?.write_all(text.as_bytes());
        }
        // In a captured tree it is a plain file, of which the rest would stay. It reads as the kernel's does,
        // with its line end.
        let line_end = if self.read(path)?.ends_with(b"\n") { "\n" } else { "" };
        let mut file = self.to_write(path)?;
        file.write_all(format!("{text}{line_end}").as_bytes())?;
        file.set_len((text.len() + line_end.len()) as u64)
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

    fn copy_own_beside(&mut self, path: &str, access: FileAccess, capabilities: &[u8]) -> io::Result<String> {
        let (at, name) = self.folder(path)?;
        if rustix::fs::fstatvfs(&at)?.f_flag.contains(StatVfsMountFlags::NOSUID) {
            return Err(io::Error::other(
                "its file system is mounted with nosuid, where no program gets any",
            ));
        }
        let drawn = |random: u64| format!("{name}.{random:016x}{SUFFIX}").into();
        let (beside, mut file) = untrusted::create_new(at.as_fd(), 0o600, drawn)?;
        let copied = untrusted::open(OWN).and_then(|mut own| io::copy(&mut own, &mut file)).and_then(|_| {
            // A change of the owner takes capabilities away, and those of the mode come last.
            let (uid, gid) = (Uid::from_raw(access.uid), Gid::from_raw(access.gid));
            rustix::fs::fchown(&file, Some(uid), Some(gid))?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(access.mode))?;
            rustix::fs::fsetxattr(&file, CAPABILITY, capabilities, XattrFlags::empty())?;
            Ok(())
        });
        if let Err(error) = copied {
            let _ = rustix::fs::unlinkat(&at, &beside, AtFlags::empty());
            return Err(error);
        }
        Ok(format!("{}/{}", folder(path).trim_end_matches('/'), beside.display()))
    }

    fn set_access(&mut self, path: &str, access: FileAccess) -> io::Result<()> {
        let (folder, name) = self.folder(path)?;
        let (uid, gid) = (Uid::from_raw(access.uid), Gid::from_raw(access.gid));
        rustix::fs::chownat(&folder, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(rustix::fs::chmodat(&folder, name, Mode::from_raw_mode(access.mode), AtFlags::empty())?)
    }

    fn run(&mut self, command: &[String]) -> io::Result<CommandResult> {
        if !self.live() {
            return Err(io::Error::other("no command runs for files below a folder"));
        }
        let Some((program, rest)) = command.split_first() else { return Ok(CommandResult::default()) };
        let done = Command::new(program).args(rest).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8").output()?;
        let complaint = String::from_utf8_lossy(&done.stderr);
        let complaint = complaint.lines().map(str::trim).rfind(|line| !line.is_empty());
        Ok(CommandResult {
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

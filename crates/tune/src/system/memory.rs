// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine in memory that counts its changes, fails at one of them, and knows what a power cut would leave.
//!
//! A file's bytes and a folder's names reach the medium when they are synced, or at any moment before: a
//! power cut leaves one of the two, and a name may be there before its bytes are. Settings of the kernel
//! survive a kill and not a power cut.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;

use machine::CpuSet;

use super::{CommandResult, FileAccess, Stat, System, folder, sha256};
use crate::system::SUFFIX;

/// The event at the change that is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedFault {
    /// The process dies: this change and none after it happens.
    Kill,
    /// This change is refused; those after it happen.
    Refuse(ErrorKind),
    /// This change and all after it that take space are refused.
    Full,
    /// This change and all after it are refused.
    ReadOnly,
}

/// The state that a power cut leaves of changes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// Neither names nor bytes.
    Everything,
    /// The names are there, their bytes are not.
    Bytes,
    /// Nothing is lost.
    Nothing,
}

#[derive(Debug, Clone)]
struct Inode {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    stat: Stat,
    capabilities: Vec<u8>,
}

type FileNames = BTreeMap<String, usize>;
type CommandAnswer = fn(&MemoryMachine, &[String]) -> CommandResult;

/// A machine in memory.
#[derive(Clone, Default)]
pub struct MemoryMachine {
    inodes: Vec<Inode>,
    now: FileNames,
    durable: FileNames,
    folders: BTreeMap<String, bool>,
    /// Files of the kernel: their text now.
    pub settings: BTreeMap<String, String>,
    booted: BTreeMap<String, String>,
    /// Settings that read as this text once, and then as they are.
    pub passing: RefCell<BTreeMap<String, String>>,
    /// Settings that refuse any write, and with which error.
    pub refuses: BTreeMap<String, i32>,
    /// Tasks and the CPUs they may use; none where they refuse another set.
    pub tasks: BTreeMap<u32, (CpuSet, bool)>,
    /// Every command that ran.
    pub commands: Vec<Vec<String>>,
    /// The answer of commands.
    pub answer: Option<CommandAnswer>,
    /// Every change, in words.
    pub changes: Vec<String>,
    /// The change, counted from 0, that fails, and how.
    pub fault: Option<(usize, InjectedFault)>,
    /// The program that runs.
    pub own: Vec<u8>,
    /// Bytes left on every medium.
    pub free: Option<u64>,
    dead: bool,
}

const PLAIN: Stat = Stat { folder: false, mode: 0o644, uid: 0, gid: 0, names: 1, changed_ns: 0 };

impl MemoryMachine {
    /// A machine with the files below a real folder; those in `/proc` and `/sys` become settings.
    pub fn of_folder(root: &Path) -> MemoryMachine {
        let mut machine = MemoryMachine::default();
        machine.load(root, "");
        machine.power_on();
        machine
    }

    fn load(&mut self, root: &Path, below: &str) {
        self.folders.insert(if below.is_empty() { "/".into() } else { below.to_string() }, true);
        for entry in std::fs::read_dir(root.join(below.trim_start_matches('/'))).unwrap().flatten() {
            let path = format!("{below}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                self.load(root, &path);
            } else {
                let bytes = std::fs::read(entry.path()).unwrap();
                self.put(&path, &bytes);
            }
        }
    }

    /// Puts a file there, as if it had always been.
    pub fn put(&mut self, path: &str, bytes: &[u8]) {
        let mut above = folder(path).to_string();
        while self.folders.insert(above.clone(), true).is_none() && above != "/" {
            above = folder(&above).to_string();
        }
        if path.starts_with("/proc/") || path.starts_with("/sys/") {
            self.settings.insert(path.into(), String::from_utf8_lossy(bytes).into_owned());
            return;
        }
        let bytes = bytes.to_vec();
        self.inodes.push(Inode { synced: bytes.clone(), bytes, stat: PLAIN, capabilities: Vec::new() });
        self.now.insert(path.into(), self.inodes.len() - 1);
        self.durable.insert(path.into(), self.inodes.len() - 1);
    }

    /// Gives a file a second name.
    pub fn link(&mut self, path: &str, name: &str) {
        let at = self.now[path];
        self.inodes[at].stat.names = 2;
        self.now.insert(name.into(), at);
        self.durable.insert(name.into(), at);
    }

    /// Makes the present settings those with which the next boot begins.
    pub fn power_on(&mut self) {
        self.booted = self.settings.clone();
    }

    /// Every file that outlives a boot.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.now.iter().map(|(path, at)| (path.clone(), self.inodes[*at].bytes.clone())).collect()
    }

    /// The machine after its power was cut and it has booted again.
    pub fn after_power_cut(&self, lost: PowerCut) -> MemoryMachine {
        let names = if lost == PowerCut::Everything { &self.durable } else { &self.now };
        let mut after = self.clone();
        for inode in &mut after.inodes {
            if lost != PowerCut::Nothing {
                inode.bytes = inode.synced.clone();
            }
            inode.synced = inode.bytes.clone();
        }
        after.now = names.clone();
        after.durable = names.clone();
        after
            .folders
            .retain(|path, durable| *durable || (lost != PowerCut::Everything && !path.starts_with("/sys/")));
        after.settings = self.booted.clone();
        after.revived()
    }

    /// The machine for the next process, after this one died.
    pub fn revived(mut self) -> MemoryMachine {
        self.dead = false;
        self.fault = None;
        self
    }

    /// Writes every file below a real folder.
    pub fn dump(&self, root: &Path) {
        let settings = self.settings.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes()));
        for (path, bytes) in self.files().into_iter().chain(settings) {
            let path = root.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }

    /// One more change; an error where this is the one that fails.
    fn change(&mut self, words: String) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("the process is dead"));
        }
        let number = self.changes.len();
        self.changes.push(words);
        match self.fault {
            Some((at, InjectedFault::Kill)) if at == number => {
                self.dead = true;
                Err(io::Error::other("the process is dead"))
            }
            Some((at, InjectedFault::Refuse(kind))) if at == number => Err(kind.into()),
            Some((at, InjectedFault::ReadOnly)) if at <= number => Err(ErrorKind::ReadOnlyFilesystem.into()),
            _ => Ok(()),
        }
    }

    /// An error where the medium is full by now.
    fn takes_space(&self) -> io::Result<()> {
        match self.fault {
            Some((at, InjectedFault::Full)) if at < self.changes.len() => Err(ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn inode(&self, path: &str) -> io::Result<&Inode> {
        self.now.get(path).map(|at| &self.inodes[*at]).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl System for MemoryMachine {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        if let Some(text) = self.passing.borrow_mut().remove(path) {
            return Ok(text.into_bytes());
        }
        match self.settings.get(path) {
            Some(text) => Ok(text.clone().into_bytes()),
            None => Ok(self.inode(path)?.bytes.clone()),
        }
    }

    fn names(&self, path: &str) -> io::Result<Vec<String>> {
        if !self.folders.contains_key(path) {
            return Err(ErrorKind::NotFound.into());
        }
        let all = self.now.keys().chain(self.settings.keys()).chain(self.folders.keys());
        let below = all.filter_map(|name| name.strip_prefix(path)?.strip_prefix('/'));
        let mut names: Vec<String> =
            below.filter_map(|rest| rest.split('/').next()).map(String::from).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn stat(&self, path: &str) -> io::Result<Stat> {
        if self.folders.contains_key(path) {
            return Ok(Stat { folder: true, mode: 0o755, ..PLAIN });
        }
        if self.settings.contains_key(path) {
            return Ok(PLAIN);
        }
        Ok(self.inode(path)?.stat)
    }

    fn real_path(&self, path: &str) -> io::Result<String> {
        self.stat(path).map(|_| path.to_string())
    }

    fn free_bytes(&self, _: &str) -> io::Result<u64> {
        Ok(self.free.unwrap_or(1 << 30))
    }

    fn affinity(&self, task: u32) -> io::Result<CpuSet> {
        self.tasks.get(&task).map(|(cpus, _)| cpus.clone()).ok_or_else(|| io::Error::from_raw_os_error(3))
    }

    fn digest(&self, path: &str) -> io::Result<String> {
        Ok(sha256(&self.inode(path)?.bytes))
    }

    fn own_program(&self) -> io::Result<(String, u64)> {
        Ok((sha256(&self.own), self.own.len() as u64))
    }

    fn file_capabilities(&self, path: &str) -> io::Result<Vec<u8>> {
        Ok(self.inode(path)?.capabilities.clone())
    }

    fn write_beside(&mut self, path: &str, bytes: &[u8], new: Stat) -> io::Result<Option<String>> {
        self.change(format!("write {path}"))?;
        self.takes_space()?;
        if !self.folders.contains_key(folder(path)) {
            return Err(ErrorKind::NotFound.into());
        }
        let stat = self.inode(path).map_or(new, |inode| inode.stat);
        if stat.names > 1 {
            return Ok(None);
        }
        let name = format!("{path}.{:016x}{SUFFIX}", self.changes.len());
        let capabilities = Vec::new();
        self.inodes.push(Inode { bytes: bytes.to_vec(), synced: Vec::new(), stat, capabilities });
        self.now.insert(name.clone(), self.inodes.len() - 1);
        Ok(Some(name))
    }

    fn overwrite(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.change(format!("overwrite {path}"))?;
        let at = *self.now.get(path).ok_or(ErrorKind::NotFound)?;
        if bytes.len() > self.inodes[at].bytes.len() {
            self.takes_space()?;
        }
        self.inodes[at].bytes = bytes.to_vec();
        Ok(())
    }

    fn set_changed(&mut self, path: &str, changed_ns: i64) -> io::Result<()> {
        self.change(format!("set the time of {path}"))?;
        let at = *self.now.get(path).ok_or(ErrorKind::NotFound)?;
        self.inodes[at].stat.changed_ns = changed_ns;
        Ok(())
    }

    fn exchange(&mut self, one: &str, other: &str) -> io::Result<()> {
        self.change(format!("exchange {one} {other}"))?;
        let (Some(first), Some(second)) = (self.now.get(one).copied(), self.now.get(other).copied()) else {
            return Err(ErrorKind::NotFound.into());
        };
        self.now.insert(one.into(), second);
        self.now.insert(other.into(), first);
        Ok(())
    }

    fn sync(&mut self, path: &str) -> io::Result<()> {
        self.change(format!("sync {path}"))?;
        let at = *self.now.get(path).ok_or(ErrorKind::NotFound)?;
        self.inodes[at].synced = self.inodes[at].bytes.clone();
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.change(format!("rename {from} {to}"))?;
        let at = self.now.remove(from).ok_or(ErrorKind::NotFound)?;
        self.now.insert(to.into(), at);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> io::Result<()> {
        self.change(format!("remove {path}"))?;
        self.now.remove(path).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_folder(&mut self, path: &str) -> io::Result<()> {
        self.change(format!("sync folder {path}"))?;
        self.durable.retain(|name, _| folder(name) != path);
        self.durable
            .extend(self.now.iter().filter(|(name, _)| folder(name) == path).map(|(n, at)| (n.clone(), *at)));
        for (name, durable) in &mut self.folders {
            *durable |= folder(name) == path;
        }
        Ok(())
    }

    fn make_folder(&mut self, path: &str) -> io::Result<()> {
        self.change(format!("make folder {path}"))?;
        if !path.starts_with("/sys/") {
            self.takes_space()?;
        }
        if self.folders.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        if !self.folders.contains_key(folder(path)) {
            return Err(ErrorKind::NotFound.into());
        }
        self.folders.insert(path.into(), false);
        if path.starts_with("/sys/fs/cgroup/") {
            self.settings.insert(format!("{path}/cpuset.cpus"), "\n".into());
            self.settings.insert(format!("{path}/cpuset.cpus.partition"), "member\n".into());
        }
        Ok(())
    }

    fn remove_folder(&mut self, path: &str) -> io::Result<()> {
        self.change(format!("remove folder {path}"))?;
        self.settings.retain(|name, _| !(path.starts_with("/sys/fs/cgroup/") && folder(name) == path));
        if self.now.keys().any(|name| folder(name) == path) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        self.folders.remove(path).map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn set(&mut self, path: &str, text: &str) -> io::Result<()> {
        self.change(format!("set {path} {text}"))?;
        if let Some(errno) = self.refuses.get(path) {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        let old = self.settings.get_mut(path).ok_or(ErrorKind::NotFound)?;
        // A list of choices shows the chosen one in brackets; a cgroup's controllers come and go by their
        // sign.
        *old = if old.contains('[') {
            let words = old.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            words
                .map(|word| if word == text { format!("[{word}]") } else { word.into() })
                .collect::<Vec<_>>()
                .join(" ")
        } else if let Some(name) = text.strip_prefix('+') {
            format!("{} {name}", old.trim())
        } else if let Some(name) = text.strip_prefix('-').filter(|name| name.starts_with(char::is_alphabetic))
        {
            old.split_whitespace().filter(|word| *word != name).collect::<Vec<_>>().join(" ")
        } else {
            format!("{text}\n")
        };
        Ok(())
    }

    fn set_affinity(&mut self, task: u32, cpus: &CpuSet) -> io::Result<()> {
        self.change(format!("affinity {task} {cpus}"))?;
        let (now, movable) = self.tasks.get_mut(&task).ok_or_else(|| io::Error::from_raw_os_error(3))?;
        if !*movable {
            return Err(io::Error::from_raw_os_error(22));
        }
        *now = cpus.clone();
        Ok(())
    }

    fn copy_own_beside(&mut self, path: &str, access: FileAccess, capabilities: &[u8]) -> io::Result<String> {
        let FileAccess { uid, gid, mode } = access;
        let new = Stat { uid, gid, mode, ..PLAIN };
        let beside = self.write_beside(path, &self.own.clone(), new)?.ok_or(ErrorKind::Other)?;
        let at = self.now[&beside];
        self.inodes[at].stat = new;
        self.inodes[at].capabilities = capabilities.to_vec();
        Ok(beside)
    }

    fn set_access(&mut self, path: &str, access: FileAccess) -> io::Result<()> {
        self.change(format!("permissions of {path}"))?;
        let at = *self.now.get(path).ok_or(ErrorKind::NotFound)?;
        let FileAccess { uid, gid, mode } = access;
        self.inodes[at].stat = Stat { uid, gid, mode, ..self.inodes[at].stat };
        Ok(())
    }

    fn run(&mut self, command: &[String]) -> io::Result<CommandResult> {
        self.change(format!("run {}", command.join(" ")))?;
        self.commands.push(command.to_vec());
        let good = CommandResult { good: true, ..CommandResult::default() };
        Ok(self.answer.map_or(good, |answer| answer(self, command)))
    }
}

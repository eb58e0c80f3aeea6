// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files below a root folder, read with bounds: what is absent is `None`, what is there but cannot be read
//! or understood is `None` and an entry in the list of unread files.
//!
//! A captured tree is foreign: a file may be huge, a device, a pipe, or a link that leads out of the tree.
//! None of these may hang the reader, fill its memory, or put a file of the live machine into the snapshot.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use untrusted::Folder;

use machine::CpuSet;
use machine::inventory::Reading;

/// Longest text that is read; `/proc/cpuinfo` of some thousand CPUs is longer, its head is enough.
const TEXT_LIMIT: u64 = 1 << 20;
/// Longest text that is kept of a single setting's file.
const READING_LIMIT: u64 = 4096;
/// Longest list of unread files; a machine with thousands of unreadable CPUs has one reason, not thousands.
const UNREAD_LIMIT: usize = 50;
/// Most entries of a folder that are looked at; `/proc` of a live machine has one per process.
const ENTRIES_LIMIT: usize = 100_000;

/// The files below a root folder.
pub(crate) struct Tree {
    root: PathBuf,
    /// Set where the root is a captured tree, which no link may leave.
    captured: bool,
    /// The captured tree, held open.
    folder: Option<Folder>,
    unread: Vec<String>,
    unread_more: usize,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
        let captured = root != Path::new("/");
        let folder = if captured { Folder::open(&root).ok() } else { None };
        Tree { root, captured, folder, unread: Vec::new(), unread_more: 0 }
    }

    /// The files that could not be read, and why.
    pub(crate) fn unread(mut self) -> Vec<String> {
        if self.unread_more > 0 {
            self.unread.push(format!("and {} more", self.unread_more));
        }
        self.unread
    }

    /// Notes that `path` could not be read or understood.
    pub(crate) fn note(&mut self, path: &str, reason: impl Display) {
        if self.unread.len() < UNREAD_LIMIT {
            self.unread.push(format!("/{path}: {reason}"));
        } else {
            self.unread_more += 1;
        }
    }

    /// At most `limit` bytes from the start of `path`.
    pub(crate) fn bytes(&mut self, path: &str, limit: u64) -> Option<Vec<u8>> {
        match self.head(path, limit) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.note_error(path, &error);
                None
            }
        }
    }

    /// The text of a boot loader's file as it stands; unlike [`Tree::text`] without taking space off its
    /// ends.
    pub(crate) fn whole_text(&mut self, path: &str) -> Option<String> {
        let bytes = self.bytes(path, 4 << 20)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The trimmed start of `path`; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&mut self, path: &str) -> Option<String> {
        self.bytes(path, TEXT_LIMIT).map(|bytes| tidy(&bytes))
    }

    /// As [`Tree::text`], where failing says nothing: a hint among others, or a process that has ended.
    pub(crate) fn hint(&self, path: &str) -> Option<String> {
        self.head(path, TEXT_LIMIT).ok().map(|bytes| tidy(&bytes))
    }

    /// As [`Tree::hint`], the bytes as they are.
    pub(crate) fn hint_bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.hint_head(path, TEXT_LIMIT)
    }

    /// As [`Tree::hint_bytes`], at most `limit` of them.
    pub(crate) fn hint_head(&self, path: &str, limit: u64) -> Option<Vec<u8>> {
        self.head(path, limit).ok()
    }

    /// The text of `path`, `Ok(None)` where it is not there or its process has ended.
    pub(crate) fn fleeting(&self, path: &str) -> Result<Option<String>, String> {
        // ESRCH: the process ended after its file was opened.
        let gone = |error: &io::Error| absent(error) || error.raw_os_error() == Some(3);
        match self.head(path, TEXT_LIMIT) {
            Ok(bytes) => Ok(Some(tidy(&bytes))),
            Err(error) if gone(&error) => Ok(None),
            Err(error) => Err(error::reason(&error)),
        }
    }

    /// As [`Tree::names`], where failing says nothing.
    pub(crate) fn hint_names(&self, path: &str) -> Vec<String> {
        self.list(path).unwrap_or_default()
    }

    /// As [`Tree::text`], an empty text being none.
    pub(crate) fn word(&mut self, path: &str) -> Option<String> {
        self.text(path).filter(|text| !text.is_empty())
    }

    /// The number in `path`.
    pub(crate) fn number<T: FromStr>(&mut self, path: &str) -> Option<T> {
        let text = self.text(path)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.note(path, format_args!("'{}' is not the number expected", shorten(&text)));
        }
        number
    }

    /// The CPU list in `path`; `(null)`, which kernels print for a mask never set, is the empty set.
    pub(crate) fn cpus(&mut self, path: &str) -> Option<CpuSet> {
        self.cpu_set(path, |text| if text == "(null)" { Ok(CpuSet::new()) } else { text.parse() })
    }

    /// The hexadecimal CPU mask in `path`.
    pub(crate) fn mask(&mut self, path: &str) -> Option<CpuSet> {
        self.cpu_set(path, CpuSet::from_mask)
    }

    fn cpu_set<E>(&mut self, path: &str, parse: impl Fn(&str) -> Result<CpuSet, E>) -> Option<CpuSet> {
        let text = self.text(path)?;
        let set = parse(&text).ok();
        if set.is_none() {
            self.note(path, format_args!("'{}' names no CPUs", shorten(&text)));
        }
        set
    }

    /// Whether this is the machine itself.
    pub(crate) fn live(&self) -> bool {
        !self.captured
    }

    /// Whether a file that is absent here is absent on the machine: in a captured tree only where all of it
    /// was taken, which a file shows that every kernel has and that is never captured for its own sake.
    pub(crate) fn whole(&self) -> bool {
        self.live() || self.exists("proc/sys/kernel/ostype")
    }

    /// The content of `path`, or why it has none; `None` where that cannot be known of a captured tree.
    pub(crate) fn reading(&self, path: &str) -> Option<Reading> {
        let real = self.inside(path);
        match real
            .and_then(|real| if real.is_dir() { Ok(Vec::new()) } else { self.head(path, READING_LIMIT) })
        {
            Ok(bytes) => Some(Reading::Text(tidy(&bytes))),
            Err(error) if absent(&error) => self.whole().then_some(Reading::Absent),
            Err(error) => Some(Reading::Unreadable { unreadable: error::reason(&error) }),
        }
    }

    /// Whether the machine is known to have no `path`.
    pub(crate) fn absent(&self, path: &str) -> bool {
        self.whole() && self.inside(path).is_err_and(|error| absent(&error))
    }

    /// The last part of where the link `path` leads.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.root.join(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_string())
    }

    /// Where `path` really lies, below the root.
    pub(crate) fn real(&self, path: &str) -> Option<String> {
        let real = self.inside(path).ok()?;
        Some(real.strip_prefix(&self.root).ok()?.to_str()?.to_string())
    }

    /// Whether the mode of `path` lets any user, root included, write it.
    pub(crate) fn writable(&self, path: &str) -> Option<bool> {
        let mode = fs::metadata(self.inside(path).ok()?).ok()?.permissions().mode();
        Some(mode & 0o222 != 0)
    }

    /// Whether two files, programs for example, have the same bytes.
    pub(crate) fn same(&self, one: &str, other: &str) -> io::Result<bool> {
        let (one, other) = (self.open(one)?, self.open(other)?);
        if one.metadata()?.len() != other.metadata()?.len() {
            return Ok(false);
        }
        let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
        loop {
            let (left, right) = (one.fill_buf()?, other.fill_buf()?);
            let length = left.len().min(right.len());
            if left[..length] != right[..length] || left.is_empty() != right.is_empty() {
                return Ok(false);
            }
            if length == 0 {
                return Ok(true);
            }
            one.consume(length);
            other.consume(length);
        }
    }

    /// When `path` was last written.
    pub(crate) fn modified(&self, path: &str) -> Option<std::time::SystemTime> {
        fs::metadata(self.inside(path).ok()?).ok()?.modified().ok()
    }

    /// Whether `path` is a folder.
    pub(crate) fn is_folder(&self, path: &str) -> bool {
        self.inside(path).is_ok_and(|real| real.is_dir())
    }

    /// Whether `path` exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.inside(path).is_ok()
    }

    /// Whether there is an entry `path`, be it a link that leads nowhere.
    pub(crate) fn present(&self, path: &str) -> bool {
        fs::symlink_metadata(self.root.join(path)).is_ok()
    }

    /// The name that `path` really has, after all links.
    pub(crate) fn real_name(&self, path: &str) -> Option<String> {
        Some(self.inside(path).ok()?.file_name()?.to_str()?.to_string())
    }

    /// Names in the folder `path`, sorted; none where it is absent.
    pub(crate) fn names(&mut self, path: &str) -> Vec<String> {
        self.list(path).unwrap_or_else(|error| {
            self.note_error(path, &error);
            Vec::new()
        })
    }

    /// The numbers N of entries `<prefix>N` in the folder `path`, ascending.
    pub(crate) fn numbered(&mut self, path: &str, prefix: &str) -> Vec<u32> {
        let names = self.names(path);
        let digits = names.iter().filter_map(|name| name.strip_prefix(prefix));
        let plain = digits.filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let mut numbers: Vec<u32> = plain.filter_map(|digits| digits.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Where `path` really lies; an error where a link leads out of a captured tree.
    fn inside(&self, path: &str) -> io::Result<PathBuf> {
        let real = self.root.join(path).canonicalize()?;
        if self.captured && !real.starts_with(&self.root) {
            return Err(io::Error::other("a link leads out of the captured tree"));
        }
        Ok(real)
    }

    /// `real` as a name beneath the captured tree. What is opened by it is opened through no link, since the
    /// tree may have been changed after its links were looked at.
    fn beneath<'a>(&self, real: &'a Path) -> &'a Path {
        let name = real.strip_prefix(&self.root).unwrap_or(real);
        if name.as_os_str().is_empty() { Path::new(".") } else { name }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let real = self.inside(path)?;
        let mut names: Vec<String> = match &self.folder {
            Some(folder) => {
                let entries = folder.folder(self.beneath(&real))?.entries()?;
                entries.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect()
            }
            None => {
                let entries = fs::read_dir(real)?.take(ENTRIES_LIMIT);
                entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
            }
        };
        names.sort();
        Ok(names)
    }

    fn head(&self, path: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn open(&self, path: &str) -> io::Result<File> {
        let real = self.inside(path)?;
        match &self.folder {
            Some(folder) => folder.file(self.beneath(&real)),
            None => untrusted::regular(&real),
        }
    }

    fn note_error(&mut self, path: &str, error: &io::Error) {
        if !absent(error) {
            self.note(path, error::reason(error));
        }
    }
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Text without surrounding space; the device tree ends its strings with a NUL.
fn tidy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_string()
}

/// A foreign text made fit for a message.
fn shorten(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A made-up machine for tests: a folder with these files.
#[cfg(test)]
pub(crate) fn made_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let tree = Tree::new(folder.path());
    (folder, tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_file_is_not_an_unread_one() {
        let (_folder, mut tree) = made_of(&[("proc/version", "Linux")]);
        assert_eq!(tree.text("proc/absent"), None);
        assert_eq!(tree.text("proc/version/below_a_file"), None);
        assert_eq!(tree.names("sys"), Vec::<String>::new());
        assert_eq!(tree.unread(), Vec::<String>::new());
    }

    #[test]
    fn names_files_that_make_no_sense() {
        let (_folder, mut tree) = made_of(&[("number", "many\n"), ("list", "0-\u{1b}[31m"), ("mask", "g")]);
        assert_eq!(tree.number::<u32>("number"), None);
        assert_eq!(tree.cpus("list"), None);
        assert_eq!(tree.mask("mask"), None);
        assert_eq!(
            tree.unread(),
            [
                "/number: 'many' is not the number expected",
                "/list: '0- [31m' names no CPUs",
                "/mask: 'g' names no CPUs"
            ]
        );
    }

    #[test]
    fn never_leaves_a_captured_tree_and_never_opens_what_is_no_file() {
        let (folder, mut tree) = made_of(&[("proc/version", "Linux")]);
        std::os::unix::fs::symlink("/proc/self/status", folder.path().join("status")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(tree.text("status"), None);
        assert_eq!(tree.text("folder"), None);
        assert_eq!(
            tree.unread(),
            ["/status: a link leads out of the captured tree", "/folder: it is not a regular file"]
        );
    }

    #[test]
    fn reads_no_more_than_the_limit() {
        let (_folder, mut tree) = made_of(&[("long", &"x".repeat(3 << 20))]);
        assert_eq!(tree.text("long").unwrap().len(), 1 << 20);
    }

    #[test]
    fn keeps_the_list_of_unread_files_short() {
        let (_folder, mut tree) = made_of(&[]);
        for number in 0..500 {
            tree.note(&format!("file{number}"), "no");
        }
        let unread = tree.unread();
        assert_eq!((unread.len(), unread.last().map(String::as_str)), (51, Some("and 450 more")));
    }
}

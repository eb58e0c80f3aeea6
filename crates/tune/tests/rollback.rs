// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way back on real files: permissions, owners, attributes, links and times are as they were, edits made
//! since stay, and a file that is in the way stops its own step alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use tune::boot::{BootMethod, BootSpec, lasting};
use tune::system::{Real, System};
use tune::transaction::{self, Record, RecordKind, Restoration, Undone, store};

const GRUB: &str = "etc/default/grub";

/// A machine with Fedora's boot files, and the lasting change of its boot line, not done yet.
struct Fedora {
    root: TempDir,
    system: Real,
    record: Record,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => fs::copy(entry.path(), to).map(drop).unwrap(),
        }
    }
}

impl Fedora {
    fn new() -> Fedora {
        let root = tempfile::tempdir().unwrap();
        copy(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../inspect/tests/fixtures/boot/fedora"),
            root.path(),
        );
        let system = Real::new(root.path()).unwrap();
        let record = Record::new("20260101-000000-boot", RecordKind::Boot, "abc", "boot", &[], Vec::new());
        Fedora { root, system, record }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn apply(&mut self) {
        let words = ["isolcpus=managed_irq,domain,2-3", "skew_tick=1"].map(String::from);
        let boot = inspect::boot::read(self.root.path());
        let asked = BootSpec::new(&boot, &words);
        let BootMethod::Lasting { steps, .. } = lasting(&mut self.system, &asked).unwrap() else { panic!() };
        self.record = Record::new("20260101-000000-boot", RecordKind::Boot, "abc", "", &words, steps);
        transaction::apply(&mut self.system, &mut self.record).unwrap();
        assert!(self.text(GRUB).contains("isolcpus") && self.text("etc/kernel/cmdline").contains("isolcpus"));
    }

    fn back(&mut self) -> Vec<Undone> {
        let gone = self.record.words.clone();
        transaction::roll_back_everywhere(&mut self.system, &mut self.record, &gone)
    }

    /// Every file and its text, without our store.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.root.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                match entry.path().is_dir() {
                    true if entry.file_name() == "isolator" => {}
                    true => folders.push(entry.path()),
                    false => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
                }
            }
        }
        found
    }
}

/// All of a file but its bytes.
fn about(path: &Path) -> (u32, u32, u32, u64, i64, Vec<String>) {
    let meta = fs::symlink_metadata(path).unwrap();
    let mut names = vec![0; 4096];
    let length = rustix::fs::listxattr(path, &mut names[..]).unwrap_or(0);
    let mut attributes = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 4096];
        let length = rustix::fs::getxattr(path, name, &mut value[..]).unwrap();
        attributes.push(format!("{}={:?}", String::from_utf8_lossy(name), &value[..length]));
    }
    attributes.sort();
    (meta.mode(), meta.uid(), meta.gid(), meta.nlink(), meta.mtime(), attributes)
}

#[test]
fn what_a_file_is_beside_its_bytes_comes_back() {
    for links in [1, 2] {
        let mut fedora = Fedora::new();
        let path = fedora.at(GRUB);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // As root with another group, a label and a list; elsewhere what may be given.
        let _ = std::os::unix::fs::chown(&path, None, Some(7));
        let list = [
            2u8, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 57, 48, 0, 0, 4, 0, 4, 0, 255, 255,
            255, 255,
        ]
        .into_iter()
        .chain([16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255])
        .collect::<Vec<u8>>();
        for (name, value) in [
            ("user.note", b"hello".as_slice()),
            ("security.selinux", b"system_u:object_r:etc_t:s0\0"),
            ("system.posix_acl_access", &list),
        ] {
            let _ = rustix::fs::setxattr(&path, name, value, rustix::fs::XattrFlags::empty());
        }
        if links == 2 {
            fs::hard_link(&path, fedora.at("etc/default/other")).unwrap();
        }
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        let (before, files) = (about(&path), fedora.files());
        fedora.apply();
        let during = about(&path);
        assert_eq!(
            (during.0, during.1, during.2, during.3, &during.5),
            (before.0, before.1, before.2, links, &before.5)
        );
        let undone = fedora.back();
        assert!(undone.iter().all(|undone| undone.became == Restoration::Restored), "{undone:?}");
        assert_eq!(about(&path), before);
        assert_eq!(fedora.files(), files);
    }
}

#[test]
fn a_link_stays_a_link() {
    let mut fedora = Fedora::new();
    fs::rename(fedora.at(GRUB), fedora.at("etc/grub.real")).unwrap();
    symlink("../grub.real", fedora.at(GRUB)).unwrap();
    let files = fedora.files();
    fedora.apply();
    assert!(fedora.text("etc/grub.real").contains("isolcpus"));
    fedora.back();
    assert_eq!(fs::read_link(fedora.at(GRUB)).unwrap(), Path::new("../grub.real"));
    assert_eq!(fedora.files(), files);
}

#[test]
fn permissions_and_lines_that_came_since_stay() {
    let mut fedora = Fedora::new();
    let before = fedora.text(GRUB);
    fedora.apply();
    fs::write(fedora.at(GRUB), format!("# first\n{}LAST=1\n", fedora.text(GRUB))).unwrap();
    fs::set_permissions(fedora.at(GRUB), fs::Permissions::from_mode(0o600)).unwrap();
    fedora.back();
    assert_eq!(fedora.text(GRUB), format!("# first\n{before}LAST=1\n"));
    assert_eq!(fs::metadata(fedora.at(GRUB)).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn text_that_is_no_utf_8_stays_as_it_is() {
    let mut fedora = Fedora::new();
    let before = fs::read(fedora.at(GRUB)).unwrap();
    fedora.apply();
    let edited = [&fs::read(fedora.at(GRUB)).unwrap()[..], b"# caf\xe9\n"].concat();
    fs::write(fedora.at(GRUB), edited).unwrap();
    let undone = fedora.back();
    assert_eq!(transaction::still_changed(&undone).count(), 0, "{undone:?}");
    assert_eq!(fs::read(fedora.at(GRUB)).unwrap(), [&before[..], b"# caf\xe9\n"].concat());
}

#[test]
fn a_block_without_its_last_line_stops_its_step_alone() {
    let mut fedora = Fedora::new();
    fedora.apply();
    let open =
        fedora.text(GRUB).replace("# isolator end\n", "").replace("LINUX isolcpus", "LINUX mine isolcpus");
    fs::write(fedora.at(GRUB), format!("{open}LAST=1\n")).unwrap();
    let undone = fedora.back();
    let left: Vec<&str> = transaction::still_changed(&undone).collect();
    assert_eq!(left, ["/etc/default/grub"], "{undone:?}");
    assert_eq!(fedora.text(GRUB), format!("{open}LAST=1\n"));
    assert!(!fedora.text("etc/kernel/cmdline").contains("isolcpus"));
    assert!(store::read(&fedora.system, &fedora.record.id).unwrap().live());
    // The line is back.
    fs::write(fedora.at(GRUB), format!("{open}# isolator end\nLAST=1\n")).unwrap();
    assert_eq!(transaction::still_changed(&fedora.back()).count(), 0);
    assert!(fedora.text(GRUB).ends_with("LAST=1\n") && !fedora.text(GRUB).contains("isolcpus"));
}

#[test]
fn what_is_in_the_way_is_named_and_done_later() {
    type Block = fn(&Path);
    let blocks: [(&str, Block); 3] = [
        ("folder", |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("link to itself", |path| {
            fs::remove_file(path).unwrap();
            symlink("grub", path).unwrap();
        }),
        ("pipe", |path| {
            fs::remove_file(path).unwrap();
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }),
    ];
    for (name, block) in blocks {
        let mut fedora = Fedora::new();
        fedora.apply();
        let ours = fedora.text(GRUB);
        block(&fedora.at(GRUB));
        let undone = fedora.back();
        let left: Vec<&str> = transaction::still_changed(&undone).collect();
        assert_eq!(left, ["/etc/default/grub"], "{name}: {undone:?}");
        assert!(!fedora.text("etc/kernel/cmdline").contains("isolcpus"), "{name}");
        let _ = fs::remove_file(fedora.at(GRUB)).or_else(|_| fs::remove_dir(fedora.at(GRUB)));
        fs::write(fedora.at(GRUB), &ours).unwrap();
        assert_eq!(transaction::still_changed(&fedora.back()).count(), 0, "{name}");
        assert!(!fedora.text(GRUB).contains("isolcpus"), "{name}");
        assert!(!store::read(&fedora.system, &fedora.record.id).unwrap().live(), "{name}");
    }
}

#[test]
fn what_others_removed_or_emptied_stays_so() {
    let mut fedora = Fedora::new();
    fedora.apply();
    fs::write(fedora.at(GRUB), "").unwrap();
    fs::remove_file(fedora.at("etc/kernel/cmdline")).unwrap();
    let undone = fedora.back();
    assert_eq!(transaction::still_changed(&undone).count(), 0, "{undone:?}");
    assert_eq!(fedora.text(GRUB), "");
    assert!(!fedora.at("etc/kernel/cmdline").exists());
}

#[test]
fn a_record_that_others_can_write_is_not_used() {
    let mut fedora = Fedora::new();
    fedora.apply();
    let path = fedora.at("var/lib/isolator/tune/20260101-000000-boot.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let error = store::read(&fedora.system, &fedora.record.id).unwrap_err().to_string();
    assert!(error.contains("another user than root can write it"), "{error}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(store::read(&fedora.system, &fedora.record.id).is_err());
}

#[test]
fn nothing_is_written_through_a_link_out_of_the_root() {
    let mut fedora = Fedora::new();
    let host = tempfile::NamedTempFile::new().unwrap();
    fs::write(host.path(), "theirs\n").unwrap();
    for path in ["/etc/evil", "/etc/default/evil"] {
        symlink(host.path(), fedora.at(&path[1..])).unwrap();
        assert!(fedora.system.overwrite(path, b"ours").is_err());
        assert!(fedora.system.set(path, "ours").is_err());
        let new = fedora.system.stat("/etc/default/grub").unwrap();
        assert!(fedora.system.write_beside(path, b"ours", new).is_err());
    }
    symlink(host.path().parent().unwrap(), fedora.at("etc/folder")).unwrap();
    let new = fedora.system.stat("/etc/default/grub").unwrap();
    assert!(fedora.system.write_beside("/etc/folder/x", b"ours", new).is_err());
    assert!(fedora.system.make_folder("/etc/folder/x").is_err());
    assert_eq!(fs::read_to_string(host.path()).unwrap(), "theirs\n");
}

#[test]
fn a_setting_of_a_captured_tree_holds_nothing_of_a_longer_one() {
    let mut fedora = Fedora::new();
    fs::create_dir_all(fedora.at("proc/irq")).unwrap();
    fs::write(fedora.at("proc/irq/default_smp_affinity"), "ffffffff,ffffffff\n").unwrap();
    fedora.system.set("/proc/irq/default_smp_affinity", "7").unwrap();
    assert_eq!(fedora.text("proc/irq/default_smp_affinity"), "7\n");
    fedora.system.set("/proc/irq/default_smp_affinity", "ffffffff,ffffffff").unwrap();
    assert_eq!(fedora.text("proc/irq/default_smp_affinity"), "ffffffff,ffffffff\n");
}

/// Sets or clears what `chattr +i` sets: then not even root changes the file.
fn immutable(path: &Path, on: bool) -> rustix::io::Result<()> {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let file = fs::File::open(path).map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap())?;
    let mut flags = ioctl_getflags(&file)?;
    flags.set(IFlags::IMMUTABLE, on);
    ioctl_setflags(&file, flags)
}

#[test]
fn an_immutable_file_stops_its_step_alone() {
    let mut fedora = Fedora::new();
    fedora.apply();
    let path = fedora.at(GRUB);
    if let Err(error) = immutable(&path, true) {
        return println!("skipped: no file can be made immutable here: {error}");
    }
    let ours = fedora.text(GRUB);
    let undone = fedora.back();
    immutable(&path, false).unwrap();
    let left: Vec<&str> = transaction::still_changed(&undone).collect();
    assert_eq!(left, ["/etc/default/grub"], "{undone:?}");
    assert_eq!(fedora.text(GRUB), ours);
    assert!(!fedora.text("etc/kernel/cmdline").contains("isolcpus"));
    assert!(store::read(&fedora.system, &fedora.record.id).unwrap().live());
    assert_eq!(transaction::still_changed(&fedora.back()).count(), 0);
    assert!(!fedora.text(GRUB).contains("isolcpus"));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator setup-user` on files below a folder, and on this machine's own files in a mount namespace that
//! keeps every change to itself; there the members of the group use what they were given.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::*;
use tempfile::TempDir;

const PROGRAM_COPY: &str = "usr/local/bin/isolator-realtime";

/// The files of a machine with two users.
fn machine() -> TempDir {
    let root = folder();
    let files = [
        (
            "etc/passwd",
            "root:x:0:0::/root:/bin/sh\nann:x:4711:4711::/tmp:/bin/sh\nbob:x:4712:4712::/:/bin/sh\n",
        ),
        ("etc/group", "root:x:0:\naudio:x:29:bob\nann:x:4711:\nbob:x:4712:\n"),
        ("etc/gshadow", "root:*::\naudio:*::bob\nann:!::\nbob:!::\n"),
        ("etc/login.defs", "SYS_GID_MAX 900\n"),
        ("etc/security/limits.d/README", ""),
        ("etc/udev/rules.d/README", ""),
        ("usr/local/bin/README", ""),
        ("proc/sys/kernel/random/boot_id", "11111111-2222-4333-8444-555555555555\n"),
    ];
    lay_out(root.path(), &files);
    root
}

/// Bytes, permissions, owner and group of each file but the records.
fn files(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, u32, u32)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                folders.push(entry.path());
            } else if !entry.path().starts_with(root.join("var/lib/isolator")) {
                let bytes = fs::read(entry.path()).unwrap();
                found.insert(entry.path(), (bytes, meta.mode(), meta.uid(), meta.gid()));
            }
        }
    }
    found
}

fn setup(root: &Path, args: &str) -> Ran {
    let mut all = vec!["setup-user"];
    all.extend(args.split(' '));
    all.extend(["--root", "."]);
    isolator(root, &all)
}

#[test]
fn files_below_a_folder_are_changed_and_come_back_to_the_byte() {
    skip_if!(skipped_for_lack_of_root());
    let root = machine();
    let root = root.path();
    let before = files(root);
    let dry = setup(root, "ann --capabilities bpf --dry-run").ended(0).stdout;
    for line in [
        "  would change /etc/group: absent -> realtime with ann\n",
        "-> @realtime - rtprio 98; @realtime - memlock unlimited; @realtime - nice -11\n",
        "-> KERNEL==\"cpu_dma_latency\", GROUP=\"realtime\", MODE=\"0660\"\n",
        "for group 900 alone, with CAP_SYS_NICE, CAP_IPC_LOCK, CAP_BPF, CAP_PERFMON\n",
        "  skipped /dev/cpu_dma_latency: no such file or directory\n",
    ] {
        assert!(dry.contains(line), "{line}{dry}");
    }
    assert_eq!(files(root), before);

    let done = setup(root, "ann --capabilities bpf").ended(0).stdout;
    assert!(
        done.contains("  change /usr/local/bin/isolator-realtime: absent -> this program for group 900"),
        "{done}"
    );
    assert!(
        done.contains("next: log out and in as ann: groups and limits are those of a new session\n"),
        "{done}"
    );
    let after = files(root);
    assert_eq!(after.len(), before.len() + 3);
    let (bytes, mode, uid, gid) = &after[&root.join(PROGRAM_COPY)];
    assert_eq!((mode & 0o7777, *uid, *gid), (0o750, 0, 900));
    assert!(*bytes == fs::read(PROGRAM).unwrap(), "the copy is this program");
    assert!(fs::read_to_string(root.join("etc/group")).unwrap().ends_with("\nrealtime:x:900:ann\n"));

    let again = setup(root, "ann --capabilities bpf").ended(0).stdout;
    assert!(
        again.contains("already so: /usr/local/bin/isolator-realtime\n") && !again.contains("recorded as"),
        "{again}"
    );
    setup(root, "bob").ended(0);
    assert!(fs::read_to_string(root.join("etc/gshadow")).unwrap().ends_with("\nrealtime:!::ann,bob\n"));
    let status = isolator(root, &["tune", "status", "--root", "."]).ended(0).stdout;
    assert_eq!(status.matches("rights of users: in force").count(), 2, "{status}");

    let undone = setup(root, "--undo").ended(0).stdout;
    assert!(undone.contains("-user: 5 restored\n") && undone.contains("-user: 2 restored\n"), "{undone}");
    assert_eq!(files(root), before);
    assert_eq!(setup(root, "--undo").ended(0).stdout, "nothing is in force that could be undone\n");
}

#[test]
fn each_wrong_request_is_one_line_and_changes_nothing() {
    let root = machine();
    let root = root.path();
    let before = files(root);
    for (args, line) in [
        (
            "eve",
            "cannot give rights to user 'eve': there is no such user; make it by useradd, or name one of `getent passwd`",
        ),
        ("root", "cannot give rights to user 'root': root has them all; name the user that is to measure"),
        ("ann --group root", "cannot use group root: it is root's; choose another group by --group"),
        (
            "ann --capabilities all",
            "cannot use 'all' for --capabilities: there is no such set; write scheduling or bpf",
        ),
        ("--dry-run", "isolator setup-user lacks <USER>...; see isolator setup-user --help"),
        (
            "ann --undo",
            "cannot take the rights from ann alone: --undo takes them from all users; leave the names out, or take ann out of the \
             group by gpasswd -d",
        ),
    ] {
        setup(root, args).refused(line);
    }
    fs::write(root.join("etc/udev/rules.d/60-isolator-user.rules"), "another's\n").unwrap();
    setup(root, "ann").refused(
        "cannot write /etc/udev/rules.d/60-isolator-user.rules: it is there and was not made by this program; look at what \
         it is for, and move it away",
    );
    fs::remove_file(root.join("etc/udev/rules.d/60-isolator-user.rules")).unwrap();
    assert_eq!(files(root), before);
    if !skipped_for_lack_of_root() {
        isolator_as_nobody(root, &["setup-user", "ann"])
            .refused("cannot give rights to users: only root may change the machine; run it by sudo");
    }
}

/// A script's head: this machine's files, with each change on a file system in memory that ends with the
/// namespace; the users ann and bob, a device of their own, and `as USER COMMAND…` by a new session.
const OWN_ROOT: &str = r#"
set -eu
mkdir m && mount -t tmpfs -o mode=755 none m && mkdir m/up m/work m/root
mount -t overlay none -o lowerdir=/,upperdir=m/up,workdir=m/work m/root
cd m/root
rm -rf var/lib/isolator etc/udev/rules.d/60-isolator-user.rules
mkdir -p proc sys dev tmp run etc/udev/rules.d etc/security/limits.d usr/local/bin
for at in proc sys; do mount --rbind /$at $at; done
for at in dev tmp run; do mount -t tmpfs -o mode=1777 none $at; done
mknod dev/cpu_dma_latency c 10 "$(sed -n 's/ cpu_dma_latency$//p' /proc/misc | tr -d ' ')" && chmod 600 dev/cpu_dma_latency
for node in null:1:3 zero:1:5 random:1:8 urandom:1:9; do
    (IFS=:; set -- $node; mknod -m 666 dev/$1 c $2 $3)
done
for user in ann:4711 bob:4712; do
    echo "${user%:*}:x:${user#*:}:${user#*:}::/tmp:/bin/sh" >>etc/passwd
    echo "${user%:*}:x:${user#*:}:" >>etc/group
    echo "${user%:*}:*:19000:0:99999:7:::" >>etc/shadow
done
strip -o usr/local/bin/isolator "$ISOLATOR" 2>/dev/null || cp "$ISOLATOR" usr/local/bin/isolator
chmod 755 usr/local/bin/isolator
mkdir -m 777 tmp/work
state() {
    chroot . sh -c 'find etc -type f -exec sha256sum {} +; find etc usr/local dev ! -type d -printf "%p %m %U:%G %s\n"' |
        sort | grep -v "etc/passwd-\|etc/group-"
}
in_root() { chroot . env PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
as() { user=$1; shift; in_root setpriv --reuid="$user" --regid="$user" --init-groups -- sh -c "cd /tmp/work; $*"; }
say() { echo "== $*"; }
"#;

fn in_own_root(script: &str) -> Option<Ran> {
    let overlay = "mkdir -p o && mount -t tmpfs none o && mkdir o/u o/w o/r && mount -t overlay none -o \
                   lowerdir=/,upperdir=o/u,workdir=o/w o/r";
    if skipped_for_lack_of_root()
        || skipped_for_lack_of_mounts()
        || skipped(!installed("setpriv"), "it needs setpriv")
        || skipped(in_namespace(folder().path(), overlay).status != Some(0), "it needs overlayfs on /")
    {
        return None;
    }
    Some(in_namespace(folder().path(), &format!("{OWN_ROOT}{script}")))
}

/// The script's output after each `== NAME`.
fn parts(ran: &Ran) -> BTreeMap<String, String> {
    let parts = ran.stdout.split("== ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(name, text)| (name.to_string(), text.trim_end().to_string())).collect()
}

#[test]
fn members_of_the_group_measure_and_programs_that_they_start_get_no_capability() {
    skip_if!(skipped_for_lack_of_cpus());
    let has_bpf = Path::new("/sys/kernel/btf/vmlinux").exists() && cause::bpf::is_built_in();
    let causes = if has_bpf { "CAUSES=bpf" } else { "CAUSES=auto" };
    let script = causes.to_string()
        + r#"
state >../before
in_root isolator setup-user ann --capabilities bpf --quiet
say mode; stat -c '%a %U' usr/local/bin/isolator-realtime dev/cpu_dma_latency
say other; as bob isolator-realtime --version 2>&1 || true
say device; as ann 'exec 3<>/dev/cpu_dma_latency && echo open'; as bob 'exec 3<>/dev/cpu_dma_latency' 2>/dev/null || echo closed
say spike
as ann "isolator-realtime prove --loads idle --duration 1s --warm-up 100ms --threshold 1ns --causes $CAUSES \
    --on-spike 'grep Cap /proc/self/status >spike.tmp && mv spike.tmp spike' --on-spike-every 1ms --verbose -o b --dma-latency 20 >out 2>&1" || [ $? = 2 ]
as ann cat spike
say taints; as ann 'grep "^taint:" out' || true
say custom
as ann "isolator-realtime prove --loads 'custom=grep Cap /proc/self/status >load; sleep 9' --duration 1s --warm-up 100ms --quiet -o c" || [ $? = 2 ]
as ann cat load
say program
as ann "isolator-realtime monitor --duration 1s --quiet -o d --command sh -c 'grep Cap /proc/self/status >program; sleep 9'" 2>/dev/null || true
as ann cat program
say run; as ann 'isolator-realtime run --policy other -- grep Cap /proc/self/status'
say deadline; as ann 'isolator-realtime run --policy deadline --runtime 100us --period 10ms -- true' 2>&1 || true
say task; as ann "isolator-realtime task set $$ --policy batch" 2>&1 || true
say file; as ann 'isolator-realtime import /etc/shadow' 2>&1 || true
say output; as ann 'isolator-realtime prove --loads idle --duration 1s --warm-up 100ms -o /etc/b' 2>&1 || true
say json; as ann 'isolator-realtime prove --loads idle --duration 1s --warm-up 100ms -o e --quiet --json=/etc/motd' 2>&1 || true
say read; as ann 'isolator-realtime run --policy other -- cat /etc/shadow' 2>&1 || true
in_root isolator setup-user --undo --quiet
say left; state | diff ../before - || true
"#;
    let Some(ran) = in_own_root(&script) else { return };
    let parts = parts(&ran);
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    assert_eq!(parts["mode"], "750 root\n660 root", "{ran:#?}");
    assert!(parts["other"].contains("ermission denied"), "{}", parts["other"]);
    assert_eq!(parts["device"], "open\nclosed");
    for name in ["spike", "custom", "program", "run"] {
        let sets: Vec<&str> = parts[name].lines().filter(|line| !line.starts_with("CapBnd")).collect();
        assert_eq!(sets.len(), 4, "{name}: {ran:#?}");
        assert!(sets.iter().all(|set| set.ends_with("0000000000000000")), "{name}: {sets:?}");
    }
    let denied = |name: &str| {
        let text = parts[name].to_lowercase();
        assert!(text.contains("permission denied") || text.contains("not permitted"), "{name}: {text}");
    };
    ["deadline", "task", "file", "output", "json", "read"].into_iter().for_each(denied);
    for taint in ["not-real-time-policy", "memory-not-locked"] {
        assert!(!parts["taints"].contains(taint), "{}", parts["taints"]);
    }
    assert_eq!(parts["left"], "", "{ran:#?}");
}

#[test]
fn a_new_session_of_a_member_has_the_limits() {
    let Some(ran) = in_own_root(
        r#"
grep -q '^session.*required.*pam_limits' etc/pam.d/su || { say none; exit 0; }
in_root prlimit --rtprio=98:98 --memlock=unlimited:unlimited true 2>/dev/null || { say none; exit 0; }
in_root isolator setup-user ann --quiet
for user in ann bob; do say $user; in_root su $user -c 'ulimit -r; ulimit -l; id -Gn'; done
say measured
in_root su ann -c 'cd /tmp/work && isolator measure wakeup --duration 1s --warm-up 100ms --dma-latency 20 --verbose -o b' 2>&1 || [ $? = 2 ]
"#,
    ) else {
        return;
    };
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let parts = parts(&ran);
    skip_if!(skipped(parts.contains_key("none"), "su has no pam_limits here, or root may not raise limits"));
    assert_eq!(parts["ann"], "98\nunlimited\nann realtime", "{ran:#?}");
    assert!(!parts["bob"].starts_with("98\n") && !parts["bob"].contains("realtime"), "{}", parts["bob"]);
    assert!(!parts["measured"].contains("not-real-time-policy"), "{}", parts["measured"]);
}

#[test]
fn a_setup_that_is_killed_halfway_is_undone() {
    let Some(ran) = in_own_root(
        r#"
state >../before
# The kernel kills a process that writes a file longer than its limit: the copy, after all the other steps.
in_root sh -c 'ulimit -f 2048; isolator setup-user ann --capabilities bpf' >/dev/null 2>&1 && exit 9
say halfway; tail -n 1 etc/group; ls usr/local/bin | sed 's/[0-9a-f]\{16\}/N/'
say status; in_root isolator tune status | sed 's/^[0-9-]*//'
in_root isolator setup-user --undo --quiet
say left; state | diff ../before - || true
in_root sh -c 'ulimit -f 2048; isolator setup-user ann --capabilities bpf' >/dev/null 2>&1 && exit 9
say again; in_root isolator setup-user ann --capabilities bpf
in_root isolator setup-user --undo --quiet
say over; state | diff ../before - || true
"#,
    ) else {
        return;
    };
    assert_eq!(ran.status, Some(0), "{ran:#?}");
    let parts = parts(&ran);
    assert!(parts["halfway"].starts_with("realtime:x:"), "{ran:#?}");
    assert!(parts["halfway"].contains("isolator-realtime.N.isolator-new"), "{ran:#?}");
    assert!(parts["status"].contains("rights of users: interrupted while it was done"), "{ran:#?}");
    assert!(parts["again"].starts_with("undone first, since it was interrupted: "), "{ran:#?}");
    assert_eq!((parts["left"].as_str(), parts["over"].as_str()), ("", ""), "{ran:#?}");
}

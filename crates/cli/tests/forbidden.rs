// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refusals of the system: permissions, a full disk, an offline CPU. One line each, and nothing is lost.

use std::fs;

use crate::common::*;

#[test]
fn a_folder_that_may_not_be_written_is_refused_before_anything_is_measured() {
    skip_if!(skipped_for_lack_of_root() || skipped_for_lack_of_cpus());
    let folder = folder();
    let args = ["prove", "--policy", "other", "--duration", "1s", "-o", "b"];
    isolator_as_nobody(folder.path(), &args).refused(
        "cannot write a bundle to b: permission denied; run as a user with access, or choose another path",
    );
    fs::write(folder.path().join("t.txt"), "T: 0 ( 1) P:80 I:1000 C: 10 Min: 1 Act: 2 Avg: 2 Max: 5\n")
        .unwrap();
    isolator_as_nobody(folder.path(), &["import", "t.txt"]).refused(
        "cannot write a bundle to evidence/t: permission denied; run as a user with access, or choose another path",
    );
}

#[test]
fn without_permission_for_a_real_time_policy_the_line_says_how_to_get_it() {
    skip_if!(skipped_for_lack_of_root() || skipped_for_lack_of_cpus());
    let folder = folder();
    let line = isolator_as_nobody(folder.path(), &["prove", "-o", "b"]).line();
    let begin = "SCHED_FIFO 80 is not permitted: no CAP_SYS_NICE, and RLIMIT_RTPRIO is 0; ";
    assert!(line.starts_with(begin), "{line}");
    assert!(line.contains("CAP_SYS_NICE (setcap") || line.contains("--cap-add sys_nice"), "{line}");
    assert!(line.ends_with("; or measure with --policy other, which taints the result"), "{line}");
    let line = isolator_as_nobody(folder.path(), &["run", "--", "true"]).line();
    let begin = "cannot set SCHED_FIFO 80: operation not permitted; run as root, grant CAP_SYS_NICE, or raise RLIMIT_RTPRIO";
    assert!(line.starts_with(begin), "{line}");
    isolator_as_nobody(folder.path(), &["run", "--policy", "other", "--", "true"]).ended(0);
}

#[test]
fn without_permission_for_the_idle_states_nothing_is_measured() {
    skip_if!(skipped_for_lack_of_root() || skipped_for_lack_of_cpus());
    let folder = folder();
    let args = ["prove", "--policy", "other", "--dma-latency", "0", "-o", "b", "--quiet"];
    let line = isolator_as_nobody(folder.path(), &args).line();
    let begin = "cannot request 0 us in /dev/cpu_dma_latency: ";
    assert!(
        line.starts_with(begin) && line.ends_with("; run as root, or do without --dma-latency"),
        "{line}"
    );
}

#[test]
fn a_disk_that_is_full_from_the_start_is_refused_and_nothing_is_left() {
    skip_if!(skipped_for_lack_of_mounts() || skipped_for_lack_of_cpus());
    let folder = folder();
    let ran = in_namespace(
        folder.path(),
        "mkdir disk && mount -t tmpfs -o size=64k none disk && dd if=/dev/zero of=disk/full bs=4k 2>/dev/null
         $ISOLATOR prove --policy other --duration 1s -o disk/b; status=$?; ls disk; exit $status",
    )
    .ended(1);
    let line = "cannot write disk/b/manifest.json: no space left on device; free some space, or choose another folder with -o";
    assert_eq!((ran.stderr, ran.stdout), (format!("isolator: {line}\n"), "full\n".to_string()));
}

#[test]
fn a_disk_that_fills_up_ends_the_run_in_order_and_what_was_written_stays_readable() {
    skip_if!(skipped_for_lack_of_mounts() || skipped_for_lack_of_cpus());
    let folder = folder();
    // Every sample is a spike, so that the disk is full long before the run is over; without causes, so that
    // it is not full within the first second.
    let ran = in_namespace(
        folder.path(),
        "mkdir disk && mount -t tmpfs -o size=512k none disk
         $ISOLATOR prove --policy other --duration 60s --warm-up 0 --threshold 1ns --causes off --quiet -o disk/b || echo $? >status
         $ISOLATOR report disk/b --json - --quiet -o report.html",
    )
    .ended(2);
    assert_eq!(fs::read_to_string(folder.path().join("status")).unwrap(), "1\n");
    let lines = ran.stderr.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 1, "{ran:#?}");
    assert!(lines[0].starts_with("isolator: cannot write disk/b/"), "{}", lines[0]);
    let end = ": no space left on device; free some space, or choose another folder with -o";
    assert!(lines[0].ends_with(end), "{}", lines[0]);
    let document = ran.json();
    assert!(document["rows"][0]["count"].as_u64() > Some(0), "{document:#}");
    assert!(document["missing"].to_string().contains("the run did not end in order"), "{document:#}");
}

#[test]
fn an_offline_cpu_is_refused_with_the_way_to_bring_it_online() {
    skip_if!(skipped_for_lack_of_mounts() || skipped_for_lack_of_cpus());
    let folder = folder();
    let ran = in_namespace(
        folder.path(),
        "echo 0 >online && mount --bind online /sys/devices/system/cpu/online && $ISOLATOR prove --cpus 1 -o b",
    );
    ran.refused(
        "cpu 1 is offline; choose from the online cpus 0, or bring it online: echo 1 > /sys/devices/system/cpu/cpu1/online",
    );
    assert!(!folder.path().join("b").exists());
}

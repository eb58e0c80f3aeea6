// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsers of small texts, and what must be true of all that they accept.

use ethercat::segment::frame::Frame;
use ethercat::segment::{Fate, Segment};
use inspect::boot::bls::EntryFile;
use inspect::boot::extlinux::Extlinux;
use inspect::boot::grub::{GrubEnvironment, default_entry, default_of, menu, settings};
use inspect::boot::{Variables, pi};
use inspect::counters::Counters;
use machine::CpuSet;
use machine::boot::line::{all_words, kernel_words, value, with_words, without_words};
use machine::boot::quoting::quoted;
use machine::registry::{ValueKind, known, list};
use measure::probes::response::board::Board;

use super::parts::parts;

/// Gives `parse` the input where it is UTF-8: these parsers take text that their caller has decoded.
fn text(data: &[u8], parse: impl FnOnce(&str)) {
    if let Ok(text) = str::from_utf8(data) {
        parse(text);
    }
}

/// A file that describes a board: what is accepted has lines, and each line at most one place in the kernel's
/// chips.
pub(crate) fn board(data: &[u8]) {
    text(data, |text| {
        let Ok(board) = Board::parse(text) else { return };
        let last = board.lines - 1;
        assert!(board.check_line("--in", last).is_ok() && board.check_line("--in", board.lines).is_err());
        for line in [0, last / 2, last] {
            if let Some((label, number)) = board.chip_of(line) {
                assert!(number < board.lines && !label.contains("{address}"));
            }
        }
    });
}

/// A file of a boot loader, read as each kind: bytes in are bytes out, and what was added goes again.
pub(crate) fn boot_files(data: &[u8]) {
    text(data, |text| {
        grub(text);
        let file = EntryFile::read(text);
        assert_eq!(file.text(), text);
        let _ = file.entry("entries/a+3-1.conf");
        let mut extlinux = Extlinux::read(text);
        assert_eq!(extlinux.text(), text);
        let _ = (extlinux.entries("extlinux.conf"), extlinux.default_label().is_some(), extlinux.timeout());
        if let Some(from) = extlinux.default_label().map(str::to_string) {
            extlinux.add_copy(&from, "isolator", "Isolator", "root=x");
            extlinux.remove("isolator");
        }
        assert_eq!(pi::PiConfig::read(text).text(), text);
        variables(text);
    });
}

fn grub(text: &str) {
    let entries = menu(text, "grub.cfg");
    let _ = default_entry(&entries, "1>0");
    assert!(entries.iter().all(|entry| text.contains(entry.block)));
    for entry in &entries {
        let copy = entry.copy("Isolator trial", "isolator-trial", &["isolcpus=3"]);
        assert!(menu(&copy, "").iter().all(|copy| copy.entry.id == "isolator-trial"));
    }
    let _ = (settings(text), default_of(text));
    if let Some(block) = GrubEnvironment::read(text).and_then(|block| block.text()) {
        assert_eq!(block.len(), text.len());
    }
}

/// A value that the shell's quotes carry is read as it was.
fn variables(text: &str) {
    let mut variables = Variables::default();
    variables.read(text);
    variables.read(text);
    let _ = variables.parts("A");
    let mut again = Variables::default();
    let value = text.replace(['\n', '\r', '\\', '\0'], " ");
    again.read(&format!("A={}", quoted(&value)));
    assert_eq!(again.get("A"), Some(value.as_str()));
}

/// A boot line: words have no space outside quotes, and what was added can be taken away to the byte.
pub(crate) fn boot_line(data: &[u8]) {
    text(data, |text| {
        assert!(kernel_words(text).count() <= all_words(text).count());
        for word in all_words(text) {
            assert!(text.contains(word.raw) && !word.raw.is_empty());
            let _ = value(text, word.name);
        }
        // A word of ours never stands in a line already, and quotes that stay open take all that follows.
        let ours = ["isolcpus=managed_irq,domain,3", "skew_tick=1"];
        if text.matches('"').count() % 2 == 0 && !all_words(text).any(|word| ours.contains(&word.raw)) {
            let longer = with_words(text, &ours);
            assert_eq!(kernel_words(&longer).count(), kernel_words(text).count() + 2, "{longer:?}");
            assert_eq!(without_words(&longer, &ours), text, "{longer:?}");
        }
    });
}

/// A boot line's list of CPUs, or a parameter's name: no CPU beyond the last, and the kernel's own form reads
/// back as itself.
pub(crate) fn boot_list(data: &[u8]) {
    text(data, |text| {
        let last = 127;
        for takes in [ValueKind::Cpus, ValueKind::FlagsAndCpus, ValueKind::MaybeCpus] {
            if let Ok(listed) = list::read(takes, text, last) {
                assert!(listed.cpus.iter().all(|cpu| cpu <= last));
                let again = list::read(ValueKind::Cpus, &listed.cpus.to_string(), last);
                assert_eq!(again.ok().map(|again| again.cpus), Some(listed.cpus));
            }
        }
        if let Some(meant) = known::meant(text) {
            assert!(known::is_known(meant) && !known::is_known(text));
        }
    });
}

/// The kernel's counters, four files apart by U+0001: nothing grows from itself, and nothing is of a CPU that
/// was not asked for.
pub(crate) fn counters(data: &[u8]) {
    text(data, |text| {
        let cpus: CpuSet = (0..4).collect();
        let mut parts = text.split('\u{1}');
        let texts = [(); 4].map(|()| parts.next().unwrap_or_default());
        let counters = Counters::parse(texts, &cpus);
        assert!(counters.cpus().without(&cpus).is_empty());
        assert!(counters.since(&counters).is_empty());
        let nothing = Counters::parse([""; 4], &cpus);
        assert!(counters.since(&nothing).is_empty());
        assert!(nothing.since(&counters).is_empty());
    });
}

/// A list of CPUs: what is read is written in the kernel's own form, and that form reads back as itself.
pub(crate) fn cpuset(data: &[u8]) {
    text(data, |text| {
        if let Ok(cpus) = text.parse::<CpuSet>() {
            assert_eq!(cpus.to_string().parse::<CpuSet>().as_ref(), Ok(&cpus));
            assert_eq!(cpus.iter().count(), cpus.len());
            assert!(cpus.without(&cpus).is_empty() && cpus.and(&cpus) == cpus && cpus.or(&cpus) == cpus);
        }
    });
}

/// EtherCAT frames, apart by lines `=== frame`: whatever comes, the simulated segment makes no frame
/// another's length, and what it sends back can be read.
pub(crate) fn ethercat(data: &[u8]) {
    let mut segment = Segment::new(2, 50_000, Vec::new());
    for (number, (_, mut frame)) in parts(data, "frame").into_iter().enumerate() {
        let length = frame.len();
        let fate = segment.pass(&mut frame, number as u64 * 1_000_000);
        assert_eq!(frame.len(), length);
        assert_eq!(fate == Fate::Returned, Frame::parse(&mut frame).is_ok());
    }
}

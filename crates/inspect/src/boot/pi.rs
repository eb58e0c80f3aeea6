// SPDX-License-Identifier: MIT OR Apache-2.0
//! Raspberry Pi: `config.txt`, whose sections hold for some boards only, and `cmdline.txt`, of which the
//! firmware reads one line.
//!
//! Reference: <https://www.raspberrypi.com/documentation/computers/config_txt.html>. The folder is `/boot/firmware` since
//! Debian 12, `/boot` before; the old place then holds a note that the file has moved.

use super::lines::{TextLine, end_last, joined, lines};
use super::statement::{Dialect, statements};

mod filter;

pub(super) use filter::{OtherLoader, Settings};

/// Where the firmware's partition is mounted.
pub(super) const FIRMWARE: [&str; 2] = ["boot/firmware", "boot"];

/// `config.txt`, which can be written back to the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PiConfig {
    lines: Vec<TextLine>,
}

impl PiConfig {
    /// Cuts the file into lines.
    pub fn read(text: &str) -> Self {
        PiConfig { lines: lines(text) }
    }

    /// The file's bytes.
    pub fn text(&self) -> String {
        joined(&self.lines)
    }

    /// Its lines without comments and space around them.
    fn statements(&self) -> impl Iterator<Item = &str> {
        let said = self.lines.iter().flat_map(|line| statements(line.body(), Dialect::CutKeys));
        said.map(|statement| statement.text.trim())
    }

    /// Every value of `key`, with the section in which it stands, `all` being the first.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let mut section = "all";
        self.statements().filter_map(move |body| {
            if let Some(name) = body.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name;
                return None;
            }
            let (name, value) = body.split_once('=')?;
            (name.trim() == key).then(|| (section, value.trim()))
        })
    }

    /// Whether it has a section of this name.
    pub fn has_section(&self, name: &str) -> bool {
        let section = |body: &str| body.strip_prefix('[')?.strip_suffix(']').map(str::to_lowercase);
        self.statements().filter_map(section).any(|section| section.trim() == name)
    }

    /// The files that it includes, each once.
    pub fn includes(&self) -> impl Iterator<Item = &str> {
        let files: std::collections::BTreeSet<&str> =
            self.statements().filter_map(|body| body.strip_prefix("include ")).map(str::trim).collect();
        files.into_iter().take(16)
    }

    /// Sets `key` for every board, at the end of the file, where it wins.
    pub fn add_for_all(&mut self, key: &str, value: &str) {
        end_last(&mut self.lines);
        self.lines.push(TextLine::new("[all]"));
        self.lines.push(TextLine::new(&format!("{key}={value}")));
    }
}

/// The line that the firmware reads of `cmdline.txt`: the first.
pub fn command_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Whether `cmdline.txt` has more than its one line, which the firmware does not read.
pub fn has_more_lines(text: &str) -> bool {
    text.lines().skip(1).any(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use machine::boot::Loader;

    use super::*;
    use crate::tree::made_of;

    #[test]
    fn reads_sections_and_adds_for_all() {
        let text =
            "# comment\ndtparam=audio=on\n[cm4]\notg_mode=1\n[pi5]\ncmdline=five.txt\n[all]\r\narm_freq=1800";
        let mut config = PiConfig::read(text);
        assert_eq!(config.values("cmdline").collect::<Vec<_>>(), [("pi5", "five.txt")]);
        assert_eq!(config.values("dtparam").collect::<Vec<_>>(), [("all", "audio=on")]);
        assert_eq!(config.text(), text);
        assert!(config.has_section("cm4") && !config.has_section("tryboot"));
        config.add_for_all("cmdline", "trial.txt");
        assert_eq!(config.text(), format!("{text}\n[all]\ncmdline=trial.txt\n"));
    }

    #[test]
    fn the_firmware_reads_one_line() {
        assert_eq!(command_line("root=x quiet\n"), "root=x quiet");
        assert!(has_more_lines("root=x\nisolcpus=3\n") && !has_more_lines("root=x\n\n"));
    }

    #[test]
    fn another_loader_takes_the_firmwares_line_or_not() {
        let files = |kernel: &'static str, running: &'static str| {
            [
                ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4"),
                ("boot/firmware/config.txt", kernel),
                ("boot/firmware/cmdline.txt", "root=a quiet\n"),
                ("proc/cmdline", running),
            ]
        };
        for (kernel, running, loader, source) in [
            ("kernel=u-boot.bin\n", "coherent_pool=1M root=a quiet", Loader::UBoot, true),
            ("kernel=u-boot.bin\n", "root=b", Loader::UBoot, false),
            ("armstub=RPI_EFI.fd\n", "root=b", Loader::Unknown, false),
            ("kernel=vmlinuz\n", "coherent_pool=1M root=a quiet", Loader::RaspberryPi, false),
        ] {
            let boot = super::super::read_tree(&mut made_of(&files(kernel, running)).1);
            let has = boot.sources.iter().any(|source| source.file == "/boot/firmware/cmdline.txt");
            assert_eq!((boot.loader, has), (loader, source), "{kernel}{running}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Edges from outside of the guest: a signal generator at one line of its GPIO controller, and an ear at
//! another.
//!
//! QEMU's machine `virt` (arm64) has a PL061 whose lines nothing else drives. Beside the translator it serves
//! qtest: `set_irq_in` changes the level of a line that the guest reads, `irq_intercept_out` has each change
//! of a line that it drives told, as `IRQ raise 1`. Which of the machine's devices is the PL061, the control
//! protocol (QMP) says. QEMU: docs/devel/testing.rst, softmmu/qtest.c; hw/gpio/pl061.c
//!
//! One edge at a time: the next is driven a while after the answer to the one before. When that was, the
//! host's clock would say of a translated guest, which is no latency: how long a response takes is the
//! scope's to count, in instructions.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The controller's registers, where the machine `virt` has them.
pub const CONTROLLER: u64 = 0x0903_0000;

/// The line that the guest reads, and the one that it drives. Line 3 is the machine's power button.
pub const INPUT: u32 = 0;
/// See [`INPUT`].
pub const OUTPUT: u32 = 1;

/// Name of the frame in which a generator's counts are kept.
pub const FRAME: &str = "edges";

/// An edge that is not answered for so long has no answer. The host may be busy.
const PATIENCE: Duration = Duration::from_secs(2);

/// The register of a line's level, of this line alone: PrimeCell GPIO, DDI 0190, GPIODATA.
pub fn register(line: u32) -> u64 {
    CONTROLLER + (1 << (line + 2))
}

/// The generator's own counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratorReport {
    /// Those answered.
    pub answered: u64,
    /// Those between two that were answered that had no answer themselves.
    pub missed: u64,
}

impl GeneratorReport {
    /// With the next one; `before` holds those without an answer since the last that had one.
    fn next(&mut self, answered: bool, before: &mut u64) {
        if answered {
            self.missed += std::mem::take(before);
            self.answered += 1;
        } else if self.answered > 0 {
            *before += 1;
        }
    }
}

/// The emulator's ends of two sockets.
#[derive(Debug)]
pub struct Sockets([OwnedFd; 2]);

impl Sockets {
    /// The descriptors that the emulator shall inherit.
    pub fn inherited(&self) -> &[OwnedFd; 2] {
        &self.0
    }

    /// The emulator's arguments for them.
    pub fn arguments(&self) -> Vec<String> {
        let [control, lines] = self.0.each_ref().map(AsRawFd::as_raw_fd);
        let words = [
            "-chardev",
            &format!("socket,id=control,fd={control}"),
            "-mon",
            "chardev=control,mode=control",
            "-chardev",
            &format!("socket,id=lines,fd={lines}"),
            "-object",
            "qtest,id=edges,chardev=lines,log=/dev/null",
        ];
        words.map(str::to_string).to_vec()
    }
}

/// This program's ends.
#[derive(Debug)]
pub struct EdgeGenerator {
    control: BufReader<UnixStream>,
    lines: BufReader<UnixStream>,
}

/// Two connected pairs.
pub fn sockets() -> io::Result<(EdgeGenerator, Sockets)> {
    let ((control, their_control), (lines, their_lines)) = (UnixStream::pair()?, UnixStream::pair()?);
    let own = EdgeGenerator { control: BufReader::new(control), lines: BufReader::new(lines) };
    Ok((own, Sockets([their_control.into(), their_lines.into()])))
}

impl EdgeGenerator {
    /// Drives edges, each `pause` after the answer to the one before, until the emulator is gone.
    pub fn run(mut self, pause: Duration) -> io::Result<GeneratorReport> {
        let device = self.controller()?;
        self.send(&format!("irq_intercept_out {device}"))?;
        let (mut edges, mut unanswered) = (GeneratorReport::default(), 0);
        for level in [1, 0].into_iter().cycle() {
            let line = format!("set_irq_in {device} unnamed-gpio-in {INPUT} {level}");
            match self.send(&line).and_then(|()| self.answer(level == 1)) {
                Ok(answered) => edges.next(answered, &mut unanswered),
                // It ended, in the middle of a word perhaps; the reason is reported elsewhere.
                Err(_) => break,
            }
            std::thread::sleep(pause);
        }
        Ok(edges)
    }

    /// The path of the PL061 among the machine's devices.
    fn controller(&mut self) -> io::Result<String> {
        const DEVICES: &str = "/machine/unattached";
        #[derive(Deserialize)]
        struct QmpDevice {
            name: String,
            r#type: String,
        }
        #[derive(Deserialize)]
        struct QmpList {
            r#return: Vec<QmpDevice>,
        }
        let mut line = String::new();
        self.control.read_line(&mut line)?;
        let mut ask = |text: &str| -> io::Result<String> {
            writeln!(self.control.get_mut(), "{text}")?;
            loop {
                let mut line = String::new();
                if self.control.read_line(&mut line)? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                // Events come in between.
                if !line.starts_with("{\"timestamp\"") {
                    return Ok(line);
                }
            }
        };
        ask(r#"{"execute":"qmp_capabilities"}"#)?;
        let listed = ask(&format!(r#"{{"execute":"qom-list","arguments":{{"path":"{DEVICES}"}}}}"#))?;
        let listed: QmpList = serde_json::from_str(&listed)?;
        let found = listed.r#return.into_iter().find(|device| device.r#type == "child<pl061>");
        let found = found.ok_or_else(|| io::Error::other("the machine has no PL061"))?;
        Ok(format!("{DEVICES}/{}", found.name))
    }

    fn send(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.lines.get_mut(), "{line}")
    }

    /// Whether the output follows; other output, `OK` to each line and older answers, is ignored.
    fn answer(&mut self, raised: bool) -> io::Result<bool> {
        let wanted = format!("IRQ {} {OUTPUT}", if raised { "raise" } else { "lower" });
        let until = Instant::now() + PATIENCE;
        let mut line = String::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.lines.get_ref().set_read_timeout(Some(left))?;
            match self.lines.read_line(&mut line) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) if line.trim_end() == wanted => return Ok(true),
                Ok(_) => line.clear(),
                // What it has of a line stays in `line`.
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(why) => return Err(why),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lines_own_register_is_a_mask_in_its_address() {
        assert_eq!([register(0), register(1), register(7)], [0x0903_0004, 0x0903_0008, 0x0903_0200]);
    }

    #[test]
    fn ignores_edges_before_the_first_and_after_the_last_answer() {
        let (mut edges, mut before) = (GeneratorReport::default(), 0);
        for answered in [false, true, true, false, false, true, false] {
            edges.next(answered, &mut before);
        }
        assert_eq!(edges, GeneratorReport { answered: 3, missed: 2 });
    }

    #[test]
    fn the_generator_finds_the_controller_and_hears_each_answer() {
        let (own, Sockets([control, lines])) = sockets().unwrap();
        let generator = std::thread::spawn(move || own.run(Duration::ZERO));
        let mut control = BufReader::new(UnixStream::from(control));
        let mut lines = BufReader::new(UnixStream::from(lines));
        let read = |from: &mut BufReader<UnixStream>| {
            let mut line = String::new();
            from.read_line(&mut line).unwrap();
            line.trim_end().to_string()
        };
        writeln!(control.get_mut(), r#"{{"QMP": {{}}}}"#).unwrap();
        assert_eq!(read(&mut control), r#"{"execute":"qmp_capabilities"}"#);
        writeln!(control.get_mut(), r#"{{"return": {{}}}}"#).unwrap();
        assert!(read(&mut control).contains("qom-list"));
        let devices =
            r#"[{"name":"device[6]","type":"child<pl031>"},{"name":"device[7]","type":"child<pl061>"}]"#;
        writeln!(control.get_mut(), r#"{{"timestamp": 1}}"#).unwrap();
        writeln!(control.get_mut(), r#"{{"return": {devices}}}"#).unwrap();
        assert_eq!(read(&mut lines), "irq_intercept_out /machine/unattached/device[7]");
        for (level, answer) in [(1, "raise"), (0, "lower"), (1, "raise")] {
            let asked = format!("set_irq_in /machine/unattached/device[7] unnamed-gpio-in 0 {level}");
            assert_eq!(read(&mut lines), asked);
            write!(lines.get_mut(), "OK\nIRQ raise 4\nOK\nIRQ {answer} 1\n").unwrap();
        }
        drop(lines);
        assert_eq!(generator.join().unwrap().unwrap(), GeneratorReport { answered: 3, missed: 0 });
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys from the terminal one by one, without Enter. The terminal is as it was once this is dropped, which a
//! panic does too; signals that end the program have to be flags meanwhile ([`Keys::take`] sets them up).

use std::io::{self, IsTerminal, Stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// A signal waits no longer than this.
const SLICE: Duration = Duration::from_millis(50);

/// The character of Ctrl-Z where it sends no signal.
const CTRL_Z: u8 = 0x1a;

/// A key that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The time has come.
    Due,
    /// It is to end: a signal came, or the terminal has gone.
    Stop,
    /// A key was pressed.
    Key(Key),
    /// The program was stopped and goes on: the screen has to be drawn anew.
    Resumed,
}

/// The keys of the terminal that standard input is.
pub struct Keys {
    stdin: Stdin,
    before: Termios,
    /// Bytes that are no whole key yet.
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Keys {
    /// Takes the keys where standard input and output are a terminal and this program has it; from now on
    /// each signal that ends the program sets `stop`, also when it comes again.
    pub fn take(stop: &Arc<AtomicBool>) -> io::Result<Option<Keys>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() || !io::stdout().is_terminal() {
            return Ok(None);
        }
        // In the background a change of the terminal would stop this program.
        if tcgetpgrp(&stdin).ok() != Some(getpgrp()) {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::clone(stop))?;
        }
        let keys = Keys { stdin, before, bytes: Vec::new(), has_ended: false };
        keys.begin()?;
        Ok(Some(keys))
    }

    /// Each key at once, and none shown; Ctrl-C is a signal as before, Ctrl-Z a key.
    fn begin(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        modes.special_codes[SpecialCodeIndex::VMIN] = 0;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
        Ok(tcsetattr(&self.stdin, OptionalActions::Now, &modes)?)
    }

    fn end(&self) {
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(&self.stdin, OptionalActions::Now, &self.before);
    }

    /// Waits until `due`, a key or `stop`.
    pub fn wait(&mut self, due: Instant, stop: &AtomicBool) -> io::Result<Waited> {
        loop {
            if stop.load(Ordering::SeqCst) {
                return Ok(Waited::Stop);
            }
            if self.bytes.first() == Some(&CTRL_Z) {
                self.bytes.remove(0);
                self.end();
                kill_process(getpid(), Signal::STOP)?;
                self.begin()?;
                return Ok(Waited::Resumed);
            }
            if let Some(key) = next_key(&mut self.bytes) {
                return Ok(Waited::Key(key));
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Waited::Due);
            }
            if self.has_ended || !self.read(left.min(SLICE))? {
                return Ok(Waited::Stop);
            }
        }
    }

    /// Reads what comes within `time`; false where no more can come.
    fn read(&mut self, time: Duration) -> io::Result<bool> {
        let time = Timespec::try_from(time).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut ready = [PollFd::new(&self.stdin, PollFlags::IN)];
        match poll(&mut ready, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => return Ok(true),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut part = [0; 64];
        match rustix::io::read(&self.stdin, &mut part) {
            Ok(0) | Err(Errno::IO) => self.has_ended = true,
            Ok(read) => self.bytes.extend_from_slice(&part[..read]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(!self.has_ended)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes the next key from `bytes`; what means nothing is dropped, the beginning of a key stays.
fn next_key(bytes: &mut Vec<u8>) -> Option<Key> {
    while let Some(first) = bytes.first().copied() {
        let (key, length) = match (first, bytes.get(1)) {
            (0x1b, None) => return None,
            (0x1b, Some(b'[' | b'O')) => {
                let rest = &bytes[2..];
                let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                    // Longer than any key: not one.
                    if rest.len() > 16 {
                        bytes.clear();
                    }
                    return None;
                };
                (sequence(&rest[..=end]), end + 3)
            }
            (0x1b, Some(_)) => (None, 1),
            (CTRL_Z, _) => return None,
            (byte, _) if byte.is_ascii_graphic() || byte == b' ' => (Some(Key::Char(byte.into())), 1),
            _ => (None, 1),
        };
        bytes.drain(..length);
        if key.is_some() {
            return key;
        }
    }
    None
}

/// The key of an escape sequence behind its introducer, with or without modifiers.
fn sequence(text: &[u8]) -> Option<Key> {
    Some(match text {
        [.., b'A'] => Key::Up,
        [.., b'B'] => Key::Down,
        [.., b'C'] => Key::Right,
        [.., b'D'] => Key::Left,
        [.., b'H'] | b"1~" | b"7~" => Key::Home,
        [.., b'F'] | b"4~" | b"8~" => Key::End,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn all(text: &[u8]) -> (Vec<Key>, Vec<u8>) {
        let mut bytes = text.to_vec();
        let keys = std::iter::from_fn(|| next_key(&mut bytes)).collect();
        (keys, bytes)
    }

    #[test]
    fn a_key_is_whole_or_waits_for_its_end() {
        use Key::{Char, Down, End, Home, Left, PageDown, PageUp, Right, Up};
        let (keys, left) = all(b"q\x1b[A\x1bOB\x1b[C\x1b[1;5D\x1b[5~\x1b[6~\x1b[H\x1b[4~ ");
        let expected = [Char('q'), Up, Down, Right, Left, PageUp, PageDown, Home, End, Char(' ')];
        assert_eq!((&keys[..], &left[..]), (&expected[..], &b""[..]));
        for begun in [&b"\x1b"[..], b"\x1b[", b"\x1b[5", b"\x1b[1;5"] {
            assert_eq!(all(begun), (Vec::new(), begun.to_vec()));
        }
        // Others mean nothing, and keep none behind them waiting.
        assert_eq!(all(b"\x1b[15~\x7f\xc3\xa4\x1bxn").0, [Char('x'), Char('n')]);
        assert_eq!(all(&[&b"\x1b["[..], &[b'0'; 40]].concat()), (Vec::new(), Vec::new()));
    }

    /// Runs only in a terminal of its own: see below.
    #[test]
    #[ignore = "the next test runs it on a terminal"]
    fn panics_with_the_keys_taken() {
        let keys = Keys::take(&Arc::default()).unwrap();
        assert!(keys.is_none(), "the keys are taken");
    }

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let program = std::env::current_exe().unwrap();
        let test = "keys::tests::panics_with_the_keys_taken";
        let script = format!(
            "stty -g; '{}' --exact {test} --ignored --test-threads 1; stty -g; stty raw; stty -g",
            program.display()
        );
        let ran = Command::new("script").args(["-q", "-e", "-c", &script, "/dev/null"]).output();
        let Ok(ran) = ran else { return println!("skipped: it needs script, of util-linux") };
        let text = String::from_utf8_lossy(&ran.stdout);
        assert!(text.contains("the keys are taken"), "{text}");
        let modes: Vec<&str> =
            text.lines().map(str::trim).filter(|line| line.matches(':').count() > 20).collect();
        let [before, after, other] = modes[..] else { panic!("{text}") };
        assert!(before == after && after != other, "{text}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the program's output goes.
//!
//! Names and errors in it come from elsewhere. So all text for people goes out through
//! [`Output::print_text`], [`note`], [`note_lines`], [`print()`] or [`draw`], which let no character through
//! that steers a terminal, but the colours of our own.

use std::error::Error;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;

use untrusted::text::{line, screen};

use crate::args::Output;
use crate::outcome::Document;

/// Fails where no file can be written at `path`; `-` is standard output.
pub fn can_write(path: &Path) -> evidence::Result<()> {
    if path == Path::new("-") {
        return Ok(());
    }
    let refuse = |why: String, cure: &str| Err(evidence::Error::on("write", path.display(), why, cure));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let why = format!("there is no folder {}", folder.display());
        return refuse(why, "make it, or choose another path");
    }
    if path.is_dir() {
        return refuse("it is a folder".into(), "give the name of a file");
    }
    match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) {
        // A device or a pipe is written where it is.
        Err(why) if !untrusted::is_there(path) => refuse(why.to_string(), "choose another path"),
        _ => Ok(()),
    }
}

impl Output {
    /// Whether the JSON goes to standard output, so that text for people must not.
    pub fn json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Prints text for people: on standard output, or on standard error where the JSON goes there.
    pub fn print_text(&self, text: &str) {
        if self.quiet {
            return;
        }
        let text = screen(text, self.style().color);
        if self.json_on_stdout() {
            // Where it was closed, the text is lost as notes are.
            let _ = writeln!(std::io::stderr(), "{text}");
        } else if let Err(error) = writeln!(std::io::stdout(), "{text}") {
            lose(&error);
        }
    }

    /// Fails where the JSON cannot go where it is to go: better before a long run than after it.
    pub fn ready(&self) -> evidence::Result<()> {
        self.json.as_deref().map_or(Ok(()), can_write)
    }

    /// Writes the JSON, if it was asked for.
    pub fn json<T: Document + ?Sized>(&self, document: &T) -> Result<(), Box<dyn Error>> {
        let Some(path) = &self.json else { return Ok(()) };
        let text = serde_json::to_string_pretty(document)? + "\n";
        let text = untrusted::text::json(&text);
        if self.json_on_stdout() {
            print(&text)?;
        } else {
            evidence::writer::replace(path, text.as_bytes())?;
        }
        Ok(())
    }

    /// How tables for people look where they go: colour only on a terminal without NO_COLOR.
    pub fn style(&self) -> report::terminal::Style {
        let (terminal, width) = if self.json_on_stdout() {
            (std::io::stderr().is_terminal(), width_of(std::io::stderr()))
        } else {
            (std::io::stdout().is_terminal(), width_of(std::io::stdout()))
        };
        report::terminal::Style { color: terminal && color_allowed(), width: width.unwrap_or(100) }
    }

    /// Lines that stay in sight where text for people goes, with the prompt below it; `None` where it is no
    /// terminal.
    pub fn lines(&self) -> Option<usize> {
        let size = match self.json_on_stdout() {
            true => rt::thread::terminal_size(std::io::stderr()),
            false => rt::thread::terminal_size(std::io::stdout()),
        };
        size.map(|(_, lines)| usize::from(lines).saturating_sub(1))
    }
}

/// A line on standard error: one line, whatever is in it. Where that was closed the line is lost, and the
/// work goes on.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", line(text));
}

/// Several lines on standard error, as another program wrote them.
pub fn note_lines(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", screen(text, false));
}

/// Lines over those that were drawn before (`above` of them), each wiped to its end, and all below.
pub fn draw(above: usize, lines: &str, colored: bool) -> String {
    let up = if above > 0 { format!("\r\u{1b}[{above}A") } else { "\r".to_string() };
    let lines = screen(lines, colored);
    let lines = lines.split('\n').map(|line| format!("{line}\u{1b}[K")).collect::<Vec<_>>().join("\n");
    format!("{up}{lines}\u{1b}[J")
}

/// Why standard output did not take all that was printed, and whether its reader has gone.
static LOST: OnceLock<(evidence::Error, bool)> = OnceLock::new();

fn lose(error: &std::io::Error) {
    let has_gone = error.kind() == ErrorKind::BrokenPipe;
    let told = match has_gone {
        true => evidence::Error::new(
            "write standard output",
            "its reader has gone",
            "have that read to the end, or write to a file",
        ),
        false => evidence::Error::io("write", Path::new("standard output"), error),
    };
    // The first failure is why.
    let _ = LOST.set((told, has_gone));
}

/// Why text that was printed is lost; a reader that has gone counts where `has_reader`.
pub fn lost(has_reader: bool) -> Option<&'static evidence::Error> {
    let (error, has_gone) = LOST.get()?;
    (has_reader || !has_gone).then_some(error)
}

/// A result on standard output: to a file or a pipe as it is. A failure loses the result, and the verb ends
/// with it; that of a reader that has gone is told at the end, since the rest of its work is not lost.
pub fn print(text: &str) -> evidence::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let text = if stdout.is_terminal() { screen(text, false) } else { text.into() };
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(evidence::Error::io("write", Path::new("standard output"), &error))
        }
        written => {
            written.err().iter().for_each(lose);
            Ok(())
        }
    }
}

/// Whether the environment has nothing against colour (<https://no-color.org>), and the terminal knows it.
pub fn color_allowed() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && terminal_moves()
}

/// Whether the terminal, if there is one, does more than print.
pub fn terminal_moves() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

fn width_of(stream: impl std::os::fd::AsFd) -> Option<usize> {
    rt::thread::terminal_size(stream).map(|(columns, _)| usize::from(columns))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address of a program, in readable form.

use std::fmt;

/// The position of an address in a program.
///
/// `{}` shows `binary!function`; `{:#}` adds ` (file:line)` if it is known. Without a symbol, the address in
/// the binary replaces the function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CodeFrame {
    /// The binary's name without its folders; `[anon]` for memory of no file.
    pub binary: String,
    /// The function, as it is written in C++ or Rust, without its parameters.
    pub function: Option<String>,
    /// The offset in the function; without a function the offset in the binary; without a binary the address
    /// itself.
    pub offset: u64,
    /// The source file, as in the debug information.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// Whether the compiler inlined the function into the next one of a call stack.
    pub is_inlined: bool,
}

impl fmt::Display for CodeFrame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => write!(out, "{}!{function}", self.binary)?,
            None => write!(out, "{}!{:#x}", self.binary, self.offset)?,
        }
        match (&self.file, self.line, out.alternate()) {
            (Some(file), Some(line), true) => write!(out, " ({file}:{line})"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_function_and_line_if_known() {
        let mut frame = CodeFrame { binary: "servo".to_string(), offset: 0x4040, ..CodeFrame::default() };
        assert_eq!(format!("{frame} {frame:#}"), "servo!0x4040 servo!0x4040");
        frame.function = Some("flush_log".to_string());
        (frame.file, frame.line) = (Some("log.c".to_string()), Some(7));
        assert_eq!(format!("{frame} {frame:#}"), "servo!flush_log servo!flush_log (log.c:7)");
    }
}

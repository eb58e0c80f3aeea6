// SPDX-License-Identifier: MIT OR Apache-2.0
//! A text file as lines that put together again give the same bytes.

use super::statement::{Dialect, key_and_rest};

/// One line with its end, `\n` or `\r\n`; the last may have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextLine {
    text: String,
}

impl TextLine {
    /// A line of `body`, ended as Linux does.
    pub fn new(body: &str) -> Self {
        TextLine { text: format!("{body}\n") }
    }

    /// The line without its end.
    pub fn body(&self) -> &str {
        let body = self.text.strip_suffix('\n').unwrap_or(&self.text);
        body.strip_suffix('\r').unwrap_or(body)
    }

    /// Puts `body` in place of the line's; its end stays.
    pub fn set_body(&mut self, body: &str) {
        let end = self.text.split_off(self.body().len());
        self.text = format!("{body}{end}");
    }

    /// The first word and what follows the space after it; none for empty lines and those of `#`.
    pub fn key_and_rest(&self) -> Option<(&str, &str)> {
        key_and_rest(self.body(), Dialect::Keys)
    }

    /// Puts `rest` in place of what follows the first word and the space after it.
    pub fn set_rest(&mut self, rest: &str) {
        let Some((key, old)) = self.key_and_rest() else { return };
        let (key, old) = (key.to_string(), old.len());
        let body = self.body();
        let mut head = body[..body.len() - old].to_string();
        if old == 0 && head.ends_with(&key) {
            head.push(' ');
        }
        self.set_body(&format!("{head}{rest}"));
    }
}

/// Cuts `text` into lines.
pub fn lines(text: &str) -> Vec<TextLine> {
    text.split_inclusive('\n').map(|line| TextLine { text: line.to_string() }).collect()
}

/// Puts lines together again.
pub fn joined(lines: &[TextLine]) -> String {
    lines.iter().map(|line| line.text.as_str()).collect()
}

/// Ends the last line, so that another may follow.
pub fn end_last(lines: &mut [TextLine]) {
    if let Some(last) = lines.last_mut().filter(|line| !line.text.ends_with('\n')) {
        last.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_every_byte_and_changes_only_what_it_is_told_to() {
        let text = "a  b c \r\n\n# note\n\tkey\tvalue  two\nlast";
        let mut cut = lines(text);
        assert_eq!(joined(&cut), text);
        assert_eq!(cut[0].key_and_rest(), Some(("a", "b c ")));
        assert_eq!(cut[2].key_and_rest(), None);
        cut[3].set_rest("other");
        cut[4].set_rest("x");
        assert_eq!(joined(&cut), "a  b c \r\n\n# note\n\tkey\tother\nlast x");
        end_last(&mut cut);
        assert!(joined(&cut).ends_with("last x\n"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of a boot line, as the kernel cuts them, and the two edits that leave every other byte alone.
//!
//! Reference: `next_arg` and `parse_args` (lib/cmdline.c, kernel/params.c). Space separates words unless it
//! stands in double quotes; `-` and `_` are one letter in names; what follows a bare `--` belongs to init,
//! not to the kernel. A word is kept as it is written, quotes included.

use std::ops::Range;

/// The word behind which words are init's.
const END: &str = "--";

/// One word of a boot line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootWord<'a> {
    /// The word as it is written.
    pub raw: &'a str,
    /// The text before the first `=`, without quotes around the word.
    pub name: &'a str,
    /// The text after it, without quotes around it; none where there is no `=`.
    pub value: Option<&'a str>,
    /// Whether it stands behind a bare `--`, and is init's.
    pub of_init: bool,
}

impl<'a> BootWord<'a> {
    /// A word for the kernel as it is written, quotes included.
    pub fn new(raw: &'a str) -> Self {
        let bare = match raw.strip_prefix('"') {
            Some(rest) => rest.strip_suffix('"').unwrap_or(rest),
            None => raw,
        };
        let (name, value) = match bare.split_once('=') {
            Some((name, value)) => (name, Some(unquoted(value))),
            None => (bare, None),
        };
        BootWord { raw, name, value, of_init: false }
    }

    /// Whether this word sets the parameter `name`.
    pub fn is(&self, name: &str) -> bool {
        same_name(self.name, name)
    }

    /// Whether the kernel takes both for one word; one for init is none of the kernel's.
    pub fn is_same(&self, other: &BootWord<'_>) -> bool {
        self.of_init == other.of_init && self.is(other.name) && self.value == other.value
    }

    /// The word as the kernel takes it: two that differ in quotes, or in `-` and `_`, are one.
    pub fn meaning(&self) -> (String, Option<&'a str>, bool) {
        (self.name.replace('-', "_"), self.value, self.of_init)
    }
}

/// Whether two parameter names are the same for the kernel.
pub fn same_name(one: &str, other: &str) -> bool {
    let letter = |byte: u8| if byte == b'-' { b'_' } else { byte };
    one.bytes().map(letter).eq(other.bytes().map(letter))
}

/// Every word of `line`, those for init among them.
pub fn all_words(line: &str) -> impl Iterator<Item = BootWord<'_>> {
    let mut of_init = false;
    spans(line).map(move |span| {
        let word = BootWord { of_init, ..BootWord::new(&line[span]) };
        of_init |= word.raw == END;
        word
    })
}

/// The words for the kernel: those before a bare `--`.
pub fn kernel_words(line: &str) -> impl Iterator<Item = BootWord<'_>> {
    all_words(line).take_while(|word| word.raw != END)
}

/// Whether the kernel's part of `line` ends with a bare `--`: a word put behind the line is init's.
pub fn has_words_for_init(line: &str) -> bool {
    all_words(line).any(|word| word.raw == END)
}

/// The value of the parameter `name`, the last one where there are several; empty for a parameter without
/// `=`.
pub fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    kernel_words(line).filter(|word| word.is(name)).last().map(|word| word.value.unwrap_or_default())
}

/// `line` with `more` after its last word for the kernel; no other byte changes.
pub fn with_words<S: AsRef<str>>(line: &str, more: &[S]) -> String {
    let kernel = spans(line).take_while(|span| &line[span.clone()] != END).last();
    let any = spans(line).next();
    let mut added = more.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" ");
    let at = match (kernel, any) {
        (_, _) if added.is_empty() => 0,
        (Some(last), _) => {
            added.insert(0, ' ');
            last.end
        }
        // Only words for init: ours go before them.
        (None, Some(first)) => {
            added.push(' ');
            first.start
        }
        (None, None) => 0,
    };
    format!("{}{added}{}", &line[..at], &line[at..])
}

/// `line` without the words for the kernel that are written as one of `gone`, each taken along with the space
/// before it; each of `gone` takes one word, the last one written so.
pub fn without_words<S: AsRef<str>>(line: &str, gone: &[S]) -> String {
    let kernel: Vec<Range<usize>> = spans(line).take_while(|span| &line[span.clone()] != END).collect();
    let mut cut: Vec<Range<usize>> = Vec::new();
    for raw in gone {
        let last =
            kernel.iter().rev().find(|span| &line[(*span).clone()] == raw.as_ref() && !cut.contains(span));
        cut.extend(last.cloned());
    }
    cut.sort_by_key(|span| span.start);
    let mut kept = String::new();
    let mut from = 0;
    for span in cut {
        let before = &line[from..span.start];
        let trimmed = before.trim_end_matches(space);
        from = span.end;
        if trimmed.is_empty() && kept.trim_matches(space).is_empty() {
            // A first word has no space before it, so the one after it goes, where a word follows.
            kept.push_str(before);
            let rest = &line[span.end..];
            let follows = !rest.trim_matches(space).is_empty();
            from += usize::from(follows && rest.starts_with(space));
        } else {
            kept.push_str(trimmed);
        }
    }
    kept + &line[from..]
}

fn space(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '\x0b'
}

fn unquoted(value: &str) -> &str {
    match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').unwrap_or(rest),
        None => value,
    }
}

/// Where the words of `line` stand.
fn spans(line: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += line[at..].find(|letter| !space(letter))?;
        let start = at;
        let mut quoted = false;
        let end = line[start..].find(|letter| {
            quoted ^= letter == '"';
            space(letter) && !quoted
        });
        at = end.map_or(line.len(), |length| start + length);
        Some(start..at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(line: &str) -> Vec<(&str, Option<&str>)> {
        all_words(line).map(|word| (word.name, word.value)).collect()
    }

    #[test]
    fn cuts_words_as_the_kernel_does() {
        assert_eq!(
            cut("  root=UUID=a-b quiet\tdyndbg=\"file a.c +p\" \"all quoted=x y\" empty= \n"),
            [
                ("root", Some("UUID=a-b")),
                ("quiet", None),
                ("dyndbg", Some("file a.c +p")),
                ("all quoted", Some("x y")),
                ("empty", Some(""))
            ]
        );
        assert_eq!(cut("a=\"open ended word"), [("a", Some("open ended word"))]);
        assert_eq!(cut(" \n"), []);
    }

    #[test]
    fn knows_a_parameter_by_either_spelling_and_takes_the_last() {
        let line = "rcu-nocbs=1 rcu_nocbs=2-3 quiet -- rcu_nocbs=9";
        assert_eq!(value(line, "rcu_nocbs"), Some("2-3"));
        assert_eq!(value(line, "quiet"), Some(""));
        assert_eq!(value(line, "loud"), None);
        assert_eq!(kernel_words(line).count(), 3);
    }

    #[test]
    fn adds_words_before_those_of_init() {
        let add = |line| with_words(line, &["isolcpus=3", "skew_tick=1"]);
        assert_eq!(add("ro  quiet"), "ro  quiet isolcpus=3 skew_tick=1");
        assert_eq!(add("ro quiet \n"), "ro quiet isolcpus=3 skew_tick=1 \n");
        assert_eq!(add("ro -- single"), "ro isolcpus=3 skew_tick=1 -- single");
        assert_eq!(add("-- single"), "isolcpus=3 skew_tick=1 -- single");
        assert_eq!(add(""), "isolcpus=3 skew_tick=1");
        assert_eq!(with_words("ro ", &[""; 0]), "ro ");
    }

    #[test]
    fn takes_words_away_and_leaves_the_rest_as_it_was() {
        let line = "a  b=\"x y\" a c -- a";
        assert_eq!(without_words(line, &["a"]), "a  b=\"x y\" c -- a");
        assert_eq!(without_words(line, &["a", "a"]), " b=\"x y\" c -- a");
        assert_eq!(without_words(line, &["b=\"x y\""]), "a a c -- a");
        assert_eq!(without_words(line, &["absent"]), line);
    }

    #[test]
    fn what_was_added_can_be_taken_away_to_the_byte() {
        for line in [
            "ro  quiet \n",
            "",
            "  root=x",
            "-- single",
            "a -- b",
            "\"a b\" c\n",
            "x  -- ",
            " \n",
            "\r -- x\n\n",
        ] {
            let more = ["isolcpus=managed_irq,domain,3", "skew_tick=1"];
            assert_eq!(without_words(&with_words(line, &more), &more), line, "{line:?}");
        }
    }
}

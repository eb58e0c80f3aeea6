// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assignments of a file that a shell reads, `/etc/default/grub` above all.
//!
//! We read plain assignments: `NAME=word`, quotes of both kinds, `\`, `$NAME`, `${NAME}`, `+=`, `export`. A file that
//! does more (a command's output, a condition) can only be understood by a shell; then the value is unknown, and
//! every later one that uses it.

use std::collections::BTreeMap;

/// The variables that files have set, in the order in which they were read; `None` is a value not understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, Option<String>>);

impl Variables {
    /// The value of `name`, empty where it was never set, `None` where it was set in a way not understood here.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map_or(Some(""), Option::as_deref)
    }

    /// Whether `name` was set at all.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Reads one more file.
    pub fn read(&mut self, text: &str) {
        let text = text.replace("\\\n", "");
        // Within a condition or a function we do not know whether a line is reached.
        let mut depth = 0usize;
        for line in text.lines() {
            let line = line.trim();
            match line.split([' ', '\t', ';', '(']).next().unwrap_or_default() {
                "if" | "case" | "for" | "while" | "until" | "{" => depth += 1,
                "fi" | "esac" | "done" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
            let Some((name, rest)) = line.split_once('=') else { continue };
            let (name, more) = match name.strip_suffix('+') {
                Some(name) => (name, true),
                None => (name, false),
            };
            let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            if name.is_empty() || !name.chars().all(named) || name.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            let mut value = (depth == 0).then(|| self.word(rest)).flatten();
            if more {
                value = self.get(name).zip(value).map(|(old, new)| format!("{old}{new}"));
            }
            self.0.insert(name.to_string(), value);
        }
    }

    /// The word that `text` begins with, as a shell expands it; none where more follows than a comment.
    fn word(&self, text: &str) -> Option<String> {
        let mut value = String::new();
        let mut letters = text.chars().peekable();
        let (mut single, mut double) = (false, false);
        while let Some(letter) = letters.next() {
            match letter {
                '\'' if !double => single = !single,
                '"' if !single => double = !double,
                _ if single => value.push(letter),
                '\\' => match letters.next()? {
                    escaped @ ('"' | '\\' | '$' | '`') => value.push(escaped),
                    other if double => value.extend(['\\', other]),
                    other => value.push(other),
                },
                '$' => {
                    let braced = letters.next_if_eq(&'{').is_some();
                    let mut name = String::new();
                    while let Some(letter) = letters.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                        name.push(letter);
                    }
                    if name.is_empty() || (braced && letters.next() != Some('}')) {
                        return None;
                    }
                    value.push_str(self.get(&name)?);
                }
                '`' => return None,
                ' ' | '\t' if !double => {
                    let rest: String = letters.collect();
                    let rest = rest.trim_start();
                    return (rest.is_empty() || rest.starts_with('#')).then_some(value);
                }
                ';' | '&' | '|' | '(' | '<' | '>' if !double => return None,
                other => value.push(other),
            }
        }
        (!single && !double).then_some(value)
    }
}

/// `text` as one word of a shell in single quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Variables {
        let mut variables = Variables::default();
        variables.read(text);
        variables
    }

    #[test]
    fn reads_what_a_shell_would_assign() {
        let seen = read(concat!(
            "# comment A=1\nA=\"quiet splash\" # why\nB='single $A'\n  C=word\nexport D=\"$A ${C}\"\n",
            "A=\"$A more\"\nA+=\" end\"\nE=\"a \\\"b c\\\" \\$x\"\nF=\nG=\"two\\\n lines\"\n"
        ));
        let value = |name| seen.get(name);
        assert_eq!(value("A"), Some("quiet splash more end"));
        assert_eq!(value("B"), Some("single $A"));
        assert_eq!(value("C"), Some("word"));
        assert_eq!(value("D"), Some("quiet splash word"));
        assert_eq!(value("E"), Some("a \"b c\" $x"));
        assert_eq!((value("F"), seen.has("F"), value("Z"), seen.has("Z")), (Some(""), true, Some(""), false));
        assert_eq!(value("G"), Some("two lines"));
    }

    #[test]
    fn says_unknown_where_only_a_shell_could_tell() {
        let seen = read("A=`lsb_release`\nB=$(x)\nC=\"$A y\"\nif true; then\nD=1\nfi\nE=\"open\nF=a; G=b\n");
        for name in ["A", "B", "C", "D", "E", "F"] {
            assert_eq!(seen.get(name), None, "{name}");
        }
    }

    #[test]
    fn quotes_so_that_it_reads_back() {
        for text in ["a b", "it's", "\"$x\" `y` \\"] {
            assert_eq!(read(&format!("A={}", quoted(text))).get("A"), Some(text));
        }
    }
}

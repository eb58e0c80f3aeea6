// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the command line that rt-tests record, as getopt would have.
//!
//! Quotes are lost in the record, and an option that is not known here may take an argument or not: where a
//! command line cannot be read without doubt, nothing is taken from it.

/// An option in getopt's notation: no colon, `:` for an argument, `::` for one that may be left out.
pub(super) struct Syntax {
    /// Letters, as getopt's own string.
    pub letters: &'static str,
    /// Long names that say the same as a letter.
    pub names: &'static [(&'static str, char)],
}

/// Options of a command line, by letter.
#[derive(Debug, Default)]
pub(super) struct ToolCommand<'a>(Vec<(char, Option<&'a str>)>);

impl Syntax {
    /// Reads a command line; `None` where it is in doubt.
    pub fn read<'a>(&self, line: &'a str) -> Option<ToolCommand<'a>> {
        let mut words = line.split_whitespace().skip(1).peekable();
        let mut found = Vec::new();
        while let Some(word) = words.next() {
            if let Some(long) = word.strip_prefix("--") {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let Some((_, letter)) = self.names.iter().find(|known| known.0 == name) else { continue };
                let takes_next = value.is_none() && self.colons(*letter)? == 1;
                found.push((*letter, if takes_next { Some(words.next()?) } else { value }));
                continue;
            }
            let Some(cluster) = word.strip_prefix('-') else { continue };
            for (at, letter) in cluster.char_indices() {
                let rest = &cluster[at + letter.len_utf8()..];
                let value = match self.colons(letter)? {
                    0 => {
                        found.push((letter, None));
                        continue;
                    }
                    _ if !rest.is_empty() => Some(rest),
                    1 => Some(words.next()?),
                    // The tools take a number that follows for the argument.
                    _ => words
                        .next_if(|next| next.starts_with(|c: char| c.is_ascii_digit() || "!+".contains(c))),
                };
                found.push((letter, value));
                break;
            }
        }
        Some(ToolCommand(found))
    }

    /// How many colons stand behind a letter.
    fn colons(&self, letter: char) -> Option<usize> {
        let (_, after) = self.letters.split_once(letter).filter(|_| letter != ':')?;
        Some(after.len() - after.trim_start_matches(':').len())
    }
}

impl<'a> ToolCommand<'a> {
    /// Whether an option was given.
    pub fn has(&self, letter: char) -> bool {
        self.0.iter().any(|option| option.0 == letter)
    }

    /// The argument of an option; of the last one where it was given several times.
    pub fn argument(&self, letter: char) -> Option<&'a str> {
        self.0.iter().rev().find(|option| option.0 == letter)?.1
    }

    /// The same as a number.
    pub fn number(&self, letter: char) -> Option<u64> {
        self.argument(letter)?.parse().ok()
    }

    /// The same; `default` where the option was not given.
    pub fn number_or(&self, letter: char, default: u64) -> Option<u64> {
        if self.has(letter) { self.number(letter) } else { Some(default) }
    }

    /// The same as a time: seconds, or with `m`, `h` or `d` behind.
    pub fn time_ns(&self, letter: char) -> Option<u64> {
        let text = self.argument(letter)?;
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let seconds = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(seconds * 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: Syntax = Syntax { letters: "a::D:mp:qt::", names: &[("priority", 'p'), ("smp", 'q')] };

    #[test]
    fn reads_a_command_line_as_getopt_does() {
        let text = "tool -mqp80 -a 2-3 -t --smp -D 2m file";
        let command = SYNTAX.read(text).unwrap();
        assert_eq!(command.number('p'), Some(80));
        assert_eq!(command.argument('a'), Some("2-3"));
        assert_eq!((command.has('t'), command.argument('t')), (true, None));
        assert_eq!(command.time_ns('D'), Some(120_000_000_000));
        for text in ["tool --priority 7", "tool --priority=7", "tool -p7 --json=x", "tool -p 5 -p 7"] {
            assert_eq!(SYNTAX.read(text).unwrap().number('p'), Some(7), "{text}");
        }
    }

    #[test]
    fn takes_nothing_from_a_command_line_in_doubt() {
        for text in ["tool -z 5 -p 80", "tool -p", "tool --priority", "tool -:"] {
            assert!(SYNTAX.read(text).is_none(), "{text}");
        }
    }
}

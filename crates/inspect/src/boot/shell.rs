// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assignments of files that a shell reads one after the other, `/etc/default/grub` and its drop-ins above
//! all.
//!
//! We read plain assignments: `NAME=word`, quotes of both kinds, `\`, `$NAME`, `${NAME}`, `${NAME:+word}`,
//! `+=`, `export`. What does more (a command's output, a condition) can only be understood by a shell, and
//! what a shell reads otherwise than its writer meant (a space before `=`, words after the closing quote,
//! typographic quotes, a value over two lines) is of no help: then the value is unknown, with the reason, and
//! so is every later one that uses it.
//!
//! Each letter of a value remembers the file from which it came, so that a word can be shown where it stands.

use std::collections::BTreeMap;

use machine::boot::line;

use super::statement::{Dialect, Statement, statements};

/// Longest value that is kept, twice the longest boot line of any kernel: `A="$A$A"` grows without end.
const LONGEST: usize = 8192;
/// How deep `${A:+${B:+...}}` is followed.
const DEPTH: usize = 8;

/// The variables that files have set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, Result<Value, UnknownValue>>,
    /// Set where a file reads another one: that may have set anything.
    opaque: Option<UnknownValue>,
    /// How many files were read.
    files: usize,
}

/// A value, and where each part of it came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Value {
    text: String,
    /// Up to which byte of the text it came from which file.
    from: Vec<(usize, usize)>,
}

/// Why a value is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownValue {
    /// The number of the file, in the order of reading.
    pub file: usize,
    /// Whether the value goes over more than one line, which a boot line cannot.
    pub lines: bool,
    /// Why.
    pub why: String,
    /// The statement as in the file.
    pub text: String,
}

impl Value {
    fn push(&mut self, text: &str, file: usize) {
        self.text.push_str(text);
        match self.from.last_mut() {
            Some((end, last)) if *last == file => *end = self.text.len(),
            _ if text.is_empty() => {}
            _ => self.from.push((self.text.len(), file)),
        }
    }

    fn append(&mut self, other: &Value) {
        let mut start = 0;
        for (end, file) in &other.from {
            self.push(&other.text[start..*end], *file);
            start = *end;
        }
    }
}

impl Variables {
    /// The value of `name`, empty where it was never set, `None` where it was set in a way not understood
    /// here.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.value(name).ok().map(|value| value.map_or("", |value| value.text.as_str()))
    }

    /// Why the value of `name` is not known.
    pub fn unclear(&self, name: &str) -> Option<&UnknownValue> {
        self.value(name).err()
    }

    fn value(&self, name: &str) -> Result<Option<&Value>, &UnknownValue> {
        match (self.values.get(name), &self.opaque) {
            (Some(Ok(value)), _) => Ok(Some(value)),
            (Some(Err(unclear)), _) | (None, Some(unclear)) => Err(unclear),
            (None, None) => Ok(None),
        }
    }

    /// Whether `name` was set at all.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The words of a known value, by the number of the file in which each stands, the first being 0.
    pub fn parts(&self, name: &str) -> BTreeMap<usize, String> {
        let mut parts: BTreeMap<usize, String> = BTreeMap::new();
        let Ok(Some(value)) = self.value(name) else { return parts };
        let mut from = value.from.iter().peekable();
        for word in line::all_words(&value.text) {
            // A word made of parts of several files stands where it begins.
            let at = word.raw.as_ptr() as usize - value.text.as_ptr() as usize;
            while from.next_if(|(end, _)| *end <= at).is_some() {}
            let Some((_, file)) = from.peek() else { break };
            let part = parts.entry(*file).or_default();
            part.push_str(if part.is_empty() { "" } else { " " });
            part.push_str(word.raw);
        }
        parts
    }

    /// Reads one more file.
    pub fn read(&mut self, text: &str) {
        let file = self.files;
        self.files += 1;
        // A carriage return at a line's end does no harm: the loader skips it when it reads the menu.
        let text = text.replace("\r\n", "\n").replace("\\\n", "");
        if text.contains(['\0', '\r']) {
            let why = "it is not a text of lines that a shell reads (zero bytes, or carriage returns within)";
            return self.hide(UnknownValue { file, lines: false, why: why.to_string(), text: String::new() });
        }
        let mut depth = 0usize;
        for statement in statements(&text, Dialect::Shell) {
            depth = (depth + statement.opens).saturating_sub(statement.closes);
            if depth == 0
                && !statement.compound
                && matches!(statement.words.first(), Some(&"exit" | &"return"))
            {
                return;
            }
            if statement.document {
                let why = "what follows may belong to a here-document".to_string();
                return self.hide(UnknownValue { file, lines: false, why, text: clip(statement.text) });
            }
            self.statement(&statement, file, depth > 0 || statement.closes > 0);
        }
    }

    /// Any variable may have been set.
    fn hide(&mut self, unclear: UnknownValue) {
        self.values.values_mut().for_each(|value| *value = Err(unclear.clone()));
        self.opaque = Some(unclear);
    }

    fn statement(&mut self, statement: &Statement<'_>, file: usize, inside: bool) {
        let lines = statement.words.iter().any(|word| assigned(word).is_some() && word.contains('\n'));
        let unclear = |why: String| UnknownValue { file, lines, why, text: clip(statement.text) };
        let mut words = statement.words.as_slice();
        if let Some(bare) = words.first().and_then(|word| word.strip_prefix('\u{feff}'))
            && let Some((name, _)) = assigned(bare)
        {
            let why = "a byte order mark stands before it, so that a shell does not see it";
            self.values.insert(name.into(), Err(unclear(why.into())));
            return;
        }
        match words.first().copied() {
            Some("." | "source" | "eval") if !inside && !statement.compound => {
                return self.hide(unclear(format!("`{}` may set it", words.join(" "))));
            }
            Some("export" | "readonly" | "declare") => words = &words[1..],
            Some("unset") if !inside && !statement.compound => {
                words[1..]
                    .iter()
                    .for_each(|name| drop(self.values.insert(name.to_string(), Ok(Value::default()))));
                return;
            }
            _ => {}
        }
        let Some((name, _)) = words.first().and_then(|word| assigned(word)) else {
            // `NAME = value` is a command of that name.
            if let [name, rest, ..] = words
                && rest.starts_with('=')
                && is_name(name)
            {
                let why = "a space stands before =, so that a shell takes it for a command".to_string();
                self.values.insert(name.to_string(), Err(unclear(why)));
            } else if inside || statement.compound {
                let why = "only a shell could tell whether it is set";
                for (name, _) in words.iter().filter_map(|word| assigned(word)) {
                    self.values.insert(name.into(), Err(unclear(why.into())));
                }
            }
            return;
        };
        if let Some(why) = self.slip(statement, words, inside) {
            self.values.insert(name.into(), Err(unclear(why)));
            for (name, _) in words[1..].iter().filter_map(|word| assigned(word)) {
                self.values
                    .insert(name.into(), Err(unclear("it stands outside of the quotes before it".into())));
            }
            return;
        }
        for word in words {
            let Some((name, more)) = assigned(word) else { continue };
            let value = self.word(&word[word.find('=').map_or(0, |at| at + 1)..], file, DEPTH);
            let value = value.map_err(|why| match why {
                NoValue::Here(why) => unclear(why),
                NoValue::There(other) => other,
            });
            let value = match (more, value, self.value(name)) {
                (true, Ok(new), Ok(old)) => {
                    let mut both = old.cloned().unwrap_or_default();
                    both.append(&new);
                    let long = both.text.len() > LONGEST;
                    if long { Err(unclear("it is longer than any boot line".into())) } else { Ok(both) }
                }
                (true, Ok(_), Err(old)) => Err(old.clone()),
                (_, value, _) => value,
            };
            self.values.insert(name.into(), value);
        }
    }

    /// Why a shell reads an assignment otherwise than it looks.
    fn slip(&self, statement: &Statement<'_>, words: &[&str], inside: bool) -> Option<String> {
        let quote = "\u{201c}\u{201d}\u{201e}\u{201f}\u{2018}\u{2019}\u{ab}\u{bb}";
        let typographic =
            words[0].split_once('=').is_some_and(|(_, value)| value.starts_with(|c| quote.contains(c)));
        if inside || statement.compound {
            return Some("only a shell could tell whether it is set".into());
        }
        if typographic {
            return Some("its quotes are typographic, which a shell does not know".into());
        }
        if statement.open {
            return Some("a quote is not closed".into());
        }
        let belongs = |word: &&&str| assigned(word).is_some_and(|(name, _)| name.starts_with("GRUB_"));
        let outside: Vec<&str> = words[1..].iter().filter(|word| !belongs(word)).copied().collect();
        if !outside.is_empty() {
            return Some(format!("{} stands outside of the quotes", outside.join(" ")));
        }
        words.iter().any(|word| word.contains('\n')).then(|| "its value goes over more than one line".into())
    }

    /// The expansion of `text`, one word, by a shell.
    fn word(&self, text: &str, file: usize, depth: usize) -> Result<Value, NoValue> {
        let shell = || NoValue::Here("only a shell could tell its value".into());
        let mut value = Value::default();
        let mut letters = text.char_indices().peekable();
        let (mut single, mut double) = (false, false);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\'' if !double => single = !single,
                '"' if !single => double = !double,
                _ if single => value.push(letter.encode_utf8(&mut [0; 4]), file),
                '\\' => match letters.next() {
                    Some((_, escaped @ ('"' | '\\' | '$' | '`'))) => {
                        value.push(escaped.encode_utf8(&mut [0; 4]), file)
                    }
                    Some((_, other)) if double => value.push(&format!("\\{other}"), file),
                    Some((_, other)) => value.push(other.encode_utf8(&mut [0; 4]), file),
                    None => {}
                },
                '$' => {
                    let (taken, expanded) =
                        self.expansion(&text[at + 1..], file, depth).ok_or_else(shell)??;
                    value.append(&expanded);
                    while letters.next_if(|(next, _)| *next <= at + taken).is_some() {}
                }
                '`' => return Err(shell()),
                other => value.push(other.encode_utf8(&mut [0; 4]), file),
            }
            if value.text.len() > LONGEST {
                return Err(NoValue::Here("it is longer than any boot line".into()));
            }
        }
        Ok(value)
    }

    /// The expansion of `$` before `text`, and how many bytes it takes; none where only a shell could tell.
    fn expansion(&self, text: &str, file: usize, depth: usize) -> Option<Result<(usize, Value), NoValue>> {
        let letters =
            |text: &str| text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
        let value = |name: &str| self.value(name).map(|value| value.cloned().unwrap_or_default());
        let there = |unclear: &UnknownValue| NoValue::There(unclear.clone());
        let Some(braced) = text.strip_prefix('{') else {
            let length = letters(text);
            return (length > 0).then(|| value(&text[..length]).map(|value| (length, value)).map_err(there));
        };
        let end = braced.find('}')?;
        let (name, rest) = braced[..end].split_at(letters(&braced[..end]));
        let taken = end + 2;
        let known = match value(name) {
            _ if name.is_empty() => return None,
            Ok(known) => known,
            Err(unclear) => return Some(Err(there(unclear))),
        };
        let set = if rest.starts_with(':') { !known.text.is_empty() } else { self.has(name) };
        let other = match rest.trim_start_matches(':') {
            "" if rest.is_empty() => return Some(Ok((taken, known))),
            word if word.starts_with('+') => {
                if set {
                    &word[1..]
                } else {
                    ""
                }
            }
            word if word.starts_with('-') && set => return Some(Ok((taken, known))),
            word if word.starts_with('-') => &word[1..],
            _ => return None,
        };
        // The word may use the variable again: `${NAME:+$NAME }`.
        let depth = depth.checked_sub(1)?;
        Some(self.word(other, file, depth).map(|value| (taken, value)))
    }
}

/// Why a word has no value: for a reason of its own, or since it uses another one that has none.
enum NoValue {
    Here(String),
    There(UnknownValue),
}

/// A statement's head for a message.
fn clip(text: &str) -> String {
    text.chars().take(400).collect()
}

/// The name that a word assigns to, and whether it adds to it.
fn assigned(word: &str) -> Option<(&str, bool)> {
    let (name, _) = word.split_once('=')?;
    let (name, more) = match name.strip_suffix('+') {
        Some(name) => (name, true),
        None => (name, false),
    };
    is_name(name).then_some((name, more))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests;

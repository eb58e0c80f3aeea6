// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of a description in TSDL (diamon.org/ctf/v1.8.3, C).

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    Name(String),
    Text(String),
    Number(i64),
    /// `{`, `:=`, `...`
    Sign(&'static str),
    End,
}

/// Signs, the longer ones first.
const SIGNS: [&str; 20] =
    ["...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", ",", "=", ".", "-", "+", "*", "&"];

/// The words of a text, one after the other.
#[derive(Debug)]
pub struct Words<'a> {
    rest: &'a str,
    next: Option<Word>,
}

impl<'a> Words<'a> {
    pub fn of(text: &'a str) -> Words<'a> {
        Words { rest: text, next: None }
    }

    /// The next word, which stays.
    pub fn peek(&mut self) -> Result<&Word, String> {
        let word = match self.next.take() {
            Some(word) => word,
            None => self.read()?,
        };
        Ok(self.next.insert(word))
    }

    pub fn take(&mut self) -> Result<Word, String> {
        self.next.take().map_or_else(|| self.read(), Ok)
    }

    /// Whether the next word is this sign, which it takes then.
    pub fn takes(&mut self, sign: &str) -> Result<bool, String> {
        let is_it = matches!(self.peek()?, Word::Sign(next) if *next == sign);
        if is_it {
            self.next = None;
        }
        Ok(is_it)
    }

    /// Takes this sign.
    pub fn must(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign)? {
            return Ok(());
        }
        let found = self.take()?;
        Err(format!("its description has {found:?} in the place of {sign}"))
    }

    pub fn name(&mut self) -> Result<String, String> {
        match self.take()? {
            Word::Name(name) => Ok(name),
            other => Err(format!("its description has {other:?} in the place of a name")),
        }
    }

    pub fn number(&mut self) -> Result<i64, String> {
        let is_negative = self.takes("-")?;
        match self.take()? {
            Word::Number(number) => Ok(if is_negative { number.wrapping_neg() } else { number }),
            other => Err(format!("its description has {other:?} in the place of a number")),
        }
    }

    fn read(&mut self) -> Result<Word, String> {
        self.skip()?;
        let Some(first) = self.rest.chars().next() else { return Ok(Word::End) };
        if first == '"' {
            return self.text();
        }
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let length = self.rest.find(|letter| !is_of_name(letter)).unwrap_or(self.rest.len());
        if length > 0 {
            let (word, rest) = self.rest.split_at(length);
            self.rest = rest;
            if !first.is_ascii_digit() {
                return Ok(Word::Name(word.to_string()));
            }
            let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
            let number = match (digits.strip_prefix("0x").or(digits.strip_prefix("0X")), digits) {
                (Some(digits), _) => u64::from_str_radix(digits, 16),
                (None, digits) if digits.len() > 1 && digits.starts_with('0') => {
                    u64::from_str_radix(digits, 8)
                }
                (None, digits) => digits.parse(),
            };
            let number = number.map_err(|_| format!("its description has the number {word}"))?;
            return Ok(Word::Number(number as i64));
        }
        let sign = SIGNS.into_iter().find(|sign| self.rest.starts_with(sign));
        let sign = sign.ok_or_else(|| format!("its description has the letter {first:?}"))?;
        self.rest = &self.rest[sign.len()..];
        Ok(Word::Sign(sign))
    }

    /// Blanks and remarks.
    fn skip(&mut self) -> Result<(), String> {
        loop {
            self.rest = self.rest.trim_start();
            if let Some(remark) = self.rest.strip_prefix("/*") {
                let end = remark.find("*/").ok_or("a remark in its description does not end")?;
                self.rest = &remark[end + 2..];
            } else if self.rest.starts_with("//") {
                self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
            } else {
                return Ok(());
            }
        }
    }

    fn text(&mut self) -> Result<Word, String> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices().skip(1);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Word::Text(text));
                }
                '\\' => {
                    text.extend(letters.next().map(|(_, letter)| if letter == 'n' { '\n' } else { letter }))
                }
                letter => text.push(letter),
            }
        }
        Err("a text in its description does not end".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_apart_from_blanks_and_remarks() {
        let mut words = Words::of("enum /* x */ : a5_t { \"K \\\"L\" = 0 ... -0x1F } // end");
        let mut found = Vec::new();
        while *words.peek().unwrap() != Word::End {
            found.push(words.take().unwrap());
        }
        let names = ["enum", "a5_t"].map(|name| Word::Name(name.into()));
        assert_eq!([&found[0], &found[2]], [&names[0], &names[1]]);
        assert_eq!(
            found[4..],
            [
                Word::Text("K \"L".into()),
                Word::Sign("="),
                Word::Number(0),
                Word::Sign("..."),
                Word::Sign("-"),
                Word::Number(31),
                Word::Sign("}"),
            ]
        );
        for text in ["\"open", "/* open", "1x", "\u{e9}"] {
            assert!(Words::of(text).take().is_err(), "{text}");
        }
    }
}

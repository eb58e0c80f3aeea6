// SPDX-License-Identifier: MIT OR Apache-2.0
//! A shell's text cut into statements and words, quotes left on.

/// One simple command, or what of a compound one stands in it.
#[derive(Debug, Default)]
pub(super) struct Statement<'a> {
    /// Its words as they are written.
    pub(super) words: Vec<&'a str>,
    /// All of it as it is written.
    pub(super) text: &'a str,
    /// Whether a pipe, a list or a redirection makes it more than a simple command.
    pub(super) compound: bool,
    /// Whether a here-document begins with it.
    pub(super) document: bool,
    /// Whether a quote is not closed at the end.
    pub(super) open: bool,
    /// How many blocks begin with it.
    pub(super) opens: usize,
    /// How many blocks end with it.
    pub(super) closes: usize,
}

/// The statements of `text` in their order.
pub(super) fn statements(text: &str) -> Vec<Statement<'_>> {
    let mut found = Vec::new();
    let mut current = Statement::default();
    let (mut start, mut at) = (0, 0);
    let mut compound_line = false;
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            ' ' | '\t' | '\r' => at += 1,
            '#' => at += text[at..].find('\n').unwrap_or(text.len() - at),
            '\n' | ';' => {
                finish(&mut found, &mut current, text[start..at].trim(), compound_line);
                compound_line &= letter == ';';
                at += 1;
                start = at;
            }
            '&' | '|' | '(' | ')' | '<' | '>' => {
                // What follows on the line may depend on what went before.
                compound_line = true;
                current.document |= text[at..].starts_with("<<");
                at += 1;
            }
            _ => {
                let (length, closed) = word(&text[at..]);
                current.words.push(&text[at..at + length]);
                current.open |= !closed;
                at += length;
            }
        }
    }
    finish(&mut found, &mut current, text[start..].trim(), compound_line);
    found
}

fn finish<'a>(found: &mut Vec<Statement<'a>>, current: &mut Statement<'a>, text: &'a str, compound: bool) {
    let mut statement = std::mem::take(current);
    statement.text = text;
    statement.compound = compound;
    let mut keywords = 0;
    for word in &statement.words {
        match *word {
            "if" | "case" | "for" | "while" | "until" | "{" => statement.opens += 1,
            "fi" | "esac" | "done" | "}" => statement.closes += 1,
            "then" | "else" | "elif" | "do" | "!" => {}
            _ => break,
        }
        keywords += 1;
    }
    statement.words.drain(..keywords);
    statement.opens += statement.words.iter().filter(|word| **word == "{").count();
    if statement.document || !statement.words.is_empty() || statement.opens + statement.closes > 0 {
        found.push(statement);
    }
}

/// How long the word is that `text` begins with, and whether its quotes are closed.
fn word(text: &str) -> (usize, bool) {
    let (mut single, mut double, mut tick) = (false, false, false);
    let mut parentheses = 0usize;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' if !double => single = !single,
            _ if single => {}
            '\\' => drop(letters.next()),
            '"' => double = !double,
            '`' => tick = !tick,
            '$' if letters.next_if(|(_, next)| *next == '(').is_some() => parentheses += 1,
            '(' if parentheses > 0 => parentheses += 1,
            ')' if parentheses > 0 => parentheses -= 1,
            ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>'
                if !double && !tick && parentheses == 0 =>
            {
                return (at, true);
            }
            _ => {}
        }
    }
    (text.len(), !(single || double || tick || parentheses > 0))
}

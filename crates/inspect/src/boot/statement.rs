// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of boot loaders and of the shell, cut into statements: continued lines are one statement, quotes
//! hold words together, comments are none. What reads, copies, compares or takes back an entry reads its
//! statements here.
//!
//! Reference: GRUB's script language (grub-core/script/yylex.l), POSIX shell, the Boot Loader Specification,
//! U-Boot's boot/pxe_utils.c, config.txt of the Raspberry Pi. Limits: nothing is evaluated.

use std::ops::Range;

/// How a kind of file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// A shell's file, `/etc/default/grub` for example.
    Shell,
    /// GRUB's script, `grub.cfg` and `custom.cfg`.
    Grub,
    /// A key and the rest of its line; a line of `#` is a comment. Entries of the Boot Loader Specification,
    /// files of one boot line, environments of U-Boot.
    Keys,
    /// As `Keys`, and a `#` anywhere cuts the line: extlinux.conf, config.txt.
    CutKeys,
}

impl Dialect {
    /// That of the file at `path`.
    pub fn of(path: &str) -> Dialect {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name {
            "grub.cfg" | "custom.cfg" => Dialect::Grub,
            "extlinux.conf" | "config.txt" => Dialect::CutKeys,
            _ if path.starts_with("/etc/default/") => Dialect::Shell,
            _ => Dialect::Keys,
        }
    }
}

/// One simple command, or what of a compound one stands in it; in files of keys one line.
#[derive(Debug, Default)]
pub struct Statement<'a> {
    /// Its words as they are written, quotes left on; `then` and such before them are left out.
    pub words: Vec<&'a str>,
    /// Where each of them stands in the file.
    pub spans: Vec<Range<usize>>,
    /// All of it as it is written.
    pub text: &'a str,
    /// Where that begins in the file.
    pub at: usize,
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

impl Statement<'_> {
    /// Its first word.
    pub fn key(&self) -> &str {
        self.words.first().copied().unwrap_or_default()
    }

    /// Where it ends in the file.
    pub fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// The key of a line and what follows the space after it; none for empty lines and comments.
pub fn key_and_rest(line: &str, dialect: Dialect) -> Option<(&str, &str)> {
    let line = line_of_keys(line, dialect)?;
    Some(match line.split_once([' ', '\t']) {
        Some((key, rest)) => (key, rest.trim_start()),
        None => (line, ""),
    })
}

/// The statement of a line of keys: none for empty lines and comments.
fn line_of_keys(line: &str, dialect: Dialect) -> Option<&str> {
    let said = line.trim_start();
    let said = match said.split_once('#') {
        Some(("", _)) => "",
        Some((said, _)) if dialect == Dialect::CutKeys => said.trim_end(),
        _ => said,
    };
    (!said.trim().is_empty()).then_some(said)
}

/// The statements of `text` in their order.
pub fn statements(text: &str, dialect: Dialect) -> Vec<Statement<'_>> {
    match dialect {
        Dialect::Shell | Dialect::Grub => script(text, dialect),
        Dialect::Keys | Dialect::CutKeys => keys(text, dialect),
    }
}

fn keys(text: &str, dialect: Dialect) -> Vec<Statement<'_>> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some(said) = line_of_keys(line.trim_end_matches(['\n', '\r']), dialect) {
            let at = start + (line.len() - line.trim_start().len());
            let mut statement = Statement { text: said, at, ..Statement::default() };
            let mut from = 0;
            for word in said.split([' ', '\t']) {
                if !word.is_empty() {
                    statement.words.push(word);
                    statement.spans.push(at + from..at + from + word.len());
                }
                from += word.len() + 1;
            }
            found.push(statement);
        }
        start += line.len();
    }
    found
}

/// The statements of a script.
fn script(text: &str, dialect: Dialect) -> Vec<Statement<'_>> {
    let mut cut = Cut { text, found: Vec::new(), current: Statement::default(), start: 0, comment: None };
    let mut at = 0;
    let mut compound_line = false;
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            ' ' | '\t' | '\r' => at += 1,
            // The line goes on.
            '\\' if text[at + 1..].starts_with('\n') => at += 2,
            '#' => {
                cut.comment = Some(at);
                at += text[at..].find('\n').unwrap_or(text.len() - at);
            }
            '\n' | ';' => {
                cut.finish(at, compound_line);
                compound_line &= letter == ';';
                at += 1;
                cut.start = at;
            }
            '&' | '|' | '<' | '>' => {
                compound_line = true;
                cut.current.document |= text[at..].starts_with("<<");
                at += 1;
            }
            '(' | ')' if dialect == Dialect::Shell => {
                // What follows on the line may depend on what went before.
                compound_line = true;
                at += 1;
            }
            _ => {
                let (length, closed) = word(&text[at..], dialect);
                let raw = &text[at..at + length];
                let brace = dialect == Dialect::Grub && matches!(raw, "{" | "}");
                if brace && raw == "}" && !cut.current.words.is_empty() {
                    cut.finish(at, compound_line);
                    cut.start = at;
                }
                cut.current.words.push(raw);
                cut.current.spans.push(at..at + length);
                cut.current.open |= !closed;
                at += length;
                if brace {
                    cut.finish(at, compound_line);
                    cut.start = at;
                }
            }
        }
    }
    cut.finish(text.len(), compound_line);
    cut.found
}

/// A script as it is cut.
struct Cut<'a> {
    text: &'a str,
    found: Vec<Statement<'a>>,
    current: Statement<'a>,
    /// Where the current statement begins.
    start: usize,
    /// Where a comment behind it begins.
    comment: Option<usize>,
}

impl Cut<'_> {
    fn finish(&mut self, end: usize, compound: bool) {
        let mut statement = std::mem::take(&mut self.current);
        let from = statement.spans.first().map_or(self.start, |span| span.start);
        let end = self.comment.take().filter(|comment| *comment >= from).unwrap_or(end);
        statement.text = self.text[from..end].trim();
        statement.at = from;
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
        statement.spans.drain(..keywords);
        statement.opens += statement.words.iter().filter(|word| **word == "{").count();
        if statement.document || !statement.words.is_empty() || statement.opens + statement.closes > 0 {
            self.found.push(statement);
        }
    }
}

/// How long the word is that `text` begins with, and whether its quotes are closed.
fn word(text: &str, dialect: Dialect) -> (usize, bool) {
    let shell = dialect == Dialect::Shell;
    let (mut single, mut double, mut tick) = (false, false, false);
    let mut parentheses = 0usize;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' if !double => single = !single,
            _ if single => {}
            '\\' => drop(letters.next()),
            '"' => double = !double,
            '`' if shell => tick = !tick,
            '$' if shell && letters.next_if(|(_, next)| *next == '(').is_some() => parentheses += 1,
            '(' if parentheses > 0 => parentheses += 1,
            ')' if parentheses > 0 => parentheses -= 1,
            '(' | ')' if !shell => {}
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

/// A word of GRUB's script as GRUB reads it: without quotes and escapes; variables stay as they are named.
pub fn grub_value(raw: &str) -> String {
    let mut value = String::new();
    let (mut single, mut double) = (false, false);
    let mut letters = raw.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            '\\' if !single => match letters.next() {
                Some('\n') => {}
                Some(next) if double && !matches!(next, '$' | '"' | '\\') => value.extend(['\\', next]),
                next => value.extend(next),
            },
            other => value.push(other),
        }
    }
    value
}

/// A word of GRUB's script as GRUB writes it into the kernel's line (grub_create_loader_cmdline()).
pub fn grub_word(raw: &str) -> String {
    if !raw.contains(['\'', '"', '\\']) {
        return raw.to_string();
    }
    let value = grub_value(raw);
    let mut word = String::new();
    for letter in value.chars() {
        if matches!(letter, '\\' | '\'' | '"') {
            word.push('\\');
        }
        word.push(letter);
    }
    if value.contains(' ') { format!("\"{word}\"") } else { word }
}

#[cfg(test)]
mod tests {
    use machine::boot::quoting::for_grub;

    use super::*;

    fn cut(text: &str, dialect: Dialect) -> Vec<Vec<&str>> {
        let all = statements(text, dialect);
        for statement in &all {
            assert!(
                statement.words.iter().zip(&statement.spans).all(|(word, span)| text[span.clone()] == **word)
            );
            assert_eq!(&text[statement.at..statement.end()], statement.text);
        }
        all.into_iter().map(|statement| statement.words).collect()
    }

    #[test]
    fn joins_continued_lines_and_keeps_quotes_together() {
        let text = "linux (hd0,gpt2)/vmlinuz \\\n\troot='a b' x\\\ny # c\n# d\ninitrd /a; echo \"b ; c\"\n";
        assert_eq!(
            cut(text, Dialect::Grub),
            [
                vec!["linux", "(hd0,gpt2)/vmlinuz", "root='a b'", "x\\\ny"],
                vec!["initrd", "/a"],
                vec!["echo", "\"b ; c\""]
            ]
        );
        assert_eq!(cut("A=\"x \\\n y\" # n\n", Dialect::Shell), [["A=\"x \\\n y\""]]);
    }

    #[test]
    fn cuts_blocks_of_grub_wherever_their_braces_stand() {
        let text = "menuentry 'a' { linux /v root=${r} ; initrd /i }\nmenuentry b {\n}\n";
        assert_eq!(
            cut(text, Dialect::Grub),
            [
                vec!["menuentry", "'a'", "{"],
                vec!["linux", "/v", "root=${r}"],
                vec!["initrd", "/i"],
                vec![],
                vec!["menuentry", "b", "{"],
                vec![]
            ]
        );
    }

    #[test]
    fn lines_of_keys_have_no_quotes_and_their_own_comments() {
        let text = "  options a=\"b c\" # d\r\n#x\n\nlinux\t/v\n";
        assert_eq!(
            cut(text, Dialect::Keys),
            [vec!["options", "a=\"b", "c\"", "#", "d"], vec!["linux", "/v"]]
        );
        assert_eq!(cut(text, Dialect::CutKeys), [vec!["options", "a=\"b", "c\""], vec!["linux", "/v"]]);
        assert_eq!(key_and_rest(" append  root=x # y", Dialect::CutKeys), Some(("append", "root=x")));
        assert_eq!(key_and_rest("# append", Dialect::Keys), None);
    }

    #[test]
    fn a_word_is_what_grub_gives_to_the_kernel() {
        for (raw, word) in [
            ("quiet", "quiet"),
            ("memmap=16G\\$16G", "memmap=16G$16G"),
            ("root=ZFS=\"rpool/ROOT/a\"", "root=ZFS=rpool/ROOT/a"),
            ("dyndbg=\"file a.c +p\"", "\"dyndbg=file a.c +p\""),
            ("'a$b'", "a$b"),
            ("a=\"\\d\"", "a=\\\\d"),
            ("$kernelopts", "$kernelopts"),
        ] {
            assert_eq!(grub_word(raw), word, "{raw}");
            if !raw.starts_with('$') {
                assert_eq!(grub_word(&for_grub(word)), word, "{raw}");
            }
        }
    }
}

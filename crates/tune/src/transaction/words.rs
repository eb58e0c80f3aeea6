// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words of ours, wherever a boot loader finds them: other programs copy them into entries of kernels that
//! are installed later (`/etc/kernel/cmdline` on Fedora and RHEL, `grubby`), so the files that we wrote are
//! not all that have them.
//!
//! The part of these words that a file had before our change ([`found`]) is not ours and stays. Limits:
//! U-Boot's environment and unified kernel images are no text files; entries of ostree's deployments belong
//! to ostree, and are named.

use std::collections::BTreeMap;
use std::ops::Range;

use inspect::boot::grub::GrubEnvironment;
use inspect::boot::statement::{Dialect, statements};
use machine::boot::{Loader, LoaderFacts};

use super::files;
use crate::record::kept::Lossless;
use crate::record::{Record, Restoration, Step, Undone};
use crate::system::System;

/// GRUB's block of variables; entries of RHEL 8 have their line in one.
const BLOCK: &str = "/grubenv";
const VARIABLE: &str = "kernelopts";
/// Longer files are no files of entries.
const LONGEST: usize = 4 << 20;

/// The files from which lines are made that are there.
pub(super) fn sources(system: &dyn System) -> Vec<String> {
    there(system, |facts| facts.sources)
}

/// The files that a loader reads that are there.
pub(super) fn entries(system: &dyn System) -> Vec<String> {
    there(system, |facts| facts.entries)
}

/// Those of any loader, since more than one may be installed, each under one name.
fn there(system: &dyn System, of: fn(LoaderFacts) -> &'static [&'static str]) -> Vec<String> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    let patterns = Loader::ALL.iter().flat_map(|loader| of(loader.facts()));
    for path in patterns.flat_map(|pattern| crate::system::matching(system, pattern)) {
        let real = system.real_path(&path).unwrap_or_else(|_| path.clone());
        if crate::system::stat_is_file(system, &path) && !seen.contains(&real) {
            seen.push(real);
            found.push(path);
        }
    }
    found
}

/// Which of `words` stand in the files of boot loaders, each as often as it does.
pub(crate) fn found(system: &dyn System, words: &[String]) -> BTreeMap<String, Vec<String>> {
    if words.is_empty() {
        return BTreeMap::new();
    }
    let places = sources(system).into_iter().chain(entries(system));
    let with = places.filter_map(|path| {
        let text = Lossless::of(system, &path).ok()??.text;
        let there = in_text(&path, &text, words);
        (!there.is_empty()).then_some((path, there))
    });
    with.collect()
}

/// Whether all of `words` stand in the file at `path`.
pub(crate) fn all_in(system: &dyn System, path: &str, words: &[String]) -> bool {
    let Ok(Some(now)) = Lossless::of(system, path) else { return false };
    let there = in_text(path, &now.text, words);
    words.iter().all(|word| there.contains(word))
}

/// The words of a file, each as often as it stands there.
fn in_text(path: &str, text: &str, words: &[String]) -> Vec<String> {
    let text = match line_of(path, text) {
        Some(line) => line,
        None => text.to_string(),
    };
    let spans = said(path, &text);
    let often = |word: &String| vec![word.clone(); tokens(&text, &spans, word).len()];
    if text.len() > LONGEST { Vec::new() } else { words.iter().flat_map(often).collect() }
}

/// The line that a block of variables has; none where the file is no such block.
fn line_of(path: &str, text: &str) -> Option<String> {
    path.ends_with(BLOCK).then(|| {
        GrubEnvironment::read(text)
            .and_then(|block| block.get(VARIABLE).map(str::to_string))
            .unwrap_or_default()
    })
}

/// Takes `gone` out of those of `paths` that have more of it than before the change of `record`.
pub(super) fn take_out(
    system: &mut dyn System,
    record: &Record,
    gone: &[String],
    paths: Vec<String>,
) -> Vec<Undone> {
    if gone.is_empty() {
        return Vec::new();
    }
    let ostree = system.stat("/run/ostree-booted").is_ok();
    let mut undone = Vec::new();
    for path in paths {
        let Ok(Some(now)) = Lossless::of(system, &path) else { continue };
        let theirs = before(record, &path, gone);
        let text = without(&path, &now.text, gone, &theirs);
        if text.as_deref() == Some(&now.text) {
            continue;
        }
        let became = match text {
            _ if ostree && path.contains("/loader/entries/") => Restoration::Left(
                "an older deployment has the plan's words; it goes with the next one, or by rpm-ostree cleanup -rp"
                    .into(),
            ),
            None => Restoration::Failed("the plan's words do not go out of it".into()),
            Some(text) => match files::put_back(system, &path, &now.bytes(&text)) {
                Ok(()) => Restoration::Stripped,
                Err(error) => Restoration::Failed(format!("it has the plan's words: {}", error.why)),
            },
        };
        undone.push(Undone { what: path, became });
    }
    undone
}

/// The words that a file had before: as the record noted, or as the text that it kept says.
fn before(record: &Record, path: &str, words: &[String]) -> Vec<String> {
    let kept = record.steps.iter().find_map(|done| match &done.step {
        Step::File { path: own, old, .. } | Step::Generated { path: own, old, .. } if own == path => {
            old.as_ref()
        }
        _ => None,
    });
    match (record.theirs.get(path), kept) {
        (Some(theirs), _) => theirs.clone(),
        (None, Some(kept)) => in_text(path, &kept.text, words),
        (None, None) => Vec::new(),
    }
}

/// A file's text without the words; none where it cannot be written so.
fn without(path: &str, text: &str, gone: &[String], theirs: &[String]) -> Option<String> {
    let Some(line) = line_of(path, text) else { return Some(without_tokens(path, text, gone, theirs)) };
    let shorter = without_tokens(path, &line, gone, theirs);
    if shorter == line {
        return Some(text.to_string());
    }
    let mut block = GrubEnvironment::read(text)?;
    block.set(VARIABLE, Some(&shorter));
    block.text()
}

/// Where statements stand in the text of the file at `path`: what is outside of them are comments.
fn said(path: &str, text: &str) -> Vec<Range<usize>> {
    statements(text, Dialect::of(path)).iter().map(|statement| statement.at..statement.end()).collect()
}

/// Where `word` stands in `text` by itself within the statements at `spans`: between spaces or quotes.
fn tokens(text: &str, spans: &[Range<usize>], word: &str) -> Vec<usize> {
    let edge = |letter: Option<char>| {
        letter.is_none_or(|letter| letter.is_whitespace() || matches!(letter, '"' | '\''))
    };
    let alone =
        |at: &usize| edge(text[..*at].chars().next_back()) && edge(text[at + word.len()..].chars().next());
    if word.is_empty() {
        return Vec::new();
    }
    let within = |span: &Range<usize>| {
        let start = span.start;
        text[span.clone()].match_indices(word).map(move |(at, _)| start + at).collect::<Vec<_>>()
    };
    spans.iter().flat_map(within).filter(alone).collect()
}

/// `text` without each of `gone`, the first ones left as often as `theirs` has them; a space goes along with
/// each.
pub(super) fn without_tokens(path: &str, text: &str, gone: &[String], theirs: &[String]) -> String {
    let mut text = text.to_string();
    let mut words = gone.to_vec();
    words.sort();
    words.dedup();
    for word in &words {
        let keep = theirs.iter().filter(|their| *their == word).count();
        let spans = said(path, &text);
        for at in tokens(&text, &spans, word).into_iter().skip(keep).rev() {
            let blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
            let (mut from, mut to) = (at, at + word.len());
            let alone_before = at == 0 || matches!(text.as_bytes()[at - 1], b'\n' | b'"' | b'\'');
            if alone_before && blank(text.as_bytes().get(to)) {
                to += 1;
            } else if at > 0 && blank(text.as_bytes().get(at - 1)) {
                from -= 1;
            }
            text.replace_range(from..to, "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(path: &str, text: &str, theirs: &[&str]) -> String {
        let words = ["isolcpus=3", "nosmt"].map(String::from);
        without_tokens(path, text, &words, &theirs.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn takes_words_out_of_lines_quotes_and_ends() {
        for (path, text, left) in [
            ("/boot/loader/entries/a.conf", "options root=x ro isolcpus=3 nosmt\n", "options root=x ro\n"),
            ("/etc/default/grub", "A=\"isolcpus=3 quiet nosmt\"\n", "A=\"quiet\"\n"),
            ("/etc/default/grub", "A='nosmt'\n", "A=''\n"),
            ("/etc/default/grub", "A=\"quiet \\\n isolcpus=3\" # nosmt\n", "A=\"quiet \\\n\" # nosmt\n"),
            ("/etc/kernel/cmdline", "nosmt isolcpus=3", ""),
            ("/boot/cmdline.txt", "isolcpus=3\r\nx nosmt\r\n", "\r\nx\r\n"),
            ("/boot/grub/grub.cfg", "linux /v root=x \\\n\tisolcpus=3 nosmt\n", "linux /v root=x \\\n\n"),
            ("/boot/extlinux/extlinux.conf", "APPEND x nosmt # nosmt\n", "APPEND x # nosmt\n"),
        ] {
            assert_eq!(gone(path, text, &[]), left, "{path}: {text:?}");
        }
    }

    #[test]
    fn leaves_parts_of_words_comments_and_words_of_others() {
        for text in
            ["l1tf=full,nosmt x", "isolcpus=31 nosmt=force", "# was: isolcpus=3 nosmt\n", "nosmtx", ""]
        {
            assert_eq!(gone("/etc/kernel/cmdline", text, &[]), text);
        }
        assert_eq!(gone("/etc/kernel/cmdline", "a nosmt b nosmt c", &["nosmt"]), "a nosmt b c");
    }
}

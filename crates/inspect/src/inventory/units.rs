// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment that a systemd unit gives its program, as far as files tell.
//!
//! systemd reads the unit and its drop-ins, then `Environment=` in order, then each `EnvironmentFile=` in
//! order; a later assignment wins, and an empty one forgets what was listed before. Reference:
//! systemd.unit(5), systemd.exec(5). Limit: what the manager itself has in its environment is not known, so a
//! name in `PassEnvironment=` is unknown.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Tree;

/// Where units are, the folder that wins first.
const FOLDERS: &[&str] = &[
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// The values of some variables in a unit's files.
pub(super) struct UnitVariables {
    /// Values of those that are set.
    pub(super) values: BTreeMap<String, String>,
    /// The files that were read.
    pub(super) files: Vec<String>,
}

/// The values of the variables `wanted` in the files of `unit`; `None` where there is no such unit, an error
/// where only systemd itself could tell.
pub(super) fn environment(tree: &Tree, unit: &str, wanted: &[&str]) -> Option<Result<UnitVariables, String>> {
    let mut parts = vec![fragment(tree, unit)?];
    parts.extend(drop_ins(tree, unit));
    Some(parts.into_iter().collect::<Result<Vec<_>, _>>().and_then(|parts| combine(tree, &parts, wanted)))
}

type UnitPart = Result<(String, String), String>;

/// A file's path and text; an error where it is there and cannot be read.
fn part(tree: &Tree, path: &str) -> Option<UnitPart> {
    match tree.hint(path) {
        Some(text) => Some(Ok((format!("/{path}"), text))),
        None if tree.link_name(path).is_some_and(|name| name == "null") => None,
        None if tree.exists(path) || tree.link_name(path).is_some() => {
            Some(Err(format!("/{path} could not be read")))
        }
        None => None,
    }
}

fn fragment(tree: &Tree, unit: &str) -> Option<UnitPart> {
    FOLDERS.iter().find_map(|folder| part(tree, &format!("{folder}/{unit}")))
}

/// In the order in which systemd reads them: by name; of one name the first folder's.
fn drop_ins(tree: &Tree, unit: &str) -> Vec<UnitPart> {
    let mut chosen: BTreeMap<String, String> = BTreeMap::new();
    for below in [format!("{unit}.d"), "service.d".to_string()] {
        for folder in FOLDERS {
            for name in tree.hint_names(&format!("{folder}/{below}")) {
                if name.ends_with(".conf") && !name.starts_with('.') {
                    chosen.entry(name.clone()).or_insert(format!("{folder}/{below}/{name}"));
                }
            }
        }
    }
    chosen.values().filter_map(|path| part(tree, path)).collect()
}

fn combine(tree: &Tree, parts: &[(String, String)], wanted: &[&str]) -> Result<UnitVariables, String> {
    let (mut assigned, mut listed, mut passed, mut unset) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (path, text) in parts {
        for (key, value) in service_lines(text) {
            let (list, words): (&mut Vec<String>, Vec<String>) = match key.as_str() {
                "Environment" => (&mut assigned, split_words(&value)),
                "EnvironmentFile" => (&mut listed, vec![value.clone()]),
                "PassEnvironment" => (&mut passed, split_words(&value)),
                "UnsetEnvironment" => (&mut unset, split_words(&value)),
                key if key.starts_with("Exec") && wanted.iter().any(|name| value.contains(name)) => {
                    return Err(format!("{path} sets it in {key}=, which only systemd can tell"));
                }
                _ => continue,
            };
            if value.trim().is_empty() {
                list.clear();
            } else {
                list.extend(words);
            }
        }
    }
    let mut values: BTreeMap<String, Option<String>> = BTreeMap::new();
    // The manager's own environment is in no file.
    let ours = |name: &String| wanted.contains(&name.as_str());
    values.extend(passed.into_iter().filter(ours).map(|name| (name, None)));
    for word in &assigned {
        if let Some((name, value)) = word.split_once('=').filter(|(name, _)| wanted.contains(name)) {
            values.insert(name.to_string(), without_specifiers(value));
        }
    }
    let mut files: Vec<String> = parts.iter().map(|(path, _)| path.clone()).collect();
    for file in &listed {
        let (optional, path) = file.strip_prefix('-').map_or((false, file.as_str()), |path| (true, path));
        // systemd says that such a path is not absolute, and goes on.
        if !path.starts_with(['/', '%']) {
            continue;
        }
        if path.contains(['*', '?', '[', '%']) {
            return Err(format!("which files EnvironmentFile={file} means only systemd can tell"));
        }
        match tree.hint(path.trim_start_matches('/')) {
            Some(text) => {
                files.push(path.to_string());
                let read = environment_file(&text).into_iter();
                values.extend(read.filter(|(name, _)| ours(name)).map(|(name, value)| (name, Some(value))));
            }
            None if optional && tree.absent(path.trim_start_matches('/')) => {}
            None => return Err(format!("{path}, which its unit names, could not be read")),
        }
    }
    let unset: BTreeSet<String> = unset.into_iter().collect();
    let mut known = BTreeMap::new();
    for (name, value) in values {
        let value = value.ok_or_else(|| format!("what {name} is for its unit only systemd can tell"))?;
        if !unset.contains(&name) && !unset.contains(&format!("{name}={value}")) {
            known.insert(name, value);
        }
    }
    Ok(UnitVariables { values: known, files })
}

/// `%%` is a percent sign; other specifiers stand for what only systemd knows.
fn without_specifiers(value: &str) -> Option<String> {
    let plain = value.replace("%%", "\0");
    (!plain.contains('%')).then(|| plain.replace('\0', "%"))
}

/// The assignments of the section `[Service]`; a line that ends with `\` goes on in the next.
fn service_lines(text: &str) -> Vec<(String, String)> {
    let mut lines: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let comment = line.trim_start().starts_with(['#', ';']);
        if comment || (line.trim().is_empty() && !open) {
            continue;
        }
        let (line, goes_on) = line.strip_suffix('\\').map_or((line, false), |line| (line, true));
        match lines.last_mut() {
            Some(last) if open => last.extend([" ", line]),
            _ => lines.push(line.trim().to_string()),
        }
        open = goes_on;
    }
    let mut service = false;
    let mut found = Vec::new();
    for line in lines {
        if line.starts_with('[') {
            service = line.trim() == "[Service]";
        } else if let Some((key, value)) = line.split_once('=').filter(|_| service) {
            found.push((key.trim().to_string(), value.trim().to_string()));
        }
    }
    found
}

/// Words with space between; quotes of both kinds and `\` keep what they stand around.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, Some(open)) if letter == open => quote = None,
            ('\\', _) => word.get_or_insert_default().extend(letters.next()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The assignments of an `EnvironmentFile=`. It is no shell's: `export` makes a name that systemd does not
/// take, a comment begins at the beginning of a line only, and quotes count only where a value begins or
/// another quote ended.
pub(super) fn environment_file(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut letters = text.chars().peekable();
    while let Some(first) = letters.next() {
        if first.is_whitespace() {
            continue;
        }
        if first == '#' || first == ';' {
            letters.by_ref().find(|letter| *letter == '\n');
            continue;
        }
        let mut key = first.to_string();
        let mut assigned = first == '=';
        while !assigned {
            match letters.next() {
                Some('=') => assigned = true,
                Some('\n') | None => break,
                Some(letter) => key.push(letter),
            }
        }
        let named = |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let key = key.trim_end();
        if assigned {
            let value = environment_value(&mut letters);
            if named(key) {
                found.push((key.to_string(), value));
            }
        }
    }
    found
}

/// The value at which `letters` stands, up to the end of its line.
fn environment_value(letters: &mut std::iter::Peekable<std::str::Chars>) -> String {
    let mut value = String::new();
    // How much of the value stands between quotes, or was escaped, and keeps its space.
    let mut kept = 0;
    let mut begins = true;
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => break,
            '\'' if begins => {
                value.extend(letters.by_ref().take_while(|letter| *letter != '\''));
                kept = value.len();
            }
            '"' if begins => {
                while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
                    match (letter, letters.peek()) {
                        ('\\', Some('\n')) => drop(letters.next()),
                        ('\\', Some('"' | '\\' | '`' | '$')) => value.extend(letters.next()),
                        _ => value.push(letter),
                    }
                }
                kept = value.len();
            }
            '\\' => {
                begins = false;
                value.extend(letters.next().filter(|letter| *letter != '\n'));
                kept = value.len();
            }
            letter if begins && letter.is_whitespace() => {}
            letter => {
                begins = false;
                value.push(letter);
            }
        }
    }
    let end = value.trim_end().len().max(kept);
    value.truncate(end);
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::made_of;

    const WANTED: &[&str] = &["A", "B"];

    fn seen(files: &[(&str, &str)]) -> String {
        let (_folder, tree) = made_of(files);
        match environment(&tree, "x.service", WANTED) {
            None => "no unit".to_string(),
            Some(Err(why)) => why,
            Some(Ok(found)) => {
                let values = found.values.iter().map(|(name, value)| format!("{name}={value}"));
                values.collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn later_assignments_win_and_files_win_over_units() {
        let whole = ("proc/sys/kernel/ostype", "Linux");
        let unit = |text| ("usr/lib/systemd/system/x.service", text);
        assert_eq!(seen(&[whole]), "no unit");
        assert_eq!(
            seen(&[unit("[Unit]\nEnvironment=A=1\n[Service]\nEnvironment=\"A=2 3\" 'B=4' C=5\n")]),
            "A=2 3 B=4"
        );
        let cleared =
            ("etc/systemd/system/x.service.d/10.conf", "[Service]\nEnvironment=\nEnvironment=B=9\n");
        assert_eq!(seen(&[unit("[Service]\nEnvironment=A=1\n"), cleared]), "B=9");
        // The folder under /etc hides the drop-in of the same name.
        let hidden = ("usr/lib/systemd/system/x.service.d/10.conf", "[Service]\nEnvironment=A=7\n");
        assert_eq!(seen(&[unit("[Service]\n"), hidden, cleared]), "B=9");
        let dotted = ("etc/systemd/system/x.service.d/.11.conf", "[Service]\nEnvironment=A=7\n");
        assert_eq!(seen(&[unit("[Service]\nEnvironmentFile=-\nEnvironment=A=1\n"), dotted]), "A=1");
        let both = "[Service]\nEnvironmentFile=-/etc/a\nEnvironment=A=unit B=unit\nEnvironmentFile=-/etc/b\n";
        assert_eq!(seen(&[whole, unit(both), ("etc/a", "A=a\nB=a\n"), ("etc/b", "A=b\n")]), "A=b B=a");
        assert_eq!(seen(&[whole, unit(both), ("etc/a", "B=a\n")]), "A=unit B=a");
        let etc = ("etc/systemd/system/x.service", "[Service]\nEnvironment=A=etc\n");
        assert_eq!(seen(&[unit("[Service]\nEnvironment=A=lib\n"), etc]), "A=etc");
        assert_eq!(seen(&[unit("[Service]\nEnvironment=A=1 \\\n  B=2\nUnsetEnvironment=A\n")]), "B=2");
    }

    #[test]
    fn what_only_systemd_could_tell_is_an_error() {
        let unit = |text| ("usr/lib/systemd/system/x.service", text);
        for text in [
            "[Service]\nEnvironmentFile=/etc/missing\n",
            "[Service]\nEnvironmentFile=-/etc/%p\n",
            "[Service]\nEnvironmentFile=/etc/*.env\n",
            "[Service]\nEnvironment=A=%i\n",
            "[Service]\nPassEnvironment=A\n",
            "[Service]\nExecStart=/usr/bin/env A=3 /usr/sbin/x\n",
            // In a tree of which a part was captured, a file that is not there may be on the machine.
            "[Service]\nEnvironmentFile=-/etc/missing\n",
        ] {
            assert!(seen(&[unit(text)]).contains(' '), "{text}: {}", seen(&[unit(text)]));
        }
        assert_eq!(seen(&[unit("[Service]\nEnvironment=A=5%% B=%% C=%i\n")]), "A=5% B=%");
    }

    #[test]
    fn reads_environment_files_as_systemd_does() {
        let read = |text: &str| {
            let found = environment_file(text).into_iter().map(|(name, value)| format!("{name}={value}"));
            found.collect::<Vec<_>>().join("|")
        };
        for (text, expected) in [
            ("A=1\n#A=2\n;A=3\n  A=4  \n", "A=1|A=4"),
            ("export A=1\n", ""),
            ("A=\"4-15\" # cores\n", "A=4-15# cores"),
            ("A=4-15 # cores\n", "A=4-15 # cores"),
            ("A='x y'\nB=\"a \\\"b\\\" \\z\"\n", "A=x y|B=a \"b\" \\z"),
            ("A=\nB=x\"y\"\n", "A=|B=x\"y\""),
            ("A=1\\\n2\nB\nC=3", "A=12|C=3"),
            ("A=\"open\nended", "A=open\nended"),
            ("=1\n\u{feff}A=2\n", ""),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}

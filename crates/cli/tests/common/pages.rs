// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pages that a user follows with a terminal beside them: their fenced blocks, and the commands in these.

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block of shell commands.
#[derive(Debug)]
pub struct Block {
    /// Where it begins, as `docs/explanation/faq.md:12`.
    pub place: String,
    /// The word of its fence after `sh`: nothing, `run`, `root`, `hardware` or `long`.
    pub mark: String,
    /// The commands.
    pub script: String,
}

/// A page with its blocks.
#[derive(Debug)]
pub struct Page {
    /// Its path in the repository.
    pub name: String,
    /// All of it.
    pub text: String,
    /// Its blocks of shell commands.
    pub blocks: Vec<Block>,
}

/// README, the tutorial, the how-tos and the questions; not a page that names the test of its own examples.
pub fn pages() -> Vec<Page> {
    let mut pages = read(&["README.md", "docs/explanation/faq.md"], &["docs/tutorial", "docs/howto"]);
    pages.retain(|page| !page.text.contains("<!-- Examples are tried by "));
    pages
}

/// These, and all other pages with commands.
pub fn all_pages() -> Vec<Page> {
    let folders =
        ["docs", "docs/tutorial", "docs/howto", "docs/explanation", "docs/reference", "docs/results"];
    let files = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    let parts = ["integrations/README.md", "fleet/ansible/README.md", "kernel/README.md"];
    read(&[&files[..], &parts[..]].concat(), &folders)
}

fn read(files: &[&str], folders: &[&str]) -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut paths: Vec<PathBuf> = files.iter().map(|file| root.join(file)).collect();
    for folder in folders {
        paths.extend(fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    paths.sort();
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md") && path.exists();
    paths.into_iter().filter(is_page).map(|path| page(&root, &path)).collect()
}

fn page(root: &Path, path: &Path) -> Page {
    let name = path.strip_prefix(root).unwrap().display().to_string();
    let text = fs::read_to_string(path).unwrap();
    let (mut blocks, mut open) = (Vec::new(), None::<Option<Block>>);
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let shell = info.split_once(' ').map_or((info == "sh").then_some(""), |(language, mark)| {
                    (language == "sh").then_some(mark)
                });
                open = Some(shell.map(|mark| Block {
                    place: format!("{name}:{number}"),
                    mark: mark.to_string(),
                    script: String::new(),
                }));
            }
            (Some(_), Some(block)) => {
                blocks.extend(block.take());
                open = None;
            }
            (None, Some(Some(block))) => {
                block.script.push_str(line);
                block.script.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(open.is_none(), "{name} ends within a block");
    Page { name, text, blocks }
}

impl Block {
    /// The command lines of `isolator`, as it would be given them.
    pub fn commands(&self) -> Vec<Vec<String>> {
        let own = simple_commands(&self.script).into_iter().map(|words| {
            let before = |word: &String| word == "sudo" || word.split('/').next().unwrap().contains('=');
            words.into_iter().skip_while(before).collect::<Vec<_>>()
        });
        own.filter(|words| words.first().is_some_and(|word| word == "isolator")).collect()
    }
}

/// Stands for what the shell would put in the place of `$…`: a number, as a process has one.
const EXPANDED: &str = "4711";

/// The simple commands of a script of the shell, without quotes, comments and redirections.
fn simple_commands(script: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word, mut is_target) = (Vec::new(), Vec::new(), None::<String>, false);
    let mut rest = script.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some('\n') | None => {}
                Some(c) => word.get_or_insert_default().push(c),
            },
            '\'' => word.get_or_insert_default().extend(rest.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                let text: String = rest.by_ref().take_while(|c| *c != '"').collect();
                word.get_or_insert_default().push_str(if text.contains('$') { EXPANDED } else { &text });
            }
            '$' => {
                word.get_or_insert_default().push_str(EXPANDED);
                if rest.next_if_eq(&'(').is_some() {
                    let mut depth = 1;
                    while depth > 0 {
                        match rest.next() {
                            Some('(') => depth += 1,
                            Some(')') | None => depth -= 1,
                            Some(_) => {}
                        }
                    }
                } else {
                    while rest.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '{' | '}')).is_some() {}
                }
            }
            '#' if word.is_none() => while rest.next_if(|c| *c != '\n').is_some() {},
            '>' | '<' => {
                // A number before it is a descriptor.
                word = word.filter(|word| word.parse::<u8>().is_err());
                words.extend(word.take());
                while rest.next_if(|c| matches!(c, '>' | '<' | '&' | ' ')).is_some() {}
                is_target = true;
            }
            c if c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')') => {
                words.extend(word.take().filter(|_| !is_target));
                is_target = false;
                if !matches!(c, ' ' | '\t') {
                    commands.push(std::mem::take(&mut words));
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.filter(|_| !is_target));
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_commands_of_a_script() {
        let block = Block {
            place: String::new(),
            mark: String::new(),
            script:
                "sudo isolator prove --loads 'custom=a b' \\\n  -o x > out.txt 2>&1 && isolator why x # y\n\
                     (cd store && isolator fleet query outliers | duckdb)\nNAME=1 isolator lint \"$P\"\n\
                     echo isolator; isolator monitor $(pgrep -x servo) --quiet\n"
                    .to_string(),
        };
        let commands = block.commands().iter().map(|words| words.join("~")).collect::<Vec<_>>();
        let expected = [
            "isolator~prove~--loads~custom=a b~-o~x",
            "isolator~why~x",
            "isolator~fleet~query~outliers",
            "isolator~lint~4711",
            "isolator~monitor~4711~--quiet",
        ];
        assert_eq!(commands, expected);
    }
}

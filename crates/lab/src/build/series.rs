// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our part of a kernel: new files, configurations, and for each version the hooks in its own files. It is
//! the folder `kernel/` of the repository, which this program carries.
//!
//! ```text
//! isolator/…              goes to kernel/isolator/… of a kernel tree
//! include/…               goes to include/…
//! Documentation/…         goes to Documentation/…
//! covers/GROUP            cover letters
//! selftests/…             goes to tools/testing/selftests/isolator/…
//! config/NAME.config      fragments of configurations
//! hooks/series            patches of the kernel's own files, in order
//! ```
//!
//! A line of these patches that not every version has begins with the versions that have it: `6.12|`. The
//! line `# versions: 6.12 7.2` of `hooks/series` names all. A version may also have files of its own, without
//! marks, in `hooks/VERSION/`.
//!
//! A line `# group: NAME` in a list of hooks, in `Kconfig` and in `Makefile` begins what is sent as a series
//! of its own; `covers/NAME` is its cover letter. In a list of hooks it may say `needs NAME`.
//!
//! Other files there (model, audit, pages) are about the series and no part of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::{Error, Result, store};

const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/kernel_folder.rs"));

/// Who a patch is from where no hook says it.
const FROM: &str = "From: The Isolator developers <isolator@localhost>\nDate: Thu, 1 Jan 1970 00:00:00 +0000";

/// The folder's files by name.
#[derive(Debug, Clone, Default)]
pub struct PatchSeries(BTreeMap<String, Vec<u8>>);

/// A patch by its name.
pub type Patch<'a> = (&'a str, &'a [u8]);

/// Begins the lines that name the group of what follows, in lists of hooks, `Kconfig` and `Makefile`.
const GROUP: &str = "# group: ";

/// Begins the line that names the versions of the common hooks.
const VERSIONS: &str = "# versions: ";

/// The lines of a common file that are a version's: those without a mark, and, without it, those whose mark
/// (`6.12|`, or `6.12,7.2|`) names the version.
fn of_version(text: &[u8], version: &str, versions: &[&str]) -> Vec<u8> {
    let marked = |line: &[u8]| {
        let bar = line.iter().position(|byte| *byte == b'|')?;
        let mark = std::str::from_utf8(&line[..bar]).ok()?.split(',').collect::<Vec<_>>();
        mark.iter().all(|one| versions.contains(one)).then_some((mark.contains(&version), bar + 1))
    };
    let lines = text.split_inclusive(|byte| *byte == b'\n').map(|line| match marked(line) {
        Some((true, from)) => &line[from..],
        Some((false, _)) => &[],
        None => line,
    });
    lines.flatten().copied().collect()
}

/// The group that needs no other, and has all that no line puts into another one.
const CORE: &str = "core";

/// The group that a line begins: `# group: quiesce needs core` begins *quiesce*.
fn group(line: &str) -> Option<&str> {
    line.strip_prefix(GROUP)?.split_whitespace().next()
}

impl PatchSeries {
    /// The one that this program carries.
    pub fn own() -> PatchSeries {
        PatchSeries::of(EMBEDDED.iter().map(|(name, text)| (name.to_string(), text.to_vec())))
    }

    /// That of a folder.
    pub fn read(folder: &Path) -> Result<PatchSeries> {
        let mut files = Vec::new();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(at) = folders.pop() {
            for entry in fs::read_dir(&at).map_err(|e| Error::io("read", &at, &e))?.flatten() {
                let path = entry.path();
                if entry.file_name().to_string_lossy().starts_with('.') {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                    files.push((name, crate::files::bytes(&path).map_err(|e| Error::io("read", &path, &e))?));
                }
            }
        }
        Ok(PatchSeries::of(files))
    }

    /// Of the folder's files, with the common hooks as the files of each version that they are.
    fn of(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> PatchSeries {
        let (common, mut files): (BTreeMap<_, _>, BTreeMap<_, _>) =
            files.into_iter().partition(|(name, _)| {
                let name = name.strip_prefix("hooks/").unwrap_or("/");
                !name.contains('/') && (name == "series" || name.ends_with(".patch"))
            });
        let list = common.get("hooks/series").map(|text| String::from_utf8_lossy(text)).unwrap_or_default();
        let versions = list.lines().find_map(|line| line.strip_prefix(VERSIONS)).unwrap_or_default();
        let versions = versions.split_whitespace().collect::<Vec<_>>();
        for version in &versions {
            for (name, text) in &common {
                let own = name.replacen("hooks", &format!("hooks/{version}"), 1);
                files.entry(own).or_insert_with(|| of_version(text, version, &versions));
            }
        }
        PatchSeries(files)
    }

    /// The versions that there are hooks for.
    pub fn versions(&self) -> Vec<String> {
        let version = |name: &String| Some(name.strip_prefix("hooks/")?.strip_suffix("/series")?.to_string());
        self.0.keys().filter_map(version).collect()
    }

    /// Refuses a version without hooks.
    pub fn must_have(&self, version: &str) -> Result<()> {
        let versions = self.versions();
        if versions.iter().any(|one| one == version) {
            return Ok(());
        }
        let cure = format!("choose from {}, or port a series with --series", versions.join(", "));
        Err(Error::on("build Linux", version, "there are no hooks for that version", cure))
    }

    /// The hooks of a version, in order.
    pub fn hooks(&self, version: &str) -> Result<Vec<Patch<'_>>> {
        Ok(self.listed(version)?.into_iter().filter_map(|(_, patch)| patch).collect())
    }

    /// A version's list of hooks.
    fn list(&self, version: &str) -> Result<String> {
        self.must_have(version)?;
        Ok(String::from_utf8_lossy(&self.0[&format!("hooks/{version}/series")]).into_owned())
    }

    /// The lines of a version's list: a group's name, and its patch unless the line only names the group.
    fn listed(&self, version: &str) -> Result<Vec<(String, Option<Patch<'_>>)>> {
        let folder = format!("hooks/{version}");
        let list = self.list(version)?;
        let mut current = CORE.to_string();
        let mut listed = Vec::new();
        for line in list.lines().map(str::trim) {
            if let Some(name) = group(line) {
                current = name.to_string();
                listed.push((current.clone(), None));
            } else if !line.is_empty() && !line.starts_with('#') {
                let found = self.0.get_key_value(&format!("{folder}/{line}"));
                let (path, text) = found.ok_or_else(|| {
                    let why = format!("its series names {line}, which is not there");
                    Error::on("read", folder.clone(), why, "take it out of the series, or add it")
                })?;
                listed.push((current.clone(), Some((&path[folder.len() + 1..], text.as_slice()))));
            }
        }
        Ok(listed)
    }

    /// The names of a version's groups, in the order in which a tree may have all of them.
    pub fn group_names(&self, version: &str) -> Result<Vec<String>> {
        Ok(self.groups(version)?.into_iter().map(|(name, _)| name).collect())
    }

    /// The groups of a version's hooks, `core` first, each with its hooks in order.
    fn groups(&self, version: &str) -> Result<Vec<(String, Vec<Patch<'_>>)>> {
        let mut groups = vec![(CORE.to_string(), Vec::new())];
        for (name, patch) in self.listed(version)? {
            let at = groups.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                groups.push((name, Vec::new()));
                groups.len() - 1
            });
            groups[at].1.extend(patch);
        }
        Ok(groups)
    }

    /// These groups, the ones that they need, and that those need.
    pub fn needed(&self, version: &str, groups: &[String]) -> Result<Vec<String>> {
        let list = self.list(version)?;
        let mut needed = groups.to_vec();
        let mut at = 0;
        while let Some(name) = needed.get(at).cloned() {
            let lines = list.lines().filter(|line| group(line) == Some(name.as_str()));
            let needs = lines.filter_map(|line| Some(line.split_once(" needs ")?.1.trim().to_string()));
            let new = needs.filter(|need| !needed.contains(need)).collect::<Vec<_>>();
            needed.extend(new);
            at += 1;
        }
        Ok(needed)
    }

    /// The new files by where they go in a kernel tree.
    pub fn new_files(&self) -> Vec<(String, &[u8])> {
        let place = |name: &str| match name.split_once('/')? {
            ("isolator", _) => Some(format!("kernel/{name}")),
            ("include" | "Documentation", _) => Some(name.to_string()),
            ("selftests", file) => Some(format!("tools/testing/selftests/isolator/{file}")),
            _ => None,
        };
        self.0.iter().filter_map(|(name, text)| Some((place(name)?, text.as_slice()))).collect()
    }

    /// The fragment `config/NAME.config`.
    pub fn fragment(&self, name: &str) -> Option<String> {
        let text = self.0.get(&format!("config/{name}.config"))?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// SHA-256 of all that a version's kernels are made of, which selftests and documents are not.
    pub fn digest(&self, version: &str) -> Result<String> {
        let mut files = self.new_files();
        files.retain(|(name, _)| !name.starts_with("tools/") && !name.starts_with("Documentation/"));
        let files = files.iter().flat_map(|(name, text)| [name.as_bytes(), text]);
        let hooks = self.hooks(version)?;
        let hooks = hooks.iter().flat_map(|(name, text)| [name.as_bytes(), text]);
        Ok(store::digest(&files.chain(hooks).collect::<Vec<_>>()))
    }

    /// Writes a series into a folder for `git quiltimport` or quilt: all groups, or those asked for, in a
    /// folder each. A group has a cover letter, its new files as a patch, and its hooks. Gives the patches'
    /// names.
    pub fn export(&self, version: &str, only: &[String], folder: &Path) -> Result<Vec<String>> {
        let groups = self.groups(version)?;
        if let Some(unknown) = only.iter().find(|only| groups.iter().all(|(group, _)| group != *only)) {
            let names = groups.iter().map(|(group, _)| group.as_str()).collect::<Vec<_>>().join(", ");
            let cure = format!("choose from {names}");
            return Err(Error::on("export the group", unknown, "there is no such group", cure));
        }
        let needed = self.needed(version, only)?;
        let first = groups[0].1.first().map(|(_, text)| Sender::of(text)).unwrap_or_default();
        let (mut patches, mut names, mut before) = (Vec::new(), Vec::new(), Vec::new());
        for (group, hooks) in &groups {
            if !only.is_empty() && !only.contains(group) {
                // A group that is sent alone is sent for a tree that has what it needs.
                before.extend(needed.contains(group).then_some(group.as_str()));
                continue;
            }
            let new = self.new_in(group, &before);
            before.push(group);
            let of = hooks.len() + usize::from(!new.is_empty());
            let mut own = Vec::new();
            for (name, text) in hooks {
                let name = name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
                own.push((name.to_string(), text.to_vec()));
            }
            if !new.is_empty() {
                // The core's hooks include its header, and its last one builds it. Another group's option
                // comes last, so that the tree builds after each patch.
                let at = if group == CORE { 0 } else { own.len() };
                let mail = first.mail(group, version, [at + 1, of], &new);
                own.insert(at, ("isolator-new-files.patch".to_string(), mail.into_bytes()));
            }
            if let Some(text) = self.0.get(&format!("covers/{group}")) {
                let letter = first.cover(&String::from_utf8_lossy(text), of);
                patches.push((format!("{group}/0000-cover-letter.patch"), letter.into_bytes()));
            }
            for (n, (name, text)) in own.into_iter().enumerate() {
                let name = format!("{group}/{:04}-{name}", n + 1);
                names.push(name.clone());
                patches.push((name, text));
            }
        }
        patches.push(("series".to_string(), (names.join("\n") + "\n").into_bytes()));
        for (name, text) in patches {
            let file = folder.join(name);
            let above = file.parent().unwrap_or(folder);
            fs::create_dir_all(above).map_err(|e| Error::io("make the folder", above, &e))?;
            evidence::writer::replace(&file, &text)?;
        }
        Ok(names)
    }

    /// A group's part of the new files, as a diff, in a tree that has the groups `before`.
    fn new_in(&self, group: &str, before: &[&str]) -> String {
        let makefile = self.0.get("isolator/Makefile").map(|text| String::from_utf8_lossy(text).into_owned());
        let builds = sections(makefile.as_deref().unwrap_or_default());
        let mut diff = String::new();
        for (path, text) in self.new_files() {
            let text = String::from_utf8_lossy(text);
            let name = path.rsplit('/').next().unwrap_or(&path);
            if path.starts_with("kernel/") && (name == "Kconfig" || name == "Makefile") {
                let parts = sections(&text);
                let of = |names: &[&str]| {
                    let parts = parts.iter().filter(|(part, _)| names.contains(part));
                    parts.map(|(_, text)| text.as_str()).collect::<String>()
                };
                let (had, more) = (of(before), of(&[group]));
                if group == CORE || !more.is_empty() {
                    add(&mut diff, &path, &had, &more);
                }
                continue;
            }
            let object = name.strip_suffix(".c").map(|name| format!("{name}.o"));
            let built = |(_, lines): &&(&str, String)| {
                lines.split_whitespace().any(|word| Some(word) == object.as_deref())
            };
            let owner = match path.starts_with("kernel/") {
                true => builds.iter().find(built).map_or(CORE, |(part, _)| part),
                false => CORE,
            };
            if owner == group {
                add(&mut diff, &path, "", &text);
            }
        }
        diff
    }
}

/// The parts of a file by their groups; what stands before the first such line is the core's.
fn sections(text: &str) -> Vec<(&str, String)> {
    let mut sections = vec![(CORE, String::new())];
    for line in text.split_inclusive('\n') {
        match group(line) {
            Some(name) => sections.push((name, String::new())),
            None => sections.last_mut().expect("there is one").1.push_str(line),
        }
    }
    sections
}

/// Appends to a diff that a file, which so far is `before`, gets `more` at its end.
fn add(diff: &mut String, path: &str, before: &str, more: &str) {
    let (had, gets) = (before.lines().count(), more.lines().count());
    let _ = writeln!(diff, "diff --git a/{path} b/{path}");
    if had == 0 {
        diff.push_str("new file mode 100644\n");
        if gets > 0 {
            let _ = writeln!(diff, "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{gets} @@");
        }
    } else {
        let context = had.min(3);
        let at = had - context + 1;
        let _ = writeln!(diff, "--- a/{path}\n+++ b/{path}\n@@ -{at},{context} +{at},{} @@", context + gets);
        before.lines().skip(had - context).for_each(|line| diff.extend([" ", line, "\n"]));
    }
    more.lines().for_each(|line| diff.extend(["+", line, "\n"]));
    if gets > 0 && !more.ends_with('\n') {
        diff.push_str("\\ No newline at end of file\n");
    }
}

/// The sender of the series: the author of the first hook.
#[derive(Default)]
struct Sender {
    from: Option<String>,
    signed: String,
}

impl Sender {
    fn of(hook: &[u8]) -> Sender {
        let text = String::from_utf8_lossy(hook);
        let line = |start: &str| text.lines().take(20).find(|line| line.starts_with(start));
        let from = line("From: ").zip(line("Date: ")).map(|(from, date)| format!("{from}\n{date}"));
        let signed = text.lines().find(|line| line.starts_with("Signed-off-by: "));
        Sender { from, signed: signed.map(|line| format!("\n{line}\n")).unwrap_or_default() }
    }

    fn head(&self) -> String {
        let from = self.from.as_deref().unwrap_or(FROM);
        format!("From {:040} Mon Sep 17 00:00:00 2001\n{from}\n", 0)
    }

    /// New files as a mail with a patch.
    fn mail(&self, group: &str, version: &str, [number, of]: [usize; 2], diff: &str) -> String {
        let (head, signed) = (self.head(), &self.signed);
        let (of_group, text) = match group {
            CORE => {
                let text = format!(
                    "The same files for every version of Linux; the hooks that follow are\n\
                     for {version}. Nothing is built before the hooks name them."
                );
                (String::new(), text)
            }
            _ => (format!(" of group {group}"), "An option, and the files that it builds.".to_string()),
        };
        format!(
            "{head}Subject: [PATCH {number}/{of}] isolator: new files{of_group}\n\n{text}\n{signed}---\n{diff}-- \nisolator\n"
        )
    }

    /// A cover letter, whose first line is its subject.
    fn cover(&self, text: &str, of: usize) -> String {
        let text = text.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
        let (subject, text) = text.trim_start().split_once('\n').unwrap_or((&text, ""));
        format!("{}Subject: [PATCH 0/{of}] {subject}\n{text}\n", self.head())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn made_of(files: &[(&str, &str)]) -> PatchSeries {
        PatchSeries::of(files.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())))
    }

    #[test]
    fn a_marked_line_is_of_its_versions_alone() {
        let series = made_of(&[
            ("hooks/series", "# versions: 6.12 7.2 7.4\na.patch\nb.patch\n"),
            ("hooks/a.patch", "all\n6.12|old\n7.2,7.4|new\n7.3| no mark\n a|b\n7.4|-- \n"),
            ("hooks/b.patch", "6.12|B\n"),
            ("hooks/7.4/b.patch", "its own\n"),
            ("hooks/5.4/series", "c.patch\n"),
            ("hooks/5.4/c.patch", "6.12|C"),
        ]);
        assert_eq!(series.versions(), ["5.4", "6.12", "7.2", "7.4"]);
        let hooks = |version: &str| {
            let text = |(_, text)| String::from_utf8_lossy(text).into_owned();
            series.hooks(version).unwrap().into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(hooks("6.12"), ["all\nold\n7.3| no mark\n a|b\n", "B\n"]);
        assert_eq!(hooks("7.2"), ["all\nnew\n7.3| no mark\n a|b\n", ""]);
        assert_eq!(hooks("7.4"), ["all\nnew\n7.3| no mark\n a|b\n-- \n", "its own\n"]);
        assert_eq!(hooks("5.4"), ["6.12|C"]);
    }

    #[test]
    fn files_go_where_the_kernel_has_them() {
        let series = made_of(&[
            ("README.md", ""),
            ("config/lab.config", "CONFIG_SMP=y\n"),
            ("hooks/6.12/series", "# order\nb.patch\n\n# group: more\na.patch\n"),
            ("hooks/6.12/a.patch", "A"),
            ("hooks/6.12/b.patch", "B"),
            ("include/uapi/linux/isolator.h", "H"),
            ("isolator/core.c", "C"),
            ("model/word.pml", "M"),
            ("selftests/errors.c", "E"),
        ]);
        let files = series.new_files().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let own = ["include/uapi/linux/isolator.h", "kernel/isolator/core.c"];
        assert_eq!(files, [&own[..], &["tools/testing/selftests/isolator/errors.c"]].concat());
        assert_eq!(series.hooks("6.12").unwrap(), [("b.patch", &b"B"[..]), ("a.patch", b"A")]);
        assert_eq!(series.fragment("lab").as_deref(), Some("CONFIG_SMP=y\n"));
        assert_eq!(
            series.hooks("5.4").unwrap_err().to_string(),
            "cannot build Linux 5.4: there are no hooks for that version; choose from 6.12, or port a series with --series"
        );
    }

    #[test]
    fn a_hook_that_is_named_but_not_there_is_an_error() {
        let series = made_of(&[("hooks/6.12/series", "gone.patch\n")]);
        assert_eq!(
            series.hooks("6.12").unwrap_err().to_string(),
            "cannot read hooks/6.12: its series names gone.patch, which is not there; take it out of the series, or add it"
        );
    }

    #[test]
    fn the_exported_series_applies_as_git_applies_patches() {
        let hook = "From 0 Mon Sep 17 00:00:00 2001\nFrom: A <a@b.c>\nDate: Fri, 2 Jan 2026 00:00:00 +0000\n\
                    Subject: [PATCH] hook\n\n---\ndiff --git a/Makefile b/Makefile\n--- a/Makefile\n+++ b/Makefile\n\
                    @@ -1 +1,2 @@\n all:\n+\ttrue\n";
        let series = made_of(&[
            ("hooks/6.12/series", "0007-hook.patch"),
            ("hooks/6.12/0007-hook.patch", hook),
            ("isolator/Makefile", ""),
            ("isolator/core.c", "int x;\n-int y;"),
        ]);
        let (folder, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let names = series.export("6.12", &[], folder.path()).unwrap();
        assert_eq!(names, ["core/0001-isolator-new-files.patch", "core/0002-hook.patch"]);
        fs::write(tree.path().join("Makefile"), "all:\n").unwrap();
        for name in names {
            let patch = fs::File::open(folder.path().join(&name)).unwrap();
            let patch = std::process::Command::new("patch")
                .args(["-p1", "-s", "-d"])
                .arg(tree.path())
                .stdin(patch)
                .output()
                .unwrap();
            assert!(patch.status.success(), "{name}: {patch:?}");
        }
        let read = |name: &str| fs::read_to_string(tree.path().join(name)).unwrap();
        assert_eq!(read("kernel/isolator/core.c"), "int x;\n-int y;");
        assert_eq!(read("Makefile"), "all:\n\ttrue\n");
        let first = fs::read_to_string(folder.path().join("core/0001-isolator-new-files.patch")).unwrap();
        assert!(first.contains("\nFrom: A <a@b.c>\nDate: Fri, 2 Jan 2026 00:00:00 +0000\n"), "{first}");
    }

    #[test]
    fn a_group_is_exported_with_its_own_files_and_options() {
        let series = made_of(&[
            ("covers/quiet", "# licence\nquiet: be quiet\n\nWhy.\n"),
            (
                "hooks/6.12/series",
                "# group: core\na.patch\nb.patch\n# group: owner needs core\nc.patch\n\
                 # group: quiet needs owner\n",
            ),
            ("hooks/6.12/a.patch", ""),
            ("hooks/6.12/b.patch", ""),
            ("hooks/6.12/c.patch", ""),
            ("isolator/Kconfig", "config A\n# group: owner\nconfig OWNER\n# group: quiet\nconfig QUIET\n"),
            ("isolator/Makefile", "obj-y += core.o\n# group: quiet\nobj-$(CONFIG_QUIET) += quiet.o\n"),
            ("isolator/core.c", "C\n"),
            ("isolator/quiet.c", "Q\n"),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let all = series.export("6.12", &[], folder.path()).unwrap();
        let core = ["core/0001-isolator-new-files.patch", "core/0002-a.patch", "core/0003-b.patch"];
        // The option of a group comes after what it switches on.
        let owner = ["owner/0001-c.patch", "owner/0002-isolator-new-files.patch"];
        assert_eq!(all, [&core[..], &owner, &["quiet/0001-isolator-new-files.patch"]].concat());
        assert!(fs::read_to_string(folder.path().join(owner[1])).unwrap().contains("Subject: [PATCH 2/2]"));
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(!read(core[0]).contains("QUIET") && !read(core[0]).contains("quiet.c"), "{}", read(core[0]));
        let alone = series.export("6.12", &["quiet".to_string()], folder.path()).unwrap();
        assert_eq!(alone, ["quiet/0001-isolator-new-files.patch"]);
        let patch = read(&alone[0]);
        assert!(
            patch.contains(
                "+++ b/kernel/isolator/Kconfig\n@@ -1,2 +1,3 @@\n config A\n config OWNER\n+config QUIET\n"
            ),
            "{patch}"
        );
        assert!(patch.contains("+++ b/kernel/isolator/quiet.c\n@@ -0,0 +1,1 @@\n+Q\n"), "{patch}");
        let cover = read("quiet/0000-cover-letter.patch");
        assert!(cover.ends_with("\nSubject: [PATCH 0/1] quiet: be quiet\n\nWhy.\n"), "{cover}");
        assert_eq!(
            series.export("6.12", &["loud".to_string()], folder.path()).unwrap_err().to_string(),
            "cannot export the group loud: there is no such group; choose from core, owner, quiet"
        );
    }
}

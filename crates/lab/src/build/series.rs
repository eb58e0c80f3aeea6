// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our part of a kernel: new files, configurations, and for each version the hooks in its own files. It is
//! the folder `kernel/` of the repository, which this program carries.
//!
//! ```text
//! isolator/…              goes to kernel/isolator/… of a kernel tree
//! include/…               goes to include/…
//! selftests/…             goes to tools/testing/selftests/isolator/…
//! config/NAME.config      fragments of configurations
//! hooks/VERSION/series    patches of the kernel's own files, in order
//! ```
//!
//! Other files there (model, audit, pages) is about the series and no part of it.

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

impl PatchSeries {
    /// The one that this program carries.
    pub fn own() -> PatchSeries {
        PatchSeries(EMBEDDED.iter().map(|(name, text)| (name.to_string(), text.to_vec())).collect())
    }

    /// That of a folder.
    pub fn read(folder: &Path) -> Result<PatchSeries> {
        let mut files = BTreeMap::new();
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
                    files.insert(name, fs::read(&path).map_err(|e| Error::io("read", &path, &e))?);
                }
            }
        }
        Ok(PatchSeries(files))
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
        self.must_have(version)?;
        let folder = format!("hooks/{version}");
        let list = String::from_utf8_lossy(&self.0[&format!("{folder}/series")]).into_owned();
        let names = list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        names
            .map(|name| {
                let found = self.0.get_key_value(&format!("{folder}/{name}"));
                let (path, text) = found.ok_or_else(|| {
                    let why = format!("its series names {name}, which is not there");
                    Error::on("read", folder.clone(), why, "take it out of the series, or add it")
                })?;
                Ok((&path[folder.len() + 1..], text.as_slice()))
            })
            .collect()
    }

    /// The new files by where they go in a kernel tree.
    pub fn new_files(&self) -> Vec<(String, &[u8])> {
        let place = |name: &str| match name.split_once('/')? {
            ("isolator", _) => Some(format!("kernel/{name}")),
            ("include", _) => Some(name.to_string()),
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

    /// SHA-256 of all that a version's kernels are made of; selftests are programs of their own.
    pub fn digest(&self, version: &str) -> Result<String> {
        let mut files = self.new_files();
        files.retain(|(name, _)| !name.starts_with("tools/"));
        let files = files.iter().flat_map(|(name, text)| [name.as_bytes(), text]);
        let hooks = self.hooks(version)?;
        let hooks = hooks.iter().flat_map(|(name, text)| [name.as_bytes(), text]);
        Ok(store::digest(&files.chain(hooks).collect::<Vec<_>>()))
    }

    /// Writes the whole series into a folder, for `git am` or quilt: the new files as its first patch, then
    /// the hooks. Gives the patches' names.
    pub fn export(&self, version: &str, folder: &Path) -> Result<Vec<String>> {
        let hooks = self.hooks(version)?;
        let new = self.as_patch(version, hooks.first().copied(), hooks.len() + 1);
        let mut patches = vec![("0001-isolator-new-files.patch".to_string(), new.into_bytes())];
        for (n, (name, text)) in hooks.iter().enumerate() {
            let name = name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
            patches.push((format!("{:04}-{name}", n + 2), text.to_vec()));
        }
        let names = patches.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        patches.push(("series".to_string(), (names.join("\n") + "\n").into_bytes()));
        fs::create_dir_all(folder).map_err(|e| Error::io("make the folder", folder, &e))?;
        for (name, text) in patches {
            evidence::writer::replace(&folder.join(name), &text)?;
        }
        Ok(names)
    }

    /// The new files as a mail with a patch; who wrote the first hook wrote them.
    fn as_patch(&self, version: &str, first: Option<Patch<'_>>, of: usize) -> String {
        let first = first.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).unwrap_or_default();
        let line = |start: &str| first.lines().take(20).find(|line| line.starts_with(start));
        let from = match (line("From: "), line("Date: ")) {
            (Some(from), Some(date)) => format!("{from}\n{date}"),
            _ => FROM.to_string(),
        };
        let signed = first.lines().find(|line| line.starts_with("Signed-off-by: "));
        let signed = signed.map(|line| format!("\n{line}\n")).unwrap_or_default();
        let mut text = format!(
            "From {:040} Mon Sep 17 00:00:00 2001\n{from}\nSubject: [PATCH 1/{of}] isolator: new files\n\n\
             The same files for every version of Linux; the hooks that follow are\n\
             for {version}. Nothing is built before the hooks name them.\n{signed}---\n",
            0
        );
        for (path, file) in self.new_files() {
            let file = String::from_utf8_lossy(file);
            let lines = file.lines().count();
            let header = format!("diff --git a/{path} b/{path}\nnew file mode 100644\n");
            text.push_str(&header);
            if lines > 0 {
                let _ = writeln!(text, "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{lines} @@");
                file.lines().for_each(|line| text.extend(["+", line, "\n"]));
                if !file.ends_with('\n') {
                    text.push_str("\\ No newline at end of file\n");
                }
            }
        }
        text + "-- \nisolator\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn made_of(files: &[(&str, &str)]) -> PatchSeries {
        PatchSeries(files.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn files_go_where_the_kernel_has_them() {
        let series = made_of(&[
            ("README.md", ""),
            ("config/lab.config", "CONFIG_SMP=y\n"),
            ("hooks/6.12/series", "# order\nb.patch\n\na.patch\n"),
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
        let names = series.export("6.12", folder.path()).unwrap();
        assert_eq!(names, ["0001-isolator-new-files.patch", "0002-hook.patch"]);
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
        let first = fs::read_to_string(folder.path().join("0001-isolator-new-files.patch")).unwrap();
        assert!(first.contains("\nFrom: A <a@b.c>\nDate: Fri, 2 Jan 2026 00:00:00 +0000\n"), "{first}");
    }
}

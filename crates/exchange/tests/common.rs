// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixtures, and short ways to their figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use evidence::{Bundle, Judge, Summary, Verdict};
use exchange::import::{import, parse, set_limit};

/// Output that is the end of another version's: before its `sysinfo` jitterdebugger wrote a version and the
/// figures, and a person may keep the table alone of what oslat prints.
static ENDS: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("others");
    fs::create_dir_all(&folder).unwrap();
    let end = |name: &str, head: &str, whole: &str, first: &str| {
        let whole = fs::read_to_string(Path::new(FIXTURES).join(whole)).unwrap();
        let end = &whole[whole.find(first).unwrap()..];
        fs::write(folder.join(name), format!("{head}{end}")).unwrap();
        folder.join(name)
    };
    vec![
        end("jitterdebugger-0.1.json", "{\n  \"version\": 1,\n", "jitterdebugger-0.3.1.json", "  \"cpu\""),
        end("oslat-2.6-table.txt", "", "oslat-2.6.txt", "    001 (us):"),
    ]
});

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/import");

/// The files of all tools' output.
pub fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(FIXTURES);
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = entries(folder).chain(entries(&folder.join("others"))).collect::<Vec<_>>();
    files.extend(ENDS.iter().cloned());
    files.retain(|path| path.is_file() && path.extension().is_some_and(|ending| ending != "md"));
    files.sort();
    files
}

pub fn path(name: &str) -> PathBuf {
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|file| file == name);
    fixtures().into_iter().find(is_it).unwrap_or_else(|| panic!("no fixture {name}"))
}

pub fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// The text of a fixture with `right` replaced by `wrong` at its first place.
pub fn changed(name: &str, right: &str, wrong: &str) -> String {
    let whole = text(name);
    assert!(whole.contains(right), "{name} has no {right}");
    whole.replacen(right, wrong, 1)
}

/// The lines of a fixture that `keep` takes.
pub fn lines(name: &str, keep: impl Fn(&str) -> bool) -> String {
    text(name).lines().filter(|line| keep(line)).map(|line| format!("{line}\n")).collect()
}

pub fn imported(name: &str) -> Bundle {
    import(&path(name)).unwrap()
}

pub fn read(text: &str) -> Bundle {
    parse(text, None).unwrap_or_else(|why| panic!("{why}: {text}"))
}

pub fn refused(text: &str) -> String {
    parse(text, None).unwrap_err()
}

/// The bundle by this limit, for a judge who knows what the file does not state.
pub fn limited(bundle: &mut Bundle, limit_ns: u64) {
    set_limit(bundle, Some(limit_ns));
    let accept = ["kernel-unknown", "machine-unknown", "load-unknown"].map(String::from).to_vec();
    Judge { accept: Some(accept), ..Judge::default() }.judge(bundle).unwrap();
}

pub fn judged(text: &str, limit_ns: u64) -> (Bundle, Verdict) {
    let mut bundle = read(text);
    limited(&mut bundle, limit_ns);
    let verdict = Verdict::of(&bundle);
    (bundle, verdict)
}

pub fn figures(bundle: &Bundle) -> Vec<Summary> {
    bundle.rows.iter().map(Summary::of).collect()
}

pub fn maxima_ns(bundle: &Bundle) -> Vec<u64> {
    bundle.rows.iter().map(|row| row.series.latency.max_ns()).collect()
}

pub fn codes(bundle: &Bundle) -> Vec<&str> {
    bundle.manifest.taints.iter().map(|taint| taint.code.as_str()).collect()
}

pub fn has_note(bundle: &Bundle, words: &str) -> bool {
    bundle.manifest.notes.iter().any(|note| note.contains(words))
}

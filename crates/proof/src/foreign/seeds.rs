// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seeds of mutations: the files in `fuzz/seeds`, fixtures of the crates, and files packed here.

use std::fs;
use std::path::{Path, PathBuf};

use fleet::synthetic::{FleetSize, files, write};

/// The seeds of a reader.
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seeds = below(&root.join("fuzz/seeds").join(name));
    match name {
        "bundle" => seeds.push(sections()),
        "archive" => seeds.extend(packed()),
        "store" => seeds.extend(tables()),
        "tail" => seeds.push(latencies()),
        "traces" => seeds.extend(["lttng", "lttng-lost"].map(|trace| folder(&root, trace))),
        _ => {}
    }
    seeds
}

fn below(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path()).collect();
    // The order of a folder is no order.
    paths.sort();
    let all = |path: &PathBuf| if path.is_dir() { below(path) } else { Vec::from_iter(fs::read(path)) };
    paths.iter().flat_map(all).collect()
}

const SMALL: FleetSize = FleetSize { cpus: 1, loads: 2, seconds: 9 };

/// A whole bundle as one text.
fn sections() -> Vec<u8> {
    joined(files(0, 0, 1.0, SMALL))
}

/// A folder of LTTng as one.
fn folder(root: &Path, trace: &str) -> Vec<u8> {
    let kernel = root.join("crates/ftrace/tests/fixtures").join(trace).join("kernel");
    let file = |name: &str| Some((name.to_string(), fs::read(kernel.join(name)).ok()?));
    joined(["metadata", "c_0"].into_iter().filter_map(file))
}

fn joined(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, bytes) in files {
        text.extend(format!("=== {name}\n").into_bytes());
        text.extend(bytes);
        text.push(b'\n');
    }
    text
}

fn packed() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().ok()?;
    let path = folder.path().join("a.tar.zst");
    write(&path, 0, 0, 1.0, SMALL).ok()?;
    fs::read(path).ok()
}

/// The tables of a store that are read again.
fn tables() -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().ok()?;
    let (bundle, store) = (folder.path().join("a.tar.zst"), folder.path().join("store"));
    write(&bundle, 0, 0, 1.0, SMALL).ok()?;
    fleet::store(&store, &[bundle], &evidence::Judge::default()).ok()?;
    fs::read(store.join("part-0001/bundles.parquet")).ok()
}

/// An exponential tail above 5 us, by its distribution function.
fn latencies() -> Vec<u8> {
    let pair = |step: u64| [5_000 + 25 * step, (60.0 * (-(step as f64) / 40.0).exp()).ceil() as u64];
    (0..400).flat_map(pair).flat_map(u64::to_be_bytes).collect()
}

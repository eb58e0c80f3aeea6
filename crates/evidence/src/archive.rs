// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle's files, be it a folder or the same folder in one `.tar.zst`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::error::{Error, Result};

/// No bundle unpacks to more than this; a larger one is refused.
const LARGEST: u64 = 1 << 30;

/// Where a bundle's files come from.
#[derive(Debug)]
pub(crate) enum Files {
    Folder(PathBuf),
    Archive(BTreeMap<String, Vec<u8>>),
}

impl Files {
    pub fn open(path: &Path) -> Result<Files> {
        let meta = fs::metadata(path).map_err(|e| Error::io("open the bundle", path, &e))?;
        if meta.is_dir() { Ok(Files::Folder(path.to_path_buf())) } else { unpack(path).map(Files::Archive) }
    }

    /// The bytes of a file, unpacked where only `NAME.zst` is there; `None` where neither is.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        if let Some(bytes) = self.raw(name)? {
            return Ok(Some(bytes));
        }
        let packed_name = format!("{name}.zst");
        let Some(packed) = self.raw(&packed_name)? else { return Ok(None) };
        Ok(Some(decompress(&packed)))
    }

    fn raw(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Files::Archive(files) => Ok(files.get(name).cloned()),
            Files::Folder(folder) => {
                let path = folder.join(name);
                match fs::read(&path) {
                    Ok(bytes) => Ok(Some(bytes)),
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(e) => Err(Error::io("read", &path, &e)),
                }
            }
        }
    }
}

/// Packs the bundle in `folder` into the file `archive` (`.tar.zst`).
pub fn pack(folder: &Path, archive: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::io("pack", folder, &e);
    let mut tar = tar::Builder::new(Vec::new());
    tar.mode(tar::HeaderMode::Deterministic);
    tar.append_dir_all(".", folder).map_err(failed)?;
    compressed(&tar.into_inner().map_err(failed)?, archive)
}

/// Packs a bundle whose files, by their names within its folder, are in memory.
pub fn pack_files(files: &BTreeMap<String, Vec<u8>>, archive: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::io("pack", archive, &e);
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, name, bytes.as_slice()).map_err(failed)?;
    }
    compressed(&tar.into_inner().map_err(failed)?, archive)
}

fn compressed(tar: &[u8], archive: &Path) -> Result<()> {
    crate::writer::replace(archive, &compress_to_vec(tar, CompressionLevel::Fastest))
}

fn unpack(path: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let cut = |_: std::io::Error| broken(path, "it was cut short or damaged");
    let file = File::open(path).map_err(|e| Error::io("open the bundle", path, &e))?;
    let decoder = StreamingDecoder::new(file).map_err(|_| broken(path, "it does not begin as one"))?;
    let mut tar = tar::Archive::new(decoder.take(LARGEST));
    let mut files = BTreeMap::new();
    for entry in tar.entries().map_err(cut)? {
        let mut entry = entry.map_err(cut)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(cut)?.to_string_lossy().trim_start_matches("./").to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(cut)?;
        files.insert(name, bytes);
    }
    Ok(files)
}

/// Of what was cut or damaged, the part before: who reads a series sees, as of one that is not packed, that its end
/// is missing.
fn decompress(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(decoder) = StreamingDecoder::new(packed) {
        let _ = decoder.take(LARGEST).read_to_end(&mut bytes);
    }
    bytes
}

fn broken(path: &Path, why: &str) -> Error {
    let cure = "give a bundle's folder or its .tar.zst; for another tool's file use isolator import";
    Error::new("open the bundle", path.display(), format!("it is no whole .tar.zst ({why})"), cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_file_that_was_cut_is_read_up_to_there() {
        let text = (0..50_000_u32).flat_map(|n| format!("{}\n", n * n).into_bytes()).collect::<Vec<_>>();
        let packed = compress_to_vec(text.as_slice(), CompressionLevel::Fastest);
        assert_eq!(decompress(&packed), text);
        for length in (0..packed.len()).step_by(packed.len() / 20) {
            let read = decompress(&packed[..length]);
            assert!(read.len() < text.len() && text.starts_with(&read), "{length}");
        }
    }
}

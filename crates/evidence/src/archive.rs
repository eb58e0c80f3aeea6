// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bundle's files, be it a folder or the same folder in one `.tar.zst`.
//!
//! A bundle may come from anywhere: files are read beneath its folder, through no link, as streams, and all
//! of them draw on one [`Allowance`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, PipeWriter, Read};
use std::path::{Path, PathBuf};
use std::thread;

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress};
use untrusted::{Allowance, FileType, Folder, Lines};

use crate::{Error, Result};

/// Longest document: `manifest.json` has the machine's snapshot, and some 700 bytes for each row.
const DOCUMENT: u64 = 16 << 20;

/// How deep folders are packed; a bundle has one level.
const DEPTH: usize = 8;

/// The time that every packed file bears, so that the same files give the same archive.
const PACKED_AT: u64 = 1_153_704_088;

/// Where a bundle's files come from, and what is left of its allowance.
#[derive(Debug)]
pub(crate) struct Files {
    path: PathBuf,
    from: From,
    allowance: Allowance,
}

#[derive(Debug)]
enum From {
    Folder(Folder),
    Archive(BTreeMap<String, Vec<u8>>),
}

/// A file of a bundle, as a stream.
type Stream<'a> = Box<dyn Read + 'a>;

impl Files {
    pub fn open(path: &Path) -> Result<Files> {
        let allowance = Allowance::of_a_bundle();
        let from = match Folder::open(path) {
            Ok(folder) => From::Folder(folder),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                From::Archive(unpack(path, &allowance)?)
            }
            Err(error) => return Err(Error::io("open the bundle", path, &error)),
        };
        Ok(Files { path: path.to_path_buf(), from, allowance })
    }

    /// Files that are in memory, by their names within the bundle.
    pub fn of(path: &Path, files: BTreeMap<String, Vec<u8>>) -> Files {
        Files { path: path.to_path_buf(), from: From::Archive(files), allowance: Allowance::of_a_bundle() }
    }

    /// The bytes of a document; `None` where it is not there.
    pub fn document(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(stream) = self.stream(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = stream.take(DOCUMENT + 1).read_to_end(&mut bytes);
        read.map_err(|e| Error::io("read", &self.path.join(name), &e))?;
        if bytes.len() as u64 > DOCUMENT {
            let (on, why) = (self.path.join(name), format!("it is longer than {} MiB", DOCUMENT >> 20));
            return Err(Error::on(
                "read",
                on.display(),
                why,
                "take the bundle again from where it was written",
            ));
        }
        Ok(Some(bytes))
    }

    /// The lines of a file, unpacked where only `NAME.zst` is there; `None` where neither is.
    pub fn lines(&self, name: &str) -> Result<Option<Lines<Stream<'_>>>> {
        Ok(self.stream(name)?.map(Lines::of))
    }

    /// Counts what is kept of the bundle.
    pub fn hold(&self, bytes: usize) -> Result<()> {
        self.allowance.hold(bytes).map_err(|e| self.too_large(&e))
    }

    /// Fails where the allowance did not suffice: what was taken for a file's end may not have been one.
    pub fn check(&self) -> Result<()> {
        self.allowance.check().map_err(|e| self.too_large(&e))
    }

    fn too_large(&self, error: &io::Error) -> Error {
        Error::on("open the bundle", self.path.display(), error, "measure fewer rows or less time in one run")
    }

    fn stream(&self, name: &str) -> Result<Option<Stream<'_>>> {
        if let Some(stream) = self.raw(name)? {
            return Ok(Some(stream));
        }
        let packed = self.raw(&format!("{name}.zst"))?;
        Ok(packed.map(|packed| Box::new(self.allowance.metered(Unpacked::of(packed))) as Stream))
    }

    fn raw(&self, name: &str) -> Result<Option<Stream<'_>>> {
        match &self.from {
            From::Archive(files) => {
                Ok(files.get(name).map(|bytes| Box::new(self.allowance.metered(bytes.as_slice())) as Stream))
            }
            From::Folder(folder) => match folder.file(name) {
                Ok(file) => Ok(Some(Box::new(self.allowance.metered(file)))),
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
                Err(e) => Err(Error::io("read", &self.path.join(name), &e)),
            },
        }
    }
}

/// Of what was cut or damaged, the part before: a reader of a series sees, as of one that is not packed, that
/// its end is missing.
struct Unpacked<R: Read>(Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>);

impl<R: Read> Unpacked<R> {
    fn of(packed: R) -> Self {
        Unpacked(StreamingDecoder::new(packed).ok())
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.as_mut().map_or(Ok(0), |decoder| decoder.read(buffer));
        read.or_else(|_| {
            self.0 = None;
            Ok(0)
        })
    }
}

/// Packs the bundle in `folder` into the file `archive` (`.tar.zst`). Only regular files are packed: what a
/// link leads to is no part of the bundle.
pub fn pack(folder: &Path, archive: &Path) -> Result<()> {
    let root = Folder::open(folder).map_err(|e| Error::io("pack", folder, &e))?;
    packed(archive, |tar| {
        let allowance = Allowance::of_a_bundle();
        append(tar, &root, Path::new(""), &allowance, 0)
    })
}

/// Packs a bundle whose files, by their names within its folder, are in memory.
pub fn pack_files(files: &BTreeMap<String, Vec<u8>>, archive: &Path) -> Result<()> {
    packed(archive, |tar| {
        files
            .iter()
            .try_for_each(|(name, bytes)| append_file(tar, name, bytes.len() as u64, &mut bytes.as_slice()))
    })
}

type Tar = tar::Builder<PipeWriter>;

/// Compresses in a thread of its own what `fill` puts into the archive, so that it is never there whole.
fn packed(archive: &Path, fill: impl FnOnce(&mut Tar) -> io::Result<()>) -> Result<()> {
    let failed = |e: io::Error| Error::io("pack", archive, &e);
    let (reader, writer) = io::pipe().map_err(failed)?;
    let bytes = thread::scope(|scope| {
        let compressor = scope.spawn(move || {
            let mut bytes = Vec::new();
            compress(reader, &mut bytes, CompressionLevel::Fastest);
            bytes
        });
        let mut tar = tar::Builder::new(writer);
        // The pipe is closed with the builder, and the thread ends.
        let filled = fill(&mut tar).and_then(|()| tar.into_inner().map(drop));
        let bytes = compressor.join().map_err(|_| io::Error::other("the compressor failed"));
        filled.and(bytes)
    });
    crate::writer::replace(archive, &bytes.map_err(failed)?)
}

fn append(
    tar: &mut Tar,
    folder: &Folder,
    below: &Path,
    allowance: &Allowance,
    depth: usize,
) -> io::Result<()> {
    for (name, kind) in folder.entries()? {
        let path = below.join(&name);
        match kind {
            FileType::RegularFile => {
                let file = folder.file(&name)?;
                let size = file.metadata()?.len();
                append_file(tar, path, size, &mut allowance.metered(file))?;
            }
            FileType::Directory if depth < DEPTH => {
                append(tar, &folder.folder(OsString::from(&name))?, &path, allowance, depth + 1)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn append_file(tar: &mut Tar, name: impl AsRef<Path>, size: u64, from: &mut dyn Read) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(PACKED_AT);
    header.set_cksum();
    let mut from = from.take(size);
    tar.append_data(&mut header, name, &mut from)?;
    if from.limit() > 0 {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "a file became shorter meanwhile"));
    }
    Ok(())
}

fn unpack(path: &Path, allowance: &Allowance) -> Result<BTreeMap<String, Vec<u8>>> {
    let cut = |_: io::Error| match allowance.check() {
        Ok(()) => broken(path, "it was cut short or damaged"),
        Err(why) => broken(path, &why.to_string()),
    };
    let file = untrusted::open(path).map_err(|e| Error::io("open the bundle", path, &e))?;
    let decoder = StreamingDecoder::new(allowance.metered(file))
        .map_err(|_| broken(path, "it does not begin as one"))?;
    let mut tar = tar::Archive::new(allowance.metered(decoder));
    let mut files = BTreeMap::new();
    for entry in tar.entries().map_err(cut)? {
        let entry = entry.map_err(cut)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().map_err(cut)?.to_string_lossy().trim_start_matches("./").to_string();
        let bytes = held(entry, allowance).map_err(cut)?;
        allowance.hold(name.len()).map_err(cut)?;
        files.insert(name, bytes);
    }
    Ok(files)
}

/// All of an entry, which may be longer than what stands for it in the archive.
fn held(mut entry: impl Read, allowance: &Allowance) -> io::Result<Vec<u8>> {
    const PART: u64 = 64 << 10;
    let mut bytes = Vec::new();
    loop {
        let read = entry.by_ref().take(PART).read_to_end(&mut bytes)?;
        if read == 0 {
            return Ok(bytes);
        }
        allowance.hold(read)?;
    }
}

fn broken(path: &Path, why: &str) -> Error {
    let cure = "give a bundle's folder or its .tar.zst; for another tool's file use isolator import";
    Error::on("open the bundle", path.display(), format!("it is not a complete .tar.zst ({why})"), cure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::compress_to_vec;

    fn decompress(packed: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Unpacked::of(packed).read_to_end(&mut bytes).unwrap();
        bytes
    }

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

    #[test]
    fn packs_no_targets_of_links() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("bundle");
        std::fs::create_dir_all(bundle.join("series")).unwrap();
        std::fs::create_dir(folder.path().join("far")).unwrap();
        std::fs::write(folder.path().join("far/secret"), "secret").unwrap();
        std::fs::write(bundle.join("manifest.json"), "{}").unwrap();
        std::fs::write(bundle.join("series/a.csv"), "1").unwrap();
        std::os::unix::fs::symlink("../../far/secret", bundle.join("series/b.csv")).unwrap();
        std::os::unix::fs::symlink("../far", bundle.join("more")).unwrap();
        let archive = folder.path().join("a.tar.zst");
        pack(&bundle, &archive).unwrap();
        let files = unpack(&archive, &Allowance::of_a_bundle()).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["manifest.json", "series/a.csv"]);
    }

    #[test]
    fn packs_regular_files_beneath_the_folder_alone() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let bundle = place.path().join("bundle");
        std::fs::create_dir_all(bundle.join("series")).unwrap();
        std::fs::create_dir_all(place.path().join("far/series")).unwrap();
        for path in ["far/secret", "far/series/s.csv", "bundle/manifest.json", "bundle/series/a.csv"] {
            std::fs::write(place.path().join(path), "text").unwrap();
        }
        let absolute = place.path().join("far/secret");
        for (name, target) in [
            ("absolute", absolute.to_str().unwrap()),
            ("up", "../far/secret"),
            ("itself", "itself"),
            ("nowhere", "absent"),
            ("device", "/dev/zero"),
            ("descriptor", "/proc/self/fd/0"),
            ("own", "manifest.json"),
            ("here", "."),
            ("host", "/etc"),
        ] {
            symlink(target, bundle.join(name)).unwrap();
            symlink(target, bundle.join("series").join(name)).unwrap();
        }
        let made = |program: &str, args: &[&str]| {
            std::process::Command::new(program).args(args).current_dir(&bundle).output().unwrap().status
        };
        assert!(made("mkfifo", &["series/pipe"]).success());
        let _socket = std::os::unix::net::UnixListener::bind(bundle.join("series/socket")).unwrap();
        // As root a device, elsewhere none.
        let _ = made("mknod", &["series/zero", "c", "1", "5"]);
        let archive = place.path().join("a.tar.zst");
        let packed = || {
            pack(&bundle, &archive).unwrap();
            unpack(&archive, &Allowance::of_a_bundle()).unwrap().into_keys().collect::<Vec<_>>()
        };
        assert_eq!(packed(), ["manifest.json", "series/a.csv"]);
        std::fs::rename(bundle.join("series"), place.path().join("old")).unwrap();
        symlink("../far/series", bundle.join("series")).unwrap();
        assert_eq!(packed(), ["manifest.json"]);
    }

    /// A frame of zstd that repeats `byte` in `blocks` blocks of 128 KiB each.
    fn repeated(byte: u8, blocks: usize) -> Vec<u8> {
        // Magic number, no content size, a window of 1 MiB.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50];
        for number in 1..=blocks {
            let header = (128u32 << 10) << 3 | 1 << 1 | u32::from(number == blocks);
            frame.extend(&header.to_le_bytes()[..3]);
            frame.push(byte);
        }
        frame
    }

    #[test]
    fn a_packed_series_draws_on_the_budget() {
        assert_eq!(decompress(&repeated(b'x', 3)), vec![b'x'; 3 << 17]);
        let name = "series/wakeup-idle-cpu1-1000us.seconds.csv";
        let files = BTreeMap::from([(format!("{name}.zst"), repeated(b'\n', 80))]);
        for (bytes, whole) in [(8 << 20, false), (16 << 20, true)] {
            let allowance = Allowance::new(bytes, 8 << 20);
            let files = Files { path: "b".into(), from: From::Archive(files.clone()), allowance };
            let mut read = files.lines(name).unwrap().unwrap();
            let mut lines = 0;
            while let Ok(Some(_)) = read.next_line() {
                lines += 1;
            }
            drop(read);
            assert_eq!((lines == 80 << 17, files.check().is_ok()), (whole, whole), "{lines}");
        }
    }

    #[test]
    fn refuses_an_archive_that_unpacks_to_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("a.tar.zst");
        let files = BTreeMap::from([("manifest.json".to_string(), vec![b' '; 3 << 20])]);
        pack_files(&files, &archive).unwrap();
        assert!(unpack(&archive, &Allowance::new(8 << 20, 8 << 20)).is_ok());
        for allowance in [Allowance::new(1 << 20, 8 << 20), Allowance::new(8 << 20, 1 << 20)] {
            let error = unpack(&archive, &allowance).unwrap_err().to_string();
            assert!(error.contains("than a bundle may"), "{error}");
        }
    }

    #[test]
    fn an_endless_run_of_empty_blocks_ends_at_the_budget() {
        // A frame header, then raw blocks of no bytes that are not the last: a sparse file is full of them.
        let head: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x00];
        let allowance = Allowance::new(1 << 20, 0);
        let endless = allowance.metered(head.chain(io::repeat(0)));
        let mut bytes = Vec::new();
        Unpacked::of(endless).read_to_end(&mut bytes).unwrap();
        assert!(bytes.is_empty() && allowance.check().is_err());
    }
}

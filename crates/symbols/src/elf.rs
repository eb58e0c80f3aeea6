// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of an ELF file that are used: segments, unwind tables, symbols and debug sections.
//!
//! A file may claim to have parts of gigabytes, in holes. Each part draws on the process' allowance before
//! its bytes are read, together with the memory that its entries will take; it is read once, and kept
//! without a copy.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use object::elf;
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader, Sym};
use object::{LittleEndian, Pod, pod};
use ruzstd::decoding::StreamingDecoder;
use untrusted::{Allowance, Cost};

use crate::table::{Symbol, SymbolTable};
use crate::usdt::{self, UsdtProbe};

type Header = elf::FileHeader64<LittleEndian>;
type Section = elf::SectionHeader64<LittleEndian>;
type Entry = elf::Sym64<LittleEndian>;

/// The machine that this program is compiled for.
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = elf::EM_AARCH64;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINE: u16 = elf::EM_NONE;

/// The sections with line information.
const DEBUG: [&str; 11] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_aranges",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_types",
];

/// A longer name of an import is cut; those of C++ can have some hundred bytes.
const LONGEST_IMPORT: usize = 256;

/// A part of the file that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedSegment {
    /// Its offset in the file.
    pub offset: u64,
    /// Its length in the file.
    pub file_size: u64,
    /// Its address in the file.
    pub address: u64,
    /// Its length in memory.
    pub size: u64,
    /// Whether it contains code.
    pub is_executable: bool,
}

/// A section with its address in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Its address.
    pub address: u64,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// The tables that unwind call stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnwindTables {
    /// `.eh_frame`
    pub eh_frame: Bytes,
    /// `.eh_frame_hdr`, an index of it.
    pub index: Bytes,
    /// Where `.text` begins.
    pub text: u64,
}

/// The used parts of a file.
#[derive(Debug, Default)]
pub struct Elf {
    /// Its segments.
    pub segments: Vec<LoadedSegment>,
    /// The unwind tables; `None` for code of another machine.
    pub unwind: Option<UnwindTables>,
    /// Its symbols: all, or in a stripped file those that other binaries use.
    pub symbols: SymbolTable,
    /// The names of functions and variables that it takes from other files.
    pub imports: BTreeSet<String>,
    /// Whether the other symbols were stripped.
    pub is_stripped: bool,
    /// Its USDT probes, one entry for each place.
    pub probes: Vec<UsdtProbe>,
    /// Whether it is a program or library of Go, whose linker writes down what it was built from.
    pub is_go: bool,
    /// The build ID, which identifies its separate file of debug information.
    pub build_id: Option<Vec<u8>>,
}

impl Elf {
    /// The offset in the file of an address in the file.
    pub fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|segment| {
            let within = address.checked_sub(segment.address).filter(|within| *within < segment.file_size)?;
            segment.offset.checked_add(within)
        })
    }
}

/// Reads a file; `None` if it is not a 64-bit ELF file, or exceeds the allowance.
pub fn read<F: Read + Seek>(file: F, allowance: &Allowance) -> Option<Elf> {
    let (header, sections) = open(file, allowance)?;
    let endian = LittleEndian;
    let headers: Vec<elf::ProgramHeader64<LittleEndian>> =
        sections.array(header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian))?;
    let segments = headers.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD).map(|segment| {
        LoadedSegment {
            offset: segment.p_offset(endian),
            file_size: segment.p_filesz(endian),
            address: segment.p_vaddr(endian),
            size: segment.p_memsz(endian),
            is_executable: segment.p_flags(endian) & elf::PF_X != 0,
        }
    });
    let mut elf = Elf { segments: segments.collect(), ..Elf::default() };
    if header.e_machine(endian) == MACHINE {
        elf.unwind = unwind_tables(&sections);
    }
    elf.is_stripped = sections.of_kind(elf::SHT_SYMTAB).is_none();
    // The larger one last, which has the symbols of the other, too.
    for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
        let table = || EntryTable::read(sections.of_kind(kind)?, &sections);
        let Some(table) = table() else { continue };
        elf.imports.extend(table.imports(allowance).unwrap_or_default());
        let has_all = kind == elf::SHT_SYMTAB || elf.is_stripped;
        if let Some(symbols) = has_all.then(|| table.symbols(&sections)).flatten() {
            elf.symbols = symbols;
        }
    }
    elf.build_id = build_id(&sections);
    elf.is_go = sections.named(".go.buildinfo").is_some();
    elf.probes = probes(&sections).unwrap_or_default();
    Some(elf)
}

/// The debug sections of a file, unpacked.
pub fn debug<F: Read + Seek>(file: F, allowance: &Allowance) -> Option<BTreeMap<&'static str, Arc<[u8]>>> {
    let (_, sections) = open(file, allowance)?;
    let mut found = BTreeMap::new();
    for name in DEBUG {
        if let Some(section) = sections.named(name) {
            found.insert(name, unpacked(section, &sections)?);
        }
    }
    found.contains_key(".debug_info").then_some(found)
}

/// A file's table of sections.
struct Sections<'a, F> {
    file: RefCell<F>,
    allowance: &'a Allowance,
    headers: Vec<Section>,
    names: Vec<u8>,
}

fn open<F: Read + Seek>(file: F, allowance: &Allowance) -> Option<(Header, Sections<'_, F>)> {
    let endian = LittleEndian;
    let (headers, names) = (Vec::new(), Vec::new());
    let mut sections = Sections { file: RefCell::new(file), allowance, headers, names };
    let bytes = sections.part(0, size_of::<Header>() as u64)?;
    let header = *Header::parse(bytes.as_slice()).ok()?;
    header.endian().ok()?;
    // Files with 65,280 sections or more state the number elsewhere, and are not read.
    sections.headers =
        sections.array(header.e_shoff(endian), header.e_shnum(endian), header.e_shentsize(endian))?;
    let names = sections.headers.get(usize::from(header.e_shstrndx(endian)));
    sections.names = names.and_then(|names| sections.bytes(names)).unwrap_or_default();
    Some((header, sections))
}

impl<F: Read + Seek> Sections<'_, F> {
    /// So many bytes of the file from `offset` on.
    fn part(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; self.seek(offset, size)?];
        self.file.borrow_mut().read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Goes to a part that the file has, and that is not too large.
    fn seek(&self, offset: u64, size: u64) -> Option<usize> {
        let mut file = self.file.borrow_mut();
        let is_there = file.seek(SeekFrom::End(0)).ok()? >= offset.checked_add(size)?;
        is_there.then(|| self.allowance.grant(Cost::Bytes, size))??;
        file.seek(SeekFrom::Start(offset)).ok()?;
        usize::try_from(size).ok()
    }

    /// A table of `count` headers.
    fn array<T: Pod>(&self, offset: u64, count: u16, size: u16) -> Option<Vec<T>> {
        if count == 0 {
            return Some(Vec::new());
        }
        (usize::from(size) == size_of::<T>()).then_some(())?;
        let bytes = self.part(offset, u64::from(count) * u64::from(size))?;
        pod::slice_from_all_bytes(&bytes).ok().map(<[T]>::to_vec)
    }

    fn bytes(&self, section: &Section) -> Option<Vec<u8>> {
        let endian = LittleEndian;
        let has_bytes = section.sh_type(endian) != elf::SHT_NOBITS;
        has_bytes.then(|| self.part(section.sh_offset(endian), section.sh_size(endian)))?
    }

    fn of_kind(&self, kind: u32) -> Option<&Section> {
        self.headers.iter().find(|section| section.sh_type(LittleEndian) == kind)
    }

    fn named(&self, name: &str) -> Option<&Section> {
        let is_it = |section: &&Section| {
            let rest = self.names.get(section.sh_name(LittleEndian) as usize..);
            rest.is_some_and(|rest| {
                rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
            })
        };
        self.headers.iter().find(is_it)
    }
}

fn unwind_tables<F: Read + Seek>(sections: &Sections<'_, F>) -> Option<UnwindTables> {
    let named = |name: &str| {
        let section = sections.named(name)?;
        Some(Bytes { address: section.sh_addr(LittleEndian), bytes: sections.bytes(section)? })
    };
    let eh_frame = named(".eh_frame")?;
    let index = named(".eh_frame_hdr").unwrap_or_default();
    let text = sections.named(".text").map_or(0, |section| section.sh_addr(LittleEndian));
    Some(UnwindTables { eh_frame, index, text })
}

/// A table of symbols with their names.
struct EntryTable {
    entries: Vec<u8>,
    strings: Vec<u8>,
    /// The version of each entry; empty for the table of all symbols, or without versions.
    versions: Vec<u8>,
}

impl EntryTable {
    fn read<F: Read + Seek>(table: &Section, sections: &Sections<'_, F>) -> Option<EntryTable> {
        let endian = LittleEndian;
        let count = table.sh_size(endian) / size_of::<Entry>() as u64;
        sections.allowance.grant(Cost::Symbols, count)?;
        // Two symbols of one address are kept twice.
        sections.allowance.grant(Cost::Bytes, count * 2 * size_of::<Symbol>() as u64)?;
        let strings = sections.headers.get(table.sh_link(endian) as usize)?;
        let is_for_others = table.sh_type(endian) == elf::SHT_DYNSYM;
        let versions = sections.of_kind(elf::SHT_GNU_VERSYM).filter(|_| is_for_others);
        Some(EntryTable {
            entries: sections.bytes(table)?,
            strings: sections.bytes(strings)?,
            versions: versions.and_then(|versions| sections.bytes(versions)).unwrap_or_default(),
        })
    }

    fn entries(&self) -> &[Entry] {
        pod::slice_from_all_bytes(&self.entries).unwrap_or_default()
    }

    fn symbols<F>(self, sections: &Sections<'_, F>) -> Option<SymbolTable> {
        let endian = LittleEndian;
        let versions: &[elf::Versym<LittleEndian>] =
            pod::slice_from_all_bytes(&self.versions).unwrap_or_default();
        let symbol = |(place, entry): (usize, &Entry)| {
            let is_function = match entry.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => true,
                // Some functions written in assembly have no type.
                elf::STT_NOTYPE => is_code(sections, entry),
                elf::STT_OBJECT | elf::STT_COMMON => false,
                _ => return None,
            };
            if entry.st_type() == elf::STT_NOTYPE && !is_function {
                return None;
            }
            let is_defined = entry.st_shndx(endian) != elf::SHN_UNDEF && entry.st_name(endian) != 0;
            is_defined.then_some(Symbol {
                address: entry.st_value(endian),
                size: entry.st_size(endian),
                name: entry.st_name(endian) as usize,
                is_function,
                rank: match entry.st_bind() {
                    elf::STB_GLOBAL => 0,
                    elf::STB_WEAK => 1,
                    _ => 2,
                },
                is_old: versions
                    .get(place)
                    .is_some_and(|version| version.0.get(endian) & elf::VERSYM_HIDDEN != 0),
            })
        };
        let symbols = self.entries().iter().enumerate().filter_map(symbol).collect();
        Some(SymbolTable::new(symbols, self.strings))
    }

    /// The names of the symbols that the file does not define, without their versions.
    fn imports(&self, allowance: &Allowance) -> Option<Vec<String>> {
        let endian = LittleEndian;
        let undefined = self.entries().iter().filter(|entry| entry.st_shndx(endian) == elf::SHN_UNDEF);
        let mut names = Vec::new();
        for entry in undefined {
            let rest = self.strings.get(entry.st_name(endian) as usize..).unwrap_or_default();
            let name = rest[..rest.len().min(LONGEST_IMPORT)].split(|byte| matches!(byte, 0 | b'@')).next();
            let name = String::from_utf8_lossy(name.unwrap_or_default());
            if !name.is_empty() {
                // The string, and its place in a list and in a set.
                allowance.grant(Cost::Bytes, (name.len() + 2 * size_of::<String>()) as u64)?;
                names.push(name.into_owned());
            }
        }
        Some(names)
    }
}

/// Whether a symbol is in a section of code.
fn is_code<F>(sections: &Sections<'_, F>, symbol: &Entry) -> bool {
    let section = sections.headers.get(usize::from(symbol.st_shndx(LittleEndian)));
    section.is_some_and(|section| section.sh_flags(LittleEndian) & u64::from(elf::SHF_EXECINSTR) != 0)
}

fn build_id<F: Read + Seek>(sections: &Sections<'_, F>) -> Option<Vec<u8>> {
    let section = sections.named(".note.gnu.build-id")?;
    // Size of the name, size of the digest, kind; "GNU" and a zero; the digest.
    let bytes = sections.bytes(section)?;
    let digest = bytes.get(16..)?;
    (2..=64).contains(&digest.len()).then(|| digest.to_vec())
}

fn probes<F: Read + Seek>(sections: &Sections<'_, F>) -> Option<Vec<UsdtProbe>> {
    let endian = LittleEndian;
    let section = sections.named(".note.stapsdt").filter(|notes| notes.sh_type(endian) == elf::SHT_NOTE)?;
    let base = sections.named(".stapsdt.base").map(|section| section.sh_addr(endian));
    let bytes = sections.bytes(section)?;
    let mut notes = NoteIterator::<Header>::new(endian, section.sh_addralign(endian), &bytes).ok()?;
    let mut probes = Vec::new();
    while let Ok(Some(note)) = notes.next() {
        let is_probe = note.name() == usdt::OWNER && note.n_type(endian) == usdt::VERSION;
        probes.extend(Some(note).filter(|_| is_probe).and_then(|note| usdt::probe(note.desc(), base)));
    }
    Some(probes)
}

/// A section's bytes, uncompressed (SHF_COMPRESSED of the ELF specification).
fn unpacked<F: Read + Seek>(section: &Section, sections: &Sections<'_, F>) -> Option<Arc<[u8]>> {
    let endian = LittleEndian;
    if section.sh_flags(endian) & u64::from(elf::SHF_COMPRESSED) == 0 {
        let has_bytes = section.sh_type(endian) != elf::SHT_NOBITS;
        let size = has_bytes.then(|| sections.seek(section.sh_offset(endian), section.sh_size(endian)))??;
        return filled(size, &mut *sections.file.borrow_mut());
    }
    let bytes = sections.bytes(section)?;
    let (header, packed) = pod::from_bytes::<elf::CompressionHeader64<LittleEndian>>(&bytes).ok()?;
    let size = header.ch_size.get(endian);
    sections.allowance.grant(Cost::Bytes, size)?;
    let size = usize::try_from(size).ok()?;
    match header.ch_type.get(endian) {
        elf::ELFCOMPRESS_ZLIB => filled(size, &mut ZlibDecoder::new(packed)),
        elf::ELFCOMPRESS_ZSTD => filled(size, &mut StreamingDecoder::new(packed).ok()?),
        _ => None,
    }
}

/// So many bytes as `from` has, in the place where they stay.
fn filled(size: usize, from: &mut dyn Read) -> Option<Arc<[u8]>> {
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, size).collect();
    from.read_exact(Arc::get_mut(&mut bytes)?).ok()?;
    Some(bytes)
}

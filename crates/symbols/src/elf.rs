// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of an ELF file that are used: segments, unwind tables, symbols and debug sections.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::read::{CompressionFormat, ReadCache, ReadRef};
use object::{LittleEndian, SectionIndex};
use ruzstd::decoding::StreamingDecoder;
use untrusted::{Allowance, Cost};

use crate::table::{Symbol, SymbolTable};
use crate::usdt::{self, UsdtProbe};

type Header = elf::FileHeader64<LittleEndian>;
type Section = elf::SectionHeader64<LittleEndian>;

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
    let data = &ReadCache::new(file);
    let (header, sections) = open(data, allowance)?;
    let endian = LittleEndian;
    let headers = header.program_headers(endian, data).ok()?;
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
        elf.unwind = unwind_tables(&sections, data, allowance);
    }
    let of_kind = |kind| sections.iter().find(|section| section.sh_type(endian) == kind);
    elf.is_stripped = of_kind(elf::SHT_SYMTAB).is_none();
    let tables = of_kind(elf::SHT_SYMTAB).or(of_kind(elf::SHT_DYNSYM));
    elf.symbols = tables.and_then(|table| symbols(&sections, table, data, allowance)).unwrap_or_default();
    let kinds = [elf::SHT_DYNSYM, elf::SHT_SYMTAB].into_iter();
    elf.imports =
        kinds.filter_map(of_kind).flat_map(|table| imports(&sections, table, data, allowance)).collect();
    elf.build_id = build_id(&sections, data, allowance);
    elf.probes = probes(&sections, data, allowance).unwrap_or_default();
    Some(elf)
}

/// The debug sections of a file, unpacked.
pub fn debug<F: Read + Seek>(file: F, allowance: &Allowance) -> Option<BTreeMap<&'static str, Arc<[u8]>>> {
    let data = &ReadCache::new(file);
    let (_, sections) = open(data, allowance)?;
    let mut found = BTreeMap::new();
    for name in DEBUG {
        if let Some((_, section)) = sections.section_by_name(LittleEndian, name.as_bytes()) {
            found.insert(name, unpacked(section, data, allowance)?.into());
        }
    }
    found.contains_key(".debug_info").then_some(found)
}

type Open<'a, R> = (&'a Header, SectionTable<'a, Header, R>);

fn open<'a, R: ReadRef<'a>>(data: R, allowance: &Allowance) -> Option<Open<'a, R>> {
    let header = Header::parse(data).ok()?;
    header.endian().ok()?;
    // Both tables have at most 65,535 entries of at most 64 bytes, but for a count in the first section.
    allowance.grant(Cost::Bytes, 2 * 64 * 65_535)?;
    let sections = header.section_headers(LittleEndian, data).ok()?;
    (sections.len() <= 65_535).then_some(())?;
    Some((header, header.sections(LittleEndian, data).ok()?))
}

fn bytes<'a, R: ReadRef<'a>>(section: &Section, data: R, allowance: &Allowance) -> Option<&'a [u8]> {
    if section.sh_type(LittleEndian) == elf::SHT_NOBITS {
        return None;
    }
    allowance.grant(Cost::Bytes, section.sh_size(LittleEndian))?;
    section.data(LittleEndian, data).ok()
}

fn unwind_tables<'a, R: ReadRef<'a>>(
    sections: &SectionTable<'a, Header, R>,
    data: R,
    allowance: &Allowance,
) -> Option<UnwindTables> {
    let named = |name: &str| {
        let (_, section) = sections.section_by_name(LittleEndian, name.as_bytes())?;
        let bytes = bytes(section, data, allowance)?.to_vec();
        Some(Bytes { address: section.sh_addr(LittleEndian), bytes })
    };
    let eh_frame = named(".eh_frame")?;
    let index = named(".eh_frame_hdr").unwrap_or_default();
    let text = sections.section_by_name(LittleEndian, b".text");
    let text = text.map_or(0, |(_, section)| section.sh_addr(LittleEndian));
    Some(UnwindTables { eh_frame, index, text })
}

fn symbols<'a, R: ReadRef<'a>>(
    sections: &SectionTable<'a, Header, R>,
    table: &Section,
    data: R,
    allowance: &Allowance,
) -> Option<SymbolTable> {
    let endian = LittleEndian;
    let strings = sections.section(SectionIndex(table.sh_link(endian) as usize)).ok()?;
    allowance.grant(Cost::Bytes, table.sh_size(endian))?;
    let entries: &[elf::Sym64<LittleEndian>] = table.data_as_array(endian, data).ok()?;
    allowance.grant(Cost::Symbols, entries.len() as u64)?;
    let strings = bytes(strings, data, allowance)?.to_vec();
    let versions = versions(sections, table, data, allowance);
    let symbol = |(place, entry): (usize, &elf::Sym64<LittleEndian>)| {
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
    Some(SymbolTable::new(entries.iter().enumerate().filter_map(symbol).collect(), strings))
}

/// The names of a table's symbols that the file does not define, without their versions.
fn imports<'a, R: ReadRef<'a>>(
    sections: &SectionTable<'a, Header, R>,
    table: &Section,
    data: R,
    allowance: &Allowance,
) -> Vec<String> {
    let endian = LittleEndian;
    let read = || {
        let strings = sections.section(SectionIndex(table.sh_link(endian) as usize)).ok()?;
        allowance.grant(Cost::Bytes, table.sh_size(endian))?;
        let entries: &[elf::Sym64<LittleEndian>] = table.data_as_array(endian, data).ok()?;
        let strings = bytes(strings, data, allowance)?;
        let undefined = entries.iter().filter(|entry| entry.st_shndx(endian) == elf::SHN_UNDEF);
        let name = |entry: &elf::Sym64<LittleEndian>| {
            let rest = strings.get(entry.st_name(endian) as usize..).unwrap_or_default();
            let name = rest[..rest.len().min(LONGEST_IMPORT)].split(|byte| matches!(byte, 0 | b'@')).next();
            String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
        };
        let names: Vec<String> = undefined.map(name).filter(|name| !name.is_empty()).collect();
        allowance.grant(Cost::Symbols, names.len() as u64)?;
        Some(names)
    };
    read().unwrap_or_default()
}

/// The version of each dynamic symbol; empty for the other table, or without versions.
fn versions<'a, R: ReadRef<'a>>(
    sections: &SectionTable<'a, Header, R>,
    table: &Section,
    data: R,
    allowance: &Allowance,
) -> &'a [elf::Versym<LittleEndian>] {
    let is_theirs = |section: &&Section| section.sh_type(LittleEndian) == elf::SHT_GNU_VERSYM;
    let is_for_others = table.sh_type(LittleEndian) == elf::SHT_DYNSYM;
    let section = sections.iter().find(is_theirs).filter(|_| is_for_others);
    let taken =
        section.filter(|section| allowance.grant(Cost::Bytes, section.sh_size(LittleEndian)).is_some());
    taken.and_then(|section| section.data_as_array(LittleEndian, data).ok()).unwrap_or_default()
}

/// Whether a symbol is in a section of code.
fn is_code<'a, R: ReadRef<'a>>(
    sections: &SectionTable<'a, Header, R>,
    symbol: &elf::Sym64<LittleEndian>,
) -> bool {
    let section = sections.section(SectionIndex(symbol.st_shndx(LittleEndian).into()));
    section.is_ok_and(|section| section.sh_flags(LittleEndian) & u64::from(elf::SHF_EXECINSTR) != 0)
}

fn build_id<'a, R: ReadRef<'a>>(
    sections: &SectionTable<'a, Header, R>,
    data: R,
    allowance: &Allowance,
) -> Option<Vec<u8>> {
    let (_, section) = sections.section_by_name(LittleEndian, b".note.gnu.build-id")?;
    // Size of the name, size of the digest, kind; "GNU" and a zero; the digest.
    let digest = bytes(section, data, allowance)?.get(16..)?;
    (2..=64).contains(&digest.len()).then(|| digest.to_vec())
}

fn probes<'a, R: ReadRef<'a>>(
    sections: &SectionTable<'a, Header, R>,
    data: R,
    allowance: &Allowance,
) -> Option<Vec<UsdtProbe>> {
    let (_, notes) = sections.section_by_name(LittleEndian, b".note.stapsdt")?;
    let base = sections.section_by_name(LittleEndian, b".stapsdt.base");
    let base = base.map(|(_, section)| section.sh_addr(LittleEndian));
    let mut probes = Vec::new();
    allowance.grant(Cost::Bytes, notes.sh_size(LittleEndian))?;
    let mut notes = notes.notes(LittleEndian, data).ok()??;
    while let Ok(Some(note)) = notes.next() {
        let is_probe = note.name() == usdt::OWNER && note.n_type(LittleEndian) == usdt::VERSION;
        probes.extend(Some(note).filter(|_| is_probe).and_then(|note| usdt::probe(note.desc(), base)));
    }
    Some(probes)
}

/// A section's bytes, uncompressed (SHF_COMPRESSED of the ELF specification).
fn unpacked<'a, R: ReadRef<'a>>(section: &Section, data: R, allowance: &Allowance) -> Option<Vec<u8>> {
    let packed = bytes(section, data, allowance)?;
    let Some((header, offset, _)) = section.compression(LittleEndian, data).ok()? else {
        return Some(packed.to_vec());
    };
    let start = offset.checked_sub(section.sh_offset(LittleEndian))?;
    let packed = packed.get(usize::try_from(start).ok()?..)?;
    let size = header.ch_size.get(LittleEndian);
    allowance.grant(Cost::Bytes, size)?;
    let mut unpacked = Vec::new();
    let format = match header.ch_type.get(LittleEndian) {
        elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => CompressionFormat::Unknown,
    };
    match format {
        CompressionFormat::Zlib => ZlibDecoder::new(packed).take(size).read_to_end(&mut unpacked).ok()?,
        CompressionFormat::Zstandard => {
            StreamingDecoder::new(packed).ok()?.take(size).read_to_end(&mut unpacked).ok()?
        }
        _ => return None,
    };
    Some(unpacked)
}

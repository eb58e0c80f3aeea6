// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions and USDT probes by name, in the executable mappings of a process.

use std::collections::{BTreeMap, BTreeSet};

use crate::elf::Elf;
use crate::files::{BinaryCode, HeldFile};
use crate::maps::{Mapping, VDSO};
use crate::process::ProcessCode;

/// A named place in code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPlace {
    /// The name of its file.
    pub binary: String,
    /// Its name, as in the file.
    pub name: String,
    /// The mapped file itself.
    pub file: HeldFile,
    /// The offset of the instruction in the file.
    pub offset: u64,
    /// The offset of the semaphore of a USDT probe in the file, if it has one.
    pub semaphore: Option<u64>,
}

/// The selected functions of one file of code.
#[derive(Debug)]
pub struct BinaryFunctions<T> {
    /// The file.
    pub file: HeldFile,
    /// Those that it defines, by their offsets in the file. Several names of one offset are one function.
    pub defined: BTreeMap<u64, T>,
    /// Those that it takes from other files.
    pub imported: Vec<T>,
    /// Whether it takes nothing from other files.
    pub is_static: bool,
}

impl ProcessCode {
    /// The functions with names, as in the file, for which `meant` has an answer, and the paths of files that
    /// cannot be read.
    pub fn functions<T>(
        &mut self,
        meant: impl Fn(&str) -> Option<T>,
    ) -> (Vec<BinaryFunctions<T>>, Vec<String>) {
        let (mut found, mut unread) = (Vec::new(), Vec::new());
        for place in self.selected(None) {
            let mapping = &self.mappings[place];
            let code = self.files.code(mapping).and_then(|code| Some((code, code.file.clone()?)));
            let Some((code, file)) = code else {
                unread.push(mapping.path.clone());
                continue;
            };
            let mut defined = BTreeMap::new();
            for (address, function) in code.elf.symbols.meant(&meant) {
                code.elf.offset(address).map(|offset| defined.entry(offset).or_insert(function));
            }
            let imported = code.elf.imports.iter().filter_map(|name| meant(name)).collect();
            found.push(BinaryFunctions { file, defined, imported, is_static: code.elf.imports.is_empty() });
        }
        (found, unread)
    }

    /// The functions of a name, as shown or as in the file. `binary` is its path, its name, or its name up to
    /// a dot: `libc`.
    pub fn functions_named(&mut self, binary: Option<&str>, name: &str) -> Vec<NamedPlace> {
        self.places(binary, |code| {
            let named = code.elf.symbols.named(name).into_iter();
            named.map(|function| (function.raw, function.address, None)).collect()
        })
    }

    /// The places of a USDT probe.
    pub fn probes_named(&mut self, binary: Option<&str>, provider: &str, name: &str) -> Vec<NamedPlace> {
        self.places(binary, |code| {
            let meant =
                code.elf.probes.iter().filter(|probe| probe.provider == provider && probe.name == name);
            meant.map(|probe| (format!("{provider}:{name}"), probe.address, probe.semaphore)).collect()
        })
    }

    /// The names of all functions, as they are shown.
    pub fn function_names(&mut self, binary: Option<&str>) -> BTreeSet<String> {
        self.each(binary, |_, code| code.elf.symbols.names().collect::<Vec<_>>())
            .into_iter()
            .flatten()
            .collect()
    }

    /// The names of all USDT probes, as `provider:name`.
    pub fn probe_names(&mut self, binary: Option<&str>) -> BTreeSet<String> {
        let names = |code: &BinaryCode| -> Vec<String> {
            code.elf.probes.iter().map(|probe| format!("{}:{}", probe.provider, probe.name)).collect()
        };
        self.each(binary, |_, code| names(code)).into_iter().flatten().collect()
    }

    /// Files that have names only for the functions that other files use.
    pub fn stripped(&mut self, binary: Option<&str>) -> Vec<String> {
        let of = self.each(binary, |place, code| (place, code.elf.is_stripped && !code.has_separate));
        let stripped = of.into_iter().filter(|(_, is_stripped)| *is_stripped);
        stripped.map(|(place, _)| self.mappings[place].name().to_string()).collect()
    }

    /// The first file with debug information in which a function of that name is inlined.
    pub fn inlined_in(&mut self, binary: Option<&str>, name: &str) -> Option<String> {
        let places = self.each(binary, |place, _| place);
        let place = places.into_iter().find(|place| self.files.is_inlined(&self.mappings[*place], name))?;
        Some(self.mappings[place].name().to_string())
    }

    /// The names of the files of code.
    pub fn binaries(&mut self, binary: Option<&str>) -> Vec<String> {
        let places = self.each(binary, |place, _| place);
        places.into_iter().map(|place| self.mappings[place].name().to_string()).collect()
    }

    /// For each file the results of `of`: name, address, and address of a semaphore, as in the file.
    fn places(
        &mut self,
        binary: Option<&str>,
        of: impl Fn(&BinaryCode) -> Vec<(String, u64, Option<u64>)>,
    ) -> Vec<NamedPlace> {
        let in_file = |elf: &Elf, (name, address, semaphore): (String, u64, Option<u64>)| {
            Some((name, elf.offset(address)?, semaphore.and_then(|address| elf.offset(address))))
        };
        let found = self.each(binary, |place, code| {
            let found = of(code).into_iter().filter_map(|found| in_file(&code.elf, found));
            (place, code.file.clone(), found.collect::<Vec<_>>())
        });
        let mut places = Vec::new();
        for (place, file, found) in found {
            let (mapping, Some(file)) = (&self.mappings[place], file) else { continue };
            places.extend(found.into_iter().map(|(name, offset, semaphore)| NamedPlace {
                binary: mapping.name().to_string(),
                name,
                file: file.clone(),
                offset,
                semaphore,
            }));
        }
        places
    }

    /// The selected files of code, each with its first mapping.
    fn each<T>(&mut self, binary: Option<&str>, of: impl Fn(usize, &BinaryCode) -> T) -> Vec<T> {
        let places = self.selected(binary).into_iter();
        places.filter_map(|place| Some(of(place, self.files.code(&self.mappings[place])?))).collect()
    }

    /// The first mappings of the selected files of code.
    fn selected(&self, binary: Option<&str>) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let is_meant = |mapping: &Mapping| {
            binary.is_none_or(|binary| is_called(&mapping.path, mapping.name(), binary))
                && mapping.is_executable
                && mapping.is_of_file()
                && mapping.file != VDSO
        };
        let mappings = self.mappings.iter().enumerate();
        let selected = mappings.filter(|(_, mapping)| is_meant(mapping) && seen.insert(mapping.file));
        selected.map(|(place, _)| place).collect()
    }
}

/// Whether `called` is a file's path, its name, or its name up to a dot.
fn is_called(path: &str, name: &str, called: &str) -> bool {
    path == called || name.strip_prefix(called).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_file_by_path_name_or_short_name() {
        let is = |called| is_called("/usr/lib/libservo.so.1.2", "libservo.so.1.2", called);
        assert!(
            is("/usr/lib/libservo.so.1.2") && is("libservo.so.1.2") && is("libservo.so") && is("libservo")
        );
        assert!(!is("libserv") && !is("servo") && !is("/lib/libservo.so.1.2") && !is("libservo.so.1.20"));
    }
}

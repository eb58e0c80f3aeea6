// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions and USDT probes by name, in the executable mappings of a process.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::elf::Elf;
use crate::files::BinaryCode;
use crate::maps::VDSO;
use crate::process::ProcessCode;

/// A named place in code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPlace {
    /// The name of its file.
    pub binary: String,
    /// Its name, as in the file.
    pub name: String,
    /// A path to the mapped file itself.
    pub file: PathBuf,
    /// The offset of the instruction in the file.
    pub offset: u64,
    /// The offset of the semaphore of a USDT probe in the file, if it has one.
    pub semaphore: Option<u64>,
}

impl ProcessCode {
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
            (place, found.collect::<Vec<_>>())
        });
        let mut places = Vec::new();
        for (place, found) in found {
            let mapping = &self.mappings[place];
            let file = self.files.path(mapping);
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
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for (place, mapping) in self.mappings.iter().enumerate() {
            let is_meant = binary.is_none_or(|binary| is_called(&mapping.path, mapping.name(), binary));
            if !mapping.is_executable || mapping.file == VDSO || !is_meant || !seen.insert(mapping.file) {
                continue;
            }
            all.extend(self.files.code(mapping).map(|code| of(place, code)));
        }
        all
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

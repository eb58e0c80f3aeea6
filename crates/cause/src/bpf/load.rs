// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the BPF part of any crate into the kernel, and explains why it cannot be loaded.
//!
use aya::maps::{Map, MapError};
use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};

use evidence::cause::Collector;

use super::types::KernelTypes;
use super::whole;
use crate::{Error, Result, policy};

/// The BPF part of a crate, built with this program.
#[derive(Debug)]
pub struct KernelPart {
    /// Its purpose, for errors: `watch with bpf`.
    pub what: &'static str,
    /// Its object file; empty where it was built without clang.
    pub object: &'static [u8],
    /// The same for a kernel whose programs cannot read its pointers directly.
    pub plain: &'static [u8],
    /// The cures without clang, without BTF, and without permission.
    pub cures: [&'static str; 3],
}

/// A BPF part in the kernel. It is unloaded when its file descriptors are closed, however this process ends.
pub struct LoadedPart {
    part: &'static KernelPart,
    types: &'static KernelTypes,
    programs: Ebpf,
}

const REPORT: &str = "report this as a defect";

impl KernelPart {
    /// Whether this program contains it.
    pub fn is_built_in(&self) -> bool {
        !self.object.is_empty()
    }

    /// An error of this part.
    pub fn cannot(&self, why: impl std::fmt::Display, cure: &str) -> Error {
        Error::new(self.what, why, cure)
    }

    /// An error that more permissions may prevent.
    pub fn refused(&self, why: impl std::fmt::Display) -> Error {
        self.cannot(why, self.cures[2])
    }

    /// Loads it, with values for some of its globals and lengths for some of its maps. Attaches no program.
    pub fn load(&'static self, globals: &[(&str, &[u8])], lengths: &[(&str, u32)]) -> Result<LoadedPart> {
        let [no_clang, no_btf, _] = self.cures;
        if !self.is_built_in() {
            return Err(self.cannot("this program was built without clang", no_clang));
        }
        policy::may_load(self.what, self.cures[2])?;
        // `EbpfLoader::new` reads the kernel's types (BTF, some 20 MB) and ignores a failure. Drop it before
        // reading them again to learn the reason for the failure.
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let types = KernelTypes::of_this_kernel().map_err(|why| self.cannot(why, no_btf))?;
        let btf = types.read().map_err(|why| self.cannot(why, no_btf))?;
        loader.btf(Some(&btf));
        for (name, value) in globals {
            loader.override_global(name, *value, true);
        }
        let of_types = types.globals();
        for (name, value) in &of_types {
            loader.override_global(name, *value, false);
        }
        for (name, length) in lengths {
            loader.map_max_entries(name, *length);
        }
        let programs = loader.load(if types.are_plain() { self.plain } else { self.object });
        let programs = programs
            .map_err(|error| self.refused(format!("the kernel refused its maps: {}", whole(&error))))?;
        Ok(LoadedPart { part: self, types, programs })
    }
}

impl LoadedPart {
    /// The name of this source of events.
    pub fn collector(&self) -> Collector {
        if self.types.are_from_elsewhere() { Collector::BpfFoundTypes } else { Collector::Bpf }
    }

    /// Takes one of its maps; only once each.
    pub fn map<T: TryFrom<Map, Error = MapError>>(&mut self, name: &str) -> Result<T> {
        let map = self.programs.take_map(name);
        let map = map.ok_or_else(|| self.part.cannot(format!("it has no map {name}"), REPORT))?;
        T::try_from(map).map_err(|error| {
            self.part.cannot(format!("a map has another type than expected: {}", whole(&error)), REPORT)
        })
    }

    /// One of its programs.
    pub fn program<'a, T>(&'a mut self, name: &str) -> Result<&'a mut T>
    where
        &'a mut T: TryFrom<&'a mut Program, Error = ProgramError>,
    {
        let program = self.programs.program_mut(name).and_then(|program| program.try_into().ok());
        program.ok_or_else(|| self.part.cannot(format!("it has no program {name}"), REPORT))
    }

    /// Attaches programs to the tracepoints of the same names, or to the begin of functions; to the end of
    /// those whose names end in `_exit`. Each of `taps` is a name, and the events that are not seen without
    /// it. Returns a sentence for each that the kernel refused. An empty text marks one that is required: its
    /// refusal is an error.
    pub fn attach(&mut self, taps: &[(&str, &str)]) -> Result<Vec<String>> {
        let mut could_not_see = Vec::new();
        let mut types = None;
        for (name, without) in taps {
            let program = self.programs.program_mut(name);
            let attached = match program {
                Some(program) => attach(program, name, &mut types),
                // No program can be attached to a function there.
                None if self.types.are_plain() => Err(ProgramError::UnexpectedProgramType),
                None => return Err(self.part.cannot(format!("it has no program {name}"), REPORT)),
            };
            match attached {
                Ok(()) => {}
                Err(error) if without.is_empty() => {
                    let why = format!("the kernel refused {name}: {}", whole(&error));
                    return Err(self.part.refused(why));
                }
                Err(_) if could_not_see.iter().any(|line: &String| line.starts_with(without)) => {}
                Err(error) => {
                    could_not_see.push(format!("{without}: this kernel refused {name} ({})", whole(&error)));
                }
            }
        }
        Ok(could_not_see)
    }
}

/// Attaches a program. Where it needs the kernel's types it reads them, once.
fn attach(
    program: &mut Program,
    name: &str,
    types: &mut Option<Btf>,
) -> std::result::Result<(), ProgramError> {
    let of_kernel = || match types {
        Some(types) => Ok(&*types),
        none => Btf::from_sys_fs().map(|read| &*none.insert(read)),
    };
    match program {
        Program::BtfTracePoint(program) => {
            program.load(name, of_kernel()?)?;
            program.attach().map(drop)
        }
        Program::FEntry(program) => {
            program.load(name, of_kernel()?)?;
            program.attach().map(drop)
        }
        Program::FExit(program) => {
            program.load(name.trim_end_matches("_exit"), of_kernel()?)?;
            program.attach().map(drop)
        }
        Program::RawTracePoint(program) => {
            program.load()?;
            program.attach(name).map(drop)
        }
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a kernel part, of whichever crate, gets into the kernel, and what it says where it cannot.
//!
use aya::maps::{Map, MapError};
use aya::programs::{Program, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};

use super::whole;
use crate::{Error, Result, policy};

/// A kernel part of this very build.
#[derive(Debug)]
pub struct KernelPart {
    /// What it is there for: `watch with bpf`.
    pub what: &'static str,
    /// Its object file; empty where it was built without clang.
    pub object: &'static [u8],
    /// What to do where there is no clang, no BTF, and no permission.
    pub cures: [&'static str; 3],
}

/// A kernel part in the kernel: it goes with the file descriptors that hold it, whatever ends this process.
pub struct LoadedPart {
    part: &'static KernelPart,
    programs: Ebpf,
}

const REPORT: &str = "report this as a defect";

impl KernelPart {
    /// Whether this program has it in it.
    pub fn is_built_in(&self) -> bool {
        !self.object.is_empty()
    }

    /// An error of it.
    pub fn cannot(&self, why: impl std::fmt::Display, cure: &str) -> Error {
        Error::new(self.what, why, cure)
    }

    /// An error that more permissions may help against.
    pub fn refused(&self, why: impl std::fmt::Display) -> Error {
        self.cannot(why, self.cures[2])
    }

    /// Loads it, with the values of some of its globals and the lengths of some of its maps. Nothing is
    /// attached yet.
    pub fn load(&'static self, globals: &[(&str, &[u8])], lengths: &[(&str, u32)]) -> Result<LoadedPart> {
        let [no_clang, no_btf, _] = self.cures;
        if !self.is_built_in() {
            return Err(self.cannot("this program was built without clang", no_clang));
        }
        policy::may_load(self.what, self.cures[2])?;
        // A new loader has read the kernel's description of its types (BTF), and takes none for an answer. It
        // is some 20 MB, so it goes before it is read again, for the reason why it cannot be.
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        let btf = Btf::from_sys_fs().map_err(|error| {
            self.cannot(format!("this kernel does not describe itself (BTF): {}", whole(&error)), no_btf)
        })?;
        loader.btf(Some(&btf));
        for (name, value) in globals {
            loader.override_global(name, *value, true);
        }
        for (name, length) in lengths {
            loader.map_max_entries(name, *length);
        }
        let programs = loader.load(self.object);
        let programs = programs
            .map_err(|error| self.refused(format!("the kernel refused its maps: {}", whole(&error))))?;
        Ok(LoadedPart { part: self, programs })
    }
}

impl LoadedPart {
    /// One of its maps, which is not to be asked for again.
    pub fn map<T: TryFrom<Map, Error = MapError>>(&mut self, name: &str) -> Result<T> {
        let map = self.programs.take_map(name);
        let map = map.ok_or_else(|| self.part.cannot(format!("it has no map {name}"), REPORT))?;
        T::try_from(map).map_err(|error| {
            self.part.cannot(format!("a map is not as it should be: {}", whole(&error)), REPORT)
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

    /// Attaches programs to the tracepoints of the same names: each of `taps` is a name, and what is not seen
    /// without it. What the kernel refused, in sentences; an error where nothing is said of it, since without
    /// that one nothing is seen.
    pub fn attach(&mut self, taps: &[(&str, &str)]) -> Result<Vec<String>> {
        let mut could_not_see = Vec::new();
        let mut types = None;
        for (name, without) in taps {
            let program = self.programs.program_mut(name);
            let program =
                program.ok_or_else(|| self.part.cannot(format!("it has no program {name}"), REPORT))?;
            match attach(program, name, &mut types) {
                Ok(()) => {}
                Err(error) if without.is_empty() => {
                    let why = format!("the kernel refused {name}: {}", whole(&error));
                    return Err(self.part.refused(why));
                }
                Err(error) => {
                    could_not_see.push(format!("{without}: this kernel refused {name} ({})", whole(&error)));
                }
            }
        }
        Ok(could_not_see)
    }
}

/// Attaches a program; of one that knows the types of what it is given, the kernel's types are read once.
fn attach(
    program: &mut Program,
    name: &str,
    types: &mut Option<Btf>,
) -> std::result::Result<(), ProgramError> {
    match program {
        Program::BtfTracePoint(program) => {
            if types.is_none() {
                *types = Some(Btf::from_sys_fs()?);
            }
            if let Some(types) = types {
                program.load(name, types)?;
            }
            program.attach().map(drop)
        }
        Program::RawTracePoint(program) => {
            program.load()?;
            program.attach(name).map(drop)
        }
        _ => Err(ProgramError::UnexpectedProgramType),
    }
}

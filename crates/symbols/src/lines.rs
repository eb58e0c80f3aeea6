// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions and lines of a binary's debug information (DWARF), the inlined functions too.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use addr2line::Context;
use gimli::{AttributeValue, Dwarf, Reader, SectionId};

use crate::counted::{CountedReader, ReadsLeft};
use crate::table::readable;

/// The most reads of one binary's debug information: a program of ten million lines needs a part of them.
const READS: u64 = 100_000_000;

/// The deepest nesting of inlined functions.
const DEEPEST: usize = 64;

/// A function at an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourcePlace {
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
}

/// Whether debug information says that a function of that name was inlined anywhere.
pub fn is_inlined(sections: &BTreeMap<&'static str, Arc<[u8]>>, name: &str) -> bool {
    let left = ReadsLeft::new(READS);
    let section = |id: SectionId| {
        let bytes = sections.get(id.name()).cloned().unwrap_or_default();
        Ok::<_, gimli::Error>(CountedReader::new(bytes, &left))
    };
    // A panic of a library must not end this program.
    let looked = catch_unwind(AssertUnwindSafe(|| has_inlined(&Dwarf::load(section)?, name)));
    looked.is_ok_and(|found| found.unwrap_or(false))
}

fn has_inlined(dwarf: &Dwarf<CountedReader>, name: &str) -> gimli::Result<bool> {
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let unit = dwarf.unit(header)?;
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let how = entry.attr_value(gimli::DW_AT_inline);
            let is_inlined = matches!(
                how,
                Some(AttributeValue::Inline(gimli::DW_INL_inlined | gimli::DW_INL_declared_inlined))
            );
            let Some(called) = entry.attr_value(gimli::DW_AT_name).filter(|_| is_inlined) else { continue };
            if dwarf.attr_string(&unit, called)?.to_string_lossy()? == name {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The debug information of a binary.
pub struct DebugLines {
    context: Context<CountedReader>,
    left: ReadsLeft,
}

impl std::fmt::Debug for DebugLines {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("DebugLines").finish_non_exhaustive()
    }
}

impl DebugLines {
    /// Of these sections; `None` where they are damaged.
    pub fn new(sections: &BTreeMap<&'static str, Arc<[u8]>>) -> Option<DebugLines> {
        let left = ReadsLeft::new(READS);
        let section = |id: SectionId| {
            let bytes = sections.get(id.name()).cloned().unwrap_or_default();
            Ok::<_, gimli::Error>(CountedReader::new(bytes, &left))
        };
        // A panic of a library must not end this program.
        let context = catch_unwind(AssertUnwindSafe(|| Context::from_dwarf(Dwarf::load(section)?)));
        context.ok()?.ok().map(|context| DebugLines { context, left })
    }

    /// Whether it was given up, since it needs too many reads.
    pub fn is_given_up(&self) -> bool {
        self.left.is_used_up()
    }

    /// The functions at an address in the file, innermost first.
    pub fn places(&self, address: u64) -> Vec<SourcePlace> {
        if self.left.is_used_up() {
            return Vec::new();
        }
        catch_unwind(AssertUnwindSafe(|| self.look(address))).unwrap_or_default()
    }

    fn look(&self, address: u64) -> Vec<SourcePlace> {
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else { return Vec::new() };
        let mut places = Vec::new();
        while let (true, Ok(Some(frame))) = (places.len() < DEEPEST, frames.next()) {
            let name = frame
                .function
                .and_then(|function| function.name.to_string_lossy().ok().map(|name| readable(&name)));
            let location = frame.location;
            places.push(SourcePlace {
                function: name,
                file: location.as_ref().and_then(|location| location.file).map(str::to_string),
                line: location.and_then(|location| location.line).filter(|line| *line > 0),
            });
        }
        places
    }
}

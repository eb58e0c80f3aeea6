// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begin and end of a cycle as places of a program (`--begin`, `--end`), and their addresses.
//!
//! ```text
//! step                      the entry of the function
//! libservo.so:step          the function of this library
//! uretprobe:step            its return
//! usdt:servo:cycle_begin    a USDT probe, by provider and name; also usdt:BINARY:servo:cycle_begin
//! ```
//! The syntax is bpftrace's. `::` belongs to a name, in C++ and Rust.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use symbols::{NamedPlace, ProcessCode};

use crate::{Error, Result};

/// The most names that are suggested, the least similarity of the first, and the largest distance of the
/// others to it.
const OFFERED: usize = 3;
const ALIKE: f64 = 0.8;
const AS_ALIKE: f64 = 0.02;

/// A place of a program, as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceName {
    /// Its file, if the user names it.
    binary: Option<String>,
    what: NamedCode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NamedCode {
    Function { name: String, is_return: bool },
    Probe { provider: String, name: String },
}

/// The begin and end of cycles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CycleBounds {
    begin: PlaceName,
    end: PlaceName,
    /// Whether the user named the end too.
    is_end_given: bool,
}

/// The places of a name in a process.
#[derive(Debug, Clone)]
pub(crate) struct FoundPlaces {
    /// There may be several, of a function that was compiled several times and of a probe.
    pub places: Vec<NamedPlace>,
    /// Whether it is the return of the function.
    pub is_return: bool,
    /// Its shown name: `servo!step`.
    pub shown: String,
}

impl CycleBounds {
    /// From one place to another; without an end, to the return of the function.
    pub fn new(begin: PlaceName, end: Option<PlaceName>) -> std::result::Result<CycleBounds, String> {
        let is_end_given = end.is_some();
        let end = match (end, &begin.what) {
            (Some(end), _) if end == begin => {
                return Err(format!("a cycle cannot begin and end at {begin}; give another place to --end"));
            }
            (Some(end), _) => end,
            (None, NamedCode::Function { name, is_return: false }) => {
                let what = NamedCode::Function { name: name.clone(), is_return: true };
                PlaceName { what, ..begin.clone() }
            }
            (None, _) => {
                return Err(format!("{begin} is not a function and has no return; give --end"));
            }
        };
        Ok(CycleBounds { begin, end, is_end_given })
    }

    /// Where a cycle begins.
    pub fn begin(&self) -> &PlaceName {
        &self.begin
    }

    /// The places of both in a process, the begin first.
    pub(crate) fn find(&self, process: u32) -> Result<[FoundPlaces; 2]> {
        let mut code = ProcessCode::open(process)?;
        let mut find = |place: &PlaceName| place.find(&mut code, process);
        let mut found = [find(&self.begin)?, find(&self.end)?];
        if !self.is_end_given {
            self.check_return(&mut code, &found[0])?;
        }
        // A function's own return needs no name of its own.
        if self.end.is_return_of(&self.begin) {
            found[1].shown = format!("the return of {}", found[0].shown);
        }
        Ok(found)
    }

    /// Refuses a return probe that the user did not name, if it may end the program. The kernel replaces the
    /// function's return address by one of its own. Code that unwinds the stack for an exception, or moves
    /// the stack, finds no function there.
    fn check_return(&self, code: &mut ProcessCode, begin: &FoundPlaces) -> Result<()> {
        let why = match () {
            () if !code.functions_named(None, "__cxa_throw").is_empty() => {
                "an exception of C++ that leaves it would end the program"
            }
            () if !code.functions_named(None, "runtime.morestack").is_empty() => {
                "Go moves its stacks, and would end the program"
            }
            () => return Ok(()),
        };
        let what = format!("end cycles where {} returns", begin.shown);
        let cure = format!("give --end another place, or {} where that cannot be", self.end);
        Err(Error::new(what, why, cure))
    }

    /// The shown text of both: the end only if it is not the return of the function.
    pub(crate) fn shown(&self, [begin, end]: &[FoundPlaces; 2]) -> String {
        match self.end.is_return_of(&self.begin) {
            true => format!("begin {}", begin.shown),
            false => format!("begin {}, end {}", begin.shown, end.shown),
        }
    }
}

impl FromStr for PlaceName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<PlaceName, String> {
        let odd = || {
            format!(
                "{text:?} is not a place; give FUNCTION, LIBRARY:FUNCTION, uretprobe:FUNCTION or usdt:PROVIDER:NAME"
            )
        };
        let parts = parts(text);
        if parts.iter().any(|part| part.is_empty()) {
            return Err(odd());
        }
        let function = |binary: Option<&&str>, name: &&str, is_return| PlaceName {
            binary: binary.map(ToString::to_string),
            what: NamedCode::Function { name: name.to_string(), is_return },
        };
        let probe = |binary: Option<&&str>, provider: &&str, name: &&str| PlaceName {
            binary: binary.map(ToString::to_string),
            what: NamedCode::Probe { provider: provider.to_string(), name: name.to_string() },
        };
        Ok(match &parts[..] {
            ["usdt", provider, name] => probe(None, provider, name),
            ["usdt", binary, provider, name] => probe(Some(binary), provider, name),
            ["uretprobe", name] => function(None, name, true),
            ["uretprobe", binary, name] => function(Some(binary), name, true),
            ["uprobe", name] | [name] => function(None, name, false),
            ["uprobe", binary, name] => function(Some(binary), name, false),
            ["usdt", _] => return Err(odd()),
            [binary, name] => function(Some(binary), name, false),
            _ => return Err(odd()),
        })
    }
}

/// Splits at single colons.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices(':') {
        let is_double = bytes.get(at + 1) == Some(&b':') || (at > 0 && bytes[at - 1] == b':');
        if !is_double {
            parts.push(&text[from..at]);
            from = at + 1;
        }
    }
    parts.push(&text[from..]);
    parts
}

impl PlaceName {
    fn is_return_of(&self, begin: &PlaceName) -> bool {
        let of = |place: &PlaceName| match &place.what {
            NamedCode::Function { name, is_return } => Some((place.binary.clone(), name.clone(), *is_return)),
            NamedCode::Probe { .. } => None,
        };
        of(self)
            .zip(of(begin))
            .is_some_and(|(end, begin)| (&end.0, &end.1, end.2) == (&begin.0, &begin.1, true) && !begin.2)
    }

    fn find(&self, code: &mut ProcessCode, process: u32) -> Result<FoundPlaces> {
        let cannot =
            |why: String, cure: String| Err(Error::on(format!("find {self} in process"), process, why, cure));
        let binary = self.binary.as_deref();
        let files = code.binaries(binary);
        let Some(first) = files.first() else {
            let all: BTreeSet<String> = code.binaries(None).into_iter().collect();
            if all.is_empty() {
                let cure = "run as root, or with CAP_SYS_ADMIN and CAP_SYS_PTRACE";
                return cannot("its files of code cannot be read".into(), cure.into());
            }
            return cannot(
                "the process has mapped no such file of code".into(),
                format!("choose one of {}", list(&all)),
            );
        };
        let (places, is_return) = match &self.what {
            NamedCode::Function { name, is_return } => (code.functions_named(binary, name), *is_return),
            NamedCode::Probe { provider, name } => (code.probes_named(binary, provider, name), false),
        };
        if places.is_empty() {
            let (why, cure) = self.missing(code, first);
            return cannot(why, cure);
        }
        let files: BTreeSet<String> = places.iter().map(|place| place.binary.clone()).collect();
        if files.len() > 1 {
            let cure =
                files.iter().map(|file| self.within(file).to_string()).collect::<Vec<_>>().join(" or ");
            return cannot(
                format!("{} have this function", files.into_iter().collect::<Vec<_>>().join(" and ")),
                format!("write {cure}"),
            );
        }
        let shown = match &self.what {
            NamedCode::Probe { provider, name } => format!("usdt:{provider}:{name}"),
            NamedCode::Function { name, is_return } => {
                // A compiler's variants of one function have its name with a suffix.
                let others: BTreeSet<String> = places
                    .iter()
                    .filter(|place| !place.name.starts_with(name))
                    .map(|place| place.name.clone())
                    .collect();
                if others.len() > 1 {
                    let why = format!("{} functions have this name", others.len());
                    return cannot(why, format!("give one of {}", list(&others)));
                }
                let of = if *is_return { "the return of " } else { "" };
                format!("{of}{}!{name}", places[0].binary)
            }
        };
        Ok(FoundPlaces { places, is_return, shown })
    }

    /// The reason why there is no such place, and the cure.
    fn missing(&self, code: &mut ProcessCode, program: &str) -> (String, String) {
        let binary = self.binary.as_deref();
        let (what, wanted, names) = match &self.what {
            NamedCode::Function { name, .. } => ("function", name.clone(), code.function_names(binary)),
            NamedCode::Probe { provider, name } => {
                ("USDT probe", format!("{provider}:{name}"), code.probe_names(binary))
            }
        };
        let is_function = matches!(self.what, NamedCode::Function { .. });
        if let Some(file) = Some(()).filter(|()| is_function).and_then(|()| code.inlined_in(binary, &wanted))
        {
            return (
                format!("{file} has inlined it wherever it is called"),
                "name the function that calls it, or build it with __attribute__((noinline))".into(),
            );
        }
        let near = nearest(&wanted, &names);
        if !near.is_empty() {
            let offered = near.into_iter().collect::<Vec<_>>().join(" or ");
            return (format!("there is no such {what}"), format!("is {offered} meant?"));
        }
        if is_function && code.stripped(binary).iter().any(|file| file == program) {
            return (
                format!("{program} was stripped of the names of its functions"),
                "install its debug symbols, or build it without stripping".into(),
            );
        }
        let cure = match (is_function, names.is_empty()) {
            (true, _) => {
                "name a function that is not inlined; a function of a library can be found once the library is loaded".into()
            }
            (false, true) => "name a function".into(),
            (false, false) => format!("choose one of {}", list(&names)),
        };
        (format!("there is no such {what}"), cure)
    }

    /// The same, for one file.
    fn within(&self, file: &str) -> PlaceName {
        PlaceName { binary: Some(file.to_string()), what: self.what.clone() }
    }
}

/// The most similar names: those that end with it as a separate word, else by letters.
fn nearest(wanted: &str, names: &BTreeSet<String>) -> Vec<String> {
    let ending = format!("::{wanted}");
    let ends: Vec<String> =
        names.iter().filter(|name| name.ends_with(&ending)).take(OFFERED).cloned().collect();
    if !ends.is_empty() {
        return ends;
    }
    let alike = |name: &String| (strsim::jaro_winkler(wanted, name), name.clone());
    let mut alike: Vec<(f64, String)> =
        names.iter().map(alike).filter(|(alike, _)| *alike >= ALIKE).collect();
    alike.sort_by(|first, second| second.0.total_cmp(&first.0));
    let most = alike.first().map_or(0.0, |(alike, _)| *alike);
    let near = alike.into_iter().filter(|(alike, _)| *alike >= most - AS_ALIKE);
    near.take(OFFERED).map(|(_, name)| name).collect()
}

/// The first few.
fn list(names: &BTreeSet<String>) -> String {
    const FEW: usize = 8;
    let few = names.iter().take(FEW).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > FEW { format!("{few} and {} more", names.len() - FEW) } else { few }
}

impl fmt::Display for PlaceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            NamedCode::Function { is_return: true, .. } => out.write_str("uretprobe:")?,
            NamedCode::Function { .. } => {}
            NamedCode::Probe { .. } => out.write_str("usdt:")?,
        }
        if let Some(binary) = &self.binary {
            write!(out, "{binary}:")?;
        }
        match &self.what {
            NamedCode::Function { name, .. } => out.write_str(name),
            NamedCode::Probe { provider, name } => write!(out, "{provider}:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> PlaceName {
        text.parse().unwrap()
    }

    #[test]
    fn reads_the_syntax_of_bpftrace() {
        for text in [
            "step",
            "servo::Loop::step",
            "libservo.so:step",
            "libservo.so:servo::Loop::step",
            "uretprobe:step",
            "uretprobe:/usr/bin/servo:step",
            "usdt:servo:cycle_begin",
            "usdt:./servo:servo:cycle_begin",
        ] {
            assert_eq!(place(text).to_string(), text);
        }
        assert_eq!(place("uprobe:step"), place("step"));
        assert_eq!(place("uprobe:libservo.so:step"), place("libservo.so:step"));
        for text in ["", ":", "step:", ":step", "usdt:servo", "a:b:c", "usdt:a:b:c:d"] {
            assert!(text.parse::<PlaceName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_cycle_ends_with_the_return_of_its_function() {
        let bounds = CycleBounds::new(place("step"), None).unwrap();
        assert_eq!(bounds.end, place("uretprobe:step"));
        assert!(bounds.end.is_return_of(&bounds.begin) && !bounds.begin.is_return_of(&bounds.end));
        for begin in ["uretprobe:step", "usdt:servo:cycle_begin"] {
            assert!(CycleBounds::new(place(begin), None).is_err(), "{begin}");
            assert!(CycleBounds::new(place(begin), Some(place("step"))).is_ok());
        }
        assert!(CycleBounds::new(place("step"), Some(place("step"))).is_err());
    }

    #[test]
    fn suggests_the_most_similar_names() {
        let names = ["main", "flush_log", "step", "step_all", "servo::halt"].map(String::from).into();
        let near = |wanted| nearest(wanted, &names);
        assert_eq!(near("stpe").first().map(String::as_str), Some("step"));
        assert_eq!(near("halt"), ["servo::halt"]);
        assert!(near("zzz").is_empty());
    }
}

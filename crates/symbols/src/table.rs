// SPDX-License-Identifier: MIT OR Apache-2.0
//! The symbols of a binary, by address, with their names in the program's language.

use std::fmt::{self, Write};

/// A longer name is not demangled; [`SHOWN`] limits the shown part.
const LONGEST: usize = 2_048;
const SHOWN: usize = 256;

/// The number of symbols before an address that are looked at: functions are seldom nested.
const BEFORE: usize = 16;

/// A symbol of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Its address in the file.
    pub address: u64,
    /// Its size; 0 if the file does not state it.
    pub size: u64,
    /// The offset of its name in the table's strings.
    pub name: usize,
    /// Whether it is a function; else it is data.
    pub is_function: bool,
    /// The rank of its name, best first: global, weak, local.
    pub rank: u8,
    /// Whether it is an old version, which new programs cannot be linked with.
    pub is_old: bool,
}

/// Symbols in the order of their addresses.
#[derive(Debug, Default)]
pub struct SymbolTable {
    symbols: Vec<Symbol>,
    /// The other names of functions.
    aliases: Vec<Symbol>,
    strings: Vec<u8>,
}

/// A function, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedFunction {
    /// Its address in the file.
    pub address: u64,
    /// Its name in the file.
    pub raw: String,
}

impl SymbolTable {
    /// Of two symbols at one address the better name is kept: fewer leading underscores, exported, shorter.
    pub fn new(mut symbols: Vec<Symbol>, strings: Vec<u8>) -> SymbolTable {
        let mut table = SymbolTable { symbols: Vec::new(), aliases: Vec::new(), strings };
        let key = |symbol: &Symbol| {
            let name = table.raw(symbol);
            let underscores = name.iter().take_while(|byte| **byte == b'_').count();
            // Names of C++ and of Rust begin with one.
            let underscores =
                if name.starts_with(b"_Z") || name.starts_with(b"_R") { 0 } else { underscores };
            (symbol.address, symbol.size == 0, underscores, symbol.rank, name.len(), name)
        };
        symbols.sort_by(|first, second| key(first).cmp(&key(second)));
        let mut aliases = Vec::new();
        symbols.dedup_by(|next, kept| {
            let is_same = (next.address, next.is_function) == (kept.address, kept.is_function);
            aliases.extend(Some(*next).filter(|_| is_same && next.is_function));
            is_same
        });
        (table.symbols, table.aliases) = (symbols, aliases);
        table
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function, or else the variable, at the address, and the offset in it.
    pub fn find(&self, address: u64, is_function: bool) -> Option<(String, u64)> {
        let end = self.symbols.partition_point(|symbol| symbol.address <= address);
        let before = self.symbols[..end].iter().rev().filter(|symbol| symbol.is_function == is_function);
        let mut nearest = true;
        for symbol in before.take(BEFORE) {
            let offset = address - symbol.address;
            // A symbol without a size extends to the next one.
            if offset < symbol.size || (symbol.size == 0 && nearest && (is_function || offset == 0)) {
                return Some((readable(&String::from_utf8_lossy(self.raw(symbol))), offset));
            }
            nearest = false;
        }
        None
    }

    /// The functions of a name: as in the file, or else as shown, which overloaded functions share. Where a
    /// compiler split a function, only the parts with its beginning.
    pub fn named(&self, name: &str) -> Vec<NamedFunction> {
        const NOT_FROM_THE_BEGINNING: [&str; 2] = [".part.", ".cold"];
        let raws = || self.functions().map(|symbol| (symbol, String::from_utf8_lossy(self.raw(symbol))));
        let those = |is_it: &dyn Fn(&str) -> bool| {
            let found = raws().filter(|(_, raw)| is_it(raw));
            let mut found: Vec<NamedFunction> = found
                .map(|(symbol, raw)| NamedFunction { address: symbol.address, raw: raw.into_owned() })
                .collect();
            found.sort();
            found.dedup_by_key(|function| function.address);
            found
        };
        let is_mangled = |raw: &str| raw.starts_with("_Z") || raw.starts_with("_R");
        let is_whole = |raw: &str| !NOT_FROM_THE_BEGINNING.iter().any(|part| raw.contains(part));
        let ways: [&dyn Fn(&str) -> bool; 3] =
            [&|raw| raw == name, &|raw| is_mangled(raw) && is_whole(raw) && readable(raw) == name, &|raw| {
                raw.starts_with(name) && is_whole(raw) && without_suffix(raw) == name
            }];
        ways.into_iter().map(those).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The addresses of functions, of old versions too, for which `meant` has an answer to their names in the
    /// file, without their versions.
    pub fn meant<T>(&self, meant: impl Fn(&str) -> Option<T>) -> Vec<(u64, T)> {
        let functions = self.symbols.iter().filter(|symbol| symbol.is_function).chain(&self.aliases);
        let found = functions.filter_map(|symbol| {
            let raw = self.raw(symbol).split(|byte| *byte == b'@').next().unwrap_or_default();
            Some((symbol.address, meant(std::str::from_utf8(raw).ok()?)?))
        });
        found.collect()
    }

    /// The names of all functions, as they are shown.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.functions().map(|symbol| readable(&String::from_utf8_lossy(self.raw(symbol))))
    }

    fn functions(&self) -> impl Iterator<Item = &Symbol> {
        let functions = self.symbols.iter().filter(|symbol| symbol.is_function).chain(&self.aliases);
        functions.filter(|symbol| !symbol.is_old)
    }

    fn raw(&self, symbol: &Symbol) -> &[u8] {
        let rest = self.strings.get(symbol.name..).unwrap_or_default();
        let rest = &rest[..rest.len().min(LONGEST)];
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// A symbol's name in its language, without parameters and without a compiler's suffix.
pub fn readable(raw: &str) -> String {
    let raw = raw.get(..LONGEST).unwrap_or(raw);
    let mut text = Shortened(String::new());
    // An error means that the text is long enough.
    if let Ok(name) = rustc_demangle::try_demangle(raw) {
        let _ = write!(text, "{name:#}");
    } else if let Some(name) = raw.starts_with("_Z").then(|| cpp_demangle::Symbol::new(raw).ok()).flatten() {
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        let _ = name.structured_demangle(&mut text, &options);
    }
    if text.0.is_empty() {
        let _ = text.write_str(without_suffix(raw));
    }
    text.0
}

/// Suffixes of the parts into which GCC and Clang split a function: `f.constprop.0`, `f.isra.0`, `f.part.0`,
/// `f.cold`.
fn without_suffix(name: &str) -> &str {
    let suffixes = [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv.", ".llvm."];
    let ends = suffixes.iter().filter_map(|suffix| name.find(suffix));
    ends.min().filter(|end| *end > 0).map_or(name, |end| &name[..end])
}

/// Accepts text up to a length: substitutions can make a short name millions of characters long.
struct Shortened(String);

impl Write for Shortened {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.0.len() + c.len_utf8() > SHOWN {
                return Err(fmt::Error);
            }
            self.0.push(c);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(symbols: &[(u64, u64, &str, bool, u8)]) -> SymbolTable {
        let mut strings = vec![0];
        let mut symbol = |(address, size, name, is_function, rank): &(u64, u64, &str, bool, u8)| {
            let at = strings.len();
            strings.extend(name.bytes().chain([0]));
            let (address, size, is_function, rank) = (*address, *size, *is_function, *rank);
            Symbol { address, size, name: at, is_function, rank, is_old: false }
        };
        let symbols = symbols.iter().map(&mut symbol).collect();
        SymbolTable::new(symbols, strings)
    }

    fn places(table: &SymbolTable, name: &str) -> Vec<u64> {
        table.named(name).iter().map(|function| function.address).collect()
    }

    #[test]
    fn finds_a_function_by_each_of_its_names() {
        let table = table(&[
            (0x100, 8, "__write", true, 0),
            (0x100, 8, "write", true, 1),
            (0x200, 8, "step.constprop.0", true, 2),
            (0x300, 8, "step.cold", true, 2),
            (0x400, 8, "_ZN5servo4stepEi", true, 0),
            (0x500, 8, "_ZN5servo4stepEd", true, 0),
            (0x600, 8, "_ZN5servo4haltEv", true, 0),
        ]);
        assert_eq!((places(&table, "write"), places(&table, "__write")), (vec![0x100], vec![0x100]));
        assert_eq!(places(&table, "step"), [0x200]);
        assert_eq!(places(&table, "servo::step"), [0x400, 0x500]);
        assert_eq!(places(&table, "_ZN5servo4stepEd"), [0x500]);
        assert_eq!((places(&table, "servo::halt"), places(&table, "servo")), (vec![0x600], vec![]));
        assert!(table.names().any(|name| name == "__write"));
    }

    #[test]
    fn finds_the_function_at_an_address() {
        let table = table(&[
            (0x100, 0x40, "outer", true, 0),
            (0x110, 0x8, "inner", true, 2),
            (0x200, 0, "assembly", true, 2),
            (0x300, 0x10, "state", false, 0),
        ]);
        let found = |address| table.find(address, true).map(|(name, offset)| format!("{name}+{offset:#x}"));
        assert_eq!(found(0x112).as_deref(), Some("inner+0x2"));
        assert_eq!(found(0x120).as_deref(), Some("outer+0x20"));
        assert_eq!((found(0x140), found(0xff)), (None, None));
        assert_eq!(found(0x20c).as_deref(), Some("assembly+0xc"));
        assert_eq!(table.find(0x308, false), Some(("state".to_string(), 8)));
        assert_eq!(
            (table.find(0x310, false), table.find(0x308, true).map(|found| found.1)),
            (None, Some(0x108))
        );
        assert_eq!(places(&table, "outer"), [0x100]);
        assert_eq!(places(&table, "state"), [0; 0]);
    }

    #[test]
    fn takes_the_plainest_of_several_names() {
        let table = table(&[
            (0x100, 8, "__write", true, 0),
            (0x100, 8, "write", true, 1),
            (0x100, 8, "__libc_write", true, 0),
        ]);
        assert_eq!(table.find(0x100, true), Some(("write".to_string(), 0)));
    }

    #[test]
    fn names_are_readable() {
        assert_eq!(readable("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(readable("_ZN5servo4Loop4stepERKSt6vectorIiSaIiEE"), "servo::Loop::step");
        assert_eq!(readable("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(readable("flush_log.constprop.0"), "flush_log");
        assert_eq!(readable("main"), "main");
    }

    #[test]
    fn a_name_that_unfolds_without_end_is_cut() {
        let doubling: String = (0..30).map(|n| format!("S{}_S{}_", n, n)).collect();
        let name = readable(&format!("_Z1fI1aE{doubling}v"));
        assert!(!name.is_empty() && name.len() <= SHOWN);
        assert_eq!(readable(&"a".repeat(100_000)).len(), SHOWN);
        assert_eq!(readable(&"ä".repeat(2_000)).len(), SHOWN);
    }
}

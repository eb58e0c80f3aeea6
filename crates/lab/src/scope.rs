// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scope's record, read: JSON lines that the plugin wrote while the guest ran (`lab/scope/README.md`
//! states them). Figures come from its own sums, which never drop anything; single excursions give the
//! functions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evidence::lab::{LabRow, Responses};
use rt::registers::{SIGNAL_APART, SIGNAL_AT};
use serde::Deserialize;

use crate::architecture::Architecture;
use crate::{Error, Result, edges, parts};

/// The plugin's file name.
pub const PLUGIN: &str = "isolator-scope.so";

/// How many functions a row names.
const FUNCTIONS: usize = 40;

/// One excursion whose record was kept.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Excursion {
    /// The CPU.
    pub cpu: u32,
    /// The window, from 1 on.
    #[serde(default)]
    pub window: u64,
    /// Its number in the window; sums have none.
    pub n: u64,
    /// The symbol of the first instruction in the kernel.
    pub entry: String,
    /// How far into it.
    #[serde(default)]
    pub offset: u64,
    /// Instructions in the kernel.
    pub instructions: u64,
    /// Those in user code since the excursion before, or the window's beginning.
    #[serde(default)]
    pub user_before: u64,
    /// Functions entered, in order of the first time, with how often.
    #[serde(default)]
    pub path: Vec<(String, u64)>,
}

/// A line of the record, as far as it is read here: its first key says what it is.
enum RecordLine {
    Begin(Begin),
    Excursion(Excursion),
    Sum(SumLine),
    Response(ResponseLine),
    End(End),
}

impl RecordLine {
    /// Reads a line; none where it is of another kind, or cut short.
    fn read(text: &str) -> Option<RecordLine> {
        let (kind, _) = text.strip_prefix("{\"")?.split_once('"')?;
        match kind {
            "begin" => serde_json::from_str(text).ok().map(RecordLine::Begin),
            "cpu" => serde_json::from_str(text).ok().map(RecordLine::Excursion),
            "response" => serde_json::from_str(text).ok().map(RecordLine::Response),
            "summary" => serde_json::from_str(text).ok().map(RecordLine::Sum),
            "end" => serde_json::from_str(text).ok().map(RecordLine::End),
            _ => None,
        }
    }
}

/// A line with sums.
#[derive(Debug, Deserialize)]
struct SumLine {
    cpu: u32,
    entry: String,
    #[serde(default)]
    offset: u64,
    count: u64,
    instructions: u64,
    max: u64,
}

/// A line with a window's responses.
#[derive(Debug, Deserialize)]
struct ResponseLine {
    cpu: u32,
    #[serde(flatten)]
    responses: Responses,
}

/// A line that begins a window.
#[derive(Debug, Deserialize)]
struct Begin {
    cpu: u32,
    at_ns: u64,
}

/// A line that ends a window.
#[derive(Debug, Deserialize)]
struct End {
    cpu: u32,
    at_ns: u64,
    excursions: u64,
    kernel_instructions: u64,
    max_kernel_instructions: u64,
    user_instructions: u64,
    lines_dropped: u64,
}

/// The plugin's file.
pub fn plugin() -> Result<PathBuf> {
    parts::find(PLUGIN).ok_or_else(|| {
        Error::on(
            "look at the guest",
            "from outside",
            format!("{PLUGIN} is not beside this program"),
            "run make lab",
        )
    })
}

/// The plugin's arguments by which it counts the responses of a program to the first signal that it maps.
pub fn signal() -> String {
    let word = |at: usize| format!("watch=virt:{at:#x}:{}", size_of::<u32>());
    format!(",{},{},response=1:2", word(SIGNAL_AT), word(SIGNAL_AT + SIGNAL_APART))
}

/// The same for a program that polls and drives lines from outside ([`edges`]) by their registers.
pub fn lines() -> String {
    let word = |line: u32| format!("watch=phys:{:#x}:{}", edges::register(line), size_of::<u32>());
    format!(",{},{},response=1:2", word(edges::INPUT), word(edges::OUTPUT))
}

/// Sums counts of a record, which may say anything.
fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

/// The rows of one scenario: one for each CPU that said *isolation begins* and *ends*.
///
/// The length of a window is the host's: in the mode that has the scope the guest's clock follows it.
pub fn rows(record: &str, scenario: &str) -> Result<Vec<LabRow>> {
    let mut rows: BTreeMap<u32, LabRow> = BTreeMap::new();
    let mut begun = BTreeMap::new();
    let mut entered: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
    for line in record.lines().filter_map(RecordLine::read) {
        match line {
            RecordLine::Begin(Begin { cpu, at_ns }) => {
                begun.insert(cpu, at_ns);
            }
            RecordLine::Excursion(excursion) => {
                let functions = entered.entry(excursion.cpu).or_default();
                for (function, count) in excursion.path {
                    add(functions.entry(function).or_default(), count);
                }
            }
            RecordLine::Sum(sum) => {
                let row = rows.entry(sum.cpu).or_default();
                let entry = row.by_entry.entry(name(&sum.entry, sum.offset)).or_default();
                add(&mut entry.count, sum.count);
                add(&mut entry.instructions, sum.instructions);
                entry.max = entry.max.max(sum.max);
            }
            RecordLine::Response(ResponseLine { cpu, responses }) => {
                let row = rows.entry(cpu).or_default();
                row.responses = Some(row.responses.take().unwrap_or_default().and(&responses));
            }
            RecordLine::End(end) => {
                let row = rows.entry(end.cpu).or_default();
                let length_ns = end.at_ns.saturating_sub(begun.remove(&end.cpu).unwrap_or(end.at_ns));
                row.seconds_guest += length_ns as f64 / 1e9;
                add(&mut row.excursions, end.excursions);
                add(&mut row.kernel_instructions, end.kernel_instructions);
                row.max_kernel_instructions = row.max_kernel_instructions.max(end.max_kernel_instructions);
                add(&mut row.user_instructions, end.user_instructions);
                add(&mut row.records_dropped, end.lines_dropped);
            }
        }
    }
    if rows.is_empty() {
        let why = "the scope saw no window: the measuring program did not say that isolation begins and ends";
        return Err(Error::on(
            "read the record of",
            scenario,
            why,
            "use a program of this version as the guest",
        ));
    }
    let mut finish = |(cpu, row): (u32, LabRow)| {
        let functions = entered.remove(&cpu).unwrap_or_default();
        let mut most = functions.into_iter().collect::<Vec<_>>();
        most.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        most.truncate(FUNCTIONS);
        LabRow { scenario: scenario.to_string(), cpu, functions: most.into_iter().collect(), ..row }
    };
    Ok(rows.into_iter().map(&mut finish).collect())
}

/// The single excursions, in order.
pub fn excursions(record: &str) -> impl Iterator<Item = Excursion> + '_ {
    record.lines().filter_map(|line| match RecordLine::read(line)? {
        RecordLine::Excursion(excursion) => Some(excursion),
        _ => None,
    })
}

/// The name of an entry: the symbol, and where the symbol is a table, which place of it.
pub fn name(entry: &str, offset: u64) -> String {
    // x86-64: 16 bytes a vector from 32 on where the kernel has IBT, which distribution kernels do
    // (asm/idtentry.h).
    const IRQ_STUB: u64 = 16;
    match (entry, offset) {
        ("irq_entries_start", _) => format!("irq_vector_{:#x}", 0x20 + offset / IRQ_STUB),
        // arm64: the vector table's lower half is for user space (arch/arm64/kernel/entry.S).
        ("vectors" | "tramp_vectors", 0x400) => "el0t_64_sync".into(),
        ("vectors" | "tramp_vectors", 0x480) => "el0t_64_irq".into(),
        ("vectors" | "tramp_vectors", 0x500) => "el0t_64_fiq".into(),
        ("vectors" | "tramp_vectors", 0x580) => "el0t_64_error".into(),
        (entry, 0) => entry.to_string(),
        (entry, offset) => format!("{entry}+{offset:#x}"),
    }
}

/// The serial console's name on an architecture.
pub fn console(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::X86_64 => "ttyS0",
        Architecture::Aarch64 => "ttyAMA0",
    }
}

#[cfg(test)]
mod tests {
    use evidence::lab::EntryExcursions;

    use super::*;

    const RECORD: &str = r#"{"scope":1,"target":"x86_64","smp":2}
{"begin":1,"cpu":1,"window":1,"at":0,"at_ns":1000000000}
{"cpu":1,"n":0,"entry":"asm_sysvec_apic_timer_interrupt","offset":0,"instructions":2000,"user_before":10,"path":[["irq_enter_rcu",1],["tick",2]]}
{"cpu":1,"n":1,"entry":"irq_entries_start","offset":32,"instructions":500,"user_before":10,"path":[["irq_enter_rcu",1]]}
{"summary":1,"cpu":1,"entry":"asm_sysvec_apic_timer_interrupt","offset":0,"count":1,"instructions":2000,"max":2000}
{"summary":1,"cpu":1,"entry":"irq_entries_start","offset":32,"count":1,"instructions":500,"max":500}
{"end":1,"cpu":1,"at_ns":6500000000,"excursions":2,"kernel_instructions":2500,"max_kernel_instructions":2000,"user_instructions":99,"lines_dropped":0,"open":0}
{"cpu":1,"n":2,"entry":"cut sho"#;

    #[test]
    fn a_record_becomes_a_row_with_entries_and_functions() {
        let rows = rows(RECORD, "quiet").unwrap();
        let [row] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(
            (row.cpu, row.excursions, row.kernel_instructions, row.max_kernel_instructions),
            (1, 2, 2500, 2000)
        );
        assert_eq!(row.seconds_guest, 5.5);
        assert_eq!(
            row.by_entry["irq_vector_0x22"],
            EntryExcursions { count: 1, instructions: 500, max: 500 }
        );
        assert_eq!(row.functions["irq_enter_rcu"], 2);
        assert_eq!(excursions(RECORD).count(), 2);
    }

    #[test]
    fn responses_of_all_windows_of_a_cpu_are_its_own() {
        let line = r#"{"response":1,"cpu":1,"window":1,"edges":3,"doubled":1,"blind":0,"quiet":{"count":1,"least":4,"most":13,"counts":[[13,1]]},"interrupted":{"count":1,"least":4,"most":900,"counts":[[512,1]]}}"#;
        let end = RECORD.lines().find(|line| line.starts_with("{\"end\"")).unwrap();
        let rows = rows(&[line, end, line, end].join("\n"), "response").unwrap();
        let responses = rows[0].responses.as_ref().unwrap();
        assert_eq!((responses.edges, responses.doubled, responses.answers()), (6, 2, 4));
        assert_eq!(responses.all().counts, [(13, 2), (512, 2)]);
        assert_eq!(rows[0].excursions, 4);
        assert!(super::rows(RECORD, "quiet").unwrap()[0].responses.is_none());
    }

    #[test]
    fn a_signal_is_watched_where_programs_map_it() {
        assert_eq!(signal(), ",watch=virt:0x534900000000:4,watch=virt:0x534900000080:4,response=1:2");
    }

    #[test]
    fn a_record_without_a_window_is_no_result() {
        let error = rows("{\"scope\":1}\n", "quiet").unwrap_err().to_string();
        assert!(error.starts_with("cannot read the record of quiet: the scope saw no window"), "{error}");
    }

    #[test]
    fn entries_of_tables_are_named_by_their_place() {
        assert_eq!(name("vectors", 0x480), "el0t_64_irq");
        assert_eq!(name("entry_SYSCALL_64", 0), "entry_SYSCALL_64");
        assert_eq!(name("somewhere", 8), "somewhere+0x8");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of a trace: of tracefs' files `trace` and `trace_pipe`, as rtla saves them too, and of the
//! programs `trace-cmd report` and `perf script`.
//!
//! ```text
//!   thread-number   [001] d..2.   990.786342: sched_switch: prev_comm=a b prev_pid=7 … ==> next_comm=…
//!   thread-number   [001]         990.786342: sched_switch: a b:7 [120] S ==> c:8 [19]
//!   thread   number [001]         990.786342: sched:sched_switch: prev_comm=a b prev_pid=7 … ==> next_comm=…
//! CPU:1 [LOST 123 EVENTS]
//! ```
//! Times have the digits that the text has, mostly microseconds. Functions have names in the place of
//! addresses.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};

use super::named::{NamedEvent, named};
use super::{AboutTrace, Opened, ReadTrace, TracePart};
use crate::event::{EventName, FieldValue, HARDIRQ, NMI, SOFTIRQ};
use crate::{Error, Result};

/// A longer line is damage.
const LINE: u64 = 64 << 10;

/// The lines among which an event must be.
const FIRST_LINES: usize = 1_000;

/// The kernel's mark of a thread that was preempted (`TASK_REPORT_MAX`), and its letters of the other states,
/// by bits.
const PREEMPTED: u64 = 0x100;
const STATES: &str = "SDTtXZPI";

/// Whether these are the first bytes of such a text.
pub fn is(head: &[u8]) -> bool {
    head.starts_with(b"# tracer:") || head.starts_with(b"cpus=") || event_of(head)
}

fn event_of(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let mut words = text.split_whitespace().skip(1);
    words.next().is_some_and(|word| word.starts_with('[') || word.bytes().all(|byte| byte.is_ascii_digit()))
        && text.contains('[')
        && text.contains("]")
}

/// Opens a text, in which an event must be.
pub fn open(mut file: File, head: &[u8]) -> Opened {
    if head.contains(&0) {
        return Err("it is none of the traces that are known".into());
    }
    let rewound = |file: &mut File| file.rewind().map_err(|error| error::reason(&error));
    rewound(&mut file)?;
    let mut about = AboutTrace { format: "text of ftrace".into(), ..AboutTrace::default() };
    let mut lines = BufReader::new(&file);
    let mut line = Vec::new();
    let mut is_one = false;
    for _ in 0..FIRST_LINES {
        line.clear();
        let length =
            (&mut lines).take(LINE).read_until(b'\n', &mut line).map_err(|error| error::reason(&error))?;
        if length == 0 || is_one {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        // `# entries-in-buffer/entries-written: 66604/66604   #P:2`, `cpus=2`
        let cpus = text.split_once("#P:").or_else(|| text.split_once("cpus="));
        about.cpus = about.cpus.or(cpus.and_then(|(_, cpus)| cpus.split_whitespace().next()?.parse().ok()));
        is_one = parsed(&text).is_some();
    }
    drop(lines);
    if !is_one {
        return Err("no line of it is an event of the kernel's tracer".into());
    }
    rewound(&mut file)?;
    let lines = BufReader::new(file);
    let reader = Text { lines, line: Vec::new(), event: None, last_ns: 0 };
    Ok((about, Box::new(reader)))
}

/// The beginning of a line with an event.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    cpu: u32,
    ns: u64,
    thread: u32,
    flags: Option<u8>,
    event: &'a str,
    rest: &'a str,
}

fn parsed(line: &str) -> Option<Line<'_>> {
    // A thread's name may hold anything, so the CPU is the first `[number]` behind one.
    let (open, cpu) = line.match_indices('[').find_map(|(open, _)| {
        let cpu = line[open + 1..].split_once(']')?.0;
        (!cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit())).then_some((open, cpu))
    })?;
    let before = line[..open].trim_end();
    // `name-number`, `name-number (process)`, `name number`
    let before = before.split_once(" (").map_or(before, |(before, _)| before.trim_end());
    let thread = before.rsplit(['-', ' ']).next()?.parse().ok()?;
    let after = &line[open + cpu.len() + 2..];
    let (time, rest) =
        after.split_once(": ").or_else(|| after.trim_end().strip_suffix(':').map(|time| (time, "")))?;
    let mut words = time.split_whitespace().rev();
    let ns = nanoseconds(words.next()?)?;
    let flags = words.next().and_then(flags);
    let rest = rest.trim_start();
    let (event, rest) = rest.split_once(':').unwrap_or((rest, ""));
    // `sched:sched_switch:`
    let (event, rest) = match rest.split_once(':') {
        Some((inner, rest)) if is_name(event) && is_name(inner) && !rest.is_empty() => (inner, rest),
        _ => (event, rest),
    };
    Some(Line { cpu: cpu.parse().ok()?, ns, thread, flags, event: event.trim(), rest: rest.trim() })
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `990.786342`, in seconds.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(9 - fraction.len() as u32);
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// `dNh2.`: the third letter is the context.
fn flags(word: &str) -> Option<u8> {
    if word.len() < 4 {
        return None;
    }
    Some(match word.as_bytes()[2] {
        b'h' => HARDIRQ,
        b'H' => HARDIRQ | SOFTIRQ,
        b's' => SOFTIRQ,
        b'z' | b'Z' => NMI,
        b'.' => 0,
        _ => return None,
    })
}

/// The fields of an event, from its text.
fn fields(name: EventName, text: &str) -> Option<Vec<(Cow<'static, str>, FieldValue)>> {
    let mut fields = Vec::new();
    let number = |number: u64| FieldValue::Number(number);
    match name {
        // `NR 33 (b, 1, 556127b5a9bc, 0, 7, b)`, `NR 1 = 2`
        EventName::CallEntry | EventName::CallExit => {
            let rest = text.strip_prefix("NR ")?;
            let id = rest.split_whitespace().next()?.parse::<i64>().ok()?;
            fields.push(("id".into(), number(id as u64)));
            if let Some((_, arguments)) = rest.split_once('(') {
                let words = arguments.trim_end_matches(')').split(',');
                let words = words.map(|word| u64::from_str_radix(word.trim(), 16).unwrap_or(0));
                fields.push(("args".into(), FieldValue::Numbers(words.collect())));
            }
            return Some(fields);
        }
        EventName::Mark => {
            fields.push(("buf".into(), FieldValue::Text(text.to_string())));
            return Some(fields);
        }
        // `a b:7 [120] S ==> c:8 [19]`, by a plugin of trace-cmd
        EventName::Switch if !text.contains("prev_pid=") => {
            let (from, to) = text.split_once(" ==> ")?;
            let (from, state) = from.rsplit_once(' ')?;
            fields.push(("prev_state".into(), number(states(state)?)));
            for (side, task) in [("prev", from), ("next", to)] {
                let (task, prio) = task.trim_end().strip_suffix(']')?.rsplit_once(" [")?;
                let (comm, pid) = task.rsplit_once(':')?;
                fields.push((format!("{side}_comm").into(), FieldValue::Text(comm.to_string())));
                fields.push((format!("{side}_pid").into(), number(pid.parse().ok()?)));
                fields.push((format!("{side}_prio").into(), number(prio.parse::<i64>().ok()? as u64)));
            }
            return Some(fields);
        }
        _ => {}
    }
    let mut words = text.split(' ').filter(|word| *word != "==>").peekable();
    while let Some(word) = words.next() {
        let Some((key, value)) = word.split_once('=').filter(|(key, _)| is_name(key)) else { continue };
        let mut value = value.to_string();
        // A name may have blanks; what is in brackets explains a number.
        while let Some(more) =
            words.next_if(|word| !word.split_once('=').is_some_and(|(key, _)| is_name(key)))
        {
            if more.starts_with('[') {
                continue;
            }
            value.push(' ');
            value.push_str(more);
        }
        fields.push((key.to_string().into(), value_of(key, value.trim_end())));
    }
    Some(fields)
}

fn value_of(key: &str, value: &str) -> FieldValue {
    if key.ends_with("comm") || key == "name" || key == "filename" {
        return FieldValue::Text(value.to_string());
    }
    if key == "prev_state" {
        return states(value).map_or_else(|| FieldValue::Text(value.to_string()), FieldValue::Number);
    }
    let hexadecimal = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let number = match value.strip_prefix("0x") {
        Some(digits) => hexadecimal(digits),
        // Addresses are sixteen digits without a prefix.
        None if value.len() == 16 && !value.starts_with('-') => hexadecimal(value),
        None => value.parse::<i64>().map(|number| number as u64).ok().or_else(|| value.parse().ok()),
    };
    number.map_or_else(|| FieldValue::Text(value.to_string()), FieldValue::Number)
}

/// `R+`, `S`, `D|K`
fn states(text: &str) -> Option<u64> {
    let mut bits = 0;
    for letter in text.chars() {
        bits |= match letter {
            'R' | '|' | 'K' | 'W' | 'N' => 0,
            '+' => PREEMPTED,
            letter => 1 << STATES.find(letter)?,
        };
    }
    Some(bits)
}

/// `CPU:1 [LOST 123 EVENTS]`, `CPU:1 [EVENTS DROPPED]`
fn lost(line: &str) -> Option<(u32, u64)> {
    let (cpu, what) = line.trim().strip_prefix("CPU:")?.split_once(" [")?;
    let words = what.trim_end_matches(']').split(' ').collect::<Vec<_>>();
    let count = match words[..] {
        ["LOST", count, "EVENTS"] => count.parse().ok()?,
        ["EVENTS", "DROPPED"] => 0,
        _ => return None,
    };
    Some((cpu.parse().ok()?, count))
}

/// An open text.
#[derive(Debug)]
struct Text {
    lines: BufReader<File>,
    line: Vec<u8>,
    event: Option<NamedEvent>,
    last_ns: u64,
}

impl ReadTrace for Text {
    fn next(&mut self) -> Result<Option<TracePart<'_>>> {
        loop {
            self.line.clear();
            let length = (&mut self.lines).take(LINE).read_until(b'\n', &mut self.line);
            if length
                .map_err(|error| Error::os("read the trace", &error, "check the medium and try again"))?
                == 0
            {
                return Ok(None);
            }
            let text = String::from_utf8_lossy(&self.line);
            if let Some((cpu, count)) = lost(&text) {
                return Ok(Some(TracePart::Lost { cpu: Some(cpu), ns: self.last_ns, count }));
            }
            let Some(line) = parsed(&text) else { continue };
            self.last_ns = self.last_ns.max(line.ns);
            let Some(name) = named(line.event) else { continue };
            let Some(fields) = fields(name, line.rest) else { continue };
            let Line { cpu, thread, flags, .. } = line;
            let event = NamedEvent { cpu, ns: self.last_ns, thread, flags, name, fields };
            return Ok(Some(self.event.insert(event).part()));
        }
    }

    fn missing(&self) -> Option<&str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Fields, NamedFields};

    const TRACE: &str = "  opt cgu.10-7   [001] dNh2.   990.787465: ";

    fn read(text: &str) -> (EventName, Box<NamedFields>) {
        let line = parsed(text).unwrap();
        let name = EventName::of(line.event).unwrap();
        (name, fields(name, line.rest).unwrap().into())
    }

    #[test]
    fn reads_the_head_of_a_line_of_each_program() {
        let of = |text: &str| parsed(text).map(|line| (line.thread, line.cpu, line.ns, line.flags));
        for (text, flags) in [
            ("  opt cgu.10-7   [001] dNh2.   990.787465: softirq_entry: vec=9 [action=RCU]", Some(8)),
            ("  opt cgu.10-7   [001]   990.787465: softirq_entry: vec=9 [action=RCU]", None),
            ("  opt cgu.10     7 [001]   990.787465: irq:softirq_entry: vec=9 [action=RCU]", None),
            ("  opt [x]-7 (  99) [001] ..s1.   990.787465: softirq_entry: vec=9", Some(16)),
        ] {
            assert_eq!(of(text), Some((7, 1, 990_787_465_000, flags)), "{text}");
            assert_eq!(read(text).0, EventName::SoftirqEntry);
        }
        for text in ["# tracer: nop", " => schedule+0x3", "", "a-7 [001] x: y", "a-b [001] 1.0: y: z"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_switch_is_the_same_in_the_words_of_the_kernel_and_of_a_plugin() {
        let kernel = format!(
            "{TRACE}sched_switch: prev_comm=opt cgu.10 prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=ctl next_pid=8 next_prio=-1"
        );
        let plugin = format!("{TRACE}sched_switch:  opt cgu.10:7 [120] R+ ==> ctl:8 [-1]");
        for text in [kernel, plugin] {
            let (_, found) = read(&text);
            let fields = Fields::Named(&found);
            assert_eq!(fields.text("prev_comm").as_deref(), Some("opt cgu.10"), "{text}");
            assert_eq!((fields.small("next_pid"), fields.small("prev_state")), (Some(8), Some(0x100)));
            assert_eq!(fields.small("next_prio"), Some(u32::MAX));
        }
    }

    #[test]
    fn calls_timers_and_losses_are_read() {
        let (_, call) = read(&format!("{TRACE}sys_enter: NR 33 (b, 1, ffff, 0, 7, b)"));
        let call = Fields::Named(&call);
        assert_eq!((call.small("id"), call.numbers("args")), (Some(33), vec![11, 1, 0xffff, 0, 7, 11]));
        let text = "hrtimer_start: hrtimer=00000000ed7dc722 function=hrtimer_wakeup expires=990 softexpires=980 mode=ABS";
        let (_, timer) = read(&format!("{TRACE}{text}"));
        let timer = Fields::Named(&timer);
        assert_eq!((timer.number("hrtimer"), timer.number("softexpires")), (Some(0xed7d_c722), Some(980)));
        assert_eq!(timer.text("function").as_deref(), Some("hrtimer_wakeup"));
        assert_eq!(lost("CPU:1 [LOST 123 EVENTS]\n"), Some((1, 123)));
        assert_eq!(lost("CPU:0 [EVENTS DROPPED]"), Some((0, 0)));
        assert_eq!(lost("CPU 0 is empty"), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of numbers and addresses on this machine, read once when a collector starts.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The kernel's names for softirqs, in their order.
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Functions that only forward a request: the sender is above them.
const PASSING_ON: [&str; 24] = [
    "smp_call_function",
    "__smp_call_",
    "on_each_cpu",
    "generic_exec_single",
    "generic_smp_call",
    "arch_send_call",
    "arch_smp_send",
    "send_call_function",
    "native_send_call",
    "native_smp_send",
    "smp_send_reschedule",
    "native_flush_tlb",
    "flush_tlb_multi",
    "text_poke_sync",
    "smp_text_poke_sync",
    "bpf_",
    "__bpf_",
    "__traceiter_",
    "perf_trace_",
    "trace_event_",
    "resched_curr",
    "__resched_curr",
    "ttwu_",
    "__ttwu_",
];

/// Names of one machine.
#[derive(Debug, Clone, Default)]
pub struct Names {
    functions: Arc<Functions>,
    irqs: BTreeMap<u32, String>,
    idle_states: Vec<String>,
}

/// The kernel's functions by address: some 120,000, in 5 MB.
#[derive(Debug, Default)]
struct Functions {
    /// Their first addresses, and the positions of their names in `text`.
    places: Vec<(u64, u32, u16)>,
    text: String,
}

impl Functions {
    /// Those of `/proc/kallsyms`; without privileges all its addresses are 0.
    fn read(lines: impl BufRead) -> Functions {
        // A growing string is copied, and the heap then holds both.
        let mut functions =
            Functions { places: Vec::with_capacity(1 << 17), text: String::with_capacity(4 << 20) };
        for line in lines.lines().map_while(Result::ok) {
            let mut words = line.split_ascii_whitespace();
            let (address, kind, name) = (words.next(), words.next(), words.next());
            let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) = (address, kind, name) else {
                continue;
            };
            let place = (u32::try_from(functions.text.len()), u16::try_from(name.len()));
            let (Ok(address @ 1..), (Ok(at), Ok(length))) = (u64::from_str_radix(address, 16), place) else {
                continue;
            };
            functions.places.push((address, at, length));
            functions.text.push_str(name);
        }
        functions.places.sort_by_key(|(address, ..)| *address);
        functions.places.shrink_to_fit();
        functions.text.shrink_to_fit();
        functions
    }

    /// Those of the machine below `root`. All users of this machine's share one copy.
    fn of(root: &Path) -> Arc<Functions> {
        static OF_THIS_MACHINE: OnceLock<Arc<Functions>> = OnceLock::new();
        let read = || {
            let file = untrusted::open(root.join("proc/kallsyms"));
            Arc::new(file.map(|file| Functions::read(BufReader::new(file))).unwrap_or_default())
        };
        if root == Path::new("/") { Arc::clone(OF_THIS_MACHINE.get_or_init(read)) } else { read() }
    }

    fn name(&self, (_, at, length): (u64, u32, u16)) -> Option<&str> {
        self.text.get(at as usize..at as usize + usize::from(length))
    }
}

impl Names {
    /// Those of the machine below `root`. Numbers without a name stay numbers.
    pub fn read(root: &Path) -> Names {
        let text = |path: &str| untrusted::text(root.join(path)).unwrap_or_default();
        let (functions, irqs) = (Functions::of(root), irqs(&text("proc/interrupts")));
        let mut names = Names { functions, irqs, ..Names::default() };
        for state in 0.. {
            let path = format!("sys/devices/system/cpu/cpu0/cpuidle/state{state}/name");
            match text(&path).trim() {
                "" => break,
                name => names.idle_states.push(name.to_string()),
            }
        }
        names
    }

    /// Functions of 256 bytes each, in this order.
    #[cfg(test)]
    pub fn of_functions(functions: &[&str]) -> Names {
        let line = |(place, name): (usize, &&str)| {
            format!("{:x} T {name}\n", 0xffff_ffff_8100_0000 + place as u64 * 0x100)
        };
        Names::of_symbols(&functions.iter().enumerate().map(line).collect::<String>())
    }

    /// Functions, in the format of `/proc/kallsyms`.
    pub fn of_symbols(text: &str) -> Names {
        Names { functions: Arc::new(Functions::read(text.as_bytes())), ..Names::default() }
    }

    /// The names that are missing, with the cure.
    pub fn could_not_see(&self) -> Option<String> {
        let line = "names of the kernel's functions: /proc/kallsyms shows no addresses; set kernel.kptr_restrict to 0 or 1";
        self.functions.places.is_empty().then(|| line.to_string())
    }

    /// The function that holds an address, where known.
    pub fn function(&self, address: u64) -> Option<&str> {
        let places = &self.functions.places;
        let place = places.partition_point(|(begin, ..)| *begin <= address).checked_sub(1)?;
        self.functions.name(places[place])
    }

    /// The first address of a function, where known.
    pub fn address(&self, name: &str) -> Option<u64> {
        let is_named = |place: &&(u64, u32, u16)| self.functions.name(**place) == Some(name);
        self.functions.places.iter().find(is_named).map(|(begin, ..)| *begin)
    }

    /// The function that holds an address, or the address as [`shown`].
    pub fn function_or_address(&self, address: u64) -> String {
        self.function(address).map_or_else(|| shown(address), str::to_string)
    }

    /// The function that sent a request: the first of the callers that does not only forward it.
    pub fn asker(&self, stack: &[u64]) -> Option<String> {
        // A return address may be the first of the next function.
        let names = || stack.iter().filter_map(|address| self.function(address.checked_sub(1)?));
        let asks = |name: &&str| !PASSING_ON.iter().any(|start| name.starts_with(start));
        names().find(asks).or_else(|| names().next_back()).map(str::to_string)
    }

    /// `45 nvme0q3`.
    pub fn irq(&self, number: u32) -> String {
        match self.irqs.get(&number) {
            Some(name) => format!("{number} {name}"),
            None => number.to_string(),
        }
    }

    /// The kernel's name of a device interrupt, without its number.
    pub fn irq_device(&self, number: u32) -> Option<&str> {
        self.irqs.get(&number).map(String::as_str)
    }

    /// `NET_RX`.
    pub fn softirq(&self, number: u32) -> String {
        SOFTIRQS.get(number as usize).map_or_else(|| number.to_string(), |name| name.to_string())
    }

    /// `C6`.
    pub fn idle_state(&self, state: Option<u32>) -> String {
        let named = |state: u32| self.idle_states.get(state as usize).cloned();
        match state {
            Some(state) => named(state).unwrap_or_else(|| format!("state {state}")),
            None => "idle".to_string(),
        }
    }
}

/// An address in hexadecimal; a stand-in for one of the kernel.
///
/// The kernel shows its addresses to CAP_SYSLOG alone, and outputs are sent on. A stand-in tells one function
/// from another, within one run. It is keyed, since the places where a kernel may lie are few enough to try.
pub fn shown(address: u64) -> String {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    // Both architectures have the kernel in the upper half.
    if address >> 63 == 0 {
        return format!("{address:#x}");
    }
    let digest = KEY.get_or_init(RandomState::new).hash_one(address);
    format!("without a name ({:08x})", digest >> 32)
}

/// The devices' names in `/proc/interrupts`: after the counts come chip, line and, last, the devices.
fn irqs(text: &str) -> BTreeMap<u32, String> {
    let mut lines = text.lines();
    let cpus = lines.next().unwrap_or_default().split_whitespace().count();
    let irq = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let rest = rest.split_whitespace().skip(cpus).collect::<Vec<_>>();
        // ` IR-PCI-MSIX-0000:01:00.0   3-edge      nvme0q3`: a chip of one or two words, a line with its
        // trigger.
        let line = rest.iter().position(|word| word.contains("edge") || word.contains("evel"));
        let from = line.map_or(rest.len().min(2), |place| place + 1);
        let name = rest[from..].join(" ");
        Some((number.trim().parse().ok()?, name)).filter(|(_, name): &(u32, String)| !name.is_empty())
    };
    lines.filter_map(irq).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let symbols = "ffffffff81000100 T smp_call_function_many_cond\n\
            ffffffff81000000 t text_poke_bp_batch\n\
            ffffffff81000200 d some_data\n\
            ffffffff81000300 T on_each_cpu_cond_mask\t[module]\n";
        Names::of_symbols(symbols)
    }

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let names = names();
        assert_eq!(names.function(0xffff_ffff_8100_0042), Some("text_poke_bp_batch"));
        assert_eq!(names.function(0xffff_ffff_8100_0210), Some("smp_call_function_many_cond"));
        assert_eq!(names.function(0x1000), None);
        assert_eq!(names.function_or_address(0x1000), "0x1000");
    }

    #[test]
    fn a_stand_in_tells_kernel_functions_apart_and_not_their_place() {
        let unnamed = Names::default();
        let addresses = [0xffff_ffff_8100_0042, 0xffff_ffff_8100_0210, 0xffff_8000_8001_0000, u64::MAX];
        let shown = addresses.map(|address| unnamed.function_or_address(address));
        for (one, address) in shown.iter().zip(addresses) {
            assert_eq!(*one, unnamed.function_or_address(address));
            assert!(!one.contains("0x") && !one.contains(&format!("{address:x}")), "{one}");
            assert_eq!(shown.iter().filter(|other| *other == one).count(), 1, "{one}");
        }
    }

    #[test]
    fn a_forwarding_function_is_not_the_sender() {
        let stack = [0xffff_ffff_8100_0110, 0xffff_ffff_8100_0320, 0xffff_ffff_8100_0042];
        assert_eq!(names().asker(&stack).as_deref(), Some("text_poke_bp_batch"));
        assert_eq!(names().asker(&stack[..2]).as_deref(), Some("on_each_cpu_cond_mask"));
        assert_eq!(names().asker(&[]), None);
    }

    #[test]
    fn names_of_this_machine_share_the_functions() {
        let root = Path::new("/");
        assert!(Arc::ptr_eq(&Names::read(root).functions, &Names::read(root).functions));
        let other = tempfile::tempdir().unwrap();
        assert!(Names::read(other.path()).could_not_see().is_some());
    }

    #[test]
    fn functions_without_addresses_have_no_names() {
        let names = Names::of_symbols("0000000000000000 T schedule\n");
        assert!(names.could_not_see().unwrap().starts_with("names of the kernel's functions: "));
    }

    #[test]
    fn interrupts_have_the_names_of_their_devices() {
        let text = "           CPU0       CPU1\n  \
             4:        105          0   IO-APIC   4-edge      ttyS0\n \
            45:          1       2222  IR-PCI-MSIX-0000:01:00.0    3-edge      nvme0q3\n \
            18:          0          1     GICv2 139 Level     eth0, eth1\n\
            LOC:    1234    1234   Local timer interrupts\n";
        let named = irqs(text);
        assert_eq!(named[&45], "nvme0q3");
        assert_eq!((named[&4].as_str(), named[&18].as_str(), named.len()), ("ttyS0", "eth0, eth1", 3));
    }
}

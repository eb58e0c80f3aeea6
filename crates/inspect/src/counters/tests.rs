// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formats of several machines, and differences between readings.

use proptest::prelude::*;

use super::*;
use crate::tree::made_of;

const X86: &str = "\
            CPU0       CPU2       CPU3       
   8:          0          0          1  IR-IO-APIC    8-edge      rtc0
  45:        120          0         12  IR-PCI-MSIX-0000:01:00.0    3-edge      nvme0q3
 120:          5          6          7  IO-APIC   9-fasteoi   acpi, i801_smbus
NMI:          1          2          3   Non-maskable interrupts
LOC:     643624     444211     100000   Local timer interrupts
RES:     110840      44588          5   Rescheduling interrupts
CAL:      91187      74965          6   Function call interrupts
TLB:      39511      39066          7   TLB shootdowns
TRM:          0          0          4   Thermal event interrupts
ERR:          0
MIS:          9
";

const ARM64: &str = "\
           CPU0       CPU1       
 11:       5533       4410     GICv3  27 Level     arch_timer
 14:          0          0     GICv3  23 Level     arm-pmu
 78:        300          0  ITS-MSI 524288 Edge      PCIe PME, aerdrv
IPI0:      1208       1192       Rescheduling interrupts
IPI1:       881        722       Function call interrupts
IPI2:         0          0       CPU stop interrupts
IPI5:        12         13       IRQ work interrupts
Err:          0
";

fn all() -> CpuSet {
    (0..16).collect()
}

fn of(interrupts: &str) -> Counters {
    Counters::parse([interrupts, "", "", ""], &all())
}

#[test]
fn offline_cpus_have_no_column_and_totals_no_cpu() {
    let counters = of(X86);
    assert_eq!(counters.cpus().to_string(), "0,2-3");
    assert_eq!(counters.count(CounterClass::Irq, "45 nvme0q3", 0), Some(120));
    assert_eq!(counters.count(CounterClass::Irq, "45 nvme0q3", 3), Some(12));
    assert_eq!(counters.count(CounterClass::Irq, "45 nvme0q3", 1), None);
    assert_eq!(counters.count(CounterClass::Irq, "120 acpi, i801_smbus", 2), Some(6));
    assert_eq!(counters.count(CounterClass::Nmi, "NMI", 3), Some(3));
    assert_eq!(counters.count(CounterClass::LocalTimer, "local timer", 2), Some(444_211));
    assert_eq!(counters.count(CounterClass::Ipi, "reschedule", 2), Some(44_588));
    assert_eq!(counters.count(CounterClass::Ipi, "TLB shootdown", 3), Some(7));
    assert_eq!(counters.count(CounterClass::Irq, "TRM Thermal event", 3), Some(4));
    assert!(!counters.counts.keys().any(|source| source.name.contains("ERR") || source.name.contains("MIS")));
}

#[test]
fn arm64_names_its_ipis_and_its_timer_in_another_way_for_the_same() {
    let counters = of(ARM64);
    assert_eq!(counters.count(CounterClass::LocalTimer, "local timer", 1), Some(4_410));
    assert_eq!(counters.count(CounterClass::Irq, "14 arm-pmu", 0), Some(0));
    assert_eq!(counters.count(CounterClass::Irq, "78 PCIe PME, aerdrv", 0), Some(300));
    assert_eq!(counters.count(CounterClass::Ipi, "reschedule", 0), Some(1_208));
    assert_eq!(counters.count(CounterClass::Ipi, "call function", 1), Some(722));
    assert_eq!(counters.count(CounterClass::Ipi, "cpu stop", 1), Some(0));
}

#[test]
fn only_the_columns_asked_for_are_kept() {
    let counters = Counters::parse([X86, "", "", ""], &"2,7".parse().unwrap());
    assert_eq!(counters.cpus().to_string(), "2");
    assert_eq!(counters.count(CounterClass::Irq, "45 nvme0q3", 2), Some(0));
    assert_eq!(counters.count(CounterClass::Irq, "45 nvme0q3", 0), None);
}

#[test]
fn softirqs_switches_and_steal_are_counted_by_cpu() {
    let softirqs = "                    CPU0       CPU1       \n          HI:          0          2\n      NET_RX:     161367      10235\n";
    let schedstat = "version 16\ntimestamp 4295\ncpu0 0 0 3471 1242 2068 1510 1158842212 98451203 2211\ndomain0 3 1 2\ncpu1 0 0 1 1 1 1 1 1 7\n";
    let stat = "cpu  9 9 9 9 9 9 9 50 0 0\ncpu0 1 2 3 4 5 6 7 20 0 0\ncpu1 1 2 3\nintr 5\n";
    let counters = Counters::parse(["CPU0 CPU1\n", softirqs, schedstat, stat], &all());
    assert_eq!(counters.count(CounterClass::Softirq, "NET_RX", 1), Some(10_235));
    assert_eq!(counters.count(CounterClass::Switch, "tasks", 0), Some(2_211));
    assert_eq!(counters.count(CounterClass::Steal, "hypervisor", 0), Some(20));
    assert_eq!(counters.count(CounterClass::Steal, "hypervisor", 1), None);
}

#[test]
fn what_grew_names_suspects_by_cpu() {
    let later =
        X86.replace("120          0         12", "130          0         15").replace("444211", "444212");
    let grown: Vec<_> =
        of(&later).since(&of(X86)).into_iter().map(|one| (one.cpu, one.source.name, one.count)).collect();
    let expected = [(0, "45 nvme0q3", 10), (2, "local timer", 1), (3, "45 nvme0q3", 3)];
    assert_eq!(grown, expected.map(|(cpu, name, count)| (cpu, name.to_string(), count)));
    assert_eq!(of(X86).since(&of(X86)), []);
}

#[test]
fn of_a_cpu_that_came_online_and_of_a_file_that_was_not_there_nothing_is_known() {
    let before = "CPU0\n 45: 7 x 1-edge nvme0q3\n";
    let after = "CPU0 CPU1\n 45: 9 500 x 1-edge nvme0q3\n 46: 3 600 x 1-edge nvme0q4\n";
    let softirqs = "CPU0 CPU1\n HI: 5 5\n";
    let now = Counters::parse([after, softirqs, "", ""], &all());
    let grown: Vec<_> = now.since(&of(before)).into_iter().map(|one| (one.cpu, one.count)).collect();
    assert_eq!(grown, [(0, 2), (0, 3)], "an interrupt that was registered meanwhile counts from nothing");
}

#[test]
fn a_counter_that_wrapped_goes_on_and_one_that_was_freed_begins_anew() {
    assert_eq!(
        [(4_294_967_290, 4), (1_000, 4), (4, 4), (4, 9)].map(|(before, now)| grew(before, now)),
        [10, 4, 0, 5]
    );
}

#[test]
fn a_captured_tree_is_read_and_what_lacks_is_said() {
    let (folder, _) = made_of(&[("proc/interrupts", X86)]);
    let counters = Counters::read(folder.path(), &all());
    assert_eq!(counters.count(CounterClass::Irq, "45 nvme0q3", 0), Some(120));
    assert_eq!(counters.unread(), ["/proc/softirqs cannot be read"]);
}

proptest! {
    #[test]
    fn what_is_printed_as_the_kernel_does_is_read_back(
        counts in prop::collection::vec(prop::collection::vec(0u32.., 3), 1..6),
        cpus in prop::collection::btree_set(0u32..16, 3),
    ) {
        let cpus: Vec<u32> = cpus.into_iter().collect();
        let head: String = cpus.iter().map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
        let line = |(irq, counts): (usize, &Vec<u32>)| {
            let cells: String = counts.iter().map(|count| format!(" {count:>10}")).collect();
            format!("{irq:>4}:{cells}  IR-PCI-MSI {irq}-edge      dev{irq}\n")
        };
        let text = format!("    {head}\n{}", counts.iter().enumerate().map(line).collect::<String>());
        let counters = of(&text);
        for (irq, row) in counts.iter().enumerate() {
            for (cpu, count) in cpus.iter().zip(row) {
                prop_assert_eq!(counters.count(CounterClass::Irq, &format!("{irq} dev{irq}"), *cpu), Some(u64::from(*count)));
            }
        }
    }

    #[test]
    fn no_text_panics_and_nothing_grows_from_itself(text in "[ -~\n]{0,400}") {
        let mangled = X86.replace("IR-", &text);
        for text in [text.as_str(), &mangled] {
            let counters = Counters::parse([text; 4], &all());
            prop_assert_eq!(counters.since(&counters), []);
        }
    }
}

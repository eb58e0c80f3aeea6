// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings that are advised: to which value, for which CPUs, and where a plan leaves one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Advice, CarriedOutBy};
use crate::registry::{self, Setting};
use crate::snapshot::{IdleState, Preemption};
use crate::{CpuSet, Profile, Snapshot};

/// The machine, and what it is for.
#[derive(Debug, Clone)]
pub struct Aim<'a> {
    /// The machine.
    pub machine: &'a Snapshot,
    /// Its profile.
    pub profile: Profile,
    /// CPUs that are isolated, or are to be; empty: a plan chooses.
    pub isolated: CpuSet,
    /// The housekeeping CPUs.
    pub housekeeping: CpuSet,
}

/// The settings with their names in the registry.
macro_rules! settings {
    ($($setting:ident $name:literal)*) => {
        /// A setting that is advised; the registry says what each is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the registry says what each is")]
        pub enum SettingId {
            $($setting,)*
        }

        impl SettingId {
            /// All of them.
            pub const ALL: &[SettingId] = &[$(SettingId::$setting,)*];

            /// Its name in the registry.
            pub fn name(self) -> &'static str {
                match self {
                    $(SettingId::$setting => $name,)*
                }
            }
        }
    };
}

settings! {
    Isolcpus "isolcpus"
    Irqaffinity "irqaffinity"
    NohzFull "nohz_full"
    NohzFullPatience "rcutree.nohz_full_patience_delay"
    RcuNocbs "rcu_nocbs"
    RcuNocbPoll "rcu_nocb_poll"
    SkewTick "skew_tick"
    Tsc "tsc"
    Threadirqs "threadirqs"
    Nosmt "nosmt"
    Preempt "preempt"
    RtGroupSched "rt_group_sched"
    RcuNormalAfterBoot "rcupdate.rcu_normal_after_boot"
    UsbAutosuspend "usbcore.autosuspend"
    TimerMigration "kernel.timer_migration"
    WatchdogCpumask "kernel.watchdog_cpumask"
    NmiWatchdog "kernel.nmi_watchdog"
    NumaBalancing "kernel.numa_balancing"
    CompactionProactiveness "vm.compaction_proactiveness"
    Swappiness "vm.swappiness"
    StatInterval "vm.stat_interval"
    RtRuntime "kernel.sched_rt_runtime_us"
    Printk "kernel.printk"
    IrqDefault "/proc/irq/default_smp_affinity"
    IrqAffinity "/proc/irq/N/smp_affinity_list"
    Workqueues "/sys/devices/virtual/workqueue/cpumask"
    WritebackWorkqueue "/sys/devices/virtual/workqueue/writeback/cpumask"
    CheckInterval "/sys/devices/system/machinecheck/machinecheckN/check_interval"
    FairServer "/sys/kernel/debug/sched/fair_server/cpuN/runtime"
    Governor "/sys/devices/system/cpu/cpuN/cpufreq/scaling_governor"
    LowestFrequency "/sys/devices/system/cpu/cpuN/cpufreq/scaling_min_freq"
    ResumeLatency "/sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us"
    HugePages "/sys/kernel/mm/transparent_hugepage/enabled"
    PageSharing "/sys/kernel/mm/ksm/run"
    RcuNormal "/sys/kernel/rcu_normal"
    RcuExpedited "/sys/kernel/rcu_expedited"
    NoTurbo "/sys/devices/system/cpu/intel_pstate/no_turbo"
    Boost "/sys/devices/system/cpu/cpufreq/boost"
    Aspm "/sys/module/pcie_aspm/parameters/policy"
    HaltPoll "/sys/module/kvm/parameters/halt_poll_ns"
    ThreadedNapi "/sys/class/net/IF/threaded"
    SendQueues "/sys/class/net/IF/queues/tx-N/xps_cpus"
    CpuOnline "/sys/devices/system/cpu/cpuN/online"
    PacketSteering "/sys/class/net/IF/queues/rx-N/rps_cpus"
    KernelThreads "kthreads"
    Irqbalance "irqbalance"
    Slices "AllowedCPUs"
    RtPriority "rtprio"
    LockedMemory "memlock"
}

/// Why a plan leaves a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNot {
    /// It does not serve this profile.
    Unwanted(&'static str),
    /// This kernel cannot, or is not known to be able to.
    Cannot(String),
}

impl SettingId {
    /// The setting with this name in the registry.
    pub fn of(name: &str) -> Option<SettingId> {
        SettingId::ALL.iter().copied().find(|setting| setting.name() == name)
    }

    /// Its entry in the registry.
    pub fn entry(self) -> &'static Setting {
        let name = self.name();
        let known = registry::boot_parameter(name).or(registry::runtime_setting(name));
        known.expect("a test finds each setting in the registry")
    }

    /// The one file that a plan writes for it; of those with a number that of the machine's first.
    pub fn file(self) -> String {
        match self.entry().kind {
            registry::SettingKind::Sysctl => format!("/proc/sys/{}", self.name().replace('.', "/")),
            _ => self.name().replace("machinecheckN", "machinecheck0"),
        }
    }

    /// The file of one CPU.
    pub fn file_of(self, cpu: u32) -> String {
        self.name().replace("cpuN", &format!("cpu{cpu}"))
    }

    /// The command whose plan has it.
    pub(super) fn planned_by(self) -> &'static str {
        match self {
            SettingId::Nosmt => "isolator tune plan --nosmt",
            SettingId::Slices => "isolator tune plan --no-reboot",
            _ => "isolator tune plan",
        }
    }

    /// The value that serves `aim`, in the form that the setting takes; of a setting of each CPU that of
    /// `cpu`. Absent where the machine does not report one.
    pub fn value(self, aim: &Aim, cpu: Option<u32>) -> Option<String> {
        let cpu = cpu.and_then(|id| aim.machine.cpu(id));
        let list = |cpus: &CpuSet| if cpus.is_empty() { "CPUS".to_string() } else { cpus.to_string() };
        Some(match self {
            SettingId::Isolcpus => format!("{}{}", isolcpus_flags(aim.machine), list(&aim.isolated)),
            SettingId::NohzFull | SettingId::RcuNocbs | SettingId::Irqbalance => list(&aim.isolated),
            SettingId::Irqaffinity
            | SettingId::WatchdogCpumask
            | SettingId::IrqAffinity
            | SettingId::KernelThreads
            | SettingId::Slices => list(&aim.housekeeping),
            SettingId::IrqDefault
            | SettingId::Workqueues
            | SettingId::WritebackWorkqueue
            | SettingId::PacketSteering => mask(aim.machine, &aim.housekeeping),
            SettingId::SendQueues => mask(aim.machine, &aim.isolated),
            SettingId::NohzFullPatience => "1000".to_string(),
            SettingId::Tsc => "nowatchdog".to_string(),
            SettingId::RcuNocbPoll | SettingId::Threadirqs | SettingId::Nosmt => String::new(),
            SettingId::Preempt => "full".to_string(),
            SettingId::TimerMigration if aim.profile == Profile::Poll => "1".to_string(),
            SettingId::SkewTick
            | SettingId::RcuNormal
            | SettingId::RcuNormalAfterBoot
            | SettingId::NoTurbo
            | SettingId::ThreadedNapi => "1".to_string(),
            SettingId::UsbAutosuspend => "-1".to_string(),
            SettingId::Aspm => "performance".to_string(),
            SettingId::Printk => "3 4 1 7".to_string(),
            SettingId::TimerMigration
            | SettingId::RtGroupSched
            | SettingId::NmiWatchdog
            | SettingId::NumaBalancing
            | SettingId::CompactionProactiveness
            | SettingId::CheckInterval
            | SettingId::FairServer
            | SettingId::PageSharing
            | SettingId::RcuExpedited
            | SettingId::Boost
            | SettingId::HaltPoll
            | SettingId::CpuOnline => "0".to_string(),
            SettingId::Swappiness => "10".to_string(),
            SettingId::StatInterval => "120".to_string(),
            SettingId::RtRuntime => "950000".to_string(),
            SettingId::Governor => "performance".to_string(),
            SettingId::LowestFrequency => cpu?.max_frequency_khz?.to_string(),
            SettingId::ResumeLatency => resume_latency(aim.profile, &cpu?.idle_states)?.to_string(),
            SettingId::HugePages => "madvise".to_string(),
            SettingId::RtPriority => "98".to_string(),
            SettingId::LockedMemory => "unlimited".to_string(),
        })
    }

    /// Why a plan for `aim` leaves it, where it does.
    pub fn why_not(self, aim: &Aim) -> Option<WhyNot> {
        use Profile::{Audio, Periodic, Poll, Vm};
        let profile = aim.profile;
        let kernel = &aim.machine.kernel;
        let sleeps = matches!(profile, Periodic | Audio);
        let unwanted = |reason| Some(WhyNot::Unwanted(reason));
        if profile == Profile::Server {
            return unwanted("a machine without deadlines gets none");
        }
        match self {
            SettingId::Preempt => {
                unwanted("a plan keeps the kernel's preemption; for a deadline, boot a real-time kernel")
            }
            SettingId::RtGroupSched => unwanted("it takes real-time limits away from other groups"),
            SettingId::RcuNormal | SettingId::RcuNormalAfterBoot | SettingId::RcuExpedited => {
                unwanted("networks and control groups then take longer to change")
            }
            SettingId::StatInterval if kernel.at_least(6, 5) == Some(false) && aim.isolates() => None,
            SettingId::StatInterval => unwanted(
                "Linux 6.5 and newer leave isolated CPUs out, and elsewhere it makes the figures in /proc/vmstat older",
            ),
            SettingId::NoTurbo | SettingId::Boost => unwanted(
                "it costs speed on every core: whether the loop has the time to spare, its limit says",
            ),
            SettingId::Aspm if matches!(profile, Periodic | Poll) => None,
            SettingId::Aspm => unwanted("it matters to a loop that waits for a card"),
            SettingId::UsbAutosuspend => unwanted("which USB device is in the loop, if any, is not known"),
            SettingId::Printk => unwanted("the last words before a crash stand on the console"),
            SettingId::HaltPoll => {
                unwanted("whether a guest wakes sooner by it depends on the guest: measure both")
            }
            SettingId::ThreadedNapi => unwanted(
                "a real-time kernel handles packets in the interrupt's thread already; another thread is another wakeup",
            ),
            SettingId::SendQueues => unwanted("drivers with several queues give each CPU one of its own"),
            SettingId::RtRuntime => {
                unwanted("a loop that runs away would hang its CPU, or SCHED_DEADLINE loses a test")
            }
            SettingId::CpuOnline => unwanted("each change stops all CPUs for a moment"),
            SettingId::PacketSteering => {
                unwanted("no queue hands packets to other CPUs unless it was told to")
            }
            SettingId::Threadirqs if kernel.preemption == Preemption::RealTime => {
                unwanted("a real-time kernel has them all in threads")
            }
            SettingId::Threadirqs if profile == Audio => {
                needs(kernel.option("IRQ_FORCED_THREADING"), true, "IRQ_FORCED_THREADING")
            }
            SettingId::Threadirqs => unwanted("a real-time kernel serves this profile better"),
            SettingId::NumaBalancing
            | SettingId::CompactionProactiveness
            | SettingId::Swappiness
            | SettingId::HugePages
            | SettingId::PageSharing
            | SettingId::Governor => None,
            SettingId::RtPriority | SettingId::LockedMemory if profile == Vm => {
                unwanted("what runs guests has these rights from the service that starts it")
            }
            SettingId::RtPriority | SettingId::LockedMemory => None,
            SettingId::ResumeLatency if !sleeps => unwanted("a CPU that never sleeps enters no idle state"),
            SettingId::ResumeLatency => None,
            SettingId::Irqbalance if !aim.runs("irqbalance") => unwanted("irqbalance is not seen to run"),
            SettingId::Slices => slices(aim),
            _ if !aim.isolates() => {
                unwanted("sound's programs get no CPU of their own unless --cores asks for some")
            }
            SettingId::NohzFull | SettingId::NohzFullPatience if sleeps => {
                unwanted("a loop that sleeps pays for it at each wakeup")
            }
            SettingId::NohzFull | SettingId::NohzFullPatience => {
                needs(kernel.option("NO_HZ_FULL"), false, "NO_HZ_FULL")
            }
            SettingId::RcuNocbs | SettingId::RcuNocbPoll => {
                needs(kernel.option("RCU_NOCB_CPU"), false, "RCU_NOCB_CPU")
            }
            SettingId::Tsc if aim.machine.tsc_watched != Some(true) => {
                unwanted("the kernel is not seen to watch the TSC here")
            }
            SettingId::TimerMigration if profile == Poll => None,
            SettingId::TimerMigration if profile == Periodic && !aim.nohz_full().is_empty() => None,
            SettingId::TimerMigration => {
                unwanted("it matters to a periodic loop with nohz_full, and to one that polls")
            }
            SettingId::FairServer if profile == Poll && kernel.at_least(6, 12) == Some(true) => None,
            SettingId::FairServer if profile == Poll => unwanted("it is new in Linux 6.12"),
            SettingId::FairServer if profile == Vm => {
                unwanted("a guest that spins would starve the host's kernel threads")
            }
            SettingId::FairServer => unwanted("a loop that sleeps each period does not meet it"),
            _ => None,
        }
    }

    /// The command that sets it to the value that serves `aim`.
    pub fn command(self, aim: &Aim) -> String {
        self.command_to(&self.value(aim, None).unwrap_or_else(|| "VALUE".to_string()))
    }

    fn command_to(self, value: &str) -> String {
        // All of them are one: the first of the machine stands for it.
        self.entry().how_to_set(value).replace("machinecheckN", "machinecheck0")
    }

    /// The word of the boot line that sets it.
    pub fn word(self, aim: &Aim) -> String {
        match self.value(aim, None).unwrap_or_default() {
            value if value.is_empty() => self.name().to_string(),
            value => format!("{}={value}", self.name()),
        }
    }

    /// The advice to set it to the value that serves `aim`.
    pub fn advice(self, aim: &Aim) -> Advice {
        Advice { text: self.command(aim).into(), by: self.by(aim) }
    }

    /// As [`SettingId::advice`], to another value.
    pub fn advice_to(self, aim: &Aim, value: &str) -> Advice {
        Advice { text: self.command_to(value).into(), by: self.by(aim) }
    }

    /// As [`SettingId::advice`], in words of the caller's.
    pub fn advice_in(self, aim: &Aim, text: impl Into<Cow<'static, str>>) -> Advice {
        Advice { text: text.into(), by: self.by(aim) }
    }

    /// As [`SettingId::advice`], for the file with `number` in the place of `N`.
    pub fn advice_for(self, aim: &Aim, number: u32) -> Advice {
        let place = self.name().replacen('N', &number.to_string(), 1);
        self.advice_in(aim, self.command(aim).replace(self.name(), &place))
    }

    /// As [`SettingId::advice`], for each of `cpus`.
    pub fn advice_on(self, aim: &Aim, cpus: &CpuSet) -> Advice {
        let mut by_value: BTreeMap<String, CpuSet> = BTreeMap::new();
        for cpu in cpus.iter() {
            if let Some(value) = self.value(aim, Some(cpu)) {
                by_value.entry(value).or_default().insert(cpu);
            }
        }
        let each = by_value.into_iter().map(|(value, cpus)| match (cpus.len(), cpus.iter().next()) {
            (1, Some(cpu)) => self.command_to(&value).replace("cpuN", &format!("cpu{cpu}")),
            _ => format!("{} for each of cpus {cpus}", self.command_to(&value)),
        });
        let text = each.collect::<Vec<_>>().join("; ");
        if text.is_empty() {
            let by = CarriedOutBy::Left(self, "the machine does not report the value".into());
            return Advice { text: format!("{} for each of them", self.command(aim)).into(), by };
        }
        let advice = self.advice_in(aim, text);
        match advice.by {
            CarriedOutBy::Plan(_) if !cpus.iter().any(|cpu| self.is_on(aim, cpu)) => {
                Advice { by: CarriedOutBy::Left(self, "this file is not seen".into()), ..advice }
            }
            _ => advice,
        }
    }

    /// Whether it is a file that a machine has once, or not at all.
    fn is_one_file(self) -> bool {
        let several = ["/cpuN/", "/irq/N/", "/IF/"].iter().any(|part| self.name().contains(part));
        !several && matches!(self.entry().kind, registry::SettingKind::File | registry::SettingKind::Sysctl)
    }

    /// Whether a CPU has it, as far as the machine tells.
    fn is_on(self, aim: &Aim, cpu: u32) -> bool {
        let cpu = aim.machine.cpu(cpu);
        match self {
            SettingId::FairServer => cpu.is_some_and(|cpu| cpu.fair_server_runtime_ns.is_some()),
            SettingId::Governor | SettingId::LowestFrequency => cpu.is_some_and(|cpu| cpu.governor.is_some()),
            _ => true,
        }
    }

    /// Whether a plan for `aim` has it.
    pub fn is_planned(self, aim: &Aim) -> bool {
        matches!(self.by(aim), CarriedOutBy::Plan(_))
    }

    fn by(self, aim: &Aim) -> CarriedOutBy {
        let on_the_boot_line = self.entry().kind == registry::SettingKind::Boot;
        match self.why_not(aim) {
            None if on_the_boot_line && aim.machine.kernel.option("CPU_ISOLATION") == Some(false) => {
                CarriedOutBy::Left(self, "CONFIG_CPU_ISOLATION is off in this kernel".into())
            }
            None if self.is_one_file() && !aim.machine.settings.contains_key(&self.file()) => {
                CarriedOutBy::Left(self, "this file is not seen".into())
            }
            None => CarriedOutBy::Plan(self),
            Some(WhyNot::Unwanted(reason)) => CarriedOutBy::Left(self, reason.into()),
            Some(WhyNot::Cannot(reason)) => CarriedOutBy::Left(self, reason.into()),
        }
    }
}

impl Aim<'_> {
    /// Whether a plan isolates CPUs.
    fn isolates(&self) -> bool {
        !self.isolated.is_empty() || self.profile != Profile::Audio
    }

    fn runs(&self, service: &str) -> bool {
        self.machine.services.iter().any(|name| name == service)
    }

    /// Of the isolated CPUs those whose tick may stop.
    fn nohz_full(&self) -> CpuSet {
        self.machine.isolation.nohz_full.and(&self.isolated)
    }
}

/// Slices make room for a partition, which takes the place of `isolcpus` until the next boot.
fn slices(aim: &Aim) -> Option<WhyNot> {
    let controllers = aim.machine.settings.get("/sys/fs/cgroup/cgroup.controllers");
    let cannot = |reason: &str| Some(WhyNot::Cannot(reason.to_string()));
    if !controllers.is_some_and(|names| names.split_whitespace().any(|name| name == "cpuset")) {
        return cannot(
            "no cpuset controller of cgroup version 2: nothing keeps ordinary tasks off these CPUs without a reboot",
        );
    }
    if aim.machine.kernel.at_least(6, 1) == Some(false) {
        return cannot("isolated partitions are new in Linux 6.1: ordinary tasks stay on these CPUs");
    }
    (!aim.runs("systemd")).then_some(WhyNot::Unwanted("systemd is not seen to run"))
}

fn needs(option: Option<bool>, unknown_will_do: bool, name: &str) -> Option<WhyNot> {
    match option {
        Some(true) => None,
        None if unknown_will_do => None,
        Some(false) => Some(WhyNot::Cannot(format!("CONFIG_{name} is off in this kernel"))),
        None => Some(WhyNot::Cannot(format!(
            "whether this kernel has CONFIG_{name} is not known: no configuration of it was found"
        ))),
    }
}

/// The flags of `isolcpus` that this kernel knows; one of unknown version is taken for a new one.
fn isolcpus_flags(machine: &Snapshot) -> &'static str {
    let at_least = |major, minor| machine.kernel.at_least(major, minor).unwrap_or(true);
    match () {
        () if at_least(5, 6) => "managed_irq,domain,",
        () if at_least(4, 15) => "domain,",
        () => "",
    }
}

/// As the kernel prints it: a digit for each four CPUs that there could be.
fn mask(machine: &Snapshot, cpus: &CpuSet) -> String {
    if cpus.is_empty() {
        return "MASK".to_string();
    }
    let highest = machine.possible.or(&machine.online()).iter().max().unwrap_or_default();
    cpus.to_mask(highest)
}

/// The longest exit latency to allow: that of the shallowest state that is one, since polling heats. A buffer
/// of sound lasts a millisecond and more.
fn resume_latency(profile: Profile, states: &[IdleState]) -> Option<u64> {
    let shallowest = states.iter().map(|state| state.exit_latency_us).filter(|latency| *latency > 0).min()?;
    Some(if profile == Profile::Audio { shallowest.max(100) } else { shallowest })
}

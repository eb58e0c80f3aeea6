// SPDX-License-Identifier: MIT OR Apache-2.0
//! A MainDevice: ethercrab, brought to OP with distributed clocks and SYNC0, then driven inline.
//!
//! ```text
//! due ── send ──► segment ──► answer     one frame: the reference's time (FRMW), process data (LRW), states
//!  └────────────── a cycle ──────┘          half a period before the next SYNC0, so that either may be late
//! ```
//! No thread, no executor: the caller of a cycle polls the future and the socket by turns until the answer
//! is there. ethercrab's own time-outs go by `crate::timers`. After it is in OP, a cycle allocates nothing.
//!
//! The period is the caller's clock's. The segment's clocks are the reference SubDevice's: after each cycle
//! `ahead_ns` of [`CycleResult::Back`] tells by how much to move the next one, so that it stays in the middle
//! between two SYNC0.
//!
//! Limits: at most 64 SubDevices and 4 KiB of process data; memory for frames (some 100 KiB) is kept until
//! the process ends, since ethercrab wants it for ever.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ethercrab::subdevice_group::{DcConfiguration, HasDc, Op};
use ethercrab::{
    DcSync, DefaultLock, MainDeviceConfig, PduRx, PduStorage, PduTx, RegisterAddress, RetryBehaviour,
    SubDeviceGroup, Timeouts,
};
use rt::clock::monotonic_ns;

use crate::wire::Link;
use crate::{Error, Result};

/// At the most so many SubDevices.
pub const MOST_DEVICES: usize = 64;
/// Frames by which the clocks agree before SYNC0 is set; ethercrab's own choice is 10,000, which takes a
/// second.
pub const SETTLE: u32 = 3_000;
/// At the most so many bytes of process data.
const PROCESS_DATA: usize = 4096;
const FRAMES: usize = 16;
const FRAME_BYTES: usize = PduStorage::element_size(1400);
const ROOM: usize = 2048;

/// Bytes of stack for the way to OP.
const WAY_STACK: usize = 16 << 20;
/// How long a step of the way to OP may take.
const STEP: Duration = Duration::from_secs(10);
/// How long the whole way may.
const WAY_NS: u64 = 60_000_000_000;
/// How long a frame may be away on the way to OP, before it is sent again.
const AWAY: Duration = Duration::from_millis(500);
const TRIES: usize = 3;
/// The first SYNC0 comes so much after it is set.
const FIRST_SYNC: Duration = Duration::from_millis(100);
/// Cycles for all SubDevices to follow into OP.
const CYCLES_TO_OP_NS: u64 = 10_000_000_000;
/// How long a frame may be away while nothing is measured.
const PATIENCE_NS: u64 = 50_000_000;
/// Of a deviation from the middle between two SYNC0, this part is taken back each cycle.
const AHEAD_SHARE: i64 = 16;
/// And at the most this part of the period.
const AHEAD_MOST: i64 = 100;

type DeviceGroup<S, D> = SubDeviceGroup<MOST_DEVICES, PROCESS_DATA, DefaultLock, S, D>;

/// The socket, and ethercrab's two ends of it.
struct BusTraffic {
    link: Link,
    tx: PduTx<'static>,
    rx: PduRx<'static>,
    frame: Box<[u8; ROOM]>,
    /// Frames that came too late.
    late: u64,
    /// Why the last frame could not be sent.
    not_sent: Option<i32>,
}

impl BusTraffic {
    /// Polls the future and the socket until there is a result, or it is `until_ns`. With `waits` it sleeps
    /// meanwhile.
    fn drive<F: Future>(&mut self, future: F, until_ns: u64, waits: bool) -> Result<Option<F::Output>> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        let mut is_over = false;
        loop {
            // Also after the end: an answer that came before it may wait in the socket.
            if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                return Ok(Some(result));
            }
            if is_over {
                return Ok(None);
            }
            self.send();
            if waits {
                self.link.wait(1_000_000);
            }
            self.receive()?;
            is_over = monotonic_ns() >= until_ns;
        }
    }

    #[inline]
    fn send(&mut self) {
        while let Some(frame) = self.tx.next_sendable_frame() {
            let (link, not_sent) = (&self.link, &mut self.not_sent);
            let sent = frame.send_blocking(|bytes| {
                link.send(bytes).map_err(|e| {
                    *not_sent = e.raw_os_error();
                    ethercrab::error::Error::SendFrame
                })
            });
            if sent.is_err() {
                // It stays sendable: the next turn tries again.
                return;
            }
        }
    }

    #[inline]
    fn receive(&mut self) -> Result<()> {
        while let Some(length) = self.link.receive(&mut self.frame[..])? {
            // Of a frame that is not waited for ethercrab says that it knows no such one.
            self.late += u64::from(self.rx.receive_frame(&self.frame[..length.min(ROOM)]).is_err());
        }
        Ok(())
    }
}

/// One cycle's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CycleResult {
    /// The frame is back.
    Back {
        /// Whether every SubDevice took its outputs and gave its inputs.
        is_counter_right: bool,
        /// Whether all are in OP.
        is_op: bool,
        /// How long after it passed the reference SubDevice the next SYNC0 comes.
        to_sync0_ns: u64,
        /// Which SYNC0 that is.
        sync0: u64,
        /// By how much the next cycle should come earlier; negative: later.
        ahead_ns: i64,
    },
    /// It was not back in time.
    NotBack,
    /// ethercrab refused what came back.
    Refused,
}

/// A MainDevice whose segment is in OP.
pub struct MainDevice {
    traffic: BusTraffic,
    main: &'static ethercrab::MainDevice<'static>,
    group: DeviceGroup<Op, HasDc>,
    period_ns: u64,
    /// The working counter when all is well.
    expected: u16,
    /// Which SubDevice's clock is asked for next.
    asked: usize,
    /// When the next cycle is due.
    due_ns: u64,
}

impl MainDevice {
    /// Brings the segment at `link` to OP, with SYNC0 every `period_ns`; `settle` frames let the clocks agree
    /// first.
    pub fn start(link: Link, period_ns: u64, settle: u32) -> Result<MainDevice> {
        let name = link.name().to_string();
        let what = format!("bring the segment at {name} to OP");
        // A thread of its own, for its stack: ethercrab's way there is one large future.
        let way = std::thread::Builder::new().name("ethercat-start".into()).stack_size(WAY_STACK);
        let way = way.spawn(move || MainDevice::start_here(link, period_ns, settle));
        let way = way.map_err(|e| Error::os(what.as_str(), &e, "raise the limit on processes"))?;
        way.join().unwrap_or_else(|_| Err(Error::new(what, "ethercrab failed", "report this as a defect")))
    }

    fn start_here(link: Link, period_ns: u64, settle: u32) -> Result<MainDevice> {
        let name = link.name().to_string();
        let refuse =
            |why: String, cure: &str| Error::new(format!("bring the segment at {name} to OP"), why, cure);
        let look = "look at cables, power and the SubDevices' documentation";
        let storage: &'static PduStorage<FRAMES, FRAME_BYTES> = Box::leak(Box::new(PduStorage::new()));
        let (tx, rx, pdus) =
            storage.try_split().map_err(|()| refuse("memory in use".into(), "report this as a defect"))?;
        let timeouts = Timeouts {
            state_transition: STEP,
            pdu: AWAY.max(Duration::from_nanos(2 * period_ns)),
            eeprom: STEP,
            wait_loop_delay: Duration::ZERO,
            mailbox_echo: STEP,
            mailbox_response: STEP,
        };
        let config = MainDeviceConfig {
            dc_static_sync_iterations: settle,
            retry_behaviour: RetryBehaviour::Count(TRIES),
        };
        let main: &'static _ = Box::leak(Box::new(ethercrab::MainDevice::new(pdus, timeouts, config)));
        let mut traffic = BusTraffic { link, tx, rx, frame: Box::new([0; ROOM]), late: 0, not_sent: None };
        let until_ns = monotonic_ns() + WAY_NS;
        let way = to_safe_op(main, period_ns);
        let arrived = traffic.drive(Box::pin(way), until_ns, true)?;
        let arrived = arrived.ok_or_else(|| refuse("it took longer than a minute".into(), look))?;
        let not_sent = traffic.not_sent.map(std::io::Error::from_raw_os_error);
        let (group, expected) = arrived.map_err(|error| match (error, not_sent) {
            (StartFailure::NoSubDevice, Some(error)) => {
                Error::os(format!("send on {name}"), &error, "look whether the interface is up")
            }
            (StartFailure::NoSubDevice, None) => {
                refuse("no SubDevice answers".into(), "look at cables and power")
            }
            (StartFailure::By(error), _) => refuse(error.to_string(), look),
        })?;
        let mut main =
            MainDevice { traffic, main, group, period_ns, expected, asked: 0, due_ns: monotonic_ns() };
        main.enter_op().map_err(|why| refuse(why, look))?;
        main.traffic.late = 0;
        Ok(main)
    }

    /// Cycles until every SubDevice is in OP.
    fn enter_op(&mut self) -> std::result::Result<(), String> {
        let end_ns = monotonic_ns() + CYCLES_TO_OP_NS;
        let mut last = CycleResult::NotBack;
        while monotonic_ns() < end_ns {
            last = self.paced_cycle().map_err(|error| error.to_string())?;
            if matches!(last, CycleResult::Back { is_op: true, is_counter_right: true, .. }) {
                return Ok(());
            }
        }
        Err(match last {
            CycleResult::Back { is_op: false, .. } => {
                "not every SubDevice followed into OP within 10 s".into()
            }
            CycleResult::Back { .. } => "the working counter stayed wrong for 10 s".into(),
            CycleResult::NotBack | CycleResult::Refused => "frames did not come back in time for 10 s".into(),
        })
    }

    /// Sleeps until the next cycle is due and while its frame is away, which may last longer than a period.
    pub fn paced_cycle(&mut self) -> Result<CycleResult> {
        std::thread::sleep(Duration::from_nanos(self.due_ns.saturating_sub(monotonic_ns())));
        let cycle = self.exchange(monotonic_ns() + self.period_ns.max(PATIENCE_NS), true)?;
        self.due_ns = self.after(self.due_ns, cycle, monotonic_ns());
        Ok(cycle)
    }

    /// When the cycle is due that follows the one due at `due_ns`; those that went by until `now_ns` are left
    /// out.
    #[inline]
    pub fn after(&self, due_ns: u64, cycle: CycleResult, now_ns: u64) -> u64 {
        let ahead_ns = if let CycleResult::Back { ahead_ns, .. } = cycle { ahead_ns } else { 0 };
        // The next one may be late; only those after it are left out.
        let gone_by = now_ns.saturating_sub(due_ns + self.period_ns) / self.period_ns;
        (due_ns + (1 + gone_by) * self.period_ns).saturating_add_signed(-ahead_ns)
    }

    /// When the next cycle is due, by [`MainDevice::paced_cycle`].
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// SubDevices that it found.
    pub fn sub_devices(&self) -> usize {
        self.main.num_subdevices()
    }

    /// Frames so far that came back when they were not waited for any more.
    pub fn late_frames(&self) -> u64 {
        self.traffic.late
    }

    /// Sends the process data, and polls until they are back, or it is `until_ns`.
    #[inline]
    pub fn cycle(&mut self, until_ns: u64) -> Result<CycleResult> {
        self.exchange(until_ns, false)
    }

    #[inline(always)]
    fn exchange(&mut self, until_ns: u64, waits: bool) -> Result<CycleResult> {
        let exchange = self.group.tx_rx_dc(self.main);
        Ok(match self.traffic.drive(exchange, until_ns, waits)? {
            None => CycleResult::NotBack,
            Some(Err(_)) => CycleResult::Refused,
            Some(Ok(back)) => {
                let since_sync0 = back.extra.cycle_start_offset.as_nanos() as i64;
                let period = self.period_ns as i64;
                let deviation = (since_sync0 - period / 2) / AHEAD_SHARE;
                CycleResult::Back {
                    is_counter_right: back.working_counter == self.expected,
                    is_op: back.all_op(),
                    to_sync0_ns: (period - since_sync0) as u64,
                    sync0: back.extra.dc_system_time / self.period_ns + 1,
                    ahead_ns: deviation.clamp(-period / AHEAD_MOST, period / AHEAD_MOST),
                }
            }
        })
    }

    /// By how much one SubDevice's clock differs from the reference, the next one's each time; `None` where
    /// it did not say by `until_ns`. Beside the process data: a frame of its own.
    pub fn clock_difference(&mut self, until_ns: u64) -> Result<Option<i64>> {
        self.asked = (self.asked + 1) % self.sub_devices().max(1);
        let Some(device) = self.group.iter(self.main).nth(self.asked) else { return Ok(None) };
        let read = device.register_read::<u32>(RegisterAddress::DcSystemTimeDifference);
        let difference = self.traffic.drive(read, until_ns, false)?.and_then(|read| read.ok());
        Ok(difference.map(|word| {
            let size = i64::from(word & 0x7FFF_FFFF);
            if word & 0x8000_0000 == 0 { size } else { -size }
        }))
    }
}

/// Why the way to OP ended.
enum StartFailure {
    NoSubDevice,
    By(ethercrab::error::Error),
}

impl From<ethercrab::error::Error> for StartFailure {
    fn from(error: ethercrab::error::Error) -> StartFailure {
        StartFailure::By(error)
    }
}

/// The way to OP's request, and the working counter that is right afterwards.
async fn to_safe_op(
    main: &'static ethercrab::MainDevice<'static>,
    period_ns: u64,
) -> std::result::Result<(DeviceGroup<Op, HasDc>, u16), StartFailure> {
    let found = main.init_single_group::<MOST_DEVICES, PROCESS_DATA>(monotonic_ns).await;
    let mut group = match found {
        // Nothing came back at all.
        Err(ethercrab::error::Error::Timeout(_)) if main.num_subdevices() == 0 => {
            return Err(StartFailure::NoSubDevice);
        }
        found => found?,
    };
    if main.num_subdevices() == 0 {
        return Err(StartFailure::NoSubDevice);
    }
    for mut device in group.iter_mut(main) {
        if device.dc_support().enhanced() {
            device.set_dc_sync(DcSync::Sync0);
        }
    }
    let group = group.into_pre_op_pdi(main).await?;
    let period = Duration::from_nanos(period_ns);
    let clocks = DcConfiguration { start_delay: FIRST_SYNC, sync0_period: period, sync0_shift: period / 2 };
    let group = group.configure_dc_sync(main, clocks).await?;
    let group = group.into_safe_op(main).await?;
    let counted = group.iter(main).map(|device| {
        let (reads, writes) = (!device.inputs_raw().is_empty(), !device.outputs_raw().is_empty());
        u16::from(reads) + 2 * u16::from(writes)
    });
    let expected = counted.sum();
    let group = group.request_into_op(main).await?;
    Ok((group, expected))
}

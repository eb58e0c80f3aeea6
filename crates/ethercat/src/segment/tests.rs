// SPDX-License-Identifier: MIT OR Apache-2.0
//! The segment as a MainDevice sees it, frame by frame, at times that the test gives.

use proptest::prelude::*;

use super::clock::{DeviceClock, Sync};
use super::fault::{Fault, FaultKind};
use super::frame::{Frame, Malformed, is_outgoing};
use super::*;

const MS: u64 = 1_000_000;

/// A wire's user: frames of datagrams to a segment, and a time that goes on.
struct Bus {
    segment: Segment,
    now_ns: u64,
}

/// A datagram: command, address, data.
type Sent<'a> = (u8, u32, &'a [u8]);

fn frame(datagrams: &[Sent]) -> Vec<u8> {
    let mut bytes = vec![0xFF; 6];
    bytes.extend([0x10; 6]);
    bytes.extend([0x88, 0xA4, 0, 0]);
    for (number, (command, address, data)) in datagrams.iter().enumerate() {
        let more = if number + 1 < datagrams.len() { 0x8000 } else { 0 };
        bytes.extend([*command, number as u8]);
        bytes.extend(address.to_le_bytes());
        bytes.extend((data.len() as u16 | more).to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(*data);
        bytes.extend([0, 0]);
    }
    let length = (bytes.len() - 16) as u16 | 0x1000;
    bytes[14..16].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn register(node: u16, offset: u16) -> u32 {
    u32::from(offset) << 16 | u32::from(node)
}

impl Bus {
    fn new(devices: usize) -> Bus {
        Bus { segment: Segment::new(devices, 0, Vec::new()), now_ns: MS }
    }

    /// Data and working counter that come back, of one datagram.
    fn send(&mut self, command: u8, address: u32, data: &[u8]) -> (Vec<u8>, u16) {
        let mut bytes = frame(&[(command, address, data)]);
        assert_eq!(self.segment.pass(&mut bytes, self.now_ns), Fate::Returned);
        assert!(!is_outgoing(&bytes), "what passed a SubDevice shows it");
        let end = 26 + data.len();
        (bytes[26..end].to_vec(), u16::from_le_bytes([bytes[end], bytes[end + 1]]))
    }

    fn counter(&mut self, command: u8, address: u32, data: &[u8]) -> u16 {
        self.send(command, address, data).1
    }

    fn read(&mut self, node: u16, offset: u16, length: usize) -> Vec<u8> {
        let (data, counter) = self.send(4, register(node, offset), &vec![0; length]);
        assert_eq!(counter, 1, "{offset:#x}");
        data
    }

    fn write(&mut self, node: u16, offset: u16, data: &[u8]) {
        assert_eq!(self.counter(5, register(node, offset), data), 1, "{offset:#x}");
    }

    /// Gives the SubDevices the addresses 0x1001, 0x1002, …
    fn address(mut self) -> Bus {
        for place in 0..self.segment.devices().len() as u16 {
            let node = (0x1001 + place).to_le_bytes();
            assert_eq!(self.counter(2, register(0u16.wrapping_sub(place), 0x0010), &node), 1);
        }
        self
    }

    fn sync_manager(&mut self, node: u16, number: u16, start: u16, length: u16, control: u8) {
        let [[a, b], [c, d]] = [start.to_le_bytes(), length.to_le_bytes()];
        self.write(node, 0x0800 + 8 * number, &[a, b, c, d, control, 0, 1, 0]);
    }

    fn fmmu(&mut self, node: u16, number: u16, logical: u32, physical: u16, bytes: u16, kind: u8) {
        let mut config = logical.to_le_bytes().to_vec();
        config.extend(bytes.to_le_bytes());
        config.extend([0, 7]);
        config.extend(physical.to_le_bytes());
        config.extend([0, kind, 1, 0, 0, 0]);
        self.write(node, 0x0600 + 16 * number, &config);
    }

    /// Asks for a state; what the SubDevice shows then, and its code.
    fn state(&mut self, node: u16, state: u8) -> (u8, u16) {
        self.write(node, 0x0120, &[state, 0]);
        let shown = self.read(node, 0x0130, 6);
        (shown[0], u16::from_le_bytes([shown[4], shown[5]]))
    }

    fn mailboxes(&mut self, node: u16) {
        self.sync_manager(node, 0, 0x1000, 128, 0x26);
        self.sync_manager(node, 1, 0x1080, 128, 0x22);
    }

    /// Brings one to OP: outputs at `logical`, inputs behind all outputs.
    fn operate(&mut self, node: u16, outputs: u32, inputs: u32) {
        self.mailboxes(node);
        assert_eq!(self.state(node, 2), (2, 0));
        self.sync_manager(node, 2, 0x1100, 4, 0x64);
        self.sync_manager(node, 3, 0x1180, 8, 0x20);
        self.fmmu(node, 0, outputs, 0x1100, 4, 2);
        self.fmmu(node, 1, inputs, 0x1180, 8, 1);
        assert_eq!(self.state(node, 4), (4, 0));
        assert_eq!(self.state(node, 8), (8, 0));
    }

    /// An SDO there and back.
    fn sdo(&mut self, node: u16, command: u8, index: u16, sub: u8, value: &[u8]) -> Vec<u8> {
        let mut message = vec![0; 128];
        message[..8].copy_from_slice(&[10, 0, 0, 0, 0, 0x13, 0, 0x20]);
        message[8] = command;
        message[9..11].copy_from_slice(&index.to_le_bytes());
        message[11] = sub;
        message[12..12 + value.len()].copy_from_slice(value);
        self.write(node, 0x1000, &message);
        assert_eq!(self.read(node, 0x080D, 1)[0] & 8, 8, "an answer is there");
        self.read(node, 0x1080, 128)
    }
}

#[test]
fn each_command_counts_what_succeeded() {
    let mut bus = Bus::new(3).address();
    // Command, address, working counter: of registers that can be written.
    let there = register(0, 0x0420);
    let node = register(0x1002, 0x0420);
    let cases = [
        (0, there, 0),
        (1, there, 1),
        (2, there, 1),
        (3, there, 3),
        (4, node, 1),
        (5, node, 1),
        (6, node, 3),
        (7, there, 3),
        (8, there, 3),
        (9, there, 9),
        (13, there, 3),
        (14, node, 3),
        // No SubDevice has that position, that address, that command, or maps anything yet.
        (1, register(5, 0x0420), 0),
        (4, register(0x2000, 0x0420), 0),
        (10, 0, 0),
        (11, 0, 0),
        (12, 0, 0),
        (99, there, 0),
    ];
    for (command, address, counter) in cases {
        assert_eq!(bus.counter(command, address, &[1, 0]), counter, "command {command}");
    }
}

#[test]
fn a_position_is_counted_up_by_each_sub_device_and_reads_what_was_there_before_a_write() {
    let mut bus = Bus::new(3).address();
    let mut bytes = frame(&[(1, register(0xFFFF, 0x0010), &[0; 2])]);
    bus.segment.pass(&mut bytes, 0);
    assert_eq!((&bytes[18..20], &bytes[26..28]), (&[2, 0][..], &[0x02, 0x10][..]));
    bus.write(0x1001, 0x0420, &[7, 0]);
    assert_eq!(bus.send(6, register(0x1001, 0x0420), &[9, 0]), (vec![7, 0], 3));
    assert_eq!(bus.read(0x1001, 0x0420, 2), [9, 0]);
}

#[test]
fn a_multiple_write_gives_the_others_what_one_had() {
    let mut bus = Bus::new(3).address();
    bus.write(0x1002, 0x0420, &[0x34, 0x12]);
    assert_eq!(bus.send(14, register(0x1002, 0x0420), &[0, 0]), (vec![0x34, 0x12], 3));
    // The first one was passed before the second was read.
    assert_eq!(bus.read(0x1001, 0x0420, 2), [0, 0]);
    assert_eq!(bus.read(0x1003, 0x0420, 2), [0x34, 0x12]);
}

#[test]
fn an_alias_calls_a_sub_device_only_where_it_is_switched_on() {
    let mut bus = Bus::new(2).address();
    bus.write(0x1002, 0x0012, &[0x55, 0]);
    let by_alias = register(0x0055, 0x0010);
    assert_eq!(bus.counter(4, by_alias, &[0, 0]), 0);
    bus.write(0x1002, 0x0103, &[1]);
    assert_eq!(bus.send(4, by_alias, &[0, 0]), (vec![0x02, 0x10], 1));
}

#[test]
fn what_a_sub_device_is_cannot_be_written_and_what_is_not_there_cannot_be_read() {
    let mut bus = Bus::new(1).address();
    for offset in [0x0000, 0x0008, 0x0110, 0x0130, 0x0134] {
        assert_eq!(bus.counter(5, register(0x1001, offset), &[0xFF]), 0, "{offset:#x}");
    }
    assert_eq!(bus.counter(4, register(0x1001, 0x2FFF), &[0, 0]), 0);
    assert_eq!(bus.counter(4, register(0x1001, 0xFFFF), &[0; 4]), 0);
}

#[test]
fn states_go_step_by_step_and_say_why_they_do_not() {
    let mut bus = Bus::new(1).address();
    // Before mailboxes; past a state; to none that exists. What stands is acknowledged, or goes back to INIT.
    assert_eq!(bus.state(0x1001, 2), (0x11, 0x16));
    assert_eq!(bus.state(0x1001, 4), (0x11, 0x16), "without acknowledgement nothing else is done");
    assert_eq!(bus.state(0x1001, 0x14), (0x11, 0x11));
    assert_eq!(bus.state(0x1001, 0x17), (0x11, 0x12));
    assert_eq!(bus.state(0x1001, 1), (1, 0));
    bus.mailboxes(0x1001);
    assert_eq!(bus.state(0x1001, 2), (2, 0));
    assert_eq!(bus.state(0x1001, 8), (0x12, 0x11));
    assert_eq!(bus.state(0x1001, 0x14), (0x12, 0x1D), "no outputs");
    bus.sync_manager(0x1001, 2, 0x1100, 4, 0x64);
    bus.sync_manager(0x1001, 3, 0x1180, 7, 0x20);
    assert_eq!(bus.state(0x1001, 0x14), (0x12, 0x1E), "inputs of another length");
    bus.sync_manager(0x1001, 3, 0x1180, 8, 0x20);
    bus.write(0x1001, 0x0981, &[3]);
    assert_eq!(bus.state(0x1001, 0x14), (0x12, 0x30), "SYNC0 without a cycle");
    bus.write(0x1001, 0x09A0, &1_000_000u32.to_le_bytes());
    assert_eq!(bus.state(0x1001, 0x14), (4, 0));
    assert_eq!(bus.state(0x1001, 8), (8, 0));
    assert_eq!(bus.state(0x1001, 2), (2, 0), "back is always possible");
}

#[test]
fn process_data_go_through_fmmus_and_count_three_for_each_that_reads_and_writes() {
    let mut bus = Bus::new(3).address();
    for place in 0..3u32 {
        bus.operate(0x1001 + place as u16, 4 * place, 12 + 8 * place);
    }
    let outputs: Vec<u8> = (1..=12).chain([0; 24]).collect();
    assert_eq!(bus.counter(12, 0, &outputs), 9);
    let (data, counter) = bus.send(10, 12, &[0; 24]);
    assert_eq!(counter, 3);
    // What was written comes back as inputs, behind each other.
    assert_eq!(
        (&data[..4], &data[8..12], &data[16..20]),
        (&[1, 2, 3, 4][..], &[5, 6, 7, 8][..], &[9, 10, 11, 12][..])
    );
    assert_eq!(bus.counter(11, 4, &[0; 4]), 1, "one that only writes, to one of them");
    assert_eq!(bus.counter(12, 0x1000, &[0; 4]), 0, "where nothing is mapped");
}

#[test]
fn before_safe_op_no_process_data_are_exchanged() {
    let mut bus = Bus::new(1).address();
    bus.operate(0x1001, 0, 4);
    assert_eq!(bus.counter(12, 0, &[0; 12]), 3);
    assert_eq!(bus.state(0x1001, 4), (4, 0));
    assert_eq!(bus.counter(12, 0, &[0; 12]), 3, "outputs are taken, if not used");
    assert_eq!(bus.state(0x1001, 2), (2, 0));
    assert_eq!(bus.counter(12, 0, &[0; 12]), 0);
}

#[test]
fn an_fmmu_maps_single_bits() {
    let mut bus = Bus::new(1).address();
    bus.operate(0x1001, 0, 4);
    // Three outputs at bits 6 to 8 of logical byte 0x20, from bit 2 of the memory's byte on.
    bus.write(0x1001, 0x0620, &[0x20, 0, 0, 0, 2, 0, 6, 0, 0x00, 0x11, 2, 2, 1, 0, 0, 0]);
    bus.write(0x1001, 0x1100, &[0xFF, 0, 0, 0]);
    assert_eq!(bus.counter(11, 0x20, &[0x40, 0x01]), 1);
    let memory = bus.segment.devices()[0].memory().get(0x1100, 2).unwrap().to_vec();
    assert_eq!(memory, [0b1111_0111, 0]);
}

#[test]
fn a_mailbox_takes_one_message_at_a_time_and_the_answer_is_read_once() {
    let mut bus = Bus::new(1).address();
    bus.mailboxes(0x1001);
    let message = [0; 128];
    assert_eq!(bus.counter(4, register(0x1001, 0x1080), &message), 0, "nothing is in it");
    bus.write(0x1001, 0x1000, &message);
    assert_eq!(
        bus.counter(5, register(0x1001, 0x1000), &message),
        0,
        "it is full: it is not read before PRE-OP"
    );
    assert_eq!(bus.counter(4, register(0x1001, 0x1000), &message), 0, "it is not for reading");
    bus.sync_manager(0x1001, 0, 0x1000, 128, 0x26);
    assert_eq!(bus.state(0x1001, 1), (1, 0));
    assert_eq!(bus.state(0x1001, 2), (2, 0));
    let answer = bus.sdo(0x1001, 0x40, 0x1018, 1, &[]);
    assert_eq!(&answer[8..16], &[0x43, 0x18, 0x10, 1, 0x0A, 0x0B, 0, 0]);
    assert_eq!(bus.counter(4, register(0x1001, 0x1080), &message), 0, "it was read");
    // The last answer again: the repeat bit is turned.
    bus.write(0x1001, 0x080E, &[3]);
    assert_eq!(bus.read(0x1001, 0x1080, 128), answer);
    assert_eq!(bus.read(0x1001, 0x080F, 1)[0] & 2, 2);
}

#[test]
fn objects_are_read_and_set_and_say_why_they_are_not() {
    let mut bus = Bus::new(1).address();
    bus.mailboxes(0x1001);
    assert_eq!(bus.state(0x1001, 2), (2, 0));
    let name = bus.sdo(0x1001, 0x40, 0x1008, 0, &[]);
    assert_eq!((name[8], u32::from_le_bytes([name[12], name[13], name[14], name[15]])), (0x41, 28));
    assert_eq!(&name[16..44], b"isolator simulated SubDevice");
    let set = bus.sdo(0x1001, 0x2F, 0x1C12, 0, &[0]);
    assert_eq!(set[8], 0x60);
    assert_eq!(bus.sdo(0x1001, 0x40, 0x1C12, 0, &[])[12], 0);
    // Command, index, subindex, abort code.
    let refused = [
        (0x40, 0x3000, 0, 0x0602_0000u32),
        (0x40, 0x1018, 9, 0x0609_0011),
        (0x2F, 0x1018, 1, 0x0601_0002),
        (0x23, 0x1C12, 0, 0x0607_0010),
        (0x2F, 0x1C13, 0, 0x0609_0030),
        (0x50, 0x1C12, 0, 0x0601_0000),
        (0x60, 0x1C12, 0, 0x0504_0001),
    ];
    for (command, index, sub, code) in refused {
        let answer = bus.sdo(0x1001, command, index, sub, &[7]);
        assert_eq!(
            (answer[8], &answer[12..16]),
            (0x80, &code.to_le_bytes()[..]),
            "{command:#x} {index:#x}:{sub}"
        );
    }
    // Without outputs the sync manager must be off.
    bus.sync_manager(0x1001, 3, 0x1180, 8, 0x20);
    assert_eq!(bus.state(0x1001, 4), (4, 0));
    let late = bus.sdo(0x1001, 0x2F, 0x1C12, 0, &[1]);
    assert_eq!(&late[12..16], &0x0800_0022u32.to_le_bytes());
}

#[test]
fn another_protocol_and_a_message_that_is_no_message_are_refused_by_the_mailbox() {
    let mut bus = Bus::new(1).address();
    bus.mailboxes(0x1001);
    assert_eq!(bus.state(0x1001, 2), (2, 0));
    for (head, detail) in
        [([10u8, 0, 0, 0, 0, 0x12], 2), ([200, 0, 0, 0, 0, 0x13], 5), ([1, 0, 0, 0, 0, 0x13], 6)]
    {
        let mut message = vec![0; 128];
        message[..6].copy_from_slice(&head);
        bus.write(0x1001, 0x1000, &message);
        let answer = bus.read(0x1001, 0x1080, 128);
        assert_eq!((answer[5] & 0x0F, answer[8]), (0, detail), "{head:?}");
    }
}

#[test]
fn the_sii_says_what_the_sub_device_is_and_keeps_what_is_written() {
    let mut bus = Bus::new(2).address();
    let read = |bus: &mut Bus, address: u16| {
        let [low, high] = address.to_le_bytes();
        bus.write(0x1002, 0x0502, &[0, 1, low, high, 0, 0]);
        assert_eq!(bus.read(0x1002, 0x0503, 1), [0], "no error, not busy");
        bus.read(0x1002, 0x0508, 8)
    };
    assert_eq!(read(&mut bus, 8), [0x0A, 0x0B, 0, 0, 0x0B, 0xA7, 0x01, 0x15]);
    assert_eq!(read(&mut bus, 14)[..4], [2, 0, 0, 0], "the second of them");
    assert_eq!(read(&mut bus, 0x0018), [0, 0x10, 128, 0, 0x80, 0x10, 128, 0]);
    assert_eq!(read(&mut bus, 0x0040)[..2], [10, 0], "strings come first");
    assert_eq!(read(&mut bus, 0xFFF0), [0xFF; 8]);
    bus.write(0x1002, 0x0508, &[0x34, 0x12]);
    bus.write(0x1002, 0x0502, &[1, 2, 4, 0, 0, 0]);
    assert_eq!(read(&mut bus, 4)[..2], [0x34, 0x12]);
    // Without leave to write, beyond its end, and where the SubDevice itself has it.
    for (owner, command) in [(0, [0, 2, 4, 0, 0, 0]), (0, [1, 2, 0, 0xF0, 0, 0]), (1, [0, 1, 8, 0, 0, 0])] {
        bus.write(0x1002, 0x0500, &[owner]);
        bus.write(0x1002, 0x0502, &command);
        assert_eq!(bus.read(0x1002, 0x0503, 1), [0x20], "{command:?}");
    }
}

#[test]
fn without_outputs_the_watchdog_takes_it_back_to_safe_op() {
    let mut bus = Bus::new(1).address();
    bus.operate(0x1001, 0, 4);
    for _ in 0..5 {
        bus.now_ns += 90 * MS;
        assert_eq!(bus.counter(12, 0, &[0; 12]), 3);
    }
    assert_eq!(bus.read(0x1001, 0x0130, 1), [8], "outputs came every 90 ms");
    bus.now_ns += 101 * MS;
    assert_eq!(bus.read(0x1001, 0x0130, 6), [0x14, 0, 0, 0, 0x1B, 0]);
    assert_eq!(bus.read(0x1001, 0x0440, 3), [0, 0, 1]);
    assert_eq!(bus.state(0x1001, 0x18), (8, 0), "acknowledged, it goes on");
    bus.write(0x1001, 0x0420, &[0, 0]);
    bus.now_ns += 10_000 * MS;
    assert_eq!(bus.read(0x1001, 0x0130, 1), [8], "a time of 0 is none");
}

#[test]
fn ports_latch_when_a_frame_passed_there_and_back() {
    let mut bus = Bus::new(3).address();
    assert_eq!(bus.counter(8, register(0, 0x0900), &[0; 4]), 3);
    let between = |bus: &mut Bus, node| {
        let times = bus.read(node, 0x0900, 8);
        let time = |at: usize| u32::from_le_bytes([times[at], times[at + 1], times[at + 2], times[at + 3]]);
        (time(4) != 0).then(|| time(4).wrapping_sub(time(0)))
    };
    assert_eq!([0x1001, 0x1002, 0x1003].map(|node| between(&mut bus, node)), [Some(1200), Some(600), None]);
    assert_eq!([0x1002, 0x1003].map(|node| bus.read(node, 0x0110, 2)), [[0x33, 0x5A], [0x13, 0x56]]);
}

#[test]
fn clocks_that_drift_follow_the_reference() {
    // 50 ppm from one to the next.
    let mut bus = Bus { segment: Segment::new(3, 50_000, Vec::new()), now_ns: MS }.address();
    assert_eq!(bus.counter(8, register(0, 0x0900), &[0; 4]), 3);
    for (node, delay) in [(0x1001, 0u32), (0x1002, 300), (0x1003, 600)] {
        let received = bus.read(node, 0x0918, 8);
        let received = u64::from_le_bytes(received.try_into().unwrap());
        bus.write(node, 0x0920, &0u64.wrapping_sub(received).to_le_bytes());
        bus.write(node, 0x0928, &delay.to_le_bytes());
    }
    let difference = |bus: &mut Bus, node| {
        let word = bus.read(node, 0x092C, 4);
        i64::from(u32::from_le_bytes(word.try_into().unwrap()) & 0x7FFF_FFFF)
    };
    let mut first = 0;
    for cycle in 0..3000 {
        bus.now_ns += MS;
        assert_eq!(bus.counter(14, register(0x1001, 0x0910), &[0; 8]), 3);
        if cycle == 0 {
            first = difference(&mut bus, 0x1003);
        }
    }
    assert!(first >= 100, "100 ppm in a millisecond are 100 ns: {first}");
    for node in [0x1002, 0x1003] {
        assert!(difference(&mut bus, node) <= 2, "{node:#x}: {}", difference(&mut bus, node));
    }
    let system = |bus: &mut Bus, node| u64::from_le_bytes(bus.read(node, 0x0910, 8).try_into().unwrap());
    let apart = system(&mut bus, 0x1003).abs_diff(system(&mut bus, 0x1001));
    assert!(apart <= 700, "they differ by the way between them: {apart}");
}

#[test]
fn a_clock_runs_as_fast_as_its_drift_says_and_never_back() {
    let mut clock = DeviceClock::new(5, 1_000);
    assert_eq!(clock.show(1_000_000_000), 1_000_001_005);
    assert_eq!(clock.show(999_999_000), 1_000_001_005);
    let mut by_steps = DeviceClock::new(5, 1_000);
    (1..=1_000_000u64).for_each(|step| {
        by_steps.show(step * 1000);
    });
    assert_eq!(by_steps.show(1_000_000_000), 1_000_001_005, "no part of a nanosecond is lost");
}

#[test]
fn sync0_counts_pulses_with_and_without_new_outputs() {
    let mut sync = Sync::default();
    // Cycles of 100 from 1000 on: before the first; twice within one; then one left out.
    for at in [900, 1010, 1110, 1120, 1210, 1410] {
        sync.outputs(at, 1000, 100);
    }
    assert_eq!((sync.hits, sync.misses, sync.extra), (3, 1, 1));
    sync.pause();
    sync.outputs(9000, 1000, 100);
    assert_eq!(sync.misses, 1, "a pause counts no misses");
    sync.outputs(9100, 1000, 0);
    assert_eq!(sync.hits, 3);
}

#[test]
fn sync0_misses_come_back_as_inputs() {
    let mut bus = Bus::new(1).address();
    bus.operate(0x1001, 0, 4);
    bus.write(0x1001, 0x09A0, &(MS as u32).to_le_bytes());
    bus.write(0x1001, 0x0981, &[3]);
    for step in [1, 1, 3, 1] {
        bus.now_ns += step * MS;
        assert_eq!(bus.counter(12, 0, &[0; 12]), 3);
    }
    let (data, _) = bus.send(10, 4, &[0; 8]);
    assert_eq!(data[4..], [2, 0, 0, 0]);
}

#[test]
fn each_fault_befalls_its_frame_alone() {
    let faults = ["lost@2", "late:5ms@3", "counter@4/2", "unplug:2@9"].map(|fault| fault.parse().unwrap());
    let mut bus = Bus { segment: Segment::new(2, 0, faults.to_vec()), now_ns: MS }.address();
    bus.operate(0x1001, 0, 8);
    bus.operate(0x1002, 4, 16);
    let mut seen = Vec::new();
    for _ in 0..10 {
        let mut bytes = frame(&[(7, 0, &[0]), (12, 0, &[0; 24])]);
        let fate = bus.segment.pass(&mut bytes, bus.now_ns);
        let end = bytes.len();
        seen.push((fate, u16::from_le_bytes([bytes[end - 2], bytes[end - 1]])));
    }
    let good = (Fate::Returned, 6);
    let wrong = (Fate::Returned, 5);
    assert_eq!(seen[..4], [good, (Fate::Lost, 0), (Fate::Late(5 * MS), 6), wrong]);
    assert_eq!(seen[4..], [good, wrong, good, wrong, (Fate::Returned, 3), (Fate::Returned, 2)]);
    assert_eq!(bus.segment.passed().faults, 7);
    assert_eq!(bus.read(0x1001, 0x0110, 2), [0x13, 0x56], "the one before shows an open end");
    let all_gone =
        Segment::new(2, 0, vec!["unplug:1@1".parse().unwrap()]).pass(&mut frame(&[(12, 0, &[0])]), 0);
    assert_eq!(all_gone, Fate::Lost);
}

#[test]
fn faults_are_written_as_they_are_read_and_what_makes_no_sense_is_refused() {
    for text in ["lost@5", "late:2000ns@1/7", "counter@9", "unplug:3@1000"] {
        assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
    }
    assert_eq!("late:2us@1".parse::<Fault>().unwrap().kind, FaultKind::Late(2000));
    for text in [
        "",
        "lost",
        "lost@0",
        "lost@x",
        "late@5",
        "late:5@5",
        "late:99999999999999999999s@1",
        "unplug:0@1",
        "x@1",
    ] {
        let said = text.parse::<Fault>().unwrap_err();
        assert!(
            said.starts_with(&format!("cannot make the fault '{text}': it must be lost@FRAME")),
            "{said}"
        );
    }
}

#[test]
fn a_frame_that_is_cut_anywhere_is_malformed_and_touches_nothing() {
    let whole = frame(&[(8, register(0, 0x0420), &[1, 2]), (8, register(0, 0x0010), &[3, 4])]);
    for end in 0..whole.len() {
        let mut segment = Segment::new(1, 0, Vec::new());
        let fate = segment.pass(&mut whole[..end].to_vec(), 0);
        assert!(matches!(fate, Fate::Ignored(_)), "{end}: {fate:?}");
        assert_eq!(segment.devices()[0].memory().u16(0x0010), 0);
    }
    let mut padded = whole.clone();
    padded.extend([0; 20]);
    assert_eq!(Segment::new(1, 0, Vec::new()).pass(&mut padded, 0), Fate::Returned);
}

#[test]
fn lengths_that_lead_astray_and_foreign_frames_are_named() {
    let change = |at: usize, value: u8| {
        let mut bytes = frame(&[(7, 0, &[0; 4])]);
        bytes[at] = value;
        Frame::parse(&mut bytes).err()
    };
    assert_eq!(change(12, 8), Some(Malformed::Foreign));
    assert_eq!(change(15, 0x40), Some(Malformed::NoDatagrams));
    assert_eq!(change(15, 0x17), Some(Malformed::Length), "longer than the frame");
    assert_eq!(change(22, 3), Some(Malformed::Length), "a datagram that ends before the frame's length does");
    assert_eq!(change(23, 0x80), Some(Malformed::Length), "another is to follow, and none does");
    assert_eq!(Frame::parse(&mut []).err(), Some(Malformed::Short));
}

proptest! {
    #[test]
    fn nothing_that_comes_makes_it_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), now in any::<u64>()
    ) {
        Segment::new(2, 100, Vec::new()).pass(&mut bytes, now);
    }

    #[test]
    fn no_datagrams_make_it_panic_and_their_lengths_stay(
        sent in prop::collection::vec((
            0u8..16,
            prop_oneof![any::<u32>(), (0u32..0x1300).prop_map(|at| at << 16)],
            prop::collection::vec(any::<u8>(), 0..150),
        ), 1..6),
        now in 0..u64::MAX / 2,
    ) {
        let sent = sent.iter().map(|(command, address, data)| (*command, *address, &data[..]));
        let sent: Vec<Sent> = sent.collect();
        let mut bytes = frame(&sent);
        let length = bytes.len();
        let mut segment = Segment::new(3, 100, Vec::new());
        prop_assert_eq!(segment.pass(&mut bytes, now), Fate::Returned);
        prop_assert_eq!(bytes.len(), length);
        prop_assert!(Frame::parse(&mut bytes).is_ok());
    }
}

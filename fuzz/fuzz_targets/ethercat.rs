// SPDX-License-Identifier: MIT OR Apache-2.0
//! EtherCAT frames: whatever comes, the simulated segment neither panics nor makes a frame another's length, and what it
//! sends back can be read.
#![no_main]

use ethercat::segment::frame::Frame;
use ethercat::segment::{Fate, Segment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|frames: Vec<Vec<u8>>| {
    let mut segment = Segment::new(2, 50_000, Vec::new());
    for (number, mut frame) in frames.into_iter().enumerate() {
        let length = frame.len();
        let fate = segment.pass(&mut frame, number as u64 * 1_000_000);
        assert_eq!(frame.len(), length);
        assert_eq!(fate == Fate::Returned, Frame::parse(&mut frame).is_ok());
    }
});

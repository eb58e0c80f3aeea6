// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two lines of a board, by its registers: one is read, the other driven. What was set to make them so goes
//! back when they are dropped.

use rt::registers::Registers;
use rt::{Error, Result};

use super::board::{Bits, Board, Drive};
use super::poll::SignalIo;

/// The lines, ready.
#[derive(Debug)]
pub(super) struct Pins {
    level: Bits,
    drive: Drive,
    /// The changed fields, and their values before.
    before: Vec<(Bits, u32)>,
}

impl Pins {
    /// Makes `input` of the board an input and `output` an output, low.
    pub fn set_up(board: &Board, registers: &Registers, input: u32, output: u32) -> Result<Pins> {
        let mut pins = Pins {
            level: board.level(registers, input)?,
            drive: board.drive(registers, output)?,
            before: Vec::new(),
        };
        for line in [input, output] {
            for (bits, value) in board.settings(registers, line)? {
                pins.change(bits, value);
            }
        }
        let (direction, read, _) = board.direction(registers, input)?;
        pins.change(direction, read);
        let (direction, _, driven) = board.direction(registers, output)?;
        // A level may be taken before the line is driven, or only afterwards (PL061).
        pins.output(0);
        pins.change(direction.clone(), driven);
        pins.output(0);
        if direction.get() != driven {
            let what = format!("make line {output} of {} an output", board.name);
            let why = "its registers do not keep what is written";
            return Err(Error::new(what, why, "see whether this is that board, and its clock runs"));
        }
        Ok(pins)
    }

    fn change(&mut self, bits: Bits, value: u32) {
        self.before.push((bits.clone(), bits.get()));
        bits.set(value);
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        while let Some((bits, value)) = self.before.pop() {
            bits.set(value);
        }
    }
}

impl SignalIo for Pins {
    #[inline(always)]
    fn input(&self) -> u32 {
        self.level.get()
    }

    #[inline(always)]
    fn output(&self, level: u32) {
        match (&self.drive, level & 1) {
            (Drive::SetClear(set, _), 1) => set.strobe(),
            (Drive::SetClear(_, clear), _) => clear.strobe(),
            (Drive::Data(data), level) => data.set(level),
            (Drive::Masked(own), level) => own.put(level),
        }
    }

    /// A bus may keep a write back, but not beyond a read.
    #[inline(always)]
    fn arrived(&self) {
        self.level.get();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    /// A file as a board's registers.
    struct Block {
        _file: File,
        path: PathBuf,
        board: Board,
    }

    impl Block {
        fn of(board: &str) -> Block {
            let board = Board::named(board).unwrap();
            let file = tempfile::tempfile().unwrap();
            file.set_len(board.size as u64).unwrap();
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            Block { _file: file, path, board }
        }

        fn registers(&self) -> Registers {
            Registers::file(&self.path, 0, self.board.size).unwrap()
        }

        fn word(&self, offset: usize) -> u32 {
            self.registers().at(offset).unwrap().read()
        }
    }

    /// Answers edges while `as_hardware` connects the output to the input; true once each was seen.
    fn loops_back(block: &Block, input: u32, output: u32, as_hardware: impl Fn(&Registers) + Sync) -> bool {
        let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        let registers = block.registers();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    as_hardware(&registers);
                    rounds.fetch_add(1, Ordering::SeqCst);
                    std::thread::yield_now();
                }
            });
            let pins = Pins::set_up(&block.board, &block.registers(), input, output).unwrap();
            // Hardware takes strobes one by one; this one must have taken those of the set-up before the next
            // comes.
            let round = rounds.load(Ordering::SeqCst);
            while rounds.load(Ordering::SeqCst) < round + 2 {
                std::thread::yield_now();
            }
            let began = std::time::Instant::now();
            let mut seen = true;
            for edge in 1..=40 {
                pins.output(edge & 1);
                while pins.input() != edge & 1 && seen {
                    std::thread::yield_now();
                    // Only keeps a broken test from hanging.
                    seen = began.elapsed().as_secs() < 60;
                }
            }
            over.store(true, Ordering::Relaxed);
            seen
        })
    }

    /// Moves bit `from` of the register at `out` to bit `to` of the one at `level`.
    fn copy(registers: &Registers, out: usize, from: u32, level: usize, to: u32) {
        let driven = registers.at(out).unwrap().read() >> from & 1;
        registers.at(level).unwrap().write(driven << to);
    }

    /// Lets written ones of `set` and `clear` raise and drop the line at `level`.
    fn strobes(registers: &Registers, set: usize, clear: usize, mask: u32, level: usize, to: u32) {
        for (offset, driven) in [(set, 1), (clear, 0)] {
            let strobe = registers.at(offset).unwrap();
            if strobe.read() & mask != 0 {
                strobe.write(0);
                registers.at(level).unwrap().write(driven << to);
            }
        }
    }

    #[test]
    fn a_raspberry_pi_4_sets_and_clears() {
        let block = Block::of("raspberry-pi-4");
        // Another function was selected, and lines beside them have theirs.
        block.registers().at(0x08).unwrap().write(0o7_777_777_777);
        assert!(loops_back(&block, 17, 27, |r| strobes(r, 0x1c, 0x28, 1 << 27, 0x34, 17)));
        assert_eq!(block.word(0x08), 0o7_777_777_777, "given back");
        let pins = Pins::set_up(&block.board, &block.registers(), 17, 27).unwrap();
        assert_eq!((block.word(0x04), block.word(0x08)), (0, 0o7_717_777_777));
        drop(pins);
    }

    #[test]
    fn a_raspberry_pi_5_selects_gpio_and_enables_the_pad() {
        let block = Block::of("raspberry-pi-5");
        block.registers().at(0x2_0004 + 4 * 17).unwrap().write(0x96);
        block.registers().at(4 + 8 * 27).unwrap().write(0xf01f);
        assert!(loops_back(&block, 17, 27, |r| strobes(r, 0x1_2000, 0x1_3000, 1 << 27, 0x1_0008, 17)));
        let pins = Pins::set_up(&block.board, &block.registers(), 17, 27).unwrap();
        assert_eq!((block.word(0x2_0004 + 4 * 17), block.word(4 + 8 * 27)), (0x56, 5));
        assert_eq!(block.word(0x1_0004), 1 << 27, "of the two only the output is driven");
        drop(pins);
        assert_eq!((block.word(0x2_0004 + 4 * 17), block.word(4 + 8 * 27)), (0x96, 0xf01f));
    }

    #[test]
    fn a_phytium_pi_keeps_the_levels_of_other_lines() {
        let block = Block::of("phytium-pi");
        block.registers().at(0x2000).unwrap().write(0b1000_0001);
        assert!(loops_back(&block, 0, 33, |r| copy(r, 0x2000, 1, 0x08, 0)));
        assert_eq!(block.word(0x2000) & !0b10, 0b1000_0001);
    }

    #[test]
    fn a_pl061_drives_a_line_by_an_address_of_its_own() {
        let block = Block::of("pl061@0x9030000");
        assert!(loops_back(&block, 3, 5, |r| copy(r, 1 << 7, 5, 1 << 5, 3)));
        let pins = Pins::set_up(&block.board, &block.registers(), 3, 5).unwrap();
        pins.output(1);
        assert_eq!((block.word(1 << 7), block.word(0x400)), (1 << 5, 1 << 5));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A board: where the registers of its GPIO lines are, and which bit of which is whose. Described by a file,
//! which for some boards comes with the program.
//!
//! ```toml
//! name = "Raspberry Pi 4"
//! address = 0xfe20_0000             # physical, of the block's first page; or device = "/dev/uio0"
//! size = 0x1000                     # whole pages
//! lines = 58
//! chip = { label = "pinctrl-bcm2711" }   # the kernel's chip, which knows who uses a line
//! level = { offset = 0x34 }         # a field of the line: what is read
//! set = { offset = 0x1c }           # what is driven: set and clear; or data, or masked = 0x000 (PL061)
//! clear = { offset = 0x28 }
//! direction = { offset = 0x00, per = 10, bits = 3, input = 0, output = 1 }
//! ```
//! A field is `bits` wide (1) from bit `shift` (0) on; `per` lines (32) share a register, the next ones have
//! theirs `step` bytes (4) on. `[[prepare]]` fields get their `value` first, for both lines.

use std::path::PathBuf;

use rt::registers::{Register, Registers};
use rt::{Error, Result};
use serde::Deserialize;

/// The boards that the program knows.
pub const BOARDS: [(&str, &str); 4] = [
    ("raspberry-pi-4", include_str!("boards/raspberry-pi-4.toml")),
    ("raspberry-pi-5", include_str!("boards/raspberry-pi-5.toml")),
    ("phytium-pi", include_str!("boards/phytium-pi.toml")),
    ("pl061", include_str!("boards/pl061.toml")),
];

/// Bits of a register.
const REGISTER: u32 = u32::BITS;

/// No board has a block that is larger, or more lines.
const LARGEST: usize = 1 << 28;
const MOST_LINES: u32 = 4096;

/// A board, as described.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// Its usual name.
    pub name: String,
    /// Physical address of the block.
    pub address: Option<u64>,
    /// A character device that maps the block.
    pub device: Option<PathBuf>,
    /// Length of the block in bytes.
    pub size: usize,
    /// How many lines it has.
    pub lines: u32,
    /// The kernel's GPIO chip of the same lines.
    chip: Option<Chip>,
    #[serde(default)]
    prepare: Vec<Field>,
    direction: Field,
    level: Option<Field>,
    set: Option<Field>,
    clear: Option<Field>,
    data: Option<Field>,
    masked: Option<usize>,
}

/// The kernel's chip, or chips of `per` lines each whose addresses are `step` apart.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chip {
    /// With the chip's address for `{address}`.
    label: String,
    per: Option<u32>,
    #[serde(default)]
    step: u64,
}

/// Which bits are a line's, and what they are set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    offset: usize,
    #[serde(default = "all")]
    per: u32,
    #[serde(default = "word")]
    step: usize,
    #[serde(default)]
    shift: u32,
    #[serde(default = "one")]
    bits: u32,
    value: Option<u32>,
    input: Option<u32>,
    output: Option<u32>,
}

fn all() -> u32 {
    REGISTER
}

fn word() -> usize {
    size_of::<u32>()
}

fn one() -> u32 {
    1
}

/// A line's bits of one register.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    register: Register,
    mask: u32,
    shift: u32,
}

impl Bits {
    #[inline(always)]
    pub fn get(&self) -> u32 {
        (self.register.read() & self.mask) >> self.shift
    }

    /// Leaves the register's other bits as they are.
    #[inline(always)]
    pub fn set(&self, value: u32) {
        self.register.write(self.register.read() & !self.mask | value << self.shift & self.mask);
    }

    /// Writes ones to these bits and zeroes to all others.
    #[inline(always)]
    pub fn strobe(&self) {
        self.register.write(self.mask);
    }

    /// Writes `value` to these bits and zeroes to all others.
    #[inline(always)]
    pub fn put(&self, value: u32) {
        self.register.write(value << self.shift & self.mask);
    }
}

/// How a line is driven.
#[derive(Debug, Clone)]
pub(super) enum Drive {
    /// A register that sets, and one that clears, those lines whose bits are written as one.
    SetClear(Bits, Bits),
    /// A register of all lines' levels.
    Data(Bits),
    /// A register that is this line's alone.
    Masked(Bits),
}

/// A setting of a line's field before the line is used.
pub(super) type FieldSetting = (Bits, u32);

impl Board {
    /// The board that `NAME`, `FILE`, or either with `@ADDRESS` or `@DEVICE`, names.
    pub fn named(text: &str) -> Result<Board> {
        let what = || format!("use the board '{text}'");
        let (name, place) = text.split_once('@').map_or((text, None), |(name, place)| (name, Some(place)));
        let known = BOARDS.iter().find(|(known, _)| *known == name);
        let mut board = match known {
            Some((_, described)) => {
                Board::parse(described).map_err(|why| Error::new(what(), why, "report this"))
            }
            None if name.contains(['/', '.']) => {
                let described = untrusted::text(name).map_err(|error| {
                    Error::os(format!("read the board {name}"), &error, "give another file")
                })?;
                Board::parse(&described).map_err(|why| Error::new(what(), why, "correct the file"))
            }
            None => {
                let known = BOARDS.map(|(name, _)| name).join(", ");
                let cure = format!("choose from {known}, or give a file that describes it");
                Err(Error::new(what(), "there is none of that name", cure))
            }
        }?;
        match place.map(|place| (place, place.strip_prefix("0x"))) {
            None => {}
            Some((_, Some(digits))) => {
                let address = u64::from_str_radix(digits, 16).map_err(|_| {
                    Error::new(
                        what(),
                        format!("'0x{digits}' is not an address"),
                        "give one such as 0x9030000",
                    )
                })?;
                (board.address, board.device) = (Some(address), None);
            }
            Some((device, None)) if device.starts_with('/') => board.device = Some(device.into()),
            Some((place, None)) => {
                let cure = "give an address such as @0x9030000, or a device such as @/dev/uio0";
                return Err(Error::new(what(), format!("'{place}' is not a place"), cure));
            }
        }
        if board.address.is_none() && board.device.is_none() {
            let cure = format!("add it: {text}@0x9030000, or {text}@/dev/uio0");
            return Err(Error::new(what(), "it does not say where its registers are", cure));
        }
        Ok(board)
    }

    /// A board as a file describes it; else what is wrong with it, in one line.
    pub fn parse(text: &str) -> std::result::Result<Board, String> {
        let board: Board = toml::from_str(text)
            .map_err(|why| why.to_string().trim_end().replace('\n', " ").replace("  ", " "))?;
        board.check()?;
        Ok(board)
    }

    /// Whether every line's bits lie in the block.
    fn check(&self) -> std::result::Result<(), String> {
        if self.size == 0 || self.size > LARGEST || self.lines == 0 || self.lines > MOST_LINES {
            return Err(format!("{} lines in {} bytes are no board", self.lines, self.size));
        }
        match (&self.set, &self.clear, &self.data, &self.masked) {
            (Some(_), Some(_), None, None) | (None, None, Some(_), None) if self.level.is_some() => {}
            (None, None, None, Some(_)) if self.level.is_none() => {}
            _ => return Err("it takes level, set and clear; or level and data; or masked alone".into()),
        }
        let fields = [self.level, self.set, self.clear, self.data].into_iter().flatten();
        if fields.clone().any(|field| field.bits != 1) {
            return Err("what is read and driven is one bit of a register".into());
        }
        let set_to = |field: &Field| [field.value, field.input, field.output].map(|value| value.is_some());
        if fields.clone().any(|field| set_to(&field) != [false; 3])
            || self.prepare.iter().any(|field| set_to(field) != [true, false, false])
            || set_to(&self.direction) != [false, true, true]
        {
            return Err(
                "prepare takes a value, direction takes input and output, other fields none of them".into()
            );
        }
        for field in fields.chain([self.direction]).chain(self.prepare.iter().copied()) {
            self.check_field(&field)?;
        }
        // A mask of eight lines is ten bits of an address.
        if self
            .masked
            .is_some_and(|at| self.lines > 8 || at % 1024 != 0 || at.saturating_add(1024) > self.size)
        {
            return Err("masked is for eight lines, in 1024 bytes of their own".into());
        }
        Ok(())
    }

    fn check_field(&self, field: &Field) -> std::result::Result<(), String> {
        let Field { offset, per, step, shift, bits, .. } = *field;
        let wide = bits.checked_mul(per).and_then(|bits| bits.checked_add(shift));
        if per == 0 || bits == 0 || wide.is_none_or(|wide| wide > REGISTER) {
            return Err(format!(
                "{per} fields of {bits} bits from bit {shift} on are no register of {REGISTER}"
            ));
        }
        let last = ((self.lines - 1) / per) as usize;
        let end = last
            .checked_mul(step)
            .and_then(|at| at.checked_add(offset))
            .and_then(|at| at.checked_add(word()));
        if !offset.is_multiple_of(word())
            || !step.is_multiple_of(word())
            || end.is_none_or(|end| end > self.size)
        {
            return Err(format!(
                "a register at {offset:#x}, and the next ones each {step:#x} on, lie outside of the block"
            ));
        }
        Ok(())
    }

    /// Refuses lines that it does not have.
    pub fn check_line(&self, option: &str, line: u32) -> Result<()> {
        if line < self.lines {
            return Ok(());
        }
        let (name, last) = (&self.name, self.lines - 1);
        Err(Error::new(
            format!("use line {line} of {name}"),
            format!("it has lines 0 to {last}"),
            format!("give another {option}"),
        ))
    }

    /// Maps its registers: by its device where that is there, else by its address.
    pub fn map(&self) -> Result<Registers> {
        match (&self.device, self.address) {
            (Some(device), None) => Registers::device(device, self.size),
            (Some(device), Some(_)) if untrusted::is_there(device) => Registers::device(device, self.size),
            (_, address) => Registers::physical(address.unwrap_or(0), self.size),
        }
    }

    /// The label of the kernel's chip that has `line`, and the line's number there.
    pub fn chip_of(&self, line: u32) -> Option<(String, u32)> {
        let chip = self.chip.as_ref()?;
        let per = chip.per.unwrap_or(self.lines).max(1);
        let address = self.address.map(|at| at.wrapping_add(u64::from(line / per).wrapping_mul(chip.step)));
        match (chip.label.contains("{address}"), address) {
            (false, _) => Some((chip.label.clone(), line % per)),
            (true, Some(address)) => {
                Some((chip.label.replace("{address}", &format!("{address:x}")), line % per))
            }
            (true, None) => None,
        }
    }

    /// The settings of `line` before it is used.
    pub(super) fn settings(&self, registers: &Registers, line: u32) -> Result<Vec<FieldSetting>> {
        let setting = |field: &Field| Ok((bits(registers, field, line)?, field.value.unwrap_or(0)));
        self.prepare.iter().map(setting).collect()
    }

    /// The direction of `line`, with what makes it an input and an output.
    pub(super) fn direction(&self, registers: &Registers, line: u32) -> Result<(Bits, u32, u32)> {
        let Field { input, output, .. } = self.direction;
        Ok((bits(registers, &self.direction, line)?, input.unwrap_or(0), output.unwrap_or(0)))
    }

    /// The level of `line`.
    pub(super) fn level(&self, registers: &Registers, line: u32) -> Result<Bits> {
        match (&self.level, self.masked) {
            (Some(level), _) => bits(registers, level, line),
            (None, masked) => own_register(registers, masked.unwrap_or(0), line),
        }
    }

    /// The registers that drive `line`.
    pub(super) fn drive(&self, registers: &Registers, line: u32) -> Result<Drive> {
        match (&self.set, &self.clear, &self.data) {
            (Some(set), Some(clear), _) => {
                Ok(Drive::SetClear(bits(registers, set, line)?, bits(registers, clear, line)?))
            }
            (_, _, Some(data)) => Ok(Drive::Data(bits(registers, data, line)?)),
            _ => Ok(Drive::Masked(own_register(registers, self.masked.unwrap_or(0), line)?)),
        }
    }
}

fn bits(registers: &Registers, field: &Field, line: u32) -> Result<Bits> {
    let shift = field.shift + line % field.per * field.bits;
    let mask = (u32::MAX >> (REGISTER - field.bits)) << shift;
    let register = registers.at(field.offset + (line / field.per) as usize * field.step)?;
    Ok(Bits { register, mask, shift })
}

/// Where the address says which line is meant.
fn own_register(registers: &Registers, offset: usize, line: u32) -> Result<Bits> {
    Ok(Bits { register: registers.at(offset + (1 << (line + 2)))?, mask: 1 << line, shift: line })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str) -> Board {
        Board::named(name).unwrap()
    }

    /// Where `line` of a board has `field`: its register's offset, and its mask.
    fn place(field: Option<Field>, line: u32) -> (usize, u32) {
        let field = field.unwrap();
        let registers = field.offset + (line / field.per) as usize * field.step;
        let shift = field.shift + line % field.per * field.bits;
        (registers, (u32::MAX >> (32 - field.bits)) << shift)
    }

    #[test]
    fn a_raspberry_pi_4_has_its_lines_where_the_driver_has_them() {
        let board = named("raspberry-pi-4");
        assert_eq!((board.address, board.size, board.lines), (Some(0xfe20_0000), 0x1000, 58));
        assert_eq!(place(Some(board.direction), 27), (0x08, 0b111 << 21));
        assert_eq!(place(board.level, 33), (0x38, 1 << 1));
        assert_eq!((place(board.set, 17), place(board.clear, 45)), ((0x1c, 1 << 17), (0x2c, 1 << 13)));
        assert_eq!(board.chip_of(17), Some(("pinctrl-bcm2711".into(), 17)));
    }

    #[test]
    fn a_raspberry_pi_5_has_a_control_register_and_a_pad_a_line() {
        let board = named("raspberry-pi-5");
        assert_eq!((board.address, board.size), (Some(0x1f_000d_0000), 0x3_0000));
        assert_eq!(
            (place(board.level, 17), place(board.set, 17)),
            ((0x1_0008, 1 << 17), (0x1_2000, 1 << 17))
        );
        assert_eq!(place(board.clear, 0), (0x1_3000, 1));
        let prepared = board.prepare.iter().map(|field| (place(Some(*field), 2), field.value.unwrap()));
        let expected = [((0x14, 0x1f), 5), ((0x14, 0xf000), 0), ((0x2_000c, 0xc0), 1)];
        assert_eq!(prepared.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_phytium_pi_has_six_controllers_and_a_chip_each() {
        let board = named("phytium-pi");
        assert_eq!((place(board.level, 33), place(board.data, 33)), ((0x2008, 1 << 1), (0x2000, 1 << 1)));
        assert_eq!(place(Some(board.direction), 95), (0x5004, 1 << 15));
        assert_eq!(board.chip_of(33), Some(("28036000.gpio".into(), 1)));
    }

    #[test]
    fn a_pl061_is_wherever_it_is_said_to_be() {
        let board = named("pl061@0x9030000");
        assert_eq!((board.address, board.masked), (Some(0x903_0000), Some(0)));
        assert_eq!(board.chip_of(3), Some(("9030000.pl061".into(), 3)));
        let device = named("pl061@/dev/uio0");
        assert_eq!((device.device, device.address), (Some("/dev/uio0".into()), None));
    }

    #[test]
    fn what_names_no_board_is_refused_with_the_cure() {
        for (text, why) in [
            (
                "raspberry",
                "there is none of that name; choose from raspberry-pi-4, raspberry-pi-5, phytium-pi, pl061, or",
            ),
            ("pl061", "it does not say where its registers are; add it: pl061@0x9030000"),
            ("pl061@9030000", "'9030000' is not a place; give an address such as @0x9030000"),
            ("pl061@0xg", "'0xg' is not an address"),
            ("./no-such-board.toml", "no such file or directory; give another file"),
        ] {
            let said = Board::named(text).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn a_description_that_makes_no_sense_is_refused() {
        let whole = "name = 'b'\naddress = 0x1000\nsize = 0x1000\nlines = 8\nlevel = { offset = 0 }\n\
                     data = { offset = 4 }\ndirection = { offset = 8, input = 0, output = 1 }\n";
        assert!(Board::parse(whole).is_ok());
        for (from, to, why) in [
            ("lines = 8", "lines = 0", "0 lines in 4096 bytes are no board"),
            ("size = 0x1000", "size = 0", "8 lines in 0 bytes are no board"),
            (
                "offset = 4 ",
                "offset = 0x1000 ",
                "a register at 0x1000, and the next ones each 0x4 on, lie outside",
            ),
            (
                "offset = 4 ",
                "offset = 4, per = 1, step = 0x400 ",
                "a register at 0x4, and the next ones each 0x400 on",
            ),
            ("offset = 4 ", "offset = 2 ", "lie outside"),
            ("offset = 4 ", "offset = 4, per = 0 ", "0 fields of 1 bits from bit 0 on are no register of 32"),
            ("offset = 4 ", "offset = 4, bits = 2 ", "one bit of a register"),
            ("offset = 4 ", "offset = 4, value = 2 ", "prepare takes a value"),
            ("input = 0, ", "", "direction takes input and output"),
            ("data = ", "set = ", "it takes level, set and clear; or level and data; or masked alone"),
            ("data = { offset = 4 }", "masked = 0", "or masked alone"),
            ("name", "nickname", "unknown field `nickname`"),
        ] {
            let said = Board::parse(&whole.replace(from, to)).unwrap_err();
            assert!(said.contains(why) && !said.contains('\n'), "{to}: {said}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_file_says_no_line_lies_outside_of_its_block(
            (lines, per, bits, shift) in (0u32..5000, 0u32..40, 0u32..40, 0u32..40),
            (offset, step, size) in (0usize..0x3000, 0usize..0x3000, 0usize..0x3000),
        ) {
            let described = format!(
                "name = 'b'\nsize = {size}\nlines = {lines}\nlevel = {{ offset = {offset}, per = {per}, step = {step}, \
                 shift = {shift} }}\ndata = {{ offset = 0 }}\n\
                 direction = {{ offset = {offset}, per = {per}, bits = {bits}, step = {step}, input = 0, output = 1 }}\n"
            );
            if let Ok(board) = Board::parse(&described) {
                for line in [0, lines / 2, lines - 1] {
                    for field in [board.level.unwrap(), board.direction] {
                        let (offset, mask) = place(Some(field), line);
                        prop_assert!(offset % 4 == 0 && offset + 4 <= size);
                        prop_assert_eq!(mask.count_ones(), field.bits);
                    }
                }
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            _ = Board::parse(&text);
        }
    }
}

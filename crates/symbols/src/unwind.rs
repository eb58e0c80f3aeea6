// SPDX-License-Identifier: MIT OR Apache-2.0
//! One step up a call stack, by `.eh_frame` (DWARF 5, section 6.4; the x86-64 and AArch64 psABIs).
//!
//! gimli reads the tables; this module applies them to a copy of the stack. Crates that unwind copies
//! (framehop) support no signal frames and do not limit the expressions of a malicious file.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, EvaluationResult, Expression,
    LittleEndian, Location, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value,
};

use crate::elf::UnwindTables;

/// The most operations of one expression.
const OPERATIONS: u32 = 256;

/// The number of registers that unwinding can use: general ones and the return address.
const REGISTERS: usize = 33;

#[cfg(not(target_arch = "aarch64"))]
mod number {
    pub const FRAME: usize = 6;
    pub const STACK: usize = 7;
    pub const RETURN: usize = 16;
}
#[cfg(target_arch = "aarch64")]
mod number {
    pub const FRAME: usize = 29;
    pub const RETURN: usize = 30;
    pub const STACK: usize = 31;
}

/// A pointer without its authentication code, which addresses of 48 bits leave room for.
#[cfg(target_arch = "aarch64")]
const POINTER: u64 = (1 << 48) - 1;
#[cfg(not(target_arch = "aarch64"))]
const POINTER: u64 = u64::MAX;

/// The registers of a thread in user mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserRegisters {
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer: `rbp`, `x29`.
    pub bp: u64,
    /// The link register of AArch64, `x30`; not used on x86-64.
    pub lr: u64,
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnwindStep {
    /// The caller was found.
    Taken,
    /// This was the first function.
    AtTop,
    /// The tables have no entry.
    Unknown,
}

/// A copy of the top of a stack.
#[derive(Debug, Clone, Copy)]
pub struct Stack<'a> {
    /// The address of its first byte.
    pub begin: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl Stack<'_> {
    fn read(&self, address: u64, size: usize) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.begin)?).ok()?;
        let mut word = [0; 8];
        word.get_mut(..size)?.copy_from_slice(self.bytes.get(at..at.checked_add(size)?)?);
        Some(u64::from_le_bytes(word))
    }
}

/// A thread in one of its functions, while unwinding.
#[derive(Debug, Clone)]
pub struct Walk {
    registers: [Option<u64>; REGISTERS],
    ip: u64,
    /// Whether `ip` is the next instruction, after the call.
    is_caller: bool,
}

impl Walk {
    /// The thread's position.
    pub fn new(from: &UserRegisters) -> Walk {
        let mut registers = [None; REGISTERS];
        registers[number::STACK] = Some(from.sp);
        registers[number::FRAME] = Some(from.bp);
        if cfg!(target_arch = "aarch64") {
            registers[number::RETURN] = Some(from.lr);
        }
        Walk { registers, ip: from.ip, is_caller: false }
    }

    /// An address in the instruction; of a caller, in its call.
    pub fn address(&self) -> u64 {
        self.ip.wrapping_sub(u64::from(self.is_caller))
    }

    /// Steps to the caller by the tables of the binary, which is loaded `bias` above its address in the file.
    pub fn by_tables(&mut self, tables: &UnwindTables, bias: u64, stack: Stack<'_>) -> UnwindStep {
        let address = self.address().wrapping_sub(bias);
        let mut next = self.clone();
        // A panic of a library must not end this program.
        let step = catch_unwind(AssertUnwindSafe(|| next.follow(tables, address, stack)));
        let step = step.ok().flatten().unwrap_or(UnwindStep::Unknown);
        if step == UnwindStep::Taken {
            *self = next;
        }
        step
    }

    /// Steps to the caller by the frame pointer: it points at the caller's frame pointer, with the return
    /// address beside it.
    pub fn by_frame_pointer(&mut self, stack: Stack<'_>) -> UnwindStep {
        let taken = || {
            let (sp, frame) = (self.registers[number::STACK]?, self.registers[number::FRAME]?);
            let up = frame.checked_add(16).filter(|up| *up > sp)?;
            Some((stack.read(frame, 8)?, stack.read(frame.checked_add(8)?, 8)?, up))
        };
        let Some((frame, ip, up)) = taken() else { return UnwindStep::Unknown };
        self.registers = [None; REGISTERS];
        self.registers[number::FRAME] = Some(frame);
        self.registers[number::STACK] = Some(up);
        (self.ip, self.is_caller) = (ip & POINTER, true);
        UnwindStep::Taken
    }

    /// Steps to the caller from a function's first instruction, or from a function without a frame.
    pub fn by_return_address(&mut self, stack: Stack<'_>) -> UnwindStep {
        let Some(sp) = self.registers[number::STACK].filter(|_| !self.is_caller) else {
            return UnwindStep::Unknown;
        };
        let found = match self.registers[number::RETURN] {
            Some(link) => Some(link),
            None => stack.read(sp, 8).inspect(|_| self.registers[number::STACK] = Some(sp + 8)),
        };
        let Some(ip) = found else { return UnwindStep::Unknown };
        (self.ip, self.is_caller) = (ip & POINTER, true);
        UnwindStep::Taken
    }

    fn follow(&mut self, tables: &UnwindTables, address: u64, stack: Stack<'_>) -> Option<UnwindStep> {
        let mut eh_frame = EhFrame::new(&tables.eh_frame.bytes, LittleEndian);
        eh_frame.set_address_size(8);
        if cfg!(target_arch = "aarch64") {
            eh_frame.set_vendor(gimli::Vendor::AArch64);
        }
        let bases = BaseAddresses::default()
            .set_eh_frame(tables.eh_frame.address)
            .set_eh_frame_hdr(tables.index.address)
            .set_text(tables.text);
        let index = EhFrameHdr::new(&tables.index.bytes, LittleEndian).parse(&bases, 8).ok();
        let entry = match index.as_ref().and_then(|index| index.table()) {
            Some(table) => table.fde_for_address(&eh_frame, &bases, address, EhFrame::cie_from_offset),
            None => eh_frame.fde_for_address(&bases, address, EhFrame::cie_from_offset),
        };
        let entry = entry.ok()?;
        let encoding = entry.cie().encoding();
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&eh_frame, &bases, &mut context, address).ok()?;
        let section = Expressions { section: &eh_frame, encoding, stack, walk: self };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                section.register(*register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => section.value(expression, None)?,
        };
        let sp = self.registers[number::STACK]?;
        // The function may have pushed nothing yet; only on x86-64 the call itself pushed the return address.
        if cfa < sp || (cfa == sp && (self.is_caller || cfg!(not(target_arch = "aarch64")))) {
            return None;
        }
        let mut registers = self.registers;
        for (register, rule) in row.registers() {
            let Some(place) = registers.get_mut(usize::from(register.0)) else { continue };
            *place = match rule {
                RegisterRule::Undefined => None,
                RegisterRule::SameValue => continue,
                RegisterRule::Offset(offset) => stack.read(cfa.wrapping_add_signed(*offset), 8),
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => section.register(*other),
                RegisterRule::Expression(expression) => {
                    section.value(expression, Some(cfa)).and_then(|address| stack.read(address, 8))
                }
                RegisterRule::ValExpression(expression) => section.value(expression, Some(cfa)),
                _ => None,
            };
        }
        let column = entry.cie().return_address_register();
        let is_at_top = match row.register(column) {
            Some(RegisterRule::Undefined) => true,
            None => cfg!(not(target_arch = "aarch64")),
            Some(_) => false,
        };
        if is_at_top {
            return Some(UnwindStep::AtTop);
        }
        let ip = (*registers.get(usize::from(column.0))?)? & POINTER;
        if ip == 0 {
            return Some(UnwindStep::AtTop);
        }
        if row.register(Register(number::STACK as u16)).is_none() {
            registers[number::STACK] = Some(cfa);
        }
        if cfg!(not(target_arch = "aarch64")) {
            registers[number::RETURN] = None;
        }
        let is_caller = !entry.cie().is_signal_trampoline();
        *self = Walk { registers, ip, is_caller };
        Some(UnwindStep::Taken)
    }
}

/// The memory and registers that a table's expressions may read.
struct Expressions<'a> {
    section: &'a EhFrame<EndianSlice<'a, LittleEndian>>,
    encoding: Encoding,
    stack: Stack<'a>,
    walk: &'a Walk,
}

impl Expressions<'_> {
    fn register(&self, register: Register) -> Option<u64> {
        // On x86-64 the return address has a number, and is the instruction pointer meanwhile.
        if cfg!(not(target_arch = "aarch64")) && usize::from(register.0) == number::RETURN {
            return Some(self.walk.ip);
        }
        *self.walk.registers.get(usize::from(register.0))?
    }

    fn value(&self, expression: &UnwindExpression<usize>, begin: Option<u64>) -> Option<u64> {
        let Expression(bytes) = expression.get(self.section).ok()?;
        let mut evaluation = Expression(bytes).evaluation(self.encoding);
        evaluation.set_max_iterations(OPERATIONS);
        if let Some(begin) = begin {
            evaluation.set_initial_value(begin);
        }
        let mut state = evaluation.evaluate().ok()?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.register(register)?)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let value = self.stack.read(address, usize::from(size))?;
                    evaluation.resume_with_memory(Value::Generic(value)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result().last()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(begin: u64, words: &[u64]) -> (u64, Vec<u8>) {
        (begin, words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    #[test]
    fn frame_pointers_lead_to_the_caller_and_never_back() {
        let (begin, bytes) = stack(0x1000, &[0, 0, 0x1020, 0x40_1000, 0x1008, 0x40_2000]);
        let stack = Stack { begin, bytes: &bytes };
        let mut walk = Walk::new(&UserRegisters { ip: 0x40_0000, sp: 0x1000, bp: 0x1010, lr: 0 });
        assert_eq!((walk.address(), walk.by_frame_pointer(stack)), (0x40_0000, UnwindStep::Taken));
        assert_eq!((walk.address(), walk.by_frame_pointer(stack)), (0x40_0fff, UnwindStep::Taken));
        // The frame pointer leads back.
        assert_eq!((walk.address(), walk.by_frame_pointer(stack)), (0x40_1fff, UnwindStep::Unknown));
    }

    #[test]
    fn damaged_tables_give_no_caller() {
        let mut walk = Walk::new(&UserRegisters { ip: 0x40_0000, sp: 0x1000, bp: u64::MAX, lr: 0 });
        let stack = Stack { begin: u64::MAX - 3, bytes: &[0xff; 64] };
        for length in 0..64 {
            let bytes = crate::elf::Bytes { address: u64::MAX, bytes: vec![0xff; length] };
            let tables = UnwindTables { eh_frame: bytes.clone(), index: bytes, text: u64::MAX };
            assert_eq!(walk.by_tables(&tables, 1, stack), UnwindStep::Unknown);
        }
        assert_eq!(walk.by_frame_pointer(stack), UnwindStep::Unknown);
    }
}

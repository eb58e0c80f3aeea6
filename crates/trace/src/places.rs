// SPDX-License-Identifier: MIT OR Apache-2.0
//! The places in a program from which a thread waits, by their call stacks.
//!
//! The stack pointer tells most of them apart, and each record has it. Two calls of one function, or of two
//! functions of one size, leave it alike: then the address of a caller on the stack differs. It is looked for
//! once, in the stacks of a thread's first waits, and the BPF part reads that one word from there on.

use symbols::{ProcessCode, UserRegisters};

use crate::record::{StackTaken, UserStack};

/// Stacks of a thread that are compared: of some cycles with some waits.
pub(crate) const COMPARED: u64 = 16;

/// The size of an address on the stack.
const WORD: usize = 8;

/// A wait's stack, with the call stack that was found in it.
#[derive(Debug)]
struct SeenStack {
    registers: UserRegisters,
    bytes: Vec<u8>,
    callers: Vec<u64>,
}

/// The waits of one thread so far.
#[derive(Debug, Default)]
pub(crate) struct WaitPlaces {
    stacks: Vec<SeenStack>,
    new: Vec<UserStack>,
    is_settled: bool,
}

impl WaitPlaces {
    /// Takes the stack of a wait.
    pub fn add(&mut self, stack: UserStack) {
        let count = self.stacks.len() + self.new.len();
        if !self.is_settled && stack.taken == StackTaken::AtWait && (count as u64) < COMPARED {
            self.new.push(stack);
        }
    }

    /// Whether there are stacks that were not compared yet.
    pub fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// Compares the new stacks, which takes long where binaries are large: how far above the stack pointer
    /// the address is that tells a place from another one, the first time that one is needed.
    pub fn tell_apart(&mut self, code: &mut ProcessCode) -> Option<u64> {
        std::mem::take(&mut self.new).into_iter().find_map(|UserStack { registers, bytes, .. }| {
            let callers = code.unwind(&registers, &bytes);
            self.compare(SeenStack { registers, bytes, callers })
        })
    }

    fn compare(&mut self, new: SeenStack) -> Option<u64> {
        let is_alike = |seen: &&SeenStack| {
            (seen.registers.ip, seen.registers.sp) == (new.registers.ip, new.registers.sp)
        };
        let found = self.stacks.iter().filter(is_alike).find_map(|seen| differs_at(seen, &new));
        self.is_settled = found.is_some();
        self.stacks.push(new);
        found
    }
}

/// Where two stacks have the addresses of the innermost callers that differ.
fn differs_at(one: &SeenStack, other: &SeenStack) -> Option<u64> {
    let mut pairs = one.callers.iter().zip(&other.callers);
    let (a, b) = pairs.find(|(a, b)| a != b)?;
    // A caller is known by an address within its call, and the stack has the one after it.
    let is_it = |word: &[u8], address: u64| {
        word.try_into().is_ok_and(|word| u64::from_ne_bytes(word) == address.wrapping_add(1))
    };
    let mut words = one.bytes.chunks_exact(WORD).zip(other.bytes.chunks_exact(WORD));
    words.position(|(first, second)| is_it(first, *a) && is_it(second, *b)).map(|at| (at * WORD) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack of these words, of a function that was called from `callers`.
    fn stack(sp: u64, words: &[u64], callers: &[u64]) -> SeenStack {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let callers = std::iter::once(0x7f00).chain(callers.iter().map(|caller| caller - 1)).collect();
        SeenStack { registers: UserRegisters { ip: 0x7f00, sp, ..UserRegisters::default() }, bytes, callers }
    }

    #[test]
    fn a_caller_tells_two_places_apart() {
        let mut places = WaitPlaces::default();
        assert_eq!(places.compare(stack(64, &[7, 0x5510, 9, 0x5540], &[0x5510, 0x5540])), None);
        assert_eq!(places.compare(stack(64, &[8, 0x5510, 1, 0x5540], &[0x5510, 0x5540])), None);
        assert_eq!(places.compare(stack(64, &[7, 0x5510, 9, 0x5580], &[0x5510, 0x5580])), Some(24));
        assert!(places.is_settled);
    }

    #[test]
    fn a_stack_pointer_needs_no_caller() {
        let mut places = WaitPlaces::default();
        assert_eq!(places.compare(stack(64, &[0x5510], &[0x5510])), None);
        assert_eq!(places.compare(stack(80, &[0x5520], &[0x5520])), None);
    }

    #[test]
    fn a_caller_in_a_register_tells_nothing_apart() {
        let mut places = WaitPlaces::default();
        assert_eq!(places.compare(stack(64, &[1], &[0x5510])), None);
        assert_eq!(places.compare(stack(64, &[1], &[0x5520])), None);
    }
}

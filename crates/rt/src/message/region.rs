// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a ring: lines of 64 bytes, of which every word is an atomic, so that whatever another
//! process does there is a value and never a data race. Either of this process alone, or a mapping that
//! several have.
//!
//! Whole lines of long messages are copied by vectors, by which 1,024 bytes travel in an eighth less time; by
//! vectors of 32 bytes, where the processor has them, in 2 to 6 % less than that. Ends that keep the order of
//! numbers and credits never write and read a line at once. Where another process breaks it, the copies are
//! volatile: some bytes come, and nothing is concluded from them.

use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Words in a line.
pub(super) const WORDS: usize = 8;

/// Bytes of a line.
pub(super) const LINE_BYTES: usize = 8 * WORDS;

/// Bytes of the longest message that lies in the line of its header.
pub(super) const BESIDE_BYTES: usize = LINE_BYTES - 8;

/// The largest part that a processor copies at once: any has it.
#[cfg(all(target_arch = "x86_64", not(loom)))]
type Vector = std::arch::x86_64::__m128i;
#[cfg(all(target_arch = "aarch64", not(loom)))]
type Vector = std::arch::aarch64::uint8x16_t;
/// loom knows no vectors.
#[cfg(loom)]
type Vector = u64;

/// From so many whole lines on, vectors of 32 bytes copy a message sooner. Four lines took a tenth longer by
/// them: a call, and 32 bytes that are read soon after they were written by 16.
#[cfg(all(target_arch = "x86_64", not(loom)))]
const WIDE_LINES: usize = 8;

/// A cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct CacheLine(pub [AtomicU64; WORDS]);

impl CacheLine {
    fn zero() -> CacheLine {
        CacheLine(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Writes a message into lines of its own. The caller sees to it that no other end reads them meanwhile.
#[inline(always)]
pub(super) fn write(lines: &[CacheLine], message: &[u8]) {
    let (whole, rest) = message.as_chunks();
    write_lines(lines, whole);
    if !rest.is_empty() {
        store(&lines[whole.len()].0, rest);
    }
}

/// Reads one. The caller sees to it that no other end writes them meanwhile.
#[inline(always)]
pub(super) fn read(lines: &[CacheLine], message: &mut [u8]) {
    let (whole, rest) = message.as_chunks_mut();
    let behind = whole.len();
    read_lines(lines, whole);
    if !rest.is_empty() {
        load(&lines[behind].0, rest);
    }
}

#[inline(always)]
fn write_lines(lines: &[CacheLine], from: &[[u8; LINE_BYTES]]) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    if from.len() >= WIDE_LINES && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has it.
        return unsafe { write_wide(lines, from) };
    }
    match from {
        // A caller has often just written the words of a short message: a vector would wait for them, a word
        // does not.
        [only] => store_words(&lines[0].0, only.as_chunks().0),
        _ => write_by::<Vector>(lines, from),
    }
}

#[inline(always)]
fn read_lines(lines: &[CacheLine], to: &mut [[u8; LINE_BYTES]]) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    if to.len() >= WIDE_LINES && std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has it.
        return unsafe { read_wide(lines, to) };
    }
    read_by::<Vector>(lines, to);
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
#[target_feature(enable = "avx")]
fn write_wide(lines: &[CacheLine], from: &[[u8; LINE_BYTES]]) {
    write_by::<std::arch::x86_64::__m256i>(lines, from);
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
#[target_feature(enable = "avx")]
fn read_wide(lines: &[CacheLine], to: &mut [[u8; LINE_BYTES]]) {
    read_by::<std::arch::x86_64::__m256i>(lines, to);
}

/// Writes whole lines, a `V` at a time.
#[cfg(not(loom))]
#[inline(always)]
fn write_by<V: Copy>(lines: &[CacheLine], from: &[[u8; LINE_BYTES]]) {
    for (line, bytes) in lines.iter().zip(from) {
        let (to, from) = (line.0.as_ptr().cast::<V>().cast_mut(), bytes.as_ptr().cast::<V>());
        for n in 0..LINE_BYTES / size_of::<V>() {
            // SAFETY: both have the bytes of a line; atomics may be written through a shared reference, and a
            // line is aligned; a vector has no invalid value.
            unsafe { to.add(n).write_volatile(from.add(n).read_unaligned()) };
        }
    }
}

/// Reads them.
#[cfg(not(loom))]
#[inline(always)]
fn read_by<V: Copy>(lines: &[CacheLine], to: &mut [[u8; LINE_BYTES]]) {
    for (line, bytes) in lines.iter().zip(to) {
        let (from, to) = (line.0.as_ptr().cast::<V>(), bytes.as_mut_ptr().cast::<V>());
        for n in 0..LINE_BYTES / size_of::<V>() {
            // SAFETY: as above.
            unsafe { to.add(n).write_unaligned(from.add(n).read_volatile()) };
        }
    }
}

#[cfg(loom)]
fn write_by<V>(lines: &[CacheLine], from: &[[u8; LINE_BYTES]]) {
    lines.iter().zip(from).for_each(|(line, bytes)| store_words(&line.0, bytes.as_chunks().0));
}

#[cfg(loom)]
fn read_by<V>(lines: &[CacheLine], to: &mut [[u8; LINE_BYTES]]) {
    lines.iter().zip(to).for_each(|(line, bytes)| load_words(&line.0, bytes.as_chunks_mut().0));
}

/// Writes bytes, whole words first: a receiver polls the line meanwhile, and takes it away between two stores
/// that are far apart. A length that is known makes no loop.
#[inline(always)]
pub(super) fn store(line: &[AtomicU64], bytes: &[u8]) {
    if let Ok(bytes) = <&[u8; BESIDE_BYTES]>::try_from(bytes) {
        return store_words(line, bytes.as_chunks().0);
    }
    let (words, rest) = bytes.as_chunks();
    store_words(line, words);
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        line[words.len()].store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
}

#[inline(always)]
fn store_words(line: &[AtomicU64], words: &[[u8; 8]]) {
    for (to, word) in line.iter().zip(words) {
        to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
}

/// Reads them.
#[inline(always)]
pub(super) fn load(line: &[AtomicU64], bytes: &mut [u8]) {
    if let Ok(bytes) = <&mut [u8; BESIDE_BYTES]>::try_from(&mut *bytes) {
        return load_words(line, bytes.as_chunks_mut().0);
    }
    let (words, rest) = bytes.as_chunks_mut();
    load_words(line, words);
    if !rest.is_empty() {
        let word = line[words.len()].load(Ordering::Relaxed).to_ne_bytes();
        rest.copy_from_slice(&word[..rest.len()]);
    }
}

#[inline(always)]
pub(super) fn load_words(line: &[AtomicU64], words: &mut [[u8; 8]]) {
    for (from, word) in line.iter().zip(words) {
        *word = from.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// A function that hints to the processor about the line of a word: an instruction of x86, one of arm64.
macro_rules! hint {
    ($(#[$doc:meta])* $name:ident, $x86:literal, $arm:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name(word: &AtomicU64) {
            #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
            // SAFETY: a hint, which neither reads nor writes for the program.
            unsafe {
                std::arch::asm!($x86, in(reg) word, options(nostack, preserves_flags));
            }
            #[cfg(all(target_arch = "aarch64", not(any(miri, loom))))]
            // SAFETY: a hint, which neither reads nor writes for the program.
            unsafe {
                std::arch::asm!($arm, in(reg) word, options(nostack, preserves_flags));
            }
            #[cfg(any(miri, loom))]
            let _ = word;
        }
    };
}

hint!(
    /// Fetches the line of a word, to read it.
    prefetch,
    "prefetcht0 [{}]",
    "prfm pldl1keep, [{}]"
);
hint!(
    /// Fetches it to write it. Processors that do not know the hint take it for nothing.
    prefetch_to_write,
    "prefetchw [{}]",
    "prfm pstl1keep, [{}]"
);

/// Lines, all zero at first. A clone has the same lines.
#[derive(Clone, Debug)]
pub(super) struct Region {
    at: NonNull<CacheLine>,
    lines: usize,
    /// The memory that `at` points into. An end that looked there first would load three words before each
    /// message.
    _memory: Arc<Memory>,
}

#[derive(Debug)]
enum Memory {
    /// Of this process.
    Own(Box<[CacheLine]>),
    /// A shared mapping.
    Mapped(RingMapping),
}

// SAFETY: the lines never move, and all access to them is by atomics.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// So many lines of this process.
    pub(super) fn own(lines: usize) -> Region {
        Region::of(Memory::Own((0..lines).map(|_| CacheLine::zero()).collect()))
    }

    /// Those of a mapping.
    #[cfg(not(loom))]
    pub(super) fn mapped(mapping: RingMapping) -> Region {
        Region::of(Memory::Mapped(mapping))
    }

    fn of(memory: Memory) -> Region {
        let memory = Arc::new(memory);
        let lines: &[CacheLine] = match &*memory {
            Memory::Own(lines) => lines,
            Memory::Mapped(mapping) => mapping,
        };
        Region { at: NonNull::from(lines).cast(), lines: lines.len(), _memory: memory }
    }
}

impl Deref for Region {
    type Target = [CacheLine];

    #[inline(always)]
    fn deref(&self) -> &[CacheLine] {
        // SAFETY: so many lines lie there, which `_memory` keeps where they are; they are atomics only.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.lines) }
    }
}

/// A mapping, unmapped when it is dropped.
#[derive(Debug)]
pub(super) struct RingMapping {
    at: NonNull<CacheLine>,
    lines: usize,
}

// SAFETY: the mapping never moves, and all access to it is by atomics.
unsafe impl Send for RingMapping {}
// SAFETY: as above.
unsafe impl Sync for RingMapping {}

impl RingMapping {
    /// Takes over a mapping.
    ///
    /// # Safety
    /// `at` is a mapping of `lines` lines, readable and writable, that only this unmaps, whose pages stay
    /// there (sealed against shrinking), and that this process reaches by atomics only.
    pub(super) unsafe fn new(at: NonNull<CacheLine>, lines: usize) -> RingMapping {
        RingMapping { at, lines }
    }
}

impl Deref for RingMapping {
    type Target = [CacheLine];

    #[inline(always)]
    fn deref(&self) -> &[CacheLine] {
        // SAFETY: what `new` asks for.
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.lines) }
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of that length, and no reference into it outlives self.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.lines * size_of::<CacheLine>()) };
    }
}

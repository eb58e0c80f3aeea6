// SPDX-License-Identifier: MIT OR Apache-2.0
//! A heap that keeps what it has: memory that was freed is used again and never given back to the kernel.
//!
//! To unmap a page, the kernel interrupts every CPU that runs a thread of the process, so that it forgets the
//! translation (a *shootdown*). A control thread that frees memory would interrupt its own measuring threads
//! that way: the lab's scope counted 200 such interruptions in 5 s on an otherwise silent CPU. C libraries
//! unmap as they see fit (glibc can be told not to, musl cannot), so the program brings its own allocator:
//! dlmalloc (D. Lea), over mappings that only grow.
//!
//! A process that runs for days and measures nothing by threads of its own interrupts no other program so:
//! [`give_back`] lets it return the pages of large blocks, and [`sweep`] those of all that is free. The heap
//! has no huge pages: the kernel would fill the gaps that were returned.
//!
//! Where the kernel gives no more memory (RLIMIT_AS) the program ends with status 1 and a line: the standard
//! library would abort it.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::{Allocator, Dlmalloc};
use rustix::mm::{Advice, madvise};

/// A block of so many bytes gives its pages back, where [`give_back`] was called.
const LARGE: usize = 64 << 10;

static GIVES_BACK: AtomicBool = AtomicBool::new(false);

/// From now on a large block that is freed gives its pages back to the kernel, which interrupts the CPUs that
/// run threads of this process.
///
/// ```
/// rt::heap::give_back();
/// drop(vec![7u8; 1 << 20]);
/// ```
pub fn give_back() {
    GIVES_BACK.store(true, Ordering::Relaxed);
}

static IS_TO_SWEEP: AtomicBool = AtomicBool::new(false);

/// At its next allocation the heap gives the pages of free blocks back to the kernel, also of those that
/// became large only together. It takes some milliseconds, and interrupts CPUs as [`give_back`] does.
///
/// ```
/// drop((0..10_000).map(|n| Box::new([n; 64])).collect::<Vec<_>>());
/// rt::heap::sweep();
/// ```
pub fn sweep() {
    IS_TO_SWEEP.store(true, Ordering::Relaxed);
}

/// Gives back the pages within `size` bytes at `block`.
///
/// # Safety
///
/// They hold nothing that is read again before it is written.
unsafe fn forget(block: *mut u8, size: usize) {
    let page = rustix::param::page_size();
    let begin = block.addr().next_multiple_of(page) - block.addr();
    let whole = size.saturating_sub(begin) / page * page;
    if whole > 0 {
        // SAFETY: the caller vouches for these bytes. A refusal leaves all as it is.
        let _ = unsafe { madvise(block.add(begin).cast::<c_void>(), whole, Advice::LinuxDontNeed) };
    }
}

fn gives_back(size: usize) -> bool {
    size >= LARGE && GIVES_BACK.load(Ordering::Relaxed)
}

/// A block that there is; ends the program where there is none.
fn there(block: *mut u8) -> *mut u8 {
    const LINE: &[u8] =
        b"isolator: cannot go on: the memory that this process may have is used up; raise ulimit -v\n";
    if block.is_null() {
        // SAFETY: the bytes are there, and neither call allocates. Nothing of this process runs after it.
        unsafe {
            libc::write(libc::STDERR_FILENO, LINE.as_ptr().cast(), LINE.len());
            libc::_exit(1);
        }
    }
    block
}

/// The heap; a program declares one static of it as its `#[global_allocator]`.
///
/// ```standalone_crate
/// use rt::heap::KeepingHeap;
///
/// #[global_allocator]
/// static HEAP: KeepingHeap = KeepingHeap::new();
///
/// fn main() {
///     assert_eq!(vec![7u8; 1 << 20].len(), 1 << 20);
/// }
/// ```
pub struct KeepingHeap(Mutex<Dlmalloc<Growing>>);

impl KeepingHeap {
    /// An empty heap.
    ///
    /// ```
    /// use std::alloc::{GlobalAlloc, Layout};
    ///
    /// let (heap, layout) = (rt::heap::KeepingHeap::new(), Layout::new::<u64>());
    /// // SAFETY: the layout is not empty, and the block goes back with the layout that it came with.
    /// unsafe {
    ///     let block = heap.alloc(layout);
    ///     assert!(!block.is_null());
    ///     heap.dealloc(block, layout);
    /// }
    /// ```
    pub const fn new() -> Self {
        KeepingHeap(Mutex::new(Dlmalloc::new_with_allocator(Growing { is_full: false })))
    }

    /// A panic while the lock is held cannot happen: dlmalloc aborts instead.
    fn locked(&self) -> MutexGuard<'_, Dlmalloc<Growing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for KeepingHeap {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: every call goes to one allocator under one lock, with the layout that the caller vouches for.
unsafe impl GlobalAlloc for KeepingHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut heap = self.locked();
        if IS_TO_SWEEP.load(Ordering::Relaxed) && IS_TO_SWEEP.swap(false, Ordering::Relaxed) {
            sweep_now(&mut heap);
        }
        // SAFETY: the caller gives a layout that malloc takes as it is.
        there(unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if gives_back(layout.size()) {
            // SAFETY: its owner gives the block up; what the heap notes of it lies before and behind, and is
            // written again into what is free.
            unsafe { forget(block, layout.size()) };
        }
        // SAFETY: the block came from this heap with this layout.
        unsafe { self.locked().free(block, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        there(unsafe { self.locked().calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if gives_back(layout.size()) && size > layout.size() {
            // SAFETY: the size is above that of a layout that was good, and the caller vouches for both.
            let to = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
            // SAFETY: both are blocks of at least that length, and the old one is not used any more.
            unsafe {
                ptr::copy_nonoverlapping(block, to, layout.size());
                self.dealloc(block, layout);
            }
            return to;
        }
        // SAFETY: the block came from this heap with this layout.
        there(unsafe { self.locked().realloc(block, layout.size(), layout.align(), size) })
    }
}

/// The largest and the smallest block that a sweep looks for: one that has a page for itself.
const SWEPT: std::ops::RangeInclusive<usize> = 8 << 10..=64 << 20;

/// Takes every free block, gives its pages back, and frees all of them again. The heap cannot be asked where
/// they are; a heap that must not grow has no others.
fn sweep_now(heap: &mut Dlmalloc<Growing>) {
    heap.allocator_mut().is_full = true;
    let mut taken: *mut *mut u8 = ptr::null_mut();
    let mut size = *SWEPT.end();
    while size >= *SWEPT.start() {
        // SAFETY: a block of this heap, or null.
        let block = unsafe { heap.c_malloc(size) };
        if block.is_null() {
            size -= size / 8;
            continue;
        }
        // SAFETY: the block is ours, is aligned for a pointer and longer than one. The pages behind it hold
        // nothing yet.
        unsafe {
            forget(block.add(size_of::<*mut u8>()), size - size_of::<*mut u8>());
            block.cast::<*mut u8>().write(taken.cast());
        }
        taken = block.cast();
    }
    heap.allocator_mut().is_full = false;
    while !taken.is_null() {
        // SAFETY: each block begins with the address of the one that was taken before it, and is freed once.
        unsafe {
            let before = taken.read();
            heap.c_free(taken.cast());
            taken = before.cast();
        }
    }
}

/// Memory from the kernel that never goes back.
struct Growing {
    /// Whether there is no more, for now.
    is_full: bool,
}

// SAFETY: `alloc` gives fresh private mappings of the size asked for, nothing else is ever given or taken.
unsafe impl Allocator for Growing {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if self.is_full {
            return (ptr::null_mut(), 0, 0);
        }
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let memory = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
        if memory == libc::MAP_FAILED {
            return (ptr::null_mut(), 0, 0);
        }
        // A kernel without huge pages refuses.
        // SAFETY: the range is the mapping that was just made.
        let _ = unsafe { madvise(memory, size, Advice::LinuxNoHugepage) };
        (memory.cast(), size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mappings of this process; the test's own allocator is another one.
    fn mapped(block: *mut u8) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let at = |text| usize::from_str_radix(text, 16).unwrap();
            (at(from)..at(to)).contains(&block.addr())
        })
    }

    /// How many pages of a block are in memory.
    fn resident(block: *mut u8, size: usize) -> usize {
        let page = rustix::param::page_size();
        let begin = block.addr().next_multiple_of(page) - block.addr();
        let mut pages = vec![0u8; (size - begin) / page];
        // SAFETY: the range is mapped, and there is a byte for each of its pages.
        let told = unsafe { libc::mincore(block.add(begin).cast(), pages.len() * page, pages.as_mut_ptr()) };
        assert_eq!(told, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    #[test]
    fn a_large_block_gives_its_pages_back_where_that_was_asked_for() {
        let heap = KeepingHeap::new();
        let (small, large) = (4 << 20, 8 << 20);
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        // SAFETY: every block is freed once, with its layout, and what it held is not looked at after that.
        unsafe {
            let block = heap.alloc(layout(small));
            block.write_bytes(7, small);
            assert!(resident(block, small) > 0);
            give_back();
            let larger = heap.realloc(block, layout(small), large);
            assert_eq!((*larger.add(small - 1), resident(block, small)), (7, 0));
            larger.write_bytes(8, large);
            heap.dealloc(larger, layout(large));
            assert!(mapped(larger) && resident(larger, large) == 0);
            let again = heap.alloc_zeroed(layout(large));
            assert_eq!((again, *again.add(large - 1)), (larger, 0));
            heap.dealloc(again, layout(large));
        }
    }

    #[test]
    fn a_sweep_gives_back_free_blocks_and_no_others() {
        let mut heap = Dlmalloc::new_with_allocator(Growing { is_full: false });
        const BLOCKS: usize = 4_096;
        const BYTES: usize = 1 << 10;
        // SAFETY: every block is freed once, and what it held is not looked at after that.
        unsafe {
            // So that all lie in one mapping.
            let room = heap.c_malloc(2 * BLOCKS * BYTES);
            heap.c_free(room);
            let blocks: Vec<*mut u8> = (0..BLOCKS).map(|_| heap.c_malloc(BYTES)).collect();
            for (number, block) in blocks.iter().enumerate() {
                block.write_bytes(number as u8, BYTES);
            }
            let stays = |number: &usize| number.is_multiple_of(64);
            (0..BLOCKS).filter(|number| !stays(number)).for_each(|number| heap.c_free(blocks[number]));
            let before = resident(room, 2 * BLOCKS * BYTES);
            sweep_now(&mut heap);
            let after = resident(room, 2 * BLOCKS * BYTES);
            assert!(after * 3 < before, "{after} of {before} pages");
            for number in (0..BLOCKS).filter(stays) {
                let bytes = std::slice::from_raw_parts(blocks[number], BYTES);
                assert!(bytes.iter().all(|byte| *byte == number as u8), "block {number}");
            }
            // It grows again, and uses what was free.
            let again: Vec<*mut u8> = (0..2 * BLOCKS).map(|_| heap.c_malloc(BYTES)).collect();
            assert!(again.iter().all(|block| !block.is_null()));
            assert!(again.iter().any(|block| blocks.contains(block)));
            again.iter().for_each(|block| block.write_bytes(1, BYTES));
            let kept = (0..BLOCKS).filter(stays).map(|number| blocks[number]);
            again.iter().copied().chain(kept).for_each(|block| heap.c_free(block));
            sweep_now(&mut heap);
        }
    }

    #[test]
    fn what_was_freed_stays_mapped_and_is_used_again() {
        let heap = KeepingHeap::new();
        let layout = Layout::from_size_align(8 << 20, 64).unwrap();
        // SAFETY: every block is freed once, with its layout, and not used after that.
        unsafe {
            let block = heap.alloc_zeroed(layout);
            assert!(
                !block.is_null() && block.addr().is_multiple_of(64) && *block.add(layout.size() - 1) == 0
            );
            block.write_bytes(7, layout.size());
            heap.dealloc(block, layout);
            assert!(mapped(block));
            let again = heap.alloc_zeroed(layout);
            assert_eq!((again, *again), (block, 0));
            let larger = heap.realloc(again, layout, 16 << 20);
            assert_eq!(*larger, 0);
            heap.dealloc(larger, Layout::from_size_align(16 << 20, 64).unwrap());
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Markers for the lab's scope: an instruction that does nothing, which an emulator's plugin sees when it
//! runs.
//!
//! On a processor it is a NOP of seven bytes (x86-64) or a move to the zero register (arm64): no state
//! changes, no kernel is asked, and no other program can tell. `lab/scope/README.md` states the encoding.

/// Isolation begins on this CPU: from here on every excursion to the kernel counts.
///
/// ```
/// rt::scope::begin();
/// // Here the lab counts what reaches this CPU.
/// rt::scope::end();
/// ```
#[inline(always)]
pub fn begin() {
    mark::<1>();
}

/// Isolation ends on this CPU.
///
/// ```
/// rt::scope::begin();
/// rt::scope::end();
/// ```
#[inline(always)]
pub fn end() {
    mark::<2>();
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn mark<const CODE: u32>() {
    // SAFETY: 0f 1f /0 with a 32-bit displacement is NOP r/m32: it names an address and does not touch it.
    unsafe {
        core::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80",
            ".long {code} + 0x49530000",
            code = const CODE,
            options(nomem, nostack, preserves_flags)
        )
    };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn mark<const CODE: u32>() {
    // SAFETY: a move to the zero register changes nothing.
    unsafe {
        core::arch::asm!("movz xzr, #({code} + 0x5300)", code = const CODE, options(nomem, nostack, preserves_flags))
    };
}

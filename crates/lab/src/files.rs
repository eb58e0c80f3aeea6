// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of guests and builds: kernels, programs and archives, which are larger than texts.

use std::io;
use std::path::Path;

/// The largest of them that is read; a kernel with all debug information has less.
const LARGEST: u64 = 4 << 30;

/// The bytes of a file, opened as by [`untrusted::open()`].
pub fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    untrusted::read(path, LARGEST)
}

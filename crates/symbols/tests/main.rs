// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that print their registers, stack and callers, and the results for these.

mod program;
mod stacks;

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that write down where they are, and what is made of their registers and stacks.

mod program;
mod stacks;

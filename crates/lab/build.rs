// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folder `kernel/` goes into the program, which can so build kernels wherever it is copied.

#[path = "../../tools/embed.rs"]
mod embed;

fn main() {
    embed::embed("../../kernel", "kernel_folder.rs");
}

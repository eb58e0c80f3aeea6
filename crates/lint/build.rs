// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the BPF part, which becomes a part of the program.

#[path = "../../tools/bpf.rs"]
mod bpf;

fn main() {
    bpf::compile("events", "the BPF part of lint");
}

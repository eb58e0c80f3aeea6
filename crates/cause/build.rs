// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF part goes into the program.

#[path = "../../tools/bpf.rs"]
mod bpf;

fn main() {
    bpf::compile("collector", "the BPF collector");
    bpf::compile_plain("types", "the BPF collector");
}

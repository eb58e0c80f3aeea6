// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Ansible collection goes into the program.

#[path = "../../tools/embed.rs"]
mod embed;

fn main() {
    embed::embed("../../fleet/ansible", "collection.rs");
}

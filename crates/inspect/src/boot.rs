// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of boot loaders: which loader it is, its entries and their lines.
//!
//! This is the one reader of boot loader files. What it reads can be written back to the byte (the types in
//! the modules below), so that an edit changes only the intended part of a file.
//!
//! Limits: the files are read as their usual writers write them, a handwritten script of GRUB's may do
//! more; loaders that keep their settings outside files are named, not read.

use std::path::Path;

use machine::Boot;

use crate::tree::Tree;

pub mod bls;
pub mod extlinux;
pub mod grub;
mod keeper;
pub mod lines;
mod loader;
mod partitions;
pub mod pi;
mod read;
pub mod shell;
pub mod statement;

pub use shell::Variables;

/// Reads what boots the machine whose files lie below `root`; `/` is the live one.
pub fn read(root: &Path) -> Boot {
    let mut tree = Tree::new(root);
    let mut boot = read_tree(&mut tree);
    boot.unread = tree.unread();
    boot
}

/// As [`read()`], from files that are read for more than this; the tree keeps the unread ones.
pub(crate) fn read_tree(tree: &mut Tree) -> Boot {
    let found = loader::find(tree);
    let mut boot = Boot { loader: found.loader, seen: found.seen, folder: found.folder, ..Boot::default() };
    boot.under_hypervisor = tree.hint("proc/xen/capabilities").is_some_and(|text| text.contains("control_d"));
    let folder = boot.folder.trim_start_matches('/').to_string();
    (loader::reader(boot.loader))(tree, &mut boot, &folder);
    boot.unmounted = partitions::unmounted(tree);
    keeper::read(tree, &mut boot);
    boot
}

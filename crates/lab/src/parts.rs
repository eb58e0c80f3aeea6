// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that come with this program: what guests run, and the scope.

use std::path::PathBuf;

/// The file of that name: beside the program, where `make lab` leaves it, or in `../lib/isolator`, where
/// `make install` does.
pub fn find(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folder = own.parent()?;
    let places = [folder.join(name), folder.join("../lib/isolator").join(name)];
    places.into_iter().find(|path| path.is_file())
}

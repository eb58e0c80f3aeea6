// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives a new file the permissions, owner and attributes (access control lists and labels among them) of
//! another.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::system::Stat;

/// Attributes that are about a file's bytes: the kernel makes them anew.
const OF_BYTES: [&[u8]; 2] = [b"security.ima", b"security.evm"];

/// Makes `file` like `other`; whether it is now.
pub(super) fn like(file: &File, other: &File) -> io::Result<bool> {
    let wanted = other.metadata()?;
    let owner = |meta: &std::fs::Metadata| (meta.uid(), meta.gid());
    if owner(&file.metadata()?) != owner(&wanted) {
        // A failure is seen below.
        let _ = fchown(file, Some(wanted.uid()), Some(wanted.gid()));
    }
    let attributes = attributes(other)?;
    // A folder may give its new files a list of its own.
    for name in self::attributes(file)?.keys().filter(|name| !attributes.contains_key(*name)) {
        let _ = rustix::fs::fremovexattr(file, name.as_c_str());
    }
    for (name, value) in &attributes {
        let _ = rustix::fs::fsetxattr(file, name.as_c_str(), value, XattrFlags::empty());
    }
    let mode = wanted.mode() & 0o7777;
    if file.metadata()?.mode() & 0o7777 != mode {
        let _ = file.set_permissions(Permissions::from_mode(mode));
    }
    let now = file.metadata()?;
    Ok(owner(&now) == owner(&wanted) && now.mode() == wanted.mode() && self::attributes(file)? == attributes)
}

/// Gives `file` the permissions and owner of `new`, as far as its file system has any.
pub(super) fn anew(file: &File, new: Stat) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (new.uid, new.gid) {
        let _ = fchown(file, Some(new.uid), Some(new.gid));
    }
    // vfat has no permissions; it says so by an error that changes nothing.
    if now.mode() & 0o7777 != new.mode {
        let _ = file.set_permissions(Permissions::from_mode(new.mode));
    }
    Ok(())
}

/// Every attribute of a file; none where its file system has no attributes.
fn attributes(file: &File) -> io::Result<BTreeMap<CString, Vec<u8>>> {
    let mut names = Vec::new();
    let mut buffer = vec![0u8; 64 << 10];
    match rustix::fs::flistxattr(file, &mut buffer[..]) {
        Ok(length) => names.extend_from_slice(&buffer[..length]),
        Err(Errno::NOTSUP | Errno::NOSYS) => {}
        Err(error) => return Err(error.into()),
    }
    let mut found = BTreeMap::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !OF_BYTES.contains(name)) {
        let Ok(name) = CString::new(name) else { continue };
        match rustix::fs::fgetxattr(file, name.as_c_str(), &mut buffer[..]) {
            Ok(length) => drop(found.insert(name, buffer[..length].to_vec())),
            Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

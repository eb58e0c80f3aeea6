// SPDX-License-Identifier: MIT OR Apache-2.0
//! GRUB's block of variables, in which an entry is armed for one boot.

use inspect::boot::grub::{self, GrubEnvironment};

use super::guard;
use crate::record::Step;
use crate::record::kept::Kept;
use crate::record::own::OwnPart;
use crate::system::System;
use crate::{Error, Result};

/// Refuses a `custom.cfg` that names a default: menus read it last, so it stands above all else.
pub(super) fn custom_default(system: &dyn System, folder: &str) -> Result<()> {
    let custom = format!("{folder}/custom.cfg");
    let own = crate::system::text(system, &custom).unwrap_or_default();
    if !grub::settings(&own).iter().any(|(name, _, _)| name == "default") {
        return Ok(());
    }
    Err(Error::new(
        format!("find the entry that {folder} boots"),
        format!("{custom} sets default, above GRUB_DEFAULT and what is armed for one boot"),
        format!("take that out of {custom}, set GRUB_DEFAULT instead, run update-grub and plan again"),
    ))
}

/// The block of variables with `entry` armed for one boot; none where GRUB could not clear it again.
pub(super) fn arm(system: &dyn System, path: &str, entry: &str) -> Result<Option<Step>> {
    let Some(old) = Kept::of(system, path)? else { return Ok(None) };
    let real = system.real_path(path).unwrap_or_else(|_| path.to_string());
    let Some(mut block) = GrubEnvironment::read(&old.text).filter(|_| guard::loader_can_write(system, &real))
    else {
        return Ok(None);
    };
    if block.get("next_entry").is_some_and(|armed| !armed.is_empty() && armed != entry) {
        return Err(Error::new(
            format!("arm an entry in {path}"),
            "another one is armed for the next boot",
            "boot that first, or run: grub-editenv - unset next_entry",
        ));
    }
    block.set("next_entry", Some(entry));
    let own = OwnPart::Variable { name: "next_entry".into(), value: entry.into() };
    let new = block.text().map(|text| Kept::new(&text, Some(&old)));
    Ok(new.map(|new| Step::File { path: path.into(), old: Some(old), new: Some(new), own }))
}

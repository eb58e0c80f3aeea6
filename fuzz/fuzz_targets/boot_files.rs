// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files of boot loaders: no panic, bytes in are bytes out, and what was added goes again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::boot::bls::EntryFile;
use machine::boot::extlinux::Extlinux;
use machine::boot::grub::{Environment, default_entry, default_of, menu, settings};
use machine::boot::{Variables, pi, shell};

fuzz_target!(|text: &str| {
    let seen = menu(text, "grub.cfg");
    let _ = default_entry(&seen, "1>0");
    assert!(seen.iter().all(|entry| text.contains(entry.block)));
    assert!(seen.iter().all(|entry| !entry.head("Isolator trial", "isolator-trial").contains('\n')));
    let _ = (settings(text), default_of(text));
    if let Some(block) = Environment::read(text).and_then(|block| block.text()) {
        assert_eq!(block.len(), text.len());
    }
    let file = EntryFile::read(text);
    assert_eq!(file.text(), text);
    let _ = file.entry("entries/a+3-1.conf");
    let mut extlinux = Extlinux::read(text);
    assert_eq!(extlinux.text(), text);
    let _ = (extlinux.entries("extlinux.conf"), extlinux.default_label().is_some(), extlinux.timeout());
    if let Some(from) = extlinux.default_label().map(str::to_string) {
        extlinux.add_copy(&from, "isolator", "Isolator", "root=x");
        extlinux.remove("isolator");
    }
    assert_eq!(pi::Config::read(text).text(), text);
    let mut variables = Variables::default();
    variables.read(text);
    variables.read(text);
    let _ = variables.parts("A");
    let mut again = Variables::default();
    let value = text.replace(['\n', '\r', '\\', '\0'], " ");
    again.read(&format!("A={}", shell::quoted(&value)));
    assert_eq!(again.get("A"), Some(value.as_str()));
});

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults at every change that `tune` makes, on each loader: a refusal, a full or read-only medium from there
//! on, a kill; then another one on the way back. After all that one undisturbed rollback gives every byte
//! back, and until then what is still changed is named.
//!
//! `cargo test` tries some on each loader, `make proof-faults` as many as ISOLATOR_FAULTS says.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use super::*;
use crate::boot::tests::{Files, WRITTEN, files, records};
use crate::system::memory::{InjectedFault, MemoryMachine};

const FAULTS: [InjectedFault; 8] = [
    InjectedFault::Refuse(ErrorKind::StorageFull),
    InjectedFault::Refuse(ErrorKind::ReadOnlyFilesystem),
    InjectedFault::Refuse(ErrorKind::PermissionDenied),
    InjectedFault::Refuse(ErrorKind::Interrupted),
    InjectedFault::Refuse(ErrorKind::Other),
    InjectedFault::Full,
    InjectedFault::ReadOnly,
    InjectedFault::Kill,
];

/// A small generator of numbers (SplitMix64), so that a seed gives the same faults.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % end
    }
}

/// A change to test: the machine before, the record of it, and both when it is done.
struct ChangeCase {
    before: MemoryMachine,
    record: Record,
    after: MemoryMachine,
    applied: Record,
}

impl ChangeCase {
    fn of((before, mut record): (MemoryMachine, Record)) -> ChangeCase {
        record.theirs = words::found(&before, &record.words);
        let (mut after, mut applied) = (before.clone(), record.clone());
        apply(&mut after, &mut applied).unwrap();
        ChangeCase { before, record, after, applied }
    }
}

/// Paths whose bytes differ, without what lies beside files until it is in place.
fn differing(one: &Files, other: &Files) -> BTreeSet<String> {
    let paths = one.keys().chain(other.keys());
    paths
        .filter(|path| one.get(*path) != other.get(*path) && !path.ends_with(crate::system::SUFFIX))
        .cloned()
        .collect()
}

/// Undoes all that is live, as `tune rollback` does.
fn undo_all(system: &mut MemoryMachine) -> Vec<Undone> {
    let mut undone = Vec::new();
    for mut record in store::all(system).unwrap().into_iter().rev().filter(Record::live) {
        let gone = record.words.clone();
        undone.extend(roll_back_everywhere(system, &mut record, &gone));
    }
    undone
}

fn failing(system: &MemoryMachine, at: usize, fault: InjectedFault) -> MemoryMachine {
    let mut system = system.clone();
    system.fault = Some((at, fault));
    system
}

/// One fault in a change or on the way back, perhaps another one in the rollback after it, and an undisturbed
/// rollback.
fn one(change: &ChangeCase, back: bool, at: usize, fault: InjectedFault, chance: &mut Chance) -> String {
    let before = files(&change.before);
    let (start, record) =
        if back { (&change.after, &change.applied) } else { (&change.before, &change.record) };
    let (mut system, mut record) = (failing(start, at, fault), record.clone());
    let mut told = String::new();
    let mut done = false;
    if back {
        let gone = record.words.clone();
        let undone = roll_back_everywhere(&mut system, &mut record, &gone);
        told = format!("{undone:?}");
    } else {
        match apply(&mut system, &mut record) {
            Ok(()) => done = true,
            Err(error) => told = error.to_string(),
        }
    }
    let words = format!("{} {:?}, back {back}, change {at}, {fault:?}", record.id, record.part);
    if done {
        assert_eq!(files(&system), files(&change.after), "{words}: done, and not what was to be done");
    } else if fault != InjectedFault::Kill {
        for path in differing(&before, &files(&system)) {
            assert!(told.contains(&path), "{words}: {path} stays changed and is not named: {told}");
        }
    }
    let mut system = system.revived();
    if chance.below(2) == 0 {
        let second = FAULTS[chance.below(FAULTS.len())];
        let at = system.changes.len() + chance.below(30);
        let mut again = failing(&system, at, second);
        let undone = undo_all(&mut again);
        if second != InjectedFault::Kill && again.changes.len() > system.changes.len() {
            let left: Vec<&str> = still_changed(&undone).collect();
            for path in differing(&before, &files(&again)) {
                assert!(left.contains(&path.as_str()), "{words}, then {at} {second:?}: {path} is not named");
            }
        }
        system = again.revived();
    }
    let undone = undo_all(&mut system);
    assert_eq!(still_changed(&undone).count(), 0, "{words}: {undone:?}");
    let left = files(&system);
    assert_eq!(differing(&before, &left), BTreeSet::new(), "{words}");
    words
}

/// As many faults on one loader: each change with each fault first, then what chance gives.
fn campaign(name: &str, faults: usize) {
    let changes: Vec<ChangeCase> = records(name).into_iter().map(ChangeCase::of).collect();
    let mut chance = Chance(faults as u64);
    let mut places = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        let mut undone = change.after.clone();
        let gone = change.applied.words.clone();
        roll_back_everywhere(&mut undone, &mut change.applied.clone(), &gone);
        let there = change.before.changes.len()..change.after.changes.len();
        let back = change.after.changes.len()..undone.changes.len();
        places.extend(there.map(|at| (number, false, at)));
        places.extend(back.map(|at| (number, true, at)));
    }
    let whole = places.len() * FAULTS.len();
    for round in 0..faults {
        let at = if round < whole && faults >= whole { round } else { chance.below(whole) };
        let (number, back, place) = places[at / FAULTS.len()];
        one(&changes[number], back, place, FAULTS[at % FAULTS.len()], &mut chance);
    }
    println!("{name}: {faults} faults at {} changes: all undone, or named and undone then", places.len());
}

#[test]
fn a_fault_at_a_change_is_undone_or_named() {
    for name in WRITTEN {
        campaign(name, 120);
    }
}

#[test]
#[ignore = "some minutes: make proof-faults"]
fn proof_faults() {
    let faults = std::env::var("ISOLATOR_FAULTS").ok().and_then(|text| text.parse().ok()).unwrap_or(5_000);
    for name in WRITTEN {
        campaign(name, faults);
    }
}

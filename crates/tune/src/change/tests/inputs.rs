// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes by others between a change's calls: files that lose words, states that are not in force, edits
//! of our own files, and line ends of another system.

use super::*;

const DEFAULTS: &str = "/etc/default/grub";
const MENU: &str = "/boot/grub/grub.cfg";
const CUSTOM: &str = "/boot/grub/custom.cfg";

/// A world in which a plan was applied, booted and confirmed.
fn confirmed() -> World {
    let mut world = World::new();
    let plan = world.plan(false);
    world.apply(&plan).unwrap();
    world.boot_with("second", &plan);
    world.confirm().unwrap();
    world
}

#[test]
fn a_boot_line_that_lost_words_in_its_file_is_not_done() {
    type Change = fn(&mut World);
    let trial: [Change; 5] = [
        |world| world.system.remove(CUSTOM).unwrap(),
        |world| world.edit(CUSTOM, " skew_tick=1", ""),
        |world| world.edit(CUSTOM, "irqaffinity=0-2", "irqaffinity=0-1"),
        |world| world.edit(CUSTOM, "\tlinux\t", "\t# linux\t"),
        |world| world.edit(CUSTOM, "domain,3 ", "domain,3,2 "),
    ];
    for (number, change) in trial.into_iter().enumerate() {
        let mut world = World::new();
        let plan = world.plan(false);
        world.apply(&plan).unwrap();
        world.facts.kernel.command_line = Some(format!("{STOCK} {}", plan.boot_line()));
        change(&mut world);
        let error = world.apply(&plan).unwrap_err().to_string();
        assert!(error.contains("isolator tune rollback"), "{number}: {error}");
        world.roll_back().unwrap();
        assert!(matches!(world.apply(&plan).unwrap().boot, BootChange::Trial { .. }), "{number}");
    }
    let lasting: [Change; 5] = [
        |world| world.system.remove(crate::places::DROP_IN).unwrap(),
        |world| world.system.put(crate::places::DROP_IN, b""),
        |world| world.edit(crate::places::DROP_IN, " skew_tick=1", ""),
        |world| world.edit(MENU, " skew_tick=1", ""),
        |world| world.edit(MENU, "isolcpus=managed_irq,domain,3", "isolcpus=managed_irq,domain,2"),
    ];
    for (number, change) in lasting.into_iter().enumerate() {
        let mut world = confirmed();
        assert_eq!(world.confirm().unwrap().already, ["this plan is confirmed"]);
        change(&mut world);
        let error = world.confirm().unwrap_err().to_string();
        assert!(error.contains("isolator tune rollback"), "{number}: {error}");
    }
}

#[test]
fn confirm_is_as_strict_as_verify() {
    type Change = fn(&mut World, &Plan);
    let states: [(&str, Change); 10] = [
        ("isolcpus = managed_irq,domain,3 is not in force", |world, _| {
            world.facts.isolation.isolated = Default::default()
        }),
        ("isolcpus = managed_irq,domain,3 is not in force", |world, _| {
            world.facts.isolation.isolated = "2-3".parse().unwrap()
        }),
        ("runs without skew_tick=1", |world, plan| {
            world.facts.kernel.command_line =
                Some(format!("{STOCK} {}", plan.boot_line().to_string().replace(" skew_tick=1", "")))
        }),
        ("skew_tick", |world, plan| {
            world.facts.kernel.command_line = Some(format!("{STOCK} {} skew_tick=0", plan.boot_line()))
        }),
        ("isolcpus", |world, plan| {
            world.facts.kernel.command_line = Some(format!("{STOCK} {} isolcpus=2", plan.boot_line()))
        }),
        ("runs without", |world, plan| {
            world.facts.kernel.command_line = Some(format!("{STOCK} -- {}", plan.boot_line()))
        }),
        ("runs without isolcpus=managed_irq,domain,3", |world, plan| {
            world.facts.kernel.command_line =
                Some(format!("{STOCK} {}", plan.boot_line().to_string().replace("domain,3", "domain,2-3")))
        }),
        ("runs without", |world, _| world.facts.kernel.command_line = Some(STOCK.into())),
        ("irqaffinity", |world, _| world.facts.isolation.irq_default = "0-3".parse().unwrap()),
        ("irqaffinity", |world, plan| {
            world.facts.kernel.command_line = Some(format!("{STOCK} {} irqaffinity=0", plan.boot_line()))
        }),
    ];
    for (number, (words, change)) in states.into_iter().enumerate() {
        let mut world = World::new();
        let plan = world.plan(false);
        world.apply(&plan).unwrap();
        world.boot_with("second", &plan);
        change(&mut world, &plan);
        let before = world.files();
        let error = world.confirm().unwrap_err().to_string();
        assert!(error.contains(words), "{number}: {error}");
        assert_eq!(world.files(), before, "{number}");
    }
}

#[test]
fn an_edit_of_our_drop_in_leaves_no_call_stuck() {
    let mut world = confirmed();
    let own = "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT mine\"\n";
    let edited = world.text(crate::places::DROP_IN) + own;
    world.system.put(crate::places::DROP_IN, edited.as_bytes());
    let menu = mkconfig(&world.system);
    world.system.put(MENU, menu.as_bytes());
    assert!(world.roll_back().unwrap().left.is_empty());
    assert_eq!(world.text(crate::places::DROP_IN), own);
    assert!(world.text(MENU).contains("ro  quiet mine\n") && !world.text(MENU).contains("isolcpus"));
    assert_eq!(world.roll_back().unwrap().records.len(), 0);
    // The whole life again, beside that line.
    world.reboot("third", &format!("{STOCK} mine"));
    let plan = world.plan(false);
    assert!(matches!(world.apply(&plan).unwrap().boot, BootChange::Trial { .. }));
    world.reboot("fourth", &format!("{STOCK} mine {}", plan.boot_line()));
    world.confirm().unwrap();
    assert!(world.text(MENU).contains("mine") && world.text(MENU).contains(&plan.boot_line().to_string()));
    assert!(world.roll_back().unwrap().left.is_empty());
    assert_eq!(world.text(crate::places::DROP_IN), own);
    assert!(world.text(MENU).contains("ro  quiet mine\n"));
}

#[test]
fn line_ends_of_another_system_come_back_to_the_byte() {
    let mut world = World::new();
    let text = world.text(DEFAULTS).replace('\n', "\r\n");
    world.system.put(DEFAULTS, text.as_bytes());
    let before = world.files();
    let plan = world.plan(false);
    world.apply(&plan).unwrap();
    assert!(world.text(CUSTOM).contains(&plan.boot_line().to_string()));
    world.boot_with("second", &plan);
    assert!(matches!(world.confirm().unwrap().boot, BootChange::Lasting { .. }));
    assert!(world.text(MENU).contains(&plan.boot_line().to_string()));
    world.roll_back().unwrap();
    assert_eq!(world.files(), before);
    assert!(world.text(DEFAULTS).contains("\r\n"));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of `tests/gpus`, in the forms that the kernel's documentation and the drivers' sources give.

use std::time::Duration;

use super::*;

fn tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpus").join(name)
}

/// The utilisation by process 100 in a second between two trees.
fn between(before: &str, after: &str) -> Meter {
    let (mut meter, now) = (Meter::new(&tree(before)), Instant::now());
    meter.poll(&[100], now);
    meter.root = tree(after);
    meter.poll(&[100], now + Duration::from_secs(1));
    meter
}

fn utilisation_of(meter: &Meter) -> Option<Utilisation> {
    of_load(&[], meter, None).ok()
}

fn utilisation(of: &str, busy_percent: f64) -> Option<Utilisation> {
    Some(Utilisation { of: of.to_string(), busy_percent })
}

#[test]
fn what_the_load_itself_used_is_told_before_what_its_device_did() {
    // Both descriptors of client 7, and client 8, which came later; the device was at 40 % and 60 %.
    let own = utilisation("gfx of amdgpu 0000:03:00.0, by this load", 75.0);
    assert_eq!(utilisation_of(&between("amdgpu", "amdgpu-later")), own);
    assert_eq!(utilisation_of(&between("amdgpu", "amdgpu-idle")), utilisation("card0, whole device", 50.0));
}

#[test]
fn several_engines_of_a_class_share_their_time() {
    assert_eq!(
        utilisation_of(&between("i915", "i915-later")),
        utilisation("video of i915 0000:00:02.0, by this load", 60.0)
    );
}

#[test]
fn an_engine_that_the_load_left_idled_for_the_rest() {
    let mut meter = between("amdgpu", "amdgpu-later");
    meter.root = tree("none");
    meter.poll(&[100], Instant::now() + Duration::from_secs(100));
    let busy_percent = utilisation_of(&meter).unwrap().busy_percent;
    assert!((0.7..0.8).contains(&busy_percent), "{busy_percent}");
}

#[test]
fn cycles_are_told_in_cycles_that_went_by() {
    assert_eq!(
        utilisation_of(&between("xe", "xe-later")),
        utilisation("rcs of xe 0000:03:00.0, by this load", 25.0)
    );
}

#[test]
fn devices_that_only_say_how_busy_they_are_are_asked_too() {
    assert_eq!(devices(&tree("tegra-old")), [("gpu.0, whole device".to_string(), 87.5)]);
    assert_eq!(devices(&tree("tegra")), [("17000000.gpu, whole device".to_string(), 98.0)]);
    assert_eq!(devices(&tree("rockchip")), [("fb000000.gpu, whole device".to_string(), 56.0)]);
}

#[test]
fn is_unknown_without_a_source() {
    for (before, after) in [("none", "none"), ("damaged", "damaged"), ("no such tree", "none")] {
        assert_eq!(of_load(&[], &between(before, after), None), Err("no driver reports it"));
    }
}

#[test]
fn of_several_devices_the_busiest_is_told() {
    let mut means = DeviceMeans::new();
    means.entry("0".into()).or_default().add(10.0);
    means.entry("1".into()).or_default().add(80.0);
    means.entry("1".into()).or_default().add(90.0);
    assert_eq!(of(&means), utilisation("1", 85.0));
}

#[test]
fn the_gpu_that_the_load_names_is_told_and_no_other() {
    let nvidia = utilisation("NVIDIA GeForce GTX 1080 (0), whole device", 95.0);
    let beside = between("amdgpu", "amdgpu-later");
    let told = |renderer: &str| of_load(&[renderer.to_string()], &beside, nvidia.clone());
    assert_eq!(told("GeForce GTX 1080/PCIe/SSE2").ok(), nvidia);
    assert_eq!(told("AMD Radeon RX 6600").unwrap().busy_percent, 75.0);
    assert_eq!(told("llvmpipe (LLVM 15.0.6, 256 bits)"), Err("software rendering"));
    assert_eq!(of_load(&[], &between("none", "none"), nvidia.clone()).ok(), nvidia);
}

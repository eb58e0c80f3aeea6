// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which program loads a GPU here: rendering where there is a display, computing on a device where there is
//! none, else rendering on a display in memory, which is the CPUs' work and called so.
//!
//! No kernel of our own: the program is one static file, which can load neither libvulkan nor libcuda. The
//! programs that are found are listed.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

/// The programs that render, best first.
const RENDERERS: [&str; 3] = ["glmark2", "vkmark", "glxgears"];

/// The programs that compute (OpenCL, Vulkan), best first. Each ends after a while and is run again.
const COMPUTERS: [&str; 2] = ["clpeak", "vkpeak"];

/// The program that would run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuWork {
    /// It renders on the display that there is.
    Renders(&'static str),
    /// It computes on a device.
    Computes(&'static str),
    /// It renders on a display in memory. Where a device stays idle meanwhile, that can be helped.
    RendersInMemory {
        /// The program.
        name: &'static str,
        /// Whether there is a device.
        beside_a_device: bool,
    },
}

/// The program that runs here; else the Debian package that is missing.
pub fn engine(
    has_display: bool,
    root: &Path,
    is_found: impl Fn(&str) -> bool,
) -> Result<GpuWork, &'static str> {
    let has_device = has_device(root);
    let first = |names: &[&'static str]| names.iter().copied().find(|name| is_found(name));
    match (first(&RENDERERS), first(&COMPUTERS)) {
        (Some(name), _) if has_display => Ok(GpuWork::Renders(name)),
        (_, Some(name)) if has_device => Ok(GpuWork::Computes(name)),
        (Some(name), _) if is_found("Xvfb") => {
            Ok(GpuWork::RendersInMemory { name, beside_a_device: has_device })
        }
        (Some(_), _) => Err("xvfb"),
        (None, _) => Err("mesa-utils"),
    }
}

/// Whether there is something to render or compute with: a DRM render node, or a device of NVIDIA's drivers.
fn has_device(root: &Path) -> bool {
    let nodes = fs::read_dir(root.join("dev/dri")).into_iter().flatten().flatten();
    let is_node = |name: &str| name.starts_with("renderD");
    nodes.into_iter().any(|node| node.file_name().to_str().is_some_and(is_node))
        || ["dev/nvidia0", "dev/nvhost-gpu", "dev/nvgpu"]
            .iter()
            .any(|path| untrusted::is_there(root.join(path)))
}

/// Whether a device is none: what renders or computes by the CPUs.
pub fn is_software(device: &str) -> bool {
    let device = device.to_lowercase();
    // Mesa's and Google's; the portable OpenCL's devices begin as the last two do.
    ["llvmpipe", "softpipe", "swrast", "swiftshader", "software", "lavapipe"]
        .iter()
        .any(|name| device.contains(name))
        || ["pthread-", "cpu-"].iter().any(|name| device.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(tree: &str, has_display: bool, found: &[&str]) -> Result<GpuWork, &'static str> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpus").join(tree);
        engine(has_display, &root, |name| found.contains(&name))
    }

    #[test]
    fn a_display_is_rendered_on_and_a_device_without_one_computes() {
        use GpuWork::{Computes, Renders, RendersInMemory};
        let all = ["glxgears", "glmark2", "clpeak", "Xvfb"];
        assert_eq!(here("amdgpu", true, &all), Ok(Renders("glmark2")));
        assert_eq!(here("amdgpu", false, &all), Ok(Computes("clpeak")));
        assert_eq!(here("amdgpu", false, &["vkpeak"]), Ok(Computes("vkpeak")));
        assert_eq!(here("nvidia", false, &all), Ok(Computes("clpeak")));
        let in_memory = |name, beside_a_device| Ok(RendersInMemory { name, beside_a_device });
        assert_eq!(here("none", false, &all), in_memory("glmark2", false));
        assert_eq!(here("amdgpu", false, &["glxgears", "Xvfb"]), in_memory("glxgears", true));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(here("none", false, &["clpeak"]), Err("mesa-utils"));
        assert_eq!(here("none", true, &["Xvfb"]), Err("mesa-utils"));
        assert_eq!(here("none", false, &["glxgears"]), Err("xvfb"));
    }

    #[test]
    fn what_the_cpus_do_is_no_device() {
        let software = [
            "llvmpipe (LLVM 15.0.6, 256 bits)",
            "SwiftShader Device (LLVM 10.0.0)",
            "pthread-skylake-avx512-AMD EPYC",
            "cpu-haswell-Intel(R) Xeon(R)",
        ];
        assert!(software.iter().all(|name| is_software(name)));
        let devices =
            ["NVIDIA H200", "AMD Radeon RX 6600 (navi23, LLVM 15.0.6)", "Mesa Intel(R) UHD Graphics"];
        assert!(!devices.iter().any(|name| is_software(name)));
    }
}

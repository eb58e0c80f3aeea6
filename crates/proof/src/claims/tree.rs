// SPDX-License-Identifier: MIT OR Apache-2.0
//! A copy of the tree in which a kernel was built, with its objects: for kernels that are built for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::architecture::Architecture;
use lab::build::make::KernelTree;
use lab::build::{self, Built, source};

use crate::claims::part::Result;

/// The copy. Nothing of it is kept among the lab's kernels.
#[derive(Debug)]
pub struct ScratchTree {
    make: KernelTree,
}

impl ScratchTree {
    /// The tree of this kernel, with the series in it.
    pub fn copy(built: &Built, architecture: Architecture, to: &Path) -> Result<ScratchTree> {
        let from = build::tree(&built.version)?;
        // With their times, for make.
        let done = Command::new("cp").args(["-a", "--reflink=auto"]).args([&from, to]).status()?;
        if !done.success() {
            return Err(format!("cannot copy {}", from.display()).into());
        }
        let tree = to.to_path_buf();
        let objects = tree.join(format!("objects-lab-{architecture}"));
        fs::create_dir_all(&objects)?;
        Ok(ScratchTree { make: KernelTree { objects, architecture, variables: Vec::new(), tree } })
    }

    /// Its source.
    pub fn source(&self) -> &Path {
        &self.make.tree
    }

    /// Applies a patch; `-R` in `how` takes it out.
    pub fn patch(&self, name: &str, text: &[u8], how: &[&str]) -> Result<()> {
        let verb = if how.is_empty() { "apply" } else { "take out" };
        source::patch(&self.make.tree, text, how).map_err(|why| format!("cannot {verb} {name}: {why}").into())
    }

    /// Builds the tree as it is, as that kernel was configured. Options that the tree lacks are left out.
    pub fn image(&self, built: &Built) -> lab::Result<PathBuf> {
        let make = &self.make;
        let (from, config) = (Path::new(&built.folder).join("config"), make.objects.join(".config"));
        fs::copy(&from, &config).map_err(|e| lab::Error::io("copy the configuration to", &config, &e))?;
        make.ask(&["olddefconfig"])?;
        make.run(&[&built.image], 0, &make.objects.join("scratch.log"), &|_| {})?;
        Ok(make.objects.join(build::image(make.architecture).0))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernels for guests: Debian's, one that was built here, or a given file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::architecture::Architecture;
use crate::patience::Patience;
use crate::{Error, Result, build, debian, image, store};

/// A kernel that a guest can boot.
#[derive(Debug, Clone)]
pub struct GuestKernel {
    /// The request for it, as given: `debian-rt`, a path.
    pub asked: String,
    /// Its release, as `uname -r` says; for a file whose modules are not at hand, the file's name.
    pub release: String,
    /// Its architecture.
    pub architecture: Architecture,
    /// The image: bzImage or Image.
    pub image: PathBuf,
    /// `lib/modules/RELEASE` of its package.
    pub modules: Option<PathBuf>,
    /// SHA-256 of the image.
    pub digest: String,
}

/// The kernel called `asked`: `debian-rt`, `debian`, `isolator`, `unpatched` (with a version as in
/// `debian-rt:6.1`, and of those that are built here, the fragments of their configuration, as in
/// `isolator:6.12+debug`), or a file. Fetching one ends where the patience does.
pub fn find(
    asked: &str,
    architecture: Architecture,
    patience: &Patience,
    say: &dyn Fn(&str),
) -> Result<GuestKernel> {
    let (name, version) = asked.split_once(':').unwrap_or((asked, "6.12"));
    let flavour = match name {
        "debian-rt" => "-rt",
        "debian" => "",
        "isolator" | "unpatched" => return built(asked, name, version, architecture, say),
        _ => return given(asked, architecture),
    };
    let found = debian::find(asked, version, flavour, architecture, patience, say)?;
    let debian::Image { release, image, modules, digest } = found;
    Ok(GuestKernel { asked: asked.to_string(), release, architecture, image, modules, digest })
}

/// A file; its modules are looked for where a package or a build leaves them.
fn given(asked: &str, architecture: Architecture) -> Result<GuestKernel> {
    let image = fs::canonicalize(asked).map_err(|e| {
        let cure = "name a kernel image, or debian-rt, debian, isolator, debian-rt:6.1";
        Error::on("use the kernel", asked, error::reason(&e), cure)
    })?;
    let refuse =
        |why| Error::on("use the kernel", asked, why, format!("give a kernel image of {architecture}"));
    let bytes = crate::files::bytes(&image).map_err(|e| Error::io("read", &image, &e))?;
    if let Some(why) = image::fault(&bytes, architecture) {
        return Err(refuse(why));
    }
    let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let release = name.split_once('-').map_or(name.clone(), |(_, release)| release.to_string());
    let release = image.parent().and_then(build::read).map_or(release, |built| built.release);
    let roots = image.parent().into_iter().flat_map(|boot| [boot.to_path_buf(), boot.join("..")]);
    let modules = roots.map(|root| root.join("lib/modules").join(&release)).find(|folder| folder.is_dir());
    let digest = store::digest(&[&bytes]);
    Ok(GuestKernel { asked: asked.to_string(), release, architecture, image, modules, digest })
}

/// The one that `isolator kernel build` made last. Building takes minutes, so it is not done on the way.
fn built(
    asked: &str,
    name: &str,
    version: &str,
    architecture: Architecture,
    say: &dyn Fn(&str),
) -> Result<GuestKernel> {
    let unpatched = name == "unpatched";
    let command = build::command(version, architecture, unpatched);
    let Some((built, other)) = build::last(version, architecture, unpatched)? else {
        let cure = format!("build it first, which takes about 10 minutes on two cores: {command}");
        return Err(Error::on("use the kernel", asked, format!("none was built for {architecture}"), cure));
    };
    if other {
        say(&format!(
            "the kernel {asked} was built with another series than this program has; {command} builds it anew"
        ));
    }
    let image = Path::new(&built.folder).join(&built.image);
    let kernel = given(&image.display().to_string(), architecture)?;
    Ok(GuestKernel { asked: asked.to_string(), ..kernel })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_refused_with_the_choices() {
        let error = given("/no/such/bzImage", Architecture::X86_64).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot use the kernel /no/such/bzImage: no such file or directory; name a kernel image, or debian-rt, debian, isolator, debian-rt:6.1"
        );
    }
}

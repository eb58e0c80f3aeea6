// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds kernels with our series in them.
//!
//! ```text
//! source ──► tree + new files + hooks ──► configuration, verified ──► make ──► built/KEY/
//! package,   [source]   [series]          [config], [bootable]         [make]  image, System.map, vmlinux,
//! archive,                                                                     config, kernel.json,
//! folder                                                                       modules or packages
//! ```
//!
//! A build is kept by the content of all that goes into it: source, series, configuration, compiler.
//! The tree and its objects stay too, for the next configuration; a compiler cache is used where there is
//! one.
//!
//! # A build
//!
//! `kernel build` takes a source (Debian's package, an archive or a folder), and lays our new files and a
//! version's hooks over a copy. It configures and builds that, and keeps the result by the content of all
//! inputs. `kernel/` is the series. The program carries it (`lab`'s `build.rs` lists the folder,
//! `include_bytes!` does the rest), so that a copied binary can build too.
//!
//! 1. **Ask.** The build ends here for an unknown version, a missing tool (with its package), or an
//!    unreadable configuration.
//! 2. **Tree.** One for each version, in the cache, made anew where source or series changed: a patch that
//!    does not apply is named.
//! 3. **Configure.** Fragments over nothing (`lab`), over the distribution's (`debian`) or over a file. Each
//!    option of ours must be there afterwards. Except for guests: what the machine's root file system and
//!    disk hang on must be built in, or a module and an initrd.
//! 4. **Build.** make counts its own steps first, without doing them; time left comes from those done.
//! 5. **Keep.** Image, `System.map`, `vmlinux`, configuration, modules or packages, `kernel.json`. `lab
//!    --kernel isolator` finds the last one.
//!
//! `lab/scope/` is C under GPL-2.0-only, apart from the crates; its README states markers, arguments and
//! record. `lab::guest` runs inside of a guest only. The storms are its modules; each says in its head which
//! kernel work it provokes.

pub mod bootable;
pub mod config;
pub mod make;
pub mod series;
pub mod source;
pub mod tools;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::architecture::Architecture;
use crate::patience::Patience;
use crate::{Error, Result, debian, store};
use config::BuildConfig;
use make::{BuildProgress, KernelTree};
use series::PatchSeries;
use source::KernelSource;
use tools::Purpose;

/// Version of [`Built`] as a document.
const SCHEMA_VERSION: u32 = 1;

/// Counted up where the same ingredients make something else.
const RECIPE: &str = "1";

/// Which configuration a kernel gets, before our own options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Configuration {
    /// A small one for guests.
    Lab,
    /// The distribution's, of its real-time image.
    Debian,
    /// A file.
    File(PathBuf),
}

impl Configuration {
    /// The one called so; what is no name is a file.
    pub fn named(name: &str) -> Configuration {
        match name {
            "lab" => Configuration::Lab,
            "debian" => Configuration::Debian,
            file => Configuration::File(file.into()),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Configuration::Lab => "lab",
            Configuration::Debian => "debian",
            Configuration::File(_) => "file",
        }
    }

    fn purpose(&self) -> Purpose {
        match self {
            Configuration::Lab => Purpose::Guest,
            Configuration::Debian => Purpose::Packages,
            Configuration::File(_) => Purpose::Machine,
        }
    }
}

/// The request for a build.
#[derive(Debug, Clone)]
pub struct BuildSpec {
    /// The version of Linux: `6.12`.
    pub version: String,
    /// For which processor.
    pub architecture: Architecture,
    /// With which configuration.
    pub configuration: Configuration,
    /// Fragments that are laid over it: files, or names of the series' own.
    pub with: Vec<String>,
    /// A source of one's own.
    pub source: Option<PathBuf>,
    /// A series other than this program's.
    pub series: Option<PathBuf>,
    /// Whether our series is left out, to compare with.
    pub unpatched: bool,
    /// Root folder of the machine that has to boot the kernel.
    pub machine: PathBuf,
    /// Whether a kernel that was built before is built again.
    pub fresh: bool,
}

/// A built kernel: `isolator kernel build --json`, and `kernel.json` in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Built {
    /// Version of this document.
    pub schema_version: u32,
    /// The version of Linux that was asked for.
    pub version: String,
    /// Its release, as in `uname -r`.
    pub release: String,
    /// `x86_64` or `aarch64`.
    pub architecture: String,
    /// `lab`, `debian` or the file, and the fragments laid over it.
    pub configuration: String,
    /// Whether our series was left out.
    pub unpatched: bool,
    /// Its folder; empty in `kernel.json` itself.
    pub folder: String,
    /// The image in that folder: `bzImage`, `Image`.
    pub image: String,
    /// Debian packages in that folder.
    pub packages: Vec<String>,
    /// The origin of the source.
    pub source: String,
    /// SHA-256 of our series.
    pub series: String,
    /// The compiler, as it calls itself.
    pub compiler: String,
    /// SHA-256 of all that went into it.
    pub key: String,
    /// Whether it had been built before.
    pub kept: bool,
    /// How long it took to build.
    pub seconds: f64,
}

/// Whom to tell.
pub struct BuildObserver<'a> {
    /// Receives the name of the present step.
    pub say: &'a dyn Fn(&str),
    /// How far the build is.
    pub step: &'a dyn Fn(BuildProgress),
    /// Ends a fetch on request.
    pub patience: &'a Patience,
}

/// Builds what is asked for, or finds it built.
pub fn build(asked: &BuildSpec, watch: &BuildObserver<'_>) -> Result<Built> {
    let began = Instant::now();
    let series = asked.series.as_deref().map_or_else(|| Ok(PatchSeries::own()), PatchSeries::read)?;
    if !asked.unpatched {
        series.must_have(&asked.version)?;
    }
    let request = ConfigRequest::of(asked, &series, watch)?;
    let has_types = request.ours.get("DEBUG_INFO_BTF") == "y";
    tools::check(asked.architecture, asked.configuration.purpose(), has_types)?;
    let source = KernelSource::find(&asked.version, asked.source.as_deref(), watch)?;
    let compiler = tools::compiler(asked.architecture)?;
    let digest = if asked.unpatched { "none".to_string() } else { series.digest(&asked.version)? };
    let tree_key = store::digest(&[source.digest()?.as_bytes(), digest.as_bytes()]);
    let parts = [&tree_key, &request.name, &request.base.text(), &request.ours.text(), &compiler];
    let architecture = asked.architecture.to_string();
    let mut parts = parts.map(|part| part.as_bytes()).to_vec();
    // What was judged good for one machine may not boot another.
    let drivers = match asked.configuration {
        Configuration::Lab => String::new(),
        _ => bootable::needed(&asked.machine)?.into_keys().collect::<Vec<_>>().join(" "),
    };
    parts.extend([architecture.as_bytes(), drivers.as_bytes(), RECIPE.as_bytes()]);
    let key = store::digest(&parts);
    let folder = store::folder("built")?.join(&key);
    if !asked.fresh
        && let Some(built) = read(&folder)
    {
        publish(asked, &folder)?;
        return Ok(Built { kept: true, ..built });
    }
    let work = BuildFolder::take(&asked.version, asked.unpatched)?;
    let tree = work.tree(
        &source,
        &tree_key,
        |tree| {
            if asked.unpatched { Ok(()) } else { source::apply(&series, &asked.version, tree) }
        },
        watch.say,
    )?;
    let make = KernelTree {
        objects: tree.join(format!("objects-{}-{}", asked.configuration.kind(), asked.architecture)),
        architecture: asked.architecture,
        variables: variables(&tree),
        tree,
    };
    let config = request.configure(&make)?;
    if asked.configuration != Configuration::Lab {
        bootable::check(&config, &make.tree, &asked.machine, watch.say)?;
    }
    let release = compile(asked, &make, &config, &work, watch)?;
    let built = Built {
        schema_version: SCHEMA_VERSION,
        version: asked.version.clone(),
        release,
        architecture,
        configuration: request.name,
        unpatched: asked.unpatched,
        folder: String::new(),
        image: image(asked.architecture).1.to_string(),
        packages: Vec::new(),
        source: source.name(),
        series: digest,
        compiler,
        key,
        kept: false,
        seconds: began.elapsed().as_secs_f64(),
    };
    keep(built, &make, asked, &folder)
}

/// The configuration asked for: what it begins with, and what of ours must be in it.
struct ConfigRequest {
    name: String,
    base: BuildConfig,
    ours: BuildConfig,
}

/// Longest configuration that is read; a distribution's is a quarter of a MiB.
const CONFIGURATION: u64 = 16 << 20;

impl ConfigRequest {
    fn of(asked: &BuildSpec, series: &PatchSeries, watch: &BuildObserver<'_>) -> Result<ConfigRequest> {
        let fragment = |name: &str| BuildConfig::parse(&series.fragment(name).unwrap_or_default());
        let read = |path: &Path| {
            let text = untrusted::read(path, CONFIGURATION);
            let text = text.map_err(|e| Error::io("read the configuration", path, &e))?;
            let config = BuildConfig::parse(&String::from_utf8_lossy(&text));
            if config == BuildConfig::default() {
                let cure = "give a kernel's .config, or choose lab or debian";
                return Err(Error::on("use the configuration", path.display(), "it sets nothing", cure));
            }
            Ok(config)
        };
        let mut name = asked.configuration.kind().to_string();
        let (base, mut ours) = match &asked.configuration {
            Configuration::Lab => {
                let own = fragment(&format!("lab-{}", make::arch(asked.architecture)));
                // What a version does not know any more.
                let version = fragment(&format!("lab-{}", asked.version));
                (BuildConfig::default(), fragment("lab").over(own).over(version))
            }
            Configuration::Debian => {
                let image = debian::find(
                    &format!("debian-rt:{}", asked.version),
                    &asked.version,
                    "-rt",
                    asked.architecture,
                    watch.patience,
                    watch.say,
                )?;
                (read(&image.image.with_file_name(format!("config-{}", image.release)))?, fragment("debian"))
            }
            Configuration::File(file) => {
                name = file.display().to_string();
                (read(file)?, BuildConfig::default())
            }
        };
        ours = ours.over(fragment("isolator"));
        for with in &asked.with {
            name += &format!(" with {with}");
            let own = series.fragment(with).map(|text| BuildConfig::parse(&text));
            ours = ours.over(own.map_or_else(|| read(Path::new(with)), Ok)?);
        }
        if asked.unpatched {
            ours = ours.without("ISOLATOR").without("LOCALVERSION");
        }
        Ok(ConfigRequest { name, base, ours })
    }

    /// Configures a tree, and sees that everything of ours is there.
    fn configure(&self, make: &KernelTree) -> Result<BuildConfig> {
        let write = |name: &str, text: &str| {
            let file = make.objects.join(name);
            fs::write(&file, text).map_err(|e| Error::io("write", &file, &e)).map(|()| file)
        };
        fs::create_dir_all(&make.objects).map_err(|e| Error::io("make the folder", &make.objects, &e))?;
        if self.base == BuildConfig::default() {
            let all = write("isolator.allconfig", &self.ours.text())?;
            make.ask(&[&format!("KCONFIG_ALLCONFIG={}", all.display()), "allnoconfig"])?;
        } else {
            write(".config", &self.base.clone().over(self.ours.clone()).text())?;
            make.ask(&["olddefconfig"])?;
        }
        let file = make.objects.join(".config");
        let got = untrusted::text(&file).map_err(|e| Error::io("read", &file, &e))?;
        let got = BuildConfig::parse(&got);
        let missing = self.ours.missing_in(&got);
        if missing.is_empty() {
            return Ok(got);
        }
        let why = format!("the kernel's configuration does not take {}", missing.join(", "));
        let cure = "set what they depend on as well, or leave them out";
        Err(Error::on("configure the kernel with", &self.name, why, cure))
    }
}

/// Variables that make the same source give the same image, for any user and at any time.
fn variables(tree: &Path) -> Vec<String> {
    let date = fs::metadata(tree.join("Makefile"))
        .and_then(|data| data.modified())
        .unwrap_or(SystemTime::UNIX_EPOCH);
    let date = humantime::format_rfc3339_seconds(date);
    ["LOCALVERSION=".to_string(), "KBUILD_BUILD_USER=isolator".into(), "KBUILD_BUILD_HOST=lab".into()]
        .into_iter()
        .chain([format!("KBUILD_BUILD_TIMESTAMP={date}")])
        .collect()
}

/// Place, below the objects, and target of an architecture's image.
pub fn image(architecture: Architecture) -> (&'static str, &'static str) {
    match architecture {
        Architecture::X86_64 => ("arch/x86/boot/bzImage", "bzImage"),
        Architecture::Aarch64 => ("arch/arm64/boot/Image", "Image"),
    }
}

/// Makes image and modules, or packages of them; gives the release.
fn compile(
    asked: &BuildSpec,
    make: &KernelTree,
    config: &BuildConfig,
    work: &BuildFolder,
    watch: &BuildObserver<'_>,
) -> Result<String> {
    let log = work.folder.join("make.log");
    let mut targets = vec![image(asked.architecture).1];
    if config.get("MODULES") == "y" {
        targets.push("modules");
    }
    // The few hundred steps before the first object are not counted; counting needs them.
    (watch.say)("prepares the build");
    let prepare = if config.get("MODULES") == "y" { "modules_prepare" } else { "prepare" };
    make.run(&[prepare], 0, &log, &|_| {})?;
    (watch.say)("counts the steps");
    let steps = make.count(&targets);
    (watch.say)(&match steps {
        0 => "compiles".to_string(),
        _ => format!("compiles, {steps} steps"),
    });
    make.run(&targets, steps, &log, watch.step)?;
    if asked.configuration == Configuration::Debian {
        (watch.say)("makes Debian packages");
        make.run(&["bindeb-pkg"], 0, &log, &|_| {})?;
    }
    let release = make.ask(&["-s", "kernelrelease"])?;
    Ok(release.trim().lines().last().unwrap_or_default().to_string())
}

/// Moves what was built to where it is kept, whole or not at all.
fn keep(mut built: Built, make: &KernelTree, asked: &BuildSpec, folder: &Path) -> Result<Built> {
    let half = folder.with_extension("half");
    let _ = fs::remove_dir_all(&half);
    fs::create_dir_all(&half).map_err(|e| Error::io("make the folder", &half, &e))?;
    let copy = |from: &Path, name: &str| {
        fs::copy(from, half.join(name)).map(drop).map_err(|e| Error::io("keep", from, &e))
    };
    copy(&make.objects.join(image(asked.architecture).0), &built.image)?;
    for name in ["vmlinux", "System.map"] {
        copy(&make.objects.join(name), name)?;
    }
    copy(&make.objects.join(".config"), "config")?;
    if asked.configuration == Configuration::Debian {
        // dpkg leaves packages beside the objects' folder; older ones of other releases may lie there too.
        for entry in fs::read_dir(&make.tree).map_err(|e| Error::io("read", &make.tree, &e))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".deb") && (name.contains(&built.release) || name.starts_with("linux-libc-dev"))
            {
                fs::rename(entry.path(), half.join(&name))
                    .map_err(|e| Error::io("keep", &entry.path(), &e))?;
                built.packages.push(name);
            }
        }
        built.packages.sort();
    } else if make.objects.join("modules.order").is_file() {
        make.ask(&[
            &format!("INSTALL_MOD_PATH={}", half.display()),
            "INSTALL_MOD_STRIP=1",
            "modules_install",
        ])?;
    }
    let text = serde_json::to_string_pretty(&built)
        .map_err(|e| Error::on("write", "kernel.json", e, "report this"))?;
    evidence::writer::replace(&half.join(NOTE), (text + "\n").as_bytes())?;
    let _ = fs::remove_dir_all(folder);
    fs::rename(&half, folder).map_err(|e| Error::io("move into place", folder, &e))?;
    publish(asked, folder)?;
    Ok(Built { folder: folder.display().to_string(), ..built })
}

/// The description of a kernel, stored beside it.
const NOTE: &str = "kernel.json";

/// The kernel that lies in a folder, if one does.
pub fn read(folder: &Path) -> Option<Built> {
    let built: Built = serde_json::from_slice(&crate::files::bytes(folder.join(NOTE)).ok()?).ok()?;
    Some(Built { folder: folder.display().to_string(), ..built })
}

/// Names the lab's last kernel, so that `--kernel isolator` finds it, and with fragments of the series' own
/// `--kernel isolator:6.12+debug`.
fn publish(asked: &BuildSpec, folder: &Path) -> Result<()> {
    if asked.configuration != Configuration::Lab || asked.with.iter().any(|name| name.contains(['/', '.'])) {
        return Ok(());
    }
    let version = [std::slice::from_ref(&asked.version), &asked.with[..]].concat().join("+");
    let link = link(&version, asked.architecture, asked.unpatched)?;
    let new = link.with_extension("new");
    let _ = fs::remove_file(&new);
    std::os::unix::fs::symlink(folder, &new).map_err(|e| Error::io("make the link", &new, &e))?;
    fs::rename(&new, &link).map_err(|e| Error::io("make the link", &link, &e))
}

fn link(version: &str, architecture: Architecture, unpatched: bool) -> Result<PathBuf> {
    let name = if unpatched { "unpatched" } else { "isolator" };
    Ok(store::folder("built")?.join(format!("{name}-{version}-{architecture}")))
}

/// The lab's kernel of `6.12` or `6.12+debug` that was built last, and whether it was built of another series
/// than this program's.
pub fn last(version: &str, architecture: Architecture, unpatched: bool) -> Result<Option<(Built, bool)>> {
    let folder = fs::canonicalize(link(version, architecture, unpatched)?).ok();
    let Some(built) = folder.as_deref().and_then(read) else { return Ok(None) };
    let own =
        unpatched || PatchSeries::own().digest(&built.version).is_ok_and(|digest| digest == built.series);
    Ok(Some((built, !own)))
}

/// The command that builds the lab's kernel of `6.12` or `6.12+debug`.
pub fn command(version: &str, architecture: Architecture, unpatched: bool) -> String {
    let mut parts = version.split('+');
    let mut command = format!("isolator kernel build --version {}", parts.next().unwrap_or(version));
    let _ = write!(command, " --arch {architecture}");
    command += if unpatched { " --unpatched" } else { "" };
    for name in parts {
        let _ = write!(command, " --with {name}");
    }
    command
}

/// The source tree, with the series in it, in which a version was built last. A build there
/// changes it.
pub fn tree(version: &str) -> Result<PathBuf> {
    let number = version.split('+').next().unwrap_or(version);
    let tree = store::folder("trees")?.join(number).join("source");
    if tree.is_dir() {
        return Ok(tree);
    }
    let cure = format!("build it: isolator kernel build --version {number}");
    Err(Error::on("use the source tree", tree.display(), "no kernel was built there", cure))
}

/// The folder in which a version is built, taken for this process alone.
struct BuildFolder {
    folder: PathBuf,
    _lock: File,
}

impl BuildFolder {
    fn take(version: &str, unpatched: bool) -> Result<BuildFolder> {
        let name = if unpatched { format!("{version}-unpatched") } else { version.to_string() };
        let folder = store::folder("trees")?.join(name);
        fs::create_dir_all(&folder).map_err(|e| Error::io("make the folder", &folder, &e))?;
        let lock = folder.join("lock");
        let file = File::create(&lock).map_err(|e| Error::io("write", &lock, &e))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            let why = "another program is building in it";
            Error::on("build in", folder.display(), why, "wait for its end")
        })?;
        Ok(BuildFolder { folder, _lock: file })
    }

    /// The tree with this key: the one that is there, or a new one, which `change` finishes.
    fn tree(
        &self,
        source: &KernelSource,
        key: &str,
        change: impl Fn(&Path) -> Result<()>,
        say: &dyn Fn(&str),
    ) -> Result<PathBuf> {
        let (tree, mark) = (self.folder.join("source"), self.folder.join("key"));
        if untrusted::text(&mark).is_ok_and(|text| text == key) {
            return Ok(tree);
        }
        // Objects go with it: make judges by times, and those of the new tree may be older.
        let _ = fs::remove_file(&mark);
        if untrusted::is_there(&tree) {
            fs::remove_dir_all(&tree).map_err(|e| Error::io("remove", &tree, &e))?;
        }
        say(&format!("unpacks {}", source.name()));
        source.lay_out(&tree)?;
        change(&tree)?;
        fs::write(&mark, key).map_err(|e| Error::io("write", &mark, &e))?;
        Ok(tree)
    }
}

/// A time in words: `7 min`, `40 s`.
pub fn duration_text(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{} s", seconds.max(1)),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

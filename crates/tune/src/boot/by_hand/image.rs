// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unified kernel images: the file from which the next image gets its line, and the tool that makes it.

use inspect::boot::Variables;

use super::{KERNEL_LINE, new_file};
use crate::boot::spec::BootSpec;
use crate::system::{self, System};

/// The steps: the image that runs stays beside the new one, which is made with our words.
pub(super) fn lines(system: &dyn System, asked: &BootSpec<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let folder = asked.boot.seen.first().map_or("/efi/EFI/Linux", String::as_str);
    let images = system.names(folder).unwrap_or_default();
    let mut images = images.iter().filter(|name| name.to_lowercase().ends_with(".efi"));
    if let (Some(image), None) = (images.next(), images.next()) {
        lines.push(format!("run: cp {folder}/{image} {folder}/{KEPT}, which the menu then still boots"));
    }
    lines.push(edit(system, asked));
    lines.push(match tool(system, asked.release) {
        Some(command) => format!("run: {command}"),
        None => "make the image anew with the tool that made it: ukify, mkinitcpio -P, dracut -f or kernel-install"
            .to_string(),
    });
    lines
}

/// The name of the kept image. systemd-boot boots the highest of images that are alike, and this is the
/// lowest.
const KEPT: &str = "0-before-isolator.efi";

/// Where the line of the next image comes from.
fn edit(system: &dyn System, asked: &BootSpec<'_>) -> String {
    let words = asked.words.join(" ");
    let setting = |path: &str, name: &str| -> Option<String> {
        let text = system::text(system, path).ok()?;
        let of =
            |line: &str| line.trim().strip_prefix(name)?.trim_start().strip_prefix('=').map(str::to_string);
        text.lines()
            .filter_map(of)
            .next_back()
            .map(|value| value.trim().trim_matches(['"', '\'']).to_string())
    };
    for path in ["/etc/kernel/uki.conf", "/etc/systemd/ukify.conf"] {
        match setting(path, "Cmdline").as_deref().map(|value| value.strip_prefix('@').ok_or(value)) {
            Some(Ok(file)) => return whole_file(system, asked, file.trim()),
            Some(Err(_)) => return format!("add to Cmdline= in {path}: {words}"),
            None => {}
        }
    }
    for path in system::matching(system, "/etc/mkinitcpio.d/*.preset") {
        let text = system::text(system, &path).unwrap_or_default();
        let options = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let file = options.filter_map(|line| line.split_once("--cmdline")).next_back().map(|(_, rest)| rest);
        let file = file.and_then(|rest| rest.trim_start_matches([' ', '=']).split([' ', '"', '\'']).next());
        if let Some(file) = file.filter(|file| file.starts_with('/')) {
            return whole_file(system, asked, file);
        }
    }
    if is_line_of_dracut(system) {
        return format!("write into /etc/dracut.conf.d/zz-isolator.conf: kernel_cmdline+=\" {words} \"");
    }
    if !system::matching(system, "/etc/cmdline.d/*.conf").is_empty() {
        return format!("write into /etc/cmdline.d/isolator.conf: {words}");
    }
    whole_file(system, asked, KERNEL_LINE)
}

/// Whether dracut's settings have a line. It reads them by their names, and adds to what earlier ones set.
fn is_line_of_dracut(system: &dyn System) -> bool {
    let paths = ["/etc/dracut.conf", "/usr/lib/dracut/dracut.conf.d/*.conf", "/etc/dracut.conf.d/*.conf"];
    let mut settings = Variables::default();
    for path in paths.iter().flat_map(|paths| system::matching(system, paths)) {
        settings.read(&system::text(system, &path).unwrap_or_default());
    }
    settings.has("kernel_cmdline")
}

/// A file that is the whole line.
fn whole_file(system: &dyn System, asked: &BootSpec<'_>, path: &str) -> String {
    match system.stat(path) {
        Ok(_) => format!("add to {path}: {}", asked.words.join(" ")),
        Err(_) => new_file(asked, path),
    }
}

/// The command that makes the image anew; none where no tool is seen.
fn tool(system: &dyn System, release: Option<&str>) -> Option<String> {
    let there = |path: &str| system.stat(path).is_ok();
    let has = |name: &str| ["/usr/bin", "/usr/sbin"].iter().any(|folder| there(&format!("{folder}/{name}")));
    let conf = system::text(system, "/etc/kernel/install.conf").unwrap_or_default();
    if conf.lines().any(|line| line.trim() == "layout=uki") && has("kernel-install") {
        let release = release?;
        let of_modules = format!("/lib/modules/{release}/vmlinuz");
        let (kernel, disk) = (format!("/boot/vmlinuz-{release}"), format!("/boot/initrd.img-{release}"));
        // Debian keeps both in /boot, and its hook gives them to kernel-install.
        return Some(match (there(&of_modules), there(&disk)) {
            (true, _) => format!("kernel-install add {release} {of_modules}"),
            (false, true) => format!("kernel-install add {release} {kernel} {disk}"),
            (false, false) => format!("kernel-install add {release} {kernel}"),
        });
    }
    match () {
        () if has("mkinitcpio") => Some("mkinitcpio -P".to_string()),
        () if has("dracut") => Some("dracut --force --uefi".to_string()),
        () => None,
    }
}

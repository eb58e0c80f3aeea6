// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one error type of all crates: what failed, on what, why, what to do. It is always one line.
//!
//! It stands on nothing, since `rt`, and with it libisolator, links it.
#![forbid(unsafe_code)]

use std::fmt::{self, Display};
use std::io::{self, ErrorKind};
use std::path::Path;

/// A result with this error.
pub type Result<T> = std::result::Result<T, Error>;

/// The operation, its object, the reason, and the cure.
///
/// ```
/// # use error::Error;
/// let refused = Error::new("lock memory", "the limit is 64 KiB", "raise RLIMIT_MEMLOCK");
/// assert_eq!(refused.to_string(), "cannot lock memory: the limit is 64 KiB; raise RLIMIT_MEMLOCK");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The operation and its object: `read /etc/fstab`.
    pub what: String,
    /// Why it failed.
    pub why: String,
    /// The cure.
    pub cure: String,
    /// The system's error number; 0 where the system did not refuse.
    pub errno: i32,
}

impl Error {
    /// An error in three parts; line breaks within a part become spaces.
    ///
    /// ```
    /// # use error::Error;
    /// assert_eq!(Error::new("start", "the plan is empty", "add a row").errno, 0);
    /// ```
    pub fn new(what: impl Display, why: impl Display, cure: impl Display) -> Error {
        Error { what: line(&what), why: line(&why), cure: line(&cure), errno: 0 }
    }

    /// An error in four parts: as [`Error::new`] with `what` and `on` side by side.
    pub fn on(what: impl Display, on: impl Display, why: impl Display, cure: impl Display) -> Error {
        Error::new(format!("{what} {on}"), why, cure)
    }

    /// An error that the system gave.
    ///
    /// ```
    /// # use error::Error;
    /// let error = std::fs::read("/none/at/all").unwrap_err();
    /// let told = Error::os("read the plan", &error, "give another path");
    /// assert_eq!(told.to_string(), "cannot read the plan: no such file or directory; give another path");
    /// assert_eq!(told.errno, 2);
    /// ```
    pub fn os(what: impl Display, error: &io::Error, cure: impl Display) -> Error {
        let errno = error.raw_os_error().unwrap_or(0);
        Error { errno, ..Error::new(what, reason(error), cure) }
    }

    /// An input or output error on `path`, with the cure that its kind suggests.
    pub fn io(what: &str, path: &Path, error: &io::Error) -> Error {
        use ErrorKind::*;
        let cure = match error.kind() {
            NotFound => "check the path",
            // Of a folder that others own or may write (`untrusted`).
            PermissionDenied if error.get_ref().is_some() => {
                "choose another path, or a folder that is not there yet"
            }
            PermissionDenied => "run as a user with access, or choose another path",
            StorageFull | QuotaExceeded => "free some space, or choose another folder with -o",
            ReadOnlyFilesystem => "choose a folder that can be written with -o",
            NotADirectory | IsADirectory | AlreadyExists => "choose another path",
            InvalidInput => "give a regular file",
            FileTooLarge => "give a smaller one",
            _ => "check the medium and try again",
        };
        Error::os(format!("{what} {}", path.display()), error, cure)
    }
}

impl Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot {}: {}; {}", self.what, self.why, self.cure)
    }
}

impl std::error::Error for Error {}

/// The reason that the system gives, in lower case and without its number; a reason of this program stays as
/// it is.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    if error.get_ref().is_some() {
        return text;
    }
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

fn line(part: &dyn Display) -> String {
    part.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The README's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_the_parts_to_one_line() {
        let error = Error::on("read", "a\nb", "no such\n  file", "check the path");
        assert_eq!(error.to_string(), "cannot read a b: no such file; check the path");
    }

    #[test]
    fn keeps_the_number_and_reason_of_the_system() {
        let refused = io::Error::from_raw_os_error(13);
        let error = Error::io("open", Path::new("/dev/x"), &refused);
        assert_eq!(error.errno, 13);
        assert_eq!(
            error.to_string(),
            "cannot open /dev/x: permission denied; run as a user with access, or choose another path"
        );
    }

    #[test]
    fn keeps_a_reason_of_this_program() {
        assert_eq!(reason(&io::Error::other("GRUB wrote (os error) 5")), "GRUB wrote (os error) 5");
    }
}

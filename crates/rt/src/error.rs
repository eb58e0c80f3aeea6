// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of this crate: what failed, on what, why, what to do — always one line.

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// What failed, on what, why, what to do.
///
/// ```
/// let refused = rt::Error::new("lock memory", "the limit is 64 KiB", "raise RLIMIT_MEMLOCK");
/// assert_eq!(refused.to_string(), "cannot lock memory: the limit is 64 KiB; raise RLIMIT_MEMLOCK");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {what}: {why}; {cure}")]
pub struct Error {
    /// What was tried, and on what.
    pub what: String,
    /// Why it failed.
    pub why: String,
    /// What to do.
    pub cure: String,
    /// The kernel's error number; 0 where it was not the kernel that refused.
    pub errno: i32,
}

impl Error {
    /// An error that the kernel gave.
    ///
    /// ```
    /// let error = std::fs::read("/none/at/all").unwrap_err();
    /// let told = rt::Error::os("read the plan", &error, "give another path");
    /// assert_eq!(told.to_string(), "cannot read the plan: no such file or directory; give another path");
    /// assert_eq!(told.errno, 2);
    /// ```
    pub fn os(what: impl Into<String>, error: &std::io::Error, cure: impl Into<String>) -> Self {
        let why = error.to_string();
        let why = why.split(" (os error").next().unwrap_or_default().to_lowercase();
        Error { what: what.into(), why, cure: cure.into(), errno: error.raw_os_error().unwrap_or(0) }
    }

    /// An error of our own making.
    ///
    /// ```
    /// assert_eq!(rt::Error::new("start", "the plan is empty", "add a row").errno, 0);
    /// ```
    pub fn new(what: impl Into<String>, why: impl Into<String>, cure: impl Into<String>) -> Self {
        Error { what: what.into(), why: why.into(), cure: cure.into(), errno: 0 }
    }
}

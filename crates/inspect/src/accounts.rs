// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lines of files of accounts (passwd(5), group(5), gshadow(5)).

/// The fields of each line.
pub fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().map(|line| line.split(':').collect())
}

/// The fields of each line of a file of groups, or of their passwords.
pub fn groups(text: &str) -> impl Iterator<Item = [&str; 4]> {
    lines(text).filter_map(|fields| fields.try_into().ok())
}

/// The users in the last field of such a line.
pub fn members(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

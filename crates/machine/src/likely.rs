// SPDX-License-Identifier: MIT OR Apache-2.0
//! The name that a mistyped one was meant to be.

/// The first of `known` that one letter more, less, other or in another place makes of `mistyped`, or that
/// begins so.
///
/// ```
/// assert_eq!(machine::likely("fif", ["fifo", "rr"]), Some("fifo"));
/// assert_eq!(machine::likely("foo", ["fifo", "rr"]), None);
/// ```
pub fn likely<'a>(mistyped: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().find(|known| is_near(mistyped, known))
}

fn is_near(text: &str, known: &str) -> bool {
    let (text, known) = (text.to_lowercase(), known.to_string());
    if text.len() >= 3 && known.starts_with(&text) {
        return true;
    }
    let (a, b) = (text.as_bytes(), known.as_bytes());
    let same_start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let same_end = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let longest = a.len().max(b.len());
    let middle = longest.saturating_sub(same_start + same_end);
    let is_turned = middle == 2 && a.len() == b.len() && {
        let at = same_start;
        a.get(at) == b.get(at + 1) && a.get(at + 1) == b.get(at)
    };
    a.len().abs_diff(b.len()) <= 1 && (middle <= 1 || is_turned) && longest > 2
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inputs of several files.

/// The parts of an input that lines `=== NAME` part, by their names; what stands before the first has the
/// name `first`.
pub(super) fn parts(data: &[u8], first: &str) -> Vec<(String, Vec<u8>)> {
    let mut parts: Vec<(String, Vec<u8>)> = vec![(first.to_string(), Vec::new())];
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        if let Some(name) = line.strip_prefix(b"=== ") {
            parts.push((String::from_utf8_lossy(name).trim().to_string(), Vec::new()));
        } else if let Some((_, bytes)) = parts.last_mut() {
            bytes.extend(line);
        }
    }
    parts.retain(|(name, bytes)| name != first || !bytes.is_empty());
    parts
}

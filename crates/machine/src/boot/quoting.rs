// SPDX-License-Identifier: MIT OR Apache-2.0
//! Words as a file, or a shell, has to have them, so that they are read as they are meant.

/// `text` as one word of a shell in single quotes.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// `text` as it stands between the double quotes of a shell.
pub fn in_double_quotes(text: &str) -> String {
    let mut quoted = String::new();
    for letter in text.chars() {
        if matches!(letter, '"' | '\\' | '$' | '`') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted
}

/// A word of the kernel's line as a script of GRUB's has to name it, so that GRUB writes it so into the line.
pub fn for_grub(word: &str) -> String {
    let mut value = String::new();
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {}
            '\\' => value.extend(letters.next()),
            other => value.push(other),
        }
    }
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.,=:+/@%".contains(letter);
    if value.chars().all(plain) { value } else { quoted(&value) }
}

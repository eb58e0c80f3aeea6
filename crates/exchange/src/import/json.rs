// SPDX-License-Identifier: MIT OR Apache-2.0
//! JSON of other tools: one document in a text, in which no key occurs twice.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use super::figures::second_run;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The document that a plain text holds, be it between a shell's lines; `None` where there is none. An error
/// where there are several, or the only one is cut.
pub(super) fn document(text: &str) -> Result<Option<&str>, String> {
    let Some(start) = begin(text, 0) else { return Ok(None) };
    let mut documents = serde_json::Deserializer::from_str(&text[start..]).into_iter::<IgnoredAny>();
    match documents.next() {
        Some(Ok(_)) => {}
        // A brace that begins a line of a shell script is no document.
        Some(Err(why)) if start == 0 => return Err(format!("it is not a complete JSON document ({why})")),
        _ => return Ok(None),
    }
    let end = start + documents.byte_offset();
    match begin(text, end) {
        Some(_) => second_run(),
        None => Ok(Some(&text[start..end])),
    }
}

/// Where the first line from `from` on begins that opens a brace.
fn begin(text: &str, from: usize) -> Option<usize> {
    let line = text[from..].split_inclusive('\n').map(str::trim_start).find(|line| line.starts_with('{'))?;
    Some(line.as_ptr() as usize - text.as_ptr() as usize)
}

/// A map whose keys occur once: of two rows under one key serde would keep the last.
pub(super) fn once<'de, D, K, V>(input: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord + fmt::Display,
    V: Deserialize<'de>,
{
    struct Once<K, V>(PhantomData<(K, V)>);
    impl<'de, K: Deserialize<'de> + Ord + fmt::Display, V: Deserialize<'de>> Visitor<'de> for Once<K, V> {
        type Value = BTreeMap<K, V>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("an object whose keys occur once")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut entries: M) -> Result<Self::Value, M::Error> {
            let mut map = BTreeMap::new();
            while let Some(key) = entries.next_key::<K>()? {
                if map.contains_key(&key) {
                    return Err(M::Error::custom(format!("\"{key}\" occurs twice in one object")));
                }
                let value = entries.next_value()?;
                map.insert(key, value);
            }
            Ok(map)
        }
    }
    input.deserialize_map(Once(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::document;

    #[test]
    fn finds_one_document_among_other_lines() {
        for text in ["{\"a\": {}}", "$ tool --json\n{\n\"a\": {}\n}\nroot#", "\n{}\n"] {
            let found = document(text).unwrap().unwrap();
            assert!(found.starts_with('{') && found.ends_with('}'), "{text}");
        }
        assert_eq!(document("T: 0\n"), Ok(None));
        assert_eq!(document("main() \n{ echo; }\n"), Ok(None));
        for text in ["{}\n{}", "{} {}\n{}", "{}\ntext\n{ \"a\": 1"] {
            assert_eq!(document(text), Err("it holds more than one run".into()), "{text}");
        }
        assert!(document("{\"a\": ").unwrap_err().starts_with("it is not a complete JSON document"));
    }
}

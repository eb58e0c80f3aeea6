// SPDX-License-Identifier: MIT OR Apache-2.0
//! `docs/reference/json-types.txt`: a digest of each type in the JSON documents.
//!
//! The schemas themselves are not in the repository: they are made from the types, and most types are in many
//! of them. This list is, so that a change of a document is a line of a diff that names the type.

use std::collections::BTreeSet;

use schemars::Schema;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::Value;
use sha2::{Digest, Sha256};

const HEAD: &str = "\
# SPDX-License-Identifier: MIT OR Apache-2.0
# Written by make docs, not to be edited
#
# Documents (lower case) and the types in them, each with a digest of its fields, their types and which of them may
# be missing. Descriptions do not count. Two lines of one name are two types, in different documents.
";

/// As many hexadecimal digits as tell types apart.
const DIGITS: usize = 16;

/// The list: a type that several documents share is one line.
pub fn list(documents: &[(&'static str, Schema)]) -> String {
    let mut lines = BTreeSet::new();
    for (name, schema) in documents {
        let mut schema = schema.clone();
        RecursiveTransform(without_description).transform(&mut schema);
        let types = schema.remove("$defs");
        lines.insert(line(name, schema.as_value()));
        for (name, shape) in types.iter().filter_map(Value::as_object).flatten() {
            lines.insert(line(name, shape));
        }
    }
    HEAD.to_string() + &lines.into_iter().collect::<String>()
}

fn without_description(schema: &mut Schema) {
    schema.remove("description");
}

fn line(name: &str, shape: &Value) -> String {
    let digest = machine::hexadecimal(&Sha256::digest(shape.to_string()));
    format!("{name} {}\n", &digest[..DIGITS])
}

#[cfg(test)]
mod tests {
    use schemars::json_schema;

    use super::*;

    /// A document with two fields of the type `Row`, which has one field.
    fn document(about: &str, field: &str) -> Schema {
        json_schema!({
            "description": about,
            "properties": { "description": { "$ref": "#/$defs/Row" }, "last": { "$ref": "#/$defs/Row" } },
            "$defs": { "Row": { "description": about, "properties": { field: { "type": "string" } } } },
        })
    }

    fn lines(documents: &[(&'static str, Schema)]) -> Vec<String> {
        list(documents).lines().filter(|line| !line.starts_with('#')).map(String::from).collect()
    }

    #[test]
    fn a_changed_type_is_the_only_changed_line() {
        let before = lines(&[("one", document("", "count")), ("two", document("", "count"))]);
        let after = lines(&[("one", document("", "counts")), ("two", document("", "counts"))]);
        assert_eq!(before.len(), 3, "{before:?}");
        let changed: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
        assert!(matches!(changed[..], [line] if line.starts_with("Row ")), "{changed:?}");
    }

    #[test]
    fn a_description_changes_no_line_but_a_field_of_that_name_does() {
        let named = |text| lines(&[("one", document(text, "count"))]);
        assert_eq!(named("some words"), named("other words"));
        let mut other = document("", "count");
        other.pointer_mut("/properties").and_then(Value::as_object_mut).unwrap().remove("description");
        assert_ne!(lines(&[("one", other)]), named(""));
    }

    #[test]
    fn types_of_one_name_have_a_line_each() {
        let lines = lines(&[("one", document("", "a")), ("two", document("", "b"))]);
        assert_eq!(lines.iter().filter(|line| line.starts_with("Row ")).count(), 2, "{lines:?}");
    }
}

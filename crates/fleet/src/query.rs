// SPDX-License-Identifier: MIT OR Apache-2.0
//! The questions to a store, as SQL for DuckDB, and the report that asks them all in one process.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use evidence::manifest::SCHEMA_VERSION;
use evidence::{Error, Result};
use serde_json::{Map, Value};
use untrusted::Scratch;

use crate::document::FleetDocument;
use crate::parts::parts;

/// The program that asks DuckDB.
const PROGRAM: &str = "duckdb";

/// Most memory that DuckDB takes before it goes to the disk.
const MEMORY: &str = "640MiB";

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// Its name.
    pub name: &'static str,
    sql: &'static str,
}

/// The views that every question stands on.
const VIEWS: &str = include_str!("sql/views.sql");

/// All questions; those of a report are fields of [`FleetDocument`].
pub const QUERIES: [Query; 11] = [
    Query { name: "totals", sql: include_str!("sql/totals.sql") },
    Query { name: "machines", sql: include_str!("sql/machines.sql") },
    Query { name: "classes", sql: include_str!("sql/classes.sql") },
    Query { name: "outliers", sql: include_str!("sql/outliers.sql") },
    Query { name: "unfit", sql: include_str!("sql/unfit.sql") },
    Query { name: "drift", sql: include_str!("sql/drift.sql") },
    Query { name: "settings", sql: include_str!("sql/settings.sql") },
    Query { name: "clocks", sql: include_str!("sql/clocks.sql") },
    Query { name: "duplicates", sql: include_str!("sql/duplicates.sql") },
    Query { name: "unread", sql: include_str!("sql/unread.sql") },
    Query { name: "percentiles", sql: include_str!("sql/percentiles.sql") },
];

/// A question that a person asks and no report.
const NOT_IN_REPORT: &str = "percentiles";

impl Query {
    /// The question with this name.
    pub fn named(name: &str) -> Result<Query> {
        let names = QUERIES.map(|query| query.name).join(", ");
        let query = QUERIES.into_iter().find(|query| query.name == name);
        query
            .ok_or_else(|| Error::on("ask", name, "there is no such query", format!("choose one of {names}")))
    }

    /// Its subject, in a sentence.
    pub fn about(&self) -> String {
        let lines = self.sql.lines().skip(1).map_while(|line| line.strip_prefix("-- "));
        let text = lines.collect::<Vec<_>>().join(" ");
        text.split_once(". ").map_or(text.clone(), |(first, _)| format!("{first}."))
    }

    /// The whole text, for `duckdb` in the store's folder.
    pub fn text(&self) -> String {
        format!("{VIEWS}\n{}", self.sql)
    }

    /// The select alone, without what follows.
    fn select(&self) -> &'static str {
        self.sql.trim_end().trim_end_matches(';')
    }
}

/// Asks the store in `folder` everything.
pub fn report(folder: &Path) -> Result<FleetDocument> {
    if parts(folder)?.is_empty() {
        let why = "it has no part-0001";
        return Err(Error::on("open the store", folder.display(), why, "fill one with isolator fleet store"));
    }
    let asked = QUERIES.iter().filter(|query| query.name != NOT_IN_REPORT).collect::<Vec<_>>();
    let one = |query: &&Query| {
        format!(
            "SELECT coalesce(to_json(list(q ORDER BY q.rank)), '[]') FROM (\n{}\n) AS q;\n",
            query.select()
        )
    };
    // DuckDB opens its files there through links. Its launcher from PyPI closes descriptors, so it gets a
    // path.
    let cannot = |error: std::io::Error| {
        let cure = "set TMPDIR to a folder of this user";
        Error::on("make", "a temporary folder", error::reason(&error), cure)
    };
    let scratch = Scratch::temporary("isolator-fleet-").map_err(cannot)?;
    let temporary = scratch.named_path().map_err(cannot)?.display().to_string().replace('\'', "''");
    let text = format!(
        "SET memory_limit = '{MEMORY}';\nSET temp_directory = '{}';\n{VIEWS}\n{}",
        temporary,
        asked.iter().map(one).collect::<String>()
    );
    let answer = duckdb(folder, &text)?;
    let strange = |why: String| {
        Error::on("read the answer of", PROGRAM, why, "take DuckDB 1.2 or newer, or report this as a defect")
    };
    let mut lines = answer.lines();
    let mut document = Map::new();
    document.insert("schema_version".to_string(), SCHEMA_VERSION.into());
    document.insert("store".to_string(), folder.display().to_string().into());
    for query in asked {
        let line = lines.next().ok_or_else(|| strange(format!("{} has no answer", query.name)))?;
        let mut rows: Value =
            serde_json::from_str(line).map_err(|e| strange(format!("{}: {e}", query.name)))?;
        if query.name == "totals" {
            rows = rows.as_array_mut().and_then(|rows| rows.pop()).unwrap_or_default();
        }
        document.insert(query.name.to_string(), rows);
    }
    serde_json::from_value(Value::Object(document)).map_err(|e| strange(e.to_string()))
}

/// The output of `duckdb` for `text`, a line an answer.
fn duckdb(folder: &Path, text: &str) -> Result<String> {
    let cure = || crate::install_or("from https://duckdb.org");
    let cannot = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => Error::on("run", PROGRAM, "it is not installed", cure()),
        _ => Error::on("run", PROGRAM, error::reason(&e), cure()),
    };
    // Settings of the user (~/.duckdbrc) may not change the answer.
    let mut child = Command::new(PROGRAM)
        .args(["-init", "/dev/null", "-bail", "-batch", "-noheader", "-list"])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    // It reads all before it answers, and ends early where the text is wrong: its message says more than our
    // pipe.
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(cannot)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !said.trim().is_empty() {
        let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it ended with no word");
        return Err(Error::on(
            "ask the store",
            folder.display(),
            first,
            "take DuckDB 1.2 or newer, or store its bundles again",
        ));
    }
    written.transpose().map_err(cannot)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table of Parquet, column by column: the low-level writer of the crate `parquet`, without Arrow.
//!
//! Numbers are delta-packed, texts are a dictionary: neighbours are alike here, so no further compression is
//! needed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evidence::{Error, Result};
use parquet::basic::Encoding;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use untrusted::Folder;

/// Rows that are kept in memory before they are written.
const ROW_GROUP: usize = 1 << 20;

/// Bytes of a text that are kept: a path has at most so many, and one bundle's name may not fill a report.
const TEXT: usize = 4096;

/// The type of a column; unknown is null, never a number that stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Text,
    Number,
    MaybeText,
    MaybeNumber,
}

/// A value for the next place of a row.
#[derive(Debug, Clone)]
pub(crate) enum CellValue<'a> {
    Text(&'a str),
    Number(u64),
    Signed(i64),
    None,
}

impl<'a> From<&'a str> for CellValue<'a> {
    fn from(text: &'a str) -> CellValue<'a> {
        CellValue::Text(text)
    }
}

impl<'a> From<&'a String> for CellValue<'a> {
    fn from(text: &'a String) -> CellValue<'a> {
        CellValue::Text(text)
    }
}

impl From<u64> for CellValue<'_> {
    fn from(number: u64) -> Self {
        CellValue::Number(number)
    }
}

impl From<i64> for CellValue<'_> {
    fn from(number: i64) -> Self {
        CellValue::Signed(number)
    }
}

impl<'a, T: Into<CellValue<'a>>> From<Option<T>> for CellValue<'a> {
    fn from(value: Option<T>) -> CellValue<'a> {
        value.map_or(CellValue::None, Into::into)
    }
}

struct TableColumn {
    kind: ColumnKind,
    texts: Vec<ByteArray>,
    numbers: Vec<i64>,
    there: Vec<i16>,
}

/// A table that is being written.
pub(crate) struct ParquetTable {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Vec<TableColumn>,
    rows: usize,
}

impl ParquetTable {
    /// Begins the file NAME.parquet in `folder`.
    pub fn create(folder: &Folder, name: &str, columns: &[(&str, ColumnKind)]) -> Result<ParquetTable> {
        let file = format!("{name}.parquet");
        let path = folder.path().join(&file);
        let field = |(name, kind): &(&str, ColumnKind)| match kind {
            ColumnKind::Text => format!("REQUIRED BYTE_ARRAY {name} (STRING);"),
            ColumnKind::MaybeText => format!("OPTIONAL BYTE_ARRAY {name} (STRING);"),
            ColumnKind::Number => format!("REQUIRED INT64 {name};"),
            ColumnKind::MaybeNumber => format!("OPTIONAL INT64 {name};"),
        };
        let fields = columns.iter().map(field).collect::<String>();
        let schema =
            parse_message_type(&format!("message {name} {{ {fields} }}")).map_err(|e| defect(&path, e))?;
        let mut properties = WriterProperties::builder()
            .set_created_by(format!("isolator {}", env!("CARGO_PKG_VERSION")))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_max_row_group_row_count(Some(ROW_GROUP));
        for (name, kind) in columns {
            if matches!(kind, ColumnKind::Number | ColumnKind::MaybeNumber) {
                let path = ColumnPath::from(*name);
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let file = folder.create(&file).map_err(|e| Error::io("write", &path, &e))?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()));
        let column = |(_, kind): &(&str, ColumnKind)| TableColumn {
            kind: *kind,
            texts: vec![],
            numbers: vec![],
            there: vec![],
        };
        Ok(ParquetTable {
            writer: writer.map_err(|e| defect(&path, e))?,
            columns: columns.iter().map(column).collect(),
            rows: 0,
            path,
        })
    }

    /// Adds a row: a cell for each column, in their order.
    pub fn row<const N: usize>(&mut self, cells: [CellValue; N]) -> Result<()> {
        debug_assert_eq!(N, self.columns.len());
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.there.push(i16::from(!matches!(cell, CellValue::None)));
            match cell {
                CellValue::Text(text) => {
                    column.texts.push(ByteArray::from(&text[..text.floor_char_boundary(TEXT)]));
                }
                // What no 64-bit signed number holds is as good as its largest.
                CellValue::Number(number) => column.numbers.push(i64::try_from(number).unwrap_or(i64::MAX)),
                CellValue::Signed(number) => column.numbers.push(number),
                CellValue::None => {}
            }
        }
        self.rows += 1;
        if self.rows >= ROW_GROUP { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let wrong = |e| defect(&self.path, e);
        let mut group = self.writer.next_row_group().map_err(wrong)?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column().map_err(wrong)? else { break };
            let there = matches!(column.kind, ColumnKind::MaybeText | ColumnKind::MaybeNumber)
                .then_some(&column.there[..]);
            match column.kind {
                ColumnKind::Text | ColumnKind::MaybeText => {
                    writer.typed::<ByteArrayType>().write_batch(&column.texts, there, None).map_err(wrong)?
                }
                ColumnKind::Number | ColumnKind::MaybeNumber => {
                    writer.typed::<Int64Type>().write_batch(&column.numbers, there, None).map_err(wrong)?
                }
            };
            writer.close().map_err(wrong)?;
            column.texts.clear();
            column.numbers.clear();
            column.there.clear();
        }
        group.close().map_err(wrong)?;
        self.rows = 0;
        Ok(())
    }

    /// Ends the file, and has it on the disk.
    pub fn close(mut self) -> Result<()> {
        self.flush()?;
        let file = self.writer.into_inner().map_err(|e| defect(&self.path, e))?;
        file.sync_all().map_err(|e| Error::io("write", &self.path, &e))
    }
}

fn defect(path: &Path, why: parquet::errors::ParquetError) -> Error {
    Error::on("write", path.display(), why, "free some space, or choose another folder with -o")
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of a table, and which of them a narrow terminal can do without.

/// A column of a table.
pub(super) struct TextColumn {
    pub head: &'static str,
    pub cells: Vec<String>,
    /// The longest of its cells and its head, in characters.
    width: usize,
    /// Text is set left, figures right.
    text: bool,
    /// Where the terminal is narrow the highest goes first; 0 always stays.
    dispensable: u8,
}

impl TextColumn {
    /// A column of figures.
    pub fn of<R>(head: &'static str, dispensable: u8, rows: &[R], cell: impl Fn(&R) -> String) -> TextColumn {
        let cells: Vec<String> = rows.iter().map(cell).collect();
        let longest = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        TextColumn { head, cells, width: longest.max(head.chars().count()), text: false, dispensable }
    }

    /// A column of text.
    pub fn text<R>(
        head: &'static str,
        dispensable: u8,
        rows: &[R],
        cell: impl Fn(&R) -> String,
    ) -> TextColumn {
        TextColumn { text: true, ..TextColumn::of(head, dispensable, rows, cell) }
    }

    /// `cell` as wide as the column.
    pub fn set(&self, cell: &str) -> String {
        let width = self.width;
        if self.text { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    }
}

/// Drops what can be done without until a line takes at most `width`.
pub(super) fn fit(columns: &mut Vec<TextColumn>, width: usize) {
    let taken = |columns: &[TextColumn]| columns.iter().map(|column| column.width + 2).sum::<usize>();
    while taken(columns) > width + 2 {
        let most = columns.iter().map(|column| column.dispensable).max().unwrap_or(0);
        if most == 0 {
            break;
        }
        columns.retain(|column| column.dispensable < most);
    }
}

/// Cells side by side.
pub(super) fn line(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
}

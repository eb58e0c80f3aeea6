// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text of the moving table, for a terminal of a given size: no line is ever as wide as the terminal, so
//! that none wraps, and there are never more lines than it shows.

use std::time::Duration;

use machine::units::{count, figure};

/// The figures of a row so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowFigures {
    pub samples: u64,
    pub missed: u64,
    pub max_ns: u64,
    /// Whether a sample was above its limit, or a period was missed.
    pub late: bool,
}

/// Where a row stands.
#[derive(Debug, Clone, PartialEq)]
pub enum RowState {
    /// Its turn has not come.
    Waits,
    /// Something is done for it, or it was not run: in words.
    Says(String),
    /// It is being measured; the part that is over where its end is known.
    Measures(RowFigures, Option<f64>),
    /// It is over.
    Ended(RowFigures),
}

/// A row with its name.
#[derive(Debug, Clone)]
pub struct PictureRow {
    pub name: String,
    pub state: RowState,
}

/// How far the whole run is.
#[derive(Debug, Clone, Copy)]
pub struct Overall {
    pub elapsed: Duration,
    /// Time left, where the end is known.
    pub left: Option<Duration>,
}

/// The terminal.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    pub columns: usize,
    pub lines: usize,
    pub color: bool,
}

#[derive(Clone, Copy)]
enum RowPaint {
    Quiet,
    Busy,
    Good,
    Bad,
}

/// Width of `samples`, `missed` and `max us` with the space before each.
const FIGURES: [(&str, usize); 3] = [("samples", 14), ("missed", 10), ("max us", 10)];

/// A bar or a mark wants this.
const TAIL: usize = 10;

/// Where rows are so many that not all are shown, those around the present one are.
pub fn table(rows: &[PictureRow], present: usize, overall: Overall, screen: Screen) -> String {
    let width = screen.columns.saturating_sub(1).max(20);
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let name = longest.min(width / 3);
    // Where it is narrow the count of samples goes first, then that of missed periods.
    let skip = (0..FIGURES.len() - 1)
        .find(|skip| 2 + name + FIGURES[*skip..].iter().map(|(_, w)| w).sum::<usize>() + 2 + TAIL <= width)
        .unwrap_or(FIGURES.len() - 1);
    let columns = &FIGURES[skip..];
    let shown = screen.lines.saturating_sub(5).max(1);
    let first = (present + 2).min(rows.len()).saturating_sub(shown);
    let heads = columns.iter().map(|(head, width)| format!("{head:>width$}")).collect::<String>();
    let mut lines = vec![screen.paint(RowPaint::Quiet, &format!("  {:name$}{heads}", ""))];
    for row in rows.iter().skip(first).take(shown) {
        lines.push(line(row, name, columns, width, screen));
    }
    lines.push(String::new());
    lines.push(footer(overall, width, screen));
    lines.join("\n")
}

fn line(row: &PictureRow, name: usize, columns: &[(&str, usize)], width: usize, screen: Screen) -> String {
    let cells = |figures: &RowFigures| {
        let cell = |head: &str| match head {
            "samples" => count(figures.samples),
            "missed" => count(figures.missed),
            _ => figure(figures.max_ns as f64),
        };
        columns.iter().map(|(head, width)| format!("{:>width$}", cell(head))).collect::<String>()
    };
    let named = format!("{:name$}", cut(&row.name, name));
    let room = |before: &str| width.saturating_sub(before.chars().count() + 2);
    match &row.state {
        RowState::Waits => screen.paint(RowPaint::Quiet, format!("  {named}").trim_end()),
        RowState::Says(what) => {
            let head = format!("  {named}");
            format!("{head}  {}", screen.paint(RowPaint::Quiet, &cut(what, room(&head))))
        }
        RowState::Measures(figures, part) => {
            let head = format!("▸ {named}{}", cells(figures));
            let bar = part.map(|part| bar(part, room(&head).min(30), screen));
            format!("{head}  {}", bar.unwrap_or_default())
        }
        RowState::Ended(figures) => {
            let (paint, mark) = if figures.late { (RowPaint::Bad, "LATE") } else { (RowPaint::Good, "ok") };
            format!("  {named}{}  {}", cells(figures), screen.paint(paint, mark))
        }
    }
}

/// Progress of the whole, time left, and how to end it.
pub fn footer(overall: Overall, width: usize, screen: Screen) -> String {
    let end = "  Ctrl-C ends with results";
    let (part, words) = match overall.left {
        None => (None, format!("  {}", span(overall.elapsed))),
        Some(left) => {
            let part = overall.elapsed.as_secs_f64() / (overall.elapsed + left).as_secs_f64().max(1e-9);
            (Some(part), format!("  {} left", span(left)))
        }
    };
    let fixed = words.chars().count() + 2;
    let end = if width >= fixed + end.len() + 12 || part.is_none() { end } else { "" };
    let room = width.saturating_sub(fixed + end.len());
    let bar = part.map(|part| format!("  {}", bar(part, room, screen))).unwrap_or_default();
    format!("{bar}{words}{}", screen.paint(RowPaint::Quiet, &cut(end, width.saturating_sub(words.len()))))
}

/// Lines of fields that say what they are worth: in a narrow terminal all lines leave out those worth least.
pub fn thread_lines(threads: &[Vec<(u8, String)>], width: usize) -> Vec<String> {
    let line = |fields: &Vec<(u8, String)>, least: u8| {
        fields.iter().filter(|(worth, _)| *worth >= least).map(|(_, text)| text.as_str()).collect::<String>()
    };
    let all = |least| threads.iter().map(|fields| line(fields, least)).collect::<Vec<_>>();
    let fits = |least| all(least).iter().all(|line| line.chars().count() <= width);
    let least = (0..u8::MAX).find(|least| fits(*least)).unwrap_or(0);
    all(least)
}

fn bar(part: f64, width: usize, screen: Screen) -> String {
    let full = ((part.clamp(0.0, 1.0) * width as f64) as usize).min(width);
    let (done, open) = ("━".repeat(full), "─".repeat(width - full));
    format!("{}{}", screen.paint(RowPaint::Busy, &done), screen.paint(RowPaint::Quiet, &open))
}

/// A time for people who wait.
pub fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    text.chars().take(width.saturating_sub(1)).chain((width > 0).then_some('…')).collect()
}

impl Screen {
    fn paint(self, paint: RowPaint, text: &str) -> String {
        let code = match paint {
            RowPaint::Quiet => "2",
            RowPaint::Busy => "36",
            RowPaint::Good => "32",
            RowPaint::Bad => "1;31",
        };
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<PictureRow> {
        let figures = RowFigures { samples: 123_456_789, missed: 12_345, max_ns: 98_765_400, late: true };
        let states = [
            RowState::Ended(figures.clone()),
            RowState::Measures(figures, Some(0.4)),
            RowState::Says("not run: package stress-ng missing; apt-get install stress-ng".to_string()),
            RowState::Waits,
        ];
        let row = |n: usize| PictureRow {
            name: format!("custom=sleep 1000 · wakeup {n}"),
            state: states[n % 4].clone(),
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn no_line_is_as_wide_as_the_terminal_and_all_fit_on_it() {
        let left = Some(Duration::from_secs(5999));
        for columns in 20..140 {
            let screen = Screen { columns, lines: 12, color: false };
            for (left, present) in [(left, 0), (None, 19), (left, 39)] {
                let text =
                    table(&rows(40), present, Overall { elapsed: Duration::from_secs(3000), left }, screen);
                assert!(text.lines().count() < screen.lines, "{text}");
                for line in text.lines() {
                    assert!(columns < 30 || line.chars().count() < columns, "{columns}: {line}");
                }
                assert!(text.contains(&format!("{present}")) || columns < 100, "{present}: {text}");
            }
        }
    }

    #[test]
    fn the_table_shows_what_is_over_what_goes_on_and_what_waits() {
        let figures = RowFigures { samples: 5000, missed: 0, max_ns: 99_900, late: false };
        let late = RowFigures { max_ns: 472_700, late: true, ..figures.clone() };
        let row = |name: &str, state| PictureRow { name: name.to_string(), state };
        let rows = [
            row("idle", RowState::Ended(figures.clone())),
            row("cpu", RowState::Ended(late)),
            row("net", RowState::Measures(figures, Some(0.5))),
            row("ipi", RowState::Waits),
        ];
        let overall = Overall { elapsed: Duration::from_secs(15), left: Some(Duration::from_secs(15)) };
        let text = table(&rows, 2, overall, Screen { columns: 60, lines: 30, color: false });
        let expected = "             samples    missed    max us
  idle         5,000         0      99.9  ok
  cpu          5,000         0       473  LATE
▸ net          5,000         0      99.9  ━━━━━━━━─────────
  ipi

  ━━━━━━━━━━──────────  15 s left  Ctrl-C ends with results";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn colour_is_in_the_text_only_where_the_screen_has_it() {
        let overall = Overall { elapsed: Duration::from_secs(1), left: None };
        let paints =
            |color| table(&rows(4), 1, overall, Screen { columns: 80, lines: 30, color }).contains('\u{1b}');
        assert!(paints(true) && !paints(false));
    }

    #[test]
    fn narrow_thread_lines_leave_out_the_same_and_keep_what_is_worth_most() {
        let fields =
            |thread: &str| vec![(9, "T: 0".to_string()), (1, thread.to_string()), (9, " Max: 7".to_string())];
        let threads = [fields(" (  123)"), fields(" (12345678)")];
        assert_eq!(thread_lines(&threads, 40), ["T: 0 (  123) Max: 7", "T: 0 (12345678) Max: 7"]);
        assert_eq!(thread_lines(&threads, 20), ["T: 0 Max: 7", "T: 0 Max: 7"]);
    }
}

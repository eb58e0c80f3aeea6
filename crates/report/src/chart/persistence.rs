// SPDX-License-Identifier: MIT OR Apache-2.0
//! The persistence picture: sweeps of 100 periods laid over each other as on an oscilloscope's phosphor,
//! latency upward, brighter where more samples fell, older ones fading.
//!
//! A pixel is a cell of [`evidence::series::Persistence`]. Brightness follows the logarithm of the glow; what
//! has faded away stays faintly visible, since a single late cycle long ago is what people look for. The
//! picture is a PNG of 16 colours that the browser scales without smoothing.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evidence::histogram::index;
use evidence::series::{LEVEL_SHIFT, Persistence, SWEEP_COLUMNS};
use evidence::{Error, Result};

use crate::chart::{LoadStyle, Plot, latency_title, left_out, limits};
use crate::runs::{ProbePeriod, RowView, Runs, ShownRun};
use crate::scale::{GridLine, hundredth, linear_ticks};
use crate::text;

/// Pictures that a page carries.
const PICTURES: usize = 120;

/// How much of a picture's height a line of text takes, in per cent.
const LINE: f64 = 10.0;

/// From the dark screen over the afterglow to the beam.
const PHOSPHOR: [[u8; 3]; 16] = [
    [6, 14, 10],
    [14, 58, 36],
    [16, 68, 41],
    [18, 80, 47],
    [20, 93, 53],
    [23, 107, 59],
    [27, 122, 66],
    [32, 138, 73],
    [38, 155, 81],
    [47, 173, 90],
    [60, 190, 101],
    [80, 206, 116],
    [108, 221, 137],
    [146, 234, 166],
    [190, 245, 202],
    [236, 255, 240],
];

/// A group of pictures that share their axes.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Pictures {
    pub title: String,
    /// The titles of the upright axis and of the other one.
    pub y_title: String,
    pub x_title: String,
    /// How many stand side by side where there is room.
    pub columns: usize,
    pub plots: Vec<Plot>,
    pub left_out: String,
}

/// The levels that pictures of one kind show; each is one pixel high.
#[derive(Clone, Copy)]
struct Levels {
    lowest: u16,
    highest: u16,
}

impl Levels {
    fn height(&self) -> u16 {
        self.highest - self.lowest + 1
    }

    /// Per cent from the bottom; levels are log-linear, as the histogram's buckets are.
    fn at(&self, ns: f64) -> f64 {
        let level = index(ns as u64) as f64 / f64::from(1u32 << LEVEL_SHIFT);
        ((level - f64::from(self.lowest)) / f64::from(self.height()) * 100.0).clamp(0.0, 100.0)
    }

    fn ticks(&self) -> Vec<GridLine> {
        let ends = [self.lowest, self.highest + 1].map(|level| Persistence::level_from_ns(level) as f64);
        let decades = (2..12).map(|power| 10f64.powi(power)).filter(|ns| (ends[0]..=ends[1]).contains(ns));
        let mut ticks: Vec<GridLine> =
            decades.map(|ns| GridLine { at: hundredth(self.at(ns)), label: text::axis(ns) }).collect();
        // Low levels are narrow: of two names that would lie upon each other, the upper one stays.
        for lower in (1..ticks.len()).rev() {
            if ticks[lower].at - ticks[lower - 1].at < LINE {
                ticks[lower - 1].label.clear();
            }
        }
        ticks
    }
}

/// All pictures of `kind`, by CPU, then load, then run; none where no source recorded any.
pub(crate) fn pictures(runs: &Runs, kind: &ProbePeriod) -> Result<Option<Pictures>> {
    let drawable = |row: &RowView| !row.row.series.persistence.cells.is_empty();
    let levels =
        || runs.rows_of(kind).flat_map(|row| row.row.series.persistence.cells.iter().map(|cell| cell.1));
    let (Some(lowest), Some(highest)) = (levels().min(), levels().max()) else { return Ok(None) };
    let limit = runs.rows_of(kind).filter_map(|row| row.row.entry.limit_ns).max();
    let limit_level = limit.map_or(0, |ns| (index(ns) >> LEVEL_SHIFT) as u16);
    let levels = Levels { lowest, highest: highest.max(limit_level) };

    let mut shown: Vec<_> = runs.rows_of(kind).filter(drawable).map(|row| row.summary.max_ns).collect();
    shown.sort_unstable_by(|a, b| b.cmp(a));
    let least_ns = shown.get(PICTURES - 1).copied().unwrap_or(0);
    let note = if shown.len() > PICTURES { left_out(PICTURES, shown.len(), "rows") } else { String::new() };

    let mut plots = Vec::new();
    for cpu in runs.cpus(kind) {
        for load in &runs.loads {
            for run in &runs.all {
                let row = run.row(kind, load, cpu).filter(drawable);
                if let Some(row) = row.filter(|row| row.summary.max_ns >= least_ns && plots.len() < PICTURES)
                {
                    plots.push(plot(runs, run, row, levels)?);
                }
            }
        }
    }
    let columns = columns(runs.all.len(), runs.loads_of(kind), runs.cpus(kind).len());
    let y_title = format!("{}, logarithmic", latency_title(kind));
    let x_title = "time within the sweep, µs".to_string();
    Ok(Some(Pictures { title: kind.to_string(), y_title, x_title, columns, plots, left_out: note }))
}

/// So many columns that the runs of a load stay side by side, and lines are as equally filled as they can be:
/// a line for the loads of a CPU or, where there is one load only, for the CPUs.
pub(super) fn columns(runs: usize, loads: usize, cpus: usize) -> usize {
    const MOST: usize = 6;
    let groups = if loads > 1 { loads } else { cpus };
    let lines = groups.div_ceil((MOST / runs.max(1)).max(1));
    runs * groups.div_ceil(lines.max(1))
}

fn plot(runs: &Runs, run: &ShownRun, row: RowView, levels: Levels) -> Result<Plot> {
    let key = &row.row.entry.key;
    let picture = &row.row.series.persistence;
    let sweep_ns = key.period_ns.unwrap_or(0) as f64 * SWEEP_COLUMNS as f64;
    let fades = match picture.half_life_s {
        0.0 => String::new(),
        half_life_s => format!(", glowing half as bright after {half_life_s} s"),
    };
    let mut x = linear_ticks(sweep_ns.max(1.0), 3, text::axis);
    // The ends are named, which is what the narrowest picture has room for.
    let last = x.len() - 1;
    x[1..last].iter_mut().for_each(|tick| tick.label.clear());
    x[0].label = "0".to_string();
    Ok(Plot {
        title: format!("cpu {} · {}", key.cpu, text::short(&key.load, 60)),
        run: run.mark(runs.several()),
        description: format!(
            "Latency over the time within a sweep of {SWEEP_COLUMNS} periods{fades}; maximum {}.",
            row.latency(row.summary.max_ns)
        ),
        height: 116,
        cpu: key.cpu,
        x,
        y: levels.ticks(),
        limits_y: limits(std::iter::once(row), |ns| levels.at(ns)),
        picture: data_uri(&png(picture, levels)?),
        marks: Vec::new(),
        bands: vec![crate::chart::Band {
            style: LoadStyle::of(runs.load_place(&key.load)),
            name: String::new(),
            from: 0.0,
        }],
        ..Plot::default()
    })
}

/// The palette entry of every pixel, from the top left, a row at a time.
fn pixels(picture: &Persistence, levels: Levels) -> Vec<u8> {
    let brightest = picture.cells.iter().map(|(.., cell)| cell.glow).fold(0.0, f64::max);
    let mut pixels = vec![0; SWEEP_COLUMNS * usize::from(levels.height())];
    let drawn = picture.cells.iter().filter(|(_, level, _)| (levels.lowest..=levels.highest).contains(level));
    for (column, level, cell) in drawn {
        let row = usize::from(levels.highest - level);
        pixels[row * SWEEP_COLUMNS + usize::from(column)] = strength(cell.glow, brightest);
    }
    pixels
}

/// The palette entry of a glow, by its logarithm: never the dark screen's.
pub(super) fn strength(glow: f64, brightest: f64) -> u8 {
    let strongest = PHOSPHOR.len() as f64 - 1.0;
    let strength = if brightest > 0.0 { glow.max(0.0).ln_1p() / brightest.ln_1p() } else { 0.0 };
    1 + (strength * (strongest - 1.0)).round() as u8
}

fn png(picture: &Persistence, levels: Levels) -> Result<Vec<u8>> {
    encode(&pixels(picture, levels), SWEEP_COLUMNS)
}

/// A PNG of palette entries, `width` to a row, an even number.
pub(super) fn encode(pixels: &[u8], width: usize) -> Result<Vec<u8>> {
    let packed: Vec<u8> = pixels.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width as u32, (pixels.len() / width) as u32);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Four);
    encoder.set_palette(PHOSPHOR.concat());
    encoder.set_compression(png::Compression::High);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&packed)?;
        writer.finish()
    });
    written.map_err(|e| Error::on("draw", "a persistence picture", e, "report this as a defect"))?;
    Ok(file)
}

pub(super) fn data_uri(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Persistence {
        let mut picture = Persistence { half_life_s: 1.0, ..Persistence::default() };
        picture.add(0, 20, 1, 0);
        picture.add(99, 10, 100_000, 600);
        picture
    }

    #[test]
    fn runs_of_a_load_stay_side_by_side() {
        assert_eq!([columns(1, 4, 2), columns(1, 8, 12), columns(1, 1, 12)], [4, 4, 6]);
        assert_eq!([columns(2, 5, 2), columns(2, 1, 1), columns(3, 4, 2)], [6, 2, 6]);
    }

    #[test]
    fn what_has_faded_stays_faintly_visible() {
        let levels = Levels { lowest: 10, highest: 20 };
        let pixels = pixels(&picture(), levels);
        assert_eq!((pixels[0], pixels[10 * SWEEP_COLUMNS + 99]), (1, 15));
        assert_eq!(pixels.iter().filter(|pixel| **pixel > 0).count(), 2);
    }

    #[test]
    fn the_png_holds_the_pixels() {
        let levels = Levels { lowest: 8, highest: 30 };
        let file = png(&picture(), levels).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut packed = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut packed).unwrap();
        assert_eq!((frame.width, frame.height), (100, 23));
    }

    #[test]
    fn a_latency_lies_where_its_level_is_drawn() {
        let levels = Levels { lowest: 8, highest: 47 };
        assert_eq!(levels.at(1_024.0), 0.0);
        assert_eq!(levels.at(2_048.0), 20.0);
        assert_eq!(levels.ticks().iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>(), ["10"]);
    }

    #[test]
    fn names_of_levels_do_not_lie_upon_each_other() {
        let ticks = Levels { lowest: 0, highest: 200 }.ticks();
        let named: Vec<&GridLine> = ticks.iter().filter(|tick| !tick.label.is_empty()).collect();
        assert!(named.len() < ticks.len());
        assert!(named.windows(2).all(|pair| pair[1].at - pair[0].at >= LINE), "{named:?}");
        assert_eq!(ticks.iter().rfind(|tick| tick.at < 100.0).unwrap().label, named.last().unwrap().label);
    }
}

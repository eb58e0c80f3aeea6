// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page in a real browser: on a desk, on a phone, on paper.
//!
//! Needs Chromium; without it the test says so and passes. A wrapper that only this test has measures what
//! was laid out. Pages and pictures stay in cargo's temporary folder for people to look at.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Plan, lab};
use serde_json::Value;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

const SECTIONS: [&str; 14] = [
    "verdict",
    "maxima",
    "figures",
    "histograms",
    "time",
    "persistence",
    "spikes",
    "why",
    "tail",
    "machine",
    "asked",
    "taints",
    "missing",
    "claims",
];

const LAB_SECTIONS: [&str; 11] = [
    "verdict",
    "beside",
    "excursions",
    "storms",
    "witness",
    "log",
    "lab",
    "machine",
    "asked",
    "missing",
    "claims",
];

/// A browser that hangs ends the test instead of the build.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures the page in a frame of its own: a browser's window has a smallest width, a frame has none.
const MEASURE: &str = r#"<!doctype html><body style="margin:0"><iframe id="f" style="border:0" height="900" width="WIDTH" src="PAGE"></iframe>
<script>
addEventListener("load", () => {
  const inner = document.getElementById("f").contentDocument;
  const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.right, r.width, r.height] };
  const all = s => [...inner.querySelectorAll(s)];
  const named = s => s.querySelector("title")?.textContent && s.querySelector("desc")?.textContent;
  const found = {
    window: inner.defaultView.innerWidth, page: inner.documentElement.scrollWidth,
    sections: Object.fromEntries(all("section").map(s => [s.id, box(s)])),
    frames: all("svg.frame").map(box),
    texts: all("svg.frame text").map(t => [t.textContent, ...box(t)]),
    timelines: all("svg.timeline").map(box), lists: all(".when li > *").map(box),
    tables: all(".scroll").map(box),
    unfolded: all(".unfold").map(box),
    headings: all("h1,h2,h3").map(h => +h.tagName[1]),
    unnamed: all("svg.frame, svg.timeline").filter(s => !named(s)).length,
  };
  const pre = document.createElement("pre"); pre.id = "measured"; pre.textContent = JSON.stringify(found);
  document.body.append(pre);
});
</script>"#;

fn browser() -> Option<&'static str> {
    let works = |name: &&str| {
        let version = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    };
    let found = BROWSERS.into_iter().find(works);
    if found.is_none() {
        println!("skipped: chromium missing; apt-get install chromium");
    }
    found
}

/// Runs the browser on `page` in a profile of its own; what it wrote to standard output.
fn browse(browser: &str, page: &Path, arguments: &[String]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = profile.path().join("stdout");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().join("profile").display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdout(std::fs::File::create(&output).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{browser} did not end: {arguments:?}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::read_to_string(&output).unwrap()
}

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What the browser laid out of `page` at `width`.
fn laid_out(browser: &str, page: &Path, width: u32) -> Value {
    let probe = page.with_extension(format!("{width}.html"));
    let measure = MEASURE.replace("WIDTH", &width.to_string());
    let name = page.file_name().unwrap().to_str().unwrap();
    std::fs::write(&probe, measure.replace("PAGE", name)).unwrap();
    let arguments = ["--dump-dom", "--allow-file-access-from-files", "--window-size=1400,900"];
    let dom = browse(browser, &probe, &arguments.map(String::from));
    let json = dom.split("<pre id=\"measured\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let json = json.unwrap_or_else(|| panic!("the browser measured nothing in {}", probe.display()));
    serde_json::from_str(&json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().filter_map(Value::as_f64).collect()
}

fn is_laid_out_within(found: &Value, width: u32, sections: &[&str], charts: usize) {
    let window = found["window"].as_f64().unwrap();
    assert_eq!(window, f64::from(width));
    assert!(found["page"].as_f64().unwrap() <= window, "the page is {} wide at {window}", found["page"]);
    for section in sections {
        assert!(
            numbers(&found["sections"][*section])[3] > 20.0,
            "{section}: {}",
            found["sections"][*section]
        );
    }
    let frames = found["frames"].as_array().unwrap();
    assert!(frames.len() >= charts, "{} charts", frames.len());
    for frame in frames {
        let [left, right, width, height] = numbers(frame)[..] else { panic!("{frame}") };
        assert!(left >= 0.0 && right <= window && width > 80.0 && height > 50.0, "{frame} in {window}");
    }
    for text in found["texts"].as_array().unwrap() {
        let [left, right, ..] = numbers(text)[..] else { panic!("{text}") };
        assert!(left >= 0.0 && right <= window, "{text} is cut off at {window}");
    }
    for part in
        ["tables", "unfolded", "timelines", "lists"].iter().flat_map(|part| found[*part].as_array().unwrap())
    {
        assert!(numbers(part)[1] <= window, "{part} in {window}");
    }
    assert_eq!(found["unnamed"], 0, "charts without a title and a description");
    let headings = numbers(&found["headings"]);
    assert_eq!(headings[0], 1.0);
    assert!(headings.windows(2).all(|pair| pair[1] <= pair[0] + 1.0), "{headings:?}");
}

/// Width, height and RGB pixels of a picture.
fn pixels(path: &Path) -> (u32, u32, Vec<[u8; 3]>) {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut decoder = png::Decoder::new(file);
    decoder.set_transformations(png::Transformations::STRIP_16 | png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut bytes).unwrap();
    let pixels = bytes.chunks(frame.color_type.samples()).map(|pixel| [pixel[0], pixel[1], pixel[2]]);
    (frame.width, frame.height, pixels.collect())
}

#[test]
fn a_page_is_whole_on_a_desk_on_a_phone_and_on_paper() {
    let Some(browser) = browser() else { return };
    let evidence = tempfile::tempdir().unwrap();
    let (before, after) = (Plan::before().on_disk(evidence.path()), Plan::after().on_disk(evidence.path()));
    let one = report::html(std::slice::from_ref(&before)).unwrap();
    let two = report::html(&[before, after]).unwrap();
    for (name, html) in [("two.html", &two), ("one.html", &one)] {
        let page = folder().join(name);
        std::fs::write(&page, html).unwrap();
        for width in [1280, 360] {
            let found = laid_out(browser, &page, width);
            is_laid_out_within(&found, width, &SECTIONS, 10);
            let timelines = found["timelines"].as_array().unwrap();
            assert!(
                !timelines.is_empty() && timelines.iter().all(|one| numbers(one)[2] > 250.0),
                "{timelines:?}"
            );
        }
    }

    let page = folder().join("one.html");
    for (width, height) in [(1280, 4000), (360, 4000)] {
        let picture = folder().join(format!("one-{width}.png"));
        let shot = format!("--screenshot={}", picture.display());
        browse(browser, &page, &[shot, format!("--window-size={width},{height}")]);
        let (_, _, pixels) = pixels(&picture);
        let colours: std::collections::BTreeSet<_> = pixels.iter().collect();
        assert!(colours.len() > 200, "{} colours at {width}", colours.len());
        if width == 1280 {
            let screen = pixels.iter().filter(|pixel| **pixel == [6, 14, 10]).count();
            assert!(screen > 5_000, "{screen} pixels of an oscilloscope's screen");
        }
    }

    let paper = folder().join("one.pdf");
    browse(browser, &page, &[format!("--print-to-pdf={}", paper.display()), "--no-pdf-header-footer".into()]);
    let pdf = std::fs::read(&paper).unwrap();
    assert!(pdf.starts_with(b"%PDF-") && pdf.len() > 20_000, "{} bytes", pdf.len());
}

#[test]
fn a_lab_page_is_whole_on_a_desk_and_on_a_phone_folded_and_unfolded() {
    let Some(browser) = browser() else { return };
    let html = report::html(&[lab::stock(), lab::isolated()]).unwrap();
    let open = html.replace("<details class=\"unfold\">", "<details class=\"unfold\" open>");
    assert_ne!(html, open);
    for (name, html) in [("lab.html", &html), ("lab-open.html", &open)] {
        let page = folder().join(name);
        std::fs::write(&page, html).unwrap();
        for width in [1280, 360] {
            let found = laid_out(browser, &page, width);
            is_laid_out_within(&found, width, &LAB_SECTIONS, 1);
            assert_eq!(found["unfolded"].as_array().unwrap().len(), 5);
        }
    }
}

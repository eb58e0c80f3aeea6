// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page in a real browser: on a desk, on a phone, on paper, in the dark, by keyboard alone.
//!
//! Needs Chromium; without it the tests say so and pass. A wrapper that only these tests have measures what
//! was laid out, and presses keys. Pages and pictures stay in cargo's temporary folder for people to look at.
//! axe-core looks for barriers where `tools/bootstrap` could get it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Plan, fleet, lab};
use compare::compare;
use serde_json::Value;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

const SECTIONS: [&str; 14] = [
    "verdict",
    "maxima",
    "figures",
    "why",
    "spikes",
    "time",
    "histograms",
    "jitter",
    "persistence",
    "machine",
    "asked",
    "taints",
    "missing",
    "claims",
];

const LAB_SECTIONS: [&str; 10] =
    ["verdict", "beside", "excursions", "storms", "witness", "log", "lab", "machine", "asked", "claims"];

/// A browser that hangs ends the test instead of the build.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures the page in a frame of its own: a browser's window has a smallest width, a frame has none.
const MEASURE: &str = r#"<!doctype html><body style="margin:0"><iframe id="f" style="border:0" height="844" width="WIDTH" src="PAGE"></iframe>
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
    timelines: all("svg.timeline").map(box).filter(r => r[2] > 0), lists: all(".when li > *").map(box),
    words: all("h1,h2,h3,p,dd,li,figcaption,summary,.bar-name,.bar-value,.card *").filter(e => !e.closest(".scroll,svg"))
      .map(e => [e.textContent.slice(0, 60), ...box(e)]),
    card: box(inner.querySelector(".card")),
    outside: all("main *").filter(e => !e.closest("svg,.scroll") && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "hidden" && !e.closest(".unseen,button")).length,
    tables: all(".scroll").map(box), bars: all(".bars-of").map(box),
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

/// The browser's layout of `page` at `width`.
fn laid_out(browser: &str, page: &Path, width: u32) -> Value {
    measured(browser, page, MEASURE, width)
}

/// The measurements of `wrapper` in `page` at `width`.
fn measured(browser: &str, page: &Path, wrapper: &str, width: u32) -> Value {
    let probe = page.with_extension(format!("{width}.html"));
    let measure = wrapper.replace("WIDTH", &width.to_string());
    let name = page.file_name().unwrap().to_str().unwrap();
    std::fs::write(&probe, measure.replace("PAGE", name)).unwrap();
    let arguments = ["--dump-dom", "--allow-file-access-from-files", "--window-size=1400,900"];
    let dom = browse(browser, &probe, &arguments.map(String::from));
    let json = dom.split("<pre id=\"measured\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let json = json.unwrap_or_else(|| panic!("the browser measured nothing in {}", probe.display()));
    read(json)
}

/// JSON as a browser writes it into a page.
fn read(json: &str) -> Value {
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
    for words in found["words"].as_array().unwrap() {
        let [left, right, ..] = numbers(words)[..] else { panic!("{words}") };
        assert!(left >= -1.0 && right <= window + 1.0, "{words} is cut off at {window}");
    }
    assert_eq!(found["outside"], 0, "text that its own box hides");
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
    let two = report::html(&[before.clone(), after.clone()]).unwrap();
    let change = compare(&before, &after, true);
    let change = report::compared(&[before, after], &change).unwrap();
    for (name, html) in [("two.html", &two), ("one.html", &one), ("change.html", &change)] {
        let page = folder().join(name);
        std::fs::write(&page, html).unwrap();
        for width in if name == "one.html" { [1920, 360] } else { [1280, 390] } {
            let found = laid_out(browser, &page, width);
            is_laid_out_within(&found, width, &SECTIONS, 10);
            if name == "change.html" {
                is_laid_out_within(&found, width, &["change", "overlaid"], 10);
            }
            if name == "one.html" && width > 390 {
                // The first screen of a desk holds the whole card.
                assert!(numbers(&found["card"])[3] < 700.0, "{} at {width}", found["card"]);
            }
            let timelines = found["timelines"].as_array().unwrap();
            assert!(
                !timelines.is_empty() && timelines.iter().all(|one| numbers(one)[2] > 250.0),
                "{timelines:?}"
            );
        }
    }

    let page = folder().join("one.html");
    for (width, height) in [(1280, 9000), (360, 4000)] {
        let picture = folder().join(format!("one-{width}.png"));
        let shot = format!("--screenshot={}", picture.display());
        browse(browser, &page, &[shot, format!("--window-size={width},{height}")]);
        let (_, _, pixels) = pixels(&picture);
        let colours: std::collections::BTreeSet<_> = pixels.iter().collect();
        assert!(colours.len() > 200, "{} colours at {width}", colours.len());
        if width == 1280 {
            let screen = pixels.iter().filter(|pixel| **pixel == [6, 14, 10]).count();
            assert!(screen > 5_000, "{screen} pixels of an oscilloscope's screen");
            assert_eq!(pixels[0], [255, 255, 255]);
        }
    }
    let picture = folder().join("one-dark.png");
    let shot = format!("--screenshot={}", picture.display());
    let dark = "--blink-settings=preferredColorScheme=0".to_string();
    browse(browser, &page, &[shot, dark, "--window-size=1280,900".into()]);
    let (_, _, pixels) = pixels(&picture);
    assert!(pixels[0].iter().all(|part| *part < 40), "{:?} is not dark", pixels[0]);

    let paper = folder().join("one.pdf");
    browse(browser, &page, &[format!("--print-to-pdf={}", paper.display()), "--no-pdf-header-footer".into()]);
    let pdf = std::fs::read(&paper).unwrap();
    assert!(pdf.starts_with(b"%PDF-") && pdf.len() > 20_000, "{} bytes", pdf.len());
}

/// Presses keys and moves a pointer in the page of a frame; its policy and its script are the page's own.
const PRESS: &str = r##"<!doctype html><body style="margin:0"><iframe id="f" style="border:0" height="900" width="WIDTH" src="PAGE"></iframe>
<script>
addEventListener("load", () => {
  const inner = document.getElementById("f").contentDocument, view = inner.defaultView;
  const all = s => [...inner.querySelectorAll(s)], one = s => inner.querySelector(s);
  const seen = s => all(s).filter(e => e.getClientRects().length > 0).length;
  const key = (e, name) => e.dispatchEvent(new view.KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const point = (e, kind, share) => {
    const r = e.getBoundingClientRect();
    e.dispatchEvent(new view.PointerEvent(kind, { clientX: r.left + share * r.width, clientY: r.top + 5, button: 0, pointerId: 1, bubbles: true }));
  };
  const found = {};
  // Rows off, and on again.
  const button = one('.switches button[data-of="load"]'), rows = () => seen(".figures tbody tr[data-load]");
  found.rows = [rows()];
  for (const n of [0, 1]) { button.focus(); button.click(); found.rows.push(rows()); }
  found.focused = inner.activeElement === button;
  // Keys on a histogram.
  const histogram = one("#histograms svg.frame");
  histogram.focus();
  for (let n = 0; n < 40; n++) key(histogram, "ArrowLeft");
  found.histogram = one(".tip").hidden ? "" : one(".tip").textContent;
  key(histogram, "Escape");
  found.hidden = one(".tip").hidden;
  const jitter = one("#jitter svg.frame");
  point(jitter, "pointermove", 0.5001);
  found.jitter = one(".tip").textContent;
  // Zoom by keys, and by a pointer; back again.
  const strip = one("#time svg.frame"), box = () => strip.querySelector(".box").getAttribute("viewBox");
  strip.setPointerCapture = () => {};
  found.zoom = [box()];
  strip.focus(); key(strip, "+"); found.zoom.push(box());
  found.ticks = all("#time svg.frame:first-of-type text.zoomed").map(t => t.textContent);
  key(strip, "Escape"); found.zoom.push(box());
  point(strip, "pointerdown", 0.25); point(strip, "pointermove", 0.5); point(strip, "pointerup", 0.5); found.zoom.push(box());
  strip.dispatchEvent(new view.MouseEvent("dblclick", { bubbles: true })); found.zoom.push(box());
  point(strip, "pointermove", 0.01);
  found.strip = one(".tip").textContent;
  // Every part that answers can be reached without a pointer, and shows that it is.
  const parts = all("a, button, summary, .scroll, svg.frame[data-reads]").filter(e => e.getClientRects().length > 0);
  found.parts = parts.length;
  found.unreached = parts.filter(e => e.tabIndex < 0).length;
  const line = one("details.fold"); line.querySelector("summary").click();
  found.unfolded = line.open && line.querySelector("svg.timeline").getBoundingClientRect().width > 200;
  const pre = document.createElement("pre"); pre.id = "measured"; pre.textContent = JSON.stringify(found);
  document.body.append(pre);
});
</script>"##;

#[test]
fn keys_alone_reach_figures_rows_and_zoom() {
    let Some(browser) = browser() else { return };
    let bundle = Plan::before().in_memory();
    let page = folder().join("keys.html");
    std::fs::write(&page, report::html(std::slice::from_ref(&bundle)).unwrap()).unwrap();
    let found = measured(browser, &page, PRESS, 1280);
    let rows = numbers(&found["rows"]);
    assert_eq!((rows[0], rows[2]), (bundle.rows.len() as f64, bundle.rows.len() as f64), "{found:#}");
    let of_load = bundle.rows.iter().filter(|row| row.entry.key.load == "idle").count();
    assert_eq!(rows[1], (bundle.rows.len() - of_load) as f64, "{found:#}");
    let text = |name: &str| found[name].as_str().unwrap();
    assert!(text("histogram").contains(" µs") && text("histogram").contains("idle: "), "{found:#}");
    assert!(text("jitter").starts_with("0 to +") && text("jitter").contains(" samples"), "{found:#}");
    assert!(text("strip").contains(" s to ") && text("strip").contains("maximum "), "{found:#}");
    assert_eq!(
        (&found["hidden"], &found["focused"], &found["unfolded"]),
        (&true.into(), &true.into(), &true.into())
    );
    let zoom: Vec<&str> = found["zoom"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let whole = "0 0 4000 1000";
    assert_eq!(zoom, [whole, "1000 0 2000 1000", whole, "1000 0 1000 1000", whole]);
    assert!(found["ticks"].as_array().unwrap().len() >= 3, "{found:#}");
    assert!(found["parts"].as_u64().unwrap() > 30);
    assert_eq!(found["unreached"], 0, "{found:#}");
}

#[test]
fn no_serious_barrier_is_found() {
    let Some(browser) = browser() else { return };
    let axe =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/python/axe_playwright_python/axe.min.js");
    if !axe.is_file() {
        println!("skipped: axe-core missing; tools/bootstrap test");
        return;
    }
    let evidence = tempfile::tempdir().unwrap();
    let (before, after) = (Plan::before().on_disk(evidence.path()), Plan::after().on_disk(evidence.path()));
    let change = compare(&before, &after, true);
    let pages = [
        ("one", report::html(std::slice::from_ref(&before)).unwrap()),
        ("change", report::compared(&[before, after], &change).unwrap()),
        ("lab", report::html(&[lab::stock(), lab::isolated()]).unwrap()),
        ("fleet", report::fleet(&fleet::large()).unwrap()),
    ];
    let run = "<script>axe.run(document, { resultTypes: ['violations'] }).then(found => {
        const told = found.violations.map(v => [v.impact, v.id, v.nodes.length, v.nodes[0].html.slice(0, 200), v.nodes[0].any.map(a => a.message)]);
        const pre = document.createElement('pre'); pre.id = 'measured';
        pre.textContent = JSON.stringify({ passes: found.passes.length, told });
        document.body.append(pre);
    });</script>";
    for (name, html) in pages {
        // The page's policy admits no script but its own; what axe needs is left out of it here.
        let open = html.replacen("default-src 'none'", "default-src * data: 'unsafe-inline'", 1);
        let from = open.find("; script-src").unwrap();
        let to = from + open[from..].find('"').unwrap();
        let open = format!("{}{}", &open[..from], &open[to..]);
        assert_ne!(html, open);
        let page = open
            .replace("</body>", &format!("<script src=\"file://{}\"></script>{run}</body>", axe.display()));
        for dark in ["1", "0"] {
            let path = folder().join(format!("axe-{name}-{dark}.html"));
            std::fs::write(&path, &page).unwrap();
            let scheme = format!("--blink-settings=preferredColorScheme={dark}");
            let patience = "--virtual-time-budget=60000".to_string();
            let dom = browse(
                browser,
                &path,
                &["--dump-dom".into(), scheme, patience, "--window-size=1280,900".into()],
            );
            let json = dom.split("<pre id=\"measured\">").nth(1).and_then(|rest| rest.split("</pre>").next());
            let found =
                read(json.unwrap_or_else(|| panic!("axe found nothing at all in {}", path.display())));
            assert!(found["passes"].as_u64().unwrap() > 10, "{found:#}");
            let told = found["told"].as_array().unwrap();
            let bad: Vec<_> =
                told.iter().filter(|one| matches!(one[0].as_str(), Some("serious" | "critical"))).collect();
            assert!(bad.is_empty(), "{name}, {dark}: {bad:#?}");
        }
    }
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
            is_laid_out_within(&found, width, &LAB_SECTIONS, 0);
            assert!(numbers(&found["bars"][0])[2] > 250.0, "{}", found["bars"]);
            assert_eq!(found["unfolded"].as_array().unwrap().len(), 5);
        }
    }
}

#[test]
fn a_fleets_page_is_whole_on_a_desk_and_on_a_phone_without_empty_parts() {
    let Some(browser) = browser() else { return };
    let parts = ["verdict", "outliers", "settings", "drift", "unread", "classes", "machines", "quiet"];
    for (name, document, sections) in [
        ("fleet", fleet::large(), &parts[..]),
        ("fleet-small", fleet::small(), &["verdict", "classes", "machines", "quiet"][..]),
    ] {
        let html = report::fleet(&document).unwrap();
        let page = folder().join(format!("{name}.html"));
        std::fs::write(&page, &html).unwrap();
        for width in [1280, 390] {
            let found = laid_out(browser, &page, width);
            is_laid_out_within(&found, width, sections, 0);
            assert_eq!(found["sections"].as_object().unwrap().len(), sections.len(), "{found:#}");
        }
        for (kind, more) in [("light", "1"), ("dark", "0")] {
            let picture = folder().join(format!("{name}-{kind}.png"));
            let scheme = format!("--blink-settings=preferredColorScheme={more}");
            let shot = format!("--screenshot={}", picture.display());
            browse(browser, &page, &[shot, scheme, "--window-size=1280,1600".into()]);
            let (_, _, pixels) = pixels(&picture);
            let is_dark = pixels[0].iter().all(|part| *part < 40);
            assert_eq!(is_dark, kind == "dark", "{:?}", pixels[0]);
        }
        let paper = folder().join(format!("{name}.pdf"));
        let print = format!("--print-to-pdf={}", paper.display());
        browse(browser, &page, &[print, "--no-pdf-header-footer".into()]);
        let pdf = std::fs::read(&paper).unwrap();
        assert!(pdf.starts_with(b"%PDF-"));
        // A column of a letter's width would be three times as long.
        let sheets = pdf.windows(12).filter(|at| at.starts_with(b"/Type /Page") && at[11] != b's').count();
        assert!((1..=7).contains(&sheets), "{name}: {sheets} sheets");
    }
    let small = report::fleet(&fleet::small()).unwrap();
    let (_, table) = small.split_once("aria-label=\"Best machines\"").unwrap();
    for column in ["of class", "CPUs", "runs", ">class<", ">why<"] {
        assert!(!table.contains(column), "{column} has nothing to say");
    }
    assert!(small.contains("The machine holds its limit") && !small.contains("<script>,"), "{small}");
}

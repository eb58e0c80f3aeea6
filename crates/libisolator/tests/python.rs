// SPDX-License-Identifier: MIT OR Apache-2.0
//! The library as Python programs meet it: the supervisor beside a loop in C, and what the module refuses.

mod common;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use common::{compile, here, shared};

/// Python with the module and the library at hand; `None` where it or cffi is not here.
fn python(folder: &Path) -> Option<Command> {
    let mut python = Command::new("python3");
    if !Command::new("python3")
        .args(["-c", "import cffi"])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        println!("skipped: no python3 with cffi here");
        return None;
    }
    python
        .env("LIBISOLATOR", shared(folder)?)
        .env("PYTHONPATH", here("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}

struct Looping(Child);

impl Drop for Looping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn the_supervisor_sees_the_cycles_of_a_loop_and_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(program), Some(mut python)) =
        (compile(&here("examples/loop.c"), folder.path()), python(folder.path()))
    else {
        return;
    };
    let start = |cycles| {
        Looping(
            Command::new(&program).arg(cycles).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
        )
    };
    let looping = start("1000000");
    let args =
        [looping.0.id().to_string(), "--limit-us".into(), "1e9".into(), "--seconds".into(), "1.5".into()];
    let output = python.arg(here("examples/supervisor.py")).args(&args).output().unwrap();
    let text = said(&output);
    // A machine that is late may take longer than a period for a cycle: said, and status 2.
    assert!(matches!(output.status.code(), Some(0 | 2)), "{text}");
    assert!(
        text.lines().any(|line| line.contains(" cycles, 0 lost, the latest ") && !line.starts_with("0 ")),
        "{text}"
    );
    drop(looping);
    let output = python.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("give a process that runs"), "{}", said(&output));
}

#[test]
fn the_module_says_what_is_wrong_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut python) = python(folder.path()) else { return };
    let script = r#"
import errno, os, isolator
assert isolator.version().count(".") == 2
for call, number, text in [
    (lambda: isolator.Reader(os.getpid()), errno.ENOENT, "it has no monitored loop"),
    (lambda: isolator.Reader(os.getpid(), "none"), errno.ENOENT, "it has no monitored loop"),
    (lambda: os.path.exists("/dev/isolator") or isolator.status(0), errno.ENOSYS, "boot a kernel with the isolator"),
]:
    try:
        assert call() is True
    except isolator.Error as error:
        assert error.errno == number and text in error.strerror, error
"#;
    let output = python.args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

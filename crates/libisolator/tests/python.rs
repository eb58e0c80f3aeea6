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

fn output_of(output: &Output) -> String {
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
    let text = output_of(&output);
    // A machine that is late may take longer than a period for a cycle: said, and status 2.
    assert!(matches!(output.status.code(), Some(0 | 2)), "{text}");
    assert!(
        text.lines().any(|line| line.contains(" cycles, 0 lost, the latest ") && !line.starts_with("0 ")),
        "{text}"
    );
    drop(looping);
    let output = python.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output_of(&output));
    assert!(output_of(&output).contains("give a process that runs"), "{}", output_of(&output));
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
    (lambda: os.path.exists("/dev/isolator") or isolator.status(0), errno.ENOSYS, "boot a kernel with the kernel part"),
    (lambda: os.path.exists("/dev/isolator") or isolator.statistics(0), errno.ENOSYS, "boot a kernel with the kernel part"),
    (lambda: isolator.Ring(slots=3), errno.EINVAL, "power of two"),
    (lambda: isolator.Ring(fd=0), errno.EINVAL, "sealed memory"),
]:
    try:
        assert call() is True
    except isolator.Error as error:
        assert error.errno == number and text in error.strerror, error
"#;
    let output = python.args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", output_of(&output));
}

#[test]
fn messages_go_to_another_process_and_an_end_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut python) = python(folder.path()) else { return };
    let script = r#"
import errno, os, isolator
with isolator.Ring(slots=4, size=16) as there, isolator.Ring(slots=4, size=16) as back:
    if os.fork() == 0:
        requests, answers = isolator.Ring(fd=there.fileno()).receiver(), isolator.Ring(fd=back.fileno()).sender()
        for number in range(100):
            while not requests.wait(10): pass
            for message in requests.poll(1): answers.post(message[::-1])
        os._exit(0)
    requests, answers = there.sender(), back.receiver()
    for number in range(100):
        requests.post(b"%03d" % number)
        assert answers.wait(10)
        assert answers.poll() == [(b"%03d" % number)[::-1]], number
    assert os.wait()[1] == 0
    try:
        for _ in range(5): requests.post(b"more")
        raise SystemExit("a ring of 4 took 5 messages")
    except isolator.Full as full:
        assert "full" in str(full), full
    try:
        requests.post(b"x" * 17)
        raise SystemExit("a message that is too large was taken")
    except isolator.Error as error:
        assert error.errno == errno.EMSGSIZE and error.strerror, error
    # What a process has open when it ends goes with it.
    assert not requests.other_lives and not answers.other_lives
    try:
        there.sender()
        raise SystemExit("a ring has two senders")
    except isolator.Error as error:
        assert error.errno == errno.EBUSY, error
    requests.close()
    rest = there.receiver()
    assert rest.poll() == [b"more"] * 4
    try:
        rest.poll()
        raise SystemExit("the end was not told")
    except isolator.Ended as ended:
        assert "closed" in str(ended), ended
    rest.close()
    try:
        rest.poll()
        raise SystemExit("a closed end was used")
    except ValueError as error:
        assert "the receiver is closed" in str(error), error
"#;
    let output = python.args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{}", output_of(&output));
}

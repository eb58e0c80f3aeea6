// SPDX-License-Identifier: MIT OR Apache-2.0
//! `isolator task` on processes of our own.

use std::path::Path;
use std::process::{Child, Command};

use crate::common::*;

/// A process that only sleeps, with a child that does the same; gone when the test is.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        let sleeper = Sleeper(Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap());
        let children = format!("/proc/{0}/task/{0}/children", sleeper.id());
        wait_for("a child", || std::fs::read_to_string(&children).is_ok_and(|text| !text.trim().is_empty()));
        sleeper
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let child = format!("/proc/{0}/task/{0}/children", self.id());
        for id in std::fs::read_to_string(child).unwrap_or_default().split_whitespace() {
            let _ = Command::new("kill").arg(id).status();
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn task(args: &str) -> Ran {
    let mut all = vec!["task"];
    all.extend(args.split(' '));
    isolator(Path::new("/"), &all)
}

#[test]
fn sets_a_task_and_its_children_and_shows_them() {
    let sleeper = Sleeper::new();
    let id = sleeper.id();
    let ran = task(&format!("set {id} --policy batch --cpus 0 --children --json --quiet")).ended(0).json();
    let tasks = ran["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 2, "{ran:#}");
    for task in tasks {
        assert_eq!((&task["after"]["policy"], &task["after"]["cpus"]), (&"batch".into(), &"0".into()));
        assert_eq!(task["before"]["policy"], "other");
    }
    let shown = task(&format!("show {id} --children --json --quiet")).ended(0).json();
    let names: Vec<&str> =
        shown["tasks"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sh", "sleep"]);
    let listed = task("list").ended(0).stdout;
    assert!(listed.lines().any(|line| line.contains(&id.to_string()) && line.contains("batch")), "{listed}");
}

#[test]
fn refuses_what_makes_no_sense_or_starves_the_machine() {
    let sleeper = Sleeper::new();
    let id = sleeper.id();
    let line = |args: &str| task(args).line();
    assert_eq!(
        line("set 4194305 --policy idle"),
        "cannot find the task: there is no task 4194305; `isolator task list` says which there are"
    );
    assert!(
        line(&format!("set {id} --policy fif"))
            .starts_with("cannot use policy 'fif': there is none of that name")
    );
    assert!(line(&format!("set {id} --policy fifo --priority 99")).ends_with("choose 1 to 98, or --force"));
    assert!(line(&format!("set {id} --policy fifo --priority 100")).contains("it is not 1 to 99"));
    assert!(line(&format!("set {id} --cpus 8000")).contains("CPU 8000 is not online; choose from 0"));
    assert!(line(&format!("set {id} --policy deadline")).contains("its runtime is not given"));
    assert!(line("set 0 --policy idle").contains("0 is no task"));
    assert!(line(&format!("set {id}")).contains("lacks --policy"));
    let after = task(&format!("show {id} --json --quiet")).ended(0).json();
    assert_eq!(after["tasks"][0]["policy"], "other");
}

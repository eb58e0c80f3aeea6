// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call stacks, functions, lines and data of programs that were compiled in several ways, compared with the
//! programs' own output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;

use crate::program::{Program, compile, run};

/// Compiler flags: the usual ones, without frame pointers, with them, without optimisation, at fixed
/// addresses, with a static C library, and with compressed debug information.
const BUILDS: [&[&str]; 7] = [
    &["-O2"],
    &["-O2", "-g", "-fomit-frame-pointer"],
    &["-O2", "-g", "-fno-omit-frame-pointer"],
    &["-O0", "-g"],
    &["-O1", "-g", "-no-pie"],
    &["-O2", "-g", "-static"],
    &["-O2", "-g", "-gz=zlib", "-gdwarf-4"],
];

fn start(program: &Path, way: &str) -> Program {
    run(Command::new(program).arg(way), || ())
}

fn c(flags: &[&str]) -> Option<PathBuf> {
    compile("cc", "stack.c", flags)
}

/// Each caller by an address in its call.
fn callers(program: &Program) -> Vec<u64> {
    program.truth.returns.iter().map(|address| address - 1).collect()
}

#[test]
fn call_stacks_are_those_of_the_c_library() {
    for flags in BUILDS {
        let Some(path) = c(flags) else { return };
        for way in ["plain", "qsort", "thread", "alloca"] {
            let mut program = start(&path, way);
            assert!(program.truth.returns.len() > 4, "{flags:?} {way}: {:?}", program.truth.returns);
            let found = program.unwound();
            assert_eq!(found[1..], callers(&program), "{flags:?} {way}");
        }
    }
}

#[test]
fn a_signal_handler_is_unwound_into_the_code_that_it_interrupted() {
    for flags in BUILDS {
        let Some(path) = c(flags) else { return };
        let mut program = start(&path, "signal");
        let functions = program.functions("main");
        let place = |name: &str| functions.iter().position(|function| function.contains(name));
        assert!(place("handle") < place("main") && place("handle").is_some(), "{flags:?}: {functions:?}");
        let own: Vec<u64> = callers(&program);
        let found = program.unwound();
        // The C library gives the interrupted instruction as if it were a call's return address.
        let near = |(found, own): (&u64, &u64)| *found == *own || *found == own + 1;
        assert!(found[1..].iter().zip(&own).all(near), "{flags:?}: {found:x?} {own:x?}");
        assert_eq!(found.len(), own.len() + 1, "{flags:?}");
    }
}

#[test]
fn functions_have_the_names_of_the_source() {
    for flags in BUILDS {
        let Some(path) = c(flags) else { return };
        let mut program = start(&path, "qsort");
        let functions = program.functions("main");
        let at = |name: &str| functions.iter().position(|function| function == name);
        let order = ["capture", "inner", "middle", "compare", "main"].map(at);
        assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{flags:?}: {functions:?}");
        let frame = program.process.frame(program.truth.registers.ip).unwrap();
        assert_eq!(frame.to_string(), "program!capture");
    }
}

#[test]
fn lines_are_those_of_the_source() {
    for flags in BUILDS {
        let Some(path) = c(flags) else { return };
        let mut program = start(&path, "plain");
        let inner = program.unwound()[1];
        let frames = program.process.frames(inner);
        let outer = program.process.frame(inner).unwrap();
        assert_eq!(outer.function.as_deref(), Some("inner"), "{flags:?}");
        if flags.iter().any(|flag| flag.starts_with("-g")) {
            assert!(outer.file.as_deref().unwrap().ends_with("stack.c"), "{flags:?} {outer:?}");
            assert_eq!(outer.line, Some(program.truth.line), "{flags:?}");
            let inlined = frames.first().unwrap();
            assert_eq!(inlined.function.as_deref(), Some("put_into_its_caller"), "{flags:?} {frames:?}");
            assert!(inlined.is_inlined && !outer.is_inlined, "{frames:?}");
        } else {
            assert_eq!((frames.len(), outer.line), (1, None), "{frames:?}");
        }
    }
}

#[test]
fn data_is_named_after_variable_and_file() {
    for flags in BUILDS {
        let Some(path) = c(flags) else { return };
        let mut program = start(&path, "plain");
        let data = std::mem::take(&mut program.truth.data);
        assert_eq!(data.len(), 3);
        for (name, address) in data {
            assert_eq!(program.process.data(address), Some(format!("program!{name}")), "{flags:?}");
        }
        assert_eq!(program.process.data(program.truth.heap).as_deref(), Some("heap"), "{flags:?}");
        assert_eq!(program.process.data(program.truth.registers.sp).as_deref(), Some("stack"), "{flags:?}");
        assert_eq!(program.process.data(8), None);
    }
}

#[test]
fn a_stripped_program_has_its_exported_functions() {
    let Some(path) = c(&["-O2", "-s"]) else { return };
    let mut program = start(&path, "plain");
    assert_eq!(program.unwound()[1..], callers(&program));
    let own = callers(&program);
    let frame = program.process.frame(own[0]).unwrap();
    assert_eq!((frame.binary.as_str(), frame.function.as_deref()), ("program", None));
    let main = own.iter().find_map(|address| program.process.frame(*address)?.function);
    assert!(main.is_some(), "main is exported");
    let state = program.truth.data.iter().find(|(name, _)| name == "state+0x8").unwrap().1;
    let name = program.process.data(state).unwrap();
    assert!(name.starts_with("program+0x"), "{name}");
}

#[test]
fn finds_a_library_that_is_loaded_later() {
    let Some(path) = c(&["-O2"]) else { return };
    let Some(library) = compile("cc", "library.c", &["-O2", "-fPIC", "-shared"]) else { return };
    let pause = || std::thread::sleep(std::time::Duration::from_millis(150));
    let mut program = run(Command::new(&path).arg("library").arg(&library), pause);
    assert_eq!(program.unwound()[1..], callers(&program));
    assert!(program.functions("main").contains(&"library_calls".to_string()));
}

#[test]
fn unwinds_code_without_a_file_by_frame_pointer() {
    let Some(path) = c(&["-O2"]) else { return };
    let pause = || std::thread::sleep(std::time::Duration::from_millis(150));
    let mut program = run(Command::new(&path).arg("jit"), pause);
    let frames: Vec<String> = program
        .unwound()
        .into_iter()
        .map(|address| program.process.frame(address).unwrap().to_string())
        .collect();
    let place = frames.iter().position(|frame| frame.starts_with("[anon]!0x"));
    assert_eq!(place, Some(3), "{frames:?}");
    assert!(frames[4..].contains(&"program!main".to_string()), "{frames:?}");
}

#[test]
fn knows_an_ended_program_with_a_deleted_file() {
    let Some(path) = c(&["-O2", "-g"]) else { return };
    let folder = tempdir().unwrap();
    let copy = folder.path().join("program");
    fs::copy(&path, &copy).unwrap();
    let mut program = run(Command::new(&copy).arg("plain"), || ());
    fs::remove_file(&copy).unwrap();
    program.end();
    let functions = program.functions("main");
    assert_eq!(functions.first().map(String::as_str), Some("capture"), "{functions:?}");
    assert_eq!(functions.last().map(String::as_str), Some("main"));
    assert_eq!(program.process.notes(), [""; 0]);
}

/// The name of a deleted file, as the list of mappings shows it, may be a pipe or a link by then.
#[test]
fn opens_only_the_file_that_is_mapped() {
    let Some(path) = c(&["-O2", "-g"]) else { return };
    for device in [None, Some("/dev/zero")] {
        let folder = tempdir().unwrap();
        let copy = folder.path().join("program");
        fs::copy(&path, &copy).unwrap();
        let mut program = run(Command::new(&copy).arg("plain"), || ());
        fs::remove_file(&copy).unwrap();
        let shown = folder.path().join("program (deleted)");
        match device {
            None => assert!(Command::new("mkfifo").arg(&shown).status().unwrap().success()),
            Some(device) => std::os::unix::fs::symlink(device, &shown).unwrap(),
        }
        let (found, unread) = program.process.functions(|name| (name == "capture").then_some(()));
        // The file itself, or where that may not be opened nothing.
        let is_read = found.iter().any(|binary| !binary.defined.is_empty());
        assert_eq!(is_read, !unread.contains(&shown.display().to_string()), "{unread:?}");
        program.end();
    }
}

#[test]
fn functions_of_cpp_are_named_as_in_its_source() {
    for flags in [&["-O2"][..], &["-O0", "-g"]] {
        let Some(path) = compile("c++", "stack.cpp", flags) else { return };
        let mut program = run(&mut Command::new(&path), || ());
        assert_eq!(program.unwound()[1..], callers(&program), "{flags:?}");
        let functions = program.functions("main");
        assert!(functions.contains(&"servo::Loop<double>::step".to_string()), "{functions:?}");
        let times = program.truth.data[0].1;
        assert_eq!(program.process.data(times).as_deref(), Some("program!times"));
    }
}

#[test]
fn functions_of_rust_are_named_as_in_its_source() {
    // Cargo builds an example beside the tests.
    let here = std::env::current_exe().unwrap();
    let path = here.parent().and_then(Path::parent).unwrap().join("examples/stack");
    let mut program = run(&mut Command::new(&path), || ());
    let functions = program.functions("stack::main");
    let at = |name: &str| functions.iter().position(|function| function == name);
    let order =
        ["stack::capture", "<stack::servo::Loop as stack::servo::Step>::step", "stack::each", "stack::main"]
            .map(at);
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{functions:?}");
    let frame = program.process.frame(program.truth.registers.ip).unwrap();
    assert!(frame.file.is_some_and(|file| file.ends_with("stack.rs")) && frame.line.is_some());
}

#[test]
fn refuses_a_process_that_does_not_run() {
    let error = symbols::ProcessCode::open(u32::MAX / 2).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 1);
    assert!(error.contains("there is no such process"), "{error}");
}

#[test]
fn finds_a_function_by_name_in_the_mapped_file() {
    let Some(path) = c(&["-O2"]) else { return };
    let mut program = start(&path, "plain");
    let process = &mut program.process;
    let [place] = &process.functions_named(None, "middle")[..] else { panic!("it has one") };
    assert_eq!(fs::read(place.file.path()).unwrap(), fs::read(&path).unwrap());
    assert_eq!((place.binary.as_str(), place.name.as_str(), place.semaphore), ("program", "middle", None));
    let [library] = &process.functions_named(Some("libc"), "qsort")[..] else { panic!("it has one") };
    assert!(library.file != place.file && library.binary.starts_with("libc.so"));
    assert_eq!(process.functions_named(Some("program"), "qsort"), []);
    assert_eq!(process.functions_named(None, "no_such_function"), []);
    assert!(process.function_names(Some("program")).contains("middle"));
    assert_eq!(process.binaries(Some("program")), ["program"]);
    assert_eq!(process.stripped(Some("program")), [""; 0]);
}

#[test]
fn recognizes_an_inlined_function() {
    let folder = tempdir().unwrap();
    let (source, path) = (folder.path().join("inlined.c"), folder.path().join("inlined"));
    let text = "#include <unistd.h>\nstatic inline __attribute__((always_inline)) int inner(int n) { return n * 3; }\n\
                int main(int n, char **w) { (void)w; pause(); return inner(n); }\n";
    fs::write(&source, text).unwrap();
    let built = Command::new("cc").args(["-O2", "-g", "-o"]).args([&path, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        return println!("skipped: it needs cc");
    }
    let mut child = Command::new(&path).spawn().unwrap();
    let inlined = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let mut process = symbols::ProcessCode::open(child.id()).ok()?;
        process.inlined_in(None, "inner").map(|file| (file, process))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let (file, mut process) = inlined.expect("it was inlined");
    assert_eq!((file.as_str(), process.functions_named(None, "inner")), ("inlined", vec![]));
    assert_eq!(process.inlined_in(None, "main"), None);
}

#[test]
fn recognizes_a_stripped_program() {
    let Some(path) = c(&["-O2", "-s"]) else { return };
    let mut program = start(&path, "plain");
    assert_eq!(program.process.stripped(Some("program")), ["program"]);
    assert_eq!(program.process.functions_named(Some("program"), "middle"), []);
}

#[test]
fn an_old_symbol_version_has_no_name() {
    let folder = tempdir().unwrap();
    let [source, map, library] = ["old.c", "map", "libold.so"].map(|name| folder.path().join(name));
    // As the C library keeps `step`, which new programs cannot be linked with.
    let text = "int first(void) { return 1; }\n__asm__(\".symver first,step@V1\");\n\
                int second(void) { return 2; }\n__asm__(\".symver second,halt@@V1\");\n";
    fs::write(&source, text).unwrap();
    fs::write(&map, "V1 { global: step; halt; local: *; };\n").unwrap();
    let script = format!("-Wl,--version-script={}", map.display());
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-s", &script, "-o"]).args([&library, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        return println!("skipped: it needs cc");
    }
    let mut child = Command::new("sleep").arg("60").env("LD_PRELOAD", &library).spawn().unwrap();
    let process = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let mut process = symbols::ProcessCode::open(child.id()).ok()?;
        (!process.functions_named(Some("libold"), "halt").is_empty()).then_some(process)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let mut process = process.expect("the current version is found");
    assert_eq!(process.functions_named(Some("libold"), "step"), []);
    assert!(!process.function_names(Some("libold")).contains("step"));
}

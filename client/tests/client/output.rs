//! What is printed, where, and in which form.

use std::process::Stdio;

use crate::bench::{Bench, finish};
use crate::fake::Fake;
use crate::terminal::Terminal;

#[test]
fn help_teaches_every_command() {
    let bench = Bench::stranger(Fake::start());
    let help = bench.run(&["--help"]).code(0).stdout;
    for command in [
        "login",
        "logout",
        "whoami",
        "submit",
        "status",
        "wait",
        "fetch",
        "process",
        "jobs",
        "completion",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        let own = bench.run(&[command, "--help"]).code(0).stdout;
        assert!(own.contains("Usage: glovebox "), "{command}");
    }
    assert!(help.contains("Examples:") && help.contains("Exit codes:"));
    assert!(help.contains("GLOVEBOX_URL") && help.contains("GLOVEBOX_CA_FILE"));
    let version = bench.run(&["--version"]).code(0);
    assert_eq!(version.line(), concat!("glovebox ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_and_manual_are_generated() {
    let bench = Bench::stranger(Fake::start());
    for shell in ["bash", "zsh", "fish"] {
        let script = bench.run(&["completion", shell]).code(0).stdout;
        assert!(script.contains("glovebox") && script.contains("output-dir"), "{shell}");
    }
    let page = bench.run(&["man"]).code(0).stdout;
    assert!(page.contains(".TH glovebox 1") && page.contains("process"));
    assert!(bench.run(&["man", "process"]).code(0).stdout.contains("output"));
    bench.run(&["man", "none"]).code(2);
}

#[test]
fn a_wrong_command_line_is_code_2_in_both_forms() {
    let bench = Bench::stranger(Fake::start());
    for args in [&["frobnicate"][..], &["status"], &["submit", "a", "--no-resume", "--resume"], &[]]
    {
        let ran = bench.run(args).code(2);
        assert!(ran.stderr.starts_with("glovebox: error: "), "{}", ran.stderr);
        assert!(ran.stderr.contains("glovebox: hint: "), "{}", ran.stderr);
        let json: Vec<&str> = [args, &["--json"]].concat();
        let error = bench.run(&json).code(2).json_error();
        assert_eq!((error["code"].as_str(), error["exit"].as_i64()), (Some("usage"), Some(2)));
    }
    let ran = bench.run(&["status\u{1b}[2J\u{202e}"]).code(2);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{202e}']), "{}", ran.stderr);
}

#[test]
fn json_is_one_object_a_line_and_nothing_else() {
    let bench = Bench::new();
    bench.write("game.lua", "return 42");
    let ran = bench.run(&["process", "game.lua", "--json"]).code(0);
    assert_eq!(ran.stderr, "");
    let object = ran.json();
    assert_eq!(object["status"], "completed");
    assert_eq!(object["output"], "game.out.lua");
    assert_eq!(object["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn quiet_leaves_results_and_errors() {
    let bench = Bench::new();
    bench.write("game.lua", "return 42");
    let ran = bench.run(&["process", "game.lua", "--quiet"]).code(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("game.out.lua\n", ""));
    bench
        .run(&["process", "game.lua", "--quiet"])
        .code(2)
        .says("error: game.out.lua exists already");
}

#[test]
fn plain_lines_without_a_terminal_and_bars_on_one() {
    let bench = Bench::new();
    bench.fake.jobs(|jobs| jobs.statuses = vec!["processing", "processing", "completed"]);
    bench.write("a.lua", "return 1");
    let ran = bench.run(&["process", "a.lua"]).code(0);
    let ran =
        ran.says("sending a.lua (8 B)").says("a.lua is processing").says("fetching a.out.lua");
    assert!(!ran.stderr.contains('\u{1b}'), "{}", ran.stderr);

    bench.write("b.lua", "return 1");
    let mut terminal = Terminal::new();
    let child = terminal.start(&mut bench.command(&["process", "b.lua"]));
    terminal.finish(child).code(0);
    assert!(terminal.text.contains("b.lua processing"), "{:?}", terminal.text);
    assert!(!terminal.text.contains("glovebox: sending"));
    assert!(terminal.text.contains("\u{1b}[2K"), "the bar is taken away: {:?}", terminal.text);

    bench.write("c.lua", "return 1");
    let mut terminal = Terminal::new();
    let child = terminal.start(&mut bench.command(&["process", "c.lua", "--quiet"]));
    terminal.finish(child).code(0);
    assert_eq!(terminal.text.trim(), "<end>");
}

#[test]
fn colours_obey_flag_and_environment() {
    let bench = Bench::stranger(Fake::start());
    let red = "\u{1b}[31m";
    assert!(!bench.run(&["whoami"]).code(3).stderr.contains(red));
    assert!(bench.run(&["whoami", "--color", "always"]).code(3).stderr.contains(red));
    let mut terminal = Terminal::new();
    let child = terminal.start(&mut bench.command(&["whoami"]));
    terminal.finish(child).code(3);
    assert!(terminal.text.contains(red));
    for (name, value, flag) in [("NO_COLOR", "1", "auto"), ("X", "1", "never")] {
        let mut terminal = Terminal::new();
        let mut command = bench.command(&["whoami", "--color", flag]);
        let child = terminal.start(command.env(name, value));
        terminal.finish(child).code(3);
        assert!(!terminal.text.contains(red), "{:?}", terminal.text);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let bench = Bench::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench.command(&["completion", "bash"]);
    finish(command.stdout(Stdio::from(writer)).spawn().unwrap()).code(0);
}

#[test]
fn jobs_are_listed_newest_first_without_a_server() {
    let mut bench = Bench::new();
    let first = bench.submit("a.lua", b"return 1");
    let second = bench.submit("b.lua", b"return 2");
    bench.fake.stop();
    let ids = bench.run(&["jobs", "--ids"]).code(0).stdout;
    let mut ids: Vec<&str> = ids.lines().collect();
    let newest = bench.run(&["jobs", "--ids", "-n", "1"]).code(0);
    assert_eq!(newest.line(), ids[0]);
    ids.sort_unstable();
    let mut expected = [first.as_str(), second.as_str()];
    expected.sort_unstable();
    assert_eq!(ids, expected);
    let table = bench.run(&["jobs"]).code(0).stdout;
    assert!(table.starts_with("ID ") && table.contains("a.lua") && table.contains("pending"));
}

#[test]
fn verbose_tells_the_steps_and_no_secret() {
    let bench = Bench::new();
    // Ran::code asserts that the token is nowhere.
    bench.run(&["whoami", "-v"]).code(0).says("/api/v1/auth/me answered 200");
}

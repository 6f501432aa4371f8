//! Submit, wait and fetch in one go.

use crate::bench::{Bench, finish, interrupt};
use crate::fake::Act;
use crate::fake_jobs::MARK;

#[test]
fn one_file_in_one_command() {
    let bench = Bench::new();
    bench.write("game.lua", "return 42");
    let ran = bench.run(&["process", "game.lua", "-o", "game.obf.lua"]).code(0);
    assert_eq!(ran.line(), "game.obf.lua");
    assert_eq!(bench.read("game.obf.lua"), [MARK, b"return 42"].concat());
    assert_eq!(bench.run(&["jobs", "--json"]).code(0).json()["status"], "completed");
}

#[test]
fn several_files_run_together_up_to_the_bound() {
    let bench = Bench::new();
    let names: Vec<String> = (0..12).map(|at| format!("{at}.lua")).collect();
    for name in &names {
        bench.write(name, format!("return {name}"));
    }
    bench.fake.jobs(|jobs| {
        jobs.together = 3;
        jobs.hold = std::time::Duration::from_millis(200);
    });
    let mut args = vec!["process", "--jobs", "3", "--output-dir", "out", "--json"];
    args.extend(names.iter().map(String::as_str));
    let ran = bench.run(&args).code(0);
    assert_eq!(ran.stdout.lines().count(), 12);
    for name in &names {
        let result = format!("out/{}", name.replace(".lua", ".out.lua"));
        assert_eq!(bench.read(&result), [MARK, format!("return {name}").as_bytes()].concat());
    }
    assert_eq!(bench.fake.jobs(|jobs| (jobs.count(), jobs.most_in_flight)), (12, 3));
}

#[test]
fn one_bad_file_does_not_stop_the_others() {
    let bench = Bench::new();
    bench.write("a.lua", "return 1");
    bench.write("c.lua", "return 3");
    let ran = bench.run(&["process", "a.lua", "none.lua", "c.lua"]).code(2);
    ran.says("none.lua: no such file").says("1 of 3 files failed");
    assert_eq!(bench.names(), ["a.lua", "a.out.lua", "c.lua", "c.out.lua"]);
}

#[test]
fn the_exit_code_is_that_of_the_first_file_that_failed() {
    let bench = Bench::new();
    bench.write("a.lua", "return 1");
    bench.write("b.lua", "return 2");
    bench.fake.jobs(|jobs| {
        jobs.statuses = vec!["failed"];
        jobs.error_code = Some("timeout".to_owned());
    });
    bench.run(&["process", "a.lua", "none.lua", "b.lua"]).code(5).says("3 of 3 files failed");
    bench.run(&["process", "none.lua", "b.lua"]).code(2);
}

#[test]
fn results_that_would_collide_are_refused_before_anything_is_sent() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("x")).unwrap();
    bench.write("a.lua", "1");
    bench.write("x/a.lua", "2");
    bench.run(&["process", "a.lua", "x/a.lua"]).code(2).says("would both be a.out.lua");
    bench.write("a.out.lua", "mine");
    bench.run(&["process", "a.lua"]).code(2).says("a.out.lua exists already");
    bench.run(&["process", "a.lua", "x/a.lua", "-o", "r"]).code(2);
    assert!(bench.fake.seen("POST", "/").is_empty());
    assert_eq!(bench.read("a.out.lua"), b"mine");
}

#[test]
fn a_pipe_on_both_ends() {
    let bench = Bench::new();
    let ran = bench.run_with(&["process", "-", "-o", "-", "--name", "x.lua"], b"return 42");
    assert_eq!(ran.code(0).stdout.as_bytes(), [MARK, b"return 42"].concat());
    assert!(bench.names().is_empty());
}

#[test]
fn a_stopped_run_goes_on_without_a_second_job() {
    let bench = Bench::new();
    bench.write("game.lua", "return 42");
    bench.fake.jobs(|jobs| jobs.statuses = vec!["processing"]);
    let child = bench.start(&["process", "game.lua"]);
    bench.fake.await_seen("GET", "/api/v1/jobs/", 1);
    interrupt(&child);
    finish(child).code(130).says("--resume");
    bench.fake.jobs(|jobs| jobs.statuses = vec!["completed"]);
    bench.run(&["process", "game.lua", "--resume"]).code(0).says("was submitted already");
    assert_eq!(bench.fake.jobs(|jobs| jobs.count()), 1);
    assert_eq!(bench.names(), ["game.lua", "game.out.lua"]);
}

#[test]
fn two_equal_files_at_once_are_two_jobs() {
    let bench = Bench::new();
    bench.write("a.lua", "return 1");
    bench.fake.jobs(|jobs| jobs.together = 2);
    std::fs::create_dir(bench.path("x")).unwrap();
    bench.write("x/b.lua", "return 1");
    bench.run(&["process", "a.lua", "x/b.lua"]).code(0);
    assert_eq!(bench.fake.jobs(|jobs| jobs.count()), 2);
}

#[test]
fn limits_met_by_many_files_are_waited_out() {
    let bench = Bench::new();
    for name in ["a.lua", "b.lua", "c.lua"] {
        bench.write(name, name);
    }
    bench.fake.refuse(("POST", "/api/v1/jobs"), 2, 429, "limit_exceeded", &[("retry-after", "1")]);
    bench.fake.rule("GET", "/result", 1, Act::Drop(0));
    bench.run(&["process", "a.lua", "b.lua", "c.lua"]).code(0);
    assert_eq!(bench.fake.jobs(|jobs| jobs.count()), 3);
}

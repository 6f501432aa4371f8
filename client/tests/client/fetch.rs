//! Fetching a result that an honest server serves, over a network that breaks.

use std::collections::VecDeque;
use std::fs;

use crate::bench::{Bench, finish, interrupt};
use crate::fake::Fake;
use crate::fake_jobs::MARK;

const RESULT: (&str, &str) = ("GET", "/result");

fn content(size: usize) -> Vec<u8> {
    (0..=250).cycle().step_by(7).take(size).collect()
}

#[test]
fn a_result_is_checked_and_named_after_its_file() {
    for fake in [Fake::start(), Fake::http1()] {
        let bench = Bench::at(fake);
        let id = bench.submit("game.lua", b"return 42");
        let ran = bench.run(&["fetch", &id]).code(0);
        assert_eq!(ran.line(), "game.out.lua");
        assert_eq!(bench.read("game.out.lua"), [MARK, b"return 42"].concat());
        assert_eq!(bench.names(), ["game.lua", "game.out.lua"]);
    }
}

#[test]
fn a_job_from_elsewhere_is_named_after_its_id() {
    let bench = Bench::new();
    let id = bench.fake.jobs(|jobs| jobs.plant(b"x"));
    let ran = bench.run(&["fetch", &id, "--json"]).code(0);
    assert_eq!(ran.json()["output"], format!("{id}.out"));
}

#[test]
fn an_empty_result_is_a_result() {
    let bench = Bench::new();
    let id = bench.fake.jobs(|jobs| jobs.plant(b""));
    bench.run(&["fetch", &id, "-o", "r"]).code(0);
    assert_eq!(bench.read("r"), b"");
}

#[test]
fn a_cut_download_goes_on_where_it_broke() {
    // Over HTTP/2 a reset overtakes what the server has not yet sent, so that
    // only HTTP/1.1 tells at which byte the next try must begin.
    for (fake, exact) in [(Fake::start(), false), (Fake::http1(), true)] {
        let bench = Bench::at(fake);
        let bytes = content(500_000);
        let id = bench.fake.jobs(|jobs| {
            jobs.lie.cuts = VecDeque::from([200_000, 100_000]);
            jobs.plant(&bytes)
        });
        bench.run(&["fetch", &id, "-o", "r.lua"]).code(0);
        assert_eq!(bench.read("r.lua"), bytes);
        assert_eq!(bench.names(), ["r.lua"]);
        let seen = bench.fake.seen(RESULT.0, RESULT.1);
        assert_eq!(seen.len(), 3);
        if exact {
            assert_eq!(seen[0].header("range"), None);
            assert_eq!(seen[1].header("range"), Some("bytes=200000-"));
            assert_eq!(seen[2].header("range"), Some("bytes=300000-"));
            assert!(seen[1].header("if-range").unwrap().starts_with('"'));
        }
    }
}

#[test]
fn a_stopped_download_is_continued_by_the_next_run() {
    let bench = Bench::new();
    let bytes = content(500_000);
    let id = bench.fake.jobs(|jobs| {
        jobs.lie.stall = Some(300_000);
        jobs.plant(&bytes)
    });
    let child = bench.start(&["fetch", &id, "-o", "r.lua"]);
    bench.await_size("r.lua.part", 300_000);
    interrupt(&child);
    finish(child).code(130).says("hint: run the same command again: the download goes on");
    assert_eq!(bench.names(), ["r.lua.part", "r.lua.part.json"], "no unchecked result");
    bench.fake.jobs(|jobs| jobs.lie.stall = None);
    bench.run(&["fetch", &id, "-o", "r.lua"]).code(0).says("going on after");
    assert_eq!(bench.read("r.lua"), bytes);
    let seen = bench.fake.seen(RESULT.0, RESULT.1);
    assert_eq!(seen[1].header("range"), Some("bytes=300000-"));
    assert_eq!(bench.names(), ["r.lua"]);
}

#[test]
fn a_killed_download_is_continued_too() {
    let bench = Bench::new();
    let bytes = content(500_000);
    let id = bench.fake.jobs(|jobs| {
        jobs.lie.stall = Some(300_000);
        jobs.plant(&bytes)
    });
    let mut child = bench.start(&["fetch", &id, "-o", "r.lua"]);
    bench.await_size("r.lua.part", 300_000);
    child.kill().unwrap();
    child.wait().unwrap();
    bench.fake.jobs(|jobs| jobs.lie.stall = None);
    bench.run(&["fetch", &id, "-o", "r.lua"]).code(0);
    assert_eq!(bench.read("r.lua"), bytes);
    assert!(bench.fake.seen(RESULT.0, RESULT.1)[1].header("range").is_some());
}

#[test]
fn an_existing_file_is_kept_without_force() {
    let bench = Bench::new();
    let id = bench.fake.jobs(|jobs| jobs.plant(b"new"));
    bench.write("r.lua", "mine");
    bench.run(&["fetch", &id, "-o", "r.lua"]).code(2).says("hint: choose another name by --output");
    assert_eq!(bench.read("r.lua"), b"mine");
    assert!(bench.fake.seen("GET", "/").is_empty());
    bench.run(&["fetch", &id, "-o", "r.lua", "--force"]).code(0);
    assert_eq!(bench.read("r.lua"), b"new");
}

#[test]
fn standard_output_gets_checked_bytes_only() {
    let bench = Bench::new();
    let id = bench.fake.jobs(|jobs| jobs.plant(b"print(1)\n"));
    let ran = bench.run(&["fetch", &id, "-o", "-"]).code(0);
    assert_eq!(ran.stdout, "print(1)\n");
    bench.fake.jobs(|jobs| jobs.lie.bytes = Some(b"print(2)\n".to_vec()));
    let ran = bench.run(&["fetch", &id, "-o", "-"]).code(7);
    assert_eq!(ran.stdout, "");
    bench.run(&["fetch", &id, "-o", "-", "--json"]).code(2);
    assert!(bench.names().is_empty());
}

#[test]
fn an_unfinished_or_expired_result_is_told_apart() {
    let bench = Bench::new();
    let id = bench.submit("game.lua", b"return 42");
    bench.fake.jobs(|jobs| jobs.statuses = vec!["processing"]);
    bench.run(&["fetch", &id]).code(8).says("glovebox wait");
    bench.fake.jobs(|jobs| jobs.statuses = vec!["completed"]);
    bench.fake.refuse(RESULT, 1, 410, "result_expired", &[]);
    bench.run(&["fetch", &id]).code(2).says("submit the file again");
    assert_eq!(bench.names(), ["game.lua"], "no part is left of nothing");
}

#[test]
fn a_folder_that_is_missing_is_told() {
    let bench = Bench::new();
    let id = bench.fake.jobs(|jobs| jobs.plant(b"x"));
    bench.run(&["fetch", &id, "-o", "none/r"]).code(2).says("no such file or directory");
    fs::create_dir(bench.path("dir")).unwrap();
    bench.run(&["fetch", &id, "-o", "dir"]).code(2).says("is a folder");
}

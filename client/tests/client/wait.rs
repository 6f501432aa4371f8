//! Following a job to its end, and what its end says.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::bench::{Bench, finish, interrupt};

#[test]
fn a_job_is_followed_through_its_states() {
    let bench = Bench::new();
    bench.fake.jobs(|jobs| jobs.statuses = vec!["pending", "processing", "completed"]);
    let id = bench.submit("game.lua", b"return 42");
    let ran = bench.run(&["wait", &id]).code(0).says("is pending").says("is processing");
    assert_eq!(ran.line(), "completed");
    assert_eq!(bench.fake.seen("GET", "/api/v1/jobs/").len(), 3);
    assert_eq!(bench.run(&["jobs", "--json"]).code(0).json()["status"], "completed");
}

#[test]
fn submit_can_wait() {
    let bench = Bench::new();
    bench.write("game.lua", "return 42");
    let ran = bench.run(&["submit", "--wait", "game.lua", "--json"]).code(0);
    assert_eq!(ran.json()["status"], "completed");
}

#[test]
fn looking_slows_down_from_250_ms_to_2_s() {
    let bench = Bench::new();
    bench.fake.jobs(|jobs| jobs.statuses = vec!["pending"; 6]);
    bench.fake.jobs(|jobs| jobs.statuses.push("completed"));
    let id = bench.submit("game.lua", b"return 42");
    let begun = Instant::now();
    bench.run(&["wait", &id]).code(0);
    // 250 + 375 + 562 + 843 + 1265 + 1898 ms
    assert!(begun.elapsed() > Duration::from_secs(5) && begun.elapsed() < Duration::from_secs(9));
}

#[test]
fn invalid_input_says_where_and_what_to_do() {
    let bench = Bench::new();
    bench.fake.jobs(|jobs| {
        jobs.statuses = vec!["failed"];
        jobs.error_code = Some("invalid_input".to_owned());
        jobs.error_detail = Some("line 3, column 7: unexpected symbol".to_owned());
    });
    let id = bench.submit("bad.lua", b"x x x");
    for command in ["wait", "fetch"] {
        bench
            .run(&[command, &id])
            .code(4)
            .says(&format!(
                "glovebox: error: job {id} failed: the file is not valid input: line 3, column 7: unexpected symbol\n"
            ))
            .says("glovebox: hint: mend the file and submit it again\n");
    }
    let status = bench.run(&["status", &id]).code(0);
    assert!(status.stdout.contains("line 3, column 7"));
    let error = bench.run(&["wait", &id, "--json"]).code(4).json_error();
    assert_eq!((error["code"].as_str(), error["exit"].as_i64()), (Some("invalid_input"), Some(4)));
}

#[test]
fn the_ends_of_jobs_have_their_codes() {
    let bench = Bench::new();
    let id = bench.submit("game.lua", b"return 42");
    for (code, exit) in [
        ("output_too_large", 4),
        ("rejected_malicious_content", 4),
        ("rejected_brand_new", 4),
        ("timeout", 5),
        ("core_crashed", 5),
        ("attempts_exhausted", 5),
        ("brand_new", 5),
    ] {
        bench.fake.jobs(|jobs| {
            jobs.statuses = vec!["failed"];
            jobs.error_code = Some(code.to_owned());
        });
        bench.run(&["wait", &id]).code(exit).says("hint: ");
    }
}

#[test]
fn a_limit_on_waiting_leaves_the_job_alone() {
    let bench = Bench::new();
    bench.fake.jobs(|jobs| jobs.statuses = vec!["processing"]);
    let id = bench.submit("game.lua", b"return 42");
    bench
        .run(&["wait", &id, "--wait-timeout", "1s"])
        .code(8)
        .says(&format!("hint: run 'glovebox wait {id}'"));
}

#[test]
fn ctrl_c_while_waiting_says_how_to_go_on() {
    let bench = Bench::new();
    bench.fake.jobs(|jobs| jobs.statuses = vec!["processing"]);
    let id = bench.submit("game.lua", b"return 42");
    let child = bench.start(&["wait", &id]);
    bench.fake.await_seen("GET", "/api/v1/jobs/", 2);
    interrupt(&child);
    finish(child).code(130).says(&format!("'glovebox wait {id}'"));
}

#[test]
fn a_server_away_for_a_moment_is_waited_for() {
    let bench = Bench::new();
    let id = bench.submit("game.lua", b"return 42");
    bench.fake.refuse(("GET", "/api/v1/jobs/"), 2, 503, "unavailable", &[("retry-after", "0")]);
    bench.run(&["wait", &id]).code(0);
}

#[test]
fn a_foreign_or_missing_job_is_code_2() {
    let bench = Bench::new();
    let id = Uuid::new_v4().to_string();
    for command in ["status", "wait", "fetch"] {
        bench.run(&[command, &id]).code(2).says("'glovebox jobs' lists");
    }
}

#[test]
fn an_id_that_is_none_never_becomes_a_path() {
    let bench = Bench::new();
    for id in ["../auth/me", "x", "%2e%2e", ""] {
        bench.run(&["status", id]).code(2);
    }
    assert!(bench.fake.seen("GET", "/").is_empty());
    let upper = bench.fake.jobs(|jobs| jobs.plant(b"x")).to_uppercase();
    bench.run(&["status", &upper]).code(0); // sent in canonical lower case
}

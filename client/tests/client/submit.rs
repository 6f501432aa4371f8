//! Submitting: what is sent, when it is sent again, and that one file never
//! makes two jobs.

use std::fs;

use crate::bench::{Bench, finish, interrupt};
use crate::fake::{Act, Fake, Seen};

const POST: (&str, &str) = ("POST", "/api/v1/jobs");

fn keys(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect()
}

#[test]
fn a_file_is_sent_once_with_digest_and_key() {
    for fake in [Fake::start(), Fake::http1()] {
        let bench = Bench::at(fake);
        bench.write("game.lua", "return 42");
        let ran = bench.run(&["submit", "game.lua"]).code(0);
        let id = uuid::Uuid::try_parse(ran.line()).unwrap();
        let seen = bench.fake.seen(POST.0, POST.1);
        assert_eq!(seen.len(), 1);
        // The fake checks length, framing and that the digest is the bytes'.
        assert!(seen[0].header("glovebox-file-digest").unwrap().starts_with("sha-256=:"));
        uuid::Uuid::try_parse(keys(&seen)[0]).unwrap();
        assert_eq!(seen[0].header("accept-encoding"), Some("identity"));
        let listed = bench.run(&["jobs", "--json"]).code(0).json();
        assert_eq!(listed["id"], id.to_string());
        assert_eq!(listed["file"], "game.lua");
        assert_eq!(listed["status"], "pending");
    }
}

#[test]
fn http2_is_spoken_where_the_server_offers_it() {
    for (fake, version) in
        [(Fake::start(), hyper::Version::HTTP_2), (Fake::http1(), hyper::Version::HTTP_11)]
    {
        let bench = Bench::at(fake);
        bench.submit("a.lua", b"return 1");
        assert_eq!(bench.fake.seen(POST.0, POST.1)[0].version, version);
    }
}

#[test]
fn an_empty_file_and_a_large_one_are_sent_whole() {
    let bench = Bench::new();
    bench.submit("empty.lua", b"");
    bench.submit("large.lua", &vec![b'x'; 3 << 20]);
    assert_eq!(bench.fake.jobs(|jobs| jobs.count()), 2);
}

#[test]
fn a_lost_answer_is_asked_for_again_under_the_same_key() {
    for fake in [Fake::start(), Fake::http1()] {
        let bench = Bench::at(fake);
        bench.fake.rule(POST.0, POST.1, 2, Act::LoseAnswer);
        bench.submit("game.lua", b"return 42");
        let seen = bench.fake.seen(POST.0, POST.1);
        assert_eq!(seen.len(), 3);
        let keys = keys(&seen);
        assert!(keys[0] == keys[1] && keys[1] == keys[2]);
        assert_eq!(bench.fake.jobs(|jobs| jobs.count()), 1);
    }
}

#[test]
fn a_connection_cut_in_mid_body_is_made_good() {
    for fake in [Fake::start(), Fake::http1()] {
        let bench = Bench::at(fake);
        bench.fake.rule(POST.0, POST.1, 1, Act::Drop(200_000));
        bench.submit("large.lua", &vec![b'x'; 1 << 20]);
        let seen = bench.fake.seen(POST.0, POST.1);
        assert_eq!(seen.len(), 2);
        assert_eq!(keys(&seen)[0], keys(&seen)[1]);
    }
}

#[test]
fn busy_answers_are_waited_out_as_long_as_they_ask() {
    for (status, code) in
        [(503, "overloaded"), (429, "limit_exceeded"), (409, "idempotency_in_flight")]
    {
        let bench = Bench::new();
        bench.fake.refuse(POST, 1, status, code, &[("retry-after", "1")]);
        bench.write("game.lua", "return 42");
        let begun = std::time::Instant::now();
        bench.run(&["submit", "game.lua"]).code(0);
        assert!(begun.elapsed() >= std::time::Duration::from_secs(1), "{code}");
        let seen = bench.fake.seen(POST.0, POST.1);
        assert_eq!((seen.len(), keys(&seen)[0]), (2, keys(&seen)[1]), "{code}");
    }
}

#[test]
fn a_longer_pause_than_the_patience_ends_at_once_with_code_8() {
    let bench = Bench::new();
    bench.fake.refuse(POST, 9, 429, "limit_exceeded", &[("retry-after", "3600")]);
    bench.write("game.lua", "return 42");
    let begun = std::time::Instant::now();
    bench.run(&["submit", "game.lua"]).code(8).says("hint: run the same command again in 3600 s");
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
    assert_eq!(bench.fake.seen(POST.0, POST.1).len(), 1);
}

#[test]
fn other_refusals_are_final() {
    let cases = [
        (400, "invalid_request", 4),
        (401, "unauthenticated", 3),
        (404, "not_found", 2),
        (405, "method_not_allowed", 1),
        (409, "conflict", 1),
        (413, "too_large", 4),
        (415, "unsupported_media_type", 4),
        (422, "idempotency_mismatch", 4),
        (500, "internal", 1),
        (507, "insufficient_storage", 8),
        (418, "brand_new", 1),
    ];
    for (status, code, exit) in cases {
        let bench = Bench::new();
        bench.fake.refuse(POST, 9, status, code, &[("retry-after", "0")]);
        bench.write("game.lua", "return 42");
        let error = bench.run(&["submit", "game.lua", "--json"]).code(exit).json_error();
        assert_eq!(
            (error["code"].as_str(), error["exit"].as_i64()),
            (Some(code), Some(exit.into()))
        );
        assert_eq!(bench.fake.seen(POST.0, POST.1).len(), 1, "{code}");
    }
}

/// A server that refuses a large file answers before it has read it, and
/// closes; the refusal must arrive all the same.
#[test]
fn an_early_refusal_of_a_large_file_is_understood() {
    for fake in [Fake::start(), Fake::http1()] {
        let bench = Bench::at(fake);
        bench.fake.refuse(POST, 9, 413, "too_large", &[]);
        bench.write("large.lua", vec![b'x'; 32 << 20]);
        bench.run(&["submit", "large.lua"]).code(4).says("hint: send a smaller file");
        // Heard at the first try, or at the second, which listens first.
        assert!(bench.fake.seen(POST.0, POST.1).len() <= 2);
        assert!(bench.run(&["jobs"]).code(0).stdout.is_empty(), "a refused file leaves no entry");
    }
}

#[test]
fn a_killed_run_is_gone_on_with_under_its_key() {
    let bench = Bench::new();
    bench.fake.rule(POST.0, POST.1, 1, Act::LoseAnswer);
    bench.fake.rule(POST.0, POST.1, 1, Act::Hang);
    bench.write("game.lua", "return 42");
    let mut child = bench.start(&["submit", "game.lua"]);
    bench.fake.await_seen(POST.0, POST.1, 2); // the job exists, the client does not know it
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(bench.run(&["jobs", "--json"]).code(0).json()["status"], "unanswered");
    bench.run(&["submit", "game.lua"]).code(0).says("going on with an earlier try");
    let seen = bench.fake.seen(POST.0, POST.1);
    assert_eq!((seen.len(), keys(&seen)[0]), (3, keys(&seen)[2]));
    assert_eq!(bench.fake.jobs(|jobs| jobs.count()), 1);
    bench.run(&["submit", "game.lua"]).code(0);
    assert_eq!(bench.fake.jobs(|jobs| jobs.count()), 2, "an answered try is over");
}

#[test]
fn no_resume_makes_a_new_job_and_resume_never_does() {
    let bench = Bench::new();
    bench.fake.rule(POST.0, POST.1, 1, Act::Answer(500, vec![], bytes::Bytes::new()));
    bench.write("game.lua", "return 42");
    bench.run(&["submit", "game.lua"]).code(1);
    bench.run(&["submit", "game.lua", "--no-resume"]).code(0);
    let id = bench.run(&["submit", "game.lua", "--resume"]).code(0).line().to_owned();
    let seen = bench.fake.seen(POST.0, POST.1);
    assert_ne!(keys(&seen)[0], keys(&seen)[1]);
    let count = seen.len();
    let again = bench.run(&["submit", "game.lua", "--resume"]).code(0);
    assert!(again.line() == id && bench.fake.seen(POST.0, POST.1).len() == count);
}

#[test]
fn ctrl_c_is_code_130_and_loses_nothing() {
    let bench = Bench::new();
    bench.fake.rule(POST.0, POST.1, 1, Act::Hang);
    bench.write("game.lua", "return 42");
    let child = bench.start(&["submit", "game.lua"]);
    bench.fake.await_seen(POST.0, POST.1, 1);
    interrupt(&child);
    finish(child).code(130).says("error: interrupted").says("hint: run the same command again");
    bench.run(&["submit", "game.lua"]).code(0);
    let seen = bench.fake.seen(POST.0, POST.1);
    assert_eq!(keys(&seen)[0], keys(&seen)[1]);
}

#[test]
fn standard_input_is_sent_and_sent_again() {
    let bench = Bench::new();
    bench.fake.rule(POST.0, POST.1, 1, Act::Drop(1));
    let ran = bench.run_with(&["submit", "-", "--name", "piped.lua"], &vec![b'x'; 300_000]);
    ran.code(0);
    assert_eq!(bench.fake.seen(POST.0, POST.1).len(), 2);
    assert_eq!(bench.run(&["jobs", "--json"]).code(0).json()["size"], 300_000);
}

#[test]
fn hostile_file_names_reach_neither_header_nor_terminal() {
    let bench = Bench::new();
    let name = "a\"; name=\"x\u{1b}[2J\nEvil: 1\u{202e}.lua";
    bench.write(name, "return 42");
    let ran = bench.run(&["submit", name]).code(0); // the fake checks the part's head
    assert!(!ran.stderr.contains('\u{1b}') && ran.stderr.contains("\\u{1b}[2J\\nEvil"));
    let jobs = bench.run(&["jobs"]).code(0);
    assert!(!jobs.stdout.contains('\u{1b}') && !jobs.stdout.contains('\u{202e}'));
    let listed = bench.run(&["jobs", "--json"]).code(0);
    assert!(!listed.stdout.contains('\u{202e}'));
    assert!(listed.json()["file"].as_str().unwrap().contains("\\u{202e}"));
}

#[test]
fn what_is_no_file_is_refused_before_anything_is_sent() {
    let bench = Bench::new();
    fs::create_dir(bench.path("dir")).unwrap();
    for name in ["none.lua", "dir", "/dev/zero"] {
        bench.run(&["submit", name]).code(2);
    }
    assert!(bench.fake.seen("POST", "/").is_empty());
}

#[test]
fn a_journal_that_cannot_be_written_stops_the_first_try() {
    let bench = Bench::new();
    let state = bench.journal();
    fs::create_dir_all(state.parent().unwrap()).unwrap();
    fs::write(&state, "a file in the journal's place").unwrap();
    bench.write("game.lua", "return 42");
    let ran = bench.run(&["submit", "game.lua"]);
    assert!(matches!(ran.code, 1 | 2), "{ran:?}");
    assert!(bench.fake.seen("POST", "/").is_empty());
}

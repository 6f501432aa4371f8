//! A server that lies: nothing it says is kept unless the bytes prove it, and
//! nothing it says reaches the terminal as it is.

use std::collections::VecDeque;

use uuid::Uuid;

use crate::bench::Bench;
use crate::fake::{Act, Fake, TOKEN, error_body};
use crate::fake_jobs::{Lie, field, hex};

const GOOD: &[u8] = b"return 42 -- a result of some length";

/// Runs a fetch against `lie`, both protocols, and returns whether anything
/// was left behind.
#[track_caller]
fn fetch_against(lie: &Lie, exit: i32) {
    for fake in [Fake::start(), Fake::http1()] {
        let bench = Bench::at(fake);
        let id = bench.fake.jobs(|jobs| {
            jobs.lie = lie.clone();
            jobs.plant(GOOD)
        });
        bench.run(&["fetch", &id, "-o", "r.lua", "--timeout", "3s"]).code(exit);
        assert!(bench.names().is_empty(), "left behind: {:?}", bench.names());
    }
}

#[test]
fn wrong_bytes_are_not_kept() {
    let mut wrong = GOOD.to_vec();
    wrong[7] ^= 1;
    fetch_against(&Lie { bytes: Some(wrong), ..Lie::default() }, 7);
}

#[test]
fn a_wrong_digest_in_the_status_is_noticed() {
    fetch_against(&Lie { status_sha256: Some("00".repeat(32)), ..Lie::default() }, 7);
    let alone =
        Lie { status_sha256: Some("00".repeat(32)), no_repr_digest: true, ..Lie::default() };
    fetch_against(&alone, 7);
}

#[test]
fn a_wrong_repr_digest_is_noticed() {
    fetch_against(&Lie { repr_digest: Some(field(&[0; 32])), ..Lie::default() }, 7);
    fetch_against(&Lie { repr_digest: Some("sha-256=rubbish".to_owned()), ..Lie::default() }, 7);
}

#[test]
fn a_missing_digest_is_not_trusted() {
    fetch_against(&Lie { status_sha256: Some(String::new()), ..Lie::default() }, 7);
    fetch_against(&Lie { status_sha256: Some("../../x".to_owned()), ..Lie::default() }, 7);
}

#[test]
fn truncated_and_padded_results_are_noticed() {
    let short = GOOD[..10].to_vec();
    fetch_against(&Lie { bytes: Some(short.clone()), ..Lie::default() }, 7);
    fetch_against(&Lie { bytes: Some(short), chunked: true, ..Lie::default() }, 7);
    fetch_against(&Lie { ends: VecDeque::from([9]), chunked: true, ..Lie::default() }, 7);
    let long = [GOOD, b" and more"].concat();
    fetch_against(&Lie { bytes: Some(long.clone()), ..Lie::default() }, 7);
    fetch_against(&Lie { bytes: Some(long), chunked: true, ..Lie::default() }, 7);
    fetch_against(&Lie { status_size: Some(3), ..Lie::default() }, 7);
    fetch_against(&Lie { status_size: Some(u64::MAX), ..Lie::default() }, 7);
}

#[test]
fn a_resume_that_meets_another_etag_begins_again() {
    let bench = Bench::at(Fake::http1());
    let bytes: Vec<u8> = (0..400_000_u32).map(|at| (at % 253) as u8).collect();
    let id = bench.fake.jobs(|jobs| {
        jobs.lie.cuts = VecDeque::from([200_000]);
        jobs.lie.etags =
            VecDeque::from(["\"one\"".to_owned(), "\"two\"".to_owned(), "\"two\"".to_owned()]);
        jobs.lie.blind_range = true; // serves the range of another representation
        jobs.plant(&bytes)
    });
    bench.run(&["fetch", &id, "-o", "r"]).code(0);
    assert_eq!(bench.read("r"), bytes);
    let seen = bench.fake.seen("GET", "/result");
    assert_eq!(seen[1].header("if-range"), Some("\"one\""));
    assert_eq!(seen[2].header("range"), None, "the part is given up");
}

#[test]
fn an_etag_that_never_settles_ends() {
    let bench = Bench::at(Fake::http1());
    let id = bench.fake.jobs(|jobs| {
        jobs.lie.cuts = VecDeque::from(vec![5; 100]);
        jobs.lie.etags = (0..100).map(|at| format!("\"{at}\"")).collect();
        jobs.lie.blind_range = true;
        jobs.plant(GOOD)
    });
    bench.run(&["fetch", &id, "-o", "r", "--timeout", "20s"]).code(7);
    assert!(bench.names().is_empty());
}

#[test]
fn a_server_without_ranges_is_served_from_the_start() {
    let bench = Bench::at(Fake::http1());
    let id = bench.fake.jobs(|jobs| {
        jobs.lie.cuts = VecDeque::from([5]);
        jobs.lie.no_ranges = true;
        jobs.plant(GOOD)
    });
    bench.run(&["fetch", &id, "-o", "r"]).code(0);
    assert_eq!(bench.read("r"), GOOD);
}

#[test]
fn a_server_that_always_breaks_ends_with_code_6_and_a_part() {
    let bench = Bench::at(Fake::http1());
    let id = bench.fake.jobs(|jobs| {
        jobs.lie.cuts = VecDeque::from(vec![1; 100]);
        jobs.plant(GOOD)
    });
    bench.run(&["fetch", &id, "-o", "r", "--timeout", "2s"]).code(6);
    assert_eq!(bench.names(), ["r.part", "r.part.json"], "what came is kept for the next run");
}

#[test]
fn the_servers_file_name_is_not_used() {
    for name in ["../../evil", "/etc/passwd", "a\\b", "%2e%2e%2fx"] {
        let bench = Bench::new();
        let id = bench.fake.jobs(|jobs| {
            jobs.lie.disposition = Some(format!("attachment; filename=\"{name}\""));
            jobs.plant(GOOD)
        });
        bench.run(&["fetch", &id]).code(0);
        assert_eq!(bench.names(), [format!("{id}.out")]);
    }
}

#[test]
fn hostile_words_are_escaped_on_the_terminal_and_in_json() {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\n\u{9b}31m\u{202e}\u{200b}\u{7f}evil";
    let bench = Bench::new();
    let id = bench.fake.jobs(|jobs| {
        jobs.statuses = vec!["failed"];
        jobs.error_code = Some(format!("invalid_input{hostile}"));
        jobs.error_detail = Some(hostile.repeat(200));
        jobs.plant(GOOD)
    });
    bench.fake.rule(
        "GET",
        "/auth/me",
        4,
        Act::Answer(500, vec![], error_body("internal", hostile)),
    );
    for args in [
        &["wait", &id][..],
        &["wait", &id, "--json"],
        &["status", &id],
        &["status", &id, "--json"],
        &["whoami"],
        &["whoami", "--json"],
        &["whoami", "-v"],
        &["whoami", "--color", "always"],
    ] {
        let ran = bench.run(args);
        let colours = ran
            .stderr
            .replace("\u{1b}[1m\u{1b}[31m", "")
            .replace("\u{1b}[36m", "")
            .replace("\u{1b}[0m", "");
        for stream in [&ran.stdout, &colours] {
            let bad = |c: &char| c.is_control() && *c != '\n' || "\u{202e}\u{200b}".contains(*c);
            assert_eq!(stream.chars().find(bad), None, "{args:?}: {stream}");
            assert!(stream.len() < 16_000, "bounded");
        }
        if args.contains(&"--json") && !ran.stdout.is_empty() {
            serde_json::from_str::<serde_json::Value>(ran.stdout.trim_end()).unwrap();
        }
    }
}

#[test]
fn garbage_in_place_of_json_is_code_1() {
    let id = Uuid::new_v4().to_string();
    for body in [
        "",
        "null",
        "[]",
        "<html>hello</html>",
        "{\"id\":",
        "{\"id\":\"../../x\",\"status\":\"pending\"}",
        "{\"id\":7,\"status\":\"pending\"}",
        "{\"id\":\"67e55044-10b1-426f-9247-bb680e5fe0c8\",\"status\":\"completed\"}", // another job
        "\u{0}\u{1b}[2J",
    ] {
        let bench = Bench::new();
        bench.fake.rule("GET", "/jobs/", 1, Act::Answer(200, vec![], body.to_owned().into()));
        bench.run(&["status", &id]).code(1).says("hint: check that --url names a glovebox server");
    }
}

#[test]
fn a_garbled_answer_to_a_submission_keeps_its_key() {
    let bench = Bench::new();
    bench.fake.rule("POST", "/jobs", 1, Act::Answer(201, vec![], "what".into()));
    bench.write("game.lua", "return 42");
    bench.run(&["submit", "game.lua"]).code(1);
    bench.run(&["submit", "game.lua"]).code(0);
    let seen = bench.fake.seen("POST", "/jobs");
    assert_eq!(seen[0].header("idempotency-key"), seen[1].header("idempotency-key"));
}

#[test]
fn endless_bodies_are_read_to_a_bound() {
    let bench = Bench::new();
    let id = Uuid::new_v4().to_string();
    bench.fake.rule("GET", "/jobs/", 1, Act::Endless(500));
    bench.run(&["status", &id]).code(1).says("answered 500 without saying why");
    bench.fake.rule("GET", "/jobs/", 1, Act::Endless(200));
    bench.run(&["status", &id]).code(1);
}

#[test]
fn redirects_are_not_followed_and_the_token_stays() {
    let elsewhere = Fake::start();
    for status in [301, 302, 303, 307, 308] {
        let bench = Bench::new();
        let target = vec![("location", format!("{}/api/v1/auth/me", elsewhere.url()))];
        bench.fake.rule("GET", "/", 9, Act::Answer(status, target.clone(), bytes::Bytes::new()));
        bench.fake.rule("POST", "/", 9, Act::Answer(status, target, bytes::Bytes::new()));
        bench.run(&["whoami"]).code(2).says("redirects are not followed");
        bench.write("game.lua", "return 42");
        bench.run(&["submit", "game.lua"]).code(2);
        assert_eq!(bench.fake.seen("GET", "/").len(), 1);
    }
    assert!(elsewhere.seen("GET", "/").is_empty() && elsewhere.seen("POST", "/").is_empty());
}

#[test]
fn a_token_is_not_sent_to_another_server() {
    let bench = Bench::new();
    let other = Fake::start();
    let mut command = bench.command(&["whoami"]);
    bench.write("other.pem", &other.ca_pem);
    command.env("GLOVEBOX_URL", other.url()).env("GLOVEBOX_CA_FILE", bench.path("other.pem"));
    let ran = crate::bench::finish(command.spawn().unwrap());
    ran.code(3);
    assert!(other.seen("GET", "/").is_empty(), "{TOKEN} stays");
}

#[test]
fn the_fake_lies_only_when_told_to() {
    // The control of this file: with no lie, the same fetch succeeds.
    for fake in [Fake::start(), Fake::http1()] {
        let bench = Bench::at(fake);
        let id = bench.fake.jobs(|jobs| jobs.plant(GOOD));
        let status = bench.run(&["status", &id, "--json"]).code(0).json();
        assert_eq!(status["sha256"].as_str().unwrap(), hex(&sha2_of(GOOD)));
        bench.run(&["fetch", &id, "-o", "r.lua"]).code(0);
        assert_eq!(bench.read("r.lua"), GOOD);
    }
}

fn sha2_of(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

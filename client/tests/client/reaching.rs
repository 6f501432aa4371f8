//! Reaching the server: trust, addresses, silence.

use std::net::TcpListener;

use crate::bench::{Bench, finish};
use crate::fake::{Act, Fake};
use crate::fake_tls;

#[test]
fn only_the_named_authority_is_trusted() {
    let bench = Bench::new();
    let other = Fake::start();
    bench.write("other.pem", &other.ca_pem);
    let ran = bench.run(&["whoami", "--ca-file", "other.pem"]).code(6);
    ran.says("its certificate is from an unknown authority").says("hint: give the server's own");
    assert!(bench.fake.seen("GET", "/").is_empty());
}

#[test]
fn the_system_does_not_trust_a_private_authority() {
    let bench = Bench::new();
    let mut command = bench.command(&["whoami"]);
    command.env_remove("GLOVEBOX_CA_FILE");
    finish(command.spawn().unwrap()).code(6);
    assert!(bench.fake.seen("GET", "/").is_empty());
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let fake = Fake::with(&fake_tls::pki(&["elsewhere.example"], &["h2", "http/1.1"]));
    let bench = Bench::at(fake);
    bench.run(&["whoami"]).code(6).says("its certificate is for another name");
    assert!(bench.fake.seen("GET", "/").is_empty());
}

#[test]
fn distrust_is_final() {
    let bench = Bench::new();
    let other = Fake::start();
    bench.write("other.pem", &other.ca_pem);
    bench.write("game.lua", "return 42");
    let ran = bench.run(&["submit", "game.lua", "--ca-file", "other.pem", "-v"]).code(6);
    assert!(!ran.stderr.contains("trying again"), "{}", ran.stderr);
}

#[test]
fn plain_http_is_refused_with_the_remedy() {
    let bench = Bench::new();
    let url = bench.fake.url().replace("https", "http");
    bench.run(&["whoami", "--url", &url]).code(2).says("hint: give --url https://");
    assert!(bench.fake.seen("GET", "/").is_empty());
}

#[test]
fn an_unknown_address_is_asked_for() {
    let bench = Bench::new();
    let mut command = bench.command(&["whoami"]);
    command.env_remove("GLOVEBOX_URL");
    finish(command.spawn().unwrap()).code(2).says("set GLOVEBOX_URL");
}

#[test]
fn a_closed_port_is_code_6_after_the_patience() {
    let mut bench = Bench::new();
    bench.fake.stop();
    bench.write("game.lua", "return 42");
    let begun = std::time::Instant::now();
    let ran = bench.run(&["submit", "game.lua", "--timeout", "2s", "-v"]).code(6);
    ran.says("connection refused").says("trying again in").says("hint: check --url");
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn a_port_that_speaks_no_tls_is_code_6() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        use std::io::Write as _;
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n");
        }
    });
    let bench = Bench::new();
    let token = bench.token_file();
    let args =
        ["whoami", "--url", &url, "--token-file", token.to_str().unwrap(), "--timeout", "1s"];
    bench.run(&args).code(6);
}

#[test]
fn a_silent_server_is_code_6_after_the_patience() {
    let bench = Bench::new();
    bench.fake.rule("GET", "/", 9, Act::Hang);
    bench.run(&["whoami", "--timeout", "1s"]).code(6).says("was silent for 1 s");
    bench.fake.rule("POST", "/", 9, Act::Hang);
    bench.write("game.lua", "return 42");
    bench.run(&["submit", "game.lua", "--timeout", "1s"]).code(6).says("was silent for 1 s");
}

#[test]
fn a_result_that_stops_coming_is_asked_for_again_then_code_6() {
    let bench = Bench::new();
    let id = bench.fake.jobs(|jobs| {
        jobs.lie.stall = Some(100_000);
        jobs.plant(&vec![7; 300_000])
    });
    bench.run(&["fetch", &id, "-o", "r", "--timeout", "1s"]).code(0);
    assert_eq!(bench.fake.seen("GET", "/result").len(), 3, "each try made headway");
    bench.fake.jobs(|jobs| jobs.lie.stall = Some(1000));
    bench.run(&["fetch", &id, "-o", "s", "--timeout", "1s"]).code(6).says("was silent");
    assert_eq!(bench.names(), ["r", "s.part", "s.part.json"]);
}

#[test]
fn a_slow_server_is_borne() {
    let bench = Bench::new();
    let content: Vec<u8> = (0..=250).cycle().take(200_000).collect();
    let id = bench.fake.jobs(|jobs| {
        jobs.lie.slow = true;
        jobs.plant(&content)
    });
    bench.run(&["fetch", &id, "-o", "r", "--timeout", "2s"]).code(0);
    assert_eq!(bench.read("r"), content);
}

#[test]
fn a_ca_file_without_a_certificate_is_code_2() {
    let bench = Bench::new();
    bench.write("empty.pem", "");
    bench.run(&["whoami", "--ca-file", "empty.pem"]).code(2).says("holds no pem certificate");
    bench.run(&["whoami", "--ca-file", "none.pem"]).code(2).says("no such file");
}

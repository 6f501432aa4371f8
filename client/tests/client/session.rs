//! Logging in and out, and the token between.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::bench::{Bench, interrupt};
use crate::fake::{Act, Fake, LOGIN, PASSWORD, TOKEN};
use crate::terminal::Terminal;

#[test]
fn a_password_file_logs_in_and_the_token_is_private() {
    let bench = Bench::stranger(Fake::start());
    bench.write("password", format!("{PASSWORD}\n"));
    bench.run(&["login", LOGIN, "--password-file", "password"]).code(0).says("logged in as ada");
    let file = bench.token_file();
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), TOKEN);
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    let who = bench.run(&["whoami"]).code(0);
    assert_eq!(who.line(), LOGIN);
    let seen = &bench.fake.seen("GET", "/auth/me")[0];
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
}

#[test]
fn a_password_comes_from_standard_input() {
    let bench = Bench::stranger(Fake::start());
    let ran = bench.run_with(&["--json", "login", LOGIN, "--password-stdin"], PASSWORD.as_bytes());
    assert_eq!(ran.code(0).json()["login"], LOGIN);
    bench.run(&["whoami"]).code(0);
}

#[test]
fn a_prompted_password_is_not_echoed() {
    let bench = Bench::stranger(Fake::start());
    let mut terminal = Terminal::new();
    let child = terminal.start(&mut bench.command(&["login"]));
    terminal.await_text("login: ");
    terminal.type_in("ada\n");
    terminal.await_text("password of ada: ");
    assert!(!terminal.echoes());
    terminal.type_in(&format!("{PASSWORD}\n"));
    terminal.finish(child).code(0);
    assert!(!terminal.text.contains(PASSWORD), "{}", terminal.text);
    assert!(terminal.echoes());
}

#[test]
fn ctrl_c_at_the_prompt_gives_the_echo_back() {
    let bench = Bench::stranger(Fake::start());
    let mut terminal = Terminal::new();
    let child = terminal.start(&mut bench.command(&["login", LOGIN]));
    terminal.await_text("password of ada: ");
    assert!(!terminal.echoes());
    interrupt(&child);
    terminal.finish(child).code(130);
    assert!(terminal.echoes());
}

#[test]
fn without_a_terminal_the_prompt_says_what_to_use() {
    let bench = Bench::stranger(Fake::start());
    bench
        .run(&["login", LOGIN])
        .code(2)
        .says("hint: give the login as an argument and --password-stdin");
    assert!(bench.fake.seen("POST", "/auth/token").is_empty());
}

#[test]
fn a_wrong_password_is_code_3_and_tried_once() {
    let bench = Bench::stranger(Fake::start());
    bench
        .run_with(&["login", LOGIN, "--password-stdin"], b"wrong")
        .code(3)
        .says("check login and password");
    assert_eq!(bench.fake.seen("POST", "/auth/token").len(), 1);
    assert!(!bench.token_file().exists());
}

#[test]
fn a_limited_login_says_when_and_does_not_hammer() {
    let bench = Bench::stranger(Fake::start());
    bench.fake.refuse(("POST", "/auth/token"), 9, 429, "rate_limited", &[("retry-after", "30")]);
    bench.run_with(&["login", LOGIN, "--password-stdin"], PASSWORD.as_bytes()).code(8);
    assert_eq!(bench.fake.seen("POST", "/auth/token").len(), 1);
}

#[test]
fn logout_revokes_then_removes() {
    let bench = Bench::new();
    bench.run(&["logout"]).code(0).says("revoked");
    assert!(!bench.token_file().exists());
    assert_eq!(bench.fake.seen("DELETE", "/auth/token").len(), 1);
    bench.plant_token();
    bench.run(&["whoami"]).code(3); // the server has forgotten it
    bench.run(&["logout"]).code(0);
    assert!(!bench.token_file().exists(), "a token the server does not know is removed");
    bench.run(&["logout"]).code(0);
}

#[test]
fn a_token_that_could_not_be_revoked_is_kept() {
    let mut bench = Bench::new();
    bench.fake.stop();
    bench.run(&["logout", "--timeout", "1s"]).code(6).says("is not revoked and was kept");
    assert!(bench.token_file().exists());
}

#[test]
fn a_token_others_can_read_is_refused_and_not_sent() {
    let bench = Bench::new();
    fs::set_permissions(bench.token_file(), fs::Permissions::from_mode(0o644)).unwrap();
    bench.run(&["whoami"]).code(3).says("hint: run 'chmod 600 ");
    assert!(bench.fake.seen("GET", "/").is_empty());
}

#[test]
fn without_a_token_every_command_says_how_to_get_one() {
    let bench = Bench::stranger(Fake::start());
    bench.write("a.lua", "return 1");
    let id = uuid::Uuid::nil().to_string();
    for args in [
        &["whoami"][..],
        &["submit", "a.lua"],
        &["status", &id],
        &["wait", &id],
        &["fetch", &id],
        &["process", "a.lua"],
    ] {
        bench.run(args).code(3).says("hint: log in with 'glovebox login'");
    }
    assert!(bench.fake.seen("GET", "/").is_empty() && bench.fake.seen("POST", "/").is_empty());
}

#[test]
fn an_expired_token_is_code_3() {
    let bench = Bench::new();
    bench.fake.refuse(
        ("GET", "/auth/me"),
        1,
        401,
        "unauthenticated",
        &[("www-authenticate", "Bearer")],
    );
    bench.run(&["whoami"]).code(3).says("glovebox login");
}

#[test]
fn what_the_server_says_of_a_session_is_escaped() {
    let bench = Bench::stranger(Fake::start());
    let body = "{\"token\":\"abc\",\"expires_at\":\"\\u001b[2J\u{202e}\"}";
    bench.fake.rule("POST", "/auth/token", 2, Act::Answer(200, vec![], body.into()));
    for args in
        [&["login", LOGIN, "--password-stdin"][..], &["login", "a\u{1b}c", "--password-stdin"]]
    {
        let ran = bench.run_with(args, PASSWORD.as_bytes()).code(0).says("\\u{1b}[2J\\u{202e}");
        assert!(!ran.stderr.contains(['\u{1b}', '\u{202e}']));
    }
    let body = "{\"login\":\"\\u001b]0;x\\u0007\u{202e}\"}";
    bench.fake.rule("GET", "/auth/me", 2, Act::Answer(200, vec![], body.into()));
    let ran = bench.run(&["whoami"]).code(0);
    assert_eq!(ran.line(), "\\u{1b}]0;x\\u{7}\\u{202e}");
    let ran = bench.run(&["whoami", "--json"]).code(0);
    assert!(!ran.stdout.contains('\u{202e}') && ran.json()["login"] == "\u{1b}]0;x\u{7}\u{202e}");
}

#[test]
fn a_token_with_line_breaks_from_the_server_is_not_kept() {
    let bench = Bench::stranger(Fake::start());
    let body = r#"{"token":"a\r\nEvil: 1"}"#;
    bench.fake.rule("POST", "/auth/token", 1, Act::Answer(200, vec![], body.into()));
    bench.run_with(&["login", LOGIN, "--password-stdin"], PASSWORD.as_bytes()).code(1);
    assert!(!bench.token_file().exists());
}

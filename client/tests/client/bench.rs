//! Runs the real binary in a private home, against a fake server.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::fake::{Fake, TOKEN};

/// No case needs half of it; a hanging client fails in place of hanging CI.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Bench {
    pub(crate) fake: Fake,
    root: tempfile::TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Asserts the exit code, and that no secret was printed on the way.
    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, expected, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        assert!(!self.stdout.contains(TOKEN) && !self.stderr.contains(TOKEN));
        self
    }

    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} is not in: {}", self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn line(&self) -> &str {
        let mut lines = self.stdout.lines();
        let first = lines.next().expect("a line on stdout");
        assert_eq!(lines.next(), None, "more than one line");
        first
    }

    /// The one JSON object on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.line()).expect("json on stdout")
    }

    /// The one JSON error on stderr.
    #[track_caller]
    pub(crate) fn json_error(&self) -> serde_json::Value {
        let value: serde_json::Value =
            serde_json::from_str(self.stderr.trim_end()).expect("json on stderr");
        value["error"].clone()
    }
}

impl Bench {
    /// Logged in, at a server that speaks HTTP/2.
    pub(crate) fn new() -> Self {
        Self::at(Fake::start())
    }

    /// Logged in at `fake`.
    pub(crate) fn at(fake: Fake) -> Self {
        let bench = Self::stranger(fake);
        bench.plant_token();
        bench
    }

    /// Without a token.
    pub(crate) fn stranger(fake: Fake) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("home")).unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        fs::write(root.path().join("ca.pem"), &fake.ca_pem).unwrap();
        Self { fake, root }
    }

    pub(crate) fn plant_token(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.token_file();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, TOKEN).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Where the client keeps the token by default.
    pub(crate) fn token_file(&self) -> PathBuf {
        let name = format!("localhost_{}", self.fake.address.port());
        self.root.path().join("home/.config/glovebox/tokens").join(name)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.root.path().join("home/.local/state/glovebox/jobs")
    }

    /// A path in the folder the client runs in.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join("work").join(name)
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Names in the folder the client runs in, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = self.path("").read_dir().unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The binary with nothing of this process's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glovebox"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.root.path().join("home"))
            .env("GLOVEBOX_URL", self.fake.url())
            .env("GLOVEBOX_CA_FILE", self.root.path().join("ca.pem"))
            .current_dir(self.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args).spawn().unwrap())
    }

    /// Runs with `input` on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ran {
        use std::io::Write as _;
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input).unwrap();
        drop(stdin);
        finish(child)
    }

    /// Starts a run that the test interferes with.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Blocks until a file in the work folder has this size: what the client
    /// writes has no other sign.
    pub(crate) fn await_size(&self, name: &str, size: u64) {
        let until = std::time::Instant::now() + PATIENCE;
        while self.path(name).metadata().map_or(0, |meta| meta.len()) < size {
            assert!(std::time::Instant::now() < until, "{name} did not reach {size} bytes");
            std::thread::yield_now();
        }
    }

    /// Submits a file and returns the job's id.
    pub(crate) fn submit(&self, name: &str, content: &[u8]) -> String {
        self.write(name, content);
        self.run(&["submit", name]).code(0).line().to_owned()
    }
}

/// Waits for the end of a run, within patience.
pub(crate) fn finish(mut child: Child) -> Ran {
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let (sender, done) = mpsc::channel();
    let pid = rustix::process::Pid::from_child(&child);
    std::thread::spawn(move || sender.send(child.wait()));
    let status: ExitStatus = done.recv_timeout(PATIENCE).map_or_else(
        |_| {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            panic!("the client did not end");
        },
        Result::unwrap,
    );
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader.map(|reader| reader.join().unwrap()).unwrap_or_default()
    };
    Ran { code: status.code().unwrap_or(-1), stdout: text(stdout), stderr: text(stderr) }
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut raw = Vec::new();
        from.read_to_end(&mut raw).unwrap();
        String::from_utf8(raw).expect("the client prints utf-8 only")
    })
}

/// What Ctrl-C does.
pub(crate) fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

//! A pseudo-terminal, to see what a person would see.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::bench::{Ran, finish};

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Terminal {
    master: File,
    user: File,
    shown: mpsc::Receiver<Vec<u8>>,
    /// All that was shown so far.
    pub(crate) text: String,
}

impl Terminal {
    pub(crate) fn new() -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let user = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (sender, shown) = mpsc::channel();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut chunk) {
                if sender.send(chunk[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self { master, user, shown, text: String::new() }
    }

    /// Starts `command` with this terminal as standard input and error.
    pub(crate) fn start(&self, command: &mut Command) -> Child {
        command
            .env("TERM", "xterm")
            .stdin(Stdio::from(self.user.try_clone().unwrap()))
            .stderr(Stdio::from(self.user.try_clone().unwrap()))
            .spawn()
            .unwrap()
    }

    /// Types `text`.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until `text` is on the screen.
    #[track_caller]
    pub(crate) fn await_text(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.text.contains(text) {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(chunk) = self.shown.recv_timeout(left) else {
                panic!("{text:?} did not appear in {:?}", self.text)
            };
            self.text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    /// Waits for the end of `child`; what it showed is in `text` then.
    pub(crate) fn finish(&mut self, child: Child) -> Ran {
        let ran = finish(child);
        // What the child wrote is before this in the terminal's order.
        writeln!(self.user, "<end>").unwrap();
        self.await_text("<end>");
        ran
    }

    pub(crate) fn echoes(&self) -> bool {
        tcgetattr(&self.user).unwrap().local_modes.contains(LocalModes::ECHO)
    }
}

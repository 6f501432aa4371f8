//! Asks for login and password. The password is read without echo, and the
//! terminal's echo comes back in every ending, Ctrl-C included.

use std::fs::File;
use std::io::{self, BufRead as _, IsTerminal as _, Read, Write as _};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use crate::failure::{Failure, Result};
use crate::sanitize;
use crate::secret::Secret;

/// Longest login or password.
const LONGEST: u64 = 1024;

/// Asks for a line in the open.
pub(crate) async fn ask(question: &str) -> Result<String> {
    let line = on_terminal(question, true).await?;
    Ok(line.trim().to_owned())
}

/// Asks for a password without echo.
pub(crate) async fn password(question: &str) -> Result<Secret> {
    let line = on_terminal(question, false).await?;
    checked(&line)
}

/// The first line of a file, for scripts.
pub(crate) fn password_from_file(path: &Path) -> Result<Secret> {
    let shown = sanitize::bytes(path.as_os_str().as_encoded_bytes());
    let failed = |cause: io::Error| Failure::io(&format!("read the password file {shown}"), &cause);
    let file = File::open(path).map_err(failed)?;
    checked(&first_line(file).map_err(failed)?)
}

/// The first line of standard input, for scripts.
pub(crate) async fn password_from_stdin() -> Result<Secret> {
    let failed = |cause: io::Error| Failure::io("read the password from standard input", &cause);
    checked(&stdin_line().await?.map_err(failed)?)
}

/// Reads on a thread, so that Ctrl-C is heard while nothing comes.
async fn stdin_line() -> Result<io::Result<Zeroizing<String>>> {
    spawn_blocking(|| first_line(io::stdin().lock()))
        .await
        .map_err(|_| Failure::internal("cannot go on: a thread died"))
}

fn checked(line: &str) -> Result<Secret> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() {
        return Err(Failure::usage("the password is empty")
            .hint("give it on the first line, at most 1024 bytes of utf-8"));
    }
    Ok(Secret::new(line.to_owned()))
}

fn first_line(from: impl Read) -> io::Result<Zeroizing<String>> {
    // One byte past the bound tells a line that fits from one that was cut.
    let mut reader = io::BufReader::with_capacity(64, from.take(LONGEST + 1));
    let mut line = Zeroizing::new(String::new());
    reader.read_line(&mut line)?;
    if line.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "its first line is too long"));
    }
    Ok(line)
}

/// Standard input must be the terminal: a script must say where the password
/// comes from.
async fn on_terminal(question: &str, echo: bool) -> Result<Zeroizing<String>> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("cannot ask: standard input is not a terminal")
            .hint("give the login as an argument and --password-stdin or --password-file FILE"));
    }
    let failed = |cause: io::Error| Failure::io("ask on the terminal", &cause);
    let _quiet = if echo { None } else { Some(EchoOff::new().map_err(failed)?) };
    let mut stderr = io::stderr();
    write!(stderr, "{}", sanitize::line(question)).and_then(|()| stderr.flush()).map_err(failed)?;
    // The guard above lives in this future, not in the blocked thread: Ctrl-C
    // drops the one and leaves the other reading.
    let line = stdin_line().await?.map_err(failed)?;
    if !echo {
        let _ = writeln!(stderr);
    }
    Ok(line)
}

/// Turns the echo off, and back on when dropped.
struct EchoOff {
    before: Termios,
}

impl EchoOff {
    fn new() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line() {
        for (text, password) in [("pw\nrest", "pw"), ("pw", "pw"), ("p w \r\n", "p w ")] {
            let line = first_line(text.as_bytes()).unwrap();
            assert_eq!(checked(&line).unwrap().expose(), password);
        }
        assert!(checked(&first_line(&b"\n"[..]).unwrap()).is_err());
        assert!(first_line(&vec![b'x'; 5000][..]).is_err());
    }
}

//! The one error type of the program.
//!
//! A failure knows its exit code, a machine-readable code, what was tried and
//! what to do next. It never carries a secret: tokens and passwords live in
//! `Secret`, which has no way into a format string.

use std::fmt;
use std::io;

use crate::exit::Exit;

/// Why a command did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// The server's or job's code, or one of this client's own.
    pub(crate) code: String,
    /// Lower case, no full stop: follows "glovebox: error: ".
    pub(crate) message: String,
    /// What to do now; follows "glovebox: hint: ".
    pub(crate) hint: Option<String>,
}

/// What fallible functions of this program return.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), hint: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, "client_internal", message)
    }

    pub(crate) fn checksum(message: impl Into<String>) -> Self {
        Self::new(Exit::Checksum, "checksum_mismatch", message)
    }

    /// A local file or directory that could not be used; `tried` completes
    /// "cannot …". What the kernel says picks the exit code: an object the
    /// user named wrongly is usage, everything else is internal.
    pub(crate) fn io(tried: &str, cause: &io::Error) -> Self {
        let exit = match cause.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::NotADirectory => Exit::Usage,
            _ => Exit::Internal,
        };
        let failure = Self::new(exit, "local_io", format!("cannot {tried}: {}", plain(cause)));
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                failure.hint("free some space, then run the same command again")
            }
            io::ErrorKind::PermissionDenied => {
                failure.hint("check the owner and mode of the file and its directory")
            }
            _ => failure,
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The kernel's sentence in house style: lower case, without "(os error 2)".
pub(crate) fn plain(cause: &io::Error) -> String {
    let text = cause.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => "unknown cause".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_failures_read_like_sentences() {
        let failure = Failure::io("open x", &io::Error::from_raw_os_error(2));
        assert_eq!(failure.message, "cannot open x: no such file or directory");
        assert_eq!(failure.exit, Exit::Usage);
    }

    #[test]
    fn a_full_disk_says_what_to_do() {
        let failure = Failure::io("write x", &io::Error::from_raw_os_error(28));
        assert_eq!(failure.exit, Exit::Internal);
        assert!(failure.hint.unwrap().contains("free some space"));
    }
}

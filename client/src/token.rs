//! The token on disk: one line, mode 0600, written atomically, refused when
//! others could have read it.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::private;
use crate::sanitize;
use crate::secret::Secret;

/// Far above the 43 characters of 32 random bytes, far below anything harmful.
const LONGEST: u64 = 1024;

/// Reads the token. Fails with exit code 3 where there is none.
pub(crate) fn load(path: &Path) -> Result<Secret> {
    let shown = sanitize::bytes(path.as_os_str().as_encoded_bytes());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            return Err(Failure::new(
                Exit::Authentication,
                "not_logged_in",
                "you are not logged in",
            )
            .hint("log in with 'glovebox login'"));
        }
        Err(cause) => return Err(Failure::io(&format!("open the token file {shown}"), &cause)),
    };
    check_private(&file, &shown)?;
    let content = private::read_bounded(&file, LONGEST)
        .map_err(|cause| Failure::io(&format!("read the token file {shown}"), &cause))?;
    let token = String::from_utf8(content).unwrap_or_default();
    let secret = Secret::new(token.trim().to_owned());
    drop(Secret::new(token));
    if secret.expose().is_empty() || !secret.expose().bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Failure::new(
            Exit::Authentication,
            "token_file_invalid",
            format!("the token file {shown} holds no token"),
        )
        .hint("log in again with 'glovebox login'"));
    }
    Ok(secret)
}

/// Judged on the open file, so that it is the file that is read.
fn check_private(file: &File, shown: &str) -> Result<()> {
    let tried = format!("read the token file {shown}");
    let meta = file.metadata().map_err(|cause| Failure::io(&tried, &cause))?;
    let refuse = |why: &str, remedy: String| {
        let message = format!("cannot use the token file {shown}: {why}");
        Err(Failure::new(Exit::Authentication, "token_file_unsafe", message).hint(remedy))
    };
    if !meta.is_file() {
        return refuse("it is not a regular file", "name a file by --token-file".to_owned());
    }
    if meta.permissions().mode() & 0o077 != 0 {
        return refuse(
            "others may read or change it",
            format!(
                "run 'chmod 600 {shown}'; if others use this machine, also log out and in again"
            ),
        );
    }
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me && meta.uid() != 0 {
        return refuse("it belongs to another user", "name your own by --token-file".to_owned());
    }
    Ok(())
}

/// Stores the token; folders that are missing are made with mode 0700.
pub(crate) fn store(path: &Path, token: &Secret) -> Result<()> {
    let shown = sanitize::bytes(path.as_os_str().as_encoded_bytes());
    let write = || -> io::Result<()> {
        private::create_dir(private::directory_of(path))?;
        private::write_atomic(path, format!("{}\n", token.expose()).as_bytes())
    };
    write().map_err(|cause| Failure::io(&format!("write the token file {shown}"), &cause))
}

/// Removes the token; it is no error if there is none.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            let shown = sanitize::bytes(path.as_os_str().as_encoded_bytes());
            Err(Failure::io(&format!("remove the token file {shown}"), &cause))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn a_token_comes_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("deep/token");
        store(&path, &Secret::new("abc".to_owned())).unwrap();
        assert_eq!(load(&path).unwrap().expose(), "abc");
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(load(&path).unwrap_err().exit, Exit::Authentication);
    }

    #[test]
    fn a_token_others_can_read_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("token");
        store(&path, &Secret::new("abc".to_owned())).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let failure = load(&path).unwrap_err();
            assert_eq!(failure.exit, Exit::Authentication, "{mode:o}");
            assert!(failure.hint.unwrap().starts_with("run 'chmod 600 "));
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("token");
        for content in ["", "\n", "two words", "t\u{1b}[2J", "токен"] {
            private::write_atomic(&path, content.as_bytes()).unwrap();
            assert_eq!(load(&path).unwrap_err().code, "token_file_invalid", "{content:?}");
        }
        private::write_atomic(&path, &[b'a'; 5000]).unwrap();
        assert!(load(&path).is_err());
    }
}

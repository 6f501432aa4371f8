//! Small private files: written whole or not at all, never readable by others,
//! never read without a bound.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Makes `path` and what is missing above it, each with mode 0700. Folders
/// that exist keep their mode.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Replaces `path` with `content`, mode 0600: a reader, and a crash at any
/// point, sees the old file or the new one.
pub(crate) fn write_atomic(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = directory_of(path);
    let mut temporary = tempfile::Builder::new().prefix(".glovebox-").tempfile_in(dir)?;
    temporary.write_all(content)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    sync_dir(dir)
}

/// Reads a file that must not be longer than `limit` bytes.
pub(crate) fn read_bounded(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {limit} bytes"),
        ));
    }
    Ok(content)
}

/// Makes a rename or removal in `dir` survive a crash of the machine.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The folder a path lies in; "." for a bare name.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn files_are_0600_and_folders_0700() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        create_dir(&dir).unwrap();
        write_atomic(&dir.join("x"), b"one").unwrap();
        write_atomic(&dir.join("x"), b"two").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(mode(&root.path().join("a")), 0o700);
        assert_eq!(mode(&dir.join("x")), 0o600);
        assert_eq!(dir.read_dir().unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn reading_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        write_atomic(&path, b"12345").unwrap();
        assert_eq!(read_bounded(&File::open(&path).unwrap(), 5).unwrap(), b"12345");
        let error = read_bounded(&File::open(&path).unwrap(), 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}

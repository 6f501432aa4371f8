//! The file to send: opened once, hashed, and read again for each try.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::names;
use crate::digest::Digest;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::sanitize;

/// Read size; with the upload's queue it bounds what is in memory.
pub(super) const CHUNK: usize = 256 << 10;

/// An open file whose size and SHA-256 are known. The descriptor is kept, so
/// that a rename under the same name cannot slip other bytes in.
#[derive(Clone)]
pub(crate) struct Source {
    file: Arc<File>,
    stamp: Stamp,
    /// The path as it was typed, for people.
    pub(crate) shown: String,
    /// The name the server is told.
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) digest: Digest,
}

/// What changes when a file is written to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
}

impl Source {
    /// Opens and hashes `path`; "-" is standard input, spooled to a private
    /// temporary file without a name, because retries read it again. Blocks.
    pub(crate) fn open(path: &Path, name: Option<&str>) -> Result<Self> {
        let (file, shown) = if is_stdin(path) {
            (spool(&mut io::stdin().lock())?, "standard input".to_owned())
        } else {
            let shown = sanitize::bytes(path.as_os_str().as_encoded_bytes());
            (open_regular(path, &shown)?, shown)
        };
        let name = match name {
            Some(name) => names::clean(Path::new(name), "file"),
            None if is_stdin(path) => "stdin".to_owned(),
            None => names::clean(path, "file"),
        };
        let failed = |cause: io::Error| Failure::io(&format!("read {shown}"), &cause);
        let stamp = Stamp::of(&file).map_err(failed)?;
        let digest = hash(&file, stamp.size).map_err(failed)?;
        let source = Self { file: Arc::new(file), stamp, shown, name, size: stamp.size, digest };
        if source.changed() { Err(source.changed_failure()) } else { Ok(source) }
    }

    /// Whether the file was written to since it was hashed.
    pub(super) fn changed(&self) -> bool {
        Stamp::of(&self.file).map_or(true, |now| now != self.stamp)
    }

    pub(super) fn changed_failure(&self) -> Failure {
        let message = format!("{} changed while it was being sent", self.shown);
        Failure::new(Exit::Refused, "file_changed", message)
            .hint("run the same command again when nothing writes to the file")
    }

    /// Fills `buffer` from `offset`, less only at the end of the file.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full_at(&self.file, buffer, offset)
    }
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self { size: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) })
    }
}

pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opening a pipe or device could block for ever or never end.
fn open_regular(path: &Path, shown: &str) -> Result<File> {
    let tried = format!("open {shown}");
    let refuse_kind = || {
        Failure::usage(format!("cannot send {shown}: it is not a regular file"))
            .hint("for a pipe, use '-' and redirect it to standard input")
    };
    let meta = path.metadata().map_err(|cause| Failure::io(&tried, &cause))?;
    if !meta.is_file() {
        return Err(refuse_kind());
    }
    let file = File::open(path).map_err(|cause| Failure::io(&tried, &cause))?;
    let opened = file.metadata().map_err(|cause| Failure::io(&tried, &cause))?;
    if opened.is_file() { Ok(file) } else { Err(refuse_kind()) }
}

fn spool(from: &mut dyn Read) -> Result<File> {
    let failed = |cause: io::Error| Failure::io("keep standard input in a temporary file", &cause);
    let mut file = tempfile::tempfile().map_err(failed)?;
    io::copy(from, &mut file).and_then(|_| file.flush()).map_err(failed)?;
    Ok(file)
}

fn hash(file: &File, size: u64) -> io::Result<Digest> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut offset = 0;
    while offset < size {
        let count = read_full_at(file, &mut buffer, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(&buffer[..count]);
        offset += count as u64;
    }
    Ok(Digest::of(hasher))
}

fn read_full_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_hashed_whole() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.lua");
        let content: Vec<u8> = (0..=250).cycle().take(CHUNK * 2 + 7).collect();
        fs::write(&path, &content).unwrap();
        let source = Source::open(&path, None).unwrap();
        assert_eq!(source.size, content.len() as u64);
        assert_eq!(source.digest, Digest::of(Sha256::new_with_prefix(&content)));
        assert_eq!(source.name, "x.lua");
        assert!(!source.changed());
    }

    #[test]
    fn a_change_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x.lua");
        fs::write(&path, b"return 1").unwrap();
        let source = Source::open(&path, None).unwrap();
        fs::write(&path, b"return 22").unwrap();
        assert!(source.changed());
        assert_eq!(source.changed_failure().exit, Exit::Refused);
    }

    #[test]
    fn what_is_no_regular_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        for path in [root.path(), Path::new("/dev/null"), &root.path().join("none")] {
            let failure = Source::open(path, None).err().unwrap();
            assert_eq!(failure.exit, Exit::Usage, "{failure}");
        }
    }

    #[test]
    fn spooled_input_can_be_read_again() {
        let file = spool(&mut &b"return 1"[..]).unwrap();
        assert_eq!(hash(&file, 8).unwrap(), hash(&file, 8).unwrap());
    }
}

//! The partial result on disk: `NAME.part` beside its target, and what it is
//! a part of in `NAME.part.json`.
//!
//! Invariant (STO-04): a file gets its final name only after the SHA-256 of
//! all its bytes, read back or hashed as written, is the announced one, and
//! after they are on disk. An interrupted part stays and is continued; a part
//! that fails the check is removed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::digest::Digest;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::private;
use crate::sanitize;

/// Where a checked result goes.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    File { path: PathBuf, force: bool },
    Stdout,
}

impl Target {
    /// Refuses an existing file early; `finish` refuses it again, atomically.
    pub(crate) fn check(&self) -> Result<()> {
        let Self::File { path, force } = self else { return Ok(()) };
        if path.file_name().is_none() {
            return Err(Failure::usage(format!("{} names no file", shown(path))));
        }
        match path.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {
                Err(Failure::usage(format!("{} is a folder", shown(path)))
                    .hint("name a file inside it"))
            }
            Ok(_) if !force => Err(exists(path)),
            _ => Ok(()),
        }
    }
}

/// What the server announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    pub(crate) job: Uuid,
    pub(crate) size: u64,
    pub(crate) digest: Digest,
}

/// The side file: binds a part to one result, so that bytes of two jobs with
/// the same target never mix.
#[derive(Deserialize, Serialize)]
struct Side {
    job: Uuid,
    sha256: String,
    size: u64,
    etag: String,
}

/// Longest side file, and so longest ETag, that is kept.
const SIDE: u64 = 4096;

/// An open, locked partial result.
pub(crate) struct Part {
    file: File,
    hasher: Sha256,
    announced: Announced,
    /// Bytes written and hashed.
    pub(crate) written: u64,
    /// The entity tag those bytes came with, where it was a strong one.
    pub(crate) etag: Option<String>,
    place: Option<Place>,
}

struct Place {
    target: PathBuf,
    part: PathBuf,
    side: PathBuf,
    force: bool,
}

impl Part {
    /// Opens the part of `target`, with what an earlier run left of the same
    /// result. Blocks: it hashes what is there.
    pub(crate) fn open(target: &Target, announced: Announced) -> Result<Self> {
        let Target::File { path, force } = target else {
            let file = tempfile::tempfile()
                .map_err(|cause| Failure::io("make a temporary file", &cause))?;
            return Ok(Self::new(file, announced, None));
        };
        let place = Place {
            target: path.clone(),
            part: with_suffix(path, ".part"),
            side: with_suffix(path, ".part.json"),
            force: *force,
        };
        let file = open_locked(&place.part)?;
        let side = read_side(&place.side).filter(|side| {
            side.job == announced.job
                && side.size == announced.size
                && Digest::from_hex(&side.sha256) == Some(announced.digest)
        });
        let mut part = Self::new(file, announced, Some(place));
        match side {
            Some(side) => part.take_up(side.etag)?,
            None => part.restart()?,
        }
        Ok(part)
    }

    fn new(file: File, announced: Announced, place: Option<Place>) -> Self {
        Self { file, hasher: Sha256::new(), announced, written: 0, etag: None, place }
    }

    /// Hashes the bytes an earlier run wrote.
    fn take_up(&mut self, etag: String) -> Result<()> {
        let mut buffer = vec![0; 1 << 18];
        loop {
            let count = self.file.read(&mut buffer).map_err(|cause| self.failed("read", &cause))?;
            if count == 0 {
                break;
            }
            self.hasher.update(&buffer[..count]);
            self.written += count as u64;
        }
        if self.written > self.announced.size {
            return self.restart();
        }
        self.etag = Some(etag);
        Ok(())
    }

    /// Forgets all bytes.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.etag = None;
        self.hasher = Sha256::new();
        self.written = 0;
        if let Some(place) = &self.place {
            let _ = fs::remove_file(&place.side);
        }
        self.file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .map_err(|cause| self.failed("empty", &cause))?;
        Ok(())
    }

    /// Notes what the bytes to come belong to, before the first of them. Only
    /// a strong ETag allows a resume (RFC 9110 §13.1.5).
    pub(crate) fn remember(&mut self, etag: Option<&str>) -> Result<()> {
        let strong = etag.filter(|etag| etag.starts_with('"') && etag.len() < 1024);
        if self.etag.as_deref() == strong {
            return Ok(());
        }
        self.etag = strong.map(str::to_owned);
        let (Some(place), Some(etag)) = (&self.place, strong) else { return Ok(()) };
        let side = Side {
            job: self.announced.job,
            sha256: self.announced.digest.to_string(),
            size: self.announced.size,
            etag: etag.to_owned(),
        };
        let text = sanitize::json(&side)
            .map_err(|cause| Failure::internal(format!("cannot write json: {cause}")))?;
        private::write_atomic(&place.side, text.as_bytes())
            .map_err(|cause| Failure::io(&format!("write {}", shown(&place.side)), &cause))
    }

    /// Adds bytes; more than announced is a checksum failure at once.
    pub(crate) fn append(&mut self, chunk: &[u8]) -> Result<()> {
        if self.written + chunk.len() as u64 > self.announced.size {
            return Err(Failure::checksum("the server sent more bytes than it had announced")
                .hint("run the same command again; if it stays, tell the operator"));
        }
        self.file.write_all(chunk).map_err(|cause| self.failed("write", &cause))?;
        self.hasher.update(chunk);
        self.written += chunk.len() as u64;
        Ok(())
    }

    pub(crate) fn complete(&self) -> bool {
        self.written == self.announced.size
    }

    /// Checks the whole and gives it its name, or sends it to standard output.
    /// On a mismatch the part is removed. Blocks.
    pub(crate) fn finish(mut self) -> Result<()> {
        let found = Digest::of(self.hasher.clone());
        if !self.complete() || found != self.announced.digest {
            self.discard();
            let message = format!(
                "the result is not what the server announced: sha-256 {found} over {} bytes in place of {} over {}",
                self.written, self.announced.digest, self.announced.size
            );
            return Err(Failure::checksum(message).hint(
                "nothing was kept; run the same command again, and tell the operator if it stays",
            ));
        }
        let Some(place) = self.place.take() else {
            self.file
                .seek(SeekFrom::Start(0))
                .map_err(|cause| Failure::io("read a temporary file", &cause))?;
            return crate::output::raw(&mut self.file);
        };
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::AlreadyExists => exists(&place.target),
            _ => Failure::io(&format!("write {}", shown(&place.target)), &cause),
        };
        self.file.sync_all().map_err(failed)?;
        give_name(&place).map_err(failed)?;
        let _ = fs::remove_file(&place.side);
        private::sync_dir(private::directory_of(&place.target)).map_err(failed)
    }

    /// Removes the part and its side file.
    pub(crate) fn discard(&mut self) {
        if let Some(place) = self.place.take() {
            let _ = fs::remove_file(&place.side);
            let _ = fs::remove_file(&place.part);
        }
    }

    fn failed(&self, tried: &str, cause: &io::Error) -> Failure {
        match &self.place {
            Some(place) => Failure::io(&format!("{tried} {}", shown(&place.part)), cause),
            None => Failure::io(&format!("{tried} a temporary file"), cause),
        }
    }
}

/// Opens the part for this process alone. A planted link is not followed, and
/// a file that lost its name while we waited for the lock (the other process
/// has just finished it) is not touched.
fn open_locked(path: &Path) -> Result<File> {
    let failed = |cause: io::Error| Failure::io(&format!("open {}", shown(path)), &cause);
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    for _ in 0..8 {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(nofollow)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::usage(format!("another glovebox is writing {}", shown(path)))
                    .hint("wait for it, or choose another name by --output"));
            }
            Err(TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        let opened = file.metadata().map_err(failed)?;
        if !opened.is_file() || opened.nlink() > 1 {
            return Err(Failure::usage(format!("{} is not a plain file of ours", shown(path)))
                .hint("remove it, or choose another name by --output"));
        }
        match path.symlink_metadata() {
            Ok(named) if (named.dev(), named.ino()) == (opened.dev(), opened.ino()) => {
                return Ok(file);
            }
            _ => {}
        }
    }
    Err(Failure::internal(format!("cannot open {}: it keeps changing", shown(path))))
}

fn read_side(path: &Path) -> Option<Side> {
    let content = private::read_bounded(&File::open(path).ok()?, SIDE).ok()?;
    let side: Side = serde_json::from_slice(&content).ok()?;
    // It goes into a request header as it is.
    side.etag.bytes().all(|b| b.is_ascii_graphic()).then_some(side)
}

/// Without `force` the rename itself refuses an existing file, so that a file
/// made since the first look survives.
fn give_name(place: &Place) -> io::Result<()> {
    if place.force {
        return fs::rename(&place.part, &place.target);
    }
    match rustix::fs::renameat_with(CWD, &place.part, CWD, &place.target, RenameFlags::NOREPLACE) {
        // Filesystems without that flag: a hard link refuses as well.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            fs::hard_link(&place.part, &place.target)?;
            fs::remove_file(&place.part)
        }
        outcome => Ok(outcome?),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn exists(path: &Path) -> Failure {
    Failure::new(Exit::Usage, "file_exists", format!("{} exists already", shown(path)))
        .hint("choose another name by --output, or replace it with --force")
}

fn shown(path: &Path) -> String {
    sanitize::bytes(path.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files of a test are small")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const CONTENT: &[u8] = b"return 42\n";

    fn announced() -> Announced {
        Announced {
            job: Uuid::nil(),
            size: CONTENT.len() as u64,
            digest: Digest::of(Sha256::new_with_prefix(CONTENT)),
        }
    }

    fn bench() -> (tempfile::TempDir, PathBuf, Target) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("r.lua");
        let target = Target::File { path: path.clone(), force: false };
        (root, path, target)
    }

    fn names(root: &tempfile::TempDir) -> Vec<String> {
        let entries = root.path().read_dir().unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_right_result_gets_its_name_and_nothing_else_stays() {
        let (root, path, target) = bench();
        let mut part = Part::open(&target, announced()).unwrap();
        part.remember(Some("\"e\"")).unwrap();
        part.append(CONTENT).unwrap();
        part.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), CONTENT);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(&root), ["r.lua"]);
    }

    #[test]
    fn a_wrong_result_leaves_nothing() {
        let (root, _, target) = bench();
        for wrong in [&b"return 43\n"[..], b"return", b""] {
            let mut part = Part::open(&target, announced()).unwrap();
            part.remember(Some("\"e\"")).unwrap();
            part.append(wrong).unwrap();
            assert_eq!(part.finish().unwrap_err().exit, Exit::Checksum);
            assert!(names(&root).is_empty());
        }
    }

    #[test]
    fn more_than_announced_is_refused_while_it_comes() {
        let (_root, _, target) = bench();
        let mut part = Part::open(&target, announced()).unwrap();
        part.append(CONTENT).unwrap();
        assert_eq!(part.append(b"x").unwrap_err().exit, Exit::Checksum);
    }

    #[test]
    fn a_part_is_taken_up_where_it_ended() {
        let (_root, path, target) = bench();
        let mut part = Part::open(&target, announced()).unwrap();
        part.remember(Some("\"e\"")).unwrap();
        part.append(&CONTENT[..4]).unwrap();
        drop(part);
        let mut part = Part::open(&target, announced()).unwrap();
        assert_eq!((part.written, part.etag.as_deref()), (4, Some("\"e\"")));
        part.append(&CONTENT[4..]).unwrap();
        part.finish().unwrap();
        assert_eq!(fs::read(path).unwrap(), CONTENT);
    }

    #[test]
    fn a_part_of_another_result_is_not_taken_up() {
        let (_root, _, target) = bench();
        let mut part = Part::open(&target, announced()).unwrap();
        part.remember(Some("\"e\"")).unwrap();
        part.append(&CONTENT[..4]).unwrap();
        drop(part);
        let other = Announced { job: Uuid::max(), ..announced() };
        assert_eq!(Part::open(&target, other).unwrap().written, 0);
    }

    #[test]
    fn weak_tags_and_missing_ones_allow_no_resume() {
        for etag in [None, Some("W/\"e\""), Some("e")] {
            let (_root, _, target) = bench();
            let mut part = Part::open(&target, announced()).unwrap();
            part.remember(etag).unwrap();
            part.append(&CONTENT[..4]).unwrap();
            drop(part);
            assert_eq!(Part::open(&target, announced()).unwrap().written, 0, "{etag:?}");
        }
    }

    #[test]
    fn an_existing_file_survives_even_when_it_appears_late() {
        let (_root, path, target) = bench();
        let mut part = Part::open(&target, announced()).unwrap();
        part.append(CONTENT).unwrap();
        fs::write(&path, b"mine").unwrap();
        assert_eq!(target.check().unwrap_err().code, "file_exists");
        assert_eq!(part.finish().unwrap_err().code, "file_exists");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn force_replaces_a_file() {
        let (_root, path, _) = bench();
        fs::write(&path, b"old").unwrap();
        let target = Target::File { path: path.clone(), force: true };
        target.check().unwrap();
        let mut part = Part::open(&target, announced()).unwrap();
        part.append(CONTENT).unwrap();
        part.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), CONTENT);
    }

    #[test]
    fn planted_links_are_not_followed() {
        let (root, path, target) = bench();
        let victim = root.path().join("victim");
        fs::write(&victim, b"keep").unwrap();
        symlink(&victim, with_suffix(&path, ".part")).unwrap();
        assert!(Part::open(&target, announced()).is_err());
        fs::remove_file(with_suffix(&path, ".part")).unwrap();
        fs::hard_link(&victim, with_suffix(&path, ".part")).unwrap();
        assert!(Part::open(&target, announced()).is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"keep");
        fs::remove_file(with_suffix(&path, ".part")).unwrap();
        let absent = root.path().join("absent");
        symlink(&absent, with_suffix(&path, ".part")).unwrap();
        assert!(Part::open(&target, announced()).is_err());
        assert!(!absent.exists(), "a file was made through a link");
    }

    #[test]
    fn two_writers_of_one_target_are_kept_apart() {
        let (_root, _, target) = bench();
        let first = Part::open(&target, announced()).unwrap();
        let failure = Part::open(&target, announced()).err().unwrap();
        assert!(failure.message.contains("another glovebox"));
        drop(first);
        Part::open(&target, announced()).unwrap();
    }
}

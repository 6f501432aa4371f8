//! Entries on disk.

use std::cmp::Reverse;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;
use uuid::Uuid;

use super::entry::{Entry, UNANSWERED, now};
use crate::api::Job;
use crate::failure::{Failure, Result};
use crate::private;
use crate::sanitize;
use crate::transfer::source::Source;

/// The server keeps a key this long (API-04); an older one would be a new job
/// in any case.
const KEY_LIFE: SignedDuration = SignedDuration::from_hours(24);
/// Entries untouched for this long go: their results are gone from the server.
const ENTRY_LIFE: Duration = Duration::from_hours(30 * 24);
/// And no more than this many stay.
const MOST: usize = 10_000;
/// Longest entry that is read.
const LONGEST: u64 = 64 << 10;

/// Which earlier try of the same file may be gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// One that had no answer: the normal case.
    Unanswered,
    /// Also one whose job is known (`--resume`).
    Any,
    /// None: a new key, a new job (`--no-resume`).
    Never,
}

/// The folder of entries. A file is named `SHA-KEY.json`, the first 16 digits
/// of the SHA-256 before the key, so that a claim in a folder of thousands
/// reads only the entries of its own bytes.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    pruned: Arc<AtomicBool>,
}

/// A key that is ours to use until this is dropped.
pub(crate) struct Claim {
    pub(crate) entry: Entry,
    /// Whether an earlier run used the key already.
    pub(crate) resumed: bool,
    journal: Journal,
    lock: PathBuf,
    /// Held, not read: its lock says that this run is alive.
    _held: File,
}

impl Journal {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, pruned: Arc::default() }
    }

    /// Takes a key for `source`: an earlier one where `resume` allows it, else
    /// a new one. The entry is on disk when this returns.
    pub(crate) fn claim(&self, source: &Source, server: &str, resume: Resume) -> Result<Claim> {
        private::create_dir(&self.dir)
            .map_err(|cause| Failure::io(&format!("make the folder {}", self.shown()), &cause))?;
        if !self.pruned.swap(true, Ordering::Relaxed) {
            self.prune();
        }
        if resume != Resume::Never {
            for entry in self.entries(&prefix(&source.digest.to_string())) {
                let fresh = now().duration_since(entry.created_at) < KEY_LIFE;
                let open = entry.status == UNANSWERED || resume == Resume::Any;
                if fresh
                    && open
                    && entry.is_for(source, server)
                    && let Some(claim) = self.adopt(&entry, resume)
                {
                    return Ok(claim);
                }
            }
        }
        let entry = Entry::new(source, server);
        let lock = self.path(&entry, "lock");
        let held = lock_file(&lock).ok_or_else(|| {
            Failure::internal(format!("cannot lock an entry in {}", self.shown()))
                .hint("check that the folder can be written to, or set XDG_STATE_HOME")
        })?;
        self.write(&entry)?;
        Ok(Claim { entry, resumed: false, journal: self.clone(), lock, _held: held })
    }

    /// Takes over an entry whose run is no longer alive.
    fn adopt(&self, found: &Entry, resume: Resume) -> Option<Claim> {
        let lock = self.path(found, "lock");
        let held = lock_file(&lock)?;
        // Between our look and our lock its run may have ended well.
        let entry = self.read(&self.path(found, "json"));
        match entry {
            Some(entry) if entry.status == UNANSWERED || resume == Resume::Any => {
                Some(Claim { entry, resumed: true, journal: self.clone(), lock, _held: held })
            }
            _ => {
                let _ = fs::remove_file(&lock);
                None
            }
        }
    }

    /// Notes what the server has said of the job of `entry`.
    pub(crate) fn learn(&self, entry: &Entry, job: &Job) {
        if entry.status != job.status() {
            let mut entry = entry.clone();
            entry.learn(job);
            // The journal is a convenience here: the answer itself is shown.
            let _ = self.write(&entry);
        }
    }

    pub(crate) fn find(&self, job: Uuid) -> Option<Entry> {
        self.list().into_iter().find(|entry| entry.job == Some(job))
    }

    /// All readable entries, newest first.
    pub(crate) fn list(&self) -> Vec<Entry> {
        self.entries("")
    }

    fn entries(&self, prefix: &str) -> Vec<Entry> {
        let mut entries: Vec<Entry> =
            self.paths("json", prefix).iter().filter_map(|path| self.read(path)).collect();
        entries.sort_by_key(|entry| Reverse((entry.created_at, entry.key)));
        entries
    }

    /// By the files' own times: no entry is read for it.
    fn prune(&self) {
        let horizon = SystemTime::now() - ENTRY_LIFE;
        let age = |path: PathBuf| Some((path.metadata().ok()?.modified().ok()?, path));
        let mut aged: Vec<_> = self.paths("json", "").into_iter().filter_map(age).collect();
        aged.sort_by_key(|(modified, _)| Reverse(*modified));
        for (at, (modified, path)) in aged.into_iter().enumerate() {
            if at >= MOST || modified < horizon {
                let _ = fs::remove_file(&path);
                let _ = fs::remove_file(path.with_extension("lock"));
            }
        }
    }

    fn write(&self, entry: &Entry) -> Result<()> {
        let text = sanitize::json(entry)
            .map_err(|cause| Failure::internal(format!("cannot write json: {cause}")))?;
        private::write_atomic(&self.path(entry, "json"), text.as_bytes()).map_err(|cause| {
            Failure::io(&format!("note the job in {}", self.shown()), &cause)
                .hint("check that the folder can be written to, or set XDG_STATE_HOME")
        })
    }

    /// An entry that cannot be read, or is not under its own key, is no entry.
    fn read(&self, path: &Path) -> Option<Entry> {
        let content = private::read_bounded(&File::open(path).ok()?, LONGEST).ok()?;
        let entry: Entry = serde_json::from_slice(&content).ok()?;
        (entry.version == 1 && self.path(&entry, "json") == path).then_some(entry)
    }

    fn paths(&self, extension: &str, prefix: &str) -> Vec<PathBuf> {
        let Ok(entries) = self.dir.read_dir() else { return Vec::new() };
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|found| found == extension))
            .filter(|path| {
                path.file_name()
                    .is_some_and(|n| n.as_encoded_bytes().starts_with(prefix.as_bytes()))
            })
            .collect()
    }

    fn path(&self, entry: &Entry, extension: &str) -> PathBuf {
        self.dir.join(format!("{}-{}.{extension}", prefix(&entry.sha256), entry.key))
    }

    fn shown(&self) -> String {
        sanitize::bytes(self.dir.as_os_str().as_encoded_bytes())
    }
}

impl Claim {
    /// The server made, or knew, this job.
    pub(crate) fn answered(mut self, job: &Job) -> Result<Entry> {
        self.entry.learn(job);
        self.journal.write(&self.entry)?;
        let _ = fs::remove_file(&self.lock);
        Ok(self.entry)
    }

    /// The server refused the file for good: there is nothing to go on with.
    pub(crate) fn refused(self) {
        let _ = fs::remove_file(self.journal.path(&self.entry, "json"));
        let _ = fs::remove_file(&self.lock);
    }
}

/// Only hex digits may become a part of a file name.
fn prefix(sha256: &str) -> String {
    sha256.chars().filter(char::is_ascii_hexdigit).take(16).collect()
}

/// The lock, if nobody alive holds it.
fn lock_file(path: &Path) -> Option<File> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const SERVER: &str = "https://h:8443";

    struct Bench {
        root: tempfile::TempDir,
        journal: Journal,
        source: Source,
    }

    fn bench() -> Bench {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("game.lua");
        fs::write(&path, b"return 1").unwrap();
        let source = Source::open(&path, None).unwrap();
        let journal = Journal::new(root.path().join("state/jobs"));
        Bench { root, journal, source }
    }

    fn job(id: Uuid, status: &str) -> Job {
        let text = format!(r#"{{"id":"{id}","status":"{status}"}}"#);
        Job::check(serde_json::from_str(&text).unwrap(), None).unwrap()
    }

    #[test]
    fn a_crashed_try_is_gone_on_with_under_its_key() {
        let Bench { journal, source, root: _root } = bench();
        let first = journal.claim(&source, SERVER, Resume::Unanswered).unwrap();
        let key = first.entry.key;
        assert!(!first.resumed);
        drop(first); // as a crash would
        let second = journal.claim(&source, SERVER, Resume::Unanswered).unwrap();
        assert!(second.resumed);
        assert_eq!(second.entry.key, key);
    }

    #[test]
    fn a_running_try_keeps_its_key_to_itself() {
        let Bench { journal, source, root: _root } = bench();
        let first = journal.claim(&source, SERVER, Resume::Unanswered).unwrap();
        let second = journal.claim(&source, SERVER, Resume::Unanswered).unwrap();
        assert_ne!(first.entry.key, second.entry.key);
    }

    #[test]
    fn an_answered_or_refused_try_is_over() {
        let Bench { journal, source, root: _root } = bench();
        let claim = journal.claim(&source, SERVER, Resume::Unanswered).unwrap();
        let id = Uuid::new_v4();
        claim.answered(&job(id, "pending")).unwrap();
        let claim = journal.claim(&source, SERVER, Resume::Unanswered).unwrap();
        assert!(!claim.resumed);
        claim.refused();
        let claim = journal.claim(&source, SERVER, Resume::Any).unwrap();
        assert!(claim.resumed, "--resume takes the answered one");
        assert_eq!(claim.entry.job, Some(id));
    }

    #[test]
    fn other_bytes_names_servers_or_times_are_other_tries() {
        let Bench { journal, source, root } = bench();
        let mut claim = journal.claim(&source, SERVER, Resume::Unanswered).unwrap();
        let resumed = |source: &Source, server: &str, resume| {
            journal.claim(source, server, resume).unwrap().resumed
        };
        let path = root.path().join("game.lua");
        let renamed = Source::open(&path, Some("other.lua")).unwrap();
        fs::write(&path, b"return 2").unwrap();
        let changed = Source::open(&path, None).unwrap();
        claim.entry.created_at = now() - KEY_LIFE;
        let (entry, ()) = (claim.entry.clone(), drop(claim));
        assert!(resumed(&source, SERVER, Resume::Unanswered));
        assert!(!resumed(&renamed, SERVER, Resume::Unanswered));
        assert!(!resumed(&changed, SERVER, Resume::Unanswered));
        assert!(!resumed(&source, "https://other", Resume::Unanswered));
        assert!(!resumed(&source, SERVER, Resume::Never));
        for entry in journal.list() {
            fs::remove_file(journal.path(&entry, "json")).unwrap();
        }
        journal.write(&entry).unwrap();
        assert!(!resumed(&source, SERVER, Resume::Unanswered), "a day later the key is forgotten");
    }

    #[test]
    fn entries_are_private_and_pruned() {
        let Bench { journal, source, root: _root } = bench();
        let claim = journal.claim(&source, SERVER, Resume::Never).unwrap();
        let path = journal.path(&claim.entry, "json");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(journal.dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        journal.prune();
        assert!(path.exists());
        let old = SystemTime::now() - ENTRY_LIFE - Duration::from_mins(1);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        journal.prune();
        assert!(!path.exists() && !path.with_extension("lock").exists());
    }

    #[test]
    fn rubbish_in_the_folder_is_no_entry() {
        let Bench { journal, source, root: _root } = bench();
        let claim = journal.claim(&source, SERVER, Resume::Never).unwrap();
        fs::write(journal.dir.join("x.json"), b"{").unwrap();
        fs::write(journal.dir.join("y.json"), vec![b' '; 70_000]).unwrap();
        let mut foreign = claim.entry.clone();
        foreign.sha256 = "../../escape".to_owned();
        fs::write(journal.dir.join("z.json"), sanitize::json(&foreign).unwrap()).unwrap();
        assert_eq!(journal.list(), std::slice::from_ref(&claim.entry));
    }

    #[test]
    fn a_status_is_learnt_once_and_kept() {
        let Bench { journal, source, root: _root } = bench();
        let claim = journal.claim(&source, SERVER, Resume::Never).unwrap();
        let id = Uuid::new_v4();
        let entry = claim.answered(&job(id, "pending")).unwrap();
        journal.learn(&entry, &job(id, "completed"));
        assert_eq!(journal.find(id).unwrap().status, "completed");
        assert!(journal.find(Uuid::new_v4()).is_none());
    }
}

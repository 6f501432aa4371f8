//! One entry: a file sent to a server under one key.

use jiff::{Timestamp, Unit};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::api::Job;
use crate::transfer::source::Source;

/// The status of an entry whose request has had no answer.
pub(crate) const UNANSWERED: &str = "unanswered";

/// The format on disk, version 1. Unknown keys are ignored, so that an older
/// client reads a newer one's entries; all keys here stay.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Entry {
    pub(crate) version: u32,
    pub(crate) key: Uuid,
    pub(crate) server: String,
    /// The path as it was typed; text for people.
    pub(crate) file: String,
    /// The name the server was told; a result is named after it.
    pub(crate) name: String,
    pub(crate) sha256: String,
    pub(crate) size: u64,
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<Uuid>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl Entry {
    pub(super) fn new(source: &Source, server: &str) -> Self {
        let now = now();
        Self {
            version: 1,
            key: Uuid::new_v4(),
            server: server.to_owned(),
            file: source.shown.clone(),
            name: source.name.clone(),
            sha256: source.digest.to_string(),
            size: source.size,
            status: UNANSWERED.to_owned(),
            job: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// Whether this entry was made for these bytes, under this name, there.
    /// The name counts because the server may count it.
    pub(super) fn is_for(&self, source: &Source, server: &str) -> bool {
        self.server == server
            && self.name == source.name
            && self.size == source.size
            && self.sha256 == source.digest.to_string()
    }

    pub(super) fn learn(&mut self, job: &Job) {
        self.status = job.status();
        self.job = Some(job.id);
        self.updated_at = now();
    }
}

/// To the millisecond: enough to keep the order of a batch.
pub(super) fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}

//! This client's own record of what it has submitted.
//!
//! One small file an entry, named by its Idempotency-Key, written before the
//! key's first use: a crash between the request and its answer leaves an
//! "unanswered" entry, and the next run with the same file goes on under the
//! same key, so that one file never makes two jobs (API-04). A lock beside the
//! entry tells a crashed run from a running one.

mod entry;
mod store;

pub(crate) use entry::{Entry, UNANSWERED};
pub(crate) use store::{Journal, Resume};

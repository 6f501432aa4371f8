//! The real binary against an in-process HTTPS server that can lie.
//!
//! `fake` is the server, `bench` runs the binary against it, the other modules
//! are the cases, one a command or concern.

#![expect(clippy::unwrap_used, reason = "in a test a broken expectation is a panic")]
#![expect(clippy::disallowed_methods, reason = "the files of a test are small")]

mod bench;
mod fake;
mod fake_jobs;
mod fake_tls;
mod terminal;

mod bulk;
mod fetch;
mod lies;
mod mapping;
mod output;
mod process;
mod reaching;
mod session;
mod submit;
mod wait;

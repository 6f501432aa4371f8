//! The server's public API as this client uses it.

pub(crate) mod calls;
pub(crate) mod connection;
pub(crate) mod job;
pub(crate) mod reply;

pub(crate) use connection::Api;
pub(crate) use job::{Job, State};

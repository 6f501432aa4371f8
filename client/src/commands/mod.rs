//! The commands, one a file.

mod fetch;
pub(crate) mod jobs;
mod process;
pub(crate) mod reference;
mod send;
mod session;
mod status;
mod submit;
mod wait;

mod dispatch;
pub(crate) use dispatch::dispatch;

//! Moving files: what is sent, how it is sent, and how a result is received,
//! checked and given its name.

pub(crate) mod download;
pub(crate) mod names;
pub(crate) mod part;
pub(crate) mod source;
pub(crate) mod upload;

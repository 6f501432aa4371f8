//! Ctrl-C: the command's future is dropped, which leaves only resumable state,
//! and the user is told how to go on.

use std::sync::{Arc, Mutex, PoisonError};

use crate::exit::Exit;
use crate::failure::Failure;

/// How to go on if the command were stopped now. Commands keep it current.
#[derive(Clone, Default)]
pub(crate) struct GoOn(Arc<Mutex<Option<String>>>);

impl GoOn {
    pub(crate) fn set(&self, hint: impl Into<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(hint.into());
    }

    /// The failure with which an interrupted command ends.
    pub(crate) fn interrupted(&self) -> Failure {
        let hint = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failure = Failure::new(Exit::Interrupted, "interrupted", "interrupted");
        Failure { hint, ..failure }
    }
}

/// Returns when Ctrl-C is pressed. Where the signal cannot be watched it never
/// returns, and the kernel's default ends the process as usual.
pub(crate) async fn pressed() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

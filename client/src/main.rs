//! The Glovebox client: sends a file, waits for its sandboxed run, fetches the
//! result and checks it.
//!
//! Reading order: `cli` (what can be said), `commands` (what each does),
//! `transfer` (how files move), `journal` (what survives a crash), `retry`,
//! `exit` (what the numbers mean), `sanitize` (why output is safe).

mod api;
mod app;
mod cli;
mod commands;
mod digest;
mod exit;
mod failure;
mod interrupt;
mod journal;
mod output;
mod private;
mod progress;
mod prompt;
mod retry;
mod sanitize;
mod secret;
mod settings;
mod token;
mod transfer;

use std::process::ExitCode;

fn main() -> ExitCode {
    app::run().into()
}

//! The one door to stdout and stderr.
//!
//! Rules: results go to stdout, everything else to stderr; every line passes
//! `sanitize`; messages are lower case without a full stop and begin with
//! "glovebox: "; `--json` prints objects, one a line; `--quiet` leaves results
//! and errors. Bars and spinners appear on a terminal only.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use indicatif::MultiProgress;
use serde::Serialize;

use crate::cli::{Color, Global};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::sanitize;

const RED: Style = AnsiColor::Red.on_default().bold();
const CYAN: Style = AnsiColor::Cyan.on_default();
const PLAIN: Style = Style::new();

/// Cheap to clone; all clones share the bars.
#[derive(Clone)]
pub(crate) struct Output {
    shared: Arc<Shared>,
}

struct Shared {
    json: bool,
    quiet: bool,
    verbose: bool,
    terminal: bool,
    bars: MultiProgress,
}

impl Output {
    pub(crate) fn new(flags: &Global) -> Self {
        let choice = match flags.color {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
        Self {
            shared: Arc::new(Shared {
                json: flags.json,
                quiet: flags.quiet,
                verbose: flags.verbose,
                terminal: io::stderr().is_terminal(),
                bars: MultiProgress::new(),
            }),
        }
    }

    pub(crate) fn json(&self) -> bool {
        self.shared.json
    }

    /// The bars to draw on, where bars are wanted.
    pub(crate) fn bars(&self) -> Option<&MultiProgress> {
        let shared = &self.shared;
        (shared.terminal && !shared.quiet && !shared.json).then_some(&shared.bars)
    }

    /// A result: `text` for people, `object` under `--json`.
    pub(crate) fn result<T: Serialize>(&self, object: &T, text: &str) -> Result<()> {
        if self.shared.json { self.object(object) } else { self.line(text) }
    }

    /// One object of a `--json` answer.
    pub(crate) fn object<T: Serialize>(&self, object: &T) -> Result<()> {
        let written = sanitize::json(object)
            .map_err(|cause| Failure::internal(format!("cannot write json: {cause}")))?;
        self.write_stdout(&written)
    }

    /// One line of a result for people.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        self.write_stdout(&sanitize::line(text))
    }

    fn write_stdout(&self, clean: &str) -> Result<()> {
        self.shared.bars.suspend(|| {
            let mut stdout = anstream::stdout().lock();
            written(writeln!(stdout, "{clean}").and_then(|()| stdout.flush()))
        })
    }

    /// What is happening, for people; on stderr.
    pub(crate) fn note(&self, text: &str) {
        if !self.shared.quiet && !self.shared.json {
            self.message(PLAIN, "", text);
        }
    }

    /// What `--verbose` asks for.
    pub(crate) fn detail(&self, text: &str) {
        if self.shared.verbose {
            self.message(PLAIN, "", text);
        }
    }

    /// The last words of a command. A reader of stdout that went away is not
    /// a failure worth words: it arrives here with exit code 0.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.exit == Exit::Ok {
            return;
        }
        if self.shared.json {
            let clean = sanitize::json(&serde_json::json!({ "error": {
                "code": failure.code,
                "message": failure.message,
                "hint": failure.hint,
                "exit": failure.exit.number(),
            }}));
            self.write_stderr(PLAIN, "", &clean.unwrap_or_default());
            return;
        }
        self.message(RED, "error: ", &failure.message);
        if let Some(hint) = &failure.hint {
            self.message(CYAN, "hint: ", hint);
        }
    }

    fn message(&self, style: Style, kind: &str, text: &str) {
        self.write_stderr(style, &format!("glovebox: {kind}"), &sanitize::line(text));
    }

    /// `clean` must have passed `sanitize`. Errors are dropped: there is no
    /// place left to report them to.
    fn write_stderr(&self, style: Style, lead: &str, clean: &str) {
        self.shared.bars.suspend(|| {
            let mut stderr = anstream::stderr().lock();
            let _ = writeln!(stderr, "{style}{lead}{style:#}{clean}");
        });
    }
}

/// Generated text and checked result bytes, which go out as they are.
pub(crate) fn raw(content: &mut dyn io::Read) -> Result<()> {
    let mut stdout = io::stdout().lock();
    written(io::copy(content, &mut stdout).and_then(|_| stdout.flush()))
}

/// A closed pipe ends the command in peace, as `| head` expects.
fn written(outcome: io::Result<()>) -> Result<()> {
    match outcome {
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {
            Err(Failure::new(Exit::Ok, "closed_pipe", "the reader of the output went away"))
        }
        Err(cause) => Err(Failure::io("write to standard output", &cause)),
        Ok(()) => Ok(()),
    }
}

/// Bytes in words: "0 B", "12.3 MiB".
pub(crate) fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

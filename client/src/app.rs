//! From the command line to an exit code: parses, runs the command on a
//! runtime, watches for Ctrl-C, reports the end.

use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::time::Duration;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::api::Api;
use crate::cli::{Cli, Color, Command, Global};
use crate::commands;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::interrupt::{self, GoOn};
use crate::journal::Journal;
use crate::output::Output;
use crate::settings::{self, Server};
use crate::token;

/// Default for commands that carry files or wait for jobs.
const LONG: Duration = Duration::from_mins(2);
/// Default for questions a person waits on.
const SHORT: Duration = Duration::from_secs(10);
/// Time for threads that write to disk to come to their end. One that still
/// reads standard input has none; what is on disk can be gone on with anyway.
const WIND_UP: Duration = Duration::from_millis(200);

/// What every command works with.
pub(crate) struct App {
    pub(crate) flags: Global,
    pub(crate) out: Output,
    pub(crate) go_on: GoOn,
    journal: OnceLock<Journal>,
}

impl App {
    /// The server, without a token: for `login`.
    pub(crate) fn stranger(&self) -> Result<Api> {
        let server = Server::from_flags(&self.flags)?;
        Api::new(&server, self.flags.ca_file.as_deref(), self.flags.timeout, &self.out)
    }

    /// The server, with the token that was kept for it.
    pub(crate) fn api(&self) -> Result<Api> {
        let server = Server::from_flags(&self.flags)?;
        let token = token::load(&settings::token_file(&self.flags, &server)?)?;
        Api::new(&server, self.flags.ca_file.as_deref(), self.flags.timeout, &self.out)?
            .with_token(&token)
    }

    pub(crate) fn journal(&self) -> Result<&Journal> {
        let dir = settings::journal_dir()?;
        Ok(self.journal.get_or_init(|| Journal::new(dir)))
    }

    /// How long failures are borne where files or jobs are at stake.
    pub(crate) fn patience(&self) -> Duration {
        self.flags.timeout.unwrap_or(LONG)
    }

    /// The same for a question a person waits on.
    pub(crate) fn short_patience(&self) -> Duration {
        self.flags.timeout.unwrap_or(SHORT)
    }
}

/// Runs the process; a panic becomes exit code 1, like any internal fault.
pub(crate) fn run() -> Exit {
    panic::catch_unwind(AssertUnwindSafe(parse_and_run)).unwrap_or(Exit::Internal)
}

fn parse_and_run() -> Exit {
    match Cli::try_parse() {
        Ok(cli) => {
            let out = Output::new(&cli.global);
            let app = App {
                flags: cli.global,
                out: out.clone(),
                go_on: GoOn::default(),
                journal: OnceLock::new(),
            };
            match execute(&app, cli.command) {
                Ok(()) => Exit::Ok,
                Err(failure) => {
                    out.failure(&failure);
                    failure.exit
                }
            }
        }
        Err(error) => refuse(&error),
    }
}

/// Runs the command until it ends or Ctrl-C is pressed.
fn execute(app: &App, command: Command) -> Result<()> {
    match command {
        Command::Completion(args) => return commands::reference::completion(&args),
        Command::Man(args) => return commands::reference::man(&args),
        Command::Jobs(args) => return commands::jobs::run(app, &args),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|cause| Failure::io("start the runtime", &cause))?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            biased;
            () = interrupt::pressed() => Err(app.go_on.interrupted()),
            outcome = commands::dispatch(app, command) => outcome,
        }
    });
    runtime.shutdown_timeout(WIND_UP);
    outcome
}

/// Help and version go to stdout; a wrong command line is told in the form of
/// all other errors, which includes `--json`.
fn refuse(error: &clap::Error) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match error.print() {
            Err(cause) if cause.kind() != std::io::ErrorKind::BrokenPipe => Exit::Internal,
            _ => Exit::Ok,
        };
    }
    let asked = |flag: &str| std::env::args_os().any(|arg| arg == flag);
    let flags = Global {
        url: None,
        ca_file: None,
        token_file: None,
        json: asked("--json"),
        quiet: false,
        color: Color::Auto,
        verbose: false,
        timeout: None,
    };
    Output::new(&flags).failure(&usage_failure(error));
    Exit::Usage
}

/// clap's first paragraph is the error; its tip, or the help, is the hint.
fn usage_failure(error: &clap::Error) -> Failure {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("no command was given")
            .hint("run 'glovebox --help' for the commands and examples");
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut paragraphs = text.split("\n\n").map(|paragraph| {
        paragraph
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    });
    let message = paragraphs.next().unwrap_or_default();
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(str::to_owned));
    Failure::usage(message.trim_end_matches('.'))
        .hint(tip.unwrap_or_else(|| "run 'glovebox --help', or the command with --help".to_owned()))
}

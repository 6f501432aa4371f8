//! The command line: names, help and examples, nothing that acts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use uuid::Uuid;

const EXAMPLES: &str = "\
Examples:
  glovebox login ada                           log in, once a month
  glovebox process game.lua -o game.obf.lua    send, wait, fetch and check
  glovebox process src/*.lua --output-dir out  four files at a time
  glovebox submit game.lua                     send only; prints the job's id
  glovebox wait ID && glovebox fetch ID        later, or from another terminal
  make -s blob | glovebox process - --name blob.lua -o blob.obf.lua

Exit codes:
  0 ok                       5 the job failed through infrastructure
  1 internal fault           6 the server cannot be reached
  2 wrong use                7 checksum mismatch: the result was not kept
  3 not logged in            8 over a limit or too early: try later
  4 the file was refused   130 stopped by Ctrl-C; nothing is lost";

/// Sends files to a Glovebox server, waits for the sandboxed run and fetches
/// the result, whose SHA-256 is checked before it gets its name.
#[derive(Debug, Parser)]
#[command(name = "glovebox", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Address of the server, https only
    #[arg(long, env = "GLOVEBOX_URL", hide_env_values = true, value_name = "URL", global = true, value_hint = ValueHint::Url)]
    #[arg(help_heading = "Global options")]
    pub(crate) url: Option<String>,

    /// Trust only the certificate authorities in this PEM file
    #[arg(
        long,
        env = "GLOVEBOX_CA_FILE",
        hide_env_values = true,
        value_name = "FILE",
        global = true
    )]
    #[arg(value_hint = ValueHint::FilePath, help_heading = "Global options")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Keep the token in this file, mode 0600 [default: one file per server]
    #[arg(
        long,
        env = "GLOVEBOX_TOKEN_FILE",
        hide_env_values = true,
        value_name = "FILE",
        global = true
    )]
    #[arg(value_hint = ValueHint::FilePath, help_heading = "Global options")]
    pub(crate) token_file: Option<PathBuf>,

    /// Print JSON, one object a line; errors too, on stderr
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Print results and errors only
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,

    /// Colour the messages
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN", global = true)]
    #[arg(help_heading = "Global options")]
    pub(crate) color: Color,

    /// Say on stderr what is being done
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,

    /// Give up when a request has met only failures or silence for so long (5s, 10m, 1h)
    /// [default: 2m where files or jobs are at stake, else 10s]
    #[arg(long, value_name = "TIME", global = true, value_parser = duration)]
    #[arg(help_heading = "Global options")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal that has not asked otherwise (NO_COLOR)
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Log in and keep the token
    #[command(after_help = "The password is asked for without echo. For scripts:
  glovebox login ada --password-file secret.txt
  pass show glovebox | glovebox login ada --password-stdin
It is never an argument: other users could read it in the process table.")]
    Login(Login),

    /// Revoke the token on the server and remove it here
    Logout,

    /// Print the login the token belongs to
    Whoami,

    /// Send a file; prints the id of the job
    #[command(
        after_help = "Sending can be stopped and run again at any time: the file is sent under
a key noted before the first try, so that one file never makes two jobs.
  glovebox submit game.lua
  id=$(glovebox submit game.lua) && glovebox wait \"$id\" && glovebox fetch \"$id\"
  tar c src | glovebox submit - --name src.tar"
    )]
    Submit(Submit),

    /// Print where a job stands
    Status(Job),

    /// Wait until a job has ended
    #[command(after_help = "Exit code 0 means completed; 4 and 5 say why it failed.
  glovebox wait ID --wait-timeout 10m || echo \"code $?\"")]
    Wait(Wait),

    /// Download the result of a completed job and check its SHA-256
    #[command(after_help = "The bytes go to NAME.part until their SHA-256 is the one the server
announced. A stopped download is continued where it ended.
  glovebox fetch ID                  to the original name with .out, as game.out.lua
  glovebox fetch ID -o game.obf.lua
  glovebox fetch ID -o - | less")]
    Fetch(Fetch),

    /// Send, wait and fetch in one go, several files at once
    #[command(after_help = "Examples:
  glovebox process game.lua -o game.obf.lua
  glovebox process src/*.lua --output-dir out --jobs 8
With several files the exit code is that of the first one that failed.")]
    Process(Process),

    /// List the jobs this client has submitted, newest first
    #[command(after_help = "The list is kept on this machine; the server has none. A status is the
last one seen here: 'glovebox status ID' asks again.")]
    Jobs(Jobs),

    /// Print a completion script for a shell
    #[command(
        after_help = "  bash: glovebox completion bash > ~/.local/share/bash-completion/completions/glovebox
  zsh:  glovebox completion zsh > \"${fpath[1]}/_glovebox\"
  fish: glovebox completion fish > ~/.config/fish/completions/glovebox.fish"
    )]
    Completion(Completion),

    /// Print the manual page, or one of its parts, as roff
    #[command(hide = true)]
    Man(Man),
}

#[derive(Args, Debug)]
pub(crate) struct Login {
    /// Who you are [default: asked for]
    pub(crate) login: Option<String>,
    /// Read the password from the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "password_stdin")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,
    /// Read the password from the first line of standard input
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

/// How a file is sent; shared by `submit` and `process`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sending {
    /// Name to send in place of the file's own
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Make a new job even if an earlier try with this file had no answer
    #[arg(long, conflicts_with = "resume")]
    pub(crate) no_resume: bool,
    /// Only go on with an earlier try that had no answer; never make a new job
    #[arg(long)]
    pub(crate) resume: bool,
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Stop waiting after this long; the job goes on [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) wait_timeout: Option<Duration>,
}

#[derive(Args, Debug)]
pub(crate) struct Submit {
    /// The file, or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) sending: Sending,
    /// Wait until the job has ended
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args, Debug)]
pub(crate) struct Job {
    /// The job's id
    #[arg(value_parser = job_id)]
    pub(crate) id: Uuid,
}

#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// The job's id
    #[arg(value_parser = job_id)]
    pub(crate) id: Uuid,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args, Debug)]
pub(crate) struct Fetch {
    /// The job's id
    #[arg(value_parser = job_id)]
    pub(crate) id: Uuid,
    /// Where the result goes, or - for standard output (written after the check)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Process {
    /// The files, or - for standard input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Where the result goes, or - for standard output; for one file only
    #[arg(long, short, value_name = "FILE", conflicts_with = "output_dir")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Folder for the results, made if missing [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output_dir: Option<PathBuf>,
    /// Files in work at once
    #[arg(long, short, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) jobs: u8,
    /// Replace existing files
    #[arg(long, short)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) sending: Sending,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

#[derive(Args, Debug)]
pub(crate) struct Jobs {
    /// Print ids only, of jobs the server has answered for
    #[arg(long)]
    pub(crate) ids: bool,
    /// At most this many
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct Completion {
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// A subcommand; without it the page of glovebox itself
    pub(crate) command: Option<String>,
}

/// Parses "90s", "5m", "1h 30m": at least a second, at most 30 days.
fn duration(text: &str) -> Result<Duration, String> {
    const FORM: &str = "give a time such as 30s, 5m or 1h";
    let span: jiff::SignedDuration = text.parse().map_err(|_| FORM.to_owned())?;
    let time = Duration::try_from(span).map_err(|_| FORM.to_owned())?;
    if (Duration::from_secs(1)..=Duration::from_hours(720)).contains(&time) {
        Ok(time)
    } else {
        Err("give a time from 1s to 720h".to_owned())
    }
}

/// Job ids are canonical UUIDs; anything else cannot name a job, and nothing
/// else may become a part of a URL path.
fn job_id(text: &str) -> Result<Uuid, String> {
    Uuid::try_parse(text).map_err(|_| {
        "a job's id looks like 67e55044-10b1-426f-9247-bb680e5fe0c8; 'glovebox jobs' lists yours"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_units_and_bounds() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h"), Ok(Duration::from_hours(1)));
        for wrong in ["", "5", "-5s", "0s", "10000h", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_option_takes_a_password() {
        let login = Cli::command().find_subcommand("login").unwrap().clone();
        for arg in login.get_arguments() {
            assert_ne!(arg.get_id(), "password");
        }
        assert!(Cli::try_parse_from(["glovebox", "login", "ada", "--password", "x"]).is_err());
    }
}

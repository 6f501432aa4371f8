//! From a parsed command to the function that does it.

use super::{fetch, jobs, process, reference, session, status, submit, wait};
use crate::app::App;
use crate::cli::Command;
use crate::failure::Result;

pub(crate) async fn dispatch(app: &App, command: Command) -> Result<()> {
    match command {
        Command::Login(args) => session::log_in(app, &args).await,
        Command::Logout => session::log_out(app).await,
        Command::Whoami => session::whoami(app).await,
        Command::Submit(args) => submit::run(app, &args).await,
        Command::Status(args) => status::run(app, args.id).await,
        Command::Wait(args) => wait::run(app, &args).await,
        Command::Fetch(args) => fetch::run(app, &args).await,
        Command::Process(args) => process::run(app, &args).await,
        Command::Jobs(args) => jobs::run(app, &args),
        Command::Completion(args) => reference::completion(&args),
        Command::Man(args) => reference::man(&args),
    }
}

//! `login`, `logout`, `whoami`.

use crate::app::App;
use crate::cli::Login;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::prompt;
use crate::retry;
use crate::settings;
use crate::token;

/// Trades login and password for a token. Never tried again by itself: every
/// try counts towards the server's limit on wrong passwords.
pub(super) async fn log_in(app: &App, args: &Login) -> Result<()> {
    let api = app.stranger()?;
    let path = settings::token_file(&app.flags, api.server())?;
    let login = match &args.login {
        Some(login) => login.clone(),
        None => prompt::ask("login: ").await?,
    };
    let password = match (&args.password_file, args.password_stdin) {
        (Some(file), _) => prompt::password_from_file(file)?,
        (None, true) => prompt::password_from_stdin().await?,
        (None, false) => prompt::password(&format!("password of {login}: ")).await?,
    };
    let session = api.log_in(&login, &password).await.map_err(|fault| {
        let refused = fault.failure.exit == Exit::Authentication;
        if refused { fault.failure.hint("check login and password") } else { fault.failure }
    })?;
    token::store(&path, &session.token)?;
    let object = serde_json::json!({
        "login": login,
        "server": api.server().name(),
        "expires_at": session.expires_at,
    });
    if app.out.json() {
        return app.out.object(&object);
    }
    let until = session.expires_at.map(|at| format!(" until {at}")).unwrap_or_default();
    app.out.note(&format!("logged in as {login} at {}{until}", api.server().name()));
    Ok(())
}

/// Revokes the token on the server, then removes it here. When the server
/// cannot be asked the token stays, so that the command can be run again; one
/// it no longer knows needs no revoking.
pub(super) async fn log_out(app: &App) -> Result<()> {
    let api = match app.api() {
        Err(failure) if failure.code == "not_logged_in" => {
            return done(app, "you were not logged in");
        }
        other => other?,
    };
    let path = settings::token_file(&app.flags, api.server())?;
    match retry::run(app.short_patience(), &app.out, async || api.log_out().await).await {
        Err(failure) if failure.exit != Exit::Authentication => {
            return Err(Failure {
                message: format!("the token is not revoked and was kept: {}", failure.message),
                ..failure
            });
        }
        _ => {}
    }
    token::remove(&path)?;
    done(app, "logged out; the token is revoked and removed")
}

fn done(app: &App, text: &str) -> Result<()> {
    if app.out.json() {
        return app.out.object(&serde_json::json!({ "logged_out": true }));
    }
    app.out.note(text);
    Ok(())
}

pub(super) async fn whoami(app: &App) -> Result<()> {
    let api = app.api()?;
    let me = retry::run(app.short_patience(), &app.out, async || api.me().await).await?;
    let object = serde_json::json!({
        "login": me.login,
        "created_at": me.created_at,
        "server": api.server().name(),
    });
    app.out.result(&object, &me.login)
}

//! `submit`: sends a file; waits for its job if asked to.

use super::send::send;
use super::wait::{follow, verdict};
use crate::app::App;
use crate::cli::Submit;
use crate::failure::Result;

pub(super) async fn run(app: &App, args: &Submit) -> Result<()> {
    let api = app.api()?;
    app.go_on
        .set("run the same command again: the file is sent under the same key and makes one job");
    let sent = send(app, &api, &args.file, &args.sending).await?;
    let id = sent.job.id;
    if !args.wait {
        return app.out.result(&sent.job.object(Some(&sent.entry.file)), &id.to_string());
    }
    app.go_on.set(format!("the job goes on: 'glovebox wait {id}'"));
    if !app.out.json() {
        app.out.line(&id.to_string())?; // known now, whatever comes
    }
    let limit = args.waiting.wait_timeout;
    let job = follow(app, &api, id, &sent.entry.file, limit).await?;
    app.journal()?.learn(&sent.entry, &job);
    if app.out.json() {
        app.out.object(&job.object(Some(&sent.entry.file)))?;
    }
    verdict(&job)?;
    app.out.note(&format!("completed; get the result with 'glovebox fetch {id}'"));
    Ok(())
}

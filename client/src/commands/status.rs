//! `status`: asks once where a job stands.

use uuid::Uuid;

use crate::app::App;
use crate::failure::Result;
use crate::retry;

/// Exit code 0 whatever the status: the question was answered.
pub(super) async fn run(app: &App, id: Uuid) -> Result<()> {
    let api = app.api()?;
    let job = retry::run(app.short_patience(), &app.out, async || api.job(id).await).await?;
    let journal = app.journal()?;
    let entry = journal.find(id);
    if let Some(entry) = &entry {
        journal.learn(entry, &job);
    }
    let file = entry.as_ref().map(|entry| entry.file.as_str());
    if app.out.json() {
        return app.out.object(&job.object(file));
    }
    for (name, value) in job.table(file) {
        app.out.line(&format!("{name:<9}{value}"))?;
    }
    Ok(())
}

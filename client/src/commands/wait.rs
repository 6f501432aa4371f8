//! `wait`: follows a job to its end.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use crate::api::{Api, Job, State};
use crate::app::App;
use crate::cli::Wait;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::retry;

/// Pauses between looks: short for short jobs, kind to the server for long ones.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(2);

pub(super) async fn run(app: &App, args: &Wait) -> Result<()> {
    let api = app.api()?;
    app.go_on.set(format!("the job goes on: 'glovebox wait {}'", args.id));
    let journal = app.journal()?;
    let entry = journal.find(args.id);
    let name = entry.as_ref().map_or_else(|| format!("job {}", args.id), |e| e.file.clone());
    let job = follow(app, &api, args.id, &name, args.waiting.wait_timeout).await?;
    if let Some(entry) = &entry {
        journal.learn(entry, &job);
    }
    if app.out.json() {
        app.out.object(&job.object(entry.as_ref().map(|entry| entry.file.as_str())))?;
        return verdict(&job);
    }
    verdict(&job)?;
    app.out.line(&job.status())
}

/// Looks until the job has ended, or `limit` is over.
pub(super) async fn follow(
    app: &App,
    api: &Api,
    id: Uuid,
    name: &str,
    limit: Option<Duration>,
) -> Result<Job> {
    let begun = Instant::now();
    let mut pause = FIRST;
    let mut shown: Option<(Progress, String)> = None;
    loop {
        let job = retry::run(app.patience(), &app.out, async || api.job(id).await).await?;
        if job.ended() {
            return Ok(job);
        }
        let status = job.status();
        match &mut shown {
            Some((_, last)) if *last == status => {}
            Some((progress, last)) => {
                progress.state(&app.out, name, &status);
                *last = status;
            }
            None => shown = Some((Progress::work(&app.out, name, &status), status)),
        }
        if let Some(limit) = limit {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                let message =
                    format!("job {id} has not ended after {} s and goes on", limit.as_secs());
                return Err(Failure::new(Exit::TryLater, "wait_timeout", message)
                    .hint(format!("run 'glovebox wait {id}' to go on waiting")));
            }
            pause = pause.min(left);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).clamp(FIRST, LONGEST);
    }
}

/// A completed job is a success; a failed one is the failure it tells of.
pub(super) fn verdict(job: &Job) -> Result<()> {
    match job.state {
        State::Completed => Ok(()),
        State::Failed => Err(job.failure()),
        _ => Err(Failure::new(
            Exit::TryLater,
            "job_not_completed",
            format!("job {} is {}", job.id, job.status()),
        )
        .hint(format!("wait for it with 'glovebox wait {}'", job.id))),
    }
}

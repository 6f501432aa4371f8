//! Sends one file as a job, at most once: shared by `submit` and `process`.

use std::path::Path;

use crate::api::{Api, Job};
use crate::app::App;
use crate::cli::Sending;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::journal::{Entry, Resume};
use crate::progress::Progress;
use crate::retry;
use crate::transfer::source::Source;
use crate::transfer::upload;

/// A job and this client's entry of it.
pub(super) struct Sent {
    pub(super) job: Job,
    pub(super) entry: Entry,
}

/// Hashes the file, notes a key for it, sends it until there is an answer.
pub(super) async fn send(app: &App, api: &Api, file: &Path, how: &Sending) -> Result<Sent> {
    let source = {
        let (file, name) = (file.to_owned(), how.name.clone());
        tokio::task::spawn_blocking(move || Source::open(&file, name.as_deref()))
            .await
            .map_err(|_| Failure::internal("cannot go on: a thread died"))??
    };
    let resume = match (how.resume, how.no_resume) {
        (true, _) => Resume::Any,
        (_, true) => Resume::Never,
        _ => Resume::Unanswered,
    };
    let claim = app.journal()?.claim(&source, api.server().name(), resume)?;
    let key = claim.entry.key;
    if claim.resumed {
        if let Some(id) = claim.entry.job {
            app.out.note(&format!("{} was submitted already, as job {id}", source.shown));
            let job = retry::run(app.patience(), &app.out, async || api.job(id).await).await?;
            let entry = claim.answered(&job)?;
            return Ok(Sent { job, entry });
        }
        app.out.note(&format!("going on with an earlier try to send {}", source.shown));
    }
    let outcome = {
        let progress = Progress::transfer(&app.out, "sending", &source.shown, source.size);
        let mut again = false;
        retry::run(app.patience(), &app.out, async || {
            progress.position(0);
            let cautious = std::mem::replace(&mut again, true);
            upload::attempt(api, &source, key, cautious, &progress).await
        })
        .await
    };
    match outcome {
        Ok(job) => {
            let entry = claim.answered(&job)?;
            Ok(Sent { job, entry })
        }
        Err(failure) => {
            // Only a refusal of the file itself settles the key. After any
            // other failure an earlier try may still have made the job.
            if failure.exit == Exit::Refused {
                claim.refused();
            }
            Err(failure)
        }
    }
}

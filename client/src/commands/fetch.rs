//! `fetch`: downloads and checks the result of a completed job.

use std::path::PathBuf;

use super::wait::verdict;
use crate::api::{Api, Job};
use crate::app::App;
use crate::cli::Fetch;
use crate::failure::{Failure, Result};
use crate::retry;
use crate::sanitize;
use crate::transfer::part::{Announced, Target};
use crate::transfer::{download, names};

pub(super) async fn run(app: &App, args: &Fetch) -> Result<()> {
    let api = app.api()?;
    let journal = app.journal()?;
    let entry = journal.find(args.id);
    let target = if let Some(path) = &args.output {
        target(app, path.clone(), args.force)?
    } else {
        let name = entry
            .as_ref()
            .map_or_else(|| names::result_of_job(args.id), |entry| names::result_of(&entry.name));
        Target::File { path: PathBuf::from(name), force: args.force }
    };
    target.check()?;
    app.go_on.set("run the same command again: the download goes on where it ended");
    let job = retry::run(app.patience(), &app.out, async || api.job(args.id).await).await?;
    if let Some(entry) = &entry {
        journal.learn(entry, &job);
    }
    verdict(&job)?;
    let file = entry.map(|entry| entry.file);
    let saved = save(app, &api, &job, &target).await?;
    report(app, &job, file.as_deref(), saved.as_deref())
}

/// `-` is standard output, which cannot hold the JSON answer as well.
pub(super) fn target(app: &App, path: PathBuf, force: bool) -> Result<Target> {
    if path.as_os_str() != "-" {
        return Ok(Target::File { path, force });
    }
    if app.out.json() {
        return Err(Failure::usage("--json and the result cannot share standard output")
            .hint("name a file by --output"));
    }
    Ok(Target::Stdout)
}

/// Fetches the result of a completed job; returns the path it is at.
pub(super) async fn save(
    app: &App,
    api: &Api,
    job: &Job,
    target: &Target,
) -> Result<Option<String>> {
    let (size, digest) = job.announced()?;
    let announced = Announced { job: job.id, size, digest };
    let shown = match target {
        Target::File { path, .. } => Some(sanitize::bytes(path.as_os_str().as_encoded_bytes())),
        Target::Stdout => None,
    };
    let name = shown.as_deref().unwrap_or("the result");
    download::fetch(api, announced, target, name, app.patience()).await?;
    Ok(shown)
}

/// Says where the checked result is.
pub(super) fn report(app: &App, job: &Job, file: Option<&str>, saved: Option<&str>) -> Result<()> {
    let Some(path) = saved else { return Ok(()) };
    let mut object = job.object(file);
    if let Some(map) = object.as_object_mut() {
        map.insert("output".to_owned(), path.into());
    }
    app.out.result(&object, path)
}

//! `process`: submit, wait and fetch in one go, for one file or many.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use futures_util::StreamExt as _;

use super::fetch;
use super::send::send;
use super::wait::{follow, verdict};
use crate::api::Api;
use crate::app::App;
use crate::cli::Process;
use crate::failure::{Failure, Result};
use crate::private;
use crate::sanitize;
use crate::transfer::part::Target;
use crate::transfer::{names, source};

pub(super) async fn run(app: &App, args: &Process) -> Result<()> {
    let plan = plan(app, args)?;
    let api = app.api()?;
    let several = plan.len() > 1;
    app.go_on.set("run the same command again with --resume: what was submitted is gone on with");
    let outcomes =
        futures_util::stream::iter(plan.into_iter().enumerate().map(|(at, (file, target))| {
            let api = &api;
            async move { (at, one(app, api, args, &file, &target, several).await) }
        }))
        .buffer_unordered(usize::from(args.jobs));
    let mut outcomes = std::pin::pin!(outcomes);
    let mut first: Option<(usize, Failure)> = None;
    let (mut total, mut failed) = (0, 0);
    while let Some((at, outcome)) = outcomes.next().await {
        total += 1;
        let Err(failure) = outcome else { continue };
        failed += 1;
        if several {
            app.out.failure(&failure);
        }
        if first.as_ref().is_none_or(|(earlier, _)| at < *earlier) {
            first = Some((at, failure));
        }
    }
    match first {
        None => Ok(()),
        Some((_, failure)) if !several => Err(failure),
        Some((_, failure)) => Err(Failure {
            message: format!("{failed} of {total} files failed; the exit code is the first one's"),
            hint: None,
            ..failure
        }),
    }
}

/// Which file's result goes where. Everything that can be wrong is found here,
/// before the first byte is sent.
fn plan(app: &App, args: &Process) -> Result<Vec<(PathBuf, Target)>> {
    if args.files.iter().filter(|file| source::is_stdin(file)).count() > 1 {
        return Err(Failure::usage("standard input is named more than once"));
    }
    if args.files.len() > 1 && (args.output.is_some() || args.sending.name.is_some()) {
        return Err(Failure::usage("--output and --name are for one file")
            .hint("give --output-dir DIR for the results of several"));
    }
    let dir = args.output_dir.as_deref().unwrap_or(Path::new(""));
    let mut taken: HashMap<PathBuf, &Path> = HashMap::new();
    let mut plan = Vec::new();
    for file in &args.files {
        let target = match &args.output {
            Some(path) => fetch::target(app, path.clone(), args.force)?,
            None => Target::File { path: dir.join(result_name(args, file)), force: args.force },
        };
        target.check()?;
        if let Target::File { path, .. } = &target
            && let Some(other) = taken.insert(path.clone(), file)
        {
            return Err(Failure::usage(format!(
                "the results of {} and {} would both be {}",
                shown(other),
                shown(file),
                shown(path)
            ))
            .hint("process them apart, with different --output-dir"));
        }
        plan.push((file.clone(), target));
    }
    if let Some(dir) = &args.output_dir {
        private::create_dir(dir)
            .map_err(|cause| Failure::io(&format!("make the folder {}", shown(dir)), &cause))?;
    }
    Ok(plan)
}

fn result_name(args: &Process, file: &Path) -> String {
    let name = match &args.sending.name {
        Some(name) => name.clone(),
        None if source::is_stdin(file) => "stdin".to_owned(),
        None => names::clean(file, "result"),
    };
    names::result_of(&name)
}

async fn one(
    app: &App,
    api: &Api,
    args: &Process,
    file: &Path,
    target: &Target,
    several: bool,
) -> Result<()> {
    let work = async {
        let sent = send(app, api, file, &args.sending).await?;
        let id = sent.job.id;
        app.out.detail(&format!("{} is job {id}", sent.entry.file));
        if !several {
            app.go_on.set(format!(
                "the job goes on: 'glovebox wait {id}', then 'glovebox fetch {id}'; or this command again with --resume"
            ));
        }
        let limit = args.waiting.wait_timeout;
        let job = follow(app, api, id, &sent.entry.file, limit).await?;
        app.journal()?.learn(&sent.entry, &job);
        verdict(&job)?;
        let saved = fetch::save(app, api, &job, target).await?;
        fetch::report(app, &job, Some(&sent.entry.file), saved.as_deref())
    };
    work.await.map_err(|failure: Failure| {
        let named = several && !failure.message.contains(&shown(file));
        if named {
            Failure { message: format!("{}: {}", shown(file), failure.message), ..failure }
        } else {
            failure
        }
    })
}

fn shown(path: &Path) -> String {
    sanitize::bytes(path.as_os_str().as_encoded_bytes())
}

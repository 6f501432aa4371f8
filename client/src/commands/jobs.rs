//! `jobs`: this client's own journal.

use jiff::Timestamp;

use crate::app::App;
use crate::cli::Jobs;
use crate::failure::Result;
use crate::journal::{Entry, UNANSWERED};
use crate::sanitize;

/// Characters of a file name in the listing.
const FILE: usize = 60;

/// Works without a server, and lists the jobs of all of them.
pub(crate) fn run(app: &App, args: &Jobs) -> Result<()> {
    let mut entries = app.journal()?.list();
    entries.truncate(args.limit.unwrap_or(usize::MAX));
    if args.ids {
        for id in entries.iter().filter_map(|entry| entry.job) {
            app.out.result(&serde_json::json!({ "id": id }), &id.to_string())?;
        }
        return Ok(());
    }
    if app.out.json() {
        return entries.iter().try_for_each(|entry| app.out.object(&object(entry)));
    }
    if entries.is_empty() {
        app.out.note("no jobs yet: submit a file with 'glovebox submit FILE'");
        return Ok(());
    }
    app.out.line(&row("ID", "STATUS", "WHEN", "FILE"))?;
    let now = Timestamp::now();
    for entry in &entries {
        let id = entry.job.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let file = sanitize::bounded(&entry.file, FILE);
        app.out.line(&row(&id, &entry.status, &ago(now, entry.created_at), &file))?;
    }
    if entries.iter().any(|entry| entry.status == UNANSWERED) {
        app.out.note("unanswered: submit the same file again to go on; it makes one job");
    }
    Ok(())
}

fn row(id: &str, status: &str, when: &str, file: &str) -> String {
    format!("{id:<36}  {status:<10}  {when:<8}  {file}")
}

fn object(entry: &Entry) -> serde_json::Value {
    serde_json::json!({
        "id": entry.job,
        "status": entry.status,
        "file": entry.file,
        "server": entry.server,
        "sha256": entry.sha256,
        "size": entry.size,
        "created_at": entry.created_at.to_string(),
        "updated_at": entry.updated_at.to_string(),
    })
}

/// "12 s", "3 min", "5 h", "2 d".
fn ago(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    #[test]
    fn times_are_told_in_one_unit() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        for (seconds, text) in
            [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7200, "2 h"), (200_000, "2 d"), (-5, "0 s")]
        {
            assert_eq!(ago(now, now - SignedDuration::from_secs(seconds)), text);
        }
    }
}

//! Receives a result: streams it into its part, continues after a cut, and
//! believes nothing the server says twice in different ways.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap};
use reqwest::{Response, StatusCode};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::part::{Announced, Part, Target};
use crate::api::Api;
use crate::digest::Digest;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::retry::{Again, Attempt, Fault, Patience};

/// Chunks between the connection and the disk.
const QUEUE: usize = 16;
/// More bytes must come within this long.
const STALL: Duration = Duration::from_mins(1);
/// A try that brought this much counts as success for the patience; a server
/// that deals out single bytes does not keep us for ever.
const HEADWAY: u64 = 64 << 10;
/// How often a server may have us begin again.
const RESTARTS: u32 = 2;

/// How one try ended without a fault.
enum Step {
    /// The body came to its end.
    End,
    /// What we have does not belong to what the server has now.
    Restart,
}

/// Fetches the announced result into `target` and checks it.
pub(crate) async fn fetch(
    api: &Api,
    announced: Announced,
    target: &Target,
    name: &str,
    limit: Duration,
) -> Result<()> {
    let opening = target.clone();
    let mut part = blocking(move || Part::open(&opening, announced)).await?;
    if part.written > 0 {
        let have = crate::output::size(part.written);
        api.out().note(&format!("going on after the {have} that are here"));
    }
    let progress = Progress::transfer(api.out(), "fetching", name, announced.size);
    let mut patience = Patience::new(limit);
    let mut restarts = 0;
    while !part.complete() {
        let before = part.written;
        let outcome;
        (part, outcome) = attempt(api, part, announced, &progress).await?;
        match outcome {
            Ok(Step::End) => break,
            Ok(Step::Restart) if restarts == RESTARTS => {
                part.discard();
                return Err(Failure::checksum("the server's result keeps changing")
                    .hint("nothing was kept; tell the operator"));
            }
            Ok(Step::Restart) => {
                restarts += 1;
                part.restart()?;
            }
            Err(fault) => {
                let nothing = part.written == 0 && fault.again == Again::Never;
                if fault.failure.exit == Exit::Checksum || nothing {
                    part.discard();
                }
                if part.written >= before.saturating_add(HEADWAY) {
                    patience.renew();
                }
                patience.pause(api.out(), fault).await?;
            }
        }
    }
    drop(progress);
    blocking(move || part.finish()).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(work).await.map_err(|_| Failure::internal("cannot go on: a thread died"))?
}

/// One request. The part travels to the writing thread and back; only its
/// loss is an error of the outer result.
async fn attempt(
    api: &Api,
    mut part: Part,
    announced: Announced,
    progress: &Progress,
) -> Result<(Part, Attempt<Step>)> {
    let etag = part.etag.clone();
    let range = etag.as_deref().filter(|_| part.written > 0).map(|etag| (part.written, etag));
    if range.is_none() {
        part.restart()?;
    }
    let response = match api.result(announced.job, range).await {
        Ok(response) => response,
        Err(fault) => return Ok((part, Err(fault))),
    };
    match judge(&response, range, announced) {
        Ok(Verdict::Continue) => {}
        Ok(Verdict::FromStart) => part.restart()?,
        Ok(Verdict::Restart) => return Ok((part, Ok(Step::Restart))),
        Ok(Verdict::Refused) => {
            let fault = api.no_result(response).await;
            return Ok((part, Err(fault)));
        }
        Err(failure) => return Ok((part, Err(failure.into()))),
    }
    let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
    if range.is_none() || response.status() == StatusCode::OK {
        part.remember(tag)?;
    }
    receive(api, response, part, progress).await
}

/// What to do with the head of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// The body goes on where the part ends.
    Continue,
    /// The body is the whole result.
    FromStart,
    /// Ask again, without a range.
    Restart,
    /// No result: an error in the API's form.
    Refused,
}

fn judge(response: &Response, range: Option<(u64, &str)>, announced: Announced) -> Result<Verdict> {
    judge_head(response.status(), response.headers(), response.content_length(), range, announced)
}

fn judge_head(
    status: StatusCode,
    headers: &HeaderMap,
    length: Option<u64>,
    range: Option<(u64, &str)>,
    announced: Announced,
) -> Result<Verdict> {
    match (status, range) {
        (StatusCode::OK | StatusCode::PARTIAL_CONTENT, _) => {}
        (StatusCode::RANGE_NOT_SATISFIABLE, Some(_)) => return Ok(Verdict::Restart),
        _ => return Ok(Verdict::Refused),
    }
    if headers.get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(Api::odd_result("the result came in an encoding that was not asked for"));
    }
    let mut fields = String::new();
    for field in headers.get_all("repr-digest") {
        fields.push_str(field.to_str().unwrap_or("sha-256="));
        fields.push(',');
    }
    match Digest::from_field(&fields) {
        Ok(None) => {}
        Ok(Some(digest)) if digest == announced.digest => {}
        _ => return Err(contradiction("another sha-256")),
    }
    if status == StatusCode::OK {
        return match length {
            Some(length) if length != announced.size => Err(contradiction("another length")),
            _ => Ok(Verdict::FromStart),
        };
    }
    let Some((offset, etag)) = range else {
        return Err(Api::odd_result("it is a part of the result that was not asked for"));
    };
    if headers.get(ETAG).is_some_and(|tag| tag != etag) {
        return Ok(Verdict::Restart);
    }
    match content_range(headers) {
        Some((_, _, Some(total))) if total != announced.size => {
            Err(contradiction("another length"))
        }
        Some((first, last, _)) if first == offset && last < announced.size => Ok(Verdict::Continue),
        _ => Ok(Verdict::Restart),
    }
}

fn contradiction(what: &str) -> Failure {
    Failure::checksum(format!("the result comes with {what} than the job's status announced"))
        .hint("nothing was kept; run the same command again, and tell the operator if it stays")
}

/// Reads "bytes FIRST-LAST/TOTAL"; TOTAL may be "*".
fn content_range(headers: &HeaderMap) -> Option<(u64, u64, Option<u64>)> {
    let text = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (span, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last, total))
}

/// Streams the body to a writing thread, so that disk, hash and network
/// overlap; the queue bounds what is in memory.
async fn receive(
    api: &Api,
    mut response: Response,
    mut part: Part,
    progress: &Progress,
) -> Result<(Part, Attempt<Step>)> {
    let mut position = part.written;
    let (sender, mut queue) = mpsc::channel::<Bytes>(QUEUE);
    let writer = spawn_blocking(move || {
        let mut chunks = Vec::with_capacity(QUEUE);
        while queue.blocking_recv_many(&mut chunks, QUEUE) > 0 {
            for chunk in chunks.drain(..) {
                if let Err(failure) = part.append(&chunk) {
                    return (part, Err(failure));
                }
            }
        }
        (part, Ok(()))
    });
    let silence = api.bearable(STALL);
    let received = loop {
        match tokio::time::timeout(silence, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                position += chunk.len() as u64;
                progress.position(position);
                if sender.send(chunk).await.is_err() {
                    break Ok(()); // the writer has stopped and says why below
                }
            }
            Ok(Ok(None)) => break Ok(()),
            Ok(Err(error)) => break Err(cut(api, &error)),
            Err(_) => break Err(api.silent(silence)),
        }
    };
    drop(sender);
    let (part, written) =
        writer.await.map_err(|_| Failure::internal("cannot go on: a thread died"))?;
    let outcome = match (written, received) {
        (Err(failure), _) => Err(failure.into()),
        (Ok(()), Err(fault)) => Err(fault),
        (Ok(()), Ok(())) => Ok(Step::End),
    };
    Ok((part, outcome))
}

/// A body that broke off: whatever the words for it, the rest can be asked for.
fn cut(api: &Api, error: &reqwest::Error) -> Fault {
    Fault { again: Again::Soon, ..api.broken(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;
    use sha2::{Digest as _, Sha256};
    use uuid::Uuid;

    fn announced() -> Announced {
        Announced {
            job: Uuid::nil(),
            size: 10,
            digest: Digest::of(Sha256::new_with_prefix(b"return 42\n")),
        }
    }

    type Fields<'a> = &'a [(&'static str, &'a str)];

    fn verdict(status: u16, headers: Fields, resumed: bool) -> Result<Verdict> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let length = map.get("content-length").map(|v| v.to_str().unwrap().parse().unwrap());
        let range = resumed.then_some((4, "\"e\""));
        judge_head(StatusCode::from_u16(status).unwrap(), &map, length, range, announced())
    }

    #[test]
    fn the_head_decides_how_the_body_is_taken() {
        let right = announced().digest.field();
        let cases: &[(u16, Fields, bool, Verdict)] = &[
            (200, &[("repr-digest", &right), ("content-length", "10")], false, Verdict::FromStart),
            (200, &[], true, Verdict::FromStart),
            (206, &[("content-range", "bytes 4-9/10"), ("etag", "\"e\"")], true, Verdict::Continue),
            (206, &[("content-range", "bytes 4-9/10"), ("etag", "\"f\"")], true, Verdict::Restart),
            (206, &[("content-range", "bytes 0-9/10")], true, Verdict::Restart),
            (206, &[("content-range", "bytes 4-99/*")], true, Verdict::Restart),
            (206, &[("content-range", "bytes 9-4/10")], true, Verdict::Restart),
            (206, &[], true, Verdict::Restart),
            (416, &[], true, Verdict::Restart),
            (416, &[], false, Verdict::Refused),
            (404, &[], true, Verdict::Refused),
            (302, &[], false, Verdict::Refused),
            (204, &[], false, Verdict::Refused),
        ];
        for (status, headers, resumed, expected) in cases {
            assert_eq!(
                verdict(*status, headers, *resumed).as_ref(),
                Ok(expected),
                "{status} {headers:?}"
            );
        }
    }

    #[test]
    fn contradictions_are_checksum_failures() {
        let other = Digest::of(Sha256::new()).field();
        let cases: &[(u16, Fields)] = &[
            (200, &[("repr-digest", &other)]),
            (200, &[("repr-digest", "sha-256=rubbish")]),
            (200, &[("content-length", "9")]),
            (206, &[("content-range", "bytes 4-10/11")]),
        ];
        for (status, headers) in cases {
            let failure = verdict(*status, headers, true).unwrap_err();
            assert_eq!(failure.exit, Exit::Checksum, "{status} {headers:?}");
        }
        assert_eq!(
            verdict(200, &[("content-encoding", "gzip")], false).unwrap_err().exit,
            Exit::Internal
        );
        assert_eq!(verdict(206, &[], false).unwrap_err().exit, Exit::Internal);
    }
}

//! The jobs of the fake server: uploads read in bounded memory, results made
//! from what was sent, and the lies a test asks for.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{HeaderMap, Request, Response};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::fake::{Answer, Shared, error, json};

/// Inputs up to this size are kept and come back as results; a larger one
/// comes back as a pattern of its size.
const KEPT: usize = 1 << 20;
const CHUNK: u64 = 64 << 10;
/// What the fake core puts before every file.
pub(crate) const MARK: &[u8] = b"-- out\n";

/// How the server treats jobs; tests change it.
pub(crate) struct Jobs {
    /// Statuses told one after another; the last one stays.
    pub(crate) statuses: Vec<&'static str>,
    pub(crate) error_code: Option<String>,
    pub(crate) error_detail: Option<String>,
    pub(crate) lie: Lie,
    /// Uploads are held until this many are in flight at once.
    pub(crate) together: usize,
    /// And each for this long: room in which one too many would show.
    pub(crate) hold: Duration,
    pub(crate) in_flight: usize,
    pub(crate) most_in_flight: usize,
    keys: HashMap<String, (String, String)>,
    by_id: HashMap<String, Job>,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            statuses: vec!["completed"],
            error_code: None,
            error_detail: None,
            lie: Lie::default(),
            together: 0,
            hold: Duration::ZERO,
            in_flight: 0,
            most_in_flight: 0,
            keys: HashMap::new(),
            by_id: HashMap::new(),
        }
    }
}

/// Deviations from the truth.
#[derive(Clone, Default)]
pub(crate) struct Lie {
    pub(crate) id: Option<String>,
    pub(crate) status_sha256: Option<String>,
    pub(crate) status_size: Option<u64>,
    pub(crate) repr_digest: Option<String>,
    pub(crate) no_repr_digest: bool,
    pub(crate) disposition: Option<String>,
    /// Bytes sent in place of the result's.
    pub(crate) bytes: Option<Vec<u8>>,
    /// No Content-Length, so that a short body looks complete.
    pub(crate) chunked: bool,
    /// For each answer with a body: break the connection after so many bytes.
    pub(crate) cuts: VecDeque<u64>,
    /// Break nothing, but end after so many bytes as if that were all.
    pub(crate) ends: VecDeque<u64>,
    /// Stop sending after so many bytes and say nothing more.
    pub(crate) stall: Option<u64>,
    /// Deal the bytes out 16 at a time, letting others run in between.
    pub(crate) slow: bool,
    /// ETags of the answers, one after another.
    pub(crate) etags: VecDeque<String>,
    /// Ignore If-Range and serve the range whatever the tag.
    pub(crate) blind_range: bool,
    pub(crate) no_ranges: bool,
}

struct Job {
    polls: usize,
    result: Content,
    sha256: [u8; 32],
}

#[derive(Clone)]
enum Content {
    Bytes(Bytes),
    Pattern(u64),
}

impl Content {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Pattern(size) => *size,
        }
    }

    /// The chunk that begins at `offset`.
    fn chunk(&self, offset: u64) -> Bytes {
        let end = (offset + CHUNK).min(self.size());
        match self {
            Self::Bytes(bytes) => {
                bytes.slice(usize::try_from(offset).unwrap()..usize::try_from(end).unwrap())
            }
            Self::Pattern(_) => {
                let block = (offset / CHUNK).to_le_bytes();
                let count = usize::try_from(end - offset).unwrap();
                let from = usize::try_from(offset % CHUNK).unwrap();
                (from..from + count).map(|at| block[at % 8] ^ 0x5a).collect()
            }
        }
    }

    fn sha256(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        let mut offset = 0;
        while offset < self.size() {
            let chunk = self.chunk(offset);
            hasher.update(&chunk);
            offset += chunk.len() as u64;
        }
        hasher.finalize().into()
    }
}

pub(crate) fn hex(raw: &[u8]) -> String {
    raw.iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|d| char::from(b"0123456789abcdef"[usize::from(d)]))
        .collect()
}

pub(crate) fn field(raw: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(raw))
}

impl Jobs {
    pub(crate) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// A job that was not submitted in this test, with this result.
    pub(crate) fn plant(&mut self, result: &[u8]) -> String {
        let id = Uuid::new_v4().to_string();
        let result = Content::Bytes(Bytes::copy_from_slice(result));
        let sha256 = result.sha256();
        self.by_id.insert(id.clone(), Job { polls: 0, result, sha256 });
        id
    }

    fn describe(&self, id: &str, status: &str) -> serde_json::Value {
        let job = &self.by_id[id];
        let mut object = serde_json::json!({
            "id": self.lie.id.as_deref().unwrap_or(id),
            "asset_id": Uuid::nil().to_string(),
            "status": status,
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:00:01Z",
        });
        if status == "completed" {
            let sha256 = self.lie.status_sha256.clone().unwrap_or_else(|| hex(&job.sha256));
            object["sha256"] = sha256.into();
            object["size"] = self.lie.status_size.unwrap_or(job.result.size()).into();
            object["expires_at"] = "2026-01-08T00:00:00Z".into();
        }
        if status == "failed" {
            object["error_code"] = self.error_code.clone().into();
            object["error_detail"] = self.error_detail.clone().into();
        }
        object
    }
}

pub(crate) fn status(shared: &Shared, id: &str) -> Answer {
    shared.jobs(|jobs| {
        let statuses = jobs.statuses.clone();
        let Some(job) = jobs.by_id.get_mut(id) else { return error(404, "not_found") };
        let status = statuses[job.polls.min(statuses.len() - 1)];
        job.polls += 1;
        json(200, &jobs.describe(id, status))
    })
}

/// Takes an upload apart and holds the client to its duties: exact length,
/// one part called "file", a digest that is true.
pub(crate) async fn submit(
    shared: &Arc<Shared>,
    request: Request<Incoming>,
    note: impl Fn(u64),
) -> io::Result<Answer> {
    let header =
        |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let key = header("idempotency-key").expect("the client sends a key");
    let digest = header("glovebox-file-digest").expect("the client sends a digest");
    let length: u64 = header("content-length").expect("an exact length").parse().unwrap();
    let kind = header("content-type").unwrap();
    let boundary = kind.split_once("boundary=").unwrap().1.to_owned();

    let (together, hold) = shared.jobs(|jobs| {
        jobs.in_flight += 1;
        jobs.most_in_flight = jobs.most_in_flight.max(jobs.in_flight);
        (jobs.together, jobs.hold)
    });
    let outcome = receive(request.into_body(), length, &boundary, note).await;
    while together > 0 && shared.jobs(|jobs| jobs.most_in_flight < together) {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(hold).await;
    shared.jobs(|jobs| jobs.in_flight -= 1);
    let (kept, size, sha256) = outcome?;
    if field(&sha256) != digest {
        return Ok(error(400, "invalid_request"));
    }
    let result = if size <= KEPT as u64 {
        Content::Bytes([MARK, &kept].concat().into())
    } else {
        Content::Pattern(size)
    };
    let result_sha256 = result.sha256();
    Ok(shared.jobs(|jobs| {
        if let Some((earlier, id)) = jobs.keys.get(&key).cloned() {
            if earlier != digest {
                return error(422, "idempotency_mismatch");
            }
            let mut answer = json(200, &jobs.describe(&id, "pending"));
            answer.headers_mut().insert("idempotency-replayed", "true".parse().unwrap());
            return answer;
        }
        let id = Uuid::new_v4().to_string();
        jobs.keys.insert(key, (digest, id.clone()));
        jobs.by_id.insert(id.clone(), Job { polls: 0, result, sha256: result_sha256 });
        json(201, &jobs.describe(&id, "pending"))
    }))
}

async fn receive(
    mut body: Incoming,
    length: u64,
    boundary: &str,
    note: impl Fn(u64),
) -> io::Result<(Vec<u8>, u64, [u8; 32])> {
    let tail = format!("\r\n--{boundary}--\r\n").into_bytes();
    let mut head: Option<usize> = None;
    let mut pending: Vec<u8> = Vec::new();
    let mut kept = Vec::new();
    let (mut total, mut size) = (0, 0);
    let mut hasher = Sha256::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(io::Error::other)?.into_data() else { continue };
        total += data.len() as u64;
        note(total);
        pending.extend_from_slice(&data);
        if head.is_none() {
            let Some(end) = pending.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let text = String::from_utf8(pending.drain(..end + 4).collect()).unwrap();
            assert!(text.starts_with(&format!("--{boundary}\r\n")), "{text}");
            assert_eq!(text.matches("name=\"file\"").count(), 1, "{text}");
            head = Some(end + 4);
        }
        if pending.len() > tail.len() {
            let file: Vec<u8> = pending.drain(..pending.len() - tail.len()).collect();
            size += file.len() as u64;
            hasher.update(&file);
            if kept.len() + file.len() <= KEPT {
                kept.extend_from_slice(&file);
            }
        }
    }
    assert_eq!(total, length, "the body is as long as it was announced");
    assert_eq!(pending, tail, "the body ends with the boundary");
    Ok((kept, size, hasher.finalize().into()))
}

/// Serves a result, or a lie about one.
pub(crate) fn result(shared: &Shared, id: &str, headers: &HeaderMap) -> Answer {
    let served = shared.jobs(|jobs| {
        let job = jobs.by_id.get(id)?;
        let content = match &jobs.lie.bytes {
            Some(bytes) => Content::Bytes(Bytes::copy_from_slice(bytes)),
            None => job.result.clone(),
        };
        let sha256 = job.sha256;
        let etag =
            jobs.lie.etags.pop_front().unwrap_or_else(|| format!("\"{}\"", hex(&sha256[..8])));
        let cut = jobs.lie.cuts.pop_front();
        let end = jobs.lie.ends.pop_front();
        Some((content, sha256, etag, cut, end, jobs.lie.clone()))
    });
    let Some((content, sha256, etag, cut, end, lie)) = served else {
        return error(404, "not_found");
    };
    let size = content.size();
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
    let tag_holds = lie.blind_range || header("if-range").is_none_or(|tag| tag == etag);
    let offset = header("range")
        .filter(|_| tag_holds && !lie.no_ranges)
        .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<u64>().ok());
    if offset.is_some_and(|offset| offset >= size) {
        return error(416, "range_not_satisfiable");
    }
    let from = offset.unwrap_or(0);
    let mut answer = Response::builder()
        .status(if offset.is_some() { 206 } else { 200 })
        .header("etag", &etag)
        .header("accept-ranges", "bytes")
        .header(
            "content-disposition",
            lie.disposition.unwrap_or_else(|| "attachment; filename=\"server.bin\"".to_owned()),
        );
    if !lie.no_repr_digest {
        answer = answer.header("repr-digest", lie.repr_digest.unwrap_or_else(|| field(&sha256)));
    }
    if offset.is_some() {
        answer = answer.header("content-range", format!("bytes {from}-{}/{size}", size - 1));
    }
    if !lie.chunked {
        answer = answer.header("content-length", size - from);
    }
    let frames = stream::iter(frames(content, from, cut.or(end).or(lie.stall)));
    let body = if cut.is_some() {
        let broken = stream::once(async {
            // hyper would drop what it has not flushed: let it flush.
            for _ in 0..64 {
                tokio::task::yield_now().await;
            }
            Err(io::Error::other("cut by a lie"))
        });
        http_body_util::BodyExt::boxed(StreamBody::new(frames.chain(broken)))
    } else if lie.slow {
        let drops = frames.flat_map(|frame| {
            let data = frame.map(|frame| frame.into_data().unwrap_or_default());
            let mut data = data.unwrap_or_default();
            stream::iter(std::iter::from_fn(move || {
                let next = data.len().min(16);
                (next > 0).then(|| data.split_to(next))
            }))
            .then(|drop| async {
                tokio::task::yield_now().await;
                Ok(Frame::data(drop))
            })
        });
        http_body_util::BodyExt::boxed(StreamBody::new(drops))
    } else if lie.stall.is_some() {
        http_body_util::BodyExt::boxed(StreamBody::new(frames.chain(stream::pending())))
    } else {
        http_body_util::BodyExt::boxed(StreamBody::new(frames))
    };
    answer.body(body).unwrap()
}

/// The frames of a body, lazily: from an offset to the end, or for so many
/// bytes.
fn frames(
    content: Content,
    from: u64,
    count: Option<u64>,
) -> impl Iterator<Item = io::Result<Frame<Bytes>>> + Send + Sync + 'static {
    let stop = count.map_or(content.size(), |count| (from + count).min(content.size()));
    let mut offset = from;
    std::iter::from_fn(move || {
        if offset >= stop {
            return None;
        }
        let mut chunk = content.chunk(offset);
        chunk.truncate(usize::try_from(stop - offset).unwrap_or(usize::MAX));
        offset += chunk.len() as u64;
        Some(Ok(Frame::data(chunk)))
    })
}

//! Sends a file as one multipart part of known length, in bounded memory.
//!
//! A thread reads the file ahead into a short queue; the connection takes
//! from it. `Content-Length` is exact, so that the server can refuse a file
//! by its size before it arrives, and a broken connection is never mistaken
//! for the end (UPL-02).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use reqwest::header::CONTENT_TYPE;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};
use uuid::Uuid;

use super::source::{CHUNK, Source};
use crate::api::{Api, Job};
use crate::progress::Progress;
use crate::retry::Attempt;

/// Chunks read ahead of the connection.
const QUEUE: usize = 4;
/// The connection must take more bytes within this long.
const STALL: Duration = Duration::from_mins(1);
/// After the last byte the server may still hash, sync and inspect.
const ANSWER: Duration = Duration::from_mins(3);
/// How often the two are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A cautious try listens this long before it sends the file.
const LISTEN: Duration = Duration::from_secs(1);

/// Sends `source` once under `key`.
///
/// A server that refuses by the headers alone answers and closes at once. Over
/// HTTP/1.1 the answer can then be lost: our writing fails before we read. A
/// `cautious` try, which is any but the first, therefore sends the head and
/// listens for a moment, so that at the second try the refusal is heard.
pub(crate) async fn attempt(
    api: &Api,
    source: &Source,
    key: Uuid,
    cautious: bool,
    progress: &Progress,
) -> Attempt<Job> {
    let boundary = format!("glovebox-{}", Uuid::new_v4().simple());
    let taken = Arc::new(AtomicU64::new(0));
    let listen = cautious.then_some(LISTEN);
    let body = Multipart::new(source, &boundary, listen, Arc::clone(&taken));
    let request = api
        .submission()
        .header("Idempotency-Key", key.hyphenated().to_string())
        .header("Glovebox-File-Digest", source.digest.field())
        .header(CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}"))
        .body(reqwest::Body::wrap(body));

    let mut sending = std::pin::pin!(request.send());
    let mut ticks = tokio::time::interval(LOOK);
    let mut seen = (0, Instant::now());
    let outcome = loop {
        tokio::select! {
            outcome = &mut sending => break outcome,
            _ = ticks.tick() => {
                let now = taken.load(Ordering::Relaxed);
                progress.position(now);
                if now != seen.0 {
                    seen = (now, Instant::now());
                }
                let allowed = api.bearable(if now >= source.size { ANSWER } else { STALL });
                if seen.1.elapsed() > allowed {
                    return Err(api.silent(allowed));
                }
            }
        }
    };
    // Whatever the server thought of it: bytes that are not the ones that
    // were hashed are our fault to report.
    match outcome {
        Ok(response) => match api.submitted(response).await {
            Err(_) if source.changed() => Err(source.changed_failure().into()),
            answer => answer,
        },
        Err(_) if source.changed() => Err(source.changed_failure().into()),
        Err(error) => Err(api.broken(&error)),
    }
}

/// The body: a head, perhaps a pause, the file's bytes, a tail.
struct Multipart {
    head: Bytes,
    pause: Option<Pin<Box<Sleep>>>,
    file: mpsc::Receiver<io::Result<Bytes>>,
    tail: Bytes,
    /// Bytes not yet handed to the connection, all three parts together.
    left: u64,
    /// File bytes handed over so far, for the progress and the stall watch.
    taken: Arc<AtomicU64>,
}

impl Multipart {
    fn new(
        source: &Source,
        boundary: &str,
        listen: Option<Duration>,
        taken: Arc<AtomicU64>,
    ) -> Self {
        let head = Bytes::from(format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n",
            quoted(&source.name)
        ));
        let tail = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        let left = head.len() as u64 + source.size + tail.len() as u64;
        let (sender, file) = mpsc::channel(QUEUE);
        let source = source.clone();
        // Ends by itself when the body is dropped: the channel closes.
        tokio::task::spawn_blocking(move || read_ahead(&source, &sender));
        let pause = listen.map(|time| Box::pin(tokio::time::sleep(time)));
        Self { head, pause, file, tail, left, taken }
    }

    fn hand_over(&mut self, chunk: Bytes) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.left -= chunk.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }
}

impl Body for Multipart {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if !this.head.is_empty() {
            let head = std::mem::take(&mut this.head);
            return this.hand_over(head);
        }
        if let Some(pause) = &mut this.pause {
            ready!(pause.as_mut().poll(context));
            this.pause = None;
        }
        if this.left > this.tail.len() as u64 {
            return match ready!(this.file.poll_recv(context)) {
                Some(Ok(chunk)) => {
                    this.taken.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                    this.hand_over(chunk)
                }
                Some(Err(cause)) => Poll::Ready(Some(Err(cause))),
                None => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            };
        }
        if this.tail.is_empty() {
            return Poll::Ready(None);
        }
        let tail = std::mem::take(&mut this.tail);
        this.hand_over(tail)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Reads exactly the bytes that were hashed, no more even if the file grew.
fn read_ahead(source: &Source, sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut offset = 0;
    while offset < source.size {
        let want = usize::try_from(source.size - offset).map_or(CHUNK, |left| left.min(CHUNK));
        let mut buffer = vec![0; want];
        let chunk = match source.read_at(&mut buffer, offset) {
            Ok(count) if count == want => Ok(Bytes::from(buffer)),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(cause) => Err(cause),
        };
        let failed = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || failed {
            return;
        }
        offset += want as u64;
    }
}

/// RFC 7578: quote, CR and LF are percent-encoded, as browsers do it. The
/// name holds no control characters any more; a backslash would start an
/// escape for some readers.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\\', "_").replace(['\r', '\n'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use std::fs;

    async fn body_of(content: &[u8], name: &str) -> (u64, Vec<u8>) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        fs::write(&path, content).unwrap();
        let source = Source::open(&path, Some(name)).unwrap();
        let body = Multipart::new(&source, "B", None, Arc::default());
        let length = body.size_hint().exact().unwrap();
        (length, body.collect().await.unwrap().to_bytes().to_vec())
    }

    #[tokio::test]
    async fn the_announced_length_is_the_length() {
        for size in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK * QUEUE * 2 + 3] {
            let content = vec![b'x'; size];
            let (length, sent) = body_of(&content, "a.lua").await;
            assert_eq!(length, sent.len() as u64, "{size}");
            let head = b"--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.lua\"\r\nContent-Type: application/octet-stream\r\n\r\n";
            assert!(sent.starts_with(head) && sent.ends_with(b"\r\n--B--\r\n"));
            assert_eq!(sent.len(), head.len() + size + b"\r\n--B--\r\n".len());
        }
    }

    #[tokio::test]
    async fn a_hostile_name_stays_inside_its_quotes() {
        let (_, sent) = body_of(b"", "a\"; name=\"x\r\nEvil: 1\\").await;
        let head = String::from_utf8(sent).unwrap();
        let lines: Vec<&str> = head.split("\r\n").collect();
        assert_eq!(lines[1], "Content-Disposition: form-data; name=\"file\"; filename=\"file\"");
        let (_, sent) = body_of(b"", "a\"; name=\"x\r\nEvil: 1").await;
        let head = String::from_utf8(sent).unwrap();
        assert_eq!(
            head.split("\r\n").nth(1).unwrap(),
            "Content-Disposition: form-data; name=\"file\"; filename=\"a%22; name=%22x__Evil: 1\""
        );
    }

    #[tokio::test]
    async fn a_file_that_shrinks_ends_in_an_error_not_a_short_body() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        fs::write(&path, vec![1; CHUNK * 3]).unwrap();
        let source = Source::open(&path, None).unwrap();
        fs::write(&path, b"short").unwrap();
        let body = Multipart::new(&source, "B", None, Arc::default());
        assert!(body.collect().await.is_err());
    }
}

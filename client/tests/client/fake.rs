//! The server: answers as INTERFACES §1 says until a rule or a lie tells it
//! otherwise, and remembers what it saw.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::fake_jobs::{self, Jobs};
use crate::fake_tls::{self, Pki};

pub(crate) type Body = BoxBody<Bytes, io::Error>;
pub(crate) type Answer = Response<Body>;

pub(crate) const LOGIN: &str = "ada";
pub(crate) const PASSWORD: &str = "correct horse";
/// The shape of a real token; a search for it finds every leak.
pub(crate) const TOKEN: &str = "dGhpcy1pcy10aGUtdGVzdC10b2tlbi0xMjM0NTY3ODk";

/// How long a test waits for the client to do what it must do.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) version: hyper::Version,
    /// Bytes of the body that were read.
    pub(crate) body: u64,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// What a rule has the server do in place of the right thing.
#[derive(Clone)]
pub(crate) enum Act {
    /// Answer without reading the body.
    Answer(u16, Vec<(&'static str, String)>, Bytes),
    /// Read so many bytes of the body, then drop the connection.
    Drop(u64),
    /// Do the right thing, then drop the connection in place of answering.
    LoseAnswer,
    /// Never answer.
    Hang,
    /// Answer with this much of an endless body, for as long as it is read.
    Endless(u16),
}

struct Rule {
    method: &'static str,
    path: &'static str,
    left: usize,
    act: Act,
}

#[derive(Default)]
struct State {
    jobs: Jobs,
    seen: Vec<Seen>,
    rules: VecDeque<Rule>,
    revoked: bool,
}

#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) ca_pem: String,
    shared: Arc<Shared>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Fake {
    /// Speaks HTTP/2 and HTTP/1.1.
    pub(crate) fn start() -> Self {
        Self::with(&fake_tls::pki(&["localhost", "127.0.0.1"], &["h2", "http/1.1"]))
    }

    /// Speaks HTTP/1.1 only.
    pub(crate) fn http1() -> Self {
        Self::with(&fake_tls::pki(&["localhost", "127.0.0.1"], &["http/1.1"]))
    }

    pub(crate) fn with(pki: &Pki) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        runtime.spawn(accept(
            listener,
            TlsAcceptor::from(Arc::clone(&pki.config)),
            Arc::clone(&shared),
        ));
        Self { address, ca_pem: pki.ca_pem.clone(), shared, runtime: Some(runtime) }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// The next `times` requests that match are answered by `act`.
    pub(crate) fn rule(&self, method: &'static str, path: &'static str, times: usize, act: Act) {
        self.lock().rules.push_back(Rule { method, path, left: times, act });
    }

    /// An error in the API's form for the next `times` requests that match.
    pub(crate) fn refuse(
        &self,
        (method, path): (&'static str, &'static str),
        times: usize,
        status: u16,
        code: &str,
        headers: &[(&'static str, &str)],
    ) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let body = error_body(code, "The server says no.");
        self.rule(method, path, times, Act::Answer(status, headers, body));
    }

    /// Changes how jobs behave.
    pub(crate) fn jobs<T>(&self, change: impl FnOnce(&mut Jobs) -> T) -> T {
        change(&mut self.lock().jobs)
    }

    pub(crate) fn seen(&self, method: &str, path: &str) -> Vec<Seen> {
        let matches = |seen: &&Seen| seen.method == method && seen.path.contains(path);
        self.lock().seen.iter().filter(matches).cloned().collect()
    }

    /// Blocks until `count` such requests have arrived whole or in part.
    pub(crate) fn await_seen(&self, method: &str, path: &str, count: usize) {
        let many = |state: &mut State| {
            let matches = |seen: &&Seen| seen.method == method && seen.path.contains(path);
            state.seen.iter().filter(matches).count() < count
        };
        let (_state, timeout) =
            self.shared.changed.wait_timeout_while(self.lock(), PATIENCE, many).unwrap();
        assert!(!timeout.timed_out(), "{method} {path} did not come {count} times");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Stops listening and drops all connections.
    pub(crate) fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// For the jobs' handlers: runs `change` and wakes who waits for it.
    pub(crate) fn jobs<T>(&self, change: impl FnOnce(&mut Jobs) -> T) -> T {
        let outcome = change(&mut self.state.lock().unwrap().jobs);
        self.changed.notify_all();
        outcome
    }

    fn note_body(&self, at: usize, bytes: u64) {
        self.state.lock().unwrap().seen[at].body = bytes;
        self.changed.notify_all();
    }
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (tls, shared) = (tls.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(tcp).await else { return };
            let service = service_fn(|request| handle(Arc::clone(&shared), request));
            // A connection that a rule or a client broke ends here.
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Answer> {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let (at, act) = {
        let mut state = shared.state.lock().unwrap();
        state.seen.push(Seen {
            method: method.clone(),
            path: path.clone(),
            headers: request.headers().clone(),
            version: request.version(),
            body: 0,
        });
        let rule = state
            .rules
            .iter_mut()
            .find(|rule| rule.left > 0 && rule.method == method && path.contains(rule.path));
        let act = rule.map(|rule| {
            rule.left -= 1;
            rule.act.clone()
        });
        (state.seen.len() - 1, act)
    };
    shared.changed.notify_all();
    match act {
        None => right(&shared, request, at).await,
        Some(Act::Answer(status, headers, body)) => {
            let mut answer = Response::builder().status(status);
            for (name, value) in headers {
                answer = answer.header(name, value);
            }
            Ok(answer.body(full(body)).unwrap())
        }
        Some(Act::Drop(limit)) => {
            let mut body = request.into_body();
            let mut count = 0;
            while count < limit {
                match body.frame().await {
                    Some(Ok(frame)) => {
                        count += frame.data_ref().map_or(0, |data| data.len() as u64);
                    }
                    _ => break,
                }
                shared.note_body(at, count);
            }
            Err(dropped())
        }
        Some(Act::LoseAnswer) => {
            let _ = right(&shared, request, at).await?;
            Err(dropped())
        }
        Some(Act::Hang) => std::future::pending().await,
        Some(Act::Endless(status)) => {
            let frames = futures_util::stream::repeat_with(|| {
                Ok::<_, io::Error>(Frame::data(Bytes::from_static(&[b'x'; 16384])))
            });
            Ok(Response::builder()
                .status(status)
                .body(http_body_util::BodyExt::boxed(StreamBody::new(frames)))
                .unwrap())
        }
    }
}

/// An error from the service makes hyper drop the connection or the stream.
fn dropped() -> io::Error {
    io::Error::other("dropped by a rule")
}

/// What a server that keeps INTERFACES §1 does.
async fn right(shared: &Arc<Shared>, request: Request<Incoming>, at: usize) -> io::Result<Answer> {
    let (method, path) = (request.method().as_str().to_owned(), request.uri().path().to_owned());
    if (method.as_str(), path.as_str()) == ("POST", "/api/v1/auth/token") {
        let body = request.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        if body != serde_json::json!({ "login": LOGIN, "password": PASSWORD }) {
            return Ok(error(401, "unauthenticated"));
        }
        shared.state.lock().unwrap().revoked = false;
        return Ok(json(
            200,
            &serde_json::json!({
                "token": TOKEN, "expires_at": "2030-01-01T00:00:00Z",
            }),
        ));
    }
    let bearer = request.headers().get("authorization").map(|value| value.as_bytes().to_vec());
    let valid = bearer == Some(format!("Bearer {TOKEN}").into_bytes());
    if !valid || shared.state.lock().unwrap().revoked {
        return Ok(error(401, "unauthenticated"));
    }
    match (method.as_str(), path.as_str()) {
        ("DELETE", "/api/v1/auth/token") => {
            shared.state.lock().unwrap().revoked = true;
            Ok(Response::builder().status(204).body(full(Bytes::new())).unwrap())
        }
        ("GET", "/api/v1/auth/me") => Ok(json(
            200,
            &serde_json::json!({
                "login": LOGIN, "created_at": "2026-01-01T00:00:00Z",
            }),
        )),
        ("POST", "/api/v1/jobs") => {
            let note = |bytes| shared.note_body(at, bytes);
            fake_jobs::submit(shared, request, note).await
        }
        ("GET", path) => match path.strip_prefix("/api/v1/jobs/") {
            Some(rest) => match rest.strip_suffix("/result") {
                Some(id) => Ok(fake_jobs::result(shared, id, request.headers())),
                None => Ok(fake_jobs::status(shared, rest)),
            },
            None => Ok(error(404, "not_found")),
        },
        _ => Ok(error(405, "method_not_allowed")),
    }
}

pub(crate) fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never: Infallible| match never {}).boxed()
}

pub(crate) fn json(status: u16, value: &serde_json::Value) -> Answer {
    Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(full(value.to_string().into()))
        .unwrap()
}

pub(crate) fn error_body(code: &str, message: &str) -> Bytes {
    serde_json::json!({ "error": { "code": code, "message": message } }).to_string().into()
}

pub(crate) fn error(status: u16, code: &str) -> Answer {
    let body = error_body(code, "The server says no.");
    Response::builder().status(status).body(full(body)).unwrap()
}

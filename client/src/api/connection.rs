//! The connection: TLS, trust, the token, and what a broken one means.

use std::error::Error as _;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, Method, RequestBuilder, redirect, tls};

use crate::exit::Exit;
use crate::failure::{Failure, Result, plain};
use crate::output::Output;
use crate::private;
use crate::retry::{Again, Attempt, Fault};
use crate::sanitize;
use crate::secret::Secret;
use crate::settings::Server;

/// A connection must stand after this long.
const CONNECT: Duration = Duration::from_secs(10);
/// A small question must be answered after this long.
const ANSWER: Duration = Duration::from_secs(30);
/// Bound on a CA file; the whole Mozilla bundle is a fifth of it.
const LONGEST_CA: u64 = 1 << 20;
/// HTTP/2 receive windows: enough for a fast long link, and the bound on what
/// is in memory when the disk is slower than the network.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// One server, with or without a token. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    http: Client,
    server: Server,
    bearer: Option<HeaderValue>,
    out: Output,
    /// What the user will bear at most, if that was said.
    limit: Option<Duration>,
}

impl Api {
    /// Prepares a connection; nothing is sent yet. With `ca_file`, only the
    /// authorities in it are trusted; otherwise the system's are (ARC-01).
    /// `limit` shortens how long the server may be silent.
    pub(crate) fn new(
        server: &Server,
        ca_file: Option<&Path>,
        limit: Option<Duration>,
        out: &Output,
    ) -> Result<Self> {
        // Fails only where a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("glovebox/", env!("CARGO_PKG_VERSION")))
            .https_only(true)
            .tls_version_min(tls::Version::TLS_1_2)
            // A redirect could carry the token and the file to another place.
            .redirect(redirect::Policy::none())
            .referer(false)
            .connect_timeout(CONNECT)
            .tcp_keepalive(Duration::from_secs(30))
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .pool_idle_timeout(Duration::from_mins(1));
        if let Some(path) = ca_file.filter(|path| !path.as_os_str().is_empty()) {
            builder = builder.tls_certs_only(authorities(path)?);
        }
        let http = builder.build().map_err(|error| {
            Failure::internal(format!("cannot prepare tls: {}", root_cause(&error)))
                .hint("give the server's certificate authority by --ca-file")
        })?;
        Ok(Self { http, server: server.clone(), bearer: None, out: out.clone(), limit })
    }

    /// The same connection, authenticated.
    pub(crate) fn with_token(mut self, token: &Secret) -> Result<Self> {
        let mut bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(|_| Failure::internal("the token does not fit into a header"))?;
        bearer.set_sensitive(true);
        self.bearer = Some(bearer);
        Ok(self)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn out(&self) -> &Output {
        &self.out
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut headers = HeaderMap::new();
        // Digests and ranges are over the bytes as they are.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(bearer) = &self.bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
        self.http.request(method, self.server.at(path)).headers(headers)
    }

    /// `usual`, or what the user will bear if that is less.
    pub(crate) fn bearable(&self, usual: Duration) -> Duration {
        self.limit.map_or(usual, |limit| limit.min(usual))
    }

    /// Sends a small request and waits for the head of the answer.
    pub(super) async fn send(&self, request: RequestBuilder) -> Attempt<reqwest::Response> {
        let silence = self.bearable(ANSWER);
        match tokio::time::timeout(silence, request.send()).await {
            Ok(Ok(response)) => {
                self.trace(&response);
                Ok(response)
            }
            Ok(Err(error)) => Err(self.broken(&error)),
            Err(_) => Err(self.silent(silence)),
        }
    }

    pub(super) fn trace(&self, response: &reqwest::Response) {
        self.out.detail(&format!(
            "{} answered {} over {:?}",
            response.url().path(),
            response.status().as_u16(),
            response.version()
        ));
    }

    /// A connection that failed, told apart: distrust is final, the rest may
    /// pass.
    pub(crate) fn broken(&self, error: &reqwest::Error) -> Fault {
        let name = self.server.name();
        if let Some(distrust) = distrust(error) {
            let message = format!("cannot trust the server at {name}: {distrust}");
            return Failure::new(Exit::Unreachable, "untrusted_server", message)
                .hint(
                    "give the server's own certificate authority by --ca-file or GLOVEBOX_CA_FILE",
                )
                .into();
        }
        if error.is_builder() {
            let cause = root_cause(error);
            return Failure::internal(format!("cannot form the request: {cause}")).into();
        }
        let tried = if error.is_connect() { "reach" } else { "talk to" };
        let message = format!("cannot {tried} the server at {name}: {}", root_cause(error));
        Fault { failure: unreachable(message), again: Again::Soon }
    }

    /// A server that holds the connection and says nothing.
    pub(crate) fn silent(&self, waited: Duration) -> Fault {
        let name = self.server.name();
        let message = format!("the server at {name} was silent for {} s", waited.as_secs());
        Fault { failure: unreachable(message), again: Again::Soon }
    }
}

fn unreachable(message: String) -> Failure {
    Failure::new(Exit::Unreachable, "server_unreachable", message)
        .hint("check --url and the network, then run the same command again")
}

fn authorities(path: &Path) -> Result<Vec<Certificate>> {
    let shown = sanitize::bytes(path.as_os_str().as_encoded_bytes());
    let pem = File::open(path)
        .and_then(|file| private::read_bounded(&file, LONGEST_CA))
        .map_err(|cause| Failure::io(&format!("read the ca file {shown}"), &cause))?;
    let unusable = || {
        Failure::usage(format!("cannot use the ca file {shown}: it holds no pem certificate"))
            .hint("name the certificate authority's .pem file by --ca-file")
    };
    let found = Certificate::from_pem_bundle(&pem).map_err(|_| unusable())?;
    if found.is_empty() { Err(unusable()) } else { Ok(found) }
}

/// The certificate's fault in a chain of causes, if that is what it was.
fn distrust(error: &reqwest::Error) -> Option<String> {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(rustls::Error::InvalidCertificate(why)) = tls_fault(inner) {
            return Some(certificate_fault(why));
        }
        cause = inner.source();
    }
    None
}

/// An `io::Error` names its inner error's source, not the inner error, as its
/// own source; so the chain alone would step over the one that matters.
fn tls_fault<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(fault) = cause.downcast_ref() {
        return Some(fault);
    }
    tls_fault(cause.downcast_ref::<io::Error>()?.get_ref()?)
}

fn certificate_fault(why: &rustls::CertificateError) -> String {
    use rustls::CertificateError as Fault;
    match why {
        // A bad signature is an authority of the same name with another key.
        Fault::UnknownIssuer | Fault::BadSignature => {
            "its certificate is from an unknown authority"
        }
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
            "its certificate is for another name"
        }
        Fault::Expired | Fault::ExpiredContext { .. } => "its certificate has expired",
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "its certificate is not valid yet",
        Fault::Other(_) if why.to_string().contains("CaUsedAsEndEntity") => {
            "its certificate is an authority's own, not a server's"
        }
        other => return format!("its certificate is not valid: {other}"),
    }
    .to_owned()
}

/// The innermost cause: the outer layers only repeat that something failed.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = match error.source() {
        Some(source) => source,
        None => return "the request failed".to_owned(),
    };
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<io::Error>() {
        // rustls explains itself at length here.
        Some(io) if io.kind() == io::ErrorKind::UnexpectedEof => {
            "the connection was cut".to_owned()
        }
        Some(io) => plain(io),
        None => cause.to_string(),
    }
}

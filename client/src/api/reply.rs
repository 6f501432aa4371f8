//! Answers, read with a bound and believed only as far as they make sense.

use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

use super::connection::Api;
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::retry::{Again, Attempt, Fault, retry_after};
use crate::sanitize;

/// No JSON of this API is near it; what is longer is not read (API-03: the
/// server is not trusted to bound its own errors).
const LONGEST: usize = 64 << 10;
/// Characters of a stranger's message that are shown.
const SHOWN: usize = 400;
/// A body must go on after this long.
const STALL: Duration = Duration::from_secs(30);

/// The API's error form; both keys may be missing in a stranger's answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorForm {
    error: ErrorBody,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    code: String,
    message: String,
}

/// Reads a JSON answer with one of the statuses in `expected`; everything else
/// becomes the fault it means.
pub(super) async fn read<T: DeserializeOwned>(
    api: &Api,
    response: Response,
    expected: &[StatusCode],
) -> Attempt<T> {
    if !expected.contains(&response.status()) {
        return Err(refusal(api, response).await);
    }
    let body = prefix(api, response).await?;
    serde_json::from_slice(&body)
        .map_err(|_| garbled("it is not the json this client knows").into())
}

/// Turns an answer that is no success into a fault with its exit code.
pub(super) async fn refusal(api: &Api, response: Response) -> Fault {
    let status = response.status();
    let headers = response.headers().clone();
    if status.is_redirection() {
        let message = format!("the server answered {} and points elsewhere", status.as_u16());
        return Failure::new(Exit::Usage, "redirected", message)
            .hint("redirects are not followed, the token would go along: give the final address by --url")
            .into();
    }
    // An unreadable body leaves the status, which says enough.
    let body = prefix(api, response).await.unwrap_or_default();
    interpret(status, &headers, &body)
}

fn interpret(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Fault {
    let form: ErrorForm = serde_json::from_slice(body).unwrap_or_default();
    let known_form = is_code(&form.error.code);
    let code = if known_form { form.error.code } else { format!("http_{}", status.as_u16()) };
    let (exit, hint) = exit::for_server_code(&code, status.as_u16());
    let message = match form.error.message.trim() {
        "" => format!("the server answered {} without saying why", status.as_u16()),
        said => house_style(&sanitize::bounded(said, SHOWN)),
    };
    let again = match status.as_u16() {
        // 502 and 504 are a proxy's words: the server itself has not spoken.
        429 | 502 | 503 | 504 => asked(headers),
        409 if code == "idempotency_in_flight" => asked(headers),
        _ => Again::Never,
    };
    Fault { failure: Failure::new(exit, &code, message).hint(hint), again }
}

fn asked(headers: &HeaderMap) -> Again {
    retry_after(headers).map_or(Again::Soon, Again::After)
}

/// Lower case first letter, no full stop, as all of this program's messages.
fn house_style(said: &str) -> String {
    let said = said.trim_end_matches('.');
    let mut letters = said.chars();
    match (letters.next(), letters.clone().next()) {
        // An acronym stays as it is.
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => said.to_owned(),
    }
}

fn is_code(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// An answer that is not what this API gives.
pub(super) fn garbled(why: &str) -> Failure {
    Failure::new(
        Exit::Internal,
        "answer_not_understood",
        format!("cannot use the server's answer: {why}"),
    )
    .hint("check that --url names a glovebox server of this client's release")
}

/// At most `LONGEST` bytes of the body; the rest is never received.
async fn prefix(api: &Api, mut response: Response) -> Attempt<Vec<u8>> {
    let mut body = Vec::new();
    let silence = api.bearable(STALL);
    loop {
        let chunk = match tokio::time::timeout(silence, response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(body),
            Ok(Err(error)) => return Err(api.broken(&error)),
            Err(_) => return Err(api.silent(silence)),
        };
        let room = LONGEST - body.len();
        if chunk.len() >= room {
            body.extend_from_slice(&chunk[..room]);
            return Ok(body);
        }
        body.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderValue, RETRY_AFTER};

    fn fault(status: u16, body: &str) -> Fault {
        interpret(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn the_error_form_is_read() {
        let fault =
            fault(413, r#"{"error":{"code":"too_large","message":"The file is too large."}}"#);
        assert_eq!(fault.failure.code, "too_large");
        assert_eq!(fault.failure.message, "the file is too large");
        assert_eq!(fault.failure.exit, Exit::Refused);
        assert_eq!(fault.again, Again::Never);
    }

    #[test]
    fn garbage_leaves_the_status() {
        for body in
            ["", "<html>", "{}", "[]", r#"{"error":7}"#, r#"{"error":{"code":"A\u001b[2J"}}"#]
        {
            let fault = fault(503, body);
            assert_eq!(fault.failure.code, "http_503", "{body}");
            assert_eq!(fault.failure.exit, Exit::Unreachable);
            assert_eq!(fault.again, Again::Soon);
        }
    }

    #[test]
    fn only_the_listed_answers_are_tried_again() {
        for status in 400..600 {
            let expected = matches!(status, 429 | 502 | 503 | 504);
            assert_eq!(fault(status, "").again != Again::Never, expected, "{status}");
        }
        let busy = fault(409, r#"{"error":{"code":"idempotency_in_flight","message":"m"}}"#);
        assert_eq!(busy.again, Again::Soon);
        let conflict = fault(409, r#"{"error":{"code":"conflict","message":"m"}}"#);
        assert_eq!(conflict.again, Again::Never);
    }

    #[test]
    fn retry_after_is_kept() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static("3"));
        let fault = interpret(StatusCode::TOO_MANY_REQUESTS, &headers, b"");
        assert_eq!(fault.again, Again::After(Duration::from_secs(3)));
    }

    #[test]
    fn messages_are_bounded_and_escaped() {
        let long = format!(
            r#"{{"error":{{"code":"internal","message":"\u001b[31m{}"}}}}"#,
            "x".repeat(9999)
        );
        let message = fault(500, &long).failure.message;
        assert!(message.starts_with("\\u{1b}[31m"));
        assert!(message.chars().count() < SHOWN + 20);
    }
}

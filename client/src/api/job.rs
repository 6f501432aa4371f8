//! A job as the server describes it.

use serde::Deserialize;
use uuid::Uuid;

use super::reply::garbled;
use crate::digest::Digest;
use crate::exit;
use crate::failure::{Failure, Result};
use crate::sanitize;

/// Characters of `error_detail` that are shown.
const DETAIL: usize = 500;

/// The status answer (API-05). Keys this client does not know are ignored, so
/// that an older client understands a newer server.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Answer {
    id: String,
    status: String,
    created_at: Option<String>,
    updated_at: Option<String>,
    expires_at: Option<String>,
    error_code: Option<String>,
    error_detail: Option<String>,
    sha256: Option<String>,
    size: Option<u64>,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Processing,
    Completed,
    Failed,
    /// A state of a newer server: not an end that this client knows of.
    Unknown,
}

/// A job whose answer has been checked for sense.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: Uuid,
    pub(crate) state: State,
    answer: Answer,
}

impl Job {
    /// Checks that the answer names the job that was asked for, if one was.
    pub(crate) fn check(answer: Answer, asked: Option<Uuid>) -> Result<Self> {
        let id = Uuid::try_parse(&answer.id).map_err(|_| garbled("the job has no usable id"))?;
        if asked.is_some_and(|asked| asked != id) {
            return Err(garbled("it is about another job"));
        }
        let state = match answer.status.as_str() {
            "pending" => State::Pending,
            "processing" => State::Processing,
            "completed" => State::Completed,
            "failed" => State::Failed,
            _ => State::Unknown,
        };
        Ok(Self { id, state, answer })
    }

    pub(crate) fn ended(&self) -> bool {
        matches!(self.state, State::Completed | State::Failed)
    }

    /// The server's word for the state, escaped and bounded.
    pub(crate) fn status(&self) -> String {
        sanitize::bounded(&self.answer.status, 40)
    }

    /// Size and digest of a completed job's result. Without both nothing can
    /// be checked, so their lack is a checksum failure (STO-04).
    pub(crate) fn announced(&self) -> Result<(u64, Digest)> {
        let digest = self.answer.sha256.as_deref().and_then(Digest::from_hex);
        match (self.answer.size, digest) {
            (Some(size), Some(digest)) => Ok((size, digest)),
            _ => Err(Failure::checksum("the server did not say the result's size and sha-256")
                .hint("the result cannot be checked and was not fetched: tell the operator")),
        }
    }

    /// For a failed job, why, and whose fault it is.
    pub(crate) fn failure(&self) -> Failure {
        let code = self.answer.error_code.as_deref().unwrap_or("");
        let (exit, says, hint) = exit::for_job_code(code);
        let mut message = format!("job {} failed: {says}", self.id);
        if let Some(detail) = self.detail() {
            message.push_str(": ");
            message.push_str(&detail);
        }
        let code =
            if code.is_empty() { "job_failed".to_owned() } else { sanitize::bounded(code, 64) };
        Failure::new(exit, &code, message).hint(hint)
    }

    fn detail(&self) -> Option<String> {
        let detail = self.answer.error_detail.as_deref()?.trim();
        (!detail.is_empty()).then(|| sanitize::bounded(detail, DETAIL))
    }

    /// The object of `--json`; `file` is this client's own knowledge.
    pub(crate) fn object(&self, file: Option<&str>) -> serde_json::Value {
        let answer = &self.answer;
        let mut object = serde_json::Map::new();
        object.insert("id".to_owned(), self.id.to_string().into());
        object.insert("status".to_owned(), answer.status.clone().into());
        let texts = [
            ("file", file),
            ("created_at", answer.created_at.as_deref()),
            ("updated_at", answer.updated_at.as_deref()),
            ("expires_at", answer.expires_at.as_deref()),
            ("error_code", answer.error_code.as_deref()),
            ("error_detail", answer.error_detail.as_deref()),
            ("sha256", answer.sha256.as_deref()),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                object.insert(key.to_owned(), text.into());
            }
        }
        if let Some(size) = answer.size {
            object.insert("size".to_owned(), size.into());
        }
        object.into()
    }

    /// The same for people: a name and a value a line.
    pub(crate) fn table(&self, file: Option<&str>) -> Vec<(&'static str, String)> {
        let answer = &self.answer;
        let mut rows = vec![("id", self.id.to_string()), ("status", self.status())];
        let mut push = |name, text: Option<&str>| {
            if let Some(text) = text {
                rows.push((name, sanitize::bounded(text, 200)));
            }
        };
        push("file", file);
        push("created", answer.created_at.as_deref());
        push("updated", answer.updated_at.as_deref());
        push("expires", answer.expires_at.as_deref());
        push("sha256", answer.sha256.as_deref());
        push("size", answer.size.map(crate::output::size).as_deref());
        if self.state == State::Failed {
            let failure = self.failure();
            rows.push(("error", failure.code.clone()));
            rows.push(("reason", failure.message));
            if let Some(hint) = failure.hint {
                rows.push(("hint", hint));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    fn job(extra: &str) -> Job {
        let text = format!(r#"{{"id":"{ID}"{extra}}}"#);
        Job::check(serde_json::from_str(&text).unwrap(), None).unwrap()
    }

    #[test]
    fn invalid_input_says_where() {
        let failure = job(
            r#","status":"failed","error_code":"invalid_input","error_detail":"line 3, column 7: unexpected symbol""#,
        )
        .failure();
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(
            failure.message,
            format!(
                "job {ID} failed: the file is not valid input: line 3, column 7: unexpected symbol"
            )
        );
        assert_eq!(failure.hint.as_deref(), Some("mend the file and submit it again"));
    }

    #[test]
    fn a_failure_without_a_code_is_not_the_users_fault() {
        let failure = job(r#","status":"failed""#).failure();
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Infrastructure, "job_failed"));
    }

    #[test]
    fn a_strange_state_is_not_an_end() {
        let job = job(r#","status":"paused\u001b[2J","new_key":[1]"#);
        assert_eq!(job.state, State::Unknown);
        assert!(!job.ended());
        assert_eq!(job.status(), "paused\\u{1b}[2J");
    }

    #[test]
    fn a_result_without_a_digest_cannot_be_checked() {
        for extra in [
            r#","status":"completed","size":3"#,
            r#","status":"completed","size":3,"sha256":"zz""#,
            r#","status":"completed","sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad""#,
        ] {
            assert_eq!(job(extra).announced().unwrap_err().exit, Exit::Checksum);
        }
    }

    #[test]
    fn another_jobs_answer_is_refused() {
        let answer: Answer =
            serde_json::from_str(&format!(r#"{{"id":"{ID}","status":"pending"}}"#)).unwrap();
        assert!(Job::check(answer.clone(), Some(Uuid::nil())).is_err());
        assert!(Job::check(answer, Uuid::try_parse(ID).ok()).is_ok());
        let answer = serde_json::from_str(r#"{"id":"../../x","status":"pending"}"#).unwrap();
        assert!(Job::check(answer, None).is_err());
    }
}

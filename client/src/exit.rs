//! Exit codes, and the one table that leads to them.
//!
//! Scripts read the code, people read the text: both come from the two tables
//! below, one for what the HTTP API answers and one for how a job may end. A
//! code that neither table knows (a newer server) falls back to what the HTTP
//! status, or the code's prefix, says; it never falls back to success.

use std::process::ExitCode;

/// How the process ends. The numbers are a public interface (API-07): scripts
/// branch on them, so none may change its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The command did what was asked.
    Ok = 0,
    /// A fault of this program or of the server that no other code describes.
    Internal = 1,
    /// The command line, the configuration or the named object is wrong.
    Usage = 2,
    /// No token, or one that the server does not take.
    Authentication = 3,
    /// The file was refused, or is not valid input: sending it again is no use.
    Refused = 4,
    /// The job failed through infrastructure: the file may be fine.
    Infrastructure = 5,
    /// The server cannot be reached.
    Unreachable = 6,
    /// The bytes received are not the bytes announced.
    Checksum = 7,
    /// Over a limit, or too early: the same command may work later.
    TryLater = 8,
    /// Stopped by Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// The number the shell sees.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// A code of the API's error form, and what a person can do about it.
pub(crate) struct ServerCode {
    pub(crate) code: &'static str,
    pub(crate) exit: Exit,
    pub(crate) hint: &'static str,
}

/// Every code of the public API (INTERFACES §1).
pub(crate) const SERVER_CODES: &[ServerCode] = &[
    row("unauthenticated", Exit::Authentication, "log in with 'glovebox login'"),
    row("not_found", Exit::Usage, "check the id; 'glovebox jobs' lists the ids this client knows"),
    row("method_not_allowed", Exit::Internal, "check that client and server are of one release"),
    row("job_not_completed", Exit::TryLater, "wait for it with 'glovebox wait ID'"),
    row("idempotency_in_flight", Exit::TryLater, "run the same command again in a moment"),
    row("conflict", Exit::Internal, "look at the job with 'glovebox status ID' and try again"),
    row(
        "result_expired",
        Exit::Usage,
        "submit the file again: results are kept for a limited time",
    ),
    row("too_large", Exit::Refused, "send a smaller file, or ask the operator for the limit"),
    row("unsupported_media_type", Exit::Refused, "send a file of the kind this server processes"),
    row("range_not_satisfiable", Exit::Internal, "run the command again with --force"),
    row(
        "idempotency_mismatch",
        Exit::Refused,
        "run the command again with --no-resume to make a new job",
    ),
    row("invalid_request", Exit::Refused, "check that the file is not being written to"),
    row("rate_limited", Exit::TryLater, "wait a little, then run the same command again"),
    row(
        "limit_exceeded",
        Exit::TryLater,
        "let running jobs finish, then run the same command again",
    ),
    row("overloaded", Exit::TryLater, "the server is busy: run the same command again later"),
    row(
        "unavailable",
        Exit::Unreachable,
        "the server is not ready: run the same command again later",
    ),
    row("insufficient_storage", Exit::TryLater, "the server's disk is full: tell the operator"),
    row("internal", Exit::Internal, "run the same command again; if it stays, tell the operator"),
];

const fn row(code: &'static str, exit: Exit, hint: &'static str) -> ServerCode {
    ServerCode { code, exit, hint }
}

/// Looks an API error up, by its code first and by its HTTP status where the
/// code is new to this client or missing.
pub(crate) fn for_server_code(code: &str, http_status: u16) -> (Exit, &'static str) {
    if let Some(known) = SERVER_CODES.iter().find(|row| row.code == code) {
        return (known.exit, known.hint);
    }
    match http_status {
        401 | 403 => (Exit::Authentication, "log in with 'glovebox login'"),
        404 | 410 => (Exit::Usage, "check the id and the address given by --url"),
        400 | 413 | 415 | 422 => (Exit::Refused, "check the file; the server does not take it"),
        408 | 425 | 429 | 507 => (Exit::TryLater, "run the same command again later"),
        502..=504 => {
            (Exit::Unreachable, "the server is not ready: run the same command again later")
        }
        _ => (Exit::Internal, "check that --url names a glovebox server of this client's release"),
    }
}

/// A code with which a job may end, in words for its owner.
pub(crate) struct JobCode {
    pub(crate) code: &'static str,
    pub(crate) exit: Exit,
    /// Completes the sentence "job ID failed: …".
    pub(crate) says: &'static str,
    pub(crate) hint: &'static str,
}

const MEND_FILE: &str = "mend the file and submit it again";
const AGAIN: &str = "submit the file again; if it stays, tell the operator the job's id";
const REPORT: &str = "tell the operator the job's id: the fault is not in your file";

/// Every code of a failed job (DESIGN §2). Infrastructure faults never read as
/// the user's fault, nor the reverse.
pub(crate) const JOB_CODES: &[JobCode] = &[
    job("invalid_input", Exit::Refused, "the file is not valid input", MEND_FILE),
    job(
        "output_too_large",
        Exit::Refused,
        "the result would be larger than the server allows",
        "send a smaller file",
    ),
    job(
        "rejected_unsupported_type",
        Exit::Refused,
        "the file is of a type that the server does not process",
        "send a file of the kind this server processes",
    ),
    job(
        "rejected_too_large",
        Exit::Refused,
        "the file is larger than the server allows",
        "send a smaller file",
    ),
    job(
        "rejected_malicious_content",
        Exit::Refused,
        "the scanner found malicious content in the file",
        "do not open the file; ask your security team",
    ),
    job("out_of_memory", Exit::Infrastructure, "the run needed more memory than it may use", AGAIN),
    job("timeout", Exit::Infrastructure, "the run took longer than it may", AGAIN),
    job("core_error", Exit::Infrastructure, "the processing program reported an error", REPORT),
    job("core_crashed", Exit::Infrastructure, "the processing program crashed", REPORT),
    job(
        "core_forbidden_call",
        Exit::Infrastructure,
        "the processing program tried something the sandbox forbids",
        REPORT,
    ),
    job(
        "output_invalid",
        Exit::Infrastructure,
        "the processing program left no valid result",
        REPORT,
    ),
    job("sandbox_failure", Exit::Infrastructure, "the sandbox could not run the job", AGAIN),
    job("worker_lost", Exit::Infrastructure, "the worker was lost while it ran the job", AGAIN),
    job("worker_shutdown", Exit::Infrastructure, "the worker was stopped too many times", AGAIN),
    job("attempts_exhausted", Exit::Infrastructure, "no attempt came to an end", AGAIN),
];

const fn job(code: &'static str, exit: Exit, says: &'static str, hint: &'static str) -> JobCode {
    JobCode { code, exit, says, hint }
}

/// Looks the end of a job up. An unknown `rejected_*` is still the file's
/// fault; any other unknown code is not blamed on the file.
pub(crate) fn for_job_code(code: &str) -> (Exit, &'static str, &'static str) {
    if let Some(known) = JOB_CODES.iter().find(|row| row.code == code) {
        return (known.exit, known.says, known.hint);
    }
    if code.starts_with("rejected_") {
        return (Exit::Refused, "the server rejected the file", MEND_FILE);
    }
    (Exit::Infrastructure, "the server gave a reason this client does not know", AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_public_ones() {
        let all = [
            (Exit::Ok, 0),
            (Exit::Internal, 1),
            (Exit::Usage, 2),
            (Exit::Authentication, 3),
            (Exit::Refused, 4),
            (Exit::Infrastructure, 5),
            (Exit::Unreachable, 6),
            (Exit::Checksum, 7),
            (Exit::TryLater, 8),
            (Exit::Interrupted, 130),
        ];
        for (exit, number) in all {
            assert_eq!(exit.number(), number, "{exit:?}");
        }
    }

    /// The list of INTERFACES §1, written out a second time on purpose: a code
    /// dropped from the table must be missed here.
    #[test]
    fn every_server_code_has_its_exit() {
        let expected = [
            ("unauthenticated", 401, Exit::Authentication),
            ("not_found", 404, Exit::Usage),
            ("method_not_allowed", 405, Exit::Internal),
            ("job_not_completed", 409, Exit::TryLater),
            ("idempotency_in_flight", 409, Exit::TryLater),
            ("conflict", 409, Exit::Internal),
            ("result_expired", 410, Exit::Usage),
            ("too_large", 413, Exit::Refused),
            ("unsupported_media_type", 415, Exit::Refused),
            ("range_not_satisfiable", 416, Exit::Internal),
            ("idempotency_mismatch", 422, Exit::Refused),
            ("invalid_request", 400, Exit::Refused),
            ("rate_limited", 429, Exit::TryLater),
            ("limit_exceeded", 429, Exit::TryLater),
            ("overloaded", 503, Exit::TryLater),
            ("unavailable", 503, Exit::Unreachable),
            ("insufficient_storage", 507, Exit::TryLater),
            ("internal", 500, Exit::Internal),
        ];
        assert_eq!(expected.len(), SERVER_CODES.len());
        for (code, status, exit) in expected {
            assert!(SERVER_CODES.iter().any(|row| row.code == code), "{code} is not in the table");
            assert_eq!(for_server_code(code, status).0, exit, "{code}");
        }
    }

    #[test]
    fn every_job_code_has_its_exit() {
        let expected = [
            ("invalid_input", Exit::Refused),
            ("output_too_large", Exit::Refused),
            ("rejected_unsupported_type", Exit::Refused),
            ("rejected_too_large", Exit::Refused),
            ("rejected_malicious_content", Exit::Refused),
            ("out_of_memory", Exit::Infrastructure),
            ("timeout", Exit::Infrastructure),
            ("core_error", Exit::Infrastructure),
            ("core_crashed", Exit::Infrastructure),
            ("core_forbidden_call", Exit::Infrastructure),
            ("output_invalid", Exit::Infrastructure),
            ("sandbox_failure", Exit::Infrastructure),
            ("worker_lost", Exit::Infrastructure),
            ("worker_shutdown", Exit::Infrastructure),
            ("attempts_exhausted", Exit::Infrastructure),
        ];
        assert_eq!(expected.len(), JOB_CODES.len());
        for (code, exit) in expected {
            assert!(JOB_CODES.iter().any(|row| row.code == code), "{code} is not in the table");
            assert_eq!(for_job_code(code).0, exit, "{code}");
        }
    }

    #[test]
    fn unknown_codes_degrade_by_status_and_prefix() {
        assert_eq!(for_server_code("brand_new", 401).0, Exit::Authentication);
        assert_eq!(for_server_code("brand_new", 404).0, Exit::Usage);
        assert_eq!(for_server_code("brand_new", 422).0, Exit::Refused);
        assert_eq!(for_server_code("brand_new", 429).0, Exit::TryLater);
        assert_eq!(for_server_code("", 503).0, Exit::Unreachable);
        assert_eq!(for_server_code("", 418).0, Exit::Internal);
        assert_eq!(for_job_code("rejected_for_style").0, Exit::Refused);
        assert_eq!(for_job_code("moon_phase").0, Exit::Infrastructure);
        assert_eq!(for_job_code("").0, Exit::Infrastructure);
    }

    #[test]
    fn no_failure_leads_to_success() {
        for status in 300..600 {
            assert_ne!(for_server_code("brand_new", status).0, Exit::Ok, "{status}");
        }
    }

    #[test]
    fn texts_follow_the_house_rules() {
        let texts = JOB_CODES
            .iter()
            .flat_map(|row| [row.says, row.hint])
            .chain(SERVER_CODES.iter().map(|row| row.hint));
        for text in texts {
            assert!(!text.is_empty() && !text.ends_with('.'), "{text}");
            assert!(text.starts_with(|first: char| first.is_lowercase()), "{text}");
        }
    }
}

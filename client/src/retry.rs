//! When to try again, and when to stop.
//!
//! Exponential backoff with jitter from 250 ms to 15 s, never shorter than the
//! server's `Retry-After`. Patience runs out when a request has met nothing
//! but failures for its whole limit, or when the server asks for a longer
//! pause than is left.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(15);
/// Pauses from here on are told without being asked.
const TOLD: Duration = Duration::from_secs(1);

/// Whether one failed try may be followed by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// The answer is final.
    Never,
    /// After the backoff's own pause.
    Soon,
    /// Not before this long.
    After(Duration),
}

/// One failed try.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) failure: Failure,
    pub(crate) again: Again,
}

/// What one try returns.
pub(crate) type Attempt<T> = std::result::Result<T, Fault>;

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self { failure, again: Again::Never }
    }
}

/// How long, and how often already, a request has been failing.
pub(crate) struct Patience {
    limit: Duration,
    since: Instant,
    pauses: u32,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, since: Instant::now(), pauses: 0 }
    }

    /// Something was achieved: count failures from here.
    pub(crate) fn renew(&mut self) {
        self.since = Instant::now();
        self.pauses = 0;
    }

    /// Pauses before the next try, or gives the failure back when there
    /// should be none.
    pub(crate) async fn pause(&mut self, out: &Output, fault: Fault) -> Result<()> {
        let pause = match fault.again {
            Again::Never => return Err(fault.failure),
            Again::Soon => jittered(backoff(self.pauses)),
            Again::After(asked) => asked.saturating_add(jittered(FIRST)),
        };
        let left = self.limit.saturating_sub(self.since.elapsed());
        if pause > left {
            return Err(exhausted(fault, left));
        }
        self.pauses += 1;
        let told = format!("{}; trying again in {:.1} s", fault.failure, pause.as_secs_f64());
        // A short pause needs no words; a long one would look like a hang.
        if pause < TOLD {
            out.detail(&told);
        } else {
            out.note(&told);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Runs `attempt` until it succeeds, fails for good or patience runs out.
pub(crate) async fn run<T>(
    limit: Duration,
    out: &Output,
    mut attempt: impl AsyncFnMut() -> Attempt<T>,
) -> Result<T> {
    let mut patience = Patience::new(limit);
    loop {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(fault) => patience.pause(out, fault).await?,
        }
    }
}

/// Says how long the server asked to wait, where that is why we stop.
fn exhausted(fault: Fault, left: Duration) -> Failure {
    match fault.again {
        Again::After(asked) if asked > left && fault.failure.exit != Exit::Unreachable => {
            let seconds = asked.as_secs().max(1);
            fault.failure.hint(format!("run the same command again in {seconds} s"))
        }
        _ => fault.failure,
    }
}

fn backoff(pauses: u32) -> Duration {
    FIRST.saturating_mul(1 << pauses.min(10)).min(LONGEST)
}

/// Half to all of `pause`, so that many clients do not come back at once.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Reads `Retry-After`, in seconds or as a date. Nonsense counts as absent.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some(Duration::from_secs(u64::from(u32::MAX))); // too many digits still means later
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn header(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(header("7"), Some(Duration::from_secs(7)));
        assert_eq!(header("0"), Some(Duration::ZERO));
        assert_eq!(header("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        let ahead = httpdate::fmt_http_date(SystemTime::now() + Duration::from_mins(1));
        let pause = header(&ahead).unwrap();
        assert!(pause > Duration::from_secs(50) && pause <= Duration::from_mins(1));
        assert_eq!(header("99999999999999999999"), Some(Duration::from_secs(u64::from(u32::MAX))));
        for wrong in ["", "-1", "soon", "1.5"] {
            assert_eq!(header(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn backoff_grows_to_a_ceiling() {
        assert_eq!(backoff(0), FIRST);
        assert_eq!(backoff(2), FIRST * 4);
        assert_eq!(backoff(40), LONGEST);
        for _ in 0..100 {
            let pause = jittered(LONGEST);
            assert!(pause >= LONGEST / 2 && pause <= LONGEST);
        }
    }

    #[test]
    fn a_pause_beyond_patience_is_refused_with_the_time() {
        let failure = Failure::new(Exit::TryLater, "rate_limited", "x");
        let fault = Fault { failure, again: Again::After(Duration::from_secs(90)) };
        let failure = exhausted(fault, Duration::from_secs(10));
        assert_eq!(failure.hint.as_deref(), Some("run the same command again in 90 s"));
    }
}

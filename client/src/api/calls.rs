//! The small calls: one function an endpoint. Uploads and downloads, which
//! move files, are in `transfer`.

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use uuid::Uuid;

use super::connection::Api;
use super::job::{Answer, Job};
use super::reply;
use crate::failure::Failure;
use crate::retry::Attempt;
use crate::secret::Secret;

/// A fresh token and when it ends, as the server says it.
pub(crate) struct Session {
    pub(crate) token: Secret,
    pub(crate) expires_at: Option<String>,
}

/// Who the token belongs to.
#[derive(Deserialize)]
pub(crate) struct Me {
    pub(crate) login: String,
    pub(crate) created_at: Option<String>,
}

impl Api {
    /// `POST /api/v1/auth/token`
    pub(crate) async fn log_in(&self, login: &str, password: &Secret) -> Attempt<Session> {
        #[derive(Deserialize)]
        struct Wire {
            token: String,
            expires_at: Option<String>,
        }
        let body = serde_json::json!({ "login": login, "password": password.expose() });
        let request = self
            .request(Method::POST, "api/v1/auth/token")
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        let response = self.send(request).await?;
        let wire: Wire = reply::read(self, response, &[StatusCode::OK]).await?;
        if wire.token.is_empty()
            || wire.token.len() > 512
            || !wire.token.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(reply::garbled("it holds no usable token").into());
        }
        Ok(Session { token: Secret::new(wire.token), expires_at: wire.expires_at })
    }

    /// `DELETE /api/v1/auth/token`: revokes the presented token.
    pub(crate) async fn log_out(&self) -> Attempt<()> {
        let response = self.send(self.request(Method::DELETE, "api/v1/auth/token")).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(());
        }
        Err(reply::refusal(self, response).await)
    }

    /// `GET /api/v1/auth/me`
    pub(crate) async fn me(&self) -> Attempt<Me> {
        let response = self.send(self.request(Method::GET, "api/v1/auth/me")).await?;
        reply::read(self, response, &[StatusCode::OK]).await
    }

    /// `GET /api/v1/jobs/{id}`
    pub(crate) async fn job(&self, id: Uuid) -> Attempt<Job> {
        let path = format!("api/v1/jobs/{}", id.hyphenated());
        let response = self.send(self.request(Method::GET, &path)).await?;
        let answer: Answer = reply::read(self, response, &[StatusCode::OK]).await?;
        Ok(Job::check(answer, Some(id))?)
    }

    /// The answer to `POST /api/v1/jobs`, whose body `transfer::upload` sent:
    /// 201 for a new job, 200 for the job an earlier try has made.
    pub(crate) async fn submitted(&self, response: reqwest::Response) -> Attempt<Job> {
        self.trace(&response);
        let expected = [StatusCode::CREATED, StatusCode::OK];
        let answer: Answer = reply::read(self, response, &expected).await?;
        Ok(Job::check(answer, None)?)
    }

    /// The request that `transfer::upload` gives a body.
    pub(crate) fn submission(&self) -> reqwest::RequestBuilder {
        self.request(Method::POST, "api/v1/jobs")
    }

    /// `GET /api/v1/jobs/{id}/result`: the head of the answer; `transfer`
    /// reads the body. `range` is an offset and the ETag it is valid for.
    pub(crate) async fn result(
        &self,
        id: Uuid,
        range: Option<(u64, &str)>,
    ) -> Attempt<reqwest::Response> {
        use reqwest::header::{IF_RANGE, RANGE};
        let path = format!("api/v1/jobs/{}/result", id.hyphenated());
        let mut request = self.request(Method::GET, &path);
        if let Some((offset, etag)) = range {
            request = request.header(RANGE, format!("bytes={offset}-")).header(IF_RANGE, etag);
        }
        self.send(request).await
    }

    /// What an answer to `result` means that is not a result.
    pub(crate) async fn no_result(&self, response: reqwest::Response) -> crate::retry::Fault {
        reply::refusal(self, response).await
    }

    /// An answer to `result` that contradicts itself.
    pub(crate) fn odd_result(why: &str) -> Failure {
        reply::garbled(why)
    }
}

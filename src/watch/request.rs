//! The two requests of a watch, and what can go wrong with them.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::api::{ListParams, WatchParams};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::collection::Collection;
use super::wire::{Text, or_default};

/// Of an answer that says what is wrong not more than this is read.
const LONGEST_COMPLAINT: usize = 64 << 10;

/// Retry-After is honoured up to this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(5);

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    /// Not sent, or no answer came, or not all of it.
    #[error("no answer from the API server: {0}")]
    Transport(String),
    /// No answer in time.
    #[error("no answer from the API server within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The answer is a refusal.
    #[error("the API server answered {status}{}{message}", separator(.message))]
    Status {
        /// HTTP status.
        status: StatusCode,
        /// What the server says of it.
        message: String,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The answer is no list.
    #[error("the API server's answer is no list: {0}")]
    NoList(serde_json::Error),
    /// A list from which nothing can be watched.
    #[error("the API server's list has no resourceVersion")]
    NoResourceVersion,
}

fn separator(message: &str) -> &'static str {
    if message.is_empty() { "" } else { ": " }
}

impl RequestError {
    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// One page of a list, borrowed from the answer.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Page<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) metadata: ListMetadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) items: Vec<&'a RawValue>,
}

/// What is read of a list's `metadata`.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMetadata<'a> {
    #[serde(borrow)]
    pub(super) resource_version: Text<'a>,
    #[serde(borrow)]
    pub(super) r#continue: Text<'a>,
    pub(super) remaining_item_count: Option<usize>,
}

/// One line of a watch, borrowed from the answer.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub(super) r#type: Text<'a>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// What is read of a `Status`.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Status {
    #[serde(deserialize_with = "or_default")]
    pub(super) code: u16,
    #[serde(deserialize_with = "or_default")]
    pub(super) message: String,
    #[serde(deserialize_with = "or_default")]
    details: StatusDetails,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct StatusDetails {
    #[serde(deserialize_with = "or_default")]
    retry_after_seconds: u64,
}

impl Status {
    /// The failure that a `Status` reports.
    pub(super) fn error(self, status: StatusCode) -> RequestError {
        let seconds = self.details.retry_after_seconds;
        RequestError::Status {
            status,
            message: self.message,
            retry_after: (seconds > 0)
                .then(|| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER)),
        }
    }
}

/// The chunks of a watch's answer; an error is said as text.
pub(super) type Chunks = BoxStream<'static, Result<bytes::Bytes, String>>;

/// Sends the requests of one collection.
pub(super) struct Requests {
    pub(super) client: Client,
    pub(super) collection: Collection,
    /// Longest time for a page, and for the head of a watch's answer.
    pub(super) patience: Duration,
}

impl Requests {
    fn path(&self, version: &str) -> String {
        let Collection { group, plural, .. } = self.collection;
        if group.is_empty() {
            format!("/api/{version}/{plural}")
        } else {
            format!("/apis/{group}/{version}/{plural}")
        }
    }

    /// Gets a page of a consistent list into `body`, which is emptied first.
    pub(super) async fn page(
        &self,
        version: &str,
        token: Option<String>,
        body: &mut Vec<u8>,
    ) -> Result<(), RequestError> {
        // No resourceVersion: the newest state, not whatever a cache holds.
        let parameters = ListParams {
            label_selector: self.collection.selector.map(str::to_owned),
            limit: Some(self.collection.page),
            continue_token: token,
            ..ListParams::default()
        };
        let request = kube::core::Request::new(self.path(version))
            .list(&parameters)
            .map_err(|error| RequestError::Transport(error.to_string()))?;
        let read = async {
            let mut chunks = self.send(request).await?;
            body.clear();
            while let Some(chunk) = chunks.next().await {
                body.extend_from_slice(&chunk.map_err(RequestError::Transport)?);
            }
            Ok(())
        };
        timeout(self.patience, read)
            .await
            .unwrap_or(Err(RequestError::Timeout(self.patience)))
    }

    /// Opens a watch from `resource_version` on that the server closes after `seconds`.
    pub(super) async fn watch(
        &self,
        version: &str,
        resource_version: &str,
        seconds: u32,
    ) -> Result<Chunks, RequestError> {
        let parameters = WatchParams {
            label_selector: self.collection.selector.map(str::to_owned),
            timeout: Some(seconds),
            bookmarks: true,
            ..WatchParams::default()
        };
        let mut request = kube::core::Request::new(self.path(version))
            .watch(&parameters, resource_version)
            .map_err(|error| RequestError::Transport(error.to_string()))?;
        // Events come one by one and at once, not when a compressor has enough of them.
        request.headers_mut().insert(
            header::ACCEPT_ENCODING,
            header::HeaderValue::from_static("identity"),
        );
        timeout(self.patience, self.send(request))
            .await
            .unwrap_or(Err(RequestError::Timeout(self.patience)))
    }

    async fn send(&self, request: Request<Vec<u8>>) -> Result<Chunks, RequestError> {
        let answer = self
            .client
            .send(request.map(kube::client::Body::from))
            .await
            .map_err(|error| RequestError::Transport(chain(&error)))?;
        let status = answer.status();
        let seconds = answer
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
        let mut chunks = answer
            .into_body()
            .into_data_stream()
            .map(|chunk| chunk.map_err(|error| chain(&error)))
            .boxed();
        if status.is_success() {
            return Ok(chunks);
        }
        let mut complaint = Vec::new();
        while let Some(Ok(chunk)) = chunks.next().await {
            complaint.extend_from_slice(&chunk);
            if complaint.len() > LONGEST_COMPLAINT {
                break;
            }
        }
        let said = serde_json::from_slice(&complaint).unwrap_or_else(|_| Status {
            message: plain(&complaint),
            ..Status::default()
        });
        let mut error = said.error(status);
        if let RequestError::Status { retry_after, .. } = &mut error
            && let Some(seconds) = seconds
        {
            *retry_after = Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER));
        }
        Err(error)
    }
}

/// An answer that is no `Status`, as one short line.
fn plain(complaint: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaint);
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

/// An error and what caused it, as one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Some errors already say what caused them.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

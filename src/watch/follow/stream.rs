//! Reads watches: what is said on them line by line, and how they end.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::{Reason, State, Step, Watch};
use crate::model::Update;
use crate::watch::collection::Kind;
use crate::watch::lines::Lines;
use crate::watch::request::{Chunks, Event, RequestError, Status};
use crate::watch::wire::Named;

/// A watch that was open for so long has worked, even if nothing happened on it.
const SETTLED: Duration = Duration::from_secs(5);

/// A deleted object that could not be read is taken out of the state by a list, so long after.
const RELIST_AFTER_UNREAD_DELETION: Duration = Duration::from_secs(5);

/// How a watch's answer ended.
enum End {
    /// As a watch ends.
    Closed,
    /// In the middle.
    Broken(String),
    /// Its resourceVersion is too old.
    Expired,
    /// With an error that the server reports.
    Refused(RequestError),
    /// Not at all, but it was not heard from.
    Silent,
    /// A list is due.
    Relist,
}

/// What one line of a watch's answer led to.
enum Heard {
    /// Go on; everything up to this resourceVersion was delivered.
    UpTo(Arc<str>),
    /// Go on, and list soon: an object is gone and it is not known which.
    Gone(Arc<str>),
    /// Nothing comes after it.
    End(End),
}

impl<K: Kind> Watch<K> {
    /// One watch, and what follows from its end.
    pub(super) async fn watch(&mut self, from: Arc<str>) -> Step<State> {
        let timeout = self.feed.options.watch_timeout;
        let timeout = timeout.mul_f64(1.0 - fastrand::f64() / 10.0);
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let version = self.version_name();
        let chunks = match self.requests.watch(version, &from, seconds).await {
            Ok(chunks) => chunks,
            Err(error) => {
                return match error.status() {
                    Some(StatusCode::GONE) => {
                        self.restart(Reason::Expired).await;
                        Ok(State::Listing)
                    }
                    Some(StatusCode::NOT_FOUND) if K::COLLECTION.custom => {
                        // The list that follows finds out what is missing, and says so.
                        self.pause().await;
                        Ok(State::Listing)
                    }
                    _ => self.fail("watch", &error).await,
                };
            }
        };
        let opened = Instant::now();
        let (from, end) = self.stream(chunks, from).await?;
        if opened.elapsed() >= SETTLED && !matches!(end, End::Silent) {
            self.settled();
        }
        match end {
            End::Closed => {
                self.restart(Reason::Closed).await;
                Ok(State::Watching(from))
            }
            End::Broken(what) => {
                let error = RequestError::Transport(what);
                if self.unsettled {
                    return self.fail("watch", &error).await;
                }
                tracing::debug!(watch = K::SOURCE.name(), %error, "the watch broke off");
                self.restart(Reason::Error).await;
                Ok(State::Watching(from))
            }
            End::Expired => {
                self.restart(Reason::Expired).await;
                Ok(State::Listing)
            }
            End::Refused(error) => self.fail("watch", &error).await,
            End::Silent => {
                let silence = self.feed.options.silence.as_secs();
                self.failed(format!("not heard from for {silence} s"))
                    .await?;
                self.restart(Reason::Silent).await;
                Ok(State::Listing)
            }
            End::Relist => {
                self.restart(Reason::Error).await;
                Ok(State::Listing)
            }
        }
    }

    /// Delivers what a watch says until it ends. Returns up to where all was delivered.
    async fn stream(&mut self, mut chunks: Chunks, mut from: Arc<str>) -> Step<(Arc<str>, End)> {
        let mut lines = Lines::default();
        let mut heard_at = Instant::now();
        let mut relist_at: Option<Instant> = None;
        let end = loop {
            while let Some(line) = lines.next() {
                match self.line(line, &from).await? {
                    Heard::UpTo(version) => from = version,
                    Heard::Gone(version) => {
                        from = version;
                        let soon = Instant::now() + RELIST_AFTER_UNREAD_DELETION;
                        relist_at.get_or_insert(soon);
                    }
                    Heard::End(end) => return Ok((from, end)),
                }
                // Not before: the time that the receiver took is not the server's silence.
                heard_at = Instant::now();
            }
            if relist_at.is_some_and(|at| at <= Instant::now()) {
                break End::Relist;
            }
            let silent_at = heard_at + self.feed.options.silence;
            let until = relist_at.map_or(silent_at, |at| at.min(silent_at));
            match timeout_at(until, chunks.next()).await {
                Ok(Some(Ok(chunk))) => {
                    if let Err(error) = lines.push(&chunk) {
                        break End::Broken(error.to_string());
                    }
                }
                Ok(Some(Err(error))) => break End::Broken(error),
                Ok(None) if relist_at.is_some() => break End::Relist,
                Ok(None) if lines.half() => {
                    break End::Broken("the answer ends in the middle of an event".to_owned());
                }
                Ok(None) => break End::Closed,
                // The top of the loop sees whether a list is due.
                Err(_) if until < silent_at => {}
                Err(_) => break End::Silent,
            }
        };
        Ok((from, end))
    }

    /// Delivers what one line of a watch says.
    async fn line(&mut self, line: &[u8], from: &Arc<str>) -> Step<Heard> {
        if line.trim_ascii().is_empty() {
            return Ok(Heard::UpTo(from.clone()));
        }
        let event: Event<'_> = match serde_json::from_slice(line) {
            Ok(event) => event,
            Err(error) => {
                let what = format!("an event cannot be read: {error}");
                return Ok(Heard::End(End::Broken(what)));
            }
        };
        let seen = self.feed.clock.now();
        let json = event.object.get();
        let gone = event.r#type.get() == "DELETED";
        match event.r#type.get() {
            "ERROR" => return Ok(Heard::End(reported(json))),
            "ADDED" | "MODIFIED" | "DELETED" => match self.kind.decode(json) {
                Ok(decoded) => {
                    let object = decoded.object;
                    let resource_version = decoded.resource_version;
                    let version = if resource_version.is_empty() {
                        from.clone()
                    } else {
                        resource_version.clone()
                    };
                    self.settled();
                    let update = if gone {
                        Update::Deleted {
                            object,
                            resource_version,
                            seen,
                        }
                    } else {
                        Update::Applied {
                            object,
                            resource_version,
                            seen,
                        }
                    };
                    self.send(update).await?;
                    return Ok(Heard::UpTo(version));
                }
                Err(error) => {
                    self.undecodable(json, &error);
                }
            },
            "BOOKMARK" => {}
            // Of a newer API than this one. It is heard, and that is all.
            other => tracing::debug!(watch = K::SOURCE.name(), other, "unknown type of event"),
        }
        self.settled();
        let version = Named::resource_version(json).unwrap_or_else(|| from.clone());
        self.send(Update::Heard {
            resource_version: version.clone(),
            seen,
        })
        .await?;
        Ok(if gone {
            Heard::Gone(version)
        } else {
            Heard::UpTo(version)
        })
    }
}

/// What an `ERROR` event reports.
fn reported(json: &str) -> End {
    let status: Status = serde_json::from_str(json).unwrap_or_default();
    match StatusCode::from_u16(status.code) {
        Ok(StatusCode::GONE) => End::Expired,
        Ok(code) => End::Refused(status.error(code)),
        Err(_) => End::Refused(status.error(StatusCode::INTERNAL_SERVER_ERROR)),
    }
}

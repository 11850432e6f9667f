//! The task that follows one kind, the same for all of them.
//!
//! ```text
//!            a page fails: wait                          404 of a kind with a CRD
//!            +-------+                                  +----------------------------+
//!            v       |                                  |                            v
//!   start -> Listing +---- whole list: Listed ----> Watching(resourceVersion)     Absent
//!            ^  ^  ^                                    |   ^  |                     |
//!            |  |  |                                    +---+  |                     |
//!            |  |  |      closed, broken off: from the         |                     |
//!            |  |  |      last resourceVersion, at once        |                     |
//!            |  |  +-- refused, expired (410), silent ---------+                     |
//!            |  +------------------------- after a while ----------------------------+
//! ```
//!
//! A list is one message or none. Whatever failed is told once for each request that failed, is
//! waited out with a growing pause, and is followed by a whole list. A watch that keeps ending
//! before anything was heard on it is not opened again at once, so that nothing here spins.

mod list;
mod stream;

use std::collections::HashSet;
use std::sync::Arc;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use tokio::time::{Instant, sleep};

use super::collection::{Collection, Kind};
use super::request::{RequestError, Requests};
use super::wire::Named;
use super::{DecodeError, Feed, Options};
use crate::measure::{Measurement, Resource};
use crate::model::{Undecodable, Update};

/// So many objects that cannot be read are named in the log.
const NAMED_IN_LOG: usize = 1000;

/// Why a watch is taken up anew: `reason` of `watch.restarts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// The server closed it, as it does every few minutes.
    Closed,
    /// It broke off, or no answer came.
    Error,
    /// Its resourceVersion, or the token of a list's next page, is too old.
    Expired,
    /// The server refused.
    Status,
    /// It was not heard from.
    Silent,
    /// The kind is not installed.
    Absent,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Error => "error",
            Self::Expired => "expired",
            Self::Status => "status",
            Self::Silent => "silent",
            Self::Absent => "absent",
        }
    }
}

/// Where the task stands.
enum State {
    /// A whole list is next.
    Listing,
    /// All up to this resourceVersion was delivered; a watch is next.
    Watching(Arc<str>),
    /// The kind is not installed.
    Absent,
}

/// Whether the kind is installed, as far as is known.
#[derive(PartialEq, Eq)]
enum Standing {
    Unknown,
    Present,
    /// It was there, and one answer says that it is not.
    Doubtful,
    Absent,
}

/// The receiver of the observations is gone.
struct ReceiverGone;

type Step<T> = Result<T, ReceiverGone>;

struct Watch<K: Kind> {
    kind: K,
    feed: Feed,
    requests: Requests,
    /// One for each version in the table.
    resources: Vec<Resource>,
    /// Index of the version in use.
    version: usize,
    standing: Standing,
    backoff: ExponentialBackoff,
    /// It was taken up anew and nothing was heard since.
    unsettled: bool,
    /// Since when requests fail, and how many have.
    failing: Option<(Instant, u64)>,
    /// Objects that the log names as unreadable.
    named: HashSet<(Arc<str>, Arc<str>)>,
}

/// Follows a kind until the receiver of its observations is gone.
pub(super) async fn run<K: Kind>(kind: K, feed: Feed) {
    let mut watch = Watch::new(kind, feed);
    let mut state = State::Listing;
    while let Ok(next) = watch.step(state).await {
        state = next;
    }
}

impl<K: Kind> Watch<K> {
    fn new(kind: K, feed: Feed) -> Self {
        let resource = |version: &&str| Resource {
            group: K::COLLECTION.group.into(),
            version: (*version).into(),
            resource: K::COLLECTION.plural.into(),
        };
        Self {
            kind,
            requests: Requests {
                client: feed.client.clone(),
                collection: K::COLLECTION,
                patience: feed.options.request_timeout,
            },
            resources: K::COLLECTION.versions.iter().map(resource).collect(),
            version: 0,
            standing: Standing::Unknown,
            backoff: backoff(&feed.options),
            unsettled: false,
            failing: None,
            named: HashSet::new(),
            feed,
        }
    }

    async fn step(&mut self, state: State) -> Step<State> {
        match state {
            State::Listing => self.list().await,
            State::Watching(from) => self.watch(from).await,
            State::Absent => {
                let recheck = self.feed.options.absent_recheck;
                sleep(recheck.mul_f64(1.0 + fastrand::f64() / 3.0)).await;
                Ok(State::Listing)
            }
        }
    }

    /// A request failed: says so, waits, and lists.
    async fn fail(&mut self, request: &str, error: &RequestError) -> Step<State> {
        let plural = K::COLLECTION.plural;
        self.failed(format!("{request} of {plural}: {error}"))
            .await?;
        self.count(match error {
            RequestError::Status { .. } => Reason::Status,
            _ => Reason::Error,
        });
        self.unsettled = true;
        let wait = self.backoff.next().unwrap_or(self.feed.options.backoff_max);
        sleep(wait.max(error.retry_after().unwrap_or_default())).await;
        Ok(State::Listing)
    }

    /// Tells of a failure, in the log only of the first in a row.
    async fn failed(&mut self, error: String) -> Step<()> {
        if let Some((_, times)) = &mut self.failing {
            *times = times.saturating_add(1);
            tracing::debug!(watch = K::SOURCE.name(), error, "still failing");
        } else {
            self.failing = Some((Instant::now(), 1));
            tracing::warn!(
                watch = K::SOURCE.name(),
                error,
                "cannot be watched; what is known stays, and this is tried again"
            );
        }
        if self.standing == Standing::Absent {
            // Whether it still is has to be said again.
            self.standing = Standing::Unknown;
        }
        self.send(Update::Failed {
            error: error.into(),
            seen: self.feed.clock.now(),
        })
        .await
    }

    /// The API server was heard from: pauses are short again.
    fn settled(&mut self) {
        if self.unsettled {
            self.unsettled = false;
            self.backoff = backoff(&self.feed.options);
        }
        if let Some((since, times)) = self.failing.take() {
            let seconds = since.elapsed().as_secs();
            tracing::info!(
                watch = K::SOURCE.name(),
                seconds,
                times,
                "can be watched again"
            );
        }
    }

    /// The watch is taken up anew: at once, unless nothing was heard since the last time.
    async fn restart(&mut self, reason: Reason) {
        self.count(reason);
        self.pause().await;
    }

    async fn pause(&mut self) {
        if self.unsettled {
            sleep(self.backoff.next().unwrap_or(self.feed.options.backoff_max)).await;
        }
        self.unsettled = true;
    }

    fn count(&self, reason: Reason) {
        tracing::debug!(watch = K::SOURCE.name(), reason = reason.name(), "restart");
        if let Some(resource) = self.resources.get(self.version) {
            self.feed.recorder.record(Measurement::WatchRestart {
                resource,
                reason: reason.name(),
            });
        }
    }

    /// Counts an object that cannot be read, and names it in the log once. Returns its name, if
    /// that much can be read.
    fn undecodable(&mut self, json: &str, error: &DecodeError) -> Option<Undecodable> {
        if let Some(resource) = self.resources.get(self.version) {
            self.feed
                .recorder
                .record(Measurement::Undecodable { resource });
        }
        let object = Named::of(json);
        let named = object.clone().unwrap_or(Undecodable {
            namespace: "".into(),
            name: "".into(),
        });
        if self.named.len() < NAMED_IN_LOG
            && self
                .named
                .insert((named.namespace.clone(), named.name.clone()))
        {
            tracing::warn!(
                watch = K::SOURCE.name(),
                namespace = &*named.namespace,
                name = &*named.name,
                %error,
                "an object cannot be read and is left out; its last good state stays"
            );
        }
        object
    }

    fn version_name(&self) -> &'static str {
        let Collection { versions, .. } = K::COLLECTION;
        versions.get(self.version).copied().unwrap_or_default()
    }

    async fn send(&self, update: Update<K::Object>) -> Step<()> {
        self.feed
            .sender
            .send(K::observation(update))
            .await
            .map_err(|_| ReceiverGone)
    }
}

/// Pauses that double, each at random between half and all of itself.
fn backoff(options: &Options) -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_min_delay(options.backoff_min)
        // Up to as much again is added at random.
        .with_max_delay(options.backoff_max / 2)
        .with_jitter()
        .without_max_times()
        .build()
}

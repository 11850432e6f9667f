//! Node pools as a cloud's API lists them: which there are, in which state, of what shape, and when
//! and how they were made.
//!
//! [`poll`] asks a source at an interval and whenever it is told to, and passes on what it says as
//! [`Update`]s. Pools that are known from node labels alone need no source: they are joined from
//! the nodes.

pub mod gke;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

pub use gke::GkePools;

use crate::clock::SharedClock;
use crate::model::{NodePool, Observation, Source, Undecodable, Update};

/// However often it is asked, a source is polled at most this often.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// A source of node pools.
pub trait NodePools: Send + 'static {
    /// Every pool that there is now.
    ///
    /// # Errors
    /// When the source does not say; never an empty list instead.
    fn list(&mut self) -> impl Future<Output = Result<Listing, ListError>> + Send;
}

/// Every node pool of a cluster at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The pools.
    pub pools: Vec<NodePool>,
    /// Pools that exist and could not be read.
    pub undecodable: Vec<Undecodable>,
}

/// Why a source does not say which pools there are.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A part of the cluster's name is neither set nor known to the metadata server.
    #[error(
        "nodePools.gke.{setting} is not set, and the metadata server does not say it: {reason}; \
         set it where this does not run on GKE"
    )]
    Unnamed {
        /// The setting.
        setting: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// No client could be made, for want of credentials mostly.
    #[error("no client for the GKE API: {0}")]
    Client(String),
    /// The API refused, or did not answer.
    #[error("{method}: {reason}")]
    Call {
        /// The method.
        method: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// The API did not answer in time.
    #[error("{method}: no answer within {} s", .after.as_secs())]
    Timeout {
        /// The method.
        method: &'static str,
        /// How long was waited.
        after: Duration,
    },
}

/// Asks for a poll before its time: the next answer is to a request that is sent after this.
#[derive(Clone, Debug, Default)]
pub struct PollNow(Arc<Notify>);

impl PollNow {
    /// Asks. Several askings before the next request are one.
    pub fn ask(&self) {
        self.0.notify_one();
    }

    async fn asked(&self) {
        self.0.notified().await;
    }
}

/// When a source is polled, and who is told.
#[derive(Clone)]
pub struct Polling {
    /// Time from one request to the next, unless one is asked for.
    pub interval: Duration,
    /// Asks for one.
    pub now: PollNow,
    /// Where observations go. When its receiver is gone, the polling ends.
    pub sender: mpsc::Sender<Observation>,
    /// The time.
    pub clock: SharedClock,
    /// Ends the polling when cancelled.
    pub shutdown: CancellationToken,
}

/// Polls a source until the receiver of its observations is gone or `polling.shutdown` is
/// cancelled. Nothing that the source answers ends it.
pub async fn poll(source: impl NodePools, polling: Polling) {
    let shutdown = polling.shutdown.clone();
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = poll_on(source, polling) => {}
    }
}

async fn poll_on(mut source: impl NodePools, polling: Polling) {
    let watch = Source::NodePoolApi.name();
    let mut failing = false;
    loop {
        let started = Instant::now();
        // Taken before the request is sent: what is listed is no older than this.
        let began = polling.clock.now();
        let listed = source.list().await;
        let seen = polling.clock.now();
        let update = match listed {
            Ok(Listing { pools, undecodable }) => {
                if std::mem::take(&mut failing) {
                    tracing::info!(watch, "node pools can be listed again");
                }
                Update::Listed {
                    objects: pools,
                    undecodable,
                    resource_version: "".into(),
                    began,
                    seen,
                }
            }
            Err(error) => {
                if std::mem::replace(&mut failing, true) {
                    tracing::debug!(watch, %error, "still failing");
                } else {
                    tracing::warn!(
                        watch,
                        %error,
                        "node pools cannot be listed; what is known stays, and this is tried again"
                    );
                }
                Update::Failed {
                    error: error.to_string().into(),
                    seen,
                }
            }
        };
        let told = polling.sender.send(Observation::NodePools(update)).await;
        if told.is_err() {
            return;
        }
        // Either way it is time for the next.
        let _ = timeout_at(started + polling.interval, polling.now.asked()).await;
        sleep_until(started + SHORTEST_INTERVAL).await;
    }
}

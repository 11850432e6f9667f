//! The watch: what the API server says of JobSets, Nodes, leader Pods, slices and LeaderWorkerSets,
//! as facts. Wire objects come in, [`Observation`]s go out, and nothing is judged on the way.
//!
//! Each kind is followed by one task, [`follow`], which is the same for all of them: it lists,
//! watches from where the list ended, and lists again when the thread is lost. What differs is
//! where a kind is served and how one object is read; each has a file of its own with one pure
//! function `decode`.
//!
//! ```text
//! connect -> Client -> follow(Target) -> list, watch -> decode -> Observation
//! ```

mod client;
mod collection;
mod follow;
mod intern;
pub mod jobset;
pub mod leader_worker_set;
mod lines;
pub mod node;
pub mod pod;
mod request;
pub mod slice;
mod wire;

#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use client::{ConnectError, connect};
pub use intern::Interner;
pub use kube::Client;
pub use node::NodeRules;
pub use wire::{DecodeError, Decoded};

pub(crate) use request::chain;

use crate::clock::SharedClock;
use crate::config::{Config, Workloads};
use crate::measure::SharedRecorder;
use crate::model::{Observation, Source};

/// A kind to follow, with what reading it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// JobSets.
    JobSets,
    /// Nodes, and which of their labels and resources are read.
    Nodes(NodeRules),
    /// JobSet leader Pods.
    Pods,
    /// TPU slices.
    Slices,
    /// LeaderWorkerSets.
    LeaderWorkerSets,
}

impl Target {
    /// Its source.
    #[must_use]
    pub fn source(&self) -> Source {
        match self {
            Self::JobSets => Source::JobSets,
            Self::Nodes(_) => Source::Nodes,
            Self::Pods => Source::Pods,
            Self::Slices => Source::Slices,
            Self::LeaderWorkerSets => Source::LeaderWorkerSets,
        }
    }

    /// The kinds that a configuration needs followed, each once.
    #[must_use]
    pub fn of(config: &Config) -> Vec<Self> {
        let Workloads {
            jobsets,
            slices,
            leader_worker_sets,
        } = config.workloads;
        let pools = config.node_pools.labels.is_some() || config.node_pools.gke.is_some();
        let mut targets = Vec::new();
        // A slice is judged by its owner, so its owners' kinds come with it.
        if jobsets || slices {
            targets.push(Self::JobSets);
        }
        if jobsets || pools {
            targets.push(Self::Nodes(NodeRules::of(&config.node_pools)));
        }
        // A leader pod says which job runs on a pool.
        if jobsets && pools {
            targets.push(Self::Pods);
        }
        if slices {
            targets.push(Self::Slices);
        }
        if leader_worker_sets || slices {
            targets.push(Self::LeaderWorkerSets);
        }
        targets
    }
}

/// The patience of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Longest time for one page of a list, and for the head of a watch's answer.
    pub request_timeout: Duration,
    /// How long the server is asked to keep one watch open; up to a tenth less is asked for, so
    /// that the watches of many processes do not end together. Below 295 s.
    pub watch_timeout: Duration,
    /// A watch that was not heard from for so long is dropped.
    pub silence: Duration,
    /// Time between two looks for a kind that is not installed; up to a third more is waited.
    pub absent_recheck: Duration,
    /// Shortest wait before a request is sent again, and how long a kind that vanished is given
    /// before it counts as not installed.
    pub backoff_min: Duration,
    /// Longest wait before a request is sent again, where the server does not ask for more.
    pub backoff_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_mins(1),
            watch_timeout: Duration::from_secs(290),
            silence: Duration::from_secs(90),
            absent_recheck: Duration::from_secs(15),
            backoff_min: Duration::from_millis(500),
            backoff_max: Duration::from_secs(30),
        }
    }
}

/// What every watch of a process shares.
#[derive(Clone)]
pub struct Feed {
    /// The API server.
    pub client: Client,
    /// Where observations go. When its receiver is gone, the watches end.
    pub sender: mpsc::Sender<Observation>,
    /// The time.
    pub clock: SharedClock,
    /// Takes measurements.
    pub recorder: SharedRecorder,
    /// Ends the watches when cancelled.
    pub shutdown: CancellationToken,
    /// Patience.
    pub options: Options,
}

/// Follows one kind until the receiver of its observations is gone or `feed.shutdown` is
/// cancelled. Nothing that the API server does ends it.
pub async fn follow(target: Target, feed: Feed) {
    let shutdown = feed.shutdown.clone();
    let watch = async move {
        match target {
            Target::JobSets => follow::run(collection::JobSets::default(), feed).await,
            Target::Nodes(rules) => follow::run(collection::Nodes::new(rules), feed).await,
            Target::Pods => follow::run(collection::Pods::default(), feed).await,
            Target::Slices => follow::run(collection::Slices::default(), feed).await,
            Target::LeaderWorkerSets => {
                follow::run(collection::LeaderWorkerSets::default(), feed).await;
            }
        }
    };
    // Biased, so that nothing more is sent once it is to end.
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = watch => {}
    }
}

//! Measurements that any room may take. Taking one cannot fail and never slows the work: the room
//! names what happened, and `export` turns it into a point of an instrument.

use std::sync::Arc;
use std::time::Duration;

/// Which Kubernetes resource a measurement is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// API version.
    pub version: Arc<str>,
    /// Plural resource name.
    pub resource: Arc<str>,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Measurement<'a> {
    /// `reconcile.duration` and `reconcile`: one change of that kind, from the watch event to the
    /// published snapshot.
    Reconcile {
        /// Name of the source.
        controller: &'static str,
        /// `success` or `error`.
        result: &'static str,
        /// How long it took.
        took: Duration,
    },
    /// `watch.restarts`.
    WatchRestart {
        /// What is watched.
        resource: &'a Resource,
        /// Why: one of a closed set of words.
        reason: &'static str,
    },
    /// `objects.undecodable`.
    Undecodable {
        /// What it is one of.
        resource: &'a Resource,
    },
    /// `gke.latency`.
    Gke {
        /// Method, such as `ListNodePools`.
        method: &'static str,
        /// Whether it failed.
        error: bool,
        /// How long it took.
        took: Duration,
    },
    /// `aggregation.duration`: one turn of observe, append, fold, publish that succeeded.
    Aggregation {
        /// How long it took.
        took: Duration,
    },
    /// `export.failures`.
    ExportFailure {
        /// `prometheus`, `otlp`, `stdout`, `configmap`.
        outlet: &'static str,
        /// Why: one of a closed set of words.
        reason: &'static str,
    },
    /// `export.rejected`.
    ExportRejected {
        /// Outlet.
        outlet: &'static str,
        /// Points that the receiver refused.
        points: u64,
    },
    /// `series.dropped`.
    SeriesDropped {
        /// Family.
        family: &'static str,
        /// Series left out.
        series: u64,
    },
}

/// Takes measurements. Implemented by `export`; [`Ignore`] where nobody looks.
pub trait Recorder: Send + Sync + 'static {
    /// Takes one measurement. Cannot fail.
    fn record(&self, measurement: Measurement<'_>);
}

/// A recorder that is shared.
pub type SharedRecorder = Arc<dyn Recorder>;

/// Drops every measurement.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ignore;

impl Recorder for Ignore {
    fn record(&self, _: Measurement<'_>) {}
}

//! The instruments that are about the program itself: how it watches, stores and exports. Their
//! series are this process's, and counters and histograms start at 0 with it.

use std::borrow::Cow;
use std::sync::Arc;

use super::catalogue::{Instrument, Kind, OWN, Scope};
use crate::measure::Resource;
use crate::model::Source;

/// Buckets of the times of calls to a cloud, in seconds.
const CALL: &[f64] = &[0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.0, 5.0];
/// Buckets of the times of a turn, in seconds.
const TURN: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];
/// Buckets of the times from a watch event to the published snapshot, in seconds.
const RECONCILE_TIMES: &[f64] = &[
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

const fn own(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    attributes: &'static [&'static str],
    boundaries: &'static [f64],
    description: &'static str,
) -> Instrument {
    Instrument {
        name: Cow::Borrowed(name),
        kind,
        unit,
        description: Cow::Borrowed(description),
        attributes,
        family: OWN,
        scope: Scope::Own,
        boundaries,
    }
}

/// Declares the instruments, each under its name, and [`ALL`] of them.
macro_rules! own {
    ($($(#[$doc:meta])+ $constant:ident = $name:literal, $kind:ident, $unit:literal,
        $attributes:expr, $boundaries:expr, $description:literal;)+) => {
        $(
            $(#[$doc])+
            pub(crate) const $constant: Instrument =
                own($name, Kind::$kind, $unit, $attributes, $boundaries, $description);
        )+
        /// Every own instrument.
        pub(crate) const ALL: &[&Instrument] = &[$(&$constant),+];
    };
}

own! {
    /// `build.info`.
    BUILD_INFO = "build.info", Gauge, "", &["commit", "date", "version"], &[],
        "1, with the version that runs";
    /// `gke.latency`.
    GKE_LATENCY = "gke.latency", Histogram, "s", &["error", "method"], CALL,
        "Time of one call to the GKE API";
    /// `aggregation.duration`.
    AGGREGATION_DURATION = "aggregation.duration", Histogram, "s", &[], TURN,
        "Time of one turn of observe, append, fold and publish that succeeded";
    /// `reconcile.duration`.
    RECONCILE_DURATION = "reconcile.duration", Histogram, "s", &["controller"], RECONCILE_TIMES,
        "Time of one change of that kind, from the watch event to the published snapshot";
    /// `reconcile`.
    RECONCILE = "reconcile", Counter, "", &["controller", "result"], &[],
        "Changes of that kind that were taken in";
    /// `watch.restarts`.
    WATCH_RESTARTS = "watch.restarts", Counter, "", &["group", "reason", "resource", "version"], &[],
        "Times a watch had to start again";
    /// `watch.lag`.
    WATCH_LAG = "watch.lag", Gauge, "s", &["group", "resource", "version"], &[],
        "Time since a watch was last heard from: an event, a bookmark or a list";
    /// `objects.undecodable`.
    OBJECTS_UNDECODABLE = "objects.undecodable", Counter, "", &["group", "resource", "version"], &[],
        "Objects that could not be read and were skipped";
    /// `source.last_success`.
    SOURCE_LAST_SUCCESS = "source.last_success", Gauge, "s", &["source"], &[],
        "When the source last answered, in seconds since the epoch";
    /// `history.pending`.
    HISTORY_PENDING = "history.pending", Gauge, "", &[], &[],
        "Events that are not durable yet";
    /// `history.pending.age`.
    HISTORY_PENDING_AGE = "history.pending.age", Gauge, "s", &[], &[],
        "Age of the oldest event that is not durable yet, 0 when there is none";
    /// `export.failures`.
    EXPORT_FAILURES = "export.failures", Counter, "", &["outlet", "reason"], &[],
        "Exports that failed";
    /// `export.rejected`.
    EXPORT_REJECTED = "export.rejected", Counter, "", &["outlet"], &[],
        "Points that a receiver refused";
    /// `series`.
    SERIES = "series", Gauge, "", &["family"], &[],
        "Series that are published";
    /// `series.dropped`.
    SERIES_DROPPED = "series.dropped", Counter, "", &["family"], &[],
        "Series of objects that were left out because their family is at its limit";
}

/// Name of the history's store as a `source` of `source.last_success`.
pub(crate) const STORE: &str = "store";

/// The Kubernetes resource behind a source, `None` for one that is not a watch.
#[must_use]
pub fn resource_of(source: Source) -> Option<Resource> {
    let (group, version, resource) = match source {
        Source::JobSets => ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
        Source::Nodes => ("", "v1", "nodes"),
        Source::Pods => ("", "v1", "pods"),
        Source::Slices => ("accelerator.gke.io", "v1beta1", "slices"),
        Source::LeaderWorkerSets => ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
        Source::NodePoolApi => return None,
    };
    Some(Resource {
        group: Arc::from(group),
        version: Arc::from(version),
        resource: Arc::from(resource),
    })
}

//! The report: what is up, and what each object's history comes to, as one JSON object. Its keys
//! and fields are a contract. It is written to standard output, to a ConfigMap, or both.

mod config_map;
mod stdout;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

pub use config_map::{ConfigMapReport, DATA_LIMIT};
pub use stdout::StdoutReport;

use crate::model::{Attributes, Family};
use crate::snapshot::{Collection, ObjectView, Scheduled, Snapshot};
use crate::summary::Nanos;

/// The report's keys: each family's states and summaries.
const FAMILIES: [(Family, &str, &str); 5] = [
    (Family::JobSet, "jobSetsUp", "jobSetsUpSummaries"),
    (
        Family::JobSetNodes,
        "jobSetNodesUp",
        "jobSetNodesUpSummaries",
    ),
    (
        Family::Lws,
        "leaderWorkerSetsUp",
        "leaderWorkerSetsUpSummaries",
    ),
    (Family::NodePool, "nodePoolsUp", "nodePoolsUpSummaries"),
    (Family::Slice, "slicesUp", "slicesUpSummaries"),
];

/// Whether there is something to report: before the history is read and a family is judged, a
/// report would say that the fleet is empty.
#[must_use]
pub fn is_due(snapshot: &Snapshot) -> bool {
    snapshot.history.replayed && snapshot.families.iter().any(Option::is_some)
}

/// The report of a collection, as JSON on one line without its end. Entries are sorted by key.
pub fn render(collection: &Collection) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Report(collection))
}

/// A summary's log line: `type`, `summary` and the attributes. A summary that has nothing durable
/// yet is all zeros.
#[must_use]
pub fn summary_line(family: Family, view: &ObjectView, now: Timestamp) -> Value {
    let line = Line {
        kind: family.log_type(),
        summary: Totals::of(view, now),
        attributes: Named::of(family, &view.attributes),
    };
    serde_json::to_value(line).unwrap_or_default()
}

struct Report<'a>(&'a Collection);

impl Serialize for Report<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let Collection { snapshot, now } = self.0;
        let mut map = serializer.serialize_map(None)?;
        for (family, states, summaries) in FAMILIES {
            let objects: BTreeMap<&str, &ObjectView> = snapshot
                .objects(family)
                .map(|view| (&*view.key, &**view))
                .collect();
            map.serialize_entry(
                states,
                &Sorted(|| {
                    // What is gone and shows only that its provisioning failed has no state.
                    let here = objects.iter().filter(|(_, view)| !view.only_provisioning);
                    here.map(|(key, view)| (*key, State::of(family, view)))
                }),
            )?;
            map.serialize_entry(
                summaries,
                &Sorted(|| {
                    objects.iter().map(|(key, view)| {
                        let attributes = Named::of(family, &view.attributes);
                        let totals = Totals::of(view, *now);
                        (*key, Entry { attributes, totals })
                    })
                }),
            )?;
        }
        map.serialize_entry("nodePoolScheduling", &scheduling(snapshot))?;
        map.end()
    }
}

/// Serialises pairs as a map while they are made.
struct Sorted<F>(F);

impl<F, I, K, V> Serialize for Sorted<F>
where
    F: Fn() -> I,
    I: Iterator<Item = (K, V)>,
    K: Serialize,
    V: Serialize,
{
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map((self.0)())
    }
}

/// By pool, the leader pod's Job; of several the last by name, so that the report is the same
/// whichever came first.
fn scheduling(snapshot: &Snapshot) -> BTreeMap<&str, Job<'_>> {
    let mut pools: BTreeMap<&str, Job<'_>> = BTreeMap::new();
    for Scheduled { pool, job, jobset } in snapshot.scheduled.iter().map(AsRef::as_ref) {
        let job = Job {
            job_name: job,
            jobset_name: jobset,
        };
        let shown = pools.entry(pool).or_insert(job);
        *shown = (*shown).max(job);
    }
    pools
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct Job<'a> {
    job_name: &'a str,
    jobset_name: &'a str,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    summary: Totals,
    #[serde(flatten)]
    attributes: Named<'a>,
}

#[derive(Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    attributes: Named<'a>,
    #[serde(flatten)]
    totals: Totals,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct State<'a> {
    ready_count: i64,
    expected_count: i64,
    unknown_count: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'a str,
    expected_down: bool,
    #[serde(flatten)]
    attributes: Named<'a>,
    #[serde(skip_serializing_if = "is_zero")]
    tpu_chip_count: i64,
}

impl<'a> State<'a> {
    fn of(family: Family, view: &'a ObjectView) -> Self {
        Self {
            ready_count: view.availability.counts.ready,
            expected_count: view.availability.counts.expected,
            unknown_count: view.availability.counts.unknown,
            status: &view.status,
            expected_down: view.availability.expected_down,
            attributes: Named::of(family, &view.attributes),
            tpu_chip_count: view.chips,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// The attributes under the family's own names; what is empty is left out.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    jobset_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    jobset_namespace: &'a str,
    #[serde(rename = "jobsetUID", skip_serializing_if = "str::is_empty")]
    jobset_uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    lws_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    lws_namespace: &'a str,
    #[serde(rename = "lwsUID", skip_serializing_if = "str::is_empty")]
    lws_uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tpu_topology: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tpu_accelerator: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    spot: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    node_pool_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    slice_name: &'a str,
    #[serde(rename = "sliceUID", skip_serializing_if = "str::is_empty")]
    slice_uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    slice_owner_kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    slice_owner_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    slice_owner_namespace: &'a str,
}

impl<'a> Named<'a> {
    fn of(family: Family, attributes: &'a Attributes) -> Self {
        let Attributes {
            name,
            namespace,
            uid,
            tpu_topology,
            tpu_accelerator,
            spot,
            owner_kind,
            owner_name,
            owner_namespace,
            derived: _,
        } = attributes;
        let common = Self {
            tpu_topology,
            tpu_accelerator,
            spot: *spot,
            ..Self::default()
        };
        match family {
            Family::JobSet | Family::JobSetNodes => Self {
                jobset_name: name,
                jobset_namespace: namespace,
                jobset_uid: uid,
                ..common
            },
            Family::Lws => Self {
                lws_name: name,
                lws_namespace: namespace,
                lws_uid: uid,
                ..common
            },
            Family::NodePool => Self {
                node_pool_name: name,
                ..common
            },
            Family::Slice => Self {
                slice_name: name,
                slice_uid: uid,
                slice_owner_kind: owner_kind,
                slice_owner_name: owner_name,
                slice_owner_namespace: owner_namespace,
                ..common
            },
        }
    }
}

/// What the events come to, in nanoseconds; 0 and empty where it is not defined.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Totals {
    down_time_provisioned: Nanos,
    interruption_count: u64,
    recovery_count: u64,
    down_time: Nanos,
    up_time: Nanos,
    total_down_time_between_recovery: Nanos,
    total_up_time_between_interruption: Nanos,
    latest_down_time_between_recovery: Nanos,
    latest_up_time_between_interruption: Nanos,
    mean_down_time_between_recovery: Nanos,
    mean_up_time_between_interruption: Nanos,
    provisioning_duration: Nanos,
    provisioning_state: &'static str,
}

impl Totals {
    fn of(view: &ObjectView, now: Timestamp) -> Self {
        let Some(summary) = view.summary(now) else {
            return Self::default();
        };
        let provisioning = view.provisioning(now);
        Self {
            down_time_provisioned: summary.down_initial.unwrap_or(0),
            interruption_count: summary.interruptions,
            recovery_count: summary.recoveries,
            down_time: summary.down_time,
            up_time: summary.up_time,
            total_down_time_between_recovery: summary.down_between.unwrap_or(0),
            total_up_time_between_interruption: summary.up_between.unwrap_or(0),
            latest_down_time_between_recovery: summary.down_between_latest.unwrap_or(0),
            latest_up_time_between_interruption: summary.up_between_latest.unwrap_or(0),
            mean_down_time_between_recovery: summary.down_between_mean.unwrap_or(0),
            mean_up_time_between_interruption: summary.up_between_mean.unwrap_or(0),
            provisioning_duration: provisioning.map_or(0, |(_, took)| took),
            provisioning_state: provisioning.map_or("", |(state, _)| state.name()),
        }
    }
}

#[cfg(test)]
mod tests;

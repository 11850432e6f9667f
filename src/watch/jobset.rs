//! Reads a JobSet (`jobset.x-k8s.io/v1alpha2`).

use jiff::Timestamp;
use serde::Deserialize;

use super::wire::{Condition, Metadata, PodTemplate, find, label, or_default};
use super::{DecodeError, Decoded, Interner};
use crate::model::{JobSet, Readiness, Topology};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    replicated_jobs: Vec<ReplicatedJob<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ReplicatedJob<'a> {
    /// The API server fills in 1 where it is not set, so a missing one is a 0 left out.
    #[serde(deserialize_with = "or_default")]
    replicas: i64,
    #[serde(borrow, deserialize_with = "or_default")]
    template: JobTemplate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobTemplate<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    spec: JobSpec<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JobSpec<'a> {
    parallelism: Option<i64>,
    #[serde(borrow, deserialize_with = "or_default")]
    template: PodTemplate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    conditions: Vec<Condition<'a>>,
    #[serde(deserialize_with = "or_default")]
    replicated_jobs_status: Vec<ReplicatedJobStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ReplicatedJobStatus {
    #[serde(deserialize_with = "or_default")]
    ready: i64,
    #[serde(deserialize_with = "or_default")]
    succeeded: i64,
}

/// The fact that a JobSet's JSON states.
///
/// # Errors
/// When it is not what the API documents, or has no name, UID or creationTimestamp.
pub fn decode(json: &str, strings: &mut Interner) -> Result<Decoded<JobSet>, DecodeError> {
    let wire: Wire<'_> = serde_json::from_str(json)?;
    let created = wire.metadata.created()?;
    let mut jobset = JobSet {
        namespace: strings.get(wire.metadata.namespace.get()),
        name: wire.metadata.name()?,
        uid: wire.metadata.uid()?,
        created,
        expected: 0,
        ready: 0,
        expected_nodes: 0,
        chips: 0,
        topology: None,
        accelerator: None,
        spot: false,
        completed: None,
        failed: None,
        suspended: None,
        terminating: wire.metadata.deleting()?.is_some(),
    };
    for job in &wire.spec.replicated_jobs {
        let replicas = job.replicas;
        let nodes = replicas.saturating_mul(job.template.spec.parallelism.unwrap_or(1));
        jobset.expected = jobset.expected.saturating_add(replicas);
        jobset.expected_nodes = jobset.expected_nodes.saturating_add(nodes);
        let selector = &job.template.spec.template.spec.node_selector;
        // Of several the last one is shown, also one that does not parse; that one adds no chips.
        if let Some(topology) = selector.get(label::TOPOLOGY) {
            if let Ok(parsed) = topology.parse::<Topology>() {
                let chips = replicas.saturating_mul(parsed.chips());
                jobset.chips = jobset.chips.saturating_add(chips);
            }
            jobset.topology = strings.some(Some(topology));
        }
        if let Some(accelerator) = selector.get(label::ACCELERATOR) {
            jobset.accelerator = strings.some(Some(accelerator));
        }
        if let Some(spot) = selector.get(label::SPOT) {
            jobset.spot = spot == "true";
        }
    }
    for job in &wire.status.replicated_jobs_status {
        let done = job.ready.saturating_add(job.succeeded);
        jobset.ready = jobset.ready.saturating_add(done);
    }
    let conditions = &wire.status.conditions;
    jobset.completed = true_since(conditions, "Completed", created)?;
    jobset.failed = true_since(conditions, "Failed", created)?;
    jobset.suspended = true_since(conditions, "Suspended", created)?;
    Ok(wire.metadata.decoded(jobset))
}

/// Since when a condition is True: since ever, where it does not say.
fn true_since(
    conditions: &[Condition<'_>],
    r#type: &str,
    created: Timestamp,
) -> Result<Option<Timestamp>, DecodeError> {
    match find(conditions, r#type) {
        Some(condition) if condition.readiness() == Readiness::Ready => {
            Ok(Some(condition.since()?.unwrap_or(created)))
        }
        _ => Ok(None),
    }
}

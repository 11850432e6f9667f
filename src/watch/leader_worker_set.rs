//! Reads a LeaderWorkerSet (`leaderworkerset.x-k8s.io/v1`).

use serde::Deserialize;

use super::wire::{Metadata, PodTemplate, label, or_default};
use super::{DecodeError, Decoded, Interner};
use crate::model::{LeaderWorkerSet, Topology};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    replicas: Option<i64>,
    #[serde(borrow, deserialize_with = "or_default")]
    leader_worker_template: LeaderWorkerTemplate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LeaderWorkerTemplate<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    worker_template: PodTemplate<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    #[serde(deserialize_with = "or_default")]
    ready_replicas: i64,
}

/// The fact that a LeaderWorkerSet's JSON states.
///
/// # Errors
/// When it is not what the API documents, or has no name, UID or creationTimestamp.
pub fn decode(json: &str, strings: &mut Interner) -> Result<Decoded<LeaderWorkerSet>, DecodeError> {
    let wire: Wire<'_> = serde_json::from_str(json)?;
    let expected = wire.spec.replicas.unwrap_or(1);
    let selector = &wire
        .spec
        .leader_worker_template
        .worker_template
        .spec
        .node_selector;
    let topology = selector.some(label::TOPOLOGY);
    // A topology that does not parse is shown and adds no chips.
    let chips = topology
        .and_then(|topology| topology.parse().ok())
        .map_or(0, Topology::chips);
    Ok(wire.metadata.decoded(LeaderWorkerSet {
        namespace: strings.get(wire.metadata.namespace.get()),
        name: wire.metadata.name()?,
        uid: wire.metadata.uid()?,
        created: wire.metadata.created()?,
        expected,
        ready: wire.status.ready_replicas,
        chips: expected.saturating_mul(chips),
        topology: strings.some(topology),
        accelerator: strings.some(selector.get(label::ACCELERATOR)),
        spot: selector.get(label::SPOT) == Some("true"),
        terminating: wire.metadata.deleting()?.is_some(),
    }))
}

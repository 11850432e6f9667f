//! Reads a TPU slice (`accelerator.gke.io`, `v1beta1` or `v1alpha1`).

use serde::Deserialize;

use super::wire::{Condition, Metadata, Text, find, or_default};
use super::{DecodeError, Decoded, Interner};
use crate::model::{Owner, Slice};

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
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    #[serde(borrow)]
    topology: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    conditions: Vec<Condition<'a>>,
}

/// The fact that a slice's JSON states.
///
/// # Errors
/// When it is not what the API documents, or has no name, UID or creationTimestamp.
pub fn decode(json: &str, strings: &mut Interner) -> Result<Decoded<Slice>, DecodeError> {
    let wire: Wire<'_> = serde_json::from_str(json)?;
    let ready = find(&wire.status.conditions, "Ready");
    let labels = &wire.metadata.labels;
    let slice = Slice {
        name: wire.metadata.name()?,
        uid: wire.metadata.uid()?,
        created: wire.metadata.created()?,
        deleting: wire.metadata.deleting()?,
        ready: ready.map(Condition::readiness),
        since: match ready {
            Some(condition) => condition.since()?,
            None => None,
        },
        accelerator: strings.some(wire.spec.r#type.some()),
        topology: strings.some(wire.spec.topology.some()),
        owner: Owner {
            kind: strings.some(labels.get("tpu-provisioner.cloud.google.com/owner-kind")),
            namespace: strings.some(labels.get("tpu-provisioner.cloud.google.com/owner-namespace")),
            name: strings.some(labels.get("tpu-provisioner.cloud.google.com/owner-name")),
        },
    };
    Ok(wire.metadata.decoded(slice))
}

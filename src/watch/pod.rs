//! Reads a JobSet leader Pod: which job it belongs to, where it runs, whether it is over.

use serde::Deserialize;

use super::wire::{Metadata, Text, or_default};
use super::{DecodeError, Decoded, Interner};
use crate::model::Pod;

/// Leader pods are the pods of a JobSet with completion index 0.
pub(super) const LEADERS: &str =
    "jobset.sigs.k8s.io/jobset-name,batch.kubernetes.io/job-completion-index=0";

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
    #[serde(borrow)]
    node_name: Text<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Text<'a>,
}

/// The fact that a Pod's JSON states.
///
/// # Errors
/// When it is not what the API documents, or has no name or UID.
pub fn decode(json: &str, strings: &mut Interner) -> Result<Decoded<Pod>, DecodeError> {
    let wire: Wire<'_> = serde_json::from_str(json)?;
    let labels = &wire.metadata.labels;
    let pod = Pod {
        namespace: strings.get(wire.metadata.namespace.get()),
        name: wire.metadata.name()?,
        uid: wire.metadata.uid()?,
        job: strings.some(labels.get("batch.kubernetes.io/job-name")),
        jobset: strings.some(labels.get("jobset.sigs.k8s.io/jobset-name")),
        node: strings.some(wire.spec.node_name.some()),
        terminal: matches!(wire.status.phase.get(), "Succeeded" | "Failed"),
    };
    Ok(wire.metadata.decoded(pod))
}

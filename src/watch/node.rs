//! Reads a Node: whether it is ready and since when, and which pool and JobSet it is labelled for.

use serde::Deserialize;

use super::wire::{Condition, Metadata, TextMap, find, label, or_default};
use super::{DecodeError, Decoded, Interner};
use crate::config::NodePools;
use crate::model::{Node, Readiness};

/// Which of a node's labels and resources are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRules {
    /// Labels that name a node's pool; the first that a node has counts.
    pub pool_labels: Vec<String>,
    /// Resources that make a node an accelerator node.
    pub resources: Vec<String>,
}

impl NodeRules {
    /// What the configured node pool sources need.
    #[must_use]
    pub fn of(pools: &NodePools) -> Self {
        let NodePools { labels, gke } = pools;
        let (mut pool_labels, resources) = match labels {
            Some(labels) => (labels.labels.clone(), labels.resources.clone()),
            None => (Vec::new(), Vec::new()),
        };
        // The GKE API's pools are joined to their nodes by GKE's own label.
        let known = pool_labels.iter().any(|name| name == label::GKE_NODE_POOL);
        if gke.is_some() && !known {
            pool_labels.insert(0, label::GKE_NODE_POOL.to_owned());
        }
        Self {
            pool_labels,
            resources,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    conditions: Vec<Condition<'a>>,
    #[serde(borrow)]
    allocatable: TextMap<'a>,
    #[serde(borrow)]
    capacity: TextMap<'a>,
}

/// The fact that a Node's JSON states.
///
/// # Errors
/// When it is not what the API documents, or has no name, UID or creationTimestamp.
pub fn decode(
    json: &str,
    rules: &NodeRules,
    strings: &mut Interner,
) -> Result<Decoded<Node>, DecodeError> {
    let wire: Wire<'_> = serde_json::from_str(json)?;
    let labels = &wire.metadata.labels;
    let ready = find(&wire.status.conditions, "Ready");
    let pool = rules.pool_labels.iter().find_map(|name| labels.some(name));
    let jobset = labels
        .some("google.com/tpu-provisioner-jobset-namespace")
        .zip(labels.some("google.com/tpu-provisioner-jobset-name"));
    let offers = |resources: &TextMap<'_>, name: &str| {
        resources.get(name).is_some_and(|quantity| !zero(quantity))
    };
    let node = Node {
        name: wire.metadata.name()?,
        uid: wire.metadata.uid()?,
        created: wire.metadata.created()?,
        readiness: ready.map_or(Readiness::Unknown, Condition::readiness),
        since: match ready {
            Some(condition) => condition.since()?,
            None => None,
        },
        pool: strings.some(pool),
        jobset: jobset.map(|(namespace, name)| (strings.get(namespace), strings.get(name))),
        topology: strings.some(labels.get(label::TOPOLOGY)),
        accelerator: strings.some(labels.get(label::ACCELERATOR)),
        accelerator_count: labels
            .get(label::ACCELERATOR_COUNT)
            .and_then(|count| count.parse().ok()),
        spot: labels.get(label::SPOT) == Some("true"),
        offers_accelerator: rules.resources.iter().any(|name| {
            offers(&wire.status.allocatable, name) || offers(&wire.status.capacity, name)
        }),
    };
    Ok(wire.metadata.decoded(node))
}

/// Whether a quantity such as `4`, `0` or `2k` is nothing.
fn zero(quantity: &str) -> bool {
    let number = quantity
        .split(|c: char| c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    !number.contains(|c: char| matches!(c, '1'..='9'))
}

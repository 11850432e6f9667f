//! Reads a node pool of the GKE API.

use std::sync::Arc;

use google_cloud_container_v1::model;

use crate::model::NodePool;

/// The resource label that names a pool's accelerator.
const ACCELERATOR: &str = "goog-gke-accelerator-type";

/// The fact that the API states of a pool, but for the operation that made it; `None` where it has
/// no name.
#[must_use]
pub fn decode(pool: &model::NodePool) -> Option<NodePool> {
    let config = pool.config.as_ref();
    let placement = pool.placement_policy.as_ref();
    let status = &pool.status;
    Some(NodePool {
        name: some(&pool.name)?,
        // A status newer than this program is passed on as the API names it.
        status: match (status.name(), status.value()) {
            (Some(name), _) => name.into(),
            (None, Some(number)) => number.to_string().into(),
            (None, None) => "".into(),
        },
        topology: placement.and_then(|placement| some(&placement.tpu_topology)),
        accelerator: config
            .and_then(|config| config.resource_labels.get(ACCELERATOR))
            .and_then(|label| some(label)),
        machine_type: config.and_then(|config| some(&config.machine_type)),
        spot: config.is_some_and(|config| config.spot),
        operation: None,
    })
}

/// The same from the API's JSON.
///
/// # Errors
/// When it is not what the API documents.
pub fn decode_json(json: &str) -> Result<Option<NodePool>, serde_json::Error> {
    serde_json::from_str(json).map(|pool| decode(&pool))
}

fn some(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}

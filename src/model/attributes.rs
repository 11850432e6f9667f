//! What names an object in a metric, a report and a log line.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

/// The attributes of one object of a family. An empty string is an attribute that is left out.
///
/// Shared by `Arc` between successive views of the same object, and replaced only when one of them
/// changes, so that a reader may keep what it derives from them in [`Attributes::derived`].
#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Attributes {
    /// Name of the JobSet, node pool, slice or LeaderWorkerSet.
    pub name: Arc<str>,
    /// Namespace; empty for what has none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Arc<str>,
    /// UID; empty for a node pool.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub uid: Arc<str>,
    /// TPU topology such as `2x2x1`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub tpu_topology: Arc<str>,
    /// TPU accelerator such as `tpu-v5-lite-podslice`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub tpu_accelerator: Arc<str>,
    /// Whether it runs on spot capacity.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spot: bool,
    /// A slice's owner: kind, as its label has it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub owner_kind: Arc<str>,
    /// A slice's owner: name.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub owner_name: Arc<str>,
    /// A slice's owner: namespace.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub owner_namespace: Arc<str>,
    /// A place for what one reader derives from these attributes (its rendered labels, say), made
    /// once and kept as long as they are.
    #[serde(skip)]
    pub derived: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Attributes {
    fn fields(&self) -> (&str, &str, &str, &str, &str, bool, &str, &str, &str) {
        let Self {
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
        } = self;
        (
            name,
            namespace,
            uid,
            tpu_topology,
            tpu_accelerator,
            *spot,
            owner_kind,
            owner_name,
            owner_namespace,
        )
    }
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        self.fields() == other.fields()
    }
}

impl Eq for Attributes {}

impl Clone for Attributes {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
            tpu_topology: self.tpu_topology.clone(),
            tpu_accelerator: self.tpu_accelerator.clone(),
            spot: self.spot,
            owner_kind: self.owner_kind.clone(),
            owner_name: self.owner_name.clone(),
            owner_namespace: self.owner_namespace.clone(),
            derived: OnceLock::new(),
        }
    }
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Attributes").field(&self.fields()).finish()
    }
}

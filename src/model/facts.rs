//! Facts: what the watches and the cloud say of one object, stripped to what is read here.
//! A fact is a value; it judges nothing.

use std::sync::Arc;

use jiff::Timestamp;

/// Where observations come from. Each is listed, and followed, by itself.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Watch of JobSets.
    JobSets,
    /// Watch of Nodes.
    Nodes,
    /// Watch of JobSet leader Pods.
    Pods,
    /// Watch of TPU slices.
    Slices,
    /// Watch of LeaderWorkerSets.
    LeaderWorkerSets,
    /// The node pool API of a cloud.
    NodePoolApi,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 6] = [
        Self::JobSets,
        Self::Nodes,
        Self::Pods,
        Self::Slices,
        Self::LeaderWorkerSets,
        Self::NodePoolApi,
    ];

    /// Position in [`Source::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// How it is called in metrics (`source`, `controller`), logs and `/readyz`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::JobSets => "jobsets",
            Self::Nodes => "nodes",
            Self::Pods => "pods",
            Self::Slices => "slices",
            Self::LeaderWorkerSets => "leaderworkersets",
            Self::NodePoolApi => "gke",
        }
    }
}

/// A JobSet (`jobset.x-k8s.io/v1alpha2`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSet {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// creationTimestamp.
    pub created: Timestamp,
    /// Sum of `spec.replicatedJobs[].replicas`.
    pub expected: i64,
    /// Sum of `status.replicatedJobsStatus[]` ready + succeeded.
    pub ready: i64,
    /// Sum of replicas x parallelism (default 1).
    pub expected_nodes: i64,
    /// Sum of replicas x chips of the topology in the pod template's node selector.
    pub chips: i64,
    /// The last topology of its templates.
    pub topology: Option<Arc<str>>,
    /// The last accelerator of its templates.
    pub accelerator: Option<Arc<str>>,
    /// The last spot selector is `true`.
    pub spot: bool,
    /// `Completed` is True since.
    pub completed: Option<Timestamp>,
    /// `Failed` is True since.
    pub failed: Option<Timestamp>,
    /// `Suspended` is True since.
    pub suspended: Option<Timestamp>,
    /// Has a deletionTimestamp.
    pub terminating: bool,
}

/// What a node's `Ready` condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// Status True.
    Ready,
    /// Status False.
    NotReady,
    /// Status Unknown, or no such condition.
    Unknown,
}

/// A Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// creationTimestamp.
    pub created: Timestamp,
    /// Its `Ready` condition.
    pub readiness: Readiness,
    /// That condition's lastTransitionTime; `None` where there is no such condition or time.
    pub since: Option<Timestamp>,
    /// Value of the first pool label it has.
    pub pool: Option<Arc<str>>,
    /// Namespace and name of the JobSet it is labelled for.
    pub jobset: Option<(Arc<str>, Arc<str>)>,
    /// Label `cloud.google.com/gke-tpu-topology`. A node that has it is a TPU node.
    pub topology: Option<Arc<str>>,
    /// Label `cloud.google.com/gke-tpu-accelerator`.
    pub accelerator: Option<Arc<str>>,
    /// Label `cloud.google.com/gke-accelerator-count`, where it is a number.
    pub accelerator_count: Option<i64>,
    /// Label `cloud.google.com/gke-spot` is `true`.
    pub spot: bool,
    /// Offers (allocatable or capacity) one of the configured accelerator resources.
    pub offers_accelerator: bool,
}

/// A JobSet's leader Pod (completion index 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// Label `batch.kubernetes.io/job-name`.
    pub job: Option<Arc<str>>,
    /// Label `jobset.sigs.k8s.io/jobset-name`.
    pub jobset: Option<Arc<str>>,
    /// Node that it is bound to.
    pub node: Option<Arc<str>>,
    /// Phase is Succeeded or Failed.
    pub terminal: bool,
}

/// Who owns a slice, by its owner labels; each `None` where the label is missing or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Kind, as the label has it.
    pub kind: Option<Arc<str>>,
    /// Namespace.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Option<Arc<str>>,
}

/// A TPU slice (`accelerator.gke.io`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// creationTimestamp.
    pub created: Timestamp,
    /// deletionTimestamp.
    pub deleting: Option<Timestamp>,
    /// Its `Ready` condition; `None` where it has none.
    pub ready: Option<Readiness>,
    /// That condition's lastTransitionTime.
    pub since: Option<Timestamp>,
    /// `spec.type`.
    pub accelerator: Option<Arc<str>>,
    /// `spec.topology`.
    pub topology: Option<Arc<str>>,
    /// Its owner.
    pub owner: Owner,
}

/// A LeaderWorkerSet (`leaderworkerset.x-k8s.io/v1`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderWorkerSet {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// creationTimestamp.
    pub created: Timestamp,
    /// `spec.replicas`, 1 by default.
    pub expected: i64,
    /// `status.readyReplicas`.
    pub ready: i64,
    /// Replicas x chips of the topology of the worker template's node selector.
    pub chips: i64,
    /// That topology.
    pub topology: Option<Arc<str>>,
    /// Accelerator of the worker template's node selector.
    pub accelerator: Option<Arc<str>>,
    /// Spot of the worker template's node selector is `true`.
    pub spot: bool,
    /// Has a deletionTimestamp.
    pub terminating: bool,
}

/// The operation that created a node pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it started.
    pub start: Timestamp,
    /// When it ended in an error.
    pub failed: Option<Timestamp>,
}

/// A node pool as a cloud's API lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    /// Name.
    pub name: Arc<str>,
    /// Status, such as `RUNNING`.
    pub status: Arc<str>,
    /// `placementPolicy.tpuTopology`.
    pub topology: Option<Arc<str>>,
    /// Resource label `goog-gke-accelerator-type`.
    pub accelerator: Option<Arc<str>>,
    /// Machine type.
    pub machine_type: Option<Arc<str>>,
    /// Whether its machines are spot.
    pub spot: bool,
    /// The operation that created it, where the API still knows it.
    pub operation: Option<Operation>,
}

/// An object that could not be decoded, as far as it could be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Namespace; empty for what has none.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// One message of a watch or a poll. `seen` is the instant at which it arrived.
#[derive(Clone, Debug, PartialEq)]
pub enum Update<T> {
    /// A whole list, as one transaction: what is not in it is gone, except for what is named as
    /// undecodable, of which the last good state stays.
    Listed {
        /// What exists.
        objects: Vec<T>,
        /// What exists and could not be read.
        undecodable: Vec<Undecodable>,
        /// The list's resourceVersion; empty for a poll.
        resource_version: Arc<str>,
        /// When the request was sent.
        began: Timestamp,
        /// When the answer was whole.
        seen: Timestamp,
    },
    /// An object was made or changed.
    Applied {
        /// The object.
        object: T,
        /// Its resourceVersion.
        resource_version: Arc<str>,
        /// Instant seen.
        seen: Timestamp,
    },
    /// An object is gone. It carries its last state.
    Deleted {
        /// The object.
        object: T,
        /// Its resourceVersion at the deletion.
        resource_version: Arc<str>,
        /// Instant seen.
        seen: Timestamp,
    },
    /// The watch was heard from: a bookmark, or an event of an object that could not be read.
    Heard {
        /// Everything up to this resourceVersion was delivered.
        resource_version: Arc<str>,
        /// Instant seen.
        seen: Timestamp,
    },
    /// A request failed: what is known stays, and its age grows.
    Failed {
        /// What went wrong.
        error: Arc<str>,
        /// Instant seen.
        seen: Timestamp,
    },
    /// The kind is not installed: as good as listed and empty, until it is.
    Absent {
        /// When the request was sent.
        began: Timestamp,
        /// Instant seen.
        seen: Timestamp,
    },
}

/// One message of one source.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// Of JobSets.
    JobSets(Update<JobSet>),
    /// Of Nodes.
    Nodes(Update<Node>),
    /// Of leader Pods.
    Pods(Update<Pod>),
    /// Of slices.
    Slices(Update<Slice>),
    /// Of LeaderWorkerSets.
    LeaderWorkerSets(Update<LeaderWorkerSet>),
    /// Of a cloud's node pools.
    NodePools(Update<NodePool>),
}

impl Observation {
    /// Which source it is of.
    #[must_use]
    pub fn source(&self) -> Source {
        match self {
            Self::JobSets(_) => Source::JobSets,
            Self::Nodes(_) => Source::Nodes,
            Self::Pods(_) => Source::Pods,
            Self::Slices(_) => Source::Slices,
            Self::LeaderWorkerSets(_) => Source::LeaderWorkerSets,
            Self::NodePools(_) => Source::NodePoolApi,
        }
    }
}

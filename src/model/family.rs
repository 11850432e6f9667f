//! The availability families and the names each goes by.

use serde::{Deserialize, Serialize};

/// One availability ("upness") family: a set of objects judged by the same rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// JobSets, by the readiness of their child Jobs. Keyed by UID.
    JobSet,
    /// The nodes of a JobSet. Keyed by the JobSet's UID.
    JobSetNodes,
    /// Node pools. Keyed by name.
    NodePool,
    /// TPU slices. Keyed by name.
    Slice,
    /// LeaderWorkerSets. Keyed by UID.
    Lws,
}

impl Family {
    /// Every family, in the order in which they are published.
    pub const ALL: [Self; 5] = [
        Self::JobSet,
        Self::JobSetNodes,
        Self::NodePool,
        Self::Slice,
        Self::Lws,
    ];

    /// Position in [`Family::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The instrument name's first part: `jobset`, `jobset.nodes`, `nodepool`, `slice`, `lws`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::JobSet => "jobset",
            Self::JobSetNodes => "jobset.nodes",
            Self::NodePool => "nodepool",
            Self::Slice => "slice",
            Self::Lws => "lws",
        }
    }

    /// The `type` of a summary's log line.
    #[must_use]
    pub fn log_type(self) -> &'static str {
        match self {
            Self::JobSet => "jobsets",
            Self::JobSetNodes => "jobset-nodes",
            Self::NodePool => "nodepools",
            Self::Slice => "slices",
            Self::Lws => "leader-worker-sets",
        }
    }
}

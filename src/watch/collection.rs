//! The table of kinds: where each is served, what of it is asked for, how an object is read.

use super::node::NodeRules;
use super::{DecodeError, Decoded, Interner};
use super::{jobset, leader_worker_set, node, pod, slice};
use crate::model::{JobSet, LeaderWorkerSet, Node, Observation, Pod, Slice, Source, Update};

/// Where a kind's objects are served and what is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collection {
    /// API group; empty for the core group.
    pub(super) group: &'static str,
    /// API versions, the best first.
    pub(super) versions: &'static [&'static str],
    /// Plural name.
    pub(super) plural: &'static str,
    /// Label selector.
    pub(super) selector: Option<&'static str>,
    /// Objects of one page of a list, so that a page stays within a few MiB.
    pub(super) page: u32,
    /// Whether the kind comes with a CRD, and so may be missing.
    pub(super) custom: bool,
}

/// A kind of object that is followed.
pub(super) trait Kind: Send + 'static {
    /// The fact that an object states.
    type Object: Send + 'static;

    /// What its observations are called.
    const SOURCE: Source;

    /// Where it is served.
    const COLLECTION: Collection;

    /// Reads one object.
    fn decode(&mut self, json: &str) -> Result<Decoded<Self::Object>, DecodeError>;

    /// Wraps an update as one of this kind.
    fn observation(update: Update<Self::Object>) -> Observation;
}

/// JobSets.
#[derive(Default)]
pub(super) struct JobSets {
    strings: Interner,
}

impl Kind for JobSets {
    type Object = JobSet;
    const SOURCE: Source = Source::JobSets;
    const COLLECTION: Collection = Collection {
        group: "jobset.x-k8s.io",
        versions: &["v1alpha2"],
        plural: "jobsets",
        selector: None,
        page: 250,
        custom: true,
    };

    fn decode(&mut self, json: &str) -> Result<Decoded<JobSet>, DecodeError> {
        jobset::decode(json, &mut self.strings)
    }

    fn observation(update: Update<JobSet>) -> Observation {
        Observation::JobSets(update)
    }
}

/// Nodes.
pub(super) struct Nodes {
    rules: NodeRules,
    strings: Interner,
}

impl Nodes {
    pub(super) fn new(rules: NodeRules) -> Self {
        Self {
            rules,
            strings: Interner::default(),
        }
    }
}

impl Kind for Nodes {
    type Object = Node;
    const SOURCE: Source = Source::Nodes;
    const COLLECTION: Collection = Collection {
        group: "",
        versions: &["v1"],
        plural: "nodes",
        selector: None,
        page: 500,
        custom: false,
    };

    fn decode(&mut self, json: &str) -> Result<Decoded<Node>, DecodeError> {
        node::decode(json, &self.rules, &mut self.strings)
    }

    fn observation(update: Update<Node>) -> Observation {
        Observation::Nodes(update)
    }
}

/// JobSet leader Pods.
#[derive(Default)]
pub(super) struct Pods {
    strings: Interner,
}

impl Kind for Pods {
    type Object = Pod;
    const SOURCE: Source = Source::Pods;
    const COLLECTION: Collection = Collection {
        group: "",
        versions: &["v1"],
        plural: "pods",
        selector: Some(pod::LEADERS),
        page: 500,
        custom: false,
    };

    fn decode(&mut self, json: &str) -> Result<Decoded<Pod>, DecodeError> {
        pod::decode(json, &mut self.strings)
    }

    fn observation(update: Update<Pod>) -> Observation {
        Observation::Pods(update)
    }
}

/// TPU slices.
#[derive(Default)]
pub(super) struct Slices {
    strings: Interner,
}

impl Kind for Slices {
    type Object = Slice;
    const SOURCE: Source = Source::Slices;
    const COLLECTION: Collection = Collection {
        group: "accelerator.gke.io",
        versions: &["v1beta1", "v1alpha1"],
        plural: "slices",
        selector: None,
        page: 500,
        custom: true,
    };

    fn decode(&mut self, json: &str) -> Result<Decoded<Slice>, DecodeError> {
        slice::decode(json, &mut self.strings)
    }

    fn observation(update: Update<Slice>) -> Observation {
        Observation::Slices(update)
    }
}

/// LeaderWorkerSets.
#[derive(Default)]
pub(super) struct LeaderWorkerSets {
    strings: Interner,
}

impl Kind for LeaderWorkerSets {
    type Object = LeaderWorkerSet;
    const SOURCE: Source = Source::LeaderWorkerSets;
    const COLLECTION: Collection = Collection {
        group: "leaderworkerset.x-k8s.io",
        versions: &["v1"],
        plural: "leaderworkersets",
        selector: None,
        page: 250,
        custom: true,
    };

    fn decode(&mut self, json: &str) -> Result<Decoded<LeaderWorkerSet>, DecodeError> {
        leader_worker_set::decode(json, &mut self.strings)
    }

    fn observation(update: Update<LeaderWorkerSet>) -> Observation {
        Observation::LeaderWorkerSets(update)
    }
}

//! The sole owner of the current state: facts as last seen, joined through indexes (node to pool,
//! node to JobSet, pod to pool), and the changes that one more observation makes. It judges
//! nothing: what a change means, and when it happened, is `availability`'s to say.
//!
//! One observation touches the object it is about and what is joined to it; nothing is rescanned.
//! A list is a transaction: it is compared with what was known, and what is missing is gone.

mod nodes;
mod pods;
mod pools;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::{
    Attributes, Counts, Family, JobSet, LeaderWorkerSet, Node, NodePool, ObjectKey, Observation,
    Owner, Pod, Readiness, Slice, Undecodable, Update,
};

/// What observing depends on.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Node pools are known from node labels.
    pub label_pools: bool,
    /// Node pools are known from a cloud's API.
    pub api_pools: bool,
    /// Sizes set for label pools, by name.
    pub pool_sizes: BTreeMap<String, i64>,
    /// Slice mode: `slice` is published and `jobset.nodes` is not.
    pub slice_mode: bool,
}

/// What is observed of one object of a family.
#[derive(Clone, Debug)]
pub struct Object {
    /// What names it.
    pub attributes: Arc<Attributes>,
    /// The counts that the rule of up compares.
    pub counts: Counts,
    /// Whether a down is, or would be, expected.
    pub expected_down: bool,
    /// Chips it asks for; 0 when no topology is known.
    pub chips: i64,
    /// The JobSet's Completed, Failed or Suspended, the pool's status, else empty.
    pub status: Arc<str>,
    /// Since when those of a JobSet's conditions are True that end an up.
    pub conditions: ConditionTimes,
    /// When its life began, where that is known: creation, or a pool's create operation or oldest
    /// node.
    pub start: Option<Timestamp>,
    /// What kind of pool it is; `None` for what is no pool.
    pub pool: Option<PoolKind>,
    /// A label pool that has lost its last node.
    pub empty: bool,
    /// A pool that a cloud's API lists, whatever it is known by.
    pub listed: bool,
    /// When a pool's create operation started, where that is known.
    pub made: Option<Timestamp>,
    /// When its provisioning failed by its create operation.
    pub create_failed: Option<Timestamp>,
    /// The instant its state changed by its own word (a slice's condition or deletion).
    pub changed: Option<Timestamp>,
}

/// Since when a JobSet's conditions are True.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConditionTimes {
    /// `Completed`.
    pub completed: Option<Timestamp>,
    /// `Failed`.
    pub failed: Option<Timestamp>,
    /// `Suspended`.
    pub suspended: Option<Timestamp>,
}

/// Whose word a node pool is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolKind {
    /// A cloud's API lists it with a topology.
    Api,
    /// Its nodes' labels, with a TPU topology.
    LabelTpu,
    /// Its nodes' labels, without one.
    Label,
}

/// A node as a member of a pool or of a JobSet: what of it decides the object's counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the node.
    pub name: Arc<str>,
    /// UID of the node.
    pub uid: Arc<str>,
    /// creationTimestamp of the node.
    pub created: Timestamp,
    /// Its readiness.
    pub readiness: Readiness,
    /// Since when.
    pub since: Option<Timestamp>,
    /// It is Unknown for longer than is tolerated: it counts as not ready.
    pub overdue: bool,
}

impl Member {
    /// What it adds to the counts: (ready, unknown).
    #[must_use]
    pub fn weight(&self) -> (i64, i64) {
        match self.readiness {
            Readiness::Ready => (1, 0),
            Readiness::Unknown if !self.overdue => (0, 1),
            Readiness::Unknown | Readiness::NotReady => (0, 0),
        }
    }
}

/// What one observation changed.
#[derive(Clone, Debug)]
pub enum Change {
    /// A node of the object came (`before` is `None`), went (`after` is `None`), or changed.
    Member {
        /// The object.
        object: ObjectKey,
        /// As it was.
        before: Option<Member>,
        /// As it is.
        after: Option<Member>,
    },
    /// The object itself is new or changed: read it with [`Observed::object`].
    Object(ObjectKey),
    /// The object is gone.
    Gone(ObjectKey),
    /// What a history must remember of a node has changed: it is new under its name, (`None`) gone,
    /// or is or was not Ready.
    Node {
        /// Name of the node.
        name: Arc<str>,
        /// As it is.
        member: Option<Member>,
    },
    /// A node's deadline may have moved: it is Unknown since the instant, or (`None`) no longer.
    Unknown {
        /// Name of the node.
        node: Arc<str>,
        /// Since when it is Unknown by its condition.
        since: Option<Timestamp>,
    },
    /// A leader pod's place changed: read it with [`Observed::scheduled`].
    Pod(Arc<str>),
}

/// A leader pod that runs on a pool of the nodepool family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The pool.
    pub pool: Arc<str>,
    /// The pod's Job.
    pub job: Arc<str>,
    /// The pod's JobSet.
    pub jobset: Arc<str>,
}

/// Counts over a set of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    total: i64,
    ready: i64,
    unknown: i64,
}

impl Tally {
    fn add(&mut self, member: &Member, sign: i64) {
        let (ready, unknown) = member.weight();
        self.total += sign;
        self.ready += sign * ready;
        self.unknown += sign * unknown;
    }
}

type NamespacedName = (Arc<str>, Arc<str>);

/// The current state. See the module's description.
#[derive(Debug, Default)]
pub struct Observed {
    settings: Settings,
    // Boxed: the tables are half empty after they have grown.
    nodes: HashMap<Arc<str>, Box<nodes::Entry>>,
    pools: HashMap<Arc<str>, pools::Pool>,
    jobsets: HashMap<Arc<str>, Box<workloads::JobSetEntry>>,
    jobset_names: HashMap<NamespacedName, Arc<str>>,
    jobset_nodes: HashMap<NamespacedName, workloads::NodeGroup>,
    pods: HashMap<Arc<str>, Pod>,
    pods_by_node: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    slices: HashMap<Arc<str>, workloads::SliceEntry>,
    slices_by_owner: HashMap<NamespacedName, BTreeSet<Arc<str>>>,
    leader_worker_sets: HashMap<Arc<str>, workloads::LwsEntry>,
    lws_names: HashMap<NamespacedName, Arc<str>>,
    /// Workloads of the last lists that exist and could not be read.
    unreadable: BTreeMap<Family, Vec<Undecodable>>,
    /// Pools whose size cannot be computed.
    unsized_pools: BTreeSet<Arc<str>>,
    /// Those of them that nobody has been told of.
    newly_unsized: Vec<Arc<str>>,
}

impl Observed {
    /// An empty state.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Takes one observation and returns what it changed.
    pub fn take(&mut self, observation: Observation) -> Vec<Change> {
        let mut out = Vec::new();
        match observation {
            Observation::JobSets(update) => apply(self, update, &mut out),
            Observation::Nodes(update) => apply(self, update, &mut out),
            Observation::Pods(update) => apply(self, update, &mut out),
            Observation::Slices(update) => apply(self, update, &mut out),
            Observation::LeaderWorkerSets(update) => apply(self, update, &mut out),
            Observation::NodePools(update) => apply(self, update, &mut out),
        }
        out
    }

    /// What is observed of an object.
    #[must_use]
    pub fn object(&self, key: &ObjectKey) -> Option<&Object> {
        match key.family {
            Family::JobSet => self.jobsets.get(&key.key).map(|entry| &entry.object),
            Family::JobSetNodes if self.settings.slice_mode => None,
            Family::JobSetNodes => self.jobsets.get(&key.key).map(|entry| &entry.nodes),
            Family::NodePool => self
                .pools
                .get(&key.key)
                .and_then(|pool| pool.object.as_ref()),
            Family::Slice => self.slices.get(&key.key).map(|entry| &entry.object),
            Family::Lws => self
                .leader_worker_sets
                .get(&key.key)
                .map(|entry| &entry.object),
        }
    }

    /// The keys of all objects of a family.
    #[must_use]
    pub fn keys(&self, family: Family) -> Vec<ObjectKey> {
        let names: Vec<Arc<str>> = match family {
            Family::JobSetNodes if self.settings.slice_mode => Vec::new(),
            Family::JobSet | Family::JobSetNodes => self.jobsets.keys().cloned().collect(),
            Family::NodePool => {
                let shown = self.pools.iter().filter(|(_, pool)| pool.object.is_some());
                shown.map(|(name, _)| name.clone()).collect()
            }
            Family::Slice => self.slices.keys().cloned().collect(),
            Family::Lws => self.leader_worker_sets.keys().cloned().collect(),
        };
        let mut keys: Vec<_> = names
            .into_iter()
            .map(|key| ObjectKey { family, key })
            .collect();
        keys.sort();
        keys
    }

    /// The nodes that decide an object's counts, by name.
    #[must_use]
    pub fn members(&self, key: &ObjectKey) -> Vec<Member> {
        match key.family {
            Family::NodePool => self.pool_members(&key.key),
            Family::JobSetNodes => self.jobset_members(&key.key),
            Family::JobSet | Family::Slice | Family::Lws => Vec::new(),
        }
    }

    /// Whether an object of that name exists that could not be read in the last list.
    #[must_use]
    pub fn is_unreadable(&self, family: Family, attributes: &Attributes) -> bool {
        let family = if family == Family::JobSetNodes {
            Family::JobSet
        } else {
            family
        };
        let unreadable = self.unreadable.get(&family).into_iter().flatten();
        let mut unreadable = unreadable.map(|u| (&u.namespace, &u.name));
        unreadable.any(|name| name == (&attributes.namespace, &attributes.name))
    }

    /// Pools whose size turned out not to be computable since this was last asked: they are not
    /// published.
    pub fn take_unsized_pools(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.newly_unsized)
    }
}

/// A kind of fact that the state holds.
trait Fact: Sized {
    /// What identifies an object of the kind in the state.
    fn identity(&self) -> Arc<str>;
    /// Whether an object is the one that could not be read.
    fn named(&self, undecodable: &Undecodable) -> bool;
    /// Every identity that the state holds.
    fn known(state: &Observed) -> Vec<Arc<str>>;
    /// Whether the held object of that identity is one that could not be read.
    fn held_as(state: &Observed, identity: &str, undecodable: &[Undecodable]) -> bool;
    /// Notes what exists and could not be read in the last list.
    fn unreadable(_state: &mut Observed, _undecodable: Vec<Undecodable>) {}
    /// Puts the object in.
    fn put(self, state: &mut Observed, out: &mut Vec<Change>);
    /// Takes the object out.
    fn remove(state: &mut Observed, identity: &str, seen: Timestamp, out: &mut Vec<Change>);
}

fn apply<T: Fact>(state: &mut Observed, update: Update<T>, out: &mut Vec<Change>) {
    match update {
        Update::Listed {
            objects,
            undecodable,
            seen,
            ..
        } => {
            let listed: std::collections::HashSet<Arc<str>> =
                objects.iter().map(Fact::identity).collect();
            let mut gone: Vec<_> = T::known(state)
                .into_iter()
                .filter(|known| !listed.contains(known))
                .collect();
            gone.sort();
            // What came before what went, so that a pool whose nodes were replaced is never empty.
            for object in objects {
                object.put(state, out);
            }
            for identity in gone {
                if !T::held_as(state, &identity, &undecodable) {
                    T::remove(state, &identity, seen, out);
                }
            }
            T::unreadable(state, undecodable);
        }
        Update::Absent { seen, .. } => {
            let mut gone = T::known(state);
            gone.sort();
            for identity in gone {
                T::remove(state, &identity, seen, out);
            }
        }
        Update::Applied { object, .. } => object.put(state, out),
        Update::Deleted { object, seen, .. } => T::remove(state, &object.identity(), seen, out),
        Update::Heard { .. } | Update::Failed { .. } => {}
    }
}

/// The same `Arc` as before where the attributes did not change, so that what readers derived from
/// it stays.
fn keep(before: Option<&Object>, attributes: Attributes) -> Arc<Attributes> {
    match before {
        Some(object) if *object.attributes == attributes => object.attributes.clone(),
        _ => Arc::new(attributes),
    }
}

fn or_empty(value: Option<&Arc<str>>) -> Arc<str> {
    value.cloned().unwrap_or_default()
}

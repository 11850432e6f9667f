//! Node pools, by a cloud's API and by their nodes' labels, with the nodes joined to each.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::nodes::Entry;
use super::{
    Attributes, Change, ConditionTimes, Counts, Fact, Member, NodePool, Object, Observed, PoolKind,
    Settings, Tally, Undecodable, keep, or_empty,
};
use crate::model::{Family, ObjectKey, Topology, machine_chips};

/// A node pool: what the API says, and the nodes labelled for it.
#[derive(Debug, Default)]
pub(super) struct Pool {
    api: Option<NodePool>,
    members: BTreeSet<Arc<str>>,
    tpu_nodes: BTreeSet<Arc<str>>,
    /// Nodes that have a topology or offer an accelerator: with none, it is no accelerator pool.
    accelerated: i64,
    all: Tally,
    tpu: Tally,
    /// When the API dropped it: nodes from before then no longer make a pool.
    dropped: Option<Timestamp>,
    /// It was an accelerator pool by its labels, and stays one while it has nodes, also where their
    /// device plugin is away.
    remembered: bool,
    pub(super) object: Option<Object>,
}

fn accelerated(entry: &Entry) -> bool {
    entry.fact.topology.is_some() || entry.fact.offers_accelerator
}

impl Pool {
    fn add(&mut self, entry: &Entry, sign: i64) {
        let member = entry.member();
        self.all.add(&member, sign);
        self.accelerated += if accelerated(entry) { sign } else { 0 };
        if entry.fact.topology.is_some() {
            self.tpu.add(&member, sign);
        }
        if sign > 0 {
            if entry.fact.topology.is_some() {
                self.tpu_nodes.insert(member.name.clone());
            }
            self.members.insert(member.name);
        } else {
            self.tpu_nodes.remove(&member.name);
            self.members.remove(&member.name);
        }
    }

    /// Whose word it is known by, if it is a pool of the family at all.
    fn kind(&self, settings: &Settings) -> Option<PoolKind> {
        if settings.api_pools && self.api.as_ref().is_some_and(|api| api.topology.is_some()) {
            return Some(PoolKind::Api);
        }
        if !settings.label_pools || self.dropped.is_some() {
            return None;
        }
        if self.accelerated > 0 || (self.remembered && !self.members.is_empty()) {
            return Some(if self.tpu_nodes.is_empty() {
                PoolKind::Label
            } else {
                PoolKind::LabelTpu
            });
        }
        // One with a topology is remembered when its last node goes.
        let before = self.object.as_ref().and_then(|object| object.pool);
        (self.members.is_empty() && before == Some(PoolKind::LabelTpu))
            .then_some(PoolKind::LabelTpu)
    }

    /// Whether a node counts in the kind of pool that this is.
    fn counts(&self, entry: &Entry) -> bool {
        match self.object.as_ref().and_then(|object| object.pool) {
            None => false,
            Some(PoolKind::Api) => entry.fact.topology.is_some(),
            Some(PoolKind::Label | PoolKind::LabelTpu) => true,
        }
    }
}

impl Fact for NodePool {
    fn identity(&self) -> Arc<str> {
        self.name.clone()
    }

    fn named(&self, undecodable: &Undecodable) -> bool {
        self.name == undecodable.name
    }

    fn known(state: &Observed) -> Vec<Arc<str>> {
        let listed = state.pools.iter().filter(|(_, pool)| pool.api.is_some());
        listed.map(|(name, _)| name.clone()).collect()
    }

    fn held_as(state: &Observed, identity: &str, undecodable: &[Undecodable]) -> bool {
        let api = state.pools.get(identity).and_then(|pool| pool.api.as_ref());
        api.is_some_and(|api| undecodable.iter().any(|u| api.named(u)))
    }

    fn put(self, state: &mut Observed, out: &mut Vec<Change>) {
        let name = self.name.clone();
        let pool = state.pools.entry(name.clone()).or_default();
        if pool.api.as_ref() == Some(&self) {
            return;
        }
        // Made again under its name: another pool.
        let old = pool.api.as_ref().and_then(|api| api.operation.as_ref());
        let anew = match (old, &self.operation) {
            (Some(old), Some(new)) => new.start > old.start,
            _ => false,
        };
        if anew && pool.object.take().is_some() {
            out.push(gone(&name));
        }
        pool.api = Some(self);
        pool.dropped = None;
        state.refresh_pool(&name, out);
    }

    fn remove(state: &mut Observed, identity: &str, seen: Timestamp, out: &mut Vec<Change>) {
        let Some(pool) = state.pools.get_mut(identity) else {
            return;
        };
        pool.api = None;
        pool.dropped = Some(seen);
        state.refresh_pool(&Arc::from(identity), out);
    }
}

impl Observed {
    pub(super) fn pool_members(&self, name: &str) -> Vec<Member> {
        let Some(pool) = self.pools.get(name) else {
            return Vec::new();
        };
        let entries = pool.members.iter().filter_map(|node| self.nodes.get(node));
        entries
            .filter(|entry| pool.counts(entry))
            .map(|entry| entry.member())
            .collect()
    }

    /// Ends a label pool that stayed without nodes.
    pub fn forget_pool(&mut self, name: &str) -> Vec<Change> {
        let mut out = Vec::new();
        let Some(pool) = self.pools.get_mut(name) else {
            return out;
        };
        let empty = pool.object.as_ref().is_some_and(|object| object.empty);
        if empty && pool.members.is_empty() {
            pool.object = None;
            pool.remembered = false;
            if pool.api.is_none() {
                self.pools.remove(name);
            }
            out.push(gone(name));
        }
        out
    }

    /// Takes up a label pool that the history knows: without a node now, or with nodes that offer
    /// no accelerator at the moment.
    pub fn restore_pool(
        &mut self,
        name: &Arc<str>,
        kind: PoolKind,
        attributes: Arc<Attributes>,
        expected: i64,
    ) {
        let pool = self.pools.entry(name.clone()).or_default();
        if pool.object.is_some() || pool.kind(&self.settings) == Some(PoolKind::Api) {
            return;
        }
        pool.remembered = true;
        if !pool.members.is_empty() {
            // What is joined to it is compared with the history afterwards.
            self.refresh_pool(name, &mut Vec::new());
        } else if kind == PoolKind::LabelTpu {
            let chips = attributes.tpu_topology.parse().map_or(0, Topology::chips);
            pool.object = Some(Object {
                attributes,
                counts: Counts {
                    expected: expected.max(1),
                    ready: 0,
                    unknown: 0,
                },
                expected_down: false,
                chips,
                status: Arc::default(),
                conditions: ConditionTimes::default(),
                start: None,
                pool: Some(PoolKind::LabelTpu),
                empty: true,
                listed: pool.api.is_some(),
                made: None,
                create_failed: None,
                changed: None,
            });
        } else if pool.api.is_none() {
            self.pools.remove(name);
        }
    }

    /// The names of a pool's nodes, also while it is no pool of the family.
    pub(super) fn pool_nodes(&self, pool: &str) -> impl Iterator<Item = &Arc<str>> {
        self.pools
            .get(pool)
            .into_iter()
            .flat_map(|pool| &pool.members)
    }

    /// When the oldest node of a pool was made.
    #[must_use]
    pub fn oldest_node(&self, pool: &str) -> Option<Timestamp> {
        let nodes = self
            .pool_nodes(pool)
            .filter_map(|node| self.nodes.get(node));
        nodes.map(|entry| entry.fact.created).min()
    }

    pub(super) fn join_pool(
        &mut self,
        name: &Arc<str>,
        before: Option<&Entry>,
        after: Option<&Entry>,
        out: &mut Vec<Change>,
    ) {
        let pool = self.pools.entry(name.clone()).or_default();
        if let Some(before) = before {
            pool.add(before, -1);
        }
        if let Some(after) = after {
            pool.add(after, 1);
            if pool
                .dropped
                .is_some_and(|dropped| after.fact.created > dropped)
            {
                pool.dropped = None;
            }
        }
        let was = before.filter(|entry| pool.counts(entry)).map(Entry::member);
        let kind = pool.object.as_ref().and_then(|object| object.pool);
        if kind.is_some() {
            let is = after.filter(|entry| pool.counts(entry)).map(Entry::member);
            if was != is {
                let object = key(name);
                out.push(Change::Member {
                    object,
                    before: was,
                    after: is,
                });
            }
        }
        self.refresh_pool(name, out);
    }

    /// Computes what is observed of a pool anew from its tallies, and says what of it changed.
    fn refresh_pool(&mut self, name: &Arc<str>, out: &mut Vec<Change>) {
        let Some(pool) = self.pools.get(name) else {
            return;
        };
        let made = pool
            .kind(&self.settings)
            .map(|kind| self.pool_object(name, pool, kind));
        let unsized_pool = matches!(made, Some(None));
        let object = made.flatten();
        if unsized_pool {
            if self.unsized_pools.insert(name.clone()) {
                self.newly_unsized.push(name.clone());
            }
        } else {
            self.unsized_pools.remove(name);
        }
        let Some(pool) = self.pools.get_mut(name) else {
            return;
        };
        match (&pool.object, &object) {
            (None, None) => {}
            (Some(_), None) => out.push(gone(name)),
            (None, Some(_)) => out.push(Change::Object(key(name))),
            (Some(before), Some(after)) => {
                if shape(before) != shape(after) {
                    out.push(Change::Object(key(name)));
                }
            }
        }
        let shown = pool.object.is_some() != object.is_some();
        let by_labels = object.as_ref().and_then(|object| object.pool);
        pool.remembered = by_labels.is_some_and(|kind| kind != PoolKind::Api);
        pool.object = object;
        if pool.object.is_none() && pool.members.is_empty() && pool.api.is_none() {
            self.pools.remove(name);
        }
        if shown {
            self.pods_of_pool(name, out);
        }
    }

    /// `None` where its size cannot be computed.
    fn pool_object(&self, name: &Arc<str>, pool: &Pool, kind: PoolKind) -> Option<Object> {
        let first = pool.tpu_nodes.iter().find_map(|node| self.nodes.get(node));
        let by_labels = first.and_then(|entry| {
            let topology: Topology = entry.fact.topology.as_ref()?.parse().ok()?;
            let count = entry.fact.accelerator_count.filter(|count| *count > 0)?;
            Some(topology.chips() / count)
        });
        let before = pool
            .object
            .as_ref()
            .filter(|object| object.pool == Some(kind));
        let status = pool.api.as_ref().map(|api| api.status.clone());
        let status = status.unwrap_or_default();
        let empty = kind != PoolKind::Api && pool.members.is_empty();
        if empty && let Some(before) = before {
            let counts = Counts {
                expected: before.counts.expected.max(1),
                ready: 0,
                unknown: 0,
            };
            return Some(Object {
                counts,
                empty,
                expected_down: leaves(&status),
                listed: pool.api.is_some(),
                status,
                ..before.clone()
            });
        }
        let oldest = || {
            let nodes = pool.members.iter().filter_map(|node| self.nodes.get(node));
            nodes.map(|entry| entry.fact.created).min()
        };
        let start = |told: Option<Timestamp>| match before.and_then(|before| before.start) {
            Some(start) => Some(told.unwrap_or(start)),
            None => told.or_else(oldest),
        };
        match kind {
            PoolKind::Api => {
                let api = pool.api.as_ref()?;
                let topology = api.topology.as_ref()?;
                let chips = topology.parse::<Topology>().ok()?.chips();
                let machine = api.machine_type.as_deref().and_then(machine_chips);
                let expected = match machine.map(|machine| chips / machine) {
                    Some(0) => by_labels.unwrap_or(0),
                    Some(expected) => expected,
                    None => by_labels.filter(|_| self.settings.label_pools)?,
                };
                let from_label = first.filter(|_| self.settings.label_pools);
                let accelerator = api.accelerator.as_ref();
                let accelerator = accelerator
                    .or_else(|| from_label.and_then(|entry| entry.fact.accelerator.as_ref()));
                let attributes = Attributes {
                    name: name.clone(),
                    tpu_topology: topology.clone(),
                    tpu_accelerator: or_empty(accelerator),
                    spot: api.spot,
                    ..Attributes::default()
                };
                Some(Object {
                    attributes: keep(before, attributes),
                    counts: Counts {
                        expected,
                        ready: pool.tpu.ready,
                        unknown: pool.tpu.unknown,
                    },
                    expected_down: leaves(&status),
                    chips,
                    status,
                    conditions: ConditionTimes::default(),
                    start: start(api.operation.as_ref().map(|operation| operation.start)),
                    pool: Some(kind),
                    empty: false,
                    listed: true,
                    made: api.operation.as_ref().map(|operation| operation.start),
                    create_failed: api
                        .operation
                        .as_ref()
                        .and_then(|operation| operation.failed),
                    changed: None,
                })
            }
            PoolKind::Label | PoolKind::LabelTpu => {
                let shown =
                    first.or_else(|| pool.members.iter().find_map(|node| self.nodes.get(node)));
                let fact = shown.map(|entry| &entry.fact);
                let topology = fact.and_then(|fact| fact.topology.as_ref());
                let chips = topology
                    .and_then(|t| t.parse().ok())
                    .map_or(0, Topology::chips);
                let expected = by_labels
                    .filter(|expected| *expected > 0)
                    .or_else(|| self.settings.pool_sizes.get(&**name).copied())
                    .unwrap_or(pool.all.total);
                let attributes = Attributes {
                    name: name.clone(),
                    tpu_topology: or_empty(topology),
                    tpu_accelerator: or_empty(fact.and_then(|fact| fact.accelerator.as_ref())),
                    spot: fact.is_some_and(|fact| fact.spot),
                    ..Attributes::default()
                };
                Some(Object {
                    attributes: keep(before, attributes),
                    counts: Counts {
                        expected,
                        ready: pool.all.ready,
                        unknown: pool.all.unknown,
                    },
                    expected_down: leaves(&status),
                    chips,
                    status,
                    conditions: ConditionTimes::default(),
                    start: start(None),
                    pool: Some(kind),
                    empty: false,
                    listed: pool.api.is_some(),
                    made: None,
                    create_failed: None,
                    changed: None,
                })
            }
        }
    }
}

/// Whether a pool of that status is on its way out.
fn leaves(status: &str) -> bool {
    matches!(status, "STOPPING" | "DELETING")
}

/// What of an object changes other than through its nodes.
fn shape(object: &Object) -> impl PartialEq + '_ {
    (
        &object.attributes,
        object.counts.expected,
        object.expected_down,
        object.chips,
        &object.status,
        object.start,
        (object.pool, object.empty, object.create_failed),
    )
}

fn key(name: &Arc<str>) -> ObjectKey {
    ObjectKey {
        family: Family::NodePool,
        key: name.clone(),
    }
}

fn gone(name: &str) -> Change {
    Change::Gone(key(&Arc::from(name)))
}

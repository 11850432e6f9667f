//! JobSets and their nodes, slices and their owners, LeaderWorkerSets.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Attributes, Change, ConditionTimes, Counts, Fact, JobSet, LeaderWorkerSet, Member,
    NamespacedName, Object, Observed, Owner, Slice, Tally, Undecodable, keep, or_empty,
};
use crate::model::{Family, ObjectKey, Readiness, Topology};

/// A JobSet, and what is observed of it and of its nodes.
#[derive(Debug)]
pub(super) struct JobSetEntry {
    fact: JobSet,
    pub(super) object: Object,
    pub(super) nodes: Object,
}

/// A slice, and what is observed of it.
#[derive(Debug)]
pub(super) struct SliceEntry {
    fact: Slice,
    pub(super) object: Object,
}

/// A LeaderWorkerSet, and what is observed of it.
#[derive(Debug)]
pub(super) struct LwsEntry {
    fact: LeaderWorkerSet,
    pub(super) object: Object,
}

/// The nodes that are labelled for one JobSet.
#[derive(Debug, Default)]
pub(super) struct NodeGroup {
    members: BTreeSet<Arc<str>>,
    tally: Tally,
}

impl NodeGroup {
    pub(super) fn change(&mut self, before: Option<&Member>, after: Option<&Member>) {
        if let Some(before) = before {
            self.tally.add(before, -1);
            self.members.remove(&before.name);
        }
        if let Some(after) = after {
            self.tally.add(after, 1);
            self.members.insert(after.name.clone());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

/// What an object is like before its own kind fills in the rest.
fn object(attributes: Arc<Attributes>, created: Timestamp, chips: i64) -> Object {
    Object {
        attributes,
        counts: Counts::default(),
        expected_down: false,
        chips,
        status: Arc::default(),
        conditions: ConditionTimes::default(),
        start: Some(created),
        pool: None,
        empty: false,
        listed: false,
        made: None,
        create_failed: None,
        changed: None,
    }
}

fn jobset_status(fact: &JobSet) -> Arc<str> {
    if fact.completed.is_some() {
        "Completed".into()
    } else if fact.failed.is_some() {
        "Failed".into()
    } else if fact.suspended.is_some() {
        "Suspended".into()
    } else {
        Arc::default()
    }
}

impl Fact for JobSet {
    fn identity(&self) -> Arc<str> {
        self.uid.clone()
    }

    fn named(&self, undecodable: &Undecodable) -> bool {
        self.name == undecodable.name && self.namespace == undecodable.namespace
    }

    fn known(state: &Observed) -> Vec<Arc<str>> {
        state.jobsets.keys().cloned().collect()
    }

    fn held_as(state: &Observed, identity: &str, undecodable: &[Undecodable]) -> bool {
        let entry = state.jobsets.get(identity);
        entry.is_some_and(|entry| undecodable.iter().any(|u| entry.fact.named(u)))
    }

    fn unreadable(state: &mut Observed, undecodable: Vec<Undecodable>) {
        state.unreadable.insert(Family::JobSet, undecodable);
    }

    fn put(self, state: &mut Observed, out: &mut Vec<Change>) {
        let uid = self.uid.clone();
        let before = state.jobsets.get(&uid);
        if before.is_some_and(|entry| entry.fact == self) {
            return;
        }
        let name: NamespacedName = (self.namespace.clone(), self.name.clone());
        let attributes = keep(
            before.map(|entry| &entry.object),
            Attributes {
                name: self.name.clone(),
                namespace: self.namespace.clone(),
                uid: uid.clone(),
                tpu_topology: or_empty(self.topology.as_ref()),
                tpu_accelerator: or_empty(self.accelerator.as_ref()),
                spot: self.spot,
                ..Attributes::default()
            },
        );
        let conditions = ConditionTimes {
            completed: self.completed,
            failed: self.failed,
            suspended: self.suspended,
        };
        let tally = state
            .jobset_nodes
            .get(&name)
            .map(|group| group.tally)
            .unwrap_or_default();
        let shared = Object {
            status: jobset_status(&self),
            conditions,
            ..object(attributes, self.created, self.chips)
        };
        let entry = Box::new(JobSetEntry {
            object: Object {
                counts: Counts {
                    expected: self.expected,
                    ready: self.ready,
                    unknown: 0,
                },
                expected_down: self.completed.is_some(),
                ..shared.clone()
            },
            nodes: Object {
                counts: Counts {
                    expected: self.expected_nodes,
                    ready: tally.ready,
                    unknown: tally.unknown,
                },
                // It is the JobSet that is Completed, not its nodes.
                status: Arc::default(),
                ..shared
            },
            fact: self,
        });
        // A namesake of another life that was not seen to end is gone.
        if let Some(old) = state
            .jobset_names
            .insert(name, uid.clone())
            .filter(|old| *old != uid)
            && state.jobsets.remove(&old).is_some()
        {
            state.say_jobset_gone(&old, out);
        }
        let owner = (entry.fact.namespace.clone(), entry.fact.name.clone());
        state.jobsets.insert(uid.clone(), entry);
        out.push(Change::Object(ObjectKey {
            family: Family::JobSet,
            key: uid.clone(),
        }));
        if !state.settings.slice_mode {
            out.push(Change::Object(ObjectKey {
                family: Family::JobSetNodes,
                key: uid,
            }));
        }
        state.refresh_slices_of(&owner, out);
    }

    fn remove(state: &mut Observed, identity: &str, _seen: Timestamp, out: &mut Vec<Change>) {
        let Some(entry) = state.jobsets.remove(identity) else {
            return;
        };
        let name = (entry.fact.namespace, entry.fact.name);
        if state
            .jobset_names
            .get(&name)
            .is_some_and(|uid| **uid == *identity)
        {
            state.jobset_names.remove(&name);
        }
        state.say_jobset_gone(&entry.fact.uid, out);
        state.refresh_slices_of(&name, out);
    }
}

impl Fact for LeaderWorkerSet {
    fn identity(&self) -> Arc<str> {
        self.uid.clone()
    }

    fn named(&self, undecodable: &Undecodable) -> bool {
        self.name == undecodable.name && self.namespace == undecodable.namespace
    }

    fn known(state: &Observed) -> Vec<Arc<str>> {
        state.leader_worker_sets.keys().cloned().collect()
    }

    fn held_as(state: &Observed, identity: &str, undecodable: &[Undecodable]) -> bool {
        let entry = state.leader_worker_sets.get(identity);
        entry.is_some_and(|entry| undecodable.iter().any(|u| entry.fact.named(u)))
    }

    fn unreadable(state: &mut Observed, undecodable: Vec<Undecodable>) {
        state.unreadable.insert(Family::Lws, undecodable);
    }

    fn put(self, state: &mut Observed, out: &mut Vec<Change>) {
        let uid = self.uid.clone();
        let before = state.leader_worker_sets.get(&uid);
        if before.is_some_and(|entry| entry.fact == self) {
            return;
        }
        let attributes = keep(
            before.map(|entry| &entry.object),
            Attributes {
                name: self.name.clone(),
                namespace: self.namespace.clone(),
                uid: uid.clone(),
                tpu_topology: or_empty(self.topology.as_ref()),
                tpu_accelerator: or_empty(self.accelerator.as_ref()),
                spot: self.spot,
                ..Attributes::default()
            },
        );
        let object = Object {
            counts: Counts {
                expected: self.expected,
                ready: self.ready,
                unknown: 0,
            },
            ..object(attributes, self.created, self.chips)
        };
        let name = (self.namespace.clone(), self.name.clone());
        state.lws_names.insert(name.clone(), uid.clone());
        state
            .leader_worker_sets
            .insert(uid.clone(), LwsEntry { fact: self, object });
        out.push(Change::Object(ObjectKey {
            family: Family::Lws,
            key: uid,
        }));
        state.refresh_slices_of(&name, out);
    }

    fn remove(state: &mut Observed, identity: &str, _seen: Timestamp, out: &mut Vec<Change>) {
        let Some(entry) = state.leader_worker_sets.remove(identity) else {
            return;
        };
        let name = (entry.fact.namespace, entry.fact.name);
        if state
            .lws_names
            .get(&name)
            .is_some_and(|uid| **uid == *identity)
        {
            state.lws_names.remove(&name);
        }
        out.push(Change::Gone(ObjectKey {
            family: Family::Lws,
            key: entry.fact.uid,
        }));
        state.refresh_slices_of(&name, out);
    }
}

impl Fact for Slice {
    fn identity(&self) -> Arc<str> {
        self.name.clone()
    }

    fn named(&self, undecodable: &Undecodable) -> bool {
        self.name == undecodable.name
    }

    fn known(state: &Observed) -> Vec<Arc<str>> {
        state.slices.keys().cloned().collect()
    }

    fn held_as(state: &Observed, identity: &str, undecodable: &[Undecodable]) -> bool {
        let entry = state.slices.get(identity);
        entry.is_some_and(|entry| undecodable.iter().any(|u| entry.fact.named(u)))
    }

    fn unreadable(state: &mut Observed, undecodable: Vec<Undecodable>) {
        state.unreadable.insert(Family::Slice, undecodable);
    }

    fn put(self, state: &mut Observed, out: &mut Vec<Change>) {
        let name = self.name.clone();
        let before = state.slices.get(&name);
        if before.is_some_and(|entry| entry.fact == self) {
            return;
        }
        let old_owner = before.and_then(|entry| owner_name(&entry.fact.owner));
        let object = state.slice_object(&self, before.map(|entry| &entry.object));
        let owner = owner_name(&self.owner);
        if old_owner != owner {
            if let Some(old) = old_owner {
                state.forget_slice_owner(&old, &name);
            }
            if let Some(owner) = owner {
                state
                    .slices_by_owner
                    .entry(owner)
                    .or_default()
                    .insert(name.clone());
            }
        }
        state
            .slices
            .insert(name.clone(), SliceEntry { fact: self, object });
        out.push(Change::Object(ObjectKey {
            family: Family::Slice,
            key: name,
        }));
    }

    fn remove(state: &mut Observed, identity: &str, _seen: Timestamp, out: &mut Vec<Change>) {
        let Some(entry) = state.slices.remove(identity) else {
            return;
        };
        if let Some(owner) = owner_name(&entry.fact.owner) {
            state.forget_slice_owner(&owner, identity);
        }
        out.push(Change::Gone(ObjectKey {
            family: Family::Slice,
            key: entry.fact.name,
        }));
    }
}

fn owner_name(owner: &Owner) -> Option<NamespacedName> {
    Some((owner.namespace.clone()?, owner.name.clone()?))
}

impl Observed {
    fn say_jobset_gone(&self, uid: &Arc<str>, out: &mut Vec<Change>) {
        out.push(Change::Gone(ObjectKey {
            family: Family::JobSet,
            key: uid.clone(),
        }));
        if !self.settings.slice_mode {
            out.push(Change::Gone(ObjectKey {
                family: Family::JobSetNodes,
                key: uid.clone(),
            }));
        }
    }

    pub(super) fn count_jobset_nodes(&mut self, uid: &str) {
        let Some(entry) = self.jobsets.get_mut(uid) else {
            return;
        };
        let name = (entry.fact.namespace.clone(), entry.fact.name.clone());
        let tally = self
            .jobset_nodes
            .get(&name)
            .map(|group| group.tally)
            .unwrap_or_default();
        entry.nodes.counts.ready = tally.ready;
        entry.nodes.counts.unknown = tally.unknown;
    }

    pub(super) fn jobset_members(&self, uid: &str) -> Vec<Member> {
        let Some(entry) = self.jobsets.get(uid) else {
            return Vec::new();
        };
        let name = (entry.fact.namespace.clone(), entry.fact.name.clone());
        let members = self.jobset_nodes.get(&name).map(|group| &group.members);
        let nodes = members
            .into_iter()
            .flatten()
            .filter_map(|node| self.nodes.get(node));
        nodes.map(|entry| entry.member()).collect()
    }

    fn forget_slice_owner(&mut self, owner: &NamespacedName, slice: &str) {
        if let Some(slices) = self.slices_by_owner.get_mut(owner) {
            slices.remove(slice);
            if slices.is_empty() {
                self.slices_by_owner.remove(owner);
            }
        }
    }

    /// A slice's owner ends its downs being unexpected when it is gone (or terminating), is a
    /// JobSet that is Completed, Failed or Suspended, is not named in full, or is of another kind.
    fn owner_ended(&self, owner: &Owner) -> bool {
        let (Some(kind), Some(name)) = (&owner.kind, owner_name(owner)) else {
            return true;
        };
        if kind.eq_ignore_ascii_case("JobSet") {
            let uid = self.jobset_names.get(&name);
            uid.and_then(|uid| self.jobsets.get(uid))
                .is_none_or(|entry| {
                    let JobSet {
                        completed,
                        failed,
                        suspended,
                        terminating,
                        ..
                    } = &entry.fact;
                    *terminating || completed.is_some() || failed.is_some() || suspended.is_some()
                })
        } else if kind.eq_ignore_ascii_case("LeaderWorkerSet") {
            let uid = self.lws_names.get(&name);
            uid.and_then(|uid| self.leader_worker_sets.get(uid))
                .is_none_or(|entry| entry.fact.terminating)
        } else {
            true
        }
    }

    fn slice_object(&self, fact: &Slice, before: Option<&Object>) -> Object {
        let attributes = keep(
            before,
            Attributes {
                name: fact.name.clone(),
                uid: fact.uid.clone(),
                tpu_topology: or_empty(fact.topology.as_ref()),
                tpu_accelerator: or_empty(fact.accelerator.as_ref()),
                owner_kind: or_empty(fact.owner.kind.as_ref()),
                owner_name: or_empty(fact.owner.name.as_ref()),
                owner_namespace: or_empty(fact.owner.namespace.as_ref()),
                ..Attributes::default()
            },
        );
        let readiness = fact.ready.filter(|_| fact.deleting.is_none());
        let topology = fact
            .topology
            .as_ref()
            .and_then(|topology| topology.parse().ok());
        Object {
            counts: Counts {
                expected: 1,
                ready: i64::from(readiness == Some(Readiness::Ready)),
                unknown: i64::from(readiness == Some(Readiness::Unknown)),
            },
            expected_down: self.owner_ended(&fact.owner),
            changed: fact.deleting.or(fact.since),
            ..object(
                attributes,
                fact.created,
                topology.map_or(0, Topology::chips),
            )
        }
    }

    fn refresh_slices_of(&mut self, owner: &NamespacedName, out: &mut Vec<Change>) {
        let names: Vec<_> = self
            .slices_by_owner
            .get(owner)
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        for name in names {
            let Some(mut entry) = self.slices.remove(&name) else {
                continue;
            };
            let expected_down = self.owner_ended(&entry.fact.owner);
            let changed = entry.object.expected_down != expected_down;
            entry.object.expected_down = expected_down;
            self.slices.insert(name.clone(), entry);
            if changed {
                out.push(Change::Object(ObjectKey {
                    family: Family::Slice,
                    key: name,
                }));
            }
        }
    }
}

//! Nodes, and what is joined to them: the pool and the JobSet that they are labelled for.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Change, Fact, Member, Node, Observed, Undecodable};
use crate::model::{Family, ObjectKey, Readiness};

/// A node, and whether its deadline has passed.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) fact: Node,
    overdue: bool,
}

impl Entry {
    pub(super) fn member(&self) -> Member {
        Member {
            name: self.fact.name.clone(),
            uid: self.fact.uid.clone(),
            created: self.fact.created,
            readiness: self.fact.readiness,
            since: self.fact.since,
            overdue: self.overdue,
        }
    }
}

/// Since when a node is Unknown by a condition that says so; a node without one has no deadline.
fn unknown_since(entry: &Entry) -> Option<Timestamp> {
    entry
        .fact
        .since
        .filter(|_| entry.fact.readiness == Readiness::Unknown && !entry.overdue)
}

impl Fact for Node {
    fn identity(&self) -> Arc<str> {
        self.name.clone()
    }

    fn named(&self, undecodable: &Undecodable) -> bool {
        self.name == undecodable.name
    }

    fn known(state: &Observed) -> Vec<Arc<str>> {
        state.nodes.keys().cloned().collect()
    }

    fn held_as(state: &Observed, identity: &str, undecodable: &[Undecodable]) -> bool {
        state
            .nodes
            .get(identity)
            .is_some_and(|entry| undecodable.iter().any(|u| entry.fact.named(u)))
    }

    fn put(self, state: &mut Observed, out: &mut Vec<Change>) {
        let before = state.nodes.get(&self.name);
        if before.is_some_and(|entry| entry.fact == self) {
            return;
        }
        let before = before.cloned();
        // The same Unknown as before keeps its passed deadline.
        let overdue = before.as_ref().is_some_and(|entry| {
            entry.overdue
                && entry.fact.uid == self.uid
                && entry.fact.readiness == self.readiness
                && entry.fact.since == self.since
        });
        let after = Entry {
            fact: self,
            overdue,
        };
        let held = Box::new(after.clone());
        state.nodes.insert(after.fact.name.clone(), held);
        state.join(before.as_deref(), Some(&after), out);
    }

    fn remove(state: &mut Observed, identity: &str, _seen: Timestamp, out: &mut Vec<Change>) {
        if let Some(before) = state.nodes.remove(identity) {
            state.join(Some(&before), None, out);
        }
    }
}

impl Observed {
    /// A node's deadline has passed: from now on it counts as not ready.
    pub fn overdue(&mut self, node: &str) -> Vec<Change> {
        let mut out = Vec::new();
        let Some(entry) = self.nodes.get_mut(node) else {
            return out;
        };
        if entry.fact.readiness != Readiness::Unknown || entry.overdue {
            return out;
        }
        let before = entry.clone();
        entry.overdue = true;
        let after = entry.clone();
        self.join(Some(&before), Some(&after), &mut out);
        out
    }

    /// Whether there is a node of that name.
    #[must_use]
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    fn join(&mut self, before: Option<&Entry>, after: Option<&Entry>, out: &mut Vec<Change>) {
        let name = match (before, after) {
            (Some(entry), _) | (None, Some(entry)) => entry.fact.name.clone(),
            (None, None) => return,
        };
        let was = before.and_then(unknown_since);
        let is = after.and_then(unknown_since);
        let others = before.map(|e| (e.fact.pool.clone(), e.fact.jobset.clone()));
        let pool = after.and_then(|e| e.fact.pool.clone());
        let jobset = after.and_then(|e| e.fact.jobset.clone());
        let (old_pool, old_jobset) = others.unwrap_or_default();

        if old_pool == pool {
            if let Some(pool) = &pool {
                self.join_pool(pool, before, after, out);
            }
        } else {
            if let Some(pool) = &old_pool {
                self.join_pool(pool, before, None, out);
            }
            if let Some(pool) = &pool {
                self.join_pool(pool, None, after, out);
            }
        }
        if old_jobset == jobset {
            if let Some(jobset) = &jobset {
                self.join_jobset(jobset, before, after, out);
            }
        } else {
            if let Some(jobset) = &old_jobset {
                self.join_jobset(jobset, before, None, out);
            }
            if let Some(jobset) = &jobset {
                self.join_jobset(jobset, None, after, out);
            }
        }
        // Of a node that is Ready only its identity is remembered, not since when it is.
        let remembered = |entry: &Entry| {
            let member = entry.member();
            let ready = member.readiness == Readiness::Ready;
            Member {
                since: member.since.filter(|_| !ready),
                ..member
            }
        };
        if before.map(remembered) != after.map(remembered) {
            out.push(Change::Node {
                name: name.clone(),
                member: after.map(Entry::member),
            });
        }
        if was != is {
            out.push(Change::Unknown {
                node: name.clone(),
                since: is,
            });
        }
        if old_pool != pool {
            self.pods_of_node(&name, out);
        }
    }

    fn join_jobset(
        &mut self,
        jobset: &(Arc<str>, Arc<str>),
        before: Option<&Entry>,
        after: Option<&Entry>,
        out: &mut Vec<Change>,
    ) {
        let before = before.map(Entry::member);
        let after = after.map(Entry::member);
        let group = self.jobset_nodes.entry(jobset.clone()).or_default();
        group.change(before.as_ref(), after.as_ref());
        if group.is_empty() {
            self.jobset_nodes.remove(jobset);
        }
        if self.settings.slice_mode || before == after {
            return;
        }
        let Some(uid) = self.jobset_names.get(jobset).cloned() else {
            return;
        };
        self.count_jobset_nodes(&uid);
        let object = ObjectKey {
            family: Family::JobSetNodes,
            key: uid,
        };
        out.push(Change::Member {
            object,
            before,
            after,
        });
    }
}

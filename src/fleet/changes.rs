//! What a change of the observed state means for the objects that it is about: steps of their
//! tracks, and records of what of their lives is no event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Due, Fleet, commit, object_up};
use crate::availability::{Delta, State, Step, failed_at, member_steps, state_changed_at};
use crate::history::{Record, Remembered};
use crate::model::{Bounds, Family, ObjectKey};
use crate::observed::{Change, PoolKind};

impl Fleet {
    pub(super) fn process(&mut self, changes: Vec<Change>, seen: Timestamp, gap: Option<Bounds>) {
        let mut away: BTreeMap<ObjectKey, (Timestamp, Arc<str>)> = BTreeMap::new();
        let mut touched = BTreeSet::new();
        // Seen for the first time in this list: their nodes are all taken in already.
        let mut fresh = BTreeSet::new();
        for change in changes {
            match change {
                Change::Member {
                    object,
                    before,
                    after,
                } => {
                    if fresh.contains(&object) {
                        touched.insert(object);
                        continue;
                    }
                    let Some(tracked) = self.tracked.get_mut(&object) else {
                        continue;
                    };
                    let deadline = self.settings.unknown_deadline;
                    let steps = member_steps(before.as_ref(), after.as_ref(), seen, deadline);
                    let Some(member) = after.or(before) else {
                        continue;
                    };
                    tracked.track.push_member(&member.name, &steps, seen, gap);
                    if let Some(at) = steps.away {
                        let latest = away
                            .entry(object.clone())
                            .or_insert((at, member.name.clone()));
                        if at > latest.0 {
                            *latest = (at, member.name);
                        }
                    }
                    touched.insert(object);
                }
                Change::Object(key) => {
                    if self.outlived(&key) {
                        self.gone(&key, seen);
                    }
                    if self.tracked.contains_key(&key) {
                        self.object_changed(&key, seen, gap);
                    } else if self.judged.contains(&key.family) {
                        self.seen_again(&key, seen);
                        fresh.insert(key.clone());
                    }
                    touched.insert(key);
                }
                Change::Gone(key) => {
                    touched.remove(&key);
                    fresh.remove(&key);
                    self.gone(&key, seen);
                }
                Change::Unknown { node, since } => {
                    let deadline = self.settings.unknown_deadline;
                    let at = since.and_then(|since| since.checked_add(deadline).ok());
                    self.node_deadlines.set(&node, at);
                }
                Change::Node { name, member } => {
                    self.changed_nodes
                        .insert(name, member.map(Remembered::from));
                }
                Change::Pod(uid) => self.show_pod(&uid),
            }
        }
        for key in touched {
            let Some(tracked) = self.tracked.get_mut(&key) else {
                continue;
            };
            let Some(object) = self.observed.object(&key) else {
                continue;
            };
            if let Some((at, node)) = away.get(&key) {
                tracked.track.push_away(node, *at, seen);
            }
            let was_up = tracked.track.up();
            let state = State {
                counts: object.counts,
                expected_down: object.expected_down,
            };
            tracked.track.observe(state, seen);
            tracked.ever_up |= tracked.track.up();
            tracked.listed = object.listed;
            if was_up && !tracked.track.up() && object.listed {
                self.poll |= !object.expected_down;
            }
            self.open(&key);
            self.dirty.insert(key);
        }
    }

    /// Whether a label pool has a node again that was made after its history had closed.
    fn outlived(&self, key: &ObjectKey) -> bool {
        let emptied = self.tracked.get(key).and_then(|tracked| tracked.emptied);
        emptied.is_some_and(|emptied| self.closed_before_its_nodes(key, emptied))
    }

    pub(super) fn closed_before_its_nodes(&self, key: &ObjectKey, emptied: Timestamp) -> bool {
        let closes = emptied.checked_add(self.settings.empty_after);
        let oldest = self.observed.oldest_node(&key.key);
        oldest.is_some_and(|oldest| closes.is_ok_and(|closes| closes <= oldest))
    }

    /// An object has something to seal.
    pub(super) fn open(&mut self, key: &ObjectKey) {
        let Some(tracked) = self.tracked.get(key) else {
            return;
        };
        if let Some(changed) = tracked.track.changed() {
            self.changed.insert(key.clone());
            self.pending.get_or_insert(changed);
        }
        self.open.insert(key.clone());
    }

    /// An object itself changed, other than by its nodes.
    pub(super) fn object_changed(&mut self, key: &ObjectKey, seen: Timestamp, gap: Option<Bounds>) {
        let Some(object) = self.observed.object(key) else {
            return;
        };
        let Some(tracked) = self.tracked.get_mut(key) else {
            return;
        };
        let before = tracked.track.current();
        let after = State {
            counts: object.counts,
            expected_down: object.expected_down,
        };
        // At an instant at which nodes change too, the object's own word comes last.
        let step = |at, delta| Step {
            at,
            round: if matches!(delta, Delta::State(_)) {
                u32::MAX
            } else {
                0
            },
            delta,
            seen,
            bounds: gap.filter(|_| at == seen),
        };
        if matches!(key.family, Family::NodePool | Family::JobSetNodes) {
            // Which nodes count is another matter by the API than by the labels.
            let by_api = |pool: Option<PoolKind>| pool == Some(PoolKind::Api);
            if by_api(tracked.logged.2) == by_api(object.pool) {
                if before.counts.expected != after.counts.expected {
                    tracked
                        .track
                        .push(step(seen, Delta::Expected(after.counts.expected)));
                }
                if before.expected_down != after.expected_down {
                    tracked
                        .track
                        .push(step(seen, Delta::ExpectedDown(after.expected_down)));
                }
            } else {
                tracked.track.push(step(seen, Delta::State(after)));
            }
        } else if before != after {
            let changed = (tracked.conditions, object);
            let at = state_changed_at(before, changed, seen, self.settings.unknown_threshold);
            tracked
                .track
                .push(step(at.unwrap_or(seen), Delta::State(after)));
        }
        tracked.conditions = object.conditions;
        self.log_shape(key, seen);
    }

    /// Puts into the log what of an object's life is no event and has changed.
    pub(super) fn log_shape(&mut self, key: &ObjectKey, seen: Timestamp) {
        let Some(object) = self.observed.object(key) else {
            return;
        };
        let Some(tracked) = self.tracked.get_mut(key) else {
            return;
        };
        let mut records = Vec::new();
        let shape = (
            object.attributes.clone(),
            object.counts.expected,
            object.pool,
        );
        if tracked.logged != shape {
            let (attributes, expected, pool) = shape.clone();
            records.push(Record::Changed {
                object: key.clone(),
                attributes,
                expected,
                pool,
            });
            tracked.logged = shape;
        }
        tracked.ever_up |= object_up(object, self.settings.unknown_threshold);
        if key.family == Family::NodePool {
            if !tracked.ever_up
                && !tracked.life.found
                && tracked.failed.is_none()
                && let Some(at) = failed_at(Some(object), seen)
            {
                tracked.failed = Some(at);
                records.push(Record::Failed {
                    object: key.clone(),
                    at,
                });
            }
            if object.empty != tracked.emptied.is_some() {
                tracked.emptied = object.empty.then_some(seen);
                records.push(Record::Emptied {
                    object: key.clone(),
                    at: tracked.emptied,
                });
            }
            let closes = tracked
                .emptied
                .and_then(|at| at.checked_add(self.settings.empty_after).ok());
            self.empty_deadlines.set(key, closes);
        }
        for record in records {
            self.log(key, record, seen);
        }
        self.dirty.insert(key.clone());
    }

    /// An object is gone: its series end and its history closes.
    pub(super) fn gone(&mut self, key: &ObjectKey, seen: Timestamp) {
        if !self.tracked.contains_key(key) {
            return;
        }
        self.seal(key);
        // A pool that is no longer listed went as expected.
        self.resolve(key, true);
        let Some(mut tracked) = self.tracked.remove(key) else {
            return;
        };
        let is_pool = key.family == Family::NodePool;
        let at = tracked.emptied.unwrap_or(seen);
        let mut records = Vec::new();
        if is_pool && !tracked.ever_up && !tracked.life.found && tracked.failed.is_none() {
            tracked.failed = failed_at(None, at);
            records.extend(tracked.failed.map(|at| Record::Failed {
                object: key.clone(),
                at,
            }));
        }
        records.push(Record::Ended {
            object: key.clone(),
            at,
        });
        let generation = tracked.generation;
        for record in records {
            self.send(commit::Entry {
                record,
                seen,
                object: key.clone(),
                generation,
            });
        }
        self.open.remove(key);
        self.changed.remove(key);
        self.waiting.remove(key);
        self.dirty.remove(key);
        self.empty_deadlines.set(key, None);
        self.deadlines.set(&Due::Judged(key.clone()), None);
        self.hide(key.family, tracked.slot);
        if is_pool && tracked.failed.is_some() && !tracked.ever_up {
            self.show_failed_pool(key, tracked, at);
        }
    }
}

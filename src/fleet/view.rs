//! What is shown: the views of the objects that changed since the last snapshot.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Fleet, Tracked};
use crate::model::{Availability, Family, ObjectKey};
use crate::observed::Object;
use crate::snapshot::{Conditions, ObjectView, Published, Scheduled, Snapshot, Table};

/// A table and its free places.
#[derive(Debug)]
pub(super) struct Slots<T> {
    table: Table<T>,
    free: Vec<usize>,
    next: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            table: Table::default(),
            free: Vec::new(),
            next: 0,
        }
    }
}

impl<T> Slots<T> {
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn give_back(&mut self, slot: usize) {
        self.table.set(slot, None);
        self.free.push(slot);
    }
}

impl Fleet {
    /// Takes an object's series away.
    pub(super) fn hide(&mut self, family: Family, slot: usize) {
        if slot != usize::MAX
            && let Some(slots) = self.tables.get_mut(&family)
        {
            slots.give_back(slot);
        }
    }

    /// Shows where a leader pod runs, or no longer.
    pub(super) fn show_pod(&mut self, uid: &Arc<str>) {
        let shown = self.judged.contains(&Family::NodePool);
        let placement = self.observed.scheduled(uid).filter(|_| shown);
        match placement {
            Some(placement) => {
                let scheduled = Scheduled {
                    pool: placement.pool,
                    job: placement.job,
                    jobset: placement.jobset,
                };
                let slots = &mut self.scheduled;
                let slot = *self
                    .pod_slots
                    .entry(uid.clone())
                    .or_insert_with(|| slots.take());
                if slots
                    .table
                    .get(slot)
                    .is_none_or(|before| **before != scheduled)
                {
                    slots.table.set(slot, Some(Arc::new(scheduled)));
                }
            }
            None => {
                if let Some(slot) = self.pod_slots.remove(uid) {
                    self.scheduled.give_back(slot);
                }
            }
        }
    }

    /// Publishes the current state.
    pub fn publish(&mut self, published: &Published) {
        let health = self.history_health();
        published.publish(|shown| {
            // Under the lock: no collection can show a later instant meanwhile.
            let dirty = std::mem::take(&mut self.dirty);
            for key in dirty {
                self.view(&key, shown);
            }
            let mut snapshot = Snapshot {
                scheduled: self.scheduled.table.clone(),
                sources: self.health.values().cloned().collect(),
                history: health,
                epoch: self.epoch,
                ..Snapshot::default()
            };
            for (family, slots) in &self.tables {
                if let Some(place) = snapshot.families.get_mut(family.index()) {
                    *place = Some(slots.table.clone());
                }
            }
            Arc::new(snapshot)
        });
    }

    fn history_health(&self) -> crate::snapshot::HistoryHealth {
        let changed = self
            .changed
            .iter()
            .filter_map(|key| self.tracked.get(key)?.track.changed());
        let waiting = self.waiting.iter().filter_map(|key| self.tracked.get(key));
        let waiting = waiting.flat_map(|tracked| tracked.waiting.iter().map(|sealed| sealed.seen));
        let mut pending = self.outbox_events;
        let mut oldest = self
            .outbox
            .first()
            .filter(|_| pending > 0)
            .map(|entry| entry.seen);
        for seen in changed.chain(waiting) {
            pending += 1;
            oldest = Some(oldest.map_or(seen, |oldest| oldest.min(seen)));
        }
        if let Some((seen, events)) = self.in_flight.filter(|(_, events)| *events > 0) {
            pending += events;
            oldest = Some(oldest.map_or(seen, |oldest| oldest.min(seen)));
        }
        crate::snapshot::HistoryHealth {
            pending,
            oldest,
            ..self.history_health.clone()
        }
    }

    fn view(&mut self, key: &ObjectKey, shown: Timestamp) {
        let slots = self.tables.entry(key.family).or_default();
        if let Some(tracked) = self.tracked.get_mut(key) {
            let Some(object) = self.observed.object(key) else {
                return;
            };
            let seen = tracked.track.changed();
            let seen = seen.or_else(|| tracked.waiting.front().map(|sealed| sealed.seen));
            let pending = seen.is_some() || tracked.in_flight > 0;
            tracked.stands = match tracked.stands {
                _ if !pending => None,
                None => Some(seen.unwrap_or(shown).max(shown)),
                stands => stands,
            };
            if tracked.slot == usize::MAX {
                tracked.slot = slots.take();
            }
            slots.table.set(
                tracked.slot,
                Some(Arc::new(object_view(key, tracked, object))),
            );
        } else if let Some(tracked) = self.failed_pools.get_mut(&key.key)
            && key.family == Family::NodePool
        {
            if tracked.slot == usize::MAX {
                tracked.slot = slots.take();
            }
            slots
                .table
                .set(tracked.slot, Some(Arc::new(failed_view(key, tracked))));
        }
    }

    /// What is shown of an object, as of the last snapshot.
    #[must_use]
    pub fn shown(&self, key: &ObjectKey) -> Option<&Arc<ObjectView>> {
        let slot = self.tracked.get(key)?.slot;
        self.tables.get(&key.family)?.table.get(slot)
    }
}

fn object_view(key: &ObjectKey, tracked: &Tracked, object: &Object) -> ObjectView {
    ObjectView {
        key: key.key.clone(),
        attributes: object.attributes.clone(),
        availability: Availability {
            counts: object.counts,
            expected_down: object.expected_down,
            up: tracked.track.up(),
        },
        chips: object.chips,
        status: object.status.clone(),
        conditions: Conditions {
            completed: object.conditions.completed.is_some(),
            failed: object.conditions.failed.is_some(),
            suspended: object.conditions.suspended.is_some(),
        },
        fold: tracked.life.fold,
        found: tracked.life.found,
        failed: tracked.life.failed,
        stands: tracked.stands,
        only_provisioning: false,
    }
}

fn failed_view(key: &ObjectKey, tracked: &Tracked) -> ObjectView {
    ObjectView {
        key: key.key.clone(),
        attributes: tracked.life.attributes.clone(),
        availability: Availability::default(),
        chips: 0,
        status: Arc::default(),
        conditions: Conditions::default(),
        fold: tracked.life.fold,
        found: tracked.life.found,
        failed: tracked.life.failed,
        stands: None,
        only_provisioning: true,
    }
}

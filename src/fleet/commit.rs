//! What the log must say: collected into one batch a commit, and folded when it is durable.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Fleet, WATERMARK_EVERY};
use crate::history::{Record, Remembered, Watermark};
use crate::model::{Family, ObjectKey, Source};

/// A record on its way to the log, and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) record: Record,
    pub(super) seen: Timestamp,
    pub(super) object: ObjectKey,
    pub(super) generation: u64,
}

/// What one append holds.
#[derive(Debug)]
pub struct Batch {
    entries: Vec<Entry>,
    marks: Vec<(Source, Watermark)>,
    records: Vec<Record>,
    events: u64,
}

impl Batch {
    /// The records, in order.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// How many of them are events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }
}

impl Fleet {
    /// Puts a record about a living object on its way.
    pub(super) fn log(&mut self, key: &ObjectKey, record: Record, seen: Timestamp) {
        let Some(tracked) = self.tracked.get(key) else {
            return;
        };
        let generation = tracked.generation;
        self.send(Entry {
            record,
            seen,
            object: key.clone(),
            generation,
        });
    }

    /// Puts a record on its way.
    pub(super) fn send(&mut self, entry: Entry) {
        self.pending.get_or_insert(entry.seen);
        self.outbox_events += u64::from(matches!(entry.record, Record::Event { .. }));
        self.outbox.push(entry);
    }

    /// When the next batch should be cut: a commit interval after the first change that it holds,
    /// or when a watermark is due.
    #[must_use]
    pub fn commit_due(&self) -> Option<Timestamp> {
        if !self.replayed || self.in_flight.is_some() {
            return None;
        }
        let change = self.pending.and_then(|at| {
            // A history that is behind does not make up for it with one commit after another.
            let from = at.max(self.last_cut);
            from.checked_add(self.settings.commit_interval).ok()
        });
        let mark = self.last_cut.checked_add(WATERMARK_EVERY).ok();
        let mark = mark.filter(|_| !self.judged.is_empty());
        change.into_iter().chain(mark).min()
    }

    /// Seals what happened and returns what must be appended; `None` if that is nothing.
    pub fn cut(&mut self, now: Timestamp) -> Option<Batch> {
        let now = self.advance(now);
        if !self.replayed || self.in_flight.is_some() {
            return None;
        }
        let open: Vec<_> = std::mem::take(&mut self.open).into_iter().collect();
        for key in open {
            self.seal(&key);
        }
        let marks = self.marks();
        self.last_cut = now;
        self.pending = None;
        if self.outbox.is_empty() && marks.is_empty() {
            return None;
        }
        let entries = std::mem::take(&mut self.outbox);
        let mut records = Vec::with_capacity(entries.len() + marks.len());
        for (source, since) in &self.watched {
            if self.first_list.contains(source) && self.mark_may_move(*source) {
                records.push(Record::Watched {
                    source: *source,
                    since: *since,
                });
            }
        }
        records.extend(entries.iter().map(|entry| entry.record.clone()));
        records.extend(marks.iter().map(|(source, mark)| Record::Watermark {
            source: *source,
            mark: mark.clone(),
        }));
        if self.mark_may_move(Source::Nodes) {
            let uids = self.node_identities();
            if !uids.is_empty() {
                records.push(Record::Nodes { uids });
            }
        }
        let events = std::mem::take(&mut self.outbox_events);
        let oldest = entries.iter().map(|entry| entry.seen).min();
        self.in_flight = Some((oldest.unwrap_or(now), events));
        Some(Batch {
            entries,
            marks,
            records,
            events,
        })
    }

    /// A watermark says that everything before it is in the log: it stays where it is while a
    /// family that the watch decides is not judged yet, or one of its events waits.
    fn mark_may_move(&self, source: Source) -> bool {
        let deciding = |family: &&Family| self.settings.needs(**family).contains(&source);
        let mut families = self.settings.families.iter().filter(deciding);
        let judged = families.all(|family| self.judged.contains(family));
        judged && (source != Source::Nodes || self.waiting.is_empty())
    }

    /// Which nodes the log does not know as they are.
    fn node_identities(&mut self) -> BTreeMap<Arc<str>, Option<Arc<str>>> {
        let known = std::mem::take(&mut self.known_nodes);
        self.known_not_ready = HashMap::new();
        let mut uids = std::mem::take(&mut self.identities);
        if !known.is_empty() {
            uids.retain(|name, uid| known.get(name) != uid.as_ref());
            let gone = known
                .into_keys()
                .filter(|name| !self.observed.has_node(name));
            uids.extend(gone.map(|name| (name, None)));
        }
        uids
    }

    fn marks(&self) -> Vec<(Source, Watermark)> {
        let mut marks = Vec::new();
        for (source, heard) in &self.heard {
            if !self.mark_may_move(*source) {
                continue;
            }
            let before = self.watermarks.get(source);
            let not_ready = (*source == Source::Nodes).then(|| {
                let nodes: Vec<_> = self.observed.not_ready().map(Remembered::from).collect();
                Arc::<[Remembered]>::from(nodes)
            });
            let same = before.is_some_and(|mark| mark.not_ready == not_ready);
            let mark = Watermark {
                at: heard.at,
                resource_version: heard.resource_version.clone(),
                not_ready: not_ready.filter(|_| !same),
            };
            if before.is_none_or(|before| before.at != mark.at || !same) {
                marks.push((*source, mark));
            }
        }
        marks
    }

    /// A batch is durable: what follows from its events counts from now on. Returns the objects
    /// whose summary changed.
    pub fn durable(&mut self, batch: Batch, now: Timestamp) -> Vec<ObjectKey> {
        let now = self.advance(now);
        self.in_flight = None;
        self.history_health.last_success = Some(now);
        self.history_health.error = None;
        for source in batch.records.iter().filter_map(|record| match record {
            Record::Watched { source, .. } => Some(*source),
            _ => None,
        }) {
            self.first_list.remove(&source);
        }
        for (source, mut mark) in batch.marks {
            if mark.not_ready.is_none() {
                mark.not_ready = self
                    .watermarks
                    .remove(&source)
                    .and_then(|old| old.not_ready);
            }
            self.watermarks.insert(source, mark);
        }
        let mut changed = Vec::new();
        for entry in batch.entries {
            let living = self.tracked.get_mut(&entry.object);
            let living = living.filter(|tracked| tracked.generation == entry.generation);
            let tracked = match living {
                Some(tracked) => Some(tracked),
                None if entry.object.family == Family::NodePool => {
                    let failed = self.failed_pools.get_mut(&entry.object.key);
                    failed.filter(|tracked| tracked.generation == entry.generation)
                }
                None => None,
            };
            let Some(tracked) = tracked else { continue };
            tracked.life.apply(&entry.record);
            if matches!(entry.record, Record::Event { .. }) {
                tracked.in_flight = tracked.in_flight.saturating_sub(1);
                if !changed.contains(&entry.object) {
                    changed.push(entry.object.clone());
                }
            }
            self.dirty.insert(entry.object);
        }
        changed
    }

    /// An append failed and will be tried again.
    pub fn append_failed(&mut self, error: &str) {
        self.history_health.error = Some(error.into());
    }
}

//! What the log must say: collected into one batch a commit, and folded when it is durable.

use std::collections::{BTreeMap, BTreeSet};
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
        self.seal_open();
        let marks = self.marks();
        self.last_cut = self.wall;
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
            let nodes = self.nodes_to_remember();
            if !nodes.is_empty() {
                records.push(Record::Nodes { nodes });
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

    fn seal_open(&mut self) {
        self.last_seal = self.wall;
        for key in std::mem::take(&mut self.open) {
            self.seal(&key);
        }
    }

    /// When what happened should be sealed although an append is still under way: a commit
    /// interval is one however long the store takes, and who must be asked is asked in time.
    pub(super) fn seal_due(&self) -> Option<Timestamp> {
        let held_up = self.in_flight.is_some() && !self.changed.is_empty();
        let due = self.last_seal.checked_add(self.settings.commit_interval);
        due.ok().filter(|_| held_up)
    }

    pub(super) fn seal_what_is_held_up(&mut self) {
        if self.seal_due().is_some_and(|due| due <= self.wall) {
            self.seal_open();
        }
    }

    /// A watermark says that everything before it is in the log: it stays where it is while a
    /// family that the watch decides is not judged yet, or one of its events waits.
    fn mark_may_move(&self, source: Source) -> bool {
        let deciding = |family: &&Family| self.settings.needs(**family).contains(&source);
        let mut families = self.settings.families.iter().filter(deciding);
        let judged = families.all(|family| self.judged.contains(family));
        judged && (source != Source::Nodes || self.waiting.is_empty())
    }

    /// The nodes that the log does not know as they are.
    fn nodes_to_remember(&mut self) -> BTreeMap<Arc<str>, Option<Remembered>> {
        let known = std::mem::take(&mut self.known_nodes);
        let mut nodes = std::mem::take(&mut self.changed_nodes);
        if !known.is_empty() {
            nodes.retain(|name, node| known.get(name) != node.as_ref());
            let gone = known
                .into_keys()
                .filter(|name| !self.observed.has_node(name));
            nodes.extend(gone.map(|name| (name, None)));
        }
        nodes
    }

    fn marks(&self) -> Vec<(Source, Watermark)> {
        let mut marks = Vec::new();
        for (source, heard) in &self.heard {
            if !self.mark_may_move(*source) {
                continue;
            }
            let mark = Watermark {
                at: heard.at,
                resource_version: heard.resource_version.clone(),
            };
            if self
                .watermarks
                .get(source)
                .is_none_or(|before| before.at != mark.at)
            {
                marks.push((*source, mark));
            }
        }
        marks
    }

    /// A batch is durable: what follows from its events counts from now on. Returns the objects
    /// whose summary changed.
    pub fn durable(&mut self, batch: Batch, now: Timestamp) -> BTreeSet<ObjectKey> {
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
        self.watermarks.extend(batch.marks);
        let mut changed = BTreeSet::new();
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
                changed.insert(entry.object.clone());
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

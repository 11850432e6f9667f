//! What is published: one immutable state of the fleet that any number of readers can hold, and
//! the lock under which a collection takes it together with one `now`.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use crate::model::{Attributes, Availability, Family, Source};
use crate::summary::{self, Fold, Nanos, Provisioning, Summary};

/// An object of a family as it is shown.
#[derive(Clone, Debug)]
pub struct ObjectView {
    /// Key in the history: UID, or name for node pools and slices.
    pub key: Arc<str>,
    /// What names it.
    pub attributes: Arc<Attributes>,
    /// What is observed, at once.
    pub availability: Availability,
    /// Chips it asks for; 0 when no topology is known.
    pub chips: i64,
    /// The JobSet's Completed, Failed or Suspended, the pool's status, else empty.
    pub status: Arc<str>,
    /// The JobSet's conditions that are True, of Completed, Failed, Suspended.
    pub conditions: Conditions,
    /// What is durable of its events; `None` before the first of them is.
    pub fold: Option<Fold>,
    /// Nothing is known of its past: it has no initial down time and no provisioning series.
    pub found: bool,
    /// A node pool's provisioning failed at.
    pub failed: Option<Timestamp>,
    /// It has a change that is seen but not durable: its running stretch stands here.
    pub stands: Option<Timestamp>,
    /// It is gone and shows nothing but its failed provisioning.
    pub only_provisioning: bool,
}

/// A JobSet's conditions that are True.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `Completed`.
    pub completed: bool,
    /// `Failed`.
    pub failed: bool,
    /// `Suspended`.
    pub suspended: bool,
}

impl ObjectView {
    /// The instant up to which its running stretch counts when asked at `now`.
    #[must_use]
    pub fn running_until(&self, now: Timestamp) -> Timestamp {
        self.stands.map_or(now, |stands| stands.min(now))
    }

    /// What its durable events come to at `now`.
    #[must_use]
    pub fn summary(&self, now: Timestamp) -> Option<Summary> {
        self.fold.as_ref().map(|fold| {
            let mut summary = fold.at(self.running_until(now));
            if self.found {
                summary.down_initial = None;
            }
            summary
        })
    }

    /// A node pool's provisioning state and duration at `now`; `None` for a found pool.
    #[must_use]
    pub fn provisioning(&self, now: Timestamp) -> Option<(Provisioning, Nanos)> {
        let fold = self.fold.as_ref().filter(|_| !self.found)?;
        Some(summary::provisioning(
            fold,
            self.failed,
            self.running_until(now),
        ))
    }
}

const CHUNK: usize = 64;

/// A growable table of shared values in which one change copies one chunk: a published copy stays
/// as it was, and publishing costs a pointer for each 64 values.
#[derive(Clone, Debug)]
pub struct Table<T> {
    chunks: Vec<Arc<[Option<Arc<T>>; CHUNK]>>,
    len: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Table<T> {
    /// Puts a value into a slot, or takes it out with `None`. The table grows to hold the slot.
    pub fn set(&mut self, slot: usize, value: Option<Arc<T>>) {
        let (chunk, at) = (slot / CHUNK, slot % CHUNK);
        while self.chunks.len() <= chunk {
            self.chunks.push(Arc::new([const { None }; CHUNK]));
        }
        let Some(chunk) = self.chunks.get_mut(chunk) else {
            return;
        };
        if Arc::get_mut(chunk).is_none() {
            *chunk = Arc::new(chunk.as_ref().clone());
        }
        if let Some(place) = Arc::get_mut(chunk).and_then(|chunk| chunk.get_mut(at)) {
            self.len += usize::from(value.is_some());
            self.len -= usize::from(place.is_some());
            *place = value;
        }
    }

    /// The value of a slot.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&Arc<T>> {
        self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)?.as_ref()
    }

    /// All values, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().flatten())
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A JobSet's leader pod that runs on a pool of the nodepool family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The pool.
    pub pool: Arc<str>,
    /// The pod's Job.
    pub job: Arc<str>,
    /// The pod's JobSet.
    pub jobset: Arc<str>,
}

/// How a source of observations is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceHealth {
    /// Which.
    pub source: Source,
    /// It has listed once (or its kind is not installed).
    pub listed: bool,
    /// Its kind is not installed.
    pub absent: bool,
    /// The last time it was heard from: an event, a bookmark, a list.
    pub heard: Option<Timestamp>,
    /// The error of its last request, if that failed.
    pub error: Option<Arc<str>>,
}

/// How the history is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryHealth {
    /// The log has been read.
    pub replayed: bool,
    /// Changes that are not durable yet.
    pub pending: u64,
    /// When the oldest of them was seen.
    pub oldest: Option<Timestamp>,
    /// The last write or read that succeeded.
    pub last_success: Option<Timestamp>,
    /// The error of the last one, if it failed.
    pub error: Option<Arc<str>>,
}

/// One state of the fleet.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By [`Family::index`]: the objects of a family, `None` as long as it is not judged.
    pub families: [Option<Table<ObjectView>>; Family::ALL.len()],
    /// Leader pods that run on a pool.
    pub scheduled: Table<Scheduled>,
    /// The sources that are in use.
    pub sources: Vec<SourceHealth>,
    /// The history.
    pub history: HistoryHealth,
    /// The epoch under which this process appends; 0 before it does.
    pub epoch: u64,
}

impl Snapshot {
    /// The objects of a family; none while it is not judged.
    pub fn objects(&self, family: Family) -> impl Iterator<Item = &Arc<ObjectView>> {
        self.families
            .get(family.index())
            .and_then(Option::as_ref)
            .into_iter()
            .flat_map(Table::iter)
    }
}

/// A snapshot and the one `now` that everything read off it shares.
#[derive(Clone, Debug)]
pub struct Collection {
    /// The state.
    pub snapshot: Arc<Snapshot>,
    /// The instant.
    pub now: Timestamp,
}

/// Where the current snapshot is published and taken.
///
/// A snapshot that makes an object stand still must know the last `now` that was shown of it, and
/// a collection must not slip in between: so both happen under this lock, which is held for a few
/// pointer copies and never across an await.
#[derive(Debug)]
pub struct Published {
    current: Mutex<Collection>,
}

impl Published {
    /// Publishes an empty fleet as of `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            current: Mutex::new(Collection {
                snapshot: Arc::default(),
                now,
            }),
        }
    }

    /// Publishes what `make` returns. It is given the `now` of the last collection, below which
    /// nothing that was shown may fall.
    pub fn publish(&self, make: impl FnOnce(Timestamp) -> Arc<Snapshot>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.snapshot = make(current.now);
    }

    /// Takes the current snapshot at `now`, or at the last `now` used if the clock stepped back.
    #[must_use]
    pub fn collect(&self, now: Timestamp) -> Collection {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.now = current.now.max(now);
        current.clone()
    }

    /// Looks at the current snapshot without a collection's `now`.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .snapshot
            .clone()
    }
}

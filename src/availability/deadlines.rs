//! Deadlines as data: what is due when, kept and not polled for.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use jiff::Timestamp;

/// A set of deadlines, at most one for each key.
#[derive(Clone, Debug)]
pub struct Deadlines<K> {
    by_time: BTreeSet<(Timestamp, K)>,
    by_key: HashMap<K, Timestamp>,
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self {
            by_time: BTreeSet::new(),
            by_key: HashMap::new(),
        }
    }
}

impl<K: Clone + Ord + Hash> Deadlines<K> {
    /// Sets, moves or (with `None`) lifts the deadline of a key.
    pub fn set(&mut self, key: &K, at: Option<Timestamp>) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.by_key.insert(key.clone(), at);
            self.by_time.insert((at, key.clone()));
        }
    }

    /// The next deadline.
    #[must_use]
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes the next key whose deadline has come.
    pub fn due(&mut self, now: Timestamp) -> Option<(Timestamp, K)> {
        if self.next()? > now {
            return None;
        }
        let (at, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some((at, key))
    }
}

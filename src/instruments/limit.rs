//! The series limit: at most so many objects of a family are shown. Those already shown stay;
//! what is left out is named once, and counted once for as long as it is left out.

use std::collections::HashSet;
use std::hash::Hash;

/// Which objects of a family are shown, from one collection to the next.
#[derive(Debug)]
pub(crate) struct Limit<K> {
    family: &'static str,
    most: usize,
    /// Keys of what the last collection showed.
    shown: Vec<K>,
    /// Keys of what is left out.
    left_out: HashSet<K>,
}

/// What is shown of a family, and what has just been left out of it.
pub(crate) struct Selection<T> {
    /// Shown, in the order given.
    pub(crate) shown: Vec<T>,
    /// Left out now, and not at the last collection.
    pub(crate) newly_left_out: Vec<T>,
}

impl<K: Hash + Eq + Clone> Limit<K> {
    /// Shows at most `most` objects of a family.
    pub(crate) fn new(family: &'static str, most: usize) -> Self {
        Self {
            family,
            most,
            shown: Vec::new(),
            left_out: HashSet::new(),
        }
    }

    /// Whether something was left out at the last collection.
    pub(crate) fn reached(&self) -> bool {
        !self.left_out.is_empty()
    }

    /// Selects what is shown. Below the limit that is everything, and the keys are noted.
    pub(crate) fn select<T>(&mut self, objects: Vec<T>, key: impl Fn(&T) -> K) -> Selection<T> {
        if objects.len() <= self.most {
            if !self.left_out.is_empty() {
                self.left_out = HashSet::new();
                tracing::info!(
                    family = self.family,
                    limit = self.most,
                    "below the series limit again, every object is shown"
                );
            }
            self.shown.clear();
            self.shown.extend(objects.iter().map(key));
            return Selection {
                shown: objects,
                newly_left_out: Vec::new(),
            };
        }
        if self.left_out.is_empty() {
            tracing::warn!(
                family = self.family,
                limit = self.most,
                objects = objects.len(),
                "more objects than the series limit allows: those already shown stay, the others \
                 are left out; raise the limit of objects per family to see them"
            );
        }
        self.select_some(objects, key)
    }

    fn select_some<T>(&mut self, objects: Vec<T>, key: impl Fn(&T) -> K) -> Selection<T> {
        let before: HashSet<&K> = self.shown.iter().collect();
        let keys: Vec<K> = objects.iter().map(key).collect();
        let staying = keys.iter().filter(|key| before.contains(key)).count();
        let mut room = self.most.saturating_sub(staying);
        let mut stay_left = self.most;
        let mut shown = Vec::with_capacity(self.most);
        let mut shown_keys = Vec::with_capacity(self.most);
        let mut newly_left_out = Vec::new();
        let mut left_out = HashSet::new();
        for (object, key) in objects.into_iter().zip(keys) {
            let place = if before.contains(&key) {
                &mut stay_left
            } else {
                &mut room
            };
            if *place > 0 {
                *place -= 1;
                shown.push(object);
                shown_keys.push(key);
            } else {
                if !self.left_out.contains(&key) {
                    newly_left_out.push(object);
                }
                left_out.insert(key);
            }
        }
        drop(before);
        self.shown = shown_keys;
        self.left_out = left_out;
        Selection {
            shown,
            newly_left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(objects: &[&'static str]) -> Vec<&'static str> {
        objects.to_vec()
    }

    #[test]
    fn those_already_shown_stay_and_what_is_left_out_is_counted_once() {
        let mut limit = Limit::new("jobset", 2);
        // (objects, shown, newly left out)
        let steps: &[(&[&str], &[&str], &[&str])] = &[
            (&["b"], &["b"], &[]),
            (&["a", "b", "c"], &["a", "b"], &["c"]),
            (&["a", "b", "c"], &["a", "b"], &[]),
            (&["0", "a", "b", "c"], &["a", "b"], &["0"]),
            (&["0", "b", "c"], &["0", "b"], &[]),
            (&["0", "b"], &["0", "b"], &[]),
            (&["0", "b", "c"], &["0", "b"], &["c"]),
            (&[], &[], &[]),
            (&["c", "d", "e", "f"], &["c", "d"], &["e", "f"]),
        ];
        for (at, (objects, shown, left_out)) in steps.iter().enumerate() {
            let selection = limit.select(names(objects), |name| *name);
            assert_eq!(selection.shown, *shown, "shown at step {at}");
            assert_eq!(selection.newly_left_out, *left_out, "left out at step {at}");
        }
    }

    #[test]
    fn a_limit_of_nothing_shows_nothing() {
        let mut limit = Limit::new("jobset", 0);
        let selection = limit.select(names(&["a"]), |name| *name);
        assert!(selection.shown.is_empty());
        assert_eq!(selection.newly_left_out, ["a"]);
    }
}

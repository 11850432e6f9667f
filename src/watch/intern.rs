//! One copy of each text that many objects share: pool names, topologies, namespaces.

use std::collections::HashSet;
use std::sync::Arc;

/// Hands out one shared copy of equal texts. Texts that nobody else holds any more are dropped as
/// it grows, so that it stays within twice what is in use.
#[derive(Debug)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    sweep_at: usize,
}

/// Below this many texts nothing is swept.
const SWEEP_FROM: usize = 1024;

impl Default for Interner {
    fn default() -> Self {
        Self {
            texts: HashSet::new(),
            sweep_at: SWEEP_FROM,
        }
    }
}

impl Interner {
    /// The shared copy of `text`.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        if self.texts.len() >= self.sweep_at {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = SWEEP_FROM.max(self.texts.len().saturating_mul(2));
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(shared.clone());
        shared
    }

    /// The shared copy of `text`; `None` where it is missing or empty.
    pub fn some(&mut self, text: Option<&str>) -> Option<Arc<str>> {
        text.filter(|text| !text.is_empty())
            .map(|text| self.get(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_copy() {
        let mut strings = Interner::default();
        let a = strings.get("pool-a");
        assert!(Arc::ptr_eq(&a, &strings.get("pool-a")));
        assert!(!Arc::ptr_eq(&a, &strings.get("pool-b")));
        assert_eq!(strings.some(Some("")), None);
        assert_eq!(strings.some(None), None);
    }

    #[test]
    fn what_nobody_holds_is_dropped_and_what_is_held_stays() {
        let mut strings = Interner::default();
        let held: Vec<_> = (0..600)
            .map(|n| strings.get(&format!("held-{n}")))
            .collect();
        for n in 0..100_000 {
            strings.get(&format!("passing-{n}"));
        }
        assert!(
            strings.texts.len() <= 2 * SWEEP_FROM,
            "{}",
            strings.texts.len()
        );
        for (n, text) in held.iter().enumerate() {
            assert!(Arc::ptr_eq(text, &strings.get(&format!("held-{n}"))));
        }
    }
}

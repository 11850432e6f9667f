//! What never goes back, over restarts and crashes, held against every scrape of a scenario.

use std::collections::BTreeMap;

use crate::ledger::{FAMILIES, ROUNDING};
use crate::samples::{Observed, Series};

/// What never goes back within the life of an object, over restarts and crashes: held against
/// every scrape that is given to it.
#[derive(Debug, Default)]
pub(crate) struct NeverBack {
    highest: BTreeMap<Series, f64>,
}

impl NeverBack {
    const KEPT: [&str; 9] = [
        "_interruption_count",
        "_recovery_count",
        "_down_time_initial_seconds",
        "_down_time_between_recovery_seconds",
        "_down_time_between_recovery_latest_seconds",
        "_up_time_between_interruption_seconds",
        "_nodepool_provisioning_duration_seconds",
        "_up_time_seconds",
        "_down_time_seconds",
    ];

    /// The pool of that name is made again: another life, from 0.
    pub(crate) fn new_life(&mut self, pool: &str) {
        let of_it = |labels: &BTreeMap<String, String>| {
            labels.get("nodepool_name").is_some_and(|name| name == pool)
        };
        self.highest.retain(|(_, labels), _| !of_it(labels));
    }

    /// An error for what is lower than it once was.
    pub(crate) fn check(&mut self, observed: &Observed) -> Result<(), String> {
        let mut now: BTreeMap<Series, f64> = BTreeMap::new();
        for prefix in FAMILIES {
            for ((name, labels), value) in observed.samples.family(prefix) {
                let Some(kept) = Self::KEPT.iter().find(|kept| name.ends_with(**kept)) else {
                    continue;
                };
                match *kept {
                    // The last of them may be shorter than the one before.
                    "_down_time_between_recovery_latest_seconds" => {}
                    // An event dated before the last collection moves time between the two.
                    "_up_time_seconds" | "_down_time_seconds" => {
                        let name = name.replace("_up_time_", "_down_time_");
                        let sum = now.entry((name, labels.clone())).or_default();
                        *sum += value;
                    }
                    _ => {
                        now.insert((name.clone(), labels.clone()), value);
                    }
                }
            }
        }
        for (series, value) in &now {
            let highest = self.highest.entry(series.clone()).or_insert(*value);
            if *value < *highest - ROUNDING / 1000.0 {
                return Err(format!("{series:?} went back from {highest} to {value}"));
            }
            *highest = highest.max(*value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::tests::{observed, pool};

    #[test]
    fn going_back_is_found() {
        let mut never_back = NeverBack::default();
        let ledger = pool();
        assert_eq!(never_back.check(&observed(&ledger, 200.0)), Ok(()));
        assert_eq!(never_back.check(&observed(&ledger, 201.0)), Ok(()));
        assert!(never_back.check(&observed(&ledger, 199.0)).is_err());
    }
}

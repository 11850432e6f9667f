//! When a life's marks are set that are no events: the failure of a provisioning, and the API's
//! own time of a change.

use jiff::Timestamp;

use super::State;
use crate::observed::{ConditionTimes, Object};

/// When a pool's provisioning failed, seen at `seen` while it was never up: at the end of its
/// create operation if that ended in an error, else when ERROR, STOPPING or its deletion (no
/// `object`) was first seen.
#[must_use]
pub fn failed_at(object: Option<&Object>, seen: Timestamp) -> Option<Timestamp> {
    let Some(object) = object else {
        return Some(seen);
    };
    let ended = matches!(&*object.status, "ERROR" | "STOPPING" | "DELETING");
    object
        .create_failed
        .map(|at| at.min(seen))
        .or_else(|| ended.then_some(seen))
}

/// When an object that is judged by its own state came into it: a JobSet's Completed, Failed or
/// Suspended date the down that they make, a slice's condition or deletion both; anything else
/// changed when it was seen.
#[must_use]
pub fn state_changed_at(
    before: State,
    (was, object): (ConditionTimes, &Object),
    seen: Timestamp,
    threshold: f64,
) -> Option<Timestamp> {
    let after = State {
        counts: object.counts,
        expected_down: object.expected_down,
    };
    if object.changed.is_some() {
        let by_owner = before.counts == after.counts && before.expected_down != after.expected_down;
        return object.changed.filter(|_| !by_owner).map(|at| at.min(seen));
    }
    if after.up(threshold) {
        return None;
    }
    let now = object.conditions;
    let new = [
        now.completed.filter(|_| was.completed.is_none()),
        now.failed.filter(|_| was.failed.is_none()),
        now.suspended.filter(|_| was.suspended.is_none()),
    ];
    new.into_iter().flatten().min().map(|at| at.min(seen))
}

//! An object's state in time: dated steps, and the changes of up and down that follow from them.

use std::sync::Arc;

use jiff::Timestamp;

use crate::model::{Bounds, Counts};

/// What decides whether an object is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The counts that the rule of up compares.
    pub counts: Counts,
    /// Whether a down is, or would be, expected.
    pub expected_down: bool,
}

impl State {
    /// `<family>.up`: the rule of up, and not expected down.
    #[must_use]
    pub fn up(self, threshold: f64) -> bool {
        !self.expected_down && self.counts.up(threshold)
    }
}

/// One dated change of a state.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When it happened.
    pub at: Timestamp,
    /// Its place among the steps of the same node at the same instant. Steps of different nodes
    /// at one instant and in one round count together: nobody knows which came first.
    pub round: u32,
    /// What it changes.
    pub delta: Delta,
    /// When it was seen.
    pub seen: Timestamp,
    /// Where `at` is only known to lie between two instants: those.
    pub bounds: Option<Bounds>,
}

/// What a step changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// A node's weight in the counts changes.
    Member {
        /// Name of the node.
        node: Arc<str>,
        /// Added to `ready`.
        ready: i64,
        /// Added to `unknown`.
        unknown: i64,
    },
    /// The expectation is now this.
    Expected(i64),
    /// Whether a down is expected is now this.
    ExpectedDown(bool),
    /// The whole state is now this.
    State(State),
}

impl Delta {
    fn apply(&self, state: &mut State) {
        match self {
            Self::Member { ready, unknown, .. } => {
                state.counts.ready += ready;
                state.counts.unknown += unknown;
            }
            Self::Expected(expected) => state.counts.expected = *expected,
            Self::ExpectedDown(expected_down) => state.expected_down = *expected_down,
            Self::State(all) => *state = *all,
        }
    }
}

/// A change of up, read off the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flip {
    /// The new state.
    pub up: bool,
    /// Whether a down was, or would have been, expected then.
    pub expected_down: bool,
    /// The counts alone say up: the down is by the expectation.
    pub counts_up: bool,
    /// When it happened.
    pub at: Timestamp,
    /// When it was seen.
    pub seen: Timestamp,
    /// Where `at` is only known to lie between two instants: those.
    pub bounds: Option<Bounds>,
}

/// Puts steps in the order in which they happened and reads the changes of up off them.
///
/// `was_up` is the state after the last event, before which (`floor`) nothing may be dated; `now`
/// is the instant after which nothing may be dated. Where the sealed `state` and `was_up` do not
/// agree (a restart: nobody saw what happened), nothing follows from that alone until `now`.
pub fn replay(
    was_up: bool,
    state: &mut State,
    steps: &mut [Step],
    (floor, now): (Timestamp, Timestamp),
    unseen: Option<Bounds>,
    threshold: f64,
) -> Vec<Flip> {
    let mut flips = Vec::new();
    let mut current = was_up;
    let mut computed = state.up(threshold);
    for step in steps.iter_mut() {
        step.at = step.at.max(floor).min(now.max(floor));
    }
    steps.sort_by_key(|step| (step.at, step.round));
    let same = |a: &Step, b: &Step| (a.at, a.round) == (b.at, b.round);
    for group in steps.chunk_by(same) {
        for step in group {
            step.delta.apply(state);
        }
        let up = state.up(threshold);
        if up != computed && up != current {
            let Some(first) = group.first() else { continue };
            flips.push(Flip {
                up,
                expected_down: state.expected_down,
                counts_up: state.counts.up(threshold),
                at: first.at,
                seen: group
                    .iter()
                    .map(|step| step.seen)
                    .max()
                    .unwrap_or(first.seen),
                bounds: group.iter().find_map(|step| step.bounds),
            });
            current = up;
        }
        computed = up;
    }
    if computed != current {
        flips.push(Flip {
            up: computed,
            expected_down: state.expected_down,
            counts_up: state.counts.up(threshold),
            at: now.max(floor),
            seen: now,
            bounds: unseen,
        });
    }
    flips
}

//! What is observed of one object at an instant, and the rule of up.

use serde::{Deserialize, Serialize};

/// The counts that the rule of up compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// How many there should be.
    pub expected: i64,
    /// How many are ready.
    pub ready: i64,
    /// How many are in a state nobody knows.
    pub unknown: i64,
}

impl Counts {
    /// The rule of up: `ready + unknown >= expected` and
    /// `unknown <= round_half_even(expected * threshold)`.
    #[must_use]
    pub fn up(self, threshold: f64) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "node counts are far below 2^53")]
        let limit = (self.expected as f64 * threshold).round_ties_even();
        #[expect(clippy::cast_precision_loss, reason = "node counts are far below 2^53")]
        let unknown = self.unknown as f64;
        self.ready.saturating_add(self.unknown) >= self.expected && unknown <= limit
    }
}

/// The availability of one object as observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// The counts behind it.
    pub counts: Counts,
    /// Whether a down is, or would be, expected.
    pub expected_down: bool,
    /// `<family>.up`: the rule of up, and not expected down.
    pub up: bool,
}

//! One change of state, as the history keeps it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Family;

/// What a history is kept for: an object of a family, by its key (UID, or name for node pools and
/// slices).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The family.
    pub family: Family,
    /// UID, or name for node pools and slices.
    pub key: Arc<str>,
}

/// A change of `<family>.up`. An object's first event is a down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The new state.
    pub up: bool,
    /// Whether a down was, or would have been, expected at that instant.
    #[serde(rename = "ed", default, skip_serializing_if = "std::ops::Not::not")]
    pub expected_down: bool,
    /// When it happened, by the rules of the contract (not when it was seen).
    #[serde(rename = "ts")]
    pub timestamp: Timestamp,
    /// Where the time is only known to lie between two instants: those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
}

/// The instants between which something happened whose own time nobody recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// The watermark: until then it had not happened.
    pub after: Timestamp,
    /// It was seen.
    pub seen: Timestamp,
}

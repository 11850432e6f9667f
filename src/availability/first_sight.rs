//! An object is seen for the first time: is its past known?
//!
//! ```text
//!   first watched (by this history)
//!        v
//!  ------|-----------------------------------------------> time
//!    ^         ^ start: known: down from its start on
//!    '- start: not known: found, down (or down and up) from the instant seen on
//! ```

use jiff::Timestamp;

/// Where a life's first event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Its start is known: a down then.
    Known(Timestamp),
    /// Nothing is known of its past: a down (and an up, if it is up) at the instant seen.
    Found,
}

/// Whether a start is known: it is not before the instant at which the kind was first watched, in
/// whole seconds, since that is what the API gives. A pool in PROVISIONING is always known; one
/// without any start (no operation, no node) begins when it is seen, which is known only when the
/// kind was watched before.
#[must_use]
pub fn known(
    start: Option<Timestamp>,
    provisioning: bool,
    first_watched: Timestamp,
    first_list: bool,
    seen: Timestamp,
) -> Start {
    match start {
        Some(start) if provisioning || start.as_second() >= first_watched.as_second() => {
            Start::Known(start.min(seen))
        }
        None if provisioning || !first_list => Start::Known(seen),
        Some(_) | None => Start::Found,
    }
}

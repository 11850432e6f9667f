//! Values as the contract has them: times in seconds as doubles, counts as integers.

use jiff::Timestamp;

use crate::summary::{Nanos, nanos_between};

/// Whole nanoseconds as seconds.
pub(crate) fn seconds(nanos: Nanos) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "exact up to 104 days, then to a few nanoseconds"
    )]
    let nanos = nanos as f64;
    nanos / 1e9
}

/// Seconds from an instant to `now`, 0 if it lies in the future.
pub(crate) fn age(of: Timestamp, now: Timestamp) -> f64 {
    seconds(nanos_between(of, now).max(0))
}

/// Seconds since the epoch.
pub(crate) fn epoch_seconds(at: Timestamp) -> f64 {
    seconds(nanos_between(Timestamp::UNIX_EPOCH, at))
}

/// A count as the integer that is published.
pub(crate) fn count(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

//! The pure fold of an object's events, and a `now`, into what people ask: how long up, how long
//! down, how often interrupted, how fast recovered.
//!
//! ```text
//!  first event          first up        interruption    recovery
//!      v                    v                v              v
//!      |-- down (initial) --|------ up ------|---- down ----|---- up ---- now
//!                           '- up.between ---'- down.between '
//! ```
//!
//! The fold keeps totals, never events: its cost and its size do not depend on how long an object
//! has lived.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::Event;

/// A length of time in whole nanoseconds.
pub type Nanos = i64;

/// Nanoseconds from `from` to `to`; negative when `to` is earlier. Saturates after 292 years.
#[must_use]
pub fn nanos_between(from: Timestamp, to: Timestamp) -> Nanos {
    let nanos = to.as_nanosecond().saturating_sub(from.as_nanosecond());
    Nanos::try_from(nanos).unwrap_or(if nanos < 0 { Nanos::MIN } else { Nanos::MAX })
}

/// The running totals of one life of one object, after its events so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fold {
    first: Timestamp,
    last: Event,
    first_up: Option<Timestamp>,
    up: Nanos,
    down: Nanos,
    interruptions: u64,
    recoveries: u64,
    down_between: Option<Nanos>,
    down_between_latest: Nanos,
    up_between: Option<Nanos>,
    up_between_latest: Nanos,
    ended: Option<Timestamp>,
}

impl Fold {
    /// Starts with an object's first event.
    #[must_use]
    pub fn new(first: Event) -> Self {
        Self {
            first: first.timestamp,
            last: first,
            first_up: first.up.then_some(first.timestamp),
            up: 0,
            down: 0,
            interruptions: 0,
            recoveries: 0,
            down_between: None,
            down_between_latest: 0,
            up_between: None,
            up_between_latest: 0,
            ended: None,
        }
    }

    /// Folds a whole list of events; `None` for an empty one.
    #[must_use]
    pub fn of(events: &[Event]) -> Option<Self> {
        let (first, rest) = events.split_first()?;
        let mut fold = Self::new(*first);
        for event in rest {
            fold.apply(*event);
        }
        Some(fold)
    }

    /// Takes the next event. One that does not change the state is ignored.
    pub fn apply(&mut self, event: Event) {
        if event.up == self.last.up {
            return;
        }
        let stretch = nanos_between(self.last.timestamp, event.timestamp);
        if event.up {
            self.down = self.down.saturating_add(stretch);
            if self.first_up.is_none() {
                self.first_up = Some(event.timestamp);
            } else {
                self.down_between = Some(self.down_between.unwrap_or(0).saturating_add(stretch));
                self.down_between_latest = stretch;
                self.recoveries += u64::from(!self.last.expected_down);
            }
        } else {
            self.up = self.up.saturating_add(stretch);
            self.up_between = Some(self.up_between.unwrap_or(0).saturating_add(stretch));
            self.up_between_latest = stretch;
            self.interruptions += u64::from(!event.expected_down);
        }
        self.last = event;
    }

    /// Closes the life: nothing runs on after `at`.
    pub fn end(&mut self, at: Timestamp) {
        self.ended = Some(at.max(self.last.timestamp));
    }

    /// The last event taken.
    #[must_use]
    pub fn last(&self) -> Event {
        self.last
    }

    /// When the first event happened.
    #[must_use]
    pub fn first(&self) -> Timestamp {
        self.first
    }

    /// When it was first up.
    #[must_use]
    pub fn first_up(&self) -> Option<Timestamp> {
        self.first_up
    }

    /// When the life ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Timestamp> {
        self.ended
    }

    /// What the totals come to at `now`.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Summary {
        let now = self.ended.unwrap_or(now);
        let running = nanos_between(self.last.timestamp, now).max(0);
        let (up, down) = if self.last.up {
            (running, 0)
        } else {
            (0, running)
        };
        let mean = |total: Option<Nanos>, count: u64| {
            let count = Nanos::try_from(count).unwrap_or(Nanos::MAX);
            total.filter(|_| count > 0).map(|total| total / count)
        };
        Summary {
            up_time: self.up.saturating_add(up),
            down_time: self.down.saturating_add(down),
            interruptions: self.interruptions,
            recoveries: self.recoveries,
            down_initial: self.first_up.map(|up| nanos_between(self.first, up)),
            down_between: self.down_between,
            down_between_mean: mean(self.down_between, self.recoveries),
            down_between_latest: self.down_between.map(|_| self.down_between_latest),
            up_between: self.up_between.filter(|_| self.interruptions > 0),
            up_between_mean: mean(self.up_between, self.interruptions),
            up_between_latest: self.up_between.map(|_| self.up_between_latest),
        }
    }
}

/// What a fold comes to at an instant. `None` is what is not defined yet, which is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Total time up, the running stretch included.
    pub up_time: Nanos,
    /// Total time down, the running stretch included.
    pub down_time: Nanos,
    /// Times it went down after being up, expected downs left out.
    pub interruptions: u64,
    /// Times it came up again after an unexpected down.
    pub recoveries: u64,
    /// First event to first up.
    pub down_initial: Option<Nanos>,
    /// Total of the downs that followed an up and ended in an up.
    pub down_between: Option<Nanos>,
    /// Mean time to recovery.
    pub down_between_mean: Option<Nanos>,
    /// The last of those downs.
    pub down_between_latest: Option<Nanos>,
    /// Total of the ups that ended in a down, from the first interruption on.
    pub up_between: Option<Nanos>,
    /// Mean time between interruptions.
    pub up_between_mean: Option<Nanos>,
    /// The last of those ups.
    pub up_between_latest: Option<Nanos>,
}

/// Where a node pool stands in its provisioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provisioning {
    /// Never up yet.
    Provisioning,
    /// It came up.
    Success,
    /// It failed before it ever came up.
    Failed,
}

impl Provisioning {
    /// The value of the attribute `provisioning_state`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Success => "success",
            Self::Failed => "failed",
        }
    }
}

/// State and duration of a pool's provisioning at `now`. `failed` is the instant at which it
/// failed, if it did.
///
/// ```text
///  first event      failed          first up
///      |--- provisioning ---|--- failed ---|--- success: first event -> first up ---
/// ```
#[must_use]
pub fn provisioning(
    fold: &Fold,
    failed: Option<Timestamp>,
    now: Timestamp,
) -> (Provisioning, Nanos) {
    let (state, end) = match (fold.first_up, failed) {
        (Some(up), _) => (Provisioning::Success, up),
        (None, Some(failed)) => (Provisioning::Failed, failed),
        (None, None) => (Provisioning::Provisioning, fold.ended.unwrap_or(now)),
    };
    (state, nanos_between(fold.first, end).max(0))
}

//! When a node of an object changed: by its `Ready` condition, by its deadline, or when it was
//! seen to be gone.
//!
//! ```text
//!  Ready     lastTransitionTime: Unknown          + deadline: not ready       Ready again
//!  ----------------|------- counts as unknown -----------|---- not ready ---------|-----
//!                  '-- a lastTransitionTime before the deadline: it never passed
//! ```

use jiff::{SignedDuration, Timestamp};

use crate::model::Readiness;
use crate::observed::Member;

/// What follows from one change of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberSteps {
    /// Dated changes of (ready, unknown), in order.
    pub steps: Vec<(Timestamp, i64, i64)>,
    /// It is Ready as before, but since later: it was away, and back at this instant.
    pub away: Option<Timestamp>,
}

/// When a node came into the state that it is in: its condition's time, or its creation.
fn since(member: &Member) -> Timestamp {
    member.since.unwrap_or(member.created)
}

/// The steps that lead from a node as it was to the node as it is. `deadline` is how long a node
/// counts as Unknown.
#[must_use]
pub fn member_steps(
    before: Option<&Member>,
    after: Option<&Member>,
    seen: Timestamp,
    deadline: SignedDuration,
) -> MemberSteps {
    let mut out = MemberSteps::default();
    match (before, after) {
        (None, None) => {}
        (None, Some(after)) => out.arrive((0, 0), after, deadline),
        (Some(before), None) => out.step(seen, before.weight(), (0, 0)),
        (Some(before), Some(after)) if before.uid != after.uid => {
            // The same name, another node: the old one was gone when the new one was made.
            out.step(after.created, before.weight(), (0, 0));
            out.arrive((0, 0), after, deadline);
        }
        (Some(before), Some(after)) => {
            let waiting = before.readiness == Readiness::Unknown && !before.overdue;
            let passes = before.since.filter(|_| waiting);
            let passes = passes.and_then(|at| at.checked_add(deadline).ok());
            let moved = (before.readiness, before.since) != (after.readiness, after.since);
            match passes {
                Some(passed) if !moved && after.overdue => {
                    out.step(passed, before.weight(), after.weight());
                }
                Some(passed) if moved && passed < since(after) => {
                    out.step(passed, before.weight(), (0, 0));
                    out.arrive((0, 0), after, deadline);
                }
                _ if moved => {
                    out.arrive(before.weight(), after, deadline);
                    let ready = Readiness::Ready;
                    if (before.readiness, after.readiness) == (ready, ready)
                        && since(after) > since(before)
                    {
                        out.away = Some(since(after));
                    }
                }
                _ => out.step(since(after), before.weight(), after.weight()),
            }
        }
    }
    out
}

impl MemberSteps {
    fn step(&mut self, at: Timestamp, from: (i64, i64), to: (i64, i64)) {
        if from != to {
            self.steps.push((at, to.0 - from.0, to.1 - from.1));
        }
    }

    /// A node came into its state, from a weight that it had; if that is Unknown for too long by
    /// now, it came to be not ready at its deadline.
    fn arrive(&mut self, from: (i64, i64), after: &Member, deadline: SignedDuration) {
        let at = since(after);
        let passed = at.checked_add(deadline).ok().filter(|_| after.overdue);
        match passed {
            Some(passed) => {
                self.step(at, from, (0, 1));
                self.step(passed, (0, 1), (0, 0));
            }
            None => self.step(at, from, after.weight()),
        }
    }
}

/// A node that was Ready at a watermark, as it was then: Ready since the same instant if it is so
/// still, else since before the watermark.
#[must_use]
pub fn ready_at_watermark(after: &Member, watermark: Timestamp) -> Member {
    let unmoved = after.readiness == Readiness::Ready && since(after) <= watermark;
    Member {
        readiness: Readiness::Ready,
        since: if unmoved {
            after.since
        } else {
            Some(after.created)
        },
        overdue: false,
        ..after.clone()
    }
}

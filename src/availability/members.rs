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
    let mut step = |at: Timestamp, ready: i64, unknown: i64| {
        if (ready, unknown) != (0, 0) {
            out.steps.push((at, ready, unknown));
        }
    };
    match (before, after) {
        (None, None) => {}
        (None, Some(after)) => {
            let (ready, unknown) = after.weight();
            step(since(after), ready, unknown);
        }
        (Some(before), None) => {
            let (ready, unknown) = before.weight();
            step(seen, -ready, -unknown);
        }
        (Some(before), Some(after)) if before.uid != after.uid => {
            // The same name, another node: the old one was gone when the new one was made.
            let (ready, unknown) = before.weight();
            step(after.created, -ready, -unknown);
            let (ready, unknown) = after.weight();
            step(since(after), ready, unknown);
        }
        (Some(before), Some(after)) => {
            let (ready, unknown) = (before.weight(), after.weight());
            let (ready, unknown) = (unknown.0 - ready.0, unknown.1 - ready.1);
            let waiting = before.readiness == Readiness::Unknown && !before.overdue;
            let passes = before
                .since
                .filter(|_| waiting)
                .and_then(|at| at.checked_add(deadline).ok());
            let moved = (before.readiness, before.since) != (after.readiness, after.since);
            match passes {
                Some(passed) if !moved && after.overdue => step(passed, ready, unknown),
                Some(passed) if moved && passed < since(after) => {
                    step(passed, 0, -1);
                    step(since(after), ready, unknown + 1);
                }
                _ => {
                    step(since(after), ready, unknown);
                    let ready = Readiness::Ready;
                    if (before.readiness, after.readiness) == (ready, ready)
                        && since(after) > since(before)
                    {
                        out.away = Some(since(after));
                    }
                }
            }
        }
    }
    out
}

/// A node as it was at a watermark, as far as the history knows: what it was among the nodes that
/// were not Ready then (`not_ready`), else Ready if it existed, else not there.
#[must_use]
pub fn at_watermark(
    after: &Member,
    watermark: Timestamp,
    not_ready: Option<&Member>,
) -> Option<Member> {
    if let Some(before) = not_ready.filter(|before| before.uid == after.uid) {
        return Some(before.clone());
    }
    if after.created > watermark {
        return None;
    }
    let unmoved = after.readiness == Readiness::Ready && since(after) <= watermark;
    let since = if unmoved {
        after.since
    } else {
        Some(after.created)
    };
    Some(Member {
        readiness: Readiness::Ready,
        since,
        overdue: false,
        ..after.clone()
    })
}

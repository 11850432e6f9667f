//! What is known of one object in time, from its last event on.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Delta, MemberSteps, Start, State, Step, replay};
use crate::model::{Bounds, Event};

/// An event as it comes out of sealing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sealed {
    /// The event.
    pub event: Event,
    /// When it was seen.
    pub seen: Timestamp,
    /// It is a down by the counts: whether it was expected may still have to be asked.
    pub by_counts: bool,
}

/// The state of one object from its last event on. See the module's description.
#[derive(Clone, Debug)]
pub struct Track {
    threshold: f64,
    sealed: State,
    current: State,
    last: Option<Event>,
    initial: Vec<Sealed>,
    steps: Vec<Step>,
    /// The last step of each node since the seal, so that a node's steps stay in order.
    latest: HashMap<Arc<str>, (Timestamp, u32)>,
    seen: Timestamp,
    /// When the first change of up since the seal was seen.
    changed: Option<Timestamp>,
    unseen: Option<Bounds>,
}

impl Track {
    /// An object that is seen for the first time. `base` is its state at its start if that is
    /// known, `steps` what happened since by the API's own times. Returns the track and whether
    /// the object is found: a start that is known helps only if it is down, or if the steps say
    /// since when it is up.
    #[must_use]
    pub fn first(
        start: Start,
        base: State,
        steps: Vec<Step>,
        current: State,
        seen: Timestamp,
        threshold: f64,
    ) -> (Self, bool) {
        let dated = || {
            let (mut state, mut steps) = (base, steps.clone());
            let flips = replay(
                false,
                &mut state,
                &mut steps,
                (Timestamp::MIN, seen),
                None,
                threshold,
            );
            !base.up(threshold) && flips.last().is_some_and(|flip| flip.up)
        };
        let known = match start {
            Start::Known(at) if !current.up(threshold) || dated() => Some(at),
            Start::Known(_) | Start::Found => None,
        };
        let event = |up, timestamp| Event {
            up,
            expected_down: current.expected_down,
            timestamp,
            bounds: None,
        };
        let initial = |event| Sealed {
            event,
            seen,
            by_counts: false,
        };
        let mut track = Self {
            threshold,
            sealed: current,
            current,
            last: None,
            initial: Vec::new(),
            steps: Vec::new(),
            latest: HashMap::new(),
            seen,
            changed: Some(seen),
            unseen: None,
        };
        if let Some(at) = known {
            track.initial.push(initial(event(false, at)));
            track.sealed = base;
            for step in steps {
                track.push(step);
            }
        } else {
            track.initial.push(initial(event(false, seen)));
            if current.up(threshold) {
                track.initial.push(initial(event(true, seen)));
            }
        }
        track.last = track.initial.last().map(|sealed| sealed.event);
        (track, known.is_none())
    }

    /// An object whose history ends with `last`, as it was at the last watermark (`base`), with
    /// what happened since by the API's own times (`steps`). What has no time of its own happened
    /// within `unseen`.
    #[must_use]
    pub fn resumed(
        last: Event,
        base: State,
        steps: Vec<Step>,
        current: State,
        (seen, unseen): (Timestamp, Option<Bounds>),
        threshold: f64,
    ) -> Self {
        let changed = current.up(threshold) != last.up || !steps.is_empty();
        let mut track = Self {
            threshold,
            sealed: base,
            current,
            last: Some(last),
            initial: Vec::new(),
            steps: Vec::new(),
            latest: HashMap::new(),
            seen,
            changed: changed.then_some(seen),
            unseen,
        };
        for step in steps {
            track.push(step);
        }
        track
    }

    /// Whether it is up as observed.
    #[must_use]
    pub fn up(&self) -> bool {
        self.current.up(self.threshold)
    }

    /// The state as observed.
    #[must_use]
    pub fn current(&self) -> State {
        self.current
    }

    /// The last event that was sealed.
    #[must_use]
    pub fn last(&self) -> Option<Event> {
        self.last
    }

    /// When the first change of up that is not sealed was seen.
    #[must_use]
    pub fn changed(&self) -> Option<Timestamp> {
        self.changed
    }

    /// Takes one step.
    pub fn push(&mut self, mut step: Step) {
        if let Delta::Member { node, .. } = &step.delta {
            if let Some((at, round)) = self.latest.get(node)
                && step.at <= *at
            {
                (step.at, step.round) = (*at, round + 1);
            }
            self.latest.insert(node.clone(), (step.at, step.round));
        }
        self.seen = self.seen.max(step.seen);
        self.steps.push(step);
    }

    /// Takes what follows from a change of one node.
    pub fn push_member(
        &mut self,
        node: &Arc<str>,
        change: &MemberSteps,
        seen: Timestamp,
        gap: Option<Bounds>,
    ) {
        for (at, ready, unknown) in &change.steps {
            let delta = Delta::Member {
                node: node.clone(),
                ready: *ready,
                unknown: *unknown,
            };
            let bounds = gap.filter(|_| *at == seen);
            self.push(Step {
                at: *at,
                round: 0,
                delta,
                seen,
                bounds,
            });
        }
    }

    /// A node that counts was away and back at `at`: if the object without it is down, that is an
    /// interruption of no length.
    pub fn push_away(&mut self, node: &Arc<str>, at: Timestamp, seen: Timestamp) {
        if self.last.is_some_and(|last| at <= last.timestamp) {
            return;
        }
        for ready in [-1, 1] {
            let delta = Delta::Member {
                node: node.clone(),
                ready,
                unknown: 0,
            };
            self.push(Step {
                at,
                round: 0,
                delta,
                seen,
                bounds: None,
            });
        }
        self.changed.get_or_insert(seen);
    }

    /// Sets the state as observed, after the steps that lead there.
    pub fn observe(&mut self, current: State, seen: Timestamp) {
        if current.up(self.threshold) != self.up() {
            self.changed.get_or_insert(seen);
        }
        self.current = current;
        self.seen = self.seen.max(seen);
    }

    /// Whether there is anything to seal.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.steps.is_empty() || !self.initial.is_empty() || self.changed.is_some()
    }

    /// Reads the events off the steps since the last seal, and starts anew from there.
    pub fn seal(&mut self) -> Vec<Sealed> {
        let mut events = std::mem::take(&mut self.initial);
        let was_up = self.last.is_some_and(|last| last.up);
        let floor = self.last.map_or(Timestamp::MIN, |last| last.timestamp);
        let mut steps = std::mem::take(&mut self.steps);
        self.latest.clear();
        if !steps.is_empty() {
            // Whatever order the times put the steps in, they end in what is observed.
            steps.push(Step {
                at: self.seen,
                round: u32::MAX,
                delta: Delta::State(self.current),
                seen: self.seen,
                bounds: self.unseen,
            });
        }
        let mut state = self.sealed;
        let window = (floor, self.seen);
        let flips = replay(
            was_up,
            &mut state,
            &mut steps,
            window,
            self.unseen,
            self.threshold,
        );
        events.extend(flips.into_iter().map(|flip| Sealed {
            event: Event {
                up: flip.up,
                expected_down: flip.expected_down,
                timestamp: flip.at,
                bounds: flip.bounds,
            },
            seen: flip.seen,
            by_counts: !flip.up && !flip.counts_up,
        }));
        if let Some(sealed) = events.last() {
            self.last = Some(sealed.event);
        }
        self.sealed = self.current;
        self.changed = None;
        self.unseen = None;
        events
    }
}

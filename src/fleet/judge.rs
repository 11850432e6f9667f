//! When a family is judged, first sight, and what a restart makes of the history.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Due, FAILED_SHOWN, Fleet, JUDGED_WITHIN, Tracked, commit, object_up};
use crate::availability::{
    Delta, Sealed, Start, State, Step, Track, known, member_steps, ready_at_watermark,
    state_changed_at,
};
use crate::history::{Life, NotReady, Record};
use crate::model::{Bounds, Counts, Event, Family, ObjectKey, Readiness, Source};
use crate::observed::{ConditionTimes, Member, Object, PoolKind};

impl Fleet {
    /// A family is judged once its sources have listed and the history is replayed: all that was
    /// seen until then is compared with the history as one list.
    pub(super) fn judge_what_can_be(&mut self) {
        if !self.replayed {
            return;
        }
        let listed = |source: &Source| self.health.get(source).is_some_and(|health| health.listed);
        let listed: Vec<_> = self
            .settings
            .sources
            .iter()
            .copied()
            .filter(listed)
            .collect();
        let known: Vec<_> = listed
            .iter()
            .filter(|source| !self.watched.contains_key(source))
            .collect();
        for source in known {
            if let Some(began) = self.began.get(source) {
                self.first_list.insert(*source);
                self.watched.insert(*source, *began);
            }
        }
        let ready: Vec<_> = self
            .settings
            .families
            .iter()
            .copied()
            .filter(|family| !self.judged.contains(family))
            .filter(|family| {
                self.settings
                    .needs(*family)
                    .iter()
                    .all(|need| listed.contains(need))
            })
            .collect();
        for family in ready {
            self.judge_family(family);
        }
    }

    fn judge_family(&mut self, family: Family) {
        let seen = self.now;
        self.judged.insert(family);
        self.judging = Some(family);
        // When it was first watched should be durable soon, even if there is nothing to say of it.
        self.pending.get_or_insert(seen);
        self.tables.entry(family).or_default();
        let mut lives: Vec<_> = self
            .resumable
            .keys()
            .filter(|key| key.family == family)
            .cloned()
            .collect();
        lives.sort();
        for key in &lives {
            let Some(life) = self.resumable.get(key) else {
                continue;
            };
            let by_labels = life.pool.filter(|pool| *pool != PoolKind::Api);
            if let Some(kind) = by_labels.filter(|_| self.settings.observed.label_pools)
                && self.observed.object(key).is_none()
            {
                let (attributes, expected) = (life.attributes.clone(), life.expected);
                self.observed
                    .restore_pool(&key.key, kind, attributes, expected);
            }
        }
        for key in self.observed.keys(family) {
            self.seen_again(&key, seen);
        }
        for key in lives {
            let unreadable = |life: &Life| self.observed.is_unreadable(family, &life.attributes);
            if self.resumable.get(&key).is_some_and(unreadable) {
                // It exists, and is taken up when it can be read.
                continue;
            }
            if let Some(life) = self.resumable.remove(&key) {
                self.close(&key, life, seen);
            }
        }
        if family == Family::NodePool {
            for (key, life) in std::mem::take(&mut self.ended_pools) {
                if !self.tracked.contains_key(&key) {
                    self.resume_failed_pool(key, life);
                }
            }
        }
        self.judging = None;
        if family == Family::NodePool {
            let pods: Vec<_> = self.observed.pods().collect();
            for uid in pods {
                self.show_pod(&uid);
            }
        }
    }

    fn source_of(family: Family, pool: Option<PoolKind>) -> Source {
        match family {
            Family::JobSet | Family::JobSetNodes => Source::JobSets,
            Family::NodePool if pool == Some(PoolKind::Api) => Source::NodePoolApi,
            Family::NodePool => Source::Nodes,
            Family::Slice => Source::Slices,
            Family::Lws => Source::LeaderWorkerSets,
        }
    }

    /// An object that is not tracked is there: its life of the history goes on, unless that was
    /// another's.
    pub(super) fn seen_again(&mut self, key: &ObjectKey, seen: Timestamp) {
        let Some(life) = self.resumable.remove(key) else {
            return self.first_sight(key, seen);
        };
        let last = life.fold.as_ref().map(|fold| fold.last().timestamp);
        let made = self.observed.object(key).and_then(|object| object.made);
        // A pool that was made again under its name while nobody watched.
        let another = made.is_some_and(|made| made > life.start && Some(made) > last);
        let emptied = life.emptied;
        if another || emptied.is_some_and(|emptied| self.closed_before_its_nodes(key, emptied)) {
            self.close(key, life, seen);
            self.first_sight(key, seen);
        } else {
            self.resume(key, life, seen);
        }
    }

    /// An object is seen for the first time.
    pub(super) fn first_sight(&mut self, key: &ObjectKey, seen: Timestamp) {
        let Some(object) = self.observed.object(key) else {
            return;
        };
        let object = object.clone();
        if key.family == Family::NodePool {
            self.hide_failed_pool(&key.key);
        }
        let source = Self::source_of(key.family, object.pool);
        let watched = self.watched.get(&source).copied().unwrap_or(seen);
        let provisioning = &*object.status == "PROVISIONING";
        let first_list = self.judging == Some(key.family) && self.first_list.contains(&source);
        let start = known(object.start, provisioning, watched, first_list, seen);
        let current = state(&object);
        let mut steps = Vec::new();
        let base = match key.family {
            Family::NodePool | Family::JobSetNodes => {
                for member in self.observed.members(key) {
                    let deadline = self.settings.unknown_deadline;
                    let change = member_steps(None, Some(&member), seen, deadline);
                    steps.extend(change.steps.into_iter().map(|(at, ready, unknown)| Step {
                        at,
                        round: 0,
                        delta: Delta::Member {
                            node: member.name.clone(),
                            ready,
                            unknown,
                        },
                        seen,
                        bounds: None,
                    }));
                }
                let counts = Counts {
                    ready: 0,
                    unknown: 0,
                    ..current.counts
                };
                State { counts, ..current }
            }
            Family::Slice => {
                let delta = Delta::State(current);
                let step = |at| Step {
                    at,
                    round: 0,
                    delta,
                    seen,
                    bounds: None,
                };
                steps.extend(object.changed.map(step));
                State {
                    counts: Counts {
                        expected: 1,
                        ready: 0,
                        unknown: 0,
                    },
                    ..current
                }
            }
            Family::JobSet | Family::Lws => current,
        };
        let threshold = self.settings.unknown_threshold;
        let (track, found) = Track::first(start, base, steps, current, seen, threshold);
        let start = match start {
            Start::Known(at) if !found => at,
            Start::Known(_) | Start::Found => seen,
        };
        let life = Life {
            start,
            found,
            attributes: object.attributes.clone(),
            expected: object.counts.expected,
            pool: object.pool,
            fold: None,
            failed: None,
            emptied: None,
            ended: None,
        };
        let record = Record::Began {
            object: key.clone(),
            start,
            found,
            attributes: object.attributes.clone(),
            expected: object.counts.expected,
            pool: object.pool,
        };
        self.take_up(key, track, life, &object);
        self.log(key, record, seen);
        self.log_shape(key, seen);
    }

    /// An object that the history knows is there.
    fn resume(&mut self, key: &ObjectKey, life: Life, seen: Timestamp) {
        let Some(last) = life.fold.as_ref().map(crate::summary::Fold::last) else {
            return self.first_sight(key, seen);
        };
        let Some(object) = self.observed.object(key) else {
            return;
        };
        let object = object.clone();
        let source = Self::source_of(key.family, object.pool);
        let source = match key.family {
            Family::NodePool | Family::JobSetNodes => Source::Nodes,
            Family::JobSet | Family::Slice | Family::Lws => source,
        };
        let mark = self.watermarks.get(&source).map(|mark| mark.at);
        let unseen = mark.map(|after| Bounds { after, seen });
        let current = state(&object);
        let mut steps = Vec::new();
        let mut away: Option<(Timestamp, Arc<str>)> = None;
        let step = |at, delta, bounds| Step {
            at,
            round: 0,
            delta,
            seen,
            bounds,
        };
        let base = if matches!(key.family, Family::NodePool | Family::JobSetNodes) {
            let mut base = State {
                counts: Counts {
                    expected: life.expected,
                    ready: 0,
                    unknown: 0,
                },
                expected_down: !last.up && last.expected_down,
            };
            for member in self.observed.members(key) {
                let before = self.member_at_watermark(&member);
                if let Some((ready, unknown)) = before.as_ref().map(Member::weight) {
                    base.counts.ready += ready;
                    base.counts.unknown += unknown;
                }
                let deadline = self.settings.unknown_deadline;
                let change = member_steps(before.as_ref(), Some(&member), seen, deadline);
                for (at, ready, unknown) in change.steps {
                    let delta = Delta::Member {
                        node: member.name.clone(),
                        ready,
                        unknown,
                    };
                    steps.push(step(at, delta, None));
                }
                if let Some(at) = change
                    .away
                    .filter(|at| away.as_ref().is_none_or(|a| *at > a.0))
                {
                    away = Some((at, member.name));
                }
            }
            let missing = life.expected - base.counts.ready - base.counts.unknown;
            if last.up && missing > 0 {
                // It was up: nodes that are gone now were there, until this was seen.
                base.counts.ready += missing;
                let delta = Delta::Member {
                    node: Arc::default(),
                    ready: -missing,
                    unknown: 0,
                };
                steps.push(step(seen, delta, unseen));
            }
            if current.counts.expected != life.expected {
                steps.push(step(seen, Delta::Expected(current.counts.expected), unseen));
            }
            if current.expected_down != base.expected_down {
                steps.push(step(
                    seen,
                    Delta::ExpectedDown(current.expected_down),
                    unseen,
                ));
            }
            base
        } else {
            let ready = i64::from(last.up);
            let base = State {
                counts: Counts {
                    expected: 1,
                    ready,
                    unknown: 0,
                },
                expected_down: !last.up && last.expected_down,
            };
            let changed = (ConditionTimes::default(), &object);
            let at = state_changed_at(base, changed, seen, self.settings.unknown_threshold);
            let at = at.filter(|at| *at >= last.timestamp);
            let bounds = unseen.filter(|_| at.is_none());
            steps.push(step(at.unwrap_or(seen), Delta::State(current), bounds));
            base
        };
        let threshold = self.settings.unknown_threshold;
        let mut track = Track::resumed(last, base, steps, current, (seen, unseen), threshold);
        if let Some((at, node)) = away {
            track.push_away(&node, at, seen);
        }
        self.take_up(key, track, life, &object);
        self.log_shape(key, seen);
    }

    /// A node as the history last knew it; `None` if it was not there.
    fn member_at_watermark(&self, member: &Member) -> Option<Member> {
        let Some(mark) = self.watermarks.get(&Source::Nodes) else {
            return Some(member.clone());
        };
        let known = self.known_nodes.get(&member.name)?;
        Some(match known.not_ready {
            Some(NotReady {
                created,
                readiness,
                since,
                overdue,
            }) => Member {
                name: member.name.clone(),
                uid: known.uid.clone(),
                created,
                readiness,
                since,
                overdue,
            },
            None if known.uid == member.uid => ready_at_watermark(member, mark.at),
            // Another node of the same name.
            None => Member {
                uid: known.uid.clone(),
                readiness: Readiness::Ready,
                since: None,
                overdue: false,
                ..member.clone()
            },
        })
    }

    /// An object that the history knows is gone.
    fn close(&mut self, key: &ObjectKey, life: Life, seen: Timestamp) {
        let generation = self.generation();
        let at = life.emptied.unwrap_or(seen);
        let mut life = life;
        let never_up = life
            .fold
            .as_ref()
            .is_some_and(|fold| fold.first_up().is_none());
        let fails = key.family == Family::NodePool && never_up && !life.found;
        let mut records = Vec::new();
        if fails && life.failed.is_none() {
            life.failed = Some(seen);
            records.push(Record::Failed {
                object: key.clone(),
                at: seen,
            });
        }
        records.push(Record::Ended {
            object: key.clone(),
            at,
        });
        for record in records {
            self.send(commit::Entry {
                record,
                seen,
                object: key.clone(),
                generation,
            });
        }
        if fails {
            life.ended = Some(at);
            self.resume_failed_pool(key.clone(), life);
        }
    }

    /// A pool that ended before it was ever up shows that it failed, for a while.
    pub(super) fn resume_failed_pool(&mut self, key: ObjectKey, life: Life) {
        let never_up = life
            .fold
            .as_ref()
            .is_some_and(|fold| fold.first_up().is_none());
        let until = life
            .ended
            .and_then(|ended| ended.checked_add(FAILED_SHOWN).ok());
        let Some(until) = until.filter(|until| *until > self.now) else {
            return;
        };
        if key.family != Family::NodePool || !never_up || life.failed.is_none() {
            return;
        }
        let current = State::default();
        let Some(last) = life.fold.as_ref().map(crate::summary::Fold::last) else {
            return;
        };
        let window = (self.now, None);
        let track = Track::resumed(last, current, Vec::new(), current, window, 1.0);
        let tracked = self.tracked_from(track, life, None);
        self.deadlines
            .set(&Due::Failed(key.key.clone()), Some(until));
        self.failed_pools.insert(key.key.clone(), tracked);
        self.dirty.insert(key);
    }

    pub(super) fn show_failed_pool(
        &mut self,
        key: &ObjectKey,
        tracked: Box<Tracked>,
        seen: Timestamp,
    ) {
        let until = seen.checked_add(FAILED_SHOWN).ok();
        self.deadlines.set(&Due::Failed(key.key.clone()), until);
        self.failed_pools.insert(key.key.clone(), tracked);
        self.dirty.insert(key.clone());
    }

    pub(super) fn hide_failed_pool(&mut self, pool: &Arc<str>) {
        if let Some(tracked) = self.failed_pools.remove(pool) {
            self.hide(Family::NodePool, tracked.slot);
            self.deadlines.set(&Due::Failed(pool.clone()), None);
        }
    }

    fn generation(&mut self) -> u64 {
        self.next_generation += 1;
        self.next_generation
    }

    fn tracked_from(&mut self, track: Track, life: Life, object: Option<&Object>) -> Box<Tracked> {
        let logged = (life.attributes.clone(), life.expected, life.pool);
        Box::new(Tracked {
            track,
            generation: self.generation(),
            slot: usize::MAX,
            conditions: object.map(|object| object.conditions).unwrap_or_default(),
            logged,
            failed: life.failed,
            emptied: life.emptied,
            listed: object.is_some_and(|object| object.listed),
            ever_up: life
                .fold
                .as_ref()
                .is_some_and(|fold| fold.first_up().is_some()),
            waiting: VecDeque::new(),
            in_flight: 0,
            stands: None,
            life,
        })
    }

    fn take_up(&mut self, key: &ObjectKey, track: Track, life: Life, object: &Object) {
        let mut tracked = self.tracked_from(track, life, Some(object));
        tracked.ever_up |= object_up(object, self.settings.unknown_threshold);
        self.tracked.insert(key.clone(), tracked);
        self.open(key);
        self.dirty.insert(key.clone());
    }

    /// Seals what is open of an object; its events wait if the first of them must be judged.
    pub(super) fn seal(&mut self, key: &ObjectKey) {
        let Some(tracked) = self.tracked.get_mut(key) else {
            return;
        };
        let events = tracked.track.seal();
        tracked.ever_up |= events.iter().any(|sealed| sealed.event.up);
        tracked.waiting.extend(events);
        self.changed.remove(key);
        self.dirty.insert(key.clone());
        self.resolve(key, false);
    }

    /// Lets go of the events that need not wait. A down by the counts of a pool that an API lists
    /// is judged by the first answer that was asked for after it was seen; without one in time, by
    /// what is known; `gone`: it is no longer listed.
    pub(super) fn resolve(&mut self, key: &ObjectKey, gone: bool) {
        let Some(tracked) = self.tracked.get_mut(key) else {
            return;
        };
        let known = || {
            let object = self.observed.object(key);
            gone || object.is_none_or(|object| object.expected_down)
        };
        let mut events: Vec<(Event, Timestamp)> = Vec::new();
        let mut waits = None;
        while let Some(sealed) = tracked.waiting.front().copied() {
            let Sealed {
                mut event,
                seen,
                by_counts,
            } = sealed;
            if tracked.listed && by_counts && !event.expected_down {
                let answered = self.answered.is_some_and(|began| began >= seen);
                let until = seen.checked_add(JUDGED_WITHIN).ok();
                let late = until.is_none_or(|until| until <= self.now);
                if !(gone || answered || late) {
                    waits = until;
                    break;
                }
                event.expected_down = known();
            }
            events.push((event, seen));
            tracked.waiting.pop_front();
        }
        tracked.in_flight += events.len();
        if waits.is_some() {
            // Whoever waits has asked.
            self.poll |= self.waiting.insert(key.clone());
        } else {
            self.waiting.remove(key);
        }
        self.deadlines.set(&Due::Judged(key.clone()), waits);
        for (event, seen) in events {
            let record = Record::Event {
                object: key.clone(),
                event,
            };
            self.log(key, record, seen);
        }
    }

    /// The node pool API has answered: the first status got after a down was seen judges it.
    pub(super) fn answered(&mut self, began: Timestamp) {
        self.answered = Some(began);
        let keys: Vec<_> = self.waiting.iter().cloned().collect();
        for key in keys {
            self.resolve(&key, false);
        }
    }
}

fn state(object: &Object) -> State {
    State {
        counts: object.counts,
        expected_down: object.expected_down,
    }
}

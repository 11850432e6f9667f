//! The owner of the fleet's state: one turn takes an observation, lets `observed` join it,
//! `availability` judge it, collects what the log must say, and publishes what is shown.
//!
//! It does no IO and never asks for the time, so that every rule about time can be tested by
//! saying what was seen when:
//!
//! ```text
//!  observe(what, now)* -> cut(now) -> [append by the caller] -> durable(batch, now) -> publish
//! ```

mod commit;
mod judge;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub use self::commit::Batch;
use crate::availability::{
    Deadlines, Delta, Sealed, State, Step, Track, failed_at, member_steps, state_changed_at,
};
use crate::history::{self, Life, Record, Remembered, Watermark};
use crate::model::{Bounds, Family, ObjectKey, Observation, Source, Update};
use crate::observed::{self, Change, ConditionTimes, Observed, PoolKind};
use crate::snapshot::{ObjectView, Scheduled, SourceHealth};

/// A watch is live while it was heard from within this long.
pub const LIVE: SignedDuration = SignedDuration::from_secs(90);
/// A down that is not judged by then is judged by what is known.
const JUDGED_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// A watermark is written this often even when nothing happens.
const WATERMARK_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// A pool that was deleted before it was ever up shows its failed provisioning this long.
const FAILED_SHOWN: SignedDuration = SignedDuration::from_hours(1);

/// What the fleet's rules depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What observing depends on.
    pub observed: observed::Settings,
    /// The sources that are in use.
    pub sources: BTreeSet<Source>,
    /// The families that are published.
    pub families: BTreeSet<Family>,
    /// Share of the expected that may be unknown, 0 to 1.
    pub unknown_threshold: f64,
    /// How long a node counts as Unknown.
    pub unknown_deadline: SignedDuration,
    /// How long a label pool with a topology may be without nodes before its history closes.
    pub empty_after: SignedDuration,
    /// A change waits this long for others that share its commit.
    pub commit_interval: SignedDuration,
}

impl Settings {
    /// The sources that a family is judged by.
    fn needs(&self, family: Family) -> Vec<Source> {
        let needed = match family {
            Family::JobSet => vec![Source::JobSets],
            Family::JobSetNodes => vec![Source::JobSets, Source::Nodes],
            Family::NodePool => vec![Source::Nodes, Source::NodePoolApi],
            Family::Slice => vec![Source::Slices, Source::JobSets, Source::LeaderWorkerSets],
            Family::Lws => vec![Source::LeaderWorkerSets],
        };
        needed
            .into_iter()
            .filter(|source| self.sources.contains(source))
            .collect()
    }
}

/// A deadline of an object, not of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Due {
    /// A label pool has been without nodes for too long.
    Empty(ObjectKey),
    /// A down has waited too long to be judged.
    Judged(ObjectKey),
    /// A failed pool has been shown long enough.
    Failed(Arc<str>),
}

/// One object: its track, its life, and what waits to become durable.
#[derive(Debug)]
struct Tracked {
    track: Track,
    life: Life,
    /// Tells this life from another of the same key.
    generation: u64,
    slot: usize,
    conditions: ConditionTimes,
    /// As last put into the log, durable or not.
    logged: (Arc<crate::model::Attributes>, i64, Option<PoolKind>),
    failed: Option<Timestamp>,
    emptied: Option<Timestamp>,
    ever_up: bool,
    /// Sealed events that wait for the first of them to be judged.
    waiting: VecDeque<Sealed>,
    /// Events on their way to the log.
    in_flight: usize,
    stands: Option<Timestamp>,
}

/// How far a source was heard.
#[derive(Clone, Debug)]
struct Heard {
    at: Timestamp,
    resource_version: Arc<str>,
}

/// The fleet. See the module's description.
#[derive(Debug)]
pub struct Fleet {
    settings: Settings,
    observed: Observed,
    health: BTreeMap<Source, SourceHealth>,
    judged: BTreeSet<Family>,
    replayed: bool,
    epoch: u64,
    /// When each source was first watched, by the history or by this process.
    watched: BTreeMap<Source, Timestamp>,
    /// The sources whose first list this history has not seen before.
    first_list: BTreeSet<Source>,
    began: BTreeMap<Source, Timestamp>,
    heard: BTreeMap<Source, Heard>,
    watermarks: BTreeMap<Source, Watermark>,
    /// The nodes of the history, by name their UIDs, until all that was seen is compared with it.
    known_nodes: HashMap<Arc<str>, Arc<str>>,
    /// Those of them that were not Ready.
    known_not_ready: HashMap<Arc<str>, Remembered>,
    /// Nodes that are new under their name, or gone, since the log was told.
    identities: BTreeMap<Arc<str>, Option<Arc<str>>>,
    /// Lives of the history that are not taken up yet.
    resumable: HashMap<ObjectKey, Life>,
    tracked: HashMap<ObjectKey, Tracked>,
    /// Pools that are gone and show that their provisioning failed.
    failed_pools: HashMap<Arc<str>, Tracked>,
    node_deadlines: Deadlines<Arc<str>>,
    deadlines: Deadlines<Due>,
    /// Objects with something to seal.
    open: BTreeSet<ObjectKey>,
    /// Those of them whose up has changed.
    changed: BTreeSet<ObjectKey>,
    /// When the oldest thing that the next batch must hold was seen.
    pending: Option<Timestamp>,
    /// Objects with events that wait to be judged.
    waiting: BTreeSet<ObjectKey>,
    outbox: Vec<commit::Entry>,
    outbox_events: u64,
    /// The family that is being judged for the first time.
    judging: Option<Family>,
    /// When the oldest thing that is not durable was seen.
    in_flight: Option<(Timestamp, u64)>,
    last_cut: Timestamp,
    next_generation: u64,
    dirty: BTreeSet<ObjectKey>,
    tables: BTreeMap<Family, view::Slots<ObjectView>>,
    scheduled: view::Slots<Scheduled>,
    pod_slots: HashMap<Arc<str>, usize>,
    history_health: crate::snapshot::HistoryHealth,
    poll: bool,
    /// When the newest answer of the node pool API was asked for.
    answered: Option<Timestamp>,
    now: Timestamp,
}

impl Fleet {
    /// An empty fleet, before its history is read.
    #[must_use]
    pub fn new(settings: Settings, now: Timestamp) -> Self {
        let health = settings.sources.iter().map(|source| {
            let health = SourceHealth {
                source: *source,
                listed: false,
                absent: false,
                heard: None,
                error: None,
            };
            (*source, health)
        });
        Self {
            observed: Observed::new(settings.observed.clone()),
            health: health.collect(),
            judged: BTreeSet::new(),
            replayed: false,
            epoch: 0,
            watched: BTreeMap::new(),
            first_list: BTreeSet::new(),
            began: BTreeMap::new(),
            heard: BTreeMap::new(),
            watermarks: BTreeMap::new(),
            known_nodes: HashMap::new(),
            known_not_ready: HashMap::new(),
            identities: BTreeMap::new(),
            resumable: HashMap::new(),
            tracked: HashMap::new(),
            failed_pools: HashMap::new(),
            node_deadlines: Deadlines::default(),
            deadlines: Deadlines::default(),
            open: BTreeSet::new(),
            changed: BTreeSet::new(),
            pending: None,
            judging: None,
            waiting: BTreeSet::new(),
            outbox: Vec::new(),
            outbox_events: 0,
            in_flight: None,
            last_cut: now,
            next_generation: 0,
            dirty: BTreeSet::new(),
            tables: BTreeMap::new(),
            scheduled: view::Slots::default(),
            pod_slots: HashMap::new(),
            history_health: crate::snapshot::HistoryHealth::default(),
            poll: false,
            answered: None,
            now,
            settings,
        }
    }

    /// Takes up what the history holds. Nothing is judged before.
    pub fn replayed(&mut self, state: history::State, epoch: u64, now: Timestamp) {
        self.advance(state.newest().unwrap_or(now).max(now));
        self.replayed = true;
        self.epoch = epoch;
        self.watched = state.watched;
        self.watermarks = state.watermarks;
        self.known_nodes = state.nodes;
        let mark = self.watermarks.get(&Source::Nodes);
        let not_ready = mark.and_then(|mark| mark.not_ready.as_deref());
        self.known_not_ready = not_ready
            .unwrap_or_default()
            .iter()
            .map(|node| (node.name.clone(), node.clone()))
            .collect();
        self.resumable = state.lives;
        self.history_health.replayed = true;
        self.history_health.last_success = Some(self.now);
        for (key, life) in state.ended {
            self.resume_failed_pool(key, life);
        }
        self.judge_what_can_be();
    }

    /// `now` is the wall clock, never below the last one used nor the log's newest watermark.
    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }

    /// Takes one observation.
    pub fn observe(&mut self, observation: Observation, now: Timestamp) {
        let now = self.advance(now);
        let (source, about) = about(&observation);
        let Some(health) = self.health.get_mut(&source) else {
            return;
        };
        let heard = health.heard;
        let failed = health.error.is_some();
        let mut gap = None;
        match about {
            About::Listed {
                began,
                seen,
                resource_version,
            } => {
                // A watch lists again only when it may have missed something; a poll always does.
                let missed = health.listed && (failed || source != Source::NodePoolApi);
                gap = heard.filter(|_| missed).map(|after| Bounds {
                    after,
                    seen: seen.min(now),
                });
                health.listed = true;
                health.absent = resource_version.is_none();
                health.error = None;
                health.heard = Some(seen);
                self.began.entry(source).or_insert(began);
                self.heard.insert(
                    source,
                    Heard {
                        at: seen,
                        resource_version: resource_version.unwrap_or_default(),
                    },
                );
            }
            About::Heard {
                seen,
                resource_version,
            } => {
                health.error = None;
                health.heard = Some(seen);
                self.heard.insert(
                    source,
                    Heard {
                        at: seen,
                        resource_version,
                    },
                );
            }
            About::Failed { error } => {
                health.error = Some(error);
                return;
            }
        }
        let seen = about_seen(&observation).min(now);
        let answered = match &observation {
            Observation::NodePools(Update::Listed { began, .. }) => Some(*began),
            _ => None,
        };
        let changes = self.observed.take(observation);
        self.process(changes, seen, gap);
        self.run_deadlines();
        self.judge_what_can_be();
        if let Some(began) = answered {
            self.answered(began);
        }
    }

    /// Lets time pass: what was due by `now` happens.
    pub fn tick(&mut self, now: Timestamp) {
        self.advance(now);
        self.run_deadlines();
    }

    /// The next instant at which something is due, the next commit included.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let nodes = self
            .node_deadlines
            .next()
            .filter(|_| self.is_live(Source::Nodes));
        [nodes, self.deadlines.next(), self.commit_due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether a source's last request has not failed and it was heard from lately.
    fn is_live(&self, source: Source) -> bool {
        self.health.get(&source).is_some_and(|health| {
            health.error.is_none()
                && health
                    .heard
                    .is_some_and(|heard| self.now.duration_since(heard) <= LIVE)
        })
    }

    fn run_deadlines(&mut self) {
        // While the watch of nodes is not live its deadlines rest: what happened is not known.
        while self.is_live(Source::Nodes)
            && let Some((_, node)) = self.node_deadlines.due(self.now)
        {
            let changes = self.observed.overdue(&node);
            self.process(changes, self.now, None);
        }
        while let Some((_, due)) = self.deadlines.due(self.now) {
            match due {
                Due::Empty(key) => {
                    let changes = self.observed.forget_pool(&key.key);
                    self.process(changes, self.now, None);
                }
                Due::Judged(key) => self.judge_waiting(&key),
                Due::Failed(pool) => self.hide_failed_pool(&pool),
            }
        }
    }

    /// Whether the node pool API should be asked now, to judge a down. Asking resets it.
    pub fn take_poll_request(&mut self) -> bool {
        std::mem::take(&mut self.poll)
    }

    /// Node pools whose size turned out not to be computable since this was last asked.
    pub fn take_unsized_pools(&mut self) -> Vec<Arc<str>> {
        self.observed.take_unsized_pools()
    }

    fn process(&mut self, changes: Vec<Change>, seen: Timestamp, gap: Option<Bounds>) {
        let mut away: BTreeMap<ObjectKey, (Timestamp, Arc<str>)> = BTreeMap::new();
        let mut touched = BTreeSet::new();
        for change in changes {
            match change {
                Change::Member {
                    object,
                    before,
                    after,
                } => {
                    let Some(tracked) = self.tracked.get_mut(&object) else {
                        continue;
                    };
                    let deadline = self.settings.unknown_deadline;
                    let steps = member_steps(before.as_ref(), after.as_ref(), seen, deadline);
                    let Some(member) = after.or(before) else {
                        continue;
                    };
                    tracked.track.push_member(&member.name, &steps, seen, gap);
                    if let Some(at) = steps.away {
                        let latest = away
                            .entry(object.clone())
                            .or_insert((at, member.name.clone()));
                        if at > latest.0 {
                            *latest = (at, member.name);
                        }
                    }
                    touched.insert(object);
                }
                Change::Object(key) => {
                    if self.tracked.contains_key(&key) {
                        self.object_changed(&key, seen, gap);
                    } else if self.judged.contains(&key.family) {
                        self.first_sight(&key, seen);
                    }
                    touched.insert(key);
                }
                Change::Gone(key) => {
                    touched.remove(&key);
                    self.gone(&key, seen);
                }
                Change::Unknown { node, since } => {
                    let deadline = self.settings.unknown_deadline;
                    let at = since.and_then(|since| since.checked_add(deadline).ok());
                    self.node_deadlines.set(&node, at);
                }
                Change::Identity { node, uid } => {
                    self.identities.insert(node, uid);
                }
                Change::Pod(uid) => self.show_pod(&uid),
            }
        }
        for key in touched {
            let Some(tracked) = self.tracked.get_mut(&key) else {
                continue;
            };
            let Some(object) = self.observed.object(&key) else {
                continue;
            };
            if let Some((at, node)) = away.get(&key) {
                tracked.track.push_away(node, *at, seen);
            }
            let was_up = tracked.track.up();
            let state = State {
                counts: object.counts,
                expected_down: object.expected_down,
            };
            tracked.track.observe(state, seen);
            tracked.ever_up |= tracked.track.up();
            if was_up && !tracked.track.up() && object.pool == Some(PoolKind::Api) {
                self.poll |= !object.expected_down;
            }
            self.open(&key);
            self.dirty.insert(key);
        }
    }

    /// An object has something to seal.
    fn open(&mut self, key: &ObjectKey) {
        let Some(tracked) = self.tracked.get(key) else {
            return;
        };
        if let Some(changed) = tracked.track.changed() {
            self.changed.insert(key.clone());
            self.pending.get_or_insert(changed);
        }
        self.open.insert(key.clone());
    }

    /// An object itself changed, other than by its nodes.
    fn object_changed(&mut self, key: &ObjectKey, seen: Timestamp, gap: Option<Bounds>) {
        let Some(object) = self.observed.object(key) else {
            return;
        };
        let Some(tracked) = self.tracked.get_mut(key) else {
            return;
        };
        let before = tracked.track.current();
        let after = State {
            counts: object.counts,
            expected_down: object.expected_down,
        };
        // At an instant at which nodes change too, the object's own word comes last.
        let step = |at, delta| Step {
            at,
            round: if matches!(delta, Delta::State(_)) {
                u32::MAX
            } else {
                0
            },
            delta,
            seen,
            bounds: gap.filter(|_| at == seen),
        };
        if matches!(key.family, Family::NodePool | Family::JobSetNodes) {
            // Which nodes count is another matter by the API than by the labels.
            let by_api = |pool: Option<PoolKind>| pool == Some(PoolKind::Api);
            if by_api(tracked.logged.2) == by_api(object.pool) {
                if before.counts.expected != after.counts.expected {
                    tracked
                        .track
                        .push(step(seen, Delta::Expected(after.counts.expected)));
                }
                if before.expected_down != after.expected_down {
                    tracked
                        .track
                        .push(step(seen, Delta::ExpectedDown(after.expected_down)));
                }
            } else {
                tracked.track.push(step(seen, Delta::State(after)));
            }
        } else if before != after {
            let changed = (tracked.conditions, object);
            let at = state_changed_at(before, changed, seen, self.settings.unknown_threshold);
            tracked
                .track
                .push(step(at.unwrap_or(seen), Delta::State(after)));
        }
        tracked.conditions = object.conditions;
        self.log_shape(key, seen);
    }

    /// Puts into the log what of an object's life is no event and has changed.
    fn log_shape(&mut self, key: &ObjectKey, seen: Timestamp) {
        let Some(object) = self.observed.object(key) else {
            return;
        };
        let Some(tracked) = self.tracked.get_mut(key) else {
            return;
        };
        let mut records = Vec::new();
        let shape = (
            object.attributes.clone(),
            object.counts.expected,
            object.pool,
        );
        if tracked.logged != shape {
            let (attributes, expected, pool) = shape.clone();
            records.push(Record::Changed {
                object: key.clone(),
                attributes,
                expected,
                pool,
            });
            tracked.logged = shape;
        }
        tracked.ever_up |= object_up(object, self.settings.unknown_threshold);
        if key.family == Family::NodePool {
            if !tracked.ever_up
                && !tracked.life.found
                && tracked.failed.is_none()
                && let Some(at) = failed_at(Some(object), seen)
            {
                tracked.failed = Some(at);
                records.push(Record::Failed {
                    object: key.clone(),
                    at,
                });
            }
            if object.empty != tracked.emptied.is_some() {
                tracked.emptied = object.empty.then_some(seen);
                records.push(Record::Emptied {
                    object: key.clone(),
                    at: tracked.emptied,
                });
            }
            let closes = tracked
                .emptied
                .and_then(|at| at.checked_add(self.settings.empty_after).ok());
            self.deadlines.set(&Due::Empty(key.clone()), closes);
        }
        for record in records {
            self.log(key, record, seen);
        }
        self.dirty.insert(key.clone());
    }

    /// An object is gone: its series end and its history closes.
    fn gone(&mut self, key: &ObjectKey, seen: Timestamp) {
        if !self.tracked.contains_key(key) {
            return;
        }
        self.seal(key);
        // A pool that is no longer listed went as expected.
        self.resolve(key, Some(true));
        let Some(mut tracked) = self.tracked.remove(key) else {
            return;
        };
        let is_pool = key.family == Family::NodePool;
        let at = tracked.emptied.unwrap_or(seen);
        let mut records = Vec::new();
        if is_pool && !tracked.ever_up && !tracked.life.found && tracked.failed.is_none() {
            tracked.failed = failed_at(None, seen);
            records.extend(tracked.failed.map(|at| Record::Failed {
                object: key.clone(),
                at,
            }));
        }
        records.push(Record::Ended {
            object: key.clone(),
            at,
        });
        let generation = tracked.generation;
        for record in records {
            self.send(commit::Entry {
                record,
                seen,
                object: key.clone(),
                generation,
            });
        }
        self.open.remove(key);
        self.changed.remove(key);
        self.waiting.remove(key);
        self.dirty.remove(key);
        for due in [Due::Empty(key.clone()), Due::Judged(key.clone())] {
            self.deadlines.set(&due, None);
        }
        self.hide(key.family, tracked.slot);
        if is_pool && tracked.failed.is_some() && !tracked.ever_up {
            self.show_failed_pool(key, tracked, seen);
        }
    }
}

fn object_up(object: &observed::Object, threshold: f64) -> bool {
    State {
        counts: object.counts,
        expected_down: object.expected_down,
    }
    .up(threshold)
}

/// What an update says of its source.
enum About {
    Listed {
        began: Timestamp,
        seen: Timestamp,
        resource_version: Option<Arc<str>>,
    },
    Heard {
        seen: Timestamp,
        resource_version: Arc<str>,
    },
    Failed {
        error: Arc<str>,
    },
}

fn about_update<T>(update: &Update<T>) -> (About, Timestamp) {
    match update {
        Update::Listed {
            resource_version,
            began,
            seen,
            ..
        } => {
            let resource_version = Some(resource_version.clone());
            (
                About::Listed {
                    began: *began,
                    seen: *seen,
                    resource_version,
                },
                *seen,
            )
        }
        Update::Absent { began, seen } => (
            About::Listed {
                began: *began,
                seen: *seen,
                resource_version: None,
            },
            *seen,
        ),
        Update::Applied {
            resource_version,
            seen,
            ..
        }
        | Update::Deleted {
            resource_version,
            seen,
            ..
        }
        | Update::Heard {
            resource_version,
            seen,
        } => (
            About::Heard {
                seen: *seen,
                resource_version: resource_version.clone(),
            },
            *seen,
        ),
        Update::Failed { error, seen } => (
            About::Failed {
                error: error.clone(),
            },
            *seen,
        ),
    }
}

fn about_both(observation: &Observation) -> (Source, (About, Timestamp)) {
    match observation {
        Observation::JobSets(update) => (Source::JobSets, about_update(update)),
        Observation::Nodes(update) => (Source::Nodes, about_update(update)),
        Observation::Pods(update) => (Source::Pods, about_update(update)),
        Observation::Slices(update) => (Source::Slices, about_update(update)),
        Observation::LeaderWorkerSets(update) => (Source::LeaderWorkerSets, about_update(update)),
        Observation::NodePools(update) => (Source::NodePoolApi, about_update(update)),
    }
}

fn about(observation: &Observation) -> (Source, About) {
    let (source, (about, _)) = about_both(observation);
    (source, about)
}

fn about_seen(observation: &Observation) -> Timestamp {
    about_both(observation).1.1
}

//! The owner of the fleet's state: one turn takes an observation, lets `observed` join it,
//! `availability` judge it, collects what the log must say, and publishes what is shown.
//!
//! It does no IO and never asks for the time, so that every rule about time can be tested by
//! saying what was seen when:
//!
//! ```text
//!  observe(what, now)* -> cut(now) -> [append by the caller] -> durable(batch, now) -> publish
//! ```

mod changes;
mod commit;
mod judge;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

pub use self::commit::Batch;
use crate::availability::{Deadlines, Sealed, State, Track};
use crate::history::{self, Life, Remembered, Watermark};
use crate::model::{Bounds, Family, ObjectKey, Observation, Source, Update};
use crate::observed::{self, ConditionTimes, Observed, PoolKind};
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
    /// A cloud's API lists it, and can be asked.
    listed: bool,
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
    /// The nodes of the history, until all that was seen is compared with it.
    known_nodes: HashMap<Arc<str>, Remembered>,
    /// What is to be remembered of nodes and changed since the log was told.
    changed_nodes: BTreeMap<Arc<str>, Option<Remembered>>,
    /// Lives of the history that are not taken up yet.
    resumable: HashMap<ObjectKey, Life>,
    /// Pools that ended, until what there is is compared with them.
    ended_pools: BTreeMap<ObjectKey, Life>,
    tracked: HashMap<ObjectKey, Box<Tracked>>,
    /// Pools that are gone and show that their provisioning failed.
    failed_pools: HashMap<Arc<str>, Box<Tracked>>,
    node_deadlines: Deadlines<Arc<str>>,
    /// When label pools without nodes close.
    empty_deadlines: Deadlines<ObjectKey>,
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
    last_seal: Timestamp,
    next_generation: u64,
    dirty: BTreeSet<ObjectKey>,
    tables: BTreeMap<Family, view::Slots<ObjectView>>,
    scheduled: view::Slots<Scheduled>,
    pod_slots: HashMap<Arc<str>, usize>,
    history_health: crate::snapshot::HistoryHealth,
    poll: bool,
    /// The clock as it was read last; `now` never steps back.
    wall: Timestamp,
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
            changed_nodes: BTreeMap::new(),
            resumable: HashMap::new(),
            ended_pools: BTreeMap::new(),
            tracked: HashMap::new(),
            failed_pools: HashMap::new(),
            node_deadlines: Deadlines::default(),
            empty_deadlines: Deadlines::default(),
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
            last_seal: now,
            next_generation: 0,
            dirty: BTreeSet::new(),
            tables: BTreeMap::new(),
            scheduled: view::Slots::default(),
            pod_slots: HashMap::new(),
            history_health: crate::snapshot::HistoryHealth::default(),
            poll: false,
            wall: now,
            answered: None,
            now,
            settings,
        }
    }

    /// Takes up what the history holds. Nothing is judged before.
    pub fn replayed(&mut self, state: history::State, epoch: u64, now: Timestamp) {
        self.advance(now);
        self.now = self.now.max(state.newest().unwrap_or(now));
        self.replayed = true;
        self.epoch = epoch;
        self.watched = state.watched;
        self.watermarks = state.watermarks;
        self.known_nodes = state.nodes;
        self.resumable = state.lives;
        self.history_health.replayed = true;
        self.history_health.last_success = Some(self.now);
        // The last life of a name that has none now.
        for (key, life) in state.ended {
            if key.family == Family::NodePool && !self.resumable.contains_key(&key) {
                self.ended_pools.insert(key, life);
            }
        }
        self.judge_what_can_be();
    }

    /// `now` is the wall clock, never below the last one used nor the log's newest watermark.
    fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.wall = now;
        // A clock that is set back must not hold up what is measured from now on.
        self.last_cut = self.last_cut.min(now);
        self.last_seal = self.last_seal.min(now);
        self.pending = self.pending.map(|pending| pending.min(now));
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
                        // A poll shows what was when it was asked for.
                        at: if source == Source::NodePoolApi {
                            began
                        } else {
                            seen
                        },
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
        self.seal_what_is_held_up();
    }

    /// Lets time pass: what was due by `now` happens.
    pub fn tick(&mut self, now: Timestamp) {
        self.advance(now);
        self.run_deadlines();
        self.seal_what_is_held_up();
    }

    /// The next instant at which something is due, the next commit included.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        // Deadlines of nodes rest while their watch is not live.
        let nodes = [self.node_deadlines.next(), self.empty_deadlines.next()];
        let nodes = nodes.into_iter().flatten();
        let nodes = nodes.min().filter(|_| self.is_live(Source::Nodes));
        let others = [self.deadlines.next(), self.commit_due(), self.seal_due()];
        nodes.into_iter().chain(others.into_iter().flatten()).min()
    }

    /// Whether a source's last request has not failed and it was heard from lately.
    fn is_live(&self, source: Source) -> bool {
        self.health.get(&source).is_some_and(|health| {
            health.error.is_none()
                && health
                    .heard
                    .is_some_and(|heard| self.wall.duration_since(heard) <= LIVE)
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
        while self.is_live(Source::Nodes)
            && let Some((_, key)) = self.empty_deadlines.due(self.now)
        {
            let changes = self.observed.forget_pool(&key.key);
            self.process(changes, self.now, None);
        }
        while let Some((_, due)) = self.deadlines.due(self.now) {
            match due {
                Due::Judged(key) => self.resolve(&key, false),
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

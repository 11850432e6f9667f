//! The one task that owns the state: observe -> append -> fold -> publish. At most one append is
//! under way, and nothing waits for it but what must be durable first.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::clock::SharedClock;
use crate::config::Config;
use crate::export::report::summary_line;
use crate::fleet::{self, Batch, Fleet};
use crate::history::{AppendError, Log, OpenError, Opened, Store};
use crate::logs;
use crate::measure::{Measurement, Resource, SharedRecorder};
use crate::model::{ObjectKey, Observation, Update};
use crate::node_pools::PollNow;
use crate::snapshot::Published;

/// Observations that one turn takes at most before it publishes.
const TURN: usize = 512;
/// Log objects after which they are compacted.
const COMPACT_AFTER: u64 = 512;
/// The loop turns at least this often.
const IDLE: Duration = Duration::from_secs(10);
/// A loop that has not turned for so long is stuck.
const STUCK: Duration = Duration::from_mins(2);
/// How long the last append may take.
const LAST_APPEND: Duration = Duration::from_secs(10);
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(15);

/// Tells that the loop turns.
#[derive(Clone, Debug, Default)]
pub(super) struct Beat(Arc<(OnceLock<Instant>, AtomicU64)>);

impl Beat {
    fn turn(&self) {
        let start = *self.0.0.get_or_init(Instant::now);
        let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.1.store(millis, Ordering::Relaxed);
    }

    /// Fails when the loop has not turned for long.
    pub(super) fn check(&self) -> Result<(), String> {
        let start = *self.0.0.get_or_init(Instant::now);
        let last = Duration::from_millis(self.0.1.load(Ordering::Relaxed));
        let silent = start.elapsed().saturating_sub(last);
        if silent < STUCK {
            return Ok(());
        }
        Err(format!(
            "the state loop has not turned for {} s",
            silent.as_secs()
        ))
    }
}

/// What of the configuration the owner needs.
#[derive(Debug)]
pub(super) struct Settings {
    writer: String,
    retention: SignedDuration,
}

impl Settings {
    pub(super) fn of(config: &Config, process: &str) -> Self {
        Self {
            writer: process.to_owned(),
            retention: SignedDuration::try_from(config.history.retention)
                .unwrap_or(SignedDuration::MAX),
        }
    }
}

/// The owner of the state, and all that it talks to.
pub(super) struct Owner {
    pub(super) config: Settings,
    pub(super) store: Store,
    pub(super) fleet: fleet::Settings,
    pub(super) published: Arc<Published>,
    pub(super) clock: SharedClock,
    pub(super) recorder: SharedRecorder,
    /// Ends when the watches have ended.
    pub(super) observations: mpsc::Receiver<Observation>,
    pub(super) poll: PollNow,
    pub(super) beat: Beat,
    /// Is told the deployment's name once the history is read.
    pub(super) named: Option<oneshot::Sender<Arc<str>>>,
}

/// One append under way, or waiting to be tried again.
struct Append {
    batch: Batch,
    at: Timestamp,
    began: Instant,
    attempts: u32,
}

type Appended = (Log, Append, Result<(), AppendError>);

/// What wakes the loop.
enum Wake {
    Observed(Option<Observation>),
    Opened(Result<Opened, OpenError>),
    Appended(Result<Appended, tokio::task::JoinError>),
    Due,
}

impl Owner {
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        let mut fleet = Fleet::new(self.fleet.clone(), self.clock.now());
        let store = self.store.clone();
        let mut opening = Some(self.open(&store, Duration::ZERO));
        let mut opens: u32 = 0;
        let mut log: Option<Log> = None;
        let mut waiting: Option<(Append, Instant)> = None;
        let mut appending: Option<JoinHandle<Appended>> = None;
        let mut compacting: Option<JoinHandle<()>> = None;
        let mut failing = false;
        loop {
            self.beat.turn();
            let due = fleet.next_due();
            let retry = waiting.as_ref().map(|(_, at)| *at);
            let wake = tokio::select! {
                biased;
                appended = join(&mut appending) => Wake::Appended(appended),
                opened = join(&mut opening) => Wake::Opened(opened.context("the history's reader died")?),
                observed = self.observations.recv() => Wake::Observed(observed),
                () = sleep(&self.clock, due), if due.is_some() => Wake::Due,
                () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now).into()), if retry.is_some() => Wake::Due,
                () = tokio::time::sleep(IDLE) => Wake::Due,
            };
            let mut changed = BTreeSet::new();
            let mut finished = None;
            let mut taken = Vec::new();
            match wake {
                Wake::Due => {}
                Wake::Observed(None) => break,
                Wake::Observed(Some(observation)) => taken = self.turn(&mut fleet, observation),
                Wake::Opened(Ok(Opened { log: opened, state })) => {
                    tracing::info!(
                        epoch = opened.epoch(),
                        lives = state.lives.len(),
                        "the history is read"
                    );
                    let named = state.deployment.clone().unwrap_or_default();
                    fleet.replayed(state, opened.epoch(), self.clock.now());
                    log = Some(opened);
                    opening = None;
                    if let Some(waits) = self.named.take() {
                        // Nobody waits for it where nothing is pushed.
                        let _ = waits.send(named);
                    }
                }
                Wake::Opened(Err(error @ OpenError::Store { .. })) => {
                    fleet.append_failed(&error.to_string());
                    if opens == 0 {
                        tracing::warn!(%error, "the history cannot be read; tried again until it can");
                    }
                    opens += 1;
                    opening = Some(self.open(&store, backoff(opens)));
                }
                Wake::Opened(Err(error)) => return Err(error.into()),
                Wake::Appended(appended) => {
                    appending = None;
                    let (owned, append, outcome) = appended.context("the append died")?;
                    log = Some(owned);
                    match outcome {
                        Ok(()) => {
                            if std::mem::take(&mut failing) {
                                tracing::info!("the history can be written again");
                            }
                            changed = fleet.durable(append.batch, self.clock.now());
                            finished = Some(append.began);
                        }
                        Err(AppendError::Store(error)) => {
                            fleet.append_failed(&error.to_string());
                            if !std::mem::replace(&mut failing, true) {
                                tracing::warn!(%error, "the history cannot be written; what happens is kept and tried again");
                            }
                            let at = Instant::now() + backoff(append.attempts);
                            waiting = Some((append, at));
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            fleet.tick(self.clock.now());
            self.shown(&mut fleet, &changed);
            self.measured(taken);
            if let Some(began) = finished {
                self.recorder.record(Measurement::Aggregation {
                    took: began.elapsed(),
                });
            }
            let Some(mut idle) = log.take() else { continue };
            if idle.uncompacted() >= COMPACT_AFTER
                && compacting.as_ref().is_none_or(JoinHandle::is_finished)
            {
                compacting = Some(self.compact(&mut idle));
            }
            let again = waiting.take_if(|(_, at)| *at <= Instant::now());
            if let Some((append, _)) = again {
                appending = Some(append_with(idle, append));
                continue;
            }
            if waiting.is_none()
                && fleet
                    .commit_due()
                    .is_some_and(|due| due <= self.clock.now())
                && let Some(append) = self.cut(&mut fleet)
            {
                appending = Some(append_with(idle, append));
                continue;
            }
            log = Some(idle);
        }
        // The watches have ended: what they saw becomes durable, if the store lets it.
        let last = async {
            let mut log = log;
            if let Some(appending) = appending.take() {
                let (owned, append, outcome) = appending.await.context("the append died")?;
                log = Some(owned);
                match outcome {
                    Ok(()) => drop(fleet.durable(append.batch, self.clock.now())),
                    Err(_) => waiting = Some((append, Instant::now())),
                }
            }
            let Some(mut log) = log else { return Ok(()) };
            if let Some((Append { batch, at, .. }, _)) = waiting.take() {
                log.append(batch.records(), at).await?;
                fleet.durable(batch, self.clock.now());
            }
            if let Some(Append { batch, at, .. }) = self.cut(&mut fleet) {
                log.append(batch.records(), at).await?;
                fleet.durable(batch, self.clock.now());
            }
            fleet.publish(&self.published);
            anyhow::Ok(())
        };
        tokio::time::timeout(LAST_APPEND, last).await.context(
            "the last append did not end in time; what the API still shows will be found again",
        )?
    }

    /// Takes an observation, and those that are there already.
    fn turn(&mut self, fleet: &mut Fleet, first: Observation) -> Vec<(&'static str, Timestamp)> {
        let mut taken = Vec::new();
        let mut next = Some(first);
        while let Some(observation) = next.take() {
            let now = self.clock.now();
            let (controller, seen, changes) = about(&observation);
            let span = tracing::info_span!("reconcile", controller);
            span.in_scope(|| fleet.observe(observation, now));
            if changes {
                taken.push((controller, seen));
            }
            if taken.len() < TURN {
                next = self.observations.try_recv().ok();
            }
        }
        for pool in fleet.take_unsized_pools() {
            let text = Arc::from;
            let (group, version, resource) = (
                text("container.googleapis.com"),
                text("v1"),
                text("nodepools"),
            );
            let resource = Resource {
                group,
                version,
                resource,
            };
            self.recorder.record(Measurement::Undecodable {
                resource: &resource,
            });
            tracing::warn!(
                pool = &*pool,
                "the size of this node pool cannot be computed from its topology and machine type: it is not published"
            );
        }
        taken
    }

    fn measured(&self, taken: Vec<(&'static str, Timestamp)>) {
        let now = self.clock.now();
        for (controller, seen) in taken {
            let took = Duration::try_from(now.duration_since(seen)).unwrap_or_default();
            self.recorder.record(Measurement::Reconcile {
                controller,
                result: "success",
                took,
            });
        }
    }

    /// Publishes, asks for what must be asked, and logs the summaries that changed.
    fn shown(&self, fleet: &mut Fleet, changed: &BTreeSet<ObjectKey>) {
        fleet.publish(&self.published);
        if fleet.take_poll_request() {
            self.poll.ask();
        }
        let now = self.clock.now();
        for key in changed {
            if let Some(view) = fleet.shown(key) {
                logs::summary(&summary_line(key.family, view, now));
            }
        }
    }

    fn cut(&self, fleet: &mut Fleet) -> Option<Append> {
        let at = self.clock.now();
        let batch = fleet.cut(at)?;
        Some(Append {
            batch,
            at,
            began: Instant::now(),
            attempts: 0,
        })
    }

    fn open(&self, store: &Store, wait: Duration) -> JoinHandle<Result<Opened, OpenError>> {
        let (store, writer, clock) = (
            store.clone(),
            self.config.writer.clone(),
            self.clock.clone(),
        );
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            Log::open(store, &writer, clock.now()).await
        })
    }

    fn compact(&self, log: &mut Log) -> JoinHandle<()> {
        let compaction = log.begin_compaction();
        let (retention, now) = (self.config.retention, self.clock.now());
        tokio::spawn(async move {
            match compaction.run(retention, now).await {
                Ok(()) => tracing::debug!("the history is compacted"),
                Err(error) => {
                    tracing::warn!(%error, "the history could not be compacted; tried again later");
                }
            }
        })
    }
}

/// Waits for a task that may not be there.
async fn join<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

async fn sleep(clock: &SharedClock, due: Option<Timestamp>) {
    if let Some(due) = due {
        clock.sleep_until(due).await;
    }
}

fn append_with(mut log: Log, mut append: Append) -> JoinHandle<Appended> {
    append.attempts += 1;
    tokio::spawn(async move {
        let outcome = log.append(append.batch.records(), append.at).await;
        (log, append, outcome)
    })
}

fn backoff(attempts: u32) -> Duration {
    RETRY_MIN
        .saturating_mul(1 << attempts.min(10))
        .min(RETRY_MAX)
}

/// Its source's name, when it was seen, and whether it changes anything.
fn about(observation: &Observation) -> (&'static str, Timestamp, bool) {
    fn update<T>(update: &Update<T>) -> (Timestamp, bool) {
        match update {
            Update::Listed { seen, .. }
            | Update::Applied { seen, .. }
            | Update::Deleted { seen, .. } => (*seen, true),
            Update::Absent { seen, .. }
            | Update::Heard { seen, .. }
            | Update::Failed { seen, .. } => (*seen, false),
        }
    }
    let (seen, changes) = match observation {
        Observation::JobSets(u) => update(u),
        Observation::Nodes(u) => update(u),
        Observation::Pods(u) => update(u),
        Observation::Slices(u) => update(u),
        Observation::LeaderWorkerSets(u) => update(u),
        Observation::NodePools(u) => update(u),
    };
    (observation.source().name(), seen, changes)
}

//! A fleet to which one says what was seen when, with a log in memory: the notation of the cases.
//! Times are `h:mm:ss` or `m:ss` after the start of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use megamon::fleet::{Batch, Fleet, Settings};
use megamon::history::{Life, Record, State};
use megamon::model::{
    Event, Family, JobSet, Node, NodePool, ObjectKey, Observation, Operation, Readiness, Source,
    Update,
};
use megamon::observed;
use megamon::snapshot::{ObjectView, Published};
use megamon::summary::Summary;

pub fn start() -> Timestamp {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

/// `"1:30"` is a minute and a half after the start, `"1:00:00"` an hour, `"-5:00"` before it.
pub fn at(text: &str) -> Timestamp {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let seconds = text
        .split(':')
        .fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap());
    start() + SignedDuration::from_nanos((seconds * 1e9).round() as i64 * sign)
}

/// Since the start of the world, as `h:mm:ss`.
pub fn told(instant: Timestamp) -> String {
    let millis = instant.duration_since(start()).as_millis();
    let (sign, millis) = if millis < 0 {
        ("-", -millis)
    } else {
        ("", millis)
    };
    let (seconds, rest) = (millis / 1000, millis % 1000);
    let fraction = if rest == 0 {
        String::new()
    } else {
        format!(".{rest:03}")
    };
    format!(
        "{sign}{}:{:02}:{:02}{fraction}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

pub fn node(name: &str, pool: &str, readiness: Readiness, since: &str) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        created: at("-10:00:00"),
        readiness,
        since: Some(at(since)),
        pool: Some(pool.into()),
        jobset: None,
        topology: Some("2x4".into()),
        accelerator: Some("tpu-v5-lite-podslice".into()),
        accelerator_count: Some(4),
        spot: false,
        offers_accelerator: true,
    }
}

pub fn made(created: &str, node: Node) -> Node {
    Node {
        created: at(created),
        ..node
    }
}

pub fn again(uid: &str, node: Node) -> Node {
    Node {
        uid: uid.into(),
        ..node
    }
}

pub fn for_jobset(name: &str, node: Node) -> Node {
    Node {
        jobset: Some(("default".into(), name.into())),
        pool: None,
        ..node
    }
}

pub fn jobset(name: &str, created: &str, ready: i64) -> JobSet {
    JobSet {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        created: at(created),
        expected: 2,
        ready,
        expected_nodes: 2,
        chips: 8,
        topology: Some("2x4".into()),
        accelerator: Some("tpu-v5-lite-podslice".into()),
        spot: false,
        completed: None,
        failed: None,
        suspended: None,
        terminating: false,
    }
}

pub fn api_pool(name: &str, status: &str, operation: Option<&str>) -> NodePool {
    NodePool {
        name: name.into(),
        status: status.into(),
        topology: Some("2x4".into()),
        accelerator: Some("tpu-v5-lite-podslice".into()),
        machine_type: Some("ct5lp-hightpu-4t".into()),
        spot: false,
        operation: operation.map(|start| Operation {
            start: at(start),
            failed: None,
        }),
    }
}

pub struct World {
    pub settings: Settings,
    pub fleet: Fleet,
    pub records: Vec<Record>,
    pub published: Published,
    pub now: Timestamp,
    held: Option<Batch>,
    /// What has been judged by asking so far.
    pub polls: u32,
}

impl World {
    pub fn new(settings: Settings) -> Self {
        let now = at("0:00");
        let mut fleet = Fleet::new(settings.clone(), now);
        fleet.replayed(State::default(), 1, now);
        Self {
            settings,
            fleet,
            records: Vec::new(),
            published: Published::new(now),
            now,
            held: None,
            polls: 0,
        }
    }

    /// Labels alone; JobSets and Nodes are watched.
    pub fn labels() -> Self {
        Self::new(settings(&[Source::JobSets, Source::Nodes]))
    }

    /// The GKE API alone.
    pub fn gke() -> Self {
        let mut settings = settings(&[Source::JobSets, Source::Nodes, Source::NodePoolApi]);
        settings.observed.label_pools = false;
        settings.observed.api_pools = true;
        Self::new(settings)
    }

    pub fn see(&mut self, when: &str, observation: Observation) {
        self.pass(when);
        self.fleet.observe(observation, self.now);
        self.polls += u32::from(self.fleet.take_poll_request());
        self.fleet.publish(&self.published);
    }

    pub fn nodes(&mut self, when: &str, nodes: &[Node]) {
        self.see(when, Observation::Nodes(listed(when, nodes.to_vec())));
    }

    pub fn jobsets(&mut self, when: &str, jobsets: &[JobSet]) {
        self.see(when, Observation::JobSets(listed(when, jobsets.to_vec())));
    }

    pub fn pools(&mut self, when: &str, pools: &[NodePool]) {
        self.see(when, Observation::NodePools(listed(when, pools.to_vec())));
    }

    pub fn node(&mut self, when: &str, object: Node) {
        self.see(when, Observation::Nodes(applied(when, object)));
    }

    pub fn jobset(&mut self, when: &str, object: JobSet) {
        self.see(when, Observation::JobSets(applied(when, object)));
    }

    pub fn node_gone(&mut self, when: &str, object: Node) {
        self.see(when, Observation::Nodes(deleted(when, object)));
    }

    pub fn jobset_gone(&mut self, when: &str, object: JobSet) {
        self.see(when, Observation::JobSets(deleted(when, object)));
    }

    /// A bookmark of the watch of nodes.
    pub fn heard(&mut self, when: &str) {
        let update = Update::Heard {
            resource_version: "1".into(),
            seen: at(when),
        };
        self.see(when, Observation::Nodes(update));
    }

    pub fn failed(&mut self, when: &str) {
        let update = || Update::Failed {
            error: "connection refused".into(),
            seen: at(when),
        };
        self.see(when, Observation::Nodes(update()));
        self.see(
            when,
            Observation::JobSets(Update::Failed {
                error: "no".into(),
                seen: at(when),
            }),
        );
    }

    /// Lets time pass without a commit in between.
    pub fn pass(&mut self, when: &str) {
        self.now = self.now.max(at(when));
        self.fleet.tick(self.now);
        self.fleet.publish(&self.published);
    }

    /// Cuts a batch that the store does not take yet.
    pub fn cut(&mut self) {
        assert!(self.held.is_none(), "one append at a time");
        self.held = self.fleet.cut(self.now);
        self.fleet.publish(&self.published);
    }

    /// The store has taken the batch that was held.
    pub fn durable(&mut self) {
        let batch = self.held.take().expect("a batch is held");
        self.records.extend(batch.records().iter().cloned());
        self.fleet.durable(batch, self.now);
        self.fleet.publish(&self.published);
    }

    /// Commits what is open.
    pub fn commit(&mut self) {
        if let Some(batch) = self.fleet.cut(self.now) {
            self.records.extend(batch.records().iter().cloned());
            self.fleet.durable(batch, self.now);
        }
        self.fleet.publish(&self.published);
    }

    pub fn state(&self) -> State {
        let mut state = State::default();
        for record in &self.records {
            state.apply(record.clone());
        }
        assert_eq!(
            state.strays, 0,
            "a record about a life that the log does not know"
        );
        state
    }

    /// The process dies and comes back: what was not committed is lost.
    pub fn restart(&mut self, when: &str) {
        self.now = self.now.max(at(when));
        self.fleet = Fleet::new(self.settings.clone(), self.now);
        self.held = None;
        self.published = Published::new(self.now);
        self.fleet.replayed(self.state(), 2, self.now);
        self.fleet.publish(&self.published);
    }

    /// The events in the log, of one object: `up 0:10:00`, `down (expected) 0:20:00`.
    pub fn events(&self, family: Family, key: &str) -> Vec<String> {
        let of = |record: &Record| match record {
            Record::Event { object, event } if object.family == family && *object.key == *key => {
                Some(describe(*event))
            }
            _ => None,
        };
        self.records.iter().filter_map(of).collect()
    }

    pub fn ended(&self, family: Family, key: &str) -> Option<String> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Ended { object, at } if object.family == family && *object.key == *key => {
                Some(told(*at))
            }
            _ => None,
        })
    }

    pub fn view(&self, family: Family, key: &str) -> Option<Arc<ObjectView>> {
        let snapshot = self.published.snapshot();
        snapshot
            .objects(family)
            .find(|view| *view.key == *key)
            .cloned()
    }

    pub fn up(&self, family: Family, key: &str) -> bool {
        self.view(family, key).expect("it is shown").availability.up
    }

    pub fn summary(&self, family: Family, key: &str) -> Summary {
        let collection = self.published.collect(self.now);
        let view = self.view(family, key).expect("it is shown");
        view.summary(collection.now)
            .expect("it has a durable event")
    }

    /// What the log says of the last life of an object that has ended.
    pub fn summary_of_the_log(&self, family: Family, key: &str) -> Summary {
        let state = self.state();
        let of = |(object, _): &&(ObjectKey, Life)| object.family == family && *object.key == *key;
        let (_, life) = state.ended.iter().rev().find(of).expect("it has ended");
        life.fold.expect("it has events").at(self.now)
    }

    /// `success 0:10:00` and the like; empty without a provisioning series.
    pub fn provisioning(&self, pool: &str) -> String {
        let now = self.published.collect(self.now).now;
        let view = self.view(Family::NodePool, pool);
        let shown = view.and_then(|view| view.provisioning(now));
        shown.map_or(String::new(), |(state, nanos)| {
            format!(
                "{} {}",
                state.name(),
                told(start() + SignedDuration::from_nanos(nanos))
            )
        })
    }
}

pub fn describe(event: Event) -> String {
    let what = if event.up { "up" } else { "down" };
    let expected = if event.expected_down {
        " (expected)"
    } else {
        ""
    };
    let bounds = event.bounds.map_or(String::new(), |b| {
        format!(" [{} - {}]", told(b.after), told(b.seen))
    });
    format!("{what}{expected} {}{bounds}", told(event.timestamp))
}

pub fn settings(sources: &[Source]) -> Settings {
    let slice_mode = sources.contains(&Source::Slices);
    let mut families = BTreeSet::from([Family::JobSet, Family::NodePool]);
    families.insert(if slice_mode {
        Family::Slice
    } else {
        Family::JobSetNodes
    });
    if sources.contains(&Source::LeaderWorkerSets) {
        families.insert(Family::Lws);
    }
    Settings {
        observed: observed::Settings {
            label_pools: true,
            api_pools: false,
            pool_sizes: BTreeMap::new(),
            slice_mode,
        },
        sources: sources.iter().copied().collect(),
        families,
        unknown_threshold: 1.0,
        unknown_deadline: SignedDuration::from_secs(180),
        empty_after: SignedDuration::from_hours(1),
        commit_interval: SignedDuration::from_secs(1),
    }
}

pub fn key(family: Family, key: &str) -> ObjectKey {
    ObjectKey {
        family,
        key: key.into(),
    }
}

fn listed<T>(when: &str, objects: Vec<T>) -> Update<T> {
    Update::Listed {
        objects,
        undecodable: Vec::new(),
        resource_version: "1".into(),
        began: at(when),
        seen: at(when),
    }
}

fn applied<T>(when: &str, object: T) -> Update<T> {
    Update::Applied {
        object,
        resource_version: "1".into(),
        seen: at(when),
    }
}

fn deleted<T>(when: &str, object: T) -> Update<T> {
    Update::Deleted {
        object,
        resource_version: "1".into(),
        seen: at(when),
    }
}

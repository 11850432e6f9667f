//! A fleet built by hand, its metrics, and a reader of what they are written as.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;

use crate::export::provider::{Metrics, Settings};
use crate::export::text::{Format, Prometheus};
use crate::instruments::tests::{StandingClock, at, events, object, text};
use crate::model::{Attributes, Family};
use crate::snapshot::{ObjectView, Published, Scheduled, Snapshot, Table};

/// The metrics of a fleet, and what they are made from.
pub(super) struct Fixture {
    pub(super) clock: Arc<StandingClock>,
    pub(super) published: Arc<Published>,
    pub(super) metrics: Metrics,
    pub(super) prometheus: Prometheus,
    /// The exporter's own registry, the oracle.
    pub(super) registry: prometheus::Registry,
}

impl Fixture {
    pub(super) fn new(objects_per_family: usize, resource: BTreeMap<String, String>) -> Self {
        let now = at(0);
        let clock = Arc::new(StandingClock(Mutex::new(now)));
        let published = Arc::new(Published::new(now));
        let registry = prometheus::Registry::new();
        let metrics = Metrics::build_with(
            Settings {
                prefix: "megamon.alpha".to_owned(),
                objects_per_family,
                resource,
            },
            Arc::clone(&published),
            clock.clone(),
            opentelemetry_prometheus::exporter().with_registry(registry.clone()),
        )
        .unwrap();
        let prometheus = Prometheus::new(metrics.collector.clone(), metrics.recorder.clone());
        Self {
            clock,
            published,
            metrics,
            prometheus,
            registry,
        }
    }

    pub(super) fn publish(&self, snapshot: Snapshot) {
        self.published.publish(|_| Arc::new(snapshot));
    }

    pub(super) fn set_now(&self, now: Timestamp) {
        *self.clock.0.lock().unwrap() = now;
    }

    pub(super) fn scrape(&self, format: Format) -> String {
        let chunks = self.prometheus.scrape(format).unwrap();
        let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
        String::from_utf8(bytes).unwrap()
    }

    pub(super) fn samples(&self) -> BTreeSet<Sample> {
        parse(&self.scrape(Format::Text))
    }
}

/// A snapshot of some families.
pub(super) fn snapshot(families: impl IntoIterator<Item = (Family, Vec<ObjectView>)>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (family, objects) in families {
        let mut table = Table::default();
        for (slot, object) in objects.into_iter().enumerate() {
            table.set(slot, Some(Arc::new(object)));
        }
        snapshot.families[family.index()] = Some(table);
    }
    snapshot
}

/// A JobSet, or its nodes.
pub(super) fn jobset(n: usize, uid: &str, expected: i64, stretches: &[i64]) -> ObjectView {
    let mut view = object(
        &format!("train-{n}"),
        expected,
        &events(at(0), 0, stretches),
    );
    view.key = text(uid);
    view.found = true;
    view.attributes = Arc::new(Attributes {
        namespace: text("default"),
        uid: text(uid),
        ..(*view.attributes).clone()
    });
    view
}

pub(super) fn pool(name: &str, stretches: &[i64]) -> ObjectView {
    object(name, 16, &events(at(0), 0, stretches))
}

const UIDS: [&str; 3] = [
    "9aa65cba-3b66-481d-af8b-64450ec675b2",
    "d5f9954c-b3ce-4eae-9c4d-33cba0217b70",
    "6bc253ee-4b40-40fd-b938-327d9207da2f",
];

/// The fleet whose scrape `tests/golden/small-fleet.txt` is: three JobSets and three node pools,
/// after an interruption, a recovery and another.
pub(super) fn small_fleet() -> Snapshot {
    let steady: &[i64] = &[59_900_273_102];
    let train_0 = [
        24_984_100_566,
        15_231_622_969,
        15_224_612_055,
        4_459_937_512,
    ];
    let nodes_1 = [
        25_084_252_893,
        15_274_176_327,
        15_148_480_398,
        4_393_363_484,
    ];
    let pool_1 = [19_999_920_499, 20_000_017_190, 9_999_459_071];
    let [a, b, c] = UIDS;
    snapshot([
        (
            Family::JobSet,
            vec![
                jobset(0, a, 1, &train_0),
                jobset(1, b, 1, steady),
                jobset(2, c, 1, steady),
            ],
        ),
        (
            Family::JobSetNodes,
            vec![
                jobset(0, a, 16, steady),
                jobset(1, b, 16, &nodes_1),
                jobset(2, c, 16, steady),
            ],
        ),
        (
            Family::NodePool,
            vec![
                pool("tpu-pool-0", &[49_999_396_760]),
                pool("tpu-pool-1", &pool_1),
                pool("tpu-pool-2", &[49_999_396_760]),
            ],
        ),
    ])
}

/// The table of scheduled leader pods.
pub(super) fn scheduled(pods: &[(&str, &str, &str)]) -> Table<Scheduled> {
    let mut table = Table::default();
    for (slot, (pool, job, jobset)) in pods.iter().enumerate() {
        let pod = Scheduled {
            pool: text(pool),
            job: text(job),
            jobset: text(jobset),
        };
        table.set(slot, Some(Arc::new(pod)));
    }
    table
}

/// One sample: name, labels, value as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) value: String,
}

/// Reads a scrape in either format. Fails on a line that is not one, and on a duplicate sample.
pub(super) fn parse(scrape: &str) -> BTreeSet<Sample> {
    let mut samples = BTreeSet::new();
    let mut series = BTreeSet::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let sample = parse_line(line);
        let is_new = series.insert((sample.name.clone(), sample.labels.clone()));
        assert!(is_new, "duplicate sample: {line}");
        samples.insert(sample);
    }
    samples
}

fn parse_line(line: &str) -> Sample {
    let name_end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .unwrap_or_else(|| panic!("no value: {line}"));
    let (name, mut rest) = line.split_at(name_end);
    assert!(!name.is_empty(), "no name: {line}");
    let mut labels = BTreeMap::new();
    if let Some(after) = rest.strip_prefix('{') {
        rest = after;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(
                !label.is_empty()
                    && !label.starts_with(|c: char| c.is_ascii_digit())
                    && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
                "label {label:?}: {line}"
            );
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap_or_else(|| panic!("no end: {line}")) {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next() {
                        Some((_, 'n')) => '\n',
                        Some((_, c @ ('\\' | '"'))) => c,
                        other => panic!("escape {other:?}: {line}"),
                    }),
                    (_, c) => value.push(c),
                }
            };
            // An empty label is none.
            if !value.is_empty() {
                assert_eq!(labels.insert(label.to_owned(), value), None, "{line}");
            }
            rest = &after[end + 1..];
            rest = rest.strip_prefix(',').unwrap_or(rest);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    let number: f64 = value.parse().unwrap_or_else(|_| panic!("value: {line}"));
    let number = if number == 0.0 { 0.0 } else { number };
    Sample {
        name: name.to_owned(),
        labels,
        value: number.to_string(),
    }
}

/// The samples of one family.
pub(super) fn of<'a>(
    samples: &'a BTreeSet<Sample>,
    name: &str,
) -> impl Iterator<Item = &'a Sample> + use<'a> {
    let name = name.to_owned();
    samples.iter().filter(move |sample| sample.name == name)
}

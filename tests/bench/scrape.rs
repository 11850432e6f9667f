//! How long a scrape of a large fleet takes, and how much memory the process has at its peak.
//!
//! `cargo bench --bench scrape -- [series] [turns]`, 100,000 series and 20 turns by default: a
//! fleet of JobSets, their nodes and node pools, each interrupted and recovered, so that every
//! series it can have is there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use megamon::clock::{Clock as _, WallClock};
use megamon::export::provider::{Metrics, Settings};
use megamon::export::text::{Format, Prometheus};
use megamon::model::{Attributes, Availability, Counts, Event, Family};
use megamon::snapshot::{Conditions, ObjectView, Published, Snapshot, Table};
use megamon::summary::Fold;

/// Series of one JobSet, its nodes and one node pool.
const EACH: usize = 17 + 17 + 17 + 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<usize> = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let series = numbers.first().copied().unwrap_or(100_000);
    let turns = numbers.get(1).copied().unwrap_or(20).max(1);
    let objects = series.div_ceil(EACH);

    let now = WallClock.now();
    let published = Arc::new(Published::new(now));
    let snapshot = Arc::new(fleet(objects, now)?);
    published.publish(|_| snapshot);
    println!(
        "fleet              {objects} of each family, {} KB",
        memory("VmRSS")
    );
    let metrics = Metrics::build(
        Settings {
            prefix: "megamon.alpha".to_owned(),
            objects_per_family: 10_000.max(objects),
            resource: std::collections::BTreeMap::new(),
        },
        published,
        Arc::new(WallClock),
    )?;
    let prometheus = Prometheus::new(Arc::clone(&metrics.collector), metrics.recorder.clone());

    let mut scrapes = Vec::new();
    let mut collections = Vec::new();
    let (mut chunks, mut bytes) = (0, 0);
    for _ in 0..turns {
        let began = Instant::now();
        (chunks, bytes) = (0, 0);
        prometheus.scrape_to(Format::Text, |chunk| {
            chunks += 1;
            bytes += chunk.len();
        })?;
        scrapes.push(began.elapsed());
        let began = Instant::now();
        metrics.collector.collect(|_, _| ())?;
        collections.push(began.elapsed());
    }
    println!(
        "text               {} series, {} KB in {chunks} chunks",
        objects * EACH,
        bytes / 1000
    );
    println!("first scrape       {:.1} ms", millis(scrapes.first()));
    report("scrape", &mut scrapes);
    report("of it, collection", &mut collections);
    println!("peak, streamed     {} KB", memory("VmHWM"));
    for _ in 0..turns {
        let began = Instant::now();
        let chunks = prometheus.scrape(Format::Text)?;
        scrapes.push(began.elapsed());
        drop(chunks);
    }
    println!("peak, text kept    {} KB", memory("VmHWM"));
    Ok(())
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    println!(
        "{what:<18} {:.1} ms median, {:.1} ms best",
        millis(times.get(times.len() / 2)),
        millis(times.first()),
    );
}

fn millis(time: Option<&Duration>) -> f64 {
    time.copied().unwrap_or_default().as_secs_f64() * 1e3
}

/// A line of `/proc/self/status`, in KB.
fn memory(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(what));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024 / 1000
}

fn fleet(objects: usize, now: Timestamp) -> Result<Snapshot, Box<dyn std::error::Error>> {
    let mut snapshot = Snapshot::default();
    for (family, place) in Family::ALL.into_iter().zip(&mut snapshot.families) {
        if !matches!(
            family,
            Family::JobSet | Family::JobSetNodes | Family::NodePool
        ) {
            continue;
        }
        let mut table = Table::default();
        for n in 0..objects {
            table.set(n, Some(Arc::new(object(family, n, now)?)));
        }
        *place = Some(table);
    }
    Ok(snapshot)
}

fn object(
    family: Family,
    n: usize,
    now: Timestamp,
) -> Result<ObjectView, Box<dyn std::error::Error>> {
    let at = |seconds: i64| now.checked_sub(SignedDuration::new(seconds, 123_456_789));
    let mut events = Vec::new();
    for (up, ago) in [
        (false, 90_000),
        (true, 80_000),
        (false, 7_000),
        (true, 5_000),
    ] {
        events.push(Event {
            up,
            expected_down: false,
            timestamp: at(ago + i64::try_from(n)?)?,
            bounds: None,
        });
    }
    let uid: Arc<str> = Arc::from(format!("{n:08x}-5d3c-4f5a-9c59-5b1d3f0a7e{:02x}", n % 256));
    let pool = family == Family::NodePool;
    let empty: Arc<str> = Arc::from("");
    Ok(ObjectView {
        key: uid.clone(),
        attributes: Arc::new(Attributes {
            name: Arc::from(format!("training-run-{n:06}")),
            namespace: if pool {
                empty.clone()
            } else {
                Arc::from(format!("team-{}", n % 40))
            },
            uid: if pool { empty.clone() } else { uid },
            tpu_topology: Arc::from("4x4x4"),
            tpu_accelerator: Arc::from("tpu-v5p-slice"),
            ..Attributes::default()
        }),
        availability: Availability {
            counts: Counts {
                expected: 16,
                ready: 16,
                unknown: 0,
            },
            expected_down: false,
            up: true,
        },
        chips: 64,
        status: empty,
        conditions: Conditions::default(),
        fold: Fold::of(&events),
        found: false,
        failed: None,
        stands: None,
        only_provisioning: false,
    })
}

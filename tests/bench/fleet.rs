//! What one change costs, and what a fleet weighs, as its size grows.
//!
//! `cargo bench --profile dist --bench fleet`: the fold of 1,000 events; one watch event of a node
//! of 10 KB, from the bytes of its line to the published snapshot, in fleets of growing size up to
//! 65,000 nodes and 10,000 JobSets; the commit of a change in each; the memory of 65,000 nodes
//! that were listed in pages of 500.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use megamon::config::Config;
use megamon::fleet::{Fleet, Settings};
use megamon::history::State;
use megamon::model::{Event, Family, Observation, Source, Update};
use megamon::observed;
use megamon::snapshot::Published;
use megamon::summary::Fold;
use megamon::watch::{self, Interner, NodeRules};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    fold()?;
    for (nodes, jobsets) in [(650, 100), (6_500, 1_000), (65_000, 10_000)] {
        fleet(nodes, jobsets)?;
    }
    Ok(())
}

fn start() -> Outcome<Timestamp> {
    Ok("2026-03-01T00:00:00Z".parse()?)
}

fn fold() -> Outcome<()> {
    let start = start()?;
    let events: Vec<Event> = (0..1_000)
        .map(|number| Event {
            up: number % 2 == 1,
            expected_down: false,
            timestamp: start + SignedDuration::from_secs(number * 60),
            bounds: None,
        })
        .collect();
    let now = start + SignedDuration::from_hours(24 * 30);
    let turns = 2_000;
    let began = Instant::now();
    for _ in 0..turns {
        black_box(Fold::of(black_box(&events)).map(|fold| fold.at(now)));
    }
    println!(
        "fold of 1,000 events             {:>9.2} us",
        micros(began.elapsed()) / f64::from(turns)
    );
    Ok(())
}

/// A node as the API server sends it, of about 10 KB.
fn node(number: usize, ready: bool, since: &str) -> String {
    let pool = number / 16;
    let mut images = String::new();
    for image in 0..40 {
        let _ = write!(
            images,
            r#"{{"names":["example.com/images/image-{image}@sha256:{image:064}","example.com/images/image-{image}:v1"],"sizeBytes":{}}},"#,
            image * 1_000_003
        );
    }
    let images = images.trim_end_matches(',');
    let managed = r#"{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-03-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:lastHeartbeatTime":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{}}}}}},"#.repeat(8);
    let managed = managed.trim_end_matches(',');
    let status = if ready { "True" } else { "False" };
    format!(
        r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"gke-pool-{pool:05}-{number:06}","uid":"8b3e0001-0000-4000-8000-{number:012}","resourceVersion":"{number}","creationTimestamp":"2026-02-28T00:00:00Z","labels":{{"cloud.google.com/gke-accelerator-count":"4","cloud.google.com/gke-nodepool":"pool-{pool:05}","cloud.google.com/gke-tpu-accelerator":"tpu-v5-lite-podslice","cloud.google.com/gke-tpu-topology":"8x8","google.com/tpu-provisioner-jobset-namespace":"default","google.com/tpu-provisioner-jobset-name":"train-{jobset:05}","kubernetes.io/os":"linux","kubernetes.io/hostname":"gke-{number}"}},"managedFields":[{managed}]}},"spec":{{"podCIDR":"10.0.0.0/24"}},"status":{{"allocatable":{{"cpu":"96","google.com/tpu":"4"}},"conditions":[{{"type":"MemoryPressure","status":"False","lastHeartbeatTime":"2026-03-01T00:00:00Z","lastTransitionTime":"2026-02-28T00:00:00Z"}},{{"type":"Ready","status":"{status}","lastHeartbeatTime":"2026-03-01T00:00:00Z","lastTransitionTime":"{since}","reason":"KubeletReady"}}],"images":[{images}],"nodeInfo":{{"kubeletVersion":"v1.37.2"}}}}}}"#,
        jobset = number / 7,
    )
}

fn jobset(number: usize) -> String {
    format!(
        r#"{{"kind":"JobSet","apiVersion":"jobset.x-k8s.io/v1alpha2","metadata":{{"name":"train-{number:05}","namespace":"default","uid":"6f1c0000-0000-4000-8000-{number:012}","resourceVersion":"{number}","creationTimestamp":"2026-02-28T00:00:00Z"}},"spec":{{"replicatedJobs":[{{"name":"workers","replicas":1,"template":{{"spec":{{"parallelism":7,"template":{{"spec":{{"nodeSelector":{{"cloud.google.com/gke-tpu-topology":"8x8","cloud.google.com/gke-tpu-accelerator":"tpu-v5-lite-podslice"}}}}}}}}}}}}]}},"status":{{"replicatedJobsStatus":[{{"name":"workers","ready":1,"succeeded":0}}]}}}}"#
    )
}

fn settings() -> Settings {
    Settings {
        observed: observed::Settings {
            label_pools: true,
            api_pools: false,
            pool_sizes: BTreeMap::new(),
            slice_mode: false,
        },
        sources: BTreeSet::from([Source::JobSets, Source::Nodes]),
        families: BTreeSet::from([Family::JobSet, Family::JobSetNodes, Family::NodePool]),
        unknown_threshold: 1.0,
        unknown_deadline: SignedDuration::from_mins(3),
        empty_after: SignedDuration::from_hours(1),
        commit_interval: SignedDuration::from_secs(1),
    }
}

fn list<T>(objects: Vec<T>, seen: Timestamp) -> Update<T> {
    Update::Listed {
        objects,
        undecodable: Vec::new(),
        resource_version: "1".into(),
        began: seen,
        seen,
    }
}

fn fleet(nodes: usize, jobsets: usize) -> Outcome<()> {
    let before = resident();
    let start = start()?;
    let published = Published::new(start);
    let mut fleet = Fleet::new(settings(), start);
    fleet.replayed(State::default(), 1, start);
    let rules = NodeRules::of(&Config::default().node_pools);
    let mut strings = Interner::default();
    let listed: Result<Vec<_>, _> = (0..jobsets)
        .map(|number| watch::jobset::decode(&jobset(number), &mut strings).map(|d| d.object))
        .collect();
    fleet.observe(Observation::JobSets(list(listed?, start)), start);
    let listed: Result<Vec<_>, _> = (0..nodes)
        .map(|number| {
            let json = node(number, true, "2026-02-28T00:10:00Z");
            watch::node::decode(&json, &rules, &mut strings).map(|d| d.object)
        })
        .collect();
    let began = Instant::now();
    fleet.observe(Observation::Nodes(list(listed?, start)), start);
    let judged = began.elapsed();
    if let Some(batch) = fleet.cut(start) {
        fleet.durable(batch, start);
    }
    fleet.publish(&published);
    println!(
        "\n{nodes} nodes of {} bytes, {jobsets} JobSets",
        node(0, true, "2026-02-28T00:10:00Z").len()
    );
    println!(
        "  the list, judged whole         {:>9.0} ms",
        judged.as_secs_f64() * 1e3
    );
    println!(
        "  resident with it               {:>9.1} MiB ({:.1} before)",
        resident(),
        before
    );

    // Node after node goes and comes back, spread over the whole fleet.
    let mut changes = Vec::new();
    let (mut observing, mut cutting) = (Vec::new(), Vec::new());
    for turn in 0_i64..2_000 {
        let place = usize::try_from(turn)?;
        let number = (place / 2 * 7_919) % nodes;
        let since = start + SignedDuration::from_secs(turn);
        changes.push((since, node(number, turn % 2 == 1, &since.to_string())));
    }
    for (now, line) in &changes {
        let began = Instant::now();
        let object = watch::node::decode(line, &rules, &mut strings)?.object;
        let update = Update::Applied {
            object,
            resource_version: "2".into(),
            seen: *now,
        };
        fleet.observe(Observation::Nodes(update), *now);
        fleet.publish(&published);
        observing.push(began.elapsed());
        let began = Instant::now();
        if let Some(batch) = fleet.cut(*now) {
            fleet.durable(batch, *now);
            fleet.publish(&published);
        }
        cutting.push(began.elapsed());
    }
    told("  one event, bytes to snapshot  ", &mut observing);
    told("  its commit, fold and snapshot ", &mut cutting);
    println!("  peak so far                    {:>9.1} MiB", peak());
    Ok(())
}

fn told(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| {
        times
            .get(times.len() * share / 100)
            .copied()
            .unwrap_or_default()
    };
    println!(
        "{what} {:>9.2} us median, {:.2} us p99",
        micros(at(50)),
        micros(at(99))
    );
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Memory of this process in MiB, by a field of its status.
fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with(field))
        .unwrap_or_default();
    let kib: f64 = line
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0.0);
    kib / 1024.0
}

fn resident() -> f64 {
    memory("VmRSS:")
}

fn peak() -> f64 {
    memory("VmHWM:")
}

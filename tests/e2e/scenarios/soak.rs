//! The long ones, which `tests/run.sh --soak` runs too: hundreds of kills at random instants, and
//! a large fleet that keeps changing, with what it costs.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;

use crate::ledger::Span;
use crate::objects::{self, NAMESPACE, node_path};
use crate::program::{End, Program, Settings};
use crate::servers::api::JOBSETS;
use crate::servers::control_plane::{ControlPlane, Parts};
use crate::servers::{eventually, now};
use crate::world::World;

/// How long each takes: `MEGAMON_SOAK_MINUTES`, an hour by default.
fn soak_time() -> Duration {
    let minutes = std::env::var("MEGAMON_SOAK_MINUTES").ok();
    let minutes = minutes.map(|text| text.parse().expect("MEGAMON_SOAK_MINUTES is a number"));
    Duration::from_mins(minutes.unwrap_or(60))
}

/// Random numbers that a seed repeats (`MEGAMON_SOAK_SEED`).
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::env::var("MEGAMON_SOAK_SEED").ok();
        let seed = seed.map(|text| text.parse().expect("MEGAMON_SOAK_SEED is a number"));
        let seed = seed.unwrap_or_else(|| now().to_bits());
        println!("MEGAMON_SOAK_SEED={seed}");
        Self(seed)
    }

    /// Below a bound (splitmix64).
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// A node falls and comes back while the program is killed and started at random: each fall is
/// counted exactly once, wherever the kill fell, and nothing goes back.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "soak: an hour"]
async fn kills_at_random() {
    let mut random = Random::new();
    let mut world = World::start(Parts::NODES, None, &Settings::default()).await;
    let (first, up) = world.join_nodes(&["a-0", "a-1"], "a", None).await;
    let pool = world.ledger.add("a", objects::pool_entry("a", first));
    pool.up(up);
    pool.counts(2, 0);
    world.check("provisioned", &[]).await;
    let (begun, mut rounds, mut kills) = (Instant::now(), 0_u64, 0_u64);
    while begun.elapsed() < soak_time() {
        rounds += 1;
        let node = if random.below(2) == 0 { "a-0" } else { "a-1" };
        // The steps of the node, among which the program's end and its next start fall.
        let end = random.below(4);
        let start = end + random.below(4 - end + 1);
        let how = if random.below(4) == 0 {
            End::Terminate
        } else {
            End::Kill
        };
        let (mut down, mut up) = (None, None);
        for step in 0..=4 {
            if step == end {
                world.program.stop(how);
                kills += 1;
            }
            if step == start {
                world.program.launch();
                if random.below(4) == 0 {
                    // Killed while it starts, too.
                    pause(random.below(300)).await;
                    world.program.stop(End::Kill);
                    kills += 1;
                    world.program.launch();
                }
            }
            match step {
                // Times of the API are whole seconds: what is later must look later.
                0 | 2 => world.next_second().await,
                1 => down = Some(world.set_ready(node, false).await),
                3 => up = Some(world.set_ready(node, true).await),
                _ => {}
            }
            pause(random.below(200)).await;
        }
        let (down, up) = (down.expect("it fell"), up.expect("it came back"));
        let pool = world.ledger.get("a");
        // Where the fall itself was not seen, only the time of the return is known.
        pool.down(Span::either(down, up));
        pool.up(up);
        let step = format!("round {rounds}: {node}, {how:?} at {end}, started at {start}");
        eventually(Duration::from_mins(1), &step, async || {
            world.program.ready().await
        })
        .await;
        world.scrape_shows_it(&step).await;
        if rounds % 20 == 0 {
            world.collector_shows_it(&step).await;
            println!("{rounds} rounds, {kills} ends in {:?}", begun.elapsed());
        }
    }
    println!("{rounds} rounds, {kills} ends: nothing lost, made twice or gone back");
}

async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// 2,000 nodes in 125 pools with 125 JobSets, 20 changes a second: what it costs, and that at the
/// end the whole is right.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "soak: an hour"]
async fn a_large_fleet_keeps_changing() {
    const POOLS: usize = 125;
    const HOSTS: usize = 16;
    let plane = ControlPlane::start(Parts::ALL).await;
    let settings = Settings {
        log: "info",
        ..Settings::default()
    };
    let program = Program::start(&plane, None, None, &settings).await;
    let names: Vec<(String, String)> = (0..POOLS)
        .flat_map(|pool| {
            (0..HOSTS).map(move |host| (format!("p{pool}-{host}"), format!("p{pool}")))
        })
        .collect();
    let mut creating = futures::stream::iter(&names)
        .map(async |(name, pool)| {
            let mut node = objects::node(name, pool, None);
            let labels = &mut node["metadata"]["labels"];
            labels["cloud.google.com/gke-tpu-topology"] = json!("8x8");
            plane.api.create("/api/v1/nodes", &node).await;
        })
        .buffer_unordered(16);
    while creating.next().await.is_some() {}
    drop(creating);
    let list = format!("{JOBSETS}/namespaces/{NAMESPACE}/jobsets");
    for pool in 0..POOLS {
        let mut jobset = objects::jobset(&format!("train-{pool}"), 1);
        let job = &mut jobset["spec"]["replicatedJobs"][0]["template"]["spec"];
        job["parallelism"] = json!(HOSTS);
        job["completions"] = json!(HOSTS);
        let selector = &mut job["template"]["spec"]["nodeSelector"];
        selector["cloud.google.com/gke-tpu-topology"] = json!("8x8");
        selector["cloud.google.com/gke-nodepool"] = json!(format!("p{pool}"));
        plane.api.create(&list, &jobset).await;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let (pools, nodes) = (POOLS as f64, (POOLS * HOSTS) as f64);
    let whole = async || {
        let samples = program.scrape().await?.samples;
        let sums = [
            "nodepool_up",
            "nodepool_ready",
            "jobset_up",
            "nodepool_job_scheduled",
        ]
        .map(|name| samples.sum(&format!("megamon_alpha_{name}"), &[]));
        if sums.map(f64::to_bits) == [pools, nodes, pools, pools].map(f64::to_bits) {
            Ok(samples.sum("megamon_alpha_nodepool_interruption_count", &[]))
        } else {
            Err(format!("pools up, nodes, JobSets up, scheduled: {sums:?}"))
        }
    };
    let before = eventually(Duration::from_mins(20), "the fleet runs", whole).await;

    let idle = program.cost();
    pause(60_000).await;
    let idle = program.cost().since(&idle);
    let mut random = Random::new();
    let (begun, busy) = (Instant::now(), program.cost());
    let mut changes = 0_u32;
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    while begun.elapsed() < soak_time() {
        tick.tick().await;
        let at = random.below(names.len() as u64);
        let (name, _) = &names[usize::try_from(at).expect("an index")];
        // A label that nobody reads, as heartbeats and autoscalers write them.
        let patch = json!({"metadata": {"annotations": {"e2e/change": changes.to_string()}}});
        let patched = plane.api.merge(&node_path(name), &patch).await;
        patched.unwrap_or_else(|error| panic!("{error}"));
        changes += 1;
    }
    let busy = program.cost().since(&busy);
    let after = eventually(Duration::from_mins(2), "the fleet is whole", whole).await;
    assert!(
        after - before == 0.0,
        "{} interruptions of nothing",
        after - before
    );
    let mut report = String::new();
    let per_change = busy.cpu * 1000.0 / f64::from(changes);
    let _never_fails = write!(
        report,
        "resident {:.1} MiB; idle {:.4} cores; {changes} changes at {:.1}/s: {per_change:.3} ms of CPU each",
        busy.resident_mib,
        idle.cpu / 60.0,
        f64::from(changes) / begun.elapsed().as_secs_f64(),
    );
    println!("{report}");
}

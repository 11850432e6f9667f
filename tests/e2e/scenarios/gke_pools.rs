//! Node pools as the GKE API tells of them, played by a scripted stand-in of it: provisioned and
//! deleted, the API failing for a while, a provisioning that fails.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::ledger::{Failed, Span};
use crate::objects;
use crate::program::{End, Settings};
use crate::servers::control_plane::Parts;
use crate::servers::gke::Gke;
use crate::servers::{eventually, now};
use crate::world::World;

const RESTARTS: [End; 2] = [End::Kill, End::Terminate];

/// An instant as GKE writes it, and as seconds.
fn instant() -> (String, Span) {
    let now = Timestamp::now();
    (
        now.to_string(),
        Span::exact(now.as_duration().as_secs_f64()),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_provisioned_and_deleted() {
    let gke = Gke::start().await;
    let mut world = World::start(Parts::NODES, Some(&gke), &Settings::default()).await;
    world.check("no pool", &[]).await;

    let (text, started) = instant();
    gke.create_pool("a", &text);
    world.ledger.add("a", objects::pool_entry("a", started));
    world.check("being provisioned", &RESTARTS).await;

    world.join_nodes(&["a-0"], "a", None).await;
    world.ledger.get("a").counts(1, 0);
    world.check("one node of two", &RESTARTS).await;

    let (_, up) = world.join_nodes(&["a-1"], "a", None).await;
    gke.set_status("a", "RUNNING");
    gke.end_operation("a", &instant().0, None);
    let pool = world.ledger.get("a");
    pool.up(up);
    pool.counts(2, 0);
    world.check("provisioned", &RESTARTS).await;

    // The API fails: what is known stays, and its age shows.
    let name = "megamon_alpha_source_last_success_seconds";
    let last_success = async |world: &World| {
        let samples = world.program.scrape().await?.samples;
        let found = samples
            .family(name)
            .find(|((_, labels), _)| labels["source"].contains("gke"));
        found
            .map(|(_, value)| value)
            .ok_or_else(|| format!("no {name} of the GKE API"))
    };
    gke.failing(true);
    let begun = Instant::now();
    let known = last_success(&world)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    while begun.elapsed() < Duration::from_secs(6) {
        let observed = world.program.scrape().await.expect("a scrape");
        assert_eq!(
            world.ledger.compare(&observed),
            Ok(()),
            "while the API fails"
        );
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let then = last_success(&world)
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(
        then - known < 2.0,
        "a failure is no success: {known}, {then}"
    );
    eventually(
        Duration::from_secs(30),
        "failed calls are counted",
        async || {
            let samples = world.program.scrape().await?.samples;
            let labels = [("error", "true"), ("method", "ListNodePools")];
            match samples.sum("megamon_alpha_gke_latency_seconds_count", &labels) {
                0.0 => Err("none".to_owned()),
                _ => Ok(()),
            }
        },
    )
    .await;
    // A pool that falls meanwhile shows at once; without an answer in 10 s what is known decides.
    let down = world.set_ready("a-1", false).await;
    let seen = Instant::now();
    eventually(Duration::from_secs(5), "up shows at once", async || {
        let samples = world.program.scrape().await?.samples;
        match samples.value("megamon_alpha_nodepool_up", &[])? {
            0.0 => Ok(()),
            up => Err(format!("{up} after {:?}", seen.elapsed())),
        }
    })
    .await;
    let pool = world.ledger.get("a");
    pool.down(down);
    pool.counts(1, 0);
    world.check("interrupted while the API fails", &[]).await;
    gke.failing(false);
    let up = world.set_ready("a-1", true).await;
    let pool = world.ledger.get("a");
    pool.up(up);
    pool.counts(2, 0);
    world.check("the API is back", &RESTARTS).await;

    // Deletion: the status first, then the nodes, then the pool.
    gke.set_status("a", "STOPPING");
    let pool = world.ledger.get("a");
    pool.expected_down(Span::seen(now()));
    pool.expected_down = true;
    world.check("stopping", &RESTARTS).await;
    world.delete_node("a-0").await;
    world.delete_node("a-1").await;
    world.ledger.get("a").counts(0, 0);
    world.check("its nodes are gone", &RESTARTS).await;
    gke.remove_pool("a");
    world.ledger.remove("a");
    world.check("no longer listed", &RESTARTS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provisioning_fails() {
    let gke = Gke::start().await;
    let mut world = World::start(Parts::NODES, Some(&gke), &Settings::default()).await;
    let (text, started) = instant();
    gke.create_pool("a", &text);
    world.ledger.add("a", objects::pool_entry("a", started));
    world.check("being provisioned", &[]).await;

    let (text, ended) = instant();
    gke.end_operation("a", &text, Some("out of TPUs"));
    gke.set_status("a", "ERROR");
    world.ledger.get("a").failed = Failed::At(ended);
    world.check("failed", &RESTARTS).await;

    gke.remove_pool("a");
    world.ledger.get("a").only_provisioning = true;
    world.check("deleted", &RESTARTS).await;

    // The name is used again: another life.
    let (text, started) = instant();
    world.never_back.new_life("a");
    gke.create_pool("a", &text);
    world.ledger.remove("a");
    world.ledger.add("a", objects::pool_entry("a", started));
    world.check("provisioned anew", &RESTARTS).await;

    // Deleted before it was ever up, without an error: failed when that was seen.
    gke.set_status("a", "STOPPING");
    let pool = world.ledger.get("a");
    pool.failed = Failed::At(Span::seen(now()));
    pool.expected_down = true;
    world.check("stopped before it was up", &RESTARTS).await;
}

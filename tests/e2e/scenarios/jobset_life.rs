//! The life of a JobSet on two node pools: created, running, interrupted, recovered, a node lost
//! and replaced, completed, deleted. Once straight through, once with the program killed and
//! restarted, and drained and restarted, at every step.

use std::time::Duration;

use serde_json::Value;

use crate::objects::{self, NAMESPACE, placed};
use crate::program::{End, Settings};
use crate::servers::api::JOBSETS;
use crate::servers::control_plane::Parts;
use crate::servers::eventually;
use crate::world::World;

const NODES: [&str; 4] = ["a-0", "a-1", "b-0", "b-1"];

#[tokio::test(flavor = "multi_thread")]
async fn a_jobset_lives() {
    live(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobset_lives_while_the_program_restarts_at_every_step() {
    live(&[End::Kill, End::Terminate]).await;
}

async fn live(restarts: &[End]) {
    let settings = Settings {
        empty_after: Duration::from_secs(12),
        ..Settings::default()
    };
    let mut world = World::start(Parts::ALL, None, &settings).await;
    world.check("an empty cluster", restarts).await;

    let list = format!("{JOBSETS}/namespaces/{NAMESPACE}/jobsets");
    let made = world
        .api()
        .create(&list, &objects::jobset("train", 2))
        .await;
    world
        .jobset_is("train", "has a status", |jobset| {
            jobset["status"].is_object()
        })
        .await;
    world.account_for_jobset("train").await;
    world
        .ledger
        .add("nodes of train", objects::jobset_nodes_entry(&made));
    world.check("the JobSet waits for nodes", restarts).await;

    let (a, a_up) = world.join_nodes(&NODES[..2], "a", Some("train")).await;
    let (b, b_up) = world.join_nodes(&NODES[2..], "b", Some("train")).await;
    world.jobset_is("train", "runs", objects::jobset_up).await;
    world.account_for_jobset("train").await;
    for (pool, first, up) in [("a", a, a_up), ("b", b, b_up)] {
        let entry = world.ledger.add(pool, objects::pool_entry(pool, first));
        entry.up(up);
        entry.counts(2, 0);
    }
    let nodes = world.ledger.get("nodes of train");
    nodes.up(a_up.max(b_up));
    nodes.counts(4, 0);
    world.check("the JobSet runs", restarts).await;

    // A pod fails; the JobSet controller makes all its Jobs anew, and their pods find no place.
    world.cordon(&NODES, true).await;
    let pods = world.pods().await;
    world.end_pod(&pods[0], "Failed").await;
    let restarted = |jobset: &Value| jobset["status"]["restarts"] == 1;
    world.jobset_is("train", "is restarted", restarted).await;
    eventually(Duration::from_secs(40), "the new pods wait", async || {
        let pods = world.pods().await;
        let waiting = pods
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Pending");
        match (waiting.count(), pods.len()) {
            (4, 4) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.account_for_jobset("train").await;
    assert!(world.ledger.scheduled.is_empty(), "no leader has a place");
    world.check("the JobSet is interrupted", restarts).await;

    world.cordon(&NODES, false).await;
    world
        .jobset_is("train", "runs again", objects::jobset_up)
        .await;
    world.account_for_jobset("train").await;
    world.check("the JobSet has recovered", restarts).await;

    // A node that no leader runs on is lost, and replaced under its name.
    let pods = world.pods().await;
    let follower = pods
        .iter()
        .filter_map(placed)
        .find(|(_, _, _, leader)| !leader);
    let (lost, _, _, _) = follower.expect("a Job has a second pod");
    let pool = if lost.starts_with('a') { "a" } else { "b" };
    let seen = world.delete_node(&lost).await;
    for (entry, ready) in [(pool, 1), ("nodes of train", 3)] {
        let entry = world.ledger.get(entry);
        entry.down(seen);
        entry.counts(ready, 0);
    }
    world.check("a node is lost", restarts).await;

    let (_, back) = world.join_nodes(&[&lost], pool, Some("train")).await;
    for (entry, ready) in [(pool, 2), ("nodes of train", 4)] {
        let entry = world.ledger.get(entry);
        entry.up(back);
        entry.counts(ready, 0);
    }
    world.account_for_jobset("train").await;
    world.check("the node is replaced", restarts).await;

    world.complete("train").await;
    world.account_for_jobset("train").await;
    world.ledger.get("nodes of train").expected_down = true;
    world.check("the JobSet is complete", restarts).await;

    world.delete_jobset("train").await;
    world.ledger.remove("jobset train");
    world.ledger.remove("nodes of train");
    world.account_for_pods().await;
    world.check("the JobSet is deleted", restarts).await;

    // A pool with a topology that has lost its last node is down, and closes after a while.
    for pool in ["a", "b"] {
        let one = world.delete_node(&format!("{pool}-0")).await;
        let two = world.delete_node(&format!("{pool}-1")).await;
        let entry = world.ledger.get(pool);
        entry.down(one.min(two));
        entry.counts(0, 0);
    }
    world.scrape_shows_it("the pools are empty").await;
    world.ledger.remove("a");
    world.ledger.remove("b");
    world.check("the empty pools are closed", restarts).await;
}

//! A TPU node pool known by its nodes' labels: nodes join until it is up, go Unknown when their
//! kubelets fall silent, count as not ready after the deadline, come back, fall below, come back.

use std::time::Duration;

use crate::objects;
use crate::program::{End, Settings};
use crate::servers::control_plane::Parts;
use crate::servers::{eventually, now};
use crate::world::World;

const NODES: [&str; 2] = ["a-0", "a-1"];

#[tokio::test(flavor = "multi_thread")]
async fn a_node_pool_lives() {
    live(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_pool_lives_while_the_program_restarts_at_every_step() {
    live(&[End::Kill, End::Terminate]).await;
}

async fn live(restarts: &[End]) {
    // Long enough for the step in which the nodes are Unknown and the program restarts twice.
    let deadline = 15.0 + 20.0 * f64::from(u8::from(!restarts.is_empty()));
    let settings = Settings {
        unknown_deadline: Duration::from_secs_f64(deadline),
        ..Settings::default()
    };
    let mut world = World::start(Parts::NODES, None, &settings).await;

    let (first, _) = world.join_nodes(&NODES[..1], "a", None).await;
    let entry = objects::pool_entry("a", first);
    world.ledger.add("a", entry).counts(1, 0);
    world.check("one node of two", restarts).await;

    let (_, up) = world.join_nodes(&NODES[1..], "a", None).await;
    let pool = world.ledger.get("a");
    pool.up(up);
    pool.counts(2, 0);
    world.check("provisioned", restarts).await;

    // The kubelets fall silent: Unknown nodes keep the pool up until the deadline.
    world.plane.kill_kwok();
    let (unknown, _) = world.nodes_are(&NODES, "Unknown").await;
    world.ledger.get("a").counts(0, 2);
    world.check("both nodes are Unknown", restarts).await;

    let pool = world.ledger.get("a");
    pool.down(unknown.plus(deadline));
    pool.counts(0, 0);
    eventually(Duration::from_mins(2), "the deadline passes", async || {
        let observed = world.program.scrape().await?;
        match observed
            .samples
            .value("megamon_alpha_nodepool_unknown", &[])?
        {
            0.0 => Ok(()),
            unknown => Err(format!("{unknown} Unknown at {}", now())),
        }
    })
    .await;
    world.check("they count as not ready", restarts).await;

    world.plane.start_kwok();
    let (_, back) = world.nodes_are(&NODES, "True").await;
    let pool = world.ledger.get("a");
    pool.up(back);
    pool.counts(2, 0);
    world.check("the kubelets are back", restarts).await;

    let down = world.set_ready("a-1", false).await;
    let pool = world.ledger.get("a");
    pool.down(down);
    pool.counts(1, 0);
    world.check("a node is not ready", restarts).await;

    let up = world.set_ready("a-1", true).await;
    let pool = world.ledger.get("a");
    pool.up(up);
    pool.counts(2, 0);
    world.check("it is ready again", restarts).await;

    // Another takes the place of one that is gone.
    let seen = world.delete_node("a-0").await;
    let pool = world.ledger.get("a");
    pool.down(seen);
    pool.counts(1, 0);
    world.check("a node is gone", restarts).await;

    let (_, up) = world.join_nodes(&["a-2"], "a", None).await;
    let pool = world.ledger.get("a");
    pool.up(up);
    pool.counts(2, 0);
    world.check("another has come", restarts).await;

    // A surplus node is no outage, and its end neither.
    world.join_nodes(&["a-3"], "a", None).await;
    world.ledger.get("a").counts(3, 0);
    world.check("a node more than expected", restarts).await;
    world.delete_node("a-3").await;
    world.ledger.get("a").counts(2, 0);
    world.check("it is gone again", restarts).await;
}

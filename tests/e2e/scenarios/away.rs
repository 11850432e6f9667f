//! What happened while the program was away, as far as the API still tells: nothing is lost,
//! nothing is made twice, nothing is invented.

use serde_json::Value;

use crate::ledger::Span;
use crate::objects::{self, NAMESPACE};
use crate::program::{End, Settings};
use crate::servers::api::JOBSETS;
use crate::servers::control_plane::Parts;
use crate::servers::now;
use crate::world::World;

/// A node pool changes while the program is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_pool_changes_meanwhile() {
    let mut world = World::start(Parts::NODES, None, &Settings::default()).await;
    let (first, up) = world.join_nodes(&["a-0", "a-1"], "a", None).await;
    let pool = world.ledger.add("a", objects::pool_entry("a", first));
    pool.up(up);
    pool.counts(2, 0);
    world.check("provisioned", &[]).await;

    for (end, two, other) in [(End::Kill, "a-1", "b-1"), (End::Terminate, "b-1", "c-1")] {
        let step = |what: &str| format!("{what}, while it was away after {end:?}");
        world.program.stop(end);
        world.next_second().await;
        let down = world.set_ready(two, false).await;
        world.program.run().await;
        let pool = world.ledger.get("a");
        pool.down(down);
        pool.counts(1, 0);
        world.check(&step("a node fell"), &[]).await;

        world.program.stop(end);
        world.next_second().await;
        let up = world.set_ready(two, true).await;
        world.program.run().await;
        let pool = world.ledger.get("a");
        pool.up(up);
        pool.counts(2, 0);
        world.check(&step("it came back"), &[]).await;

        // Both: one interruption and recovery at the one time that the API still knows.
        world.program.stop(end);
        world.next_second().await;
        world.set_ready("a-0", false).await;
        let up = world.set_ready("a-0", true).await;
        world.program.run().await;
        let pool = world.ledger.get("a");
        pool.down(up);
        pool.up(up);
        world.check(&step("a node fell and came back"), &[]).await;

        // The same name with another UID: gone when the new one was made, ready by its own time.
        world.program.stop(end);
        world.next_second().await;
        world.delete_node("a-0").await;
        let (made, up) = world.join_nodes(&["a-0"], "a", None).await;
        world.program.run().await;
        let pool = world.ledger.get("a");
        pool.down(made);
        pool.up(up);
        world.check(&step("a node was made anew"), &[]).await;

        // A node gone and another name come is a replacement, and no event.
        world.program.stop(end);
        world.next_second().await;
        world.delete_node(two).await;
        world.join_nodes(&[other], "a", None).await;
        world.program.run().await;
        world.check(&step("a node was replaced"), &[]).await;
    }
}

/// JobSets are made, completed and deleted while the program is away.
#[tokio::test(flavor = "multi_thread")]
async fn jobsets_come_and_go_meanwhile() {
    let mut world = World::start(Parts::ALL, None, &Settings::default()).await;
    let list = format!("{JOBSETS}/namespaces/{NAMESPACE}/jobsets");
    let names = ["stays", "ends", "goes"];
    for name in names {
        world.api().create(&list, &objects::jobset(name, 1)).await;
        let nodes = [format!("{name}-0"), format!("{name}-1")];
        let nodes = [nodes[0].as_str(), nodes[1].as_str()];
        let (first, up) = world.join_nodes(&nodes, name, Some(name)).await;
        let jobset = world.jobset_is(name, "runs", objects::jobset_up).await;
        world.account_for_jobset(name).await;
        let entry = objects::jobset_nodes_entry(&jobset);
        for entry in [
            ("nodes of ", entry),
            ("pool ", objects::pool_entry(name, first)),
        ] {
            let (kind, entry) = entry;
            let entry = world.ledger.add(&format!("{kind}{name}"), entry);
            entry.up(up);
            entry.counts(2, 0);
        }
    }
    world.check("three JobSets run", &[]).await;

    world.program.stop(End::Kill);
    let left = now();
    world.next_second().await;
    world.complete("ends").await;
    world.delete_jobset("goes").await;
    // It finds its place on the nodes of the one that is deleted.
    let made = world
        .api()
        .create(&list, &objects::jobset("comes", 1))
        .await;
    world.jobset_is("comes", "runs", objects::jobset_up).await;
    world.next_second().await;
    let begun = now();
    world.away = Some((left, begun));
    world.program.run().await;
    let ready = now();

    world.account_for_jobset("ends").await;
    world.ledger.get("nodes of ends").expected_down = true;
    world.ledger.remove("jobset goes");
    world.ledger.remove("nodes of goes");
    // No time of the API says since when a JobSet is ready: it is found.
    let seen = Span::between(begun, ready + 2.0);
    let mut entry = objects::jobset_entry(&world.jobsets().of("comes"), world.away);
    entry.found_at(seen);
    world.ledger.add("jobset comes", entry);
    // It has no nodes of its own, which is known since it was made.
    world
        .ledger
        .add("nodes of comes", objects::jobset_nodes_entry(&made));
    world.account_for_pods().await;
    world
        .check("one completed, one deleted, one made", &[End::Terminate])
        .await;

    let done = |jobset: &Value| jobset["status"]["terminalState"] == "Completed";
    world.jobset_is("ends", "stays complete", done).await;
}

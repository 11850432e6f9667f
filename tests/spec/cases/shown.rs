//! Seen, durable, shown: what a reader sees when.

use super::expected::gke_running;
use super::*;

#[test]
fn up_shows_at_once_and_counts_when_durable_and_nothing_goes_back() {
    let mut world = running();
    world.pass("1:00");
    let before = world.summary(NodePool, "p");
    assert_eq!(before.up_time, 60_000_000_000);
    world.node("1:10", node("a", "p", NotReady, "1:05"));
    assert!(!world.up(NodePool, "p"));
    world.pass("6:00");
    let waiting = world.summary(NodePool, "p");
    assert_eq!(waiting.interruptions, 0, "it is not durable");
    assert_eq!(
        waiting.up_time, 70_000_000_000,
        "the running stretch stands where it was seen"
    );
    assert_eq!(world.published.snapshot().history.pending, 1);
    assert_eq!(world.published.snapshot().history.oldest, Some(at("1:10")));
    world.commit();
    let after = world.summary(NodePool, "p");
    assert_eq!(
        (after.interruptions, after.up_time, after.down_time),
        (1, 65_000_000_000, 295_000_000_000)
    );
    assert!(after.up_time + after.down_time >= waiting.up_time + waiting.down_time);
    assert_eq!(world.published.snapshot().history.pending, 0);
}

#[test]
fn what_stands_still_never_falls_below_what_was_shown() {
    let mut world = running();
    world.pass("2:00");
    let shown = world.summary(NodePool, "p").up_time;
    assert_eq!(shown, 120_000_000_000);
    // Seen at 1:30 by the clock of a slow watch, after 2:00 was shown.
    let update = Update::Applied {
        object: node("a", "p", NotReady, "1:20"),
        resource_version: "2".into(),
        seen: at("1:30"),
    };
    world.see("2:00", Observation::Nodes(update));
    assert!(world.summary(NodePool, "p").up_time >= shown);
}

#[test]
fn changes_wait_one_commit_interval_for_others() {
    let mut world = running();
    world.heard("4:59");
    world.commit();
    world.node("5:00", node("a", "p", NotReady, "5:00"));
    assert_eq!(world.fleet.next_due(), Some(at("5:01")));
    world.commit();
    world.node("5:00.5", node("a", "p", Ready, "5:00"));
    assert_eq!(
        world.fleet.next_due(),
        Some(at("5:01.5")),
        "at most one a second"
    );
}

#[test]
fn a_watermark_is_written_each_minute_when_nothing_happens() {
    let mut world = running();
    world.heard("0:50");
    assert_eq!(world.fleet.next_due(), Some(at("1:00")));
    world.pass("1:00");
    let before = world.records.len();
    world.commit();
    assert_eq!(world.records.len(), before + 1);
    assert_eq!(world.state().newest(), Some(at("0:50")));
}

#[test]
fn a_change_that_waits_to_be_judged_holds_the_watermark_back() {
    let mut world = gke_running();
    world.node("1:01", node("a", "p", NotReady, "1:00"));
    world.commit();
    world.restart("5:00");
    world.jobsets("5:01", &[]);
    world.nodes(
        "5:01",
        &[node("a", "p", NotReady, "1:00"), two()[1].clone()],
    );
    world.pools("5:01", &[api_pool("p", "RUNNING", None)]);
    world.commit();
    world.pools("5:03", &[api_pool("p", "RUNNING", None)]);
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down 0:01:00"],
        "the API still shows it"
    );
}

//! Expected or not: who judges a down, and how long it waits.

use super::*;

pub(super) fn gke_running() -> World {
    let mut world = World::gke();
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &two());
    world.pools("0:00", &[api_pool("p", "RUNNING", None)]);
    world.commit();
    world
}

#[test]
fn a_pools_down_is_judged_by_the_first_status_got_after_it_was_seen() {
    for (status, event) in [
        ("RUNNING", "down 0:01:00"),
        ("STOPPING", "down (expected) 0:01:00"),
        ("", "down (expected) 0:01:00"),
    ] {
        let mut world = gke_running();
        world.node("1:01", node("a", "p", NotReady, "1:00"));
        assert_eq!(world.polls, 1, "the API is asked at once");
        world.commit();
        assert_eq!(
            world.events(NodePool, "p").len(),
            2,
            "it waits for the answer"
        );
        // Later changes of the object queue behind it.
        world.node("1:03", node("a", "p", Ready, "1:02"));
        world.commit();
        assert_eq!(world.events(NodePool, "p").len(), 2);
        let pools: Vec<_> = [api_pool("p", status, None)]
            .into_iter()
            .filter(|_| !status.is_empty())
            .collect();
        world.pools("1:04", &pools);
        world.commit();
        assert_eq!(world.events(NodePool, "p")[2], event, "{status}");
        if status == "RUNNING" {
            assert_eq!(world.events(NodePool, "p")[3..], ["up 0:01:02"]);
        }
    }
}

#[test]
fn an_answer_that_was_asked_for_before_the_down_judges_nothing() {
    let mut world = gke_running();
    world.node("1:01", node("a", "p", NotReady, "1:00"));
    world.commit();
    let update = Update::Listed {
        objects: vec![api_pool("p", "RUNNING", None)],
        undecodable: Vec::new(),
        resource_version: "".into(),
        began: at("1:00.5"),
        seen: at("1:01.5"),
    };
    world.see("1:01.5", Observation::NodePools(update));
    world.commit();
    assert_eq!(world.events(NodePool, "p").len(), 2);
    world.pools("1:02", &[api_pool("p", "STOPPING", None)]);
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down (expected) 0:01:00"]
    );
}

#[test]
fn without_an_answer_in_ten_seconds_what_is_known_decides() {
    let mut world = gke_running();
    world.node("1:01", node("a", "p", NotReady, "1:00"));
    world.commit();
    world.pass("1:10");
    world.commit();
    assert_eq!(world.events(NodePool, "p").len(), 2);
    assert_eq!(world.fleet.next_due(), Some(at("1:11")));
    world.pass("1:11");
    world.commit();
    assert_eq!(world.events(NodePool, "p")[2..], ["down 0:01:00"]);
}

#[test]
fn a_status_alone_takes_a_pool_down_as_expected() {
    let mut world = gke_running();
    world.pools("1:00", &[api_pool("p", "STOPPING", None)]);
    assert!(!world.up(NodePool, "p"));
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down (expected) 0:01:00"]
    );
    assert_eq!(world.summary(NodePool, "p").interruptions, 0);
}

#[test]
fn under_labels_alone_nothing_is_waited_for() {
    let mut world = running();
    world.node("1:01", node("a", "p", NotReady, "1:00"));
    world.commit();
    assert_eq!((world.polls, world.events(NodePool, "p").len()), (0, 3));
}

#[test]
fn a_store_that_is_away_changes_no_judgement() {
    let mut world = gke_running();
    world.heard("0:59");
    world.cut();
    world.node("1:00", node("a", "p", NotReady, "1:00"));
    world.pass("1:01");
    world.pools("1:02", &[api_pool("p", "RUNNING", None)]);
    world.pools("4:00", &[api_pool("p", "STOPPING", None)]);
    world.pass("6:00");
    world.durable();
    world.commit();
    assert_eq!(world.events(NodePool, "p")[2..], ["down 0:01:00"]);
}

#[test]
fn with_both_sources_a_listed_label_pool_asks_the_api_too() {
    let mut settings = settings(&[Source::JobSets, Source::Nodes, Source::NodePoolApi]);
    settings.observed.api_pools = true;
    let bare = |status: &str| megamon::model::NodePool {
        topology: None,
        ..api_pool("p", status, None)
    };
    let mut world = World::new(settings);
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &two());
    world.pools("0:00", &[bare("RUNNING")]);
    world.commit();
    let [a, b] = two();
    world.node_gone("1:00", a);
    world.node_gone("1:01", b);
    assert_eq!(world.polls, 1);
    world.pools("1:02", &[bare("STOPPING")]);
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down (expected) 0:01:00"]
    );
    // It ends when the API drops it.
    world.pools("2:00", &[]);
    world.commit();
    assert!(world.view(NodePool, "p").is_none());
    assert_eq!(world.summary_of_the_log(NodePool, "p").interruptions, 0);
}

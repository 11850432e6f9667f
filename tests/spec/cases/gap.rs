//! After a gap: a cut watch, a restart.

use super::*;

#[test]
fn deadlines_rest_while_the_watch_is_not_live() {
    // A node Unknown from 0:00, for 10 min, API away 2:00-5:00: up until the relist, then down at 3:00.
    for back in [None, Some("4:00")] {
        let mut world = running();
        world.node("10:00:01", node("a", "p", Unknown, "10:00:00"));
        world.heard("10:01:00");
        world.commit();
        world.failed("10:02:00");
        world.pass("10:04:59");
        assert!(world.up(NodePool, "p"), "nobody knows what happened");
        world.commit();
        let a = match back {
            None => node("a", "p", Unknown, "10:00:00"),
            Some(_) => node("a", "p", Ready, "10:04:00"),
        };
        world.nodes("10:05:00", &[a, node("b", "p", Ready, "-9:00:00")]);
        assert_eq!(world.up(NodePool, "p"), back.is_some());
        world.commit();
        let events = world.events(NodePool, "p")[2..].to_vec();
        match back {
            None => assert_eq!(events, ["down 10:03:00"]),
            Some(_) => assert_eq!(events, ["down 10:03:00", "up 10:04:00"]),
        }
    }
}

#[test]
fn a_watch_that_was_silent_for_long_is_not_live() {
    let mut world = running();
    world.node("1:01", node("a", "p", Unknown, "1:00"));
    world.commit();
    world.pass("4:30");
    assert!(world.up(NodePool, "p"), "last heard 209 s ago");
    world.heard("4:31");
    assert!(!world.up(NodePool, "p"));
    world.commit();
    assert_eq!(world.events(NodePool, "p")[2..], ["down 0:04:00"]);
}

#[test]
fn nodes_that_were_away_in_a_gap_are_one_interruption_of_no_length() {
    for restart in [false, true] {
        let mut world = running();
        world.failed("1:00");
        if restart {
            world.restart("10:00");
            world.jobsets("11:00", &[]);
        }
        world.nodes(
            "11:00",
            &[node("a", "p", Ready, "4:00"), node("b", "p", Ready, "6:00")],
        );
        world.commit();
        let events = world.events(NodePool, "p");
        assert_eq!(
            events[2..],
            ["down 0:06:00", "up 0:06:00"],
            "restart: {restart}"
        );
        let summary = world.summary(NodePool, "p");
        assert_eq!((summary.interruptions, summary.recoveries), (1, 1));
        assert_eq!(summary.down_between, Some(0), "no duration is invented");
    }
}

#[test]
fn a_node_that_was_away_interrupts_nothing_where_there_is_a_spare() {
    for restart in [false, true] {
        let mut world = World::labels();
        world.jobsets("0:00", &[]);
        let spare = node("c", "p", Ready, "-9:00:00");
        world.nodes("0:00", &[two().to_vec(), vec![spare.clone()]].concat());
        world.commit();
        if restart {
            world.restart("10:00");
            world.jobsets("11:00", &[]);
        }
        world.nodes(
            "11:00",
            &[
                node("a", "p", Ready, "4:00"),
                node("b", "p", Ready, "6:00"),
                spare,
            ],
        );
        world.commit();
        assert_eq!(world.events(NodePool, "p").len(), 2, "restart: {restart}");
    }
}

#[test]
fn a_node_that_was_not_ready_at_the_watermark_was_not_away() {
    let mut world = running();
    world.node("1:01", node("a", "p", NotReady, "1:00"));
    world.commit();
    world.restart("10:00");
    world.jobsets("11:00", &[]);
    world.nodes(
        "11:00",
        &[
            node("a", "p", Ready, "4:00"),
            node("b", "p", Ready, "-9:00:00"),
        ],
    );
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down 0:01:00", "up 0:04:00"]
    );
}

#[test]
fn the_same_name_with_another_uid_was_gone_when_the_new_one_was_made() {
    for restart in [false, true] {
        let mut world = running();
        world.failed("1:00");
        if restart {
            world.restart("10:00");
            world.jobsets("11:00", &[]);
        }
        let new = made("4:00", again("uid-new", node("a", "p", Ready, "6:00")));
        world.nodes("11:00", &[new, node("b", "p", Ready, "-9:00:00")]);
        world.commit();
        assert_eq!(
            world.events(NodePool, "p")[2..],
            ["down 0:04:00", "up 0:06:00"],
            "restart: {restart}"
        );
        // The log knows the nodes as they are now, and those that are gone.
        let nodes = world.state().nodes;
        assert_eq!((&*nodes["a"].uid, &*nodes["b"].uid), ("uid-new", "uid-b"));
        world.restart("12:00");
        world.jobsets("12:00", &[]);
        world.nodes("12:00", &[node("b", "p", Ready, "-9:00:00")]);
        world.commit();
        assert_eq!(world.state().nodes.len(), 1);
    }
}

#[test]
fn another_name_in_place_of_one_that_is_gone_is_a_replacement_and_no_event() {
    for restart in [false, true] {
        let mut world = running();
        world.failed("1:00");
        if restart {
            world.restart("10:00");
            world.jobsets("11:00", &[]);
        }
        let new = made("4:00", node("c", "p", Ready, "6:00"));
        world.nodes("11:00", &[new, node("b", "p", Ready, "-9:00:00")]);
        world.commit();
        assert_eq!(world.events(NodePool, "p").len(), 2, "restart: {restart}");
    }
}

#[test]
fn what_has_no_time_of_its_own_keeps_both_bounds() {
    for restart in [false, true] {
        let mut world = running();
        world.heard("0:50");
        world.commit();
        world.failed("1:00");
        if restart {
            world.restart("10:00");
            world.jobsets("11:00", &[]);
        }
        world.nodes("11:00", &[node("b", "p", Ready, "-9:00:00")]);
        world.commit();
        let events = world.events(NodePool, "p");
        assert_eq!(
            events[2..],
            ["down 0:11:00 [0:00:50 - 0:11:00]"],
            "restart: {restart}"
        );
    }
}

#[test]
fn ten_minutes_away() {
    let mut world = World::labels();
    let done = |j: megamon::model::JobSet| megamon::model::JobSet {
        completed: Some(at("7:00")),
        ..j
    };
    world.jobsets(
        "0:00",
        &[
            jobset("deleted", "-1:00:00", 2),
            jobset("done", "-1:00:00", 2),
        ],
    );
    world.nodes("0:00", &two());
    world.commit();
    world.restart("10:00");
    world.jobsets(
        "10:01",
        &[
            jobset("made", "5:00", 2),
            done(jobset("done", "-1:00:00", 2)),
        ],
    );
    world.nodes("10:01", &[node("a", "p", Ready, "4:00"), two()[1].clone()]);
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down 0:04:00", "up 0:04:00"]
    );
    assert_eq!(
        world.events(JobSet, "uid-made"),
        ["down 0:10:01", "up 0:10:01"]
    );
    assert!(world.view(JobSet, "uid-made").unwrap().found);
    assert!(world.view(JobSet, "uid-deleted").is_none());
    assert_eq!(
        world.ended(JobSet, "uid-deleted").as_deref(),
        Some("0:10:01")
    );
    assert_eq!(
        world.events(JobSet, "uid-done")[2..],
        ["down (expected) 0:07:00"]
    );
}

#[test]
fn a_relist_is_a_transaction_and_a_missed_deletion_is_found_by_it() {
    let mut world = running();
    world.jobset("0:10", jobset("j", "0:08", 0));
    world.commit();
    world.failed("1:00");
    world.jobsets("2:00", &[]);
    world.commit();
    assert!(world.view(JobSet, "uid-j").is_none());
    assert_eq!(world.ended(JobSet, "uid-j").as_deref(), Some("0:02:00"));
}

#[test]
fn an_object_that_could_not_be_read_is_not_gone() {
    let mut world = running();
    let update = Update::Listed {
        objects: vec![two()[0].clone()],
        undecodable: vec![Undecodable {
            namespace: "".into(),
            name: "b".into(),
        }],
        resource_version: "2".into(),
        began: at("1:00"),
        seen: at("1:00"),
    };
    world.see("1:00", Observation::Nodes(update));
    assert!(world.up(NodePool, "p"), "its last good state stays");
}

#[test]
fn a_failed_source_changes_nothing_but_its_age() {
    let mut world = running();
    world.failed("1:00");
    world.pass("30:00");
    assert!(world.up(NodePool, "p"));
    let snapshot = world.published.snapshot();
    let nodes = snapshot
        .sources
        .iter()
        .find(|s| s.source == Source::Nodes)
        .unwrap();
    assert_eq!(
        (nodes.heard, nodes.error.as_deref()),
        (Some(at("0:00")), Some("connection refused"))
    );
}

#[test]
fn a_node_that_went_unknown_while_nobody_watched_counts_as_unknown_until_its_deadline() {
    for restart in [false, true] {
        let mut world = running();
        world.failed("0:50");
        if restart {
            world.restart("9:00");
            world.jobsets("10:00", &[]);
        }
        world.nodes(
            "10:00",
            &[node("a", "p", Unknown, "1:00"), two()[1].clone()],
        );
        world.commit();
        assert_eq!(
            world.events(NodePool, "p")[2..],
            ["down 0:04:00"],
            "restart: {restart}"
        );
    }
}

#[test]
fn a_pool_whose_nodes_were_all_replaced_goes_on() {
    let gpu = |name: &str, created: &str| megamon::model::Node {
        topology: None,
        accelerator_count: None,
        ..made(created, node(name, "g", Ready, created))
    };
    for restart in [false, true] {
        let mut world = World::labels();
        world.jobsets("0:00", &[]);
        world.nodes("0:00", &[gpu("x", "-1:00")]);
        world.commit();
        world.failed("1:00");
        if restart {
            world.restart("4:00");
            world.jobsets("5:00", &[]);
        }
        world.nodes("5:00", &[gpu("y", "3:00")]);
        world.commit();
        assert_eq!(world.events(NodePool, "g").len(), 2, "restart: {restart}");
        assert_eq!(world.ended(NodePool, "g"), None);
    }
}

#[test]
fn an_object_that_could_not_be_read_after_a_restart_is_taken_up_when_it_can() {
    let mut world = World::labels();
    empty_watches(&mut world);
    for (when, ready) in [("0:10", 0), ("1:00", 2), ("2:00", 0), ("3:00", 2)] {
        world.jobset(when, jobset("j", "0:08", ready));
    }
    world.commit();
    world.restart("4:00");
    let update = Update::Listed {
        objects: Vec::new(),
        undecodable: vec![Undecodable {
            namespace: "default".into(),
            name: "j".into(),
        }],
        resource_version: "2".into(),
        began: at("4:00"),
        seen: at("4:00"),
    };
    world.see("4:00", Observation::JobSets(update));
    world.nodes("4:00", &[]);
    world.commit();
    assert_eq!(world.ended(JobSet, "uid-j"), None);
    world.jobset("5:00", jobset("j", "0:08", 2));
    world.commit();
    assert_eq!(world.summary(JobSet, "uid-j").interruptions, 1);
}

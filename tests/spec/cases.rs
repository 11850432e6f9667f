//! The contract of the history, case by case: first sight, times, expected or not, after a gap,
//! seen/durable/shown, lives.

use megamon::model::Family::{JobSet, JobSetNodes, NodePool};
use megamon::model::Readiness::{NotReady, Ready, Unknown};
use megamon::model::{Observation, Operation, Source, Undecodable, Update};

use crate::world::*;

/// Two nodes of pool `p` (expected 2 by topology and accelerator count), Ready since long ago.
fn two() -> [megamon::model::Node; 2] {
    [
        node("a", "p", Ready, "-9:00:00"),
        node("b", "p", Ready, "-9:00:00"),
    ]
}

fn empty_watches(world: &mut World) {
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &[]);
}

fn running() -> World {
    let mut world = World::labels();
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &two());
    world.commit();
    world
}

// ---- First sight -----------------------------------------------------------------------------

#[test]
fn first_install_finds_everything_and_invents_no_past() {
    let mut world = World::labels();
    let mut nodes = Vec::new();
    for pool in 0..50 {
        let name = format!("pool-{pool:02}");
        nodes.push(node(&format!("{name}-a"), &name, Ready, "-9:00:00"));
        if pool < 47 {
            nodes.push(node(&format!("{name}-b"), &name, Ready, "-9:00:00"));
        }
    }
    let suspended = megamon::model::JobSet {
        suspended: Some(at("-1:00:00")),
        ..jobset("s", "-2:00:00", 0)
    };
    world.jobsets("0:05", &[suspended]);
    world.nodes("0:06", &nodes);
    world.commit();
    world.pass("0:16");
    for pool in 0..50 {
        let name = format!("pool-{pool:02}");
        let up = pool < 47;
        let events = if up {
            vec!["down 0:00:06", "up 0:00:06"]
        } else {
            vec!["down 0:00:06"]
        };
        assert_eq!(world.events(NodePool, &name), events, "{name}");
        assert_eq!(world.up(NodePool, &name), up);
        assert_eq!(
            world.provisioning(&name),
            "",
            "{name} has no provisioning series"
        );
        let summary = world.summary(NodePool, &name);
        assert_eq!(summary.down_initial, None);
        assert_eq!((summary.interruptions, summary.recoveries), (0, 0));
        let (running, still) = if up {
            ("up", summary.up_time)
        } else {
            ("down", summary.down_time)
        };
        assert_eq!(
            still, 10_000_000_000,
            "{name} is {running} from the instant seen"
        );
    }
    assert_eq!(world.events(JobSet, "uid-s"), ["down 0:00:05"]);
    assert!(world.view(JobSet, "uid-s").unwrap().found);
}

#[test]
fn a_known_object_that_is_down_is_down_from_its_start() {
    let mut world = World::labels();
    empty_watches(&mut world);
    world.jobset("0:10", jobset("j", "0:08", 0));
    world.commit();
    assert_eq!(world.events(JobSet, "uid-j"), ["down 0:00:08"]);
    assert_eq!(world.events(JobSetNodes, "uid-j"), ["down 0:00:08"]);
    world.jobset("1:00", jobset("j", "0:08", 2));
    world.commit();
    assert_eq!(
        world.events(JobSet, "uid-j"),
        ["down 0:00:08", "up 0:01:00"]
    );
    assert_eq!(
        world.summary(JobSet, "uid-j").down_initial,
        Some(52_000_000_000)
    );
}

#[test]
fn a_known_object_that_is_up_is_found_unless_times_say_since_when() {
    let mut world = World::labels();
    empty_watches(&mut world);
    // Its nodes say since when they are up, its own ready counts do not.
    world.node(
        "0:20",
        made("0:09", for_jobset("j", node("a", "", Ready, "0:15"))),
    );
    world.node(
        "0:20",
        made("0:09", for_jobset("j", node("b", "", Ready, "0:18"))),
    );
    world.jobset("0:30", jobset("j", "0:08", 2));
    world.commit();
    assert_eq!(
        world.events(JobSet, "uid-j"),
        ["down 0:00:30", "up 0:00:30"]
    );
    assert_eq!(
        world.events(JobSetNodes, "uid-j"),
        ["down 0:00:08", "up 0:00:18"]
    );
    assert!(world.view(JobSet, "uid-j").unwrap().found);
    assert!(!world.view(JobSetNodes, "uid-j").unwrap().found);
    assert_eq!(world.summary(JobSet, "uid-j").down_initial, None);
}

#[test]
fn a_start_is_known_from_the_second_of_the_first_watch_on() {
    for (created, events) in [
        ("-0:01", "down 0:00:05"),
        ("0:00", "down 0:00:00"),
        ("0:01", "down 0:00:01"),
    ] {
        let mut world = World::labels();
        let update = Update::Listed {
            objects: vec![jobset("j", created, 0)],
            undecodable: Vec::new(),
            resource_version: "1".into(),
            began: at("0:00.4"),
            seen: at("0:05"),
        };
        world.see("0:05", Observation::JobSets(update));
        world.nodes("0:05", &[]);
        world.commit();
        assert_eq!(world.events(JobSet, "uid-j"), [events], "created {created}");
    }
}

#[test]
fn the_start_of_an_api_pool_is_its_operation_then_its_oldest_node_then_the_instant_seen() {
    for (operation, with_node, status, events) in [
        (Some("0:30"), true, "RUNNING", "down 0:00:30"),
        (None, true, "RUNNING", "down 0:00:40"),
        (None, false, "RUNNING", "down 0:01:00"),
        // In PROVISIONING it is known even when it began before the first watch.
        (Some("-0:30"), false, "PROVISIONING", "down -0:00:30"),
        (Some("-0:30"), false, "RUNNING", "down 0:01:00"),
    ] {
        let mut world = World::gke();
        world.jobsets("0:00", &[]);
        world.nodes("0:00", &[]);
        world.pools("0:00", &[]);
        if with_node {
            world.node("0:50", made("0:40", node("a", "p", NotReady, "0:45")));
        }
        world.pools("1:00", &[api_pool("p", status, operation)]);
        world.commit();
        assert_eq!(
            world.events(NodePool, "p"),
            [events],
            "{operation:?} {with_node} {status}"
        );
    }
}

#[test]
fn a_family_waits_for_its_sources_and_compares_all_as_one_list() {
    let mut world = World::gke();
    world.nodes("0:00", &two());
    world.jobsets("0:00", &[]);
    world.node("0:10", node("a", "p", NotReady, "0:10"));
    world.node("0:20", node("a", "p", Ready, "0:20"));
    assert!(
        world.view(NodePool, "p").is_none(),
        "its API has not been heard"
    );
    world.commit();
    assert!(
        world
            .records
            .iter()
            .all(|record| !format!("{record:?}").contains("NodePool"))
    );
    world.pools("0:30", &[api_pool("p", "RUNNING", None)]);
    world.commit();
    assert_eq!(world.events(NodePool, "p"), ["down 0:00:30", "up 0:00:30"]);
}

// ---- Times -----------------------------------------------------------------------------------

#[test]
fn a_pool_changes_at_its_nodes_own_times() {
    let mut world = running();
    world.node("1:02", node("a", "p", NotReady, "1:00"));
    assert!(!world.up(NodePool, "p"));
    world.commit();
    world.node("5:03", node("a", "p", Ready, "5:00"));
    world.commit();
    assert_eq!(
        world.events(NodePool, "p"),
        ["down 0:00:00", "up 0:00:00", "down 0:01:00", "up 0:05:00"]
    );
    let summary = world.summary(NodePool, "p");
    assert_eq!((summary.interruptions, summary.recoveries), (1, 1));
    assert_eq!(summary.down_between, Some(240_000_000_000));
}

#[test]
fn a_deletion_counts_when_it_is_seen_and_a_node_that_comes_at_its_ready_time() {
    let mut world = running();
    world.node_gone("1:00.5", node("b", "p", Ready, "-9:00:00"));
    world.commit();
    world.node(
        "4:00",
        made("3:00", again("uid-c", node("c", "p", Ready, "3:50"))),
    );
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down 0:01:00.500", "up 0:03:50"]
    );
}

#[test]
fn up_dates_from_the_last_instant_from_which_it_held() {
    // Three of which two are expected: the second to come counts, unless it flapped.
    let mut world = World::labels();
    empty_watches(&mut world);
    world.node("1:00", made("0:10", node("a", "p", Ready, "1:00")));
    world.node("1:10", made("0:20", node("b", "p", Ready, "1:10")));
    world.node("1:20", made("0:20", node("b", "p", NotReady, "1:20")));
    world.node("1:30", made("0:20", node("b", "p", Ready, "1:30")));
    world.commit();
    assert_eq!(
        world.events(NodePool, "p"),
        ["down 0:00:10", "up 0:01:10", "down 0:01:20", "up 0:01:30"]
    );
    assert_eq!(world.provisioning("p"), "success 0:01:00");
}

#[test]
fn an_unknown_node_counts_as_unknown_for_three_minutes_and_then_as_not_ready() {
    let mut world = running();
    world.node("1:01", node("a", "p", Unknown, "1:00"));
    world.commit();
    assert!(
        world.up(NodePool, "p"),
        "unknown counts towards up at threshold 1"
    );
    for heard in ["2:00", "3:00", "3:59"] {
        world.heard(heard);
    }
    assert!(world.up(NodePool, "p"));
    world.commit();
    assert_eq!(
        world.fleet.next_due(),
        Some(at("4:00")),
        "it is kept, not polled for"
    );
    world.pass("4:00");
    assert!(!world.up(NodePool, "p"));
    world.commit();
    world.node("9:00", node("a", "p", Ready, "8:58"));
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down 0:04:00", "up 0:08:58"]
    );
}

#[test]
fn a_node_without_the_condition_is_unknown_from_its_creation_and_has_no_deadline() {
    let mut world = World::labels();
    empty_watches(&mut world);
    let bare = |name: &str| megamon::model::Node {
        since: None,
        ..made("0:30", node(name, "p", Unknown, "0:00"))
    };
    world.node("0:40", bare("a"));
    world.node("0:41", bare("b"));
    world.commit();
    assert_eq!(world.events(NodePool, "p"), ["down 0:00:30", "up 0:00:30"]);
    world.heard("59:59");
    world.pass("1:00:00");
    assert!(world.up(NodePool, "p"));
}

#[test]
fn no_event_is_dated_before_the_one_before_it_or_after_now() {
    let mut world = running();
    world.node("1:02", node("a", "p", NotReady, "1:00"));
    world.commit();
    // The clock of the API is behind: ready again "before" it was lost.
    world.node("2:00", node("a", "p", Ready, "0:30"));
    world.commit();
    // And ahead.
    world.node("3:00", node("a", "p", NotReady, "9:00"));
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[2..],
        ["down 0:01:00", "up 0:01:00", "down 0:03:00"]
    );
}

#[test]
fn the_threshold_of_unknown() {
    let mut settings = settings(&[Source::JobSets, Source::Nodes]);
    settings.unknown_threshold = 0.5;
    let mut world = World::new(settings);
    let name = |i: i32| format!("n{i}");
    let eight: Vec<_> = (0..8)
        .map(|i| megamon::model::Node {
            topology: Some("4x8".into()),
            ..node(&name(i), "p", Ready, "-9:00:00")
        })
        .collect();
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &eight);
    world.commit();
    for (i, node) in eight.iter().take(5).enumerate() {
        let since = format!("1:0{i}");
        let gone = megamon::model::Node {
            readiness: Unknown,
            since: Some(at(&since)),
            ..node.clone()
        };
        world.node("1:10", gone);
        assert_eq!(world.up(NodePool, "p"), i < 4, "{i} unknown");
    }
    world.commit();
    assert_eq!(world.events(NodePool, "p")[2..], ["down 0:01:04"]);
}

#[test]
fn a_jobsets_conditions_date_the_down_they_make() {
    type Set = fn(&mut megamon::model::JobSet);
    let cases: [(&str, Set, &str); 3] = [
        (
            "completed",
            |j| j.completed = Some(at("4:59")),
            "down (expected) 0:04:59",
        ),
        (
            "failed",
            |j| (j.failed, j.ready) = (Some(at("4:58")), 0),
            "down 0:04:58",
        ),
        (
            "suspended",
            |j| (j.suspended, j.ready) = (Some(at("4:57")), 0),
            "down 0:04:57",
        ),
    ];
    for (what, set, event) in cases {
        let mut world = World::labels();
        empty_watches(&mut world);
        world.jobset("0:10", jobset("j", "0:08", 0));
        world.jobset("1:00", jobset("j", "0:08", 2));
        let mut ended = jobset("j", "0:08", 2);
        set(&mut ended);
        world.jobset("5:00", ended);
        world.commit();
        assert_eq!(
            world.events(JobSet, "uid-j"),
            ["down 0:00:08", "up 0:01:00", event],
            "{what}"
        );
    }
}

#[test]
fn ready_counts_change_when_they_are_seen() {
    let mut world = World::labels();
    empty_watches(&mut world);
    for (when, ready) in [("0:10", 0), ("1:00.25", 2), ("2:00.5", 1), ("3:00.75", 2)] {
        world.jobset(when, jobset("j", "0:08", ready));
    }
    world.commit();
    assert_eq!(
        world.events(JobSet, "uid-j"),
        [
            "down 0:00:08",
            "up 0:01:00.250",
            "down 0:02:00.500",
            "up 0:03:00.750"
        ]
    );
}

// ---- Expected or not -------------------------------------------------------------------------

fn gke_running() -> World {
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

// ---- After a gap -----------------------------------------------------------------------------

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
        assert_eq!((&*nodes["a"], &*nodes["b"]), ("uid-new", "uid-b"));
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

// ---- Seen, durable, shown --------------------------------------------------------------------

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

// ---- Lives -----------------------------------------------------------------------------------

#[test]
fn a_gke_pool_from_its_creation_to_its_end() {
    let mut world = World::gke();
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &[]);
    world.pools("0:00", &[]);
    world.pools("1:00", &[api_pool("p", "PROVISIONING", Some("0:40"))]);
    world.commit();
    world.pass("1:40");
    assert_eq!(world.provisioning("p"), "provisioning 0:01:00");
    world.node("3:00", made("2:50", node("a", "p", Ready, "3:00")));
    world.node("3:20", made("2:50", node("b", "p", Ready, "3:20")));
    world.node("3:30", made("2:50", node("b", "p", NotReady, "3:30")));
    world.node("3:40", made("2:50", node("b", "p", Ready, "3:40")));
    world.pools("4:00", &[api_pool("p", "RUNNING", Some("0:40"))]);
    world.commit();
    assert_eq!(
        world.events(NodePool, "p"),
        ["down 0:00:40", "up 0:03:20", "down 0:03:30", "up 0:03:40"]
    );
    assert_eq!(world.provisioning("p"), "success 0:02:40");
    // Deleted, nodes first.
    world.node_gone("10:00", made("2:50", node("a", "p", Ready, "3:00")));
    world.pools("10:01", &[api_pool("p", "STOPPING", Some("0:40"))]);
    world.commit();
    world.node_gone("10:02", made("2:50", node("b", "p", Ready, "3:40")));
    world.pools("11:00", &[]);
    world.commit();
    assert_eq!(
        world.events(NodePool, "p")[4..],
        ["down (expected) 0:10:00"]
    );
    assert_eq!(world.ended(NodePool, "p").as_deref(), Some("0:11:00"));
    assert!(world.view(NodePool, "p").is_none());
}

#[test]
fn a_provisioning_fails_at_its_operations_end_and_stays_shown_for_an_hour() {
    for restart in [false, true] {
        let mut world = World::gke();
        world.jobsets("0:00", &[]);
        world.nodes("0:00", &[]);
        world.pools("0:00", &[]);
        let mut pool = api_pool("p", "ERROR", Some("0:40"));
        pool.operation = Some(Operation {
            start: at("0:40"),
            failed: Some(at("2:40")),
        });
        world.pools("3:00", &[pool.clone()]);
        world.commit();
        world.pass("4:00");
        assert_eq!(world.provisioning("p"), "failed 0:02:00");
        world.pools("5:00", &[]);
        world.commit();
        let shown = |world: &World| world.view(NodePool, "p").unwrap();
        assert!(shown(&world).only_provisioning);
        assert_eq!(world.provisioning("p"), "failed 0:02:00");
        if restart {
            world.restart("6:00");
            world.jobsets("6:00", &[]);
            world.nodes("6:00", &[]);
            world.pools("6:00", &[]);
        }
        world.pass("1:04:59");
        assert_eq!(
            world.provisioning("p"),
            "failed 0:02:00",
            "restart: {restart}"
        );
        world.pass("1:05:00");
        assert!(world.view(NodePool, "p").is_none());
    }
}

#[test]
fn a_provisioning_fails_when_the_pool_errs_stops_or_is_deleted_before_it_was_ever_up() {
    for (status, failed) in [
        ("ERROR", "0:01:20"),
        ("STOPPING", "0:01:20"),
        ("", "0:01:20"),
    ] {
        let mut world = World::gke();
        world.jobsets("0:00", &[]);
        world.nodes("0:00", &[]);
        world.pools("0:00", &[]);
        world.pools("1:00", &[api_pool("p", "PROVISIONING", Some("0:40"))]);
        world.commit();
        let pools: Vec<_> = [api_pool("p", status, Some("0:40"))]
            .into_iter()
            .filter(|_| !status.is_empty())
            .collect();
        world.pools("2:00", &pools);
        world.commit();
        assert_eq!(
            world.provisioning("p"),
            format!("failed {failed}"),
            "{status}"
        );
    }
    // A first up makes it a success after all.
    let mut world = World::gke();
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &[]);
    world.pools("0:00", &[api_pool("p", "PROVISIONING", Some("-0:40"))]);
    world.pools("1:00", &[api_pool("p", "ERROR", Some("-0:40"))]);
    world.node("2:00", made("1:00", node("a", "p", Ready, "2:00")));
    world.node("2:00", made("1:00", node("b", "p", Ready, "2:00")));
    world.commit();
    assert_eq!(world.provisioning("p"), "success 0:02:40");
}

#[test]
fn a_failed_pool_is_shown_until_its_name_is_seen_again() {
    let mut world = World::gke();
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &[]);
    world.pools("0:00", &[]);
    world.pools("1:00", &[api_pool("p", "PROVISIONING", Some("0:40"))]);
    world.pools("2:00", &[]);
    world.commit();
    assert_eq!(world.provisioning("p"), "failed 0:01:20");
    world.pools("3:00", &[api_pool("p", "PROVISIONING", Some("2:50"))]);
    world.commit();
    assert_eq!(world.provisioning("p"), "provisioning 0:00:10");
    assert_eq!(
        world.published.snapshot().objects(NodePool).count(),
        1,
        "exactly one state"
    );
}

#[test]
fn a_label_pool_that_loses_all_its_nodes() {
    // Preempted whole, back after 20 min: interruption and recovery; after 90 min: closed, a new life.
    for (back, restart) in [
        ("21:00", false),
        ("21:00", true),
        ("1:31:00", false),
        ("1:31:00", true),
    ] {
        let mut world = running();
        let [a, b] = two();
        world.node_gone("1:00", a);
        world.node_gone("1:05", b);
        world.commit();
        assert!(!world.up(NodePool, "p"));
        assert_eq!(
            world
                .view(NodePool, "p")
                .unwrap()
                .availability
                .counts
                .expected,
            2
        );
        if restart {
            world.restart("10:00");
            world.jobsets("10:00", &[]);
            world.nodes("10:00", &[]);
            world.commit();
            assert!(!world.up(NodePool, "p"));
        }
        world.heard("20:59");
        if back == "1:31:00" {
            world.pass("1:01:04");
            assert!(world.view(NodePool, "p").is_some());
            world.pass("1:01:05");
            world.commit();
            assert!(world.view(NodePool, "p").is_none());
            assert_eq!(world.ended(NodePool, "p").as_deref(), Some("0:01:05"));
        }
        let made_at = if back == "21:00" { "20:00" } else { "1:30:00" };
        world.node(
            back,
            made(made_at, again("x", node("c", "p", Ready, made_at))),
        );
        world.node(
            back,
            made(made_at, again("y", node("d", "p", Ready, made_at))),
        );
        world.commit();
        let events = world.events(NodePool, "p");
        assert_eq!(events[..3], ["down 0:00:00", "up 0:00:00", "down 0:01:00"]);
        let summary = world.summary(NodePool, "p");
        if back == "21:00" {
            assert_eq!(events[3..], ["up 0:20:00"]);
            assert_eq!(
                (summary.interruptions, summary.recoveries),
                (1, 1),
                "restart: {restart}"
            );
        } else {
            assert_eq!(events[3..], ["down 1:30:00", "up 1:30:00"]);
            assert_eq!(
                (summary.interruptions, summary.recoveries),
                (0, 0),
                "restart: {restart}"
            );
        }
    }
}

#[test]
fn a_label_pool_without_a_topology_closes_with_its_last_node_and_shrinks_without_an_event() {
    let mut world = World::labels();
    let gpu = |name: &str| megamon::model::Node {
        topology: None,
        accelerator: None,
        accelerator_count: None,
        ..node(name, "g", Ready, "-9:00:00")
    };
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &[gpu("a"), gpu("b")]);
    world.commit();
    assert_eq!(
        world
            .view(NodePool, "g")
            .unwrap()
            .availability
            .counts
            .expected,
        2
    );
    world.node_gone("1:00", gpu("a"));
    world.commit();
    assert!(world.up(NodePool, "g"));
    assert_eq!(
        world.events(NodePool, "g").len(),
        2,
        "a scale-down is no interruption"
    );
    world.node_gone("2:00", gpu("b"));
    world.commit();
    assert!(world.view(NodePool, "g").is_none());
    assert_eq!(world.ended(NodePool, "g").as_deref(), Some("0:02:00"));
}

#[test]
fn a_jobset_that_completes_and_is_deleted_by_its_ttl() {
    let mut world = World::labels();
    empty_watches(&mut world);
    world.node("0:05", for_jobset("j", node("a", "", Ready, "0:01")));
    world.node("0:05", for_jobset("j", node("b", "", Ready, "0:01")));
    world.jobset("0:10", jobset("j", "0:08", 0));
    world.jobset("1:00", jobset("j", "0:08", 2));
    let done = megamon::model::JobSet {
        completed: Some(at("2:00")),
        ..jobset("j", "0:08", 2)
    };
    world.jobset("2:01", done.clone());
    world.commit();
    assert_eq!(
        world.events(JobSet, "uid-j")[2..],
        ["down (expected) 0:02:00"]
    );
    assert!(
        world
            .view(JobSet, "uid-j")
            .unwrap()
            .availability
            .expected_down
    );
    assert!(
        world
            .view(JobSetNodes, "uid-j")
            .unwrap()
            .conditions
            .completed
    );
    assert!(world.up(JobSetNodes, "uid-j"));
    world.jobset_gone("5:00", done);
    world.commit();
    assert!(world.view(JobSet, "uid-j").is_none() && world.view(JobSetNodes, "uid-j").is_none());
    assert_eq!(world.ended(JobSet, "uid-j").as_deref(), Some("0:05:00"));
}

#[test]
fn a_name_that_is_made_again_is_a_new_life_from_zero() {
    let mut world = World::labels();
    empty_watches(&mut world);
    for (when, ready) in [("0:10", 0), ("1:00", 2), ("2:00", 0), ("3:00", 2)] {
        world.jobset(when, jobset("j", "0:08", ready));
    }
    world.commit();
    assert_eq!(world.summary(JobSet, "uid-j").interruptions, 1);
    let again = megamon::model::JobSet {
        uid: "uid-2".into(),
        ..jobset("j", "4:00", 0)
    };
    world.jobset("4:01", again);
    world.commit();
    assert!(world.view(JobSet, "uid-j").is_none());
    assert_eq!(world.ended(JobSet, "uid-j").as_deref(), Some("0:04:01"));
    assert_eq!(world.summary(JobSet, "uid-2").interruptions, 0);
}

#[test]
fn with_both_sources_a_pool_without_a_topology_in_the_api_follows_its_labels() {
    let mut settings = settings(&[Source::JobSets, Source::Nodes, Source::NodePoolApi]);
    settings.observed.api_pools = true;
    let mut world = World::new(settings);
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &two());
    let bare = megamon::model::NodePool {
        topology: None,
        ..api_pool("p", "RUNNING", None)
    };
    let slow = megamon::model::NodePool {
        accelerator: None,
        ..api_pool("q", "PROVISIONING", Some("-1:00"))
    };
    world.pools("0:00", &[bare, slow]);
    world.commit();
    assert!(world.up(NodePool, "p"));
    assert_eq!(world.events(NodePool, "q"), ["down -0:01:00"]);
    world.node("1:00", made("0:30", node("c", "q", Ready, "1:00")));
    world.node("1:00", made("0:30", node("d", "q", Ready, "1:00")));
    assert!(world.up(NodePool, "q"));
    let q = world.view(NodePool, "q").unwrap();
    assert_eq!(
        &*q.attributes.tpu_accelerator, "tpu-v5-lite-podslice",
        "labels fill gaps"
    );
}

#[test]
fn the_sealed_state_survives_a_restart_at_every_step() {
    // The same story, with a restart after each step: the same events.
    let story: [(&str, megamon::model::Node); 5] = [
        ("1:00", node("a", "p", NotReady, "1:00")),
        ("2:00", node("a", "p", Ready, "2:00")),
        ("3:00", node("b", "p", Unknown, "3:00")),
        ("7:00", node("b", "p", Ready, "7:00")),
        ("8:00", node("a", "p", NotReady, "8:00")),
    ];
    let told = |restart_at: Option<usize>| {
        let mut world = running();
        let mut nodes = two();
        for (step, (when, changed)) in story.iter().enumerate() {
            let place = usize::from(&*changed.name == "b");
            nodes[place] = changed.clone();
            world.node(when, changed.clone());
            world.commit();
            if restart_at == Some(step) {
                world.restart(when);
                world.jobsets(when, &[]);
                world.nodes(when, &nodes);
                world.commit();
            }
            if step == 2 {
                world.heard("5:59");
                world.pass("6:00");
                world.commit();
            }
        }
        world.events(NodePool, "p")
    };
    let whole = told(None);
    assert_eq!(
        whole[2..],
        [
            "down 0:01:00",
            "up 0:02:00",
            "down 0:06:00",
            "up 0:07:00",
            "down 0:08:00"
        ]
    );
    for step in 0..story.len() {
        assert_eq!(told(Some(step)), whole, "restart after step {step}");
    }
}

//! Times: which instant an event bears.

use super::*;

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

#[test]
fn what_is_sealed_is_what_is_observed_whatever_the_times_say() {
    // Ready and failed within one second of the API's clock, which knows no fractions.
    let mut world = World::labels();
    empty_watches(&mut world);
    world.jobset("1:00", jobset("j", "0:30", 0));
    world.commit();
    world.jobset("5:00.2", jobset("j", "0:30", 2));
    let failed = megamon::model::JobSet {
        failed: Some(at("5:00")),
        ..jobset("j", "0:30", 0)
    };
    world.jobset("5:00.9", failed);
    world.commit();
    assert!(!world.up(JobSet, "uid-j"));
    let events = world.events(JobSet, "uid-j");
    assert!(events.last().unwrap().starts_with("down"), "{events:?}");
    assert_eq!(world.summary(JobSet, "uid-j").interruptions, 1);
}

#[test]
fn a_clock_that_steps_back_holds_nothing_up() {
    let mut world = running();
    world.heard("9:59");
    world.pass("10:00");
    world.commit();
    // Five minutes back: what is seen from now on is due a second later by the clock as it is.
    world.now = at("5:00");
    let update = Update::Applied {
        object: node("a", "p", NotReady, "5:00"),
        resource_version: "2".into(),
        seen: at("5:00"),
    };
    world.fleet.observe(Observation::Nodes(update), at("5:00"));
    assert_eq!(world.fleet.commit_due(), Some(at("5:01")));
}

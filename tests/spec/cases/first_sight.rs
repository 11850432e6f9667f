//! First sight: what is known of an object that was not there before.

use super::*;

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

#[test]
fn a_pool_that_is_new_in_a_relist_counts_each_node_once() {
    let mut world = World::labels();
    empty_watches(&mut world);
    world.failed("1:00");
    let of = |name, readiness, since| megamon::model::Node {
        topology: Some("3x4".into()),
        ..made("2:00", node(name, "q", readiness, since))
    };
    let listed = [
        of("a", Ready, "3:00"),
        of("b", Ready, "3:10"),
        of("c", NotReady, "2:00"),
    ];
    world.nodes("5:00", &listed);
    world.commit();
    assert_eq!(world.events(NodePool, "q"), ["down 0:02:00"]);
    world.node("6:00", of("c", Ready, "6:00"));
    world.commit();
    assert_eq!(world.events(NodePool, "q"), ["down 0:02:00", "up 0:06:00"]);
}

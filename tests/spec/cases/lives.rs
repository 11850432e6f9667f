//! Lives: when a history begins, goes on and ends.

use super::*;

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
            world.heard("1:01:04");
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

#[test]
fn after_a_restart_a_pool_shows_exactly_one_provisioning() {
    let mut world = World::gke();
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &[]);
    world.pools("0:00", &[]);
    world.pools("1:00", &[api_pool("p", "PROVISIONING", Some("0:40"))]);
    world.pools("2:00", &[]);
    world.pools("3:00", &[api_pool("p", "PROVISIONING", Some("2:50"))]);
    world.commit();
    world.restart("10:00");
    assert!(
        world.published.snapshot().families[NodePool.index()].is_none(),
        "nothing is judged"
    );
    world.jobsets("10:00", &[]);
    world.nodes("10:00", &[]);
    world.pools("10:00", &[api_pool("p", "PROVISIONING", Some("2:50"))]);
    assert_eq!(world.published.snapshot().objects(NodePool).count(), 1);
    assert_eq!(world.provisioning("p"), "provisioning 0:07:10");
}

#[test]
fn a_pool_made_again_between_two_polls_is_a_new_life() {
    for restart in [false, true] {
        let mut world = World::gke();
        world.jobsets("0:00", &[]);
        world.nodes("0:00", &[]);
        world.pools("0:00", &[]);
        world.pools("1:00", &[api_pool("p", "PROVISIONING", Some("0:40"))]);
        for name in ["a", "b"] {
            world.node("3:00", made("2:00", node(name, "p", Ready, "3:00")));
        }
        world.commit();
        assert_eq!(world.provisioning("p"), "success 0:02:20");
        if restart {
            world.restart("10:00");
            world.jobsets("11:00", &[]);
            world.nodes("11:00", &[]);
        } else {
            for name in ["a", "b"] {
                world.node_gone("10:00", made("2:00", node(name, "p", Ready, "3:00")));
            }
            world.commit();
        }
        world.pools("11:00", &[api_pool("p", "PROVISIONING", Some("10:30"))]);
        world.commit();
        assert_eq!(
            world.provisioning("p"),
            "provisioning 0:00:30",
            "restart: {restart}"
        );
        assert_eq!(world.summary(NodePool, "p").interruptions, 0);
        assert_eq!(world.ended(NodePool, "p").as_deref(), Some("0:11:00"));
    }
}

#[test]
fn the_hour_of_an_empty_pool_holds_over_a_gap() {
    // Back within the hour, seen after it; and made after the hour, while nobody watched.
    for (made_at, lives, restart) in [
        ("40:00", 1, false),
        ("40:00", 1, true),
        ("2:30:00", 2, false),
        ("2:30:00", 2, true),
    ] {
        let mut world = running();
        let [a, b] = two();
        world.node_gone("1:00", a);
        world.node_gone("1:05", b);
        world.commit();
        world.failed("10:00");
        if restart {
            world.restart("20:00");
            world.jobsets("3:00:00", &[]);
        }
        world.pass("2:59:59");
        world.nodes(
            "3:00:00",
            &[
                made(made_at, again("x", node("c", "p", Ready, made_at))),
                made(made_at, again("y", node("d", "p", Ready, made_at))),
            ],
        );
        world.commit();
        let began = world.records.iter().filter(|record| {
            matches!(record, megamon::history::Record::Began { object, .. } if object.family == NodePool)
        });
        assert_eq!(began.count(), lives, "{made_at}, restart: {restart}");
        let ended = (lives == 2).then(|| "0:01:05".to_owned());
        assert_eq!(
            world.ended(NodePool, "p"),
            ended,
            "{made_at}, restart: {restart}"
        );
    }
}

#[test]
fn a_pool_whose_device_plugin_is_away_goes_on() {
    let gpu = |offers: bool| megamon::model::Node {
        topology: None,
        accelerator_count: None,
        offers_accelerator: offers,
        ..node("x", "g", Ready, "-1:00")
    };
    for restart in [false, true] {
        let mut world = World::labels();
        world.jobsets("0:00", &[]);
        world.nodes("0:00", &[gpu(true)]);
        world.commit();
        world.node("1:00", gpu(false));
        assert!(world.view(NodePool, "g").is_some());
        world.commit();
        if restart {
            world.restart("2:00");
            world.jobsets("2:00", &[]);
            world.nodes("2:00", &[gpu(false)]);
            world.commit();
        }
        assert!(world.up(NodePool, "g"), "restart: {restart}");
        assert_eq!(world.events(NodePool, "g").len(), 2);
        world.node_gone("3:00", gpu(false));
        assert!(world.view(NodePool, "g").is_none());
    }
}

#[test]
fn a_leader_pods_series_ends_with_its_pool() {
    let mut sources = vec![
        Source::JobSets,
        Source::Nodes,
        Source::NodePoolApi,
        Source::Pods,
    ];
    sources.sort();
    let mut settings = settings(&sources);
    settings.observed.label_pools = false;
    settings.observed.api_pools = true;
    let mut world = World::new(settings);
    let pod = megamon::model::Pod {
        namespace: "default".into(),
        name: "j-0".into(),
        uid: "pod".into(),
        job: Some("j-workers-0".into()),
        jobset: Some("j".into()),
        node: Some("a".into()),
        terminal: false,
    };
    let seen = |when: &str, pod: &megamon::model::Pod| {
        Observation::Pods(Update::Applied {
            object: pod.clone(),
            resource_version: "1".into(),
            seen: at(when),
        })
    };
    let shown = |world: &World| world.published.snapshot().scheduled.len();
    world.jobsets("0:00", &[]);
    // The pod is seen before its node, and the node before its pool.
    world.see("0:00", seen("0:00", &pod));
    world.nodes("0:00", &two());
    world.pools("0:00", &[]);
    assert_eq!(shown(&world), 0);
    world.pools("1:00", &[api_pool("p", "RUNNING", None)]);
    assert_eq!(shown(&world), 1);
    let scheduled = world
        .published
        .snapshot()
        .scheduled
        .iter()
        .next()
        .cloned()
        .unwrap();
    assert_eq!(
        (&*scheduled.pool, &*scheduled.job, &*scheduled.jobset),
        ("p", "j-workers-0", "j")
    );
    // The API drops the pool while its nodes linger.
    world.pools("2:00", &[]);
    assert_eq!(shown(&world), 0);
    world.pools("3:00", &[api_pool("p", "RUNNING", None)]);
    assert_eq!(shown(&world), 1);
    world.see(
        "4:00",
        seen(
            "4:00",
            &megamon::model::Pod {
                terminal: true,
                ..pod
            },
        ),
    );
    assert_eq!(shown(&world), 0);
}

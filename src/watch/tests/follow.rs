//! What a watch tells of a server that works as it should.

use super::script::*;
use crate::model::{Observation, Update};
use crate::watch::{NodeRules, Target};

#[tokio::test(start_paused = true)]
async fn a_list_of_several_pages_is_one_message() {
    let outcome = jobsets(
        5,
        vec![
            page("10", "t1", &[jobset("a", 3, 1), jobset("b", 4, 2)]),
            page("10", "t2", &[]),
            page("10", "", &[jobset("c", 5, 3)]),
            open(&[]),
        ],
    )
    .await;
    assert_eq!(outcome.told, ["listed 10: a=1 b=2 c=3"]);
    assert_eq!(outcome.asked, ["list", "list t1", "list t2", "watch 10"]);
    assert_eq!(outcome.counted, [""; 0]);
    for url in &outcome.urls[..3] {
        assert!(
            url.starts_with("/apis/jobset.x-k8s.io/v1alpha2/jobsets?"),
            "{url}"
        );
        assert!(url.contains("limit=250"), "{url}");
        assert!(!url.contains("resourceVersion"), "a consistent list: {url}");
    }
    let watch = &outcome.urls[3];
    assert!(watch.contains("allowWatchBookmarks=true"), "{watch}");
    let timeout: u64 = watch
        .split(['?', '&'])
        .find_map(|pair| pair.strip_prefix("timeoutSeconds="))
        .unwrap()
        .parse()
        .unwrap();
    assert!((261..=290).contains(&timeout), "{watch}");
}

#[tokio::test(start_paused = true)]
async fn a_list_bears_the_times_of_its_first_request_and_its_last_answer() {
    let slow = |text: Answer| match text {
        Answer::Whole(_, _, body) => Answer::Pieces(vec![Piece::Wait(7), Piece::Chunk(body)]),
        other => other,
    };
    let outcome = jobsets(
        30,
        vec![
            slow(page("10", "t1", &[])),
            slow(page("10", "", &[])),
            open(&[]),
        ],
    )
    .await;
    let Observation::JobSets(Update::Listed { began, seen, .. }) = outcome.observations[0] else {
        panic!("{:?}", outcome.told);
    };
    assert_eq!(began.to_string(), START);
    assert_eq!(seen.to_string(), "2026-03-01T08:00:14Z");
}

#[tokio::test(start_paused = true)]
async fn every_event_is_passed_on_with_its_resource_version() {
    let lines = [
        event("ADDED", &jobset("b", 11, 2)),
        event("MODIFIED", &jobset("a", 12, 5)),
        bookmark(20),
        event("DELETED", &jobset("a", 21, 5)),
    ];
    for cut in 1..lines.concat().len() {
        let text = lines.concat();
        let (one, two) = text.split_at(cut);
        let outcome = jobsets(
            5,
            vec![
                page("10", "", &[jobset("a", 3, 1)]),
                Answer::Pieces(vec![
                    Piece::Chunk(one.to_owned()),
                    Piece::Chunk(two.to_owned()),
                    Piece::Hang,
                ]),
            ],
        )
        .await;
        assert_eq!(
            outcome.told,
            [
                "listed 10: a=1",
                "applied 11: b=2",
                "applied 12: a=5",
                "heard 20",
                "deleted 21: a=5"
            ],
            "cut at {cut}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_closes_goes_on_where_it_was() {
    let outcome = jobsets(
        5,
        vec![
            page("10", "", &[]),
            closed(&[event("ADDED", &jobset("a", 11, 1)), bookmark(15)]),
            closed(&[event("ADDED", &jobset("b", 16, 1))]),
            open(&[bookmark(17)]),
        ],
    )
    .await;
    assert_eq!(
        outcome.told,
        [
            "listed 10:",
            "applied 11: a=1",
            "heard 15",
            "applied 16: b=1",
            "heard 17"
        ]
    );
    assert_eq!(outcome.asked, ["list", "watch 10", "watch 15", "watch 16"]);
    assert_eq!(outcome.counted, ["jobsets closed", "jobsets closed"]);
    assert!(
        outcome.told_at.iter().all(|at| *at < 0.1),
        "{:?}",
        outcome.told_at
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_at_once_is_not_asked_without_a_pause() {
    let mut answers = vec![page("10", "", &[])];
    answers.extend((0..100).map(|_| closed(&[])));
    let outcome = jobsets(120, answers).await;
    assert_eq!(outcome.told, ["listed 10:"]);
    assert!(outcome.asked.len() < 20, "{}", outcome.asked.len());
    assert!(outcome.asked[1..].iter().all(|asked| asked == "watch 10"));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_keep_a_quiet_watch() {
    let mut pieces = Vec::new();
    for n in 0..10 {
        pieces.extend([Piece::Wait(60), Piece::Chunk(bookmark(11 + n))]);
    }
    let outcome = jobsets(600, vec![page("10", "", &[]), Answer::Pieces(pieces)]).await;
    assert_eq!(outcome.told.len(), 10, "{:?}", outcome.told);
    assert_eq!(outcome.told[9], "heard 19");
    assert_eq!(outcome.asked, ["list", "watch 10"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_installed_is_waited_for() {
    let outcome = jobsets(
        100,
        vec![
            Answer::Whole(404, vec![], "404 page not found\n".to_owned()),
            status(404),
            status(404),
            page("10", "", &[jobset("a", 3, 1)]),
            open(&[bookmark(11)]),
        ],
    )
    .await;
    // Said at each look: its age stays small.
    assert_eq!(
        outcome.told,
        ["absent", "absent", "absent", "listed 10: a=1", "heard 11"]
    );
    assert_eq!(outcome.counted, ["jobsets absent"]);
    for pair in outcome.asked_at[..4].windows(2) {
        assert!(
            (10.0..=30.0).contains(&(pair[1] - pair[0])),
            "{:?}",
            outcome.asked_at
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_removed_is_absent_once_the_server_says_so_twice() {
    let outcome = jobsets(
        8,
        vec![
            page("10", "", &[jobset("a", 3, 1)]),
            closed(&[event("DELETED", &jobset("a", 11, 1))]),
            status(404),
            status(404),
            status(404),
        ],
    )
    .await;
    assert_eq!(
        outcome.told,
        ["listed 10: a=1", "deleted 11: a=1", "absent"]
    );
    assert_eq!(
        outcome.asked,
        ["list", "watch 10", "watch 11", "list", "list"]
    );
    assert_eq!(outcome.counted, ["jobsets closed", "jobsets absent"]);
}

#[tokio::test(start_paused = true)]
async fn one_answer_that_a_kind_is_gone_is_not_believed() {
    let outcome = jobsets(
        20,
        vec![
            page("10", "", &[jobset("a", 3, 1)]),
            closed(&[bookmark(11)]),
            status(404),
            status(404),
            page("12", "", &[jobset("a", 3, 1)]),
            open(&[]),
        ],
    )
    .await;
    assert_eq!(
        outcome.told,
        ["listed 10: a=1", "heard 11", "listed 12: a=1"]
    );
}

#[tokio::test(start_paused = true)]
async fn absence_is_told_again_after_a_failure() {
    let outcome = jobsets(60, vec![status(404), status(500), status(404), status(404)]).await;
    assert_eq!(
        outcome.told,
        [
            "absent",
            "failed: list of jobsets: the API server answered 500 Internal Server Error: said 500",
            "absent",
            "absent"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn slices_are_taken_in_the_version_that_is_served() {
    let slice = r#"{"metadata":{"name":"s","uid":"u","resourceVersion":"3",
        "creationTimestamp":"2026-03-01T07:00:00Z"}}"#;
    let outcome = Watched::new(
        Target::Slices,
        8,
        vec![
            status(404),
            page("10", "", &[slice.to_owned()]),
            open(&[bookmark(11)]),
        ],
    )
    .until(5)
    .await;
    assert_eq!(outcome.told, ["listed 10: s", "heard 11"]);
    assert_eq!(
        outcome.asked,
        ["list", "list v1alpha1", "watch v1alpha1 10"]
    );

    let outcome = Watched::new(Target::Slices, 8, vec![status(404), status(404)])
        .until(5)
        .await;
    assert_eq!(outcome.told, ["absent"]);
}

#[tokio::test(start_paused = true)]
async fn nodes_and_leader_pods_are_asked_for_where_they_are() {
    let rules = NodeRules {
        pool_labels: Vec::new(),
        resources: Vec::new(),
    };
    let cases = [
        (Target::Nodes(rules), "/api/v1/nodes?", None),
        (
            Target::Pods,
            "/api/v1/pods?",
            Some(
                "labelSelector=jobset.sigs.k8s.io%2Fjobset-name%2C\
                 batch.kubernetes.io%2Fjob-completion-index%3D0",
            ),
        ),
        (
            Target::LeaderWorkerSets,
            "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets?",
            None,
        ),
    ];
    for (target, path, selector) in cases {
        let outcome = Watched::new(target, 8, vec![page("10", "", &[]), open(&[])])
            .until(5)
            .await;
        assert_eq!(outcome.told, ["listed 10:"]);
        assert_eq!(outcome.urls.len(), 2);
        for url in outcome.urls {
            assert!(url.starts_with(path), "{url}");
            assert!(
                selector.is_none_or(|selector| url.contains(selector)),
                "{url}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_receiver_and_when_told_to() {
    let answers = || vec![page("10", "", &[]), open(&[bookmark(11)])];
    let watched = Watched::new(Target::JobSets, 1, answers());
    drop(watched.receiver);
    watched.task.await.unwrap();

    let mut watched = Watched::new(Target::JobSets, 8, answers());
    assert!(watched.receiver.recv().await.is_some());
    watched.shutdown.cancel();
    watched.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slow_receiver_is_not_the_servers_silence() {
    let lines: Vec<_> = (11..20).map(bookmark).collect();
    let mut watched = Watched::new(Target::JobSets, 1, vec![page("10", "", &[]), open(&lines)]);
    let mut last = None;
    for _ in 0..10 {
        tokio::time::sleep(std::time::Duration::from_secs(200)).await;
        last = watched.receiver.recv().await;
    }
    assert!(
        matches!(&last, Some(Observation::JobSets(Update::Heard { resource_version, .. }))
            if &**resource_version == "19"),
        "{last:?}"
    );
}

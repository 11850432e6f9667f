//! What a watch tells, and how it goes on, when things go wrong.

use super::script::*;

const ANSWERED_500: &str =
    "failed: list of jobsets: the API server answered 500 Internal Server Error: said 500";

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_off_goes_on_where_it_was() {
    let added = event("ADDED", &jobset("a", 11, 1));
    let half = event("ADDED", &jobset("b", 12, 1));
    let half = half.split_at(half.len() / 2).0.to_owned();
    let cases = [
        (
            "half a line and the end",
            vec![Piece::Chunk(added.clone()), Piece::Chunk(half.clone())],
        ),
        (
            "half a line and an error",
            vec![
                Piece::Chunk(added.clone()),
                Piece::Chunk(half),
                Piece::Break,
            ],
        ),
        (
            "an error between two lines",
            vec![Piece::Chunk(added.clone()), Piece::Break],
        ),
        (
            "a line that is no JSON",
            vec![Piece::Chunk(added.clone() + "{\"type\":\n"), Piece::Hang],
        ),
    ];
    for (case, pieces) in cases {
        let outcome = jobsets(
            5,
            vec![
                page("10", "", &[]),
                Answer::Pieces(pieces),
                open(&[event("ADDED", &jobset("b", 12, 1))]),
            ],
        )
        .await;
        assert_eq!(
            outcome.told,
            ["listed 10:", "applied 11: a=1", "applied 12: b=1"],
            "{case}"
        );
        assert_eq!(outcome.asked, ["list", "watch 10", "watch 11"], "{case}");
        assert_eq!(outcome.counted, ["jobsets error"], "{case}");
        assert!(outcome.asked_at[2] < 0.1, "{case}: at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_off_twice_without_news_is_listed_again() {
    let broken = || Answer::Pieces(vec![Piece::Break]);
    let outcome = jobsets(
        5,
        vec![
            page("10", "", &[]),
            broken(),
            broken(),
            page("20", "", &[]),
            open(&[]),
        ],
    )
    .await;
    assert_eq!(
        outcome.asked,
        ["list", "watch 10", "watch 10", "list", "watch 20"]
    );
    assert_eq!(outcome.told.len(), 3, "{:?}", outcome.told);
    assert!(
        outcome.told[1].starts_with("failed: watch of jobsets: no answer"),
        "{:?}",
        outcome.told
    );
    assert_eq!(outcome.told[2], "listed 20:");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_is_listed_again_without_a_failure() {
    let gone = event("ERROR", &status_json(410));
    let cases = [
        ("status", vec![page("10", "", &[]), status(410)], "watch 10"),
        (
            "event",
            vec![page("10", "", &[]), open(std::slice::from_ref(&gone))],
            "watch 10",
        ),
        (
            "token of the next page",
            vec![page("10", "t1", &[jobset("a", 3, 1)]), status(410)],
            "list t1",
        ),
    ];
    for (case, mut answers, last) in cases {
        let told_before: &[&str] = if last == "list t1" {
            &[]
        } else {
            &["listed 10:"]
        };
        answers.extend([page("20", "", &[jobset("b", 3, 1)]), open(&[bookmark(21)])]);
        let outcome = jobsets(5, answers).await;
        let told: Vec<_> = told_before
            .iter()
            .chain(&["listed 20: b=1", "heard 21"])
            .collect();
        assert_eq!(outcome.told.iter().collect::<Vec<_>>(), told, "{case}");
        assert_eq!(outcome.asked, ["list", last, "list", "watch 20"], "{case}");
        assert_eq!(outcome.counted, ["jobsets expired"], "{case}");
        assert!(outcome.asked_at[2] < 0.1, "{case}: at once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_where_everything_is_always_too_old_is_not_asked_without_a_pause() {
    let mut answers = Vec::new();
    for _ in 0..100 {
        answers.extend([page("10", "", &[]), status(410)]);
    }
    let outcome = jobsets(120, answers).await;
    assert!(outcome.asked.len() < 40, "{}", outcome.asked.len());
    assert!(
        outcome.told.iter().all(|told| told == "listed 10:"),
        "{:?}",
        outcome.told
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_is_told_and_followed_by_a_list() {
    let error = event("ERROR", &status_json(500));
    let cases = [
        (
            "refused",
            Answer::Refused,
            "no answer from the API server",
            "error",
        ),
        (
            "status",
            status(503),
            "503 Service Unavailable: said 503",
            "status",
        ),
        (
            "forbidden",
            status(403),
            "403 Forbidden: said 403",
            "status",
        ),
        (
            "plain text",
            Answer::Whole(502, vec![], "<html>\nno".to_owned()),
            "502 Bad Gateway: <html>",
            "status",
        ),
        (
            "error event",
            open(std::slice::from_ref(&error)),
            "500 Internal Server Error: said 500",
            "status",
        ),
    ];
    for (case, answer, what, reason) in cases {
        let outcome = jobsets(
            5,
            vec![
                page("10", "", &[]),
                closed(&[bookmark(11)]),
                answer,
                page("20", "", &[]),
                open(&[bookmark(21)]),
            ],
        )
        .await;
        assert_eq!(outcome.told.len(), 5, "{case}: {:?}", outcome.told);
        let failed = &outcome.told[2];
        assert!(
            failed.starts_with("failed: watch of jobsets: ") && failed.contains(what),
            "{failed}"
        );
        assert_eq!(outcome.told[3..], ["listed 20:", "heard 21"], "{case}");
        assert_eq!(
            outcome.asked,
            ["list", "watch 10", "watch 11", "list", "watch 20"],
            "{case}"
        );
        assert_eq!(
            outcome.counted,
            ["jobsets closed".to_owned(), format!("jobsets {reason}")],
            "{case}"
        );
        let pause = outcome.asked_at[3] - outcome.asked_at[2];
        assert!((0.5..=1.0).contains(&pause), "{case}: {pause}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_told_whole_or_not_at_all() {
    let outcome = jobsets(
        5,
        vec![
            page("10", "t1", &[jobset("a", 3, 1)]),
            status(500),
            page("20", "", &[jobset("b", 3, 1)]),
            open(&[]),
        ],
    )
    .await;
    assert_eq!(outcome.told, [ANSWERED_500, "listed 20: b=1"]);
    assert_eq!(outcome.asked, ["list", "list t1", "list", "watch 20"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_list_is_a_failure() {
    let cases = [
        ("nonsense", "<html>", "is no list"),
        (
            "cut off",
            r#"{"metadata":{"resourceVersion":"1"},"items":[{"#,
            "is no list",
        ),
        (
            "no resourceVersion",
            r#"{"items":[]}"#,
            "no resourceVersion",
        ),
    ];
    for (case, body, what) in cases {
        let answer = Answer::Whole(200, vec![], body.to_owned());
        let outcome = jobsets(5, vec![answer, page("20", "", &[]), open(&[])]).await;
        assert_eq!(outcome.told.len(), 2, "{case}: {:?}", outcome.told);
        assert!(outcome.told[0].contains(what), "{case}: {:?}", outcome.told);
        assert_eq!(outcome.counted, ["jobsets error"], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_their_limit_and_are_short_again_after_success() {
    let mut answers: Vec<_> = (0..12).map(|_| status(500)).collect();
    answers.extend([page("10", "", &[]), open(&[bookmark(11)])]);
    let outcome = jobsets(400, answers).await;
    assert_eq!(
        outcome
            .told
            .iter()
            .filter(|told| *told == ANSWERED_500)
            .count(),
        12
    );
    let pauses: Vec<_> = outcome
        .asked_at
        .windows(2)
        .map(|two| two[1] - two[0])
        .collect();
    let mut least = 0.5;
    for pause in &pauses[..12] {
        assert!((least..=2.0 * least + 0.01).contains(pause), "{pauses:?}");
        least = f64::min(15.0, 2.0 * least);
    }
    assert!(
        pauses[..12].iter().all(|pause| *pause <= 30.01),
        "{pauses:?}"
    );

    let mut answers: Vec<_> = (0..6).map(|_| status(500)).collect();
    answers.extend([
        page("10", "", &[]),
        closed(&[bookmark(11)]),
        status(500),
        page("20", "", &[]),
    ]);
    let outcome = jobsets(200, answers).await;
    let failed = outcome
        .asked
        .iter()
        .position(|asked| asked == "watch 11")
        .unwrap();
    let pause = outcome.asked_at[failed + 1] - outcome.asked_at[failed];
    assert!((0.5..=1.0).contains(&pause), "{pause}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_always_refused_does_not_list_without_end() {
    let mut answers = Vec::new();
    for _ in 0..100 {
        answers.extend([page("10", "", &[]), status(403)]);
    }
    let outcome = jobsets(120, answers).await;
    assert!(outcome.asked.len() < 40, "{}", outcome.asked.len());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_patience_gets_it() {
    let cases = [
        (
            "header",
            Answer::Whole(
                429,
                vec![("Retry-After", "7")],
                "Too many requests".to_owned(),
            ),
            7.0,
        ),
        (
            "header, 503",
            Answer::Whole(503, vec![("retry-after", "9")], String::new()),
            9.0,
        ),
        (
            "details",
            Answer::Whole(
                429,
                vec![],
                r#"{"code":429,"details":{"retryAfterSeconds":11}}"#.to_owned(),
            ),
            11.0,
        ),
        (
            "a date is not read",
            Answer::Whole(
                503,
                vec![("retry-after", "Sun, 01 Mar 2026 08:00:00 GMT")],
                String::new(),
            ),
            0.5,
        ),
        (
            "beyond reason",
            Answer::Whole(503, vec![("retry-after", "99999999")], String::new()),
            300.0,
        ),
    ];
    for (case, answer, least) in cases {
        let outcome = jobsets(400, vec![answer, page("10", "", &[]), open(&[])]).await;
        let pause = outcome.asked_at[1] - outcome.asked_at[0];
        assert!((least..=least + 0.6).contains(&pause), "{case}: {pause}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_request_is_waited_for_without_end() {
    let silent = "failed: not heard from for 90 s";
    let cases = [
        (
            "list",
            vec![Answer::Never],
            60.0,
            "failed: list of jobsets: no answer from the API server within 60 s",
            "error",
        ),
        (
            "page that does not end",
            vec![Answer::Pieces(vec![
                Piece::Chunk("{".to_owned()),
                Piece::Hang,
            ])],
            60.0,
            "failed: list of jobsets: no answer from the API server within 60 s",
            "error",
        ),
        (
            "head of a watch",
            vec![page("10", "", &[]), Answer::Never],
            60.0,
            "failed: watch of jobsets: no answer from the API server within 60 s",
            "error",
        ),
        (
            "watch",
            vec![page("10", "", &[]), open(&[])],
            90.0,
            silent,
            "silent",
        ),
        (
            "watch that trickles",
            vec![
                page("10", "", &[]),
                Answer::Pieces(
                    (0..100)
                        .flat_map(|_| [Piece::Wait(10), Piece::Chunk(" ".to_owned())])
                        .collect(),
                ),
            ],
            90.0,
            silent,
            "silent",
        ),
        (
            "watch after an event",
            vec![
                page("10", "", &[]),
                Answer::Pieces(vec![
                    Piece::Wait(50),
                    Piece::Chunk(bookmark(11)),
                    Piece::Hang,
                ]),
            ],
            140.0,
            silent,
            "silent",
        ),
    ];
    for (case, mut answers, after, what, reason) in cases {
        answers.extend([page("20", "", &[]), open(&[bookmark(21)])]);
        let outcome = jobsets(180, answers).await;
        let failed = outcome.told.iter().position(|told| told == what);
        let failed = failed.unwrap_or_else(|| panic!("{case}: {:?}", outcome.told));
        assert!(
            (outcome.told_at[failed] - after).abs() < 0.1,
            "{case}: {:?}",
            outcome.told_at
        );
        assert_eq!(
            outcome.told[failed + 1..][..2],
            ["listed 20:", "heard 21"],
            "{case}"
        );
        assert!(
            outcome.told_at[failed + 1] - after < 1.1,
            "{case}: {:?}",
            outcome.told_at
        );
        assert!(
            outcome.counted.contains(&format!("jobsets {reason}")),
            "{case}: {:?}",
            outcome.counted
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_fails_nothing_else() {
    let nameless = r#"{"metadata":{"name":7},"spec":3}"#.to_owned();
    let outcome = jobsets(
        5,
        vec![
            page(
                "10",
                "",
                &[
                    jobset("a", 3, 1),
                    unreadable("b", 4),
                    nameless,
                    jobset("c", 5, 1),
                ],
            ),
            open(&[
                event("ADDED", &unreadable("d", 11)),
                event("MODIFIED", &unreadable("d", 12)),
                event("ADDED", "[]"),
                event("NEWER", &jobset("e", 13, 1)),
                event("ADDED", &jobset("f", 14, 1)),
            ]),
        ],
    )
    .await;
    assert_eq!(
        outcome.told,
        [
            "listed 10: a=1 c=1 !ns/b",
            "heard 11",
            "heard 12",
            "heard 12",
            "heard 13",
            "applied 14: f=1"
        ]
    );
    assert_eq!(outcome.asked, ["list", "watch 10"]);
    assert_eq!(outcome.counted, ["jobsets undecodable"; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_read_is_found_by_a_list() {
    let outcome = jobsets(
        30,
        vec![
            page("10", "", &[jobset("a", 3, 1), unreadable("b", 4)]),
            open(&[
                event("DELETED", &unreadable("b", 11)),
                event("ADDED", &jobset("c", 12, 1)),
            ]),
            page("20", "", &[jobset("a", 3, 1), jobset("c", 12, 1)]),
            open(&[bookmark(21)]),
        ],
    )
    .await;
    assert_eq!(
        outcome.told,
        [
            "listed 10: a=1 !ns/b",
            "heard 11",
            "applied 12: c=1",
            "listed 20: a=1 c=1",
            "heard 21"
        ]
    );
    assert_eq!(outcome.asked, ["list", "watch 10", "list", "watch 20"]);
    assert!(
        (outcome.asked_at[2] - 5.0).abs() < 0.1,
        "{:?}",
        outcome.asked_at
    );
}

//! The vectors, one test for each file. `MEGAMON_VECTORS` names another folder of them.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;
use megamon::availability::{Delta, Start, State, Step, Track};
use megamon::config::Config;
use megamon::export::report;
use megamon::fleet::Fleet;
use megamon::history;
use megamon::model::{Counts, Event, Family, Observation, Source, Update};
use megamon::node_pools::gke;
use megamon::snapshot::Published;
use megamon::summary::{Fold, Provisioning, provisioning};
use megamon::watch::{self, DecodeError, Decoded, Interner, NodeRules};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::world;

pub fn lines(file: &str) -> Vec<Value> {
    let folder = std::env::var_os("MEGAMON_VECTORS").map(PathBuf::from);
    let folder =
        folder.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors"));
    let text = fs::read_to_string(folder.join(file)).unwrap();
    let lines: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!lines.is_empty(), "{file} is empty");
    lines
}

#[test]
fn vectors_summarize() {
    for (number, line) in lines("summarize.jsonl").iter().enumerate() {
        let events: Vec<Event> = serde_json::from_value(line["events"].clone()).unwrap();
        let now: Timestamp = line["now"].as_str().unwrap().parse().unwrap();
        let summary = match Fold::of(&events) {
            None => json!({
                "downTimeProvisioned": 0, "interruptionCount": 0, "recoveryCount": 0, "downTime": 0,
                "upTime": 0, "totalDownTimeBetweenRecovery": 0, "totalUpTimeBetweenInterruption": 0,
                "latestDownTimeBetweenRecovery": 0, "latestUpTimeBetweenInterruption": 0,
                "meanDownTimeBetweenRecovery": 0, "meanUpTimeBetweenInterruption": 0,
                "provisioningDuration": 0, "provisioningState": "",
            }),
            Some(fold) => {
                let s = fold.at(now);
                let (state, duration) = provisioning(&fold, None, now);
                assert_ne!(state, Provisioning::Failed);
                json!({
                    "downTimeProvisioned": s.down_initial.unwrap_or(0),
                    "interruptionCount": s.interruptions,
                    "recoveryCount": s.recoveries,
                    "downTime": s.down_time,
                    "upTime": s.up_time,
                    "totalDownTimeBetweenRecovery": s.down_between.unwrap_or(0),
                    "totalUpTimeBetweenInterruption": s.up_between.unwrap_or(0),
                    "latestDownTimeBetweenRecovery": s.down_between_latest.unwrap_or(0),
                    "latestUpTimeBetweenInterruption": s.up_between_latest.unwrap_or(0),
                    "meanDownTimeBetweenRecovery": s.down_between_mean.unwrap_or(0),
                    "meanUpTimeBetweenInterruption": s.up_between_mean.unwrap_or(0),
                    "provisioningDuration": duration,
                    "provisioningState": state.name(),
                })
            }
        };
        assert_eq!(summary, line["summary"], "line {}", number + 1);
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Observed {
    at: Timestamp,
    #[serde(flatten)]
    counts: Counts,
    expected_down: bool,
}

#[test]
fn vectors_append() {
    for (number, line) in lines("append.jsonl").iter().enumerate() {
        let threshold = line["threshold"].as_f64().unwrap();
        let observations: Vec<Observed> =
            serde_json::from_value(line["observations"].clone()).unwrap();
        let expected: Vec<Event> = serde_json::from_value(line["events"].clone()).unwrap();
        let mut events = Vec::new();
        let mut track: Option<Track> = None;
        for Observed {
            at,
            counts,
            expected_down,
        } in observations
        {
            let state = State {
                counts,
                expected_down,
            };
            let track = match &mut track {
                None => {
                    let (first, found) =
                        Track::first(Start::Found, state, Vec::new(), state, at, threshold);
                    assert!(found);
                    track.insert(first)
                }
                Some(track) => {
                    let delta = Delta::State(state);
                    track.push(Step {
                        at,
                        round: 0,
                        delta,
                        seen: at,
                        bounds: None,
                    });
                    track.observe(state, at);
                    track
                }
            };
            events.extend(track.seal().into_iter().map(|sealed| sealed.event));
        }
        assert_eq!(events, expected, "line {}", number + 1);
    }
}

#[test]
fn vectors_up() {
    for (number, line) in lines("up.jsonl").iter().enumerate() {
        let counts: Counts = serde_json::from_value(line.clone()).unwrap();
        let up = counts.up(line["threshold"].as_f64().unwrap());
        assert_eq!(json!(up), line["up"], "line {}: {line}", number + 1);
    }
}

/// The API server's objects of one list, by the watch's own decoder.
fn decoded<T>(
    objects: &Value,
    mut decode: impl FnMut(&str, &mut Interner) -> Result<Decoded<T>, DecodeError>,
) -> Vec<T> {
    let mut strings = Interner::default();
    let objects = objects.as_array().cloned().unwrap_or_default();
    let objects = objects
        .iter()
        .map(|object| decode(&object.to_string(), &mut strings));
    objects.map(|decoded| decoded.unwrap().object).collect()
}

fn list<T>(objects: Vec<T>, seen: Timestamp) -> Update<T> {
    Update::Listed {
        objects,
        undecodable: Vec::new(),
        resource_version: "1".into(),
        began: seen,
        seen,
    }
}

#[test]
fn vectors_fleets() {
    let families = [
        (Family::JobSet, "jobSetsUp"),
        (Family::JobSetNodes, "jobSetNodesUp"),
        (Family::NodePool, "nodePoolsUp"),
        (Family::Slice, "slicesUp"),
        (Family::Lws, "leaderWorkerSetsUp"),
    ];
    let mut compared = [0; 5];
    for (number, line) in lines("fleets.jsonl").iter().enumerate() {
        let now: Timestamp = line["now"].as_str().unwrap().parse().unwrap();
        let mut sources = vec![
            Source::JobSets,
            Source::Nodes,
            Source::NodePoolApi,
            Source::LeaderWorkerSets,
        ];
        sources.extend((line["sliceMode"] == true).then_some(Source::Slices));
        let mut settings = world::settings(&sources);
        settings.observed.label_pools = false;
        settings.observed.api_pools = true;
        settings.unknown_threshold = line["unknownThreshold"].as_f64().unwrap();
        let mut fleet = Fleet::new(settings, now);
        fleet.replayed(history::State::default(), 1, now);

        let objects = &line["objects"];
        let rules = NodeRules::of(&Config::default().node_pools);
        let nodes = decoded(&objects["nodes"], |json, strings| {
            watch::node::decode(json, &rules, strings)
        });
        let pools = objects["nodePools"].as_array().cloned().unwrap_or_default();
        let pools = pools
            .iter()
            .map(|pool| gke::decode_json(&pool.to_string()).unwrap().unwrap());
        for observation in [
            Observation::JobSets(list(
                decoded(&objects["jobsets"], watch::jobset::decode),
                now,
            )),
            Observation::Nodes(list(nodes, now)),
            Observation::NodePools(list(pools.collect(), now)),
            Observation::Slices(list(decoded(&objects["slices"], watch::slice::decode), now)),
            Observation::LeaderWorkerSets(list(
                decoded(
                    &objects["leaderworkersets"],
                    watch::leader_worker_set::decode,
                ),
                now,
            )),
        ] {
            fleet.observe(observation, now);
        }
        let published = Published::new(now);
        fleet.publish(&published);
        let collection = published.collect(now);
        let report: Value = serde_json::from_slice(&report::render(&collection).unwrap()).unwrap();
        for (family, name) in families {
            let mut shown = report[name].clone();
            for view in collection.snapshot.objects(family) {
                shown[&*view.key]["up"] = json!(view.availability.up);
            }
            let expected = &line["expected"][family.name()];
            assert_eq!(&shown, expected, "line {}: {name}", number + 1);
            compared[family.index()] += expected.as_object().unwrap().len();
        }
    }
    assert!(
        compared.iter().all(|count| *count > 20),
        "too few compared: {compared:?}"
    );
}

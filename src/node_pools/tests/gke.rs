//! The GKE source: what it asks, what it makes of the answers, and what of none.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::stand_in::{Answer, StandIn};
use crate::config;
use crate::measure::{Measurement, Recorder};
use crate::node_pools::gke::decode_json;
use crate::node_pools::{GkePools, NodePools};

const POOLS: &str = "/nodePools";
const OPERATIONS: &str = "/operations";

#[derive(Default)]
struct Calls(Mutex<Vec<(&'static str, bool)>>);

impl Calls {
    fn take(&self) -> Vec<(&'static str, bool)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Recorder for Calls {
    fn record(&self, measurement: Measurement<'_>) {
        if let Measurement::Gke {
            method,
            error,
            took,
        } = measurement
        {
            assert!(took < Duration::from_secs(20));
            self.0.lock().unwrap().push((method, error));
        }
    }
}

fn source(server: &StandIn, named: bool) -> (GkePools, Arc<Calls>) {
    let part = |text: &str| named.then(|| text.to_owned());
    let config = config::Gke {
        project: part("p"),
        location: part("l"),
        cluster: part("c"),
        endpoint: Some(format!("http://{}", server.address)),
        interval: Duration::from_secs(10),
    };
    let calls = Arc::new(Calls::default());
    let patience = Duration::from_secs(3);
    let pools = GkePools::with(config, calls.clone(), server.address.to_string(), patience);
    (pools, calls)
}

fn pool(name: &str, status: &str) -> Value {
    json!({
        "name": name, "status": status, "initialNodeCount": 4, "aFieldOfTheFuture": {"x": 1},
        "config": {"machineType": "ct5lp-hightpu-4t", "spot": true,
                   "resourceLabels": {"goog-gke-accelerator-type": "tpu-v5-lite-podslice"}},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
    })
}

fn pools(pools: &[Value]) -> Answer {
    Answer::With(200, json!({"nodePools": pools}).to_string())
}

fn operations(status: &str, more: &Value) -> Answer {
    let mut operation = json!({
        "name": "operation-1", "operationType": "CREATE_NODE_POOL", "status": status,
        "targetLink": "https://container.googleapis.com/v1/projects/1/locations/l/clusters/c/nodePools/a",
        "startTime": "2026-03-01T08:00:00.5Z",
    });
    for (key, value) in more.as_object().unwrap() {
        operation[key] = value.clone();
    }
    Answer::With(200, json!({"operations": [operation]}).to_string())
}

fn refused(code: u16, status: &str) -> Answer {
    let error = json!({"error": {"code": code, "status": status, "message": "said so"}});
    Answer::With(code, error.to_string())
}

#[tokio::test]
async fn pools_are_listed_with_what_made_them() {
    let server = StandIn::new().await;
    let (mut source, calls) = source(&server, true);
    server.answer(POOLS, vec![pools(&[pool("a", "PROVISIONING")])]);
    server.answer(OPERATIONS, vec![operations("RUNNING", &json!({}))]);
    let listing = source.list().await.unwrap();
    assert_eq!(listing.undecodable, []);
    let [a] = &listing.pools[..] else {
        panic!("{listing:?}");
    };
    assert_eq!((&*a.name, &*a.status, a.spot), ("a", "PROVISIONING", true));
    assert_eq!(a.topology.as_deref(), Some("4x4"));
    assert_eq!(a.accelerator.as_deref(), Some("tpu-v5-lite-podslice"));
    assert_eq!(a.machine_type.as_deref(), Some("ct5lp-hightpu-4t"));
    let made = a.operation.clone().unwrap();
    assert_eq!(made.start.to_string(), "2026-03-01T08:00:00.5Z");
    assert_eq!(made.failed, None);
    assert_eq!(
        server.paths(),
        [
            "/v1/projects/p/locations/l/clusters/c/nodePools",
            "/v1/projects/p/locations/l/operations"
        ]
    );
    assert_eq!(calls.take(), [("ListNodePools", false)]);

    // Nothing new: one call.
    source.list().await.unwrap();
    assert_eq!(calls.take(), [("ListNodePools", false)]);

    // It failed: when is in the operation, which is asked for once more and then no more.
    let error =
        json!({"endTime": "2026-03-01T08:10:00Z", "error": {"code": 8, "message": "no capacity"}});
    server.answer(POOLS, vec![pools(&[pool("a", "ERROR")])]);
    server.answer(OPERATIONS, vec![operations("DONE", &error)]);
    for expected in [&[("ListNodePools", false)][..], &[("ListNodePools", false)]] {
        let listing = source.list().await.unwrap();
        let failed = listing.pools[0].operation.as_ref().unwrap().failed.unwrap();
        assert_eq!(failed.to_string(), "2026-03-01T08:10:00Z");
        assert_eq!(calls.take(), expected);
    }
    assert!(
        server
            .heads()
            .iter()
            .all(|head| !head.to_lowercase().contains("authorization:"))
    );

    // None is a list too.
    server.answer(POOLS, vec![Answer::With(200, "{}".to_owned())]);
    assert_eq!(source.list().await.unwrap().pools, []);
}

#[tokio::test]
async fn a_refusal_is_an_error_and_no_list() {
    let server = StandIn::new().await;
    let (mut source, calls) = source(&server, true);
    let cases = [
        ("forbidden", refused(403, "PERMISSION_DENIED"), "said so"),
        (
            "nonsense",
            Answer::With(200, "<html>".to_owned()),
            "ListNodePools",
        ),
    ];
    for (case, answer, what) in cases {
        server.answer(POOLS, vec![answer]);
        let error = source.list().await.unwrap_err().to_string();
        assert!(
            error.starts_with("ListNodePools: ") && error.contains(what),
            "{case}: {error}"
        );
        assert_eq!(calls.take(), [("ListNodePools", true)], "{case}");
        assert_eq!(server.paths().len(), 1, "{case}");
    }
}

#[tokio::test]
async fn an_outage_is_tried_again_within_bounds() {
    let server = StandIn::new().await;
    let (mut source, calls) = source(&server, true);
    server.answer(POOLS, vec![refused(503, "UNAVAILABLE")]);
    source.list().await.unwrap_err();
    assert_eq!(server.paths().len(), 3);
    assert_eq!(calls.take(), [("ListNodePools", true)]);

    server.answer(
        POOLS,
        vec![refused(503, "UNAVAILABLE"), pools(&[pool("a", "RUNNING")])],
    );
    server.answer(OPERATIONS, vec![Answer::With(200, "{}".to_owned())]);
    assert_eq!(source.list().await.unwrap().pools.len(), 1);
    assert_eq!(calls.take(), [("ListNodePools", false)]);
}

#[tokio::test]
async fn an_api_that_does_not_answer_is_not_waited_for_without_end() {
    let server = StandIn::new().await;
    let (mut source, calls) = source(&server, true);
    server.answer(POOLS, vec![Answer::Never]);
    let started = std::time::Instant::now();
    source.list().await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(6));
    assert_eq!(calls.take(), [("ListNodePools", true)]);
}

#[tokio::test]
async fn pools_wait_for_their_operations_but_not_for_ever() {
    let server = StandIn::new().await;
    let (mut source, _) = source(&server, true);
    server.answer(POOLS, vec![pools(&[pool("a", "RUNNING")])]);
    server.answer(OPERATIONS, vec![refused(403, "PERMISSION_DENIED")]);
    for _ in 0..3 {
        let error = source.list().await.unwrap_err().to_string();
        assert!(error.starts_with("ListOperations: "), "{error}");
    }
    for _ in 0..2 {
        let listing = source.list().await.unwrap();
        assert_eq!(listing.pools[0].operation, None);
    }
    server.answer(OPERATIONS, vec![operations("DONE", &json!({}))]);
    assert!(source.list().await.unwrap().pools[0].operation.is_some());
}

#[tokio::test]
async fn the_metadata_server_says_what_is_not_set() {
    let server = StandIn::new().await;
    let (mut source, calls) = source(&server, false);
    let error = source.list().await.unwrap_err().to_string();
    assert!(
        error.contains("nodePools.gke.project is not set"),
        "{error}"
    );
    assert!(
        error.contains("/computeMetadata/v1/project/project-id"),
        "{error}"
    );
    assert_eq!(calls.take(), []);

    server.paths();
    let said = |text: &str| vec![Answer::With(200, text.to_owned())];
    server.answer("/project/project-id", said("my-project\n"));
    server.answer("/attributes/cluster-location", said("us-east5"));
    server.answer("/attributes/cluster-name", said("my-cluster"));
    server.answer(POOLS, vec![pools(&[])]);
    source.list().await.unwrap();
    let heads = server.heads();
    assert_eq!(heads.len(), 4);
    for head in &heads[..3] {
        assert!(
            head.to_lowercase().contains("metadata-flavor: google\r\n"),
            "{head}"
        );
    }
    let path = "GET /v1/projects/my-project/locations/us-east5/clusters/my-cluster/nodePools";
    assert!(heads[3].starts_with(path), "{}", heads[3]);

    // It is asked once.
    source.list().await.unwrap();
    assert_eq!(server.paths().len(), 1);
}

#[test]
fn statuses_and_shapes_are_passed_on_as_the_api_has_them() {
    let cases = [
        (
            json!({"name": "a", "status": "RUNNING_WITH_ERROR"}),
            "RUNNING_WITH_ERROR",
        ),
        (
            json!({"name": "a", "status": "A_STATUS_OF_THE_FUTURE"}),
            "A_STATUS_OF_THE_FUTURE",
        ),
        (
            json!({"name": "a", "status": "STOPPING", "config": null, "placementPolicy": null}),
            "STOPPING",
        ),
    ];
    for (json, status) in cases {
        let pool = decode_json(&json.to_string()).unwrap().unwrap();
        assert_eq!(&*pool.status, status);
        assert_eq!(
            (
                pool.topology,
                pool.accelerator,
                pool.machine_type,
                pool.spot
            ),
            (None, None, None, false)
        );
    }
    assert_eq!(decode_json("{}").unwrap(), None);
    assert!(decode_json("[").is_err());
}

#[test]
fn vectors_fleets_node_pools() {
    let folder = std::env::var_os("MEGAMON_VECTORS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors"),
        PathBuf::from,
    );
    let path = folder.join("fleets.jsonl");
    if !path.exists() {
        eprintln!(
            "skipped: {} is not there; MEGAMON_VECTORS names the folder",
            path.display()
        );
        return;
    }
    let mut shown = 0;
    for line in std::fs::read_to_string(&path).unwrap().lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        for json in vector["objects"]["nodePools"]
            .as_array()
            .unwrap_or(&Vec::new())
        {
            let pool = decode_json(&json.to_string()).unwrap().unwrap();
            assert_eq!(json["status"], *pool.status);
            let expected = &vector["expected"]["nodepool"][&*pool.name];
            if expected.is_null() {
                continue;
            }
            shown += 1;
            let text =
                |text: Option<&Arc<str>>| text.map_or(Value::Null, |text| Value::from(&**text));
            assert_eq!(expected["status"], *pool.status);
            assert_eq!(expected["tpuTopology"], text(pool.topology.as_ref()));
            assert_eq!(expected["tpuAccelerator"], text(pool.accelerator.as_ref()));
            assert_eq!(expected["spot"] == true, pool.spot);
        }
    }
    assert!(shown > 0);
}

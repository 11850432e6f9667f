//! Every object of the shared vectors reads, and comes to the counts and attributes that need no
//! other object.

use std::path::PathBuf;

use serde_json::Value;

use crate::model::{Readiness, Topology};
use crate::watch::{Interner, NodeRules, jobset, leader_worker_set, node, slice};

/// The lines of a file of vectors; `None` where the vectors are not here.
pub(crate) fn lines(file: &str) -> Option<Vec<Value>> {
    let folder = std::env::var_os("MEGAMON_VECTORS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors"),
        PathBuf::from,
    );
    let path = folder.join(file);
    if !path.exists() {
        eprintln!(
            "skipped: {} is not there; MEGAMON_VECTORS names the folder",
            path.display()
        );
        return None;
    }
    let text = std::fs::read_to_string(&path).unwrap();
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

/// The objects of one kind of a vector, `null` being none.
fn objects<'a>(vector: &'a Value, kind: &str) -> impl Iterator<Item = (&'a Value, String)> {
    let list = vector["objects"][kind]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter().map(|object| (object, object.to_string()))
}

/// The attributes that a family shows of an object, and its counts but for `ready`.
fn check(expected: &Value, what: &str, fields: &[(&str, Value)]) {
    for (key, value) in fields {
        assert_eq!(expected[*key], *value, "{what}: {key} of {expected}");
    }
}

/// An attribute that is left out when empty.
fn text(value: Option<&std::sync::Arc<str>>) -> Value {
    value.map_or(Value::Null, |value| Value::from(&**value))
}

/// An attribute that is left out when false, a count when 0.
fn shown(value: impl Into<Value>) -> Value {
    let value = value.into();
    if value == false || value == 0 {
        Value::Null
    } else {
        value
    }
}

#[test]
fn vectors_fleets_jobsets() {
    let Some(vectors) = lines("fleets.jsonl") else {
        return;
    };
    let mut strings = Interner::default();
    let mut read = 0;
    for vector in &vectors {
        for (object, json) in objects(vector, "jobsets") {
            let jobset = jobset::decode(&json, &mut strings).unwrap().object;
            read += 1;
            let uid = &*jobset.uid;
            let what = object["metadata"]["name"].to_string();
            let attributes = [
                ("jobsetName", Value::from(&*jobset.name)),
                ("jobsetNamespace", Value::from(&*jobset.namespace)),
                ("jobsetUID", Value::from(uid)),
                ("tpuTopology", text(jobset.topology.as_ref())),
                ("tpuAccelerator", text(jobset.accelerator.as_ref())),
                ("tpuChipCount", shown(jobset.chips)),
                ("spot", shown(jobset.spot)),
            ];
            let expected = &vector["expected"]["jobset"][uid];
            check(expected, &what, &attributes);
            let status = if jobset.completed.is_some() {
                Value::from("Completed")
            } else if jobset.failed.is_some() {
                Value::from("Failed")
            } else if jobset.suspended.is_some() {
                Value::from("Suspended")
            } else {
                Value::Null
            };
            check(
                expected,
                &what,
                &[
                    ("expectedCount", Value::from(jobset.expected)),
                    ("readyCount", Value::from(jobset.ready)),
                    ("expectedDown", Value::from(jobset.completed.is_some())),
                    ("status", status),
                ],
            );
            let nodes = &vector["expected"]["jobset.nodes"][uid];
            if vector["sliceMode"] == false {
                check(nodes, &what, &attributes);
                check(
                    nodes,
                    &what,
                    &[("expectedCount", Value::from(jobset.expected_nodes))],
                );
            }
        }
    }
    assert!(read > 0);
}

#[test]
fn vectors_fleets_leader_worker_sets() {
    let Some(vectors) = lines("fleets.jsonl") else {
        return;
    };
    let mut strings = Interner::default();
    let mut read = 0;
    for vector in &vectors {
        for (_, json) in objects(vector, "leaderworkersets") {
            let lws = leader_worker_set::decode(&json, &mut strings)
                .unwrap()
                .object;
            read += 1;
            check(
                &vector["expected"]["lws"][&*lws.uid],
                &lws.name,
                &[
                    ("lwsName", Value::from(&*lws.name)),
                    ("lwsNamespace", Value::from(&*lws.namespace)),
                    ("expectedCount", Value::from(lws.expected)),
                    ("readyCount", Value::from(lws.ready)),
                    ("tpuTopology", text(lws.topology.as_ref())),
                    ("tpuAccelerator", text(lws.accelerator.as_ref())),
                    ("tpuChipCount", shown(lws.chips)),
                    ("spot", shown(lws.spot)),
                ],
            );
        }
    }
    assert!(read > 0);
}

#[test]
fn vectors_fleets_slices() {
    let Some(vectors) = lines("fleets.jsonl") else {
        return;
    };
    let mut strings = Interner::default();
    let mut read = 0;
    for vector in &vectors {
        for (_, json) in objects(vector, "slices") {
            let slice = slice::decode(&json, &mut strings).unwrap().object;
            read += 1;
            let here = slice.deleting.is_none();
            let is = |readiness| i64::from(here && slice.ready == Some(readiness));
            let chips = slice.topology.as_deref().and_then(|t| t.parse().ok());
            check(
                &vector["expected"]["slice"][&*slice.name],
                &slice.name,
                &[
                    ("sliceName", Value::from(&*slice.name)),
                    ("sliceUID", Value::from(&*slice.uid)),
                    ("readyCount", Value::from(is(Readiness::Ready))),
                    ("unknownCount", Value::from(is(Readiness::Unknown))),
                    ("tpuTopology", text(slice.topology.as_ref())),
                    ("tpuAccelerator", text(slice.accelerator.as_ref())),
                    ("tpuChipCount", shown(chips.map_or(0, Topology::chips))),
                    ("sliceOwnerKind", text(slice.owner.kind.as_ref())),
                    ("sliceOwnerName", text(slice.owner.name.as_ref())),
                    ("sliceOwnerNamespace", text(slice.owner.namespace.as_ref())),
                ],
            );
        }
    }
    assert!(read > 0);
}

#[test]
fn vectors_fleets_nodes() {
    let Some(vectors) = lines("fleets.jsonl") else {
        return;
    };
    let mut strings = Interner::default();
    let rules = NodeRules {
        pool_labels: vec!["cloud.google.com/gke-nodepool".to_owned()],
        resources: Vec::new(),
    };
    let mut read = 0;
    for vector in &vectors {
        for (object, json) in objects(vector, "nodes") {
            let node = node::decode(&json, &rules, &mut strings).unwrap().object;
            read += 1;
            let label = |name: &str| object["metadata"]["labels"][name].clone();
            assert_eq!(
                text(node.pool.as_ref()),
                label("cloud.google.com/gke-nodepool")
            );
            assert_eq!(
                text(node.topology.as_ref()),
                label("cloud.google.com/gke-tpu-topology")
            );
            let ready = object["status"]["conditions"]
                .as_array()
                .unwrap()
                .iter()
                .find(|condition| condition["type"] == "Ready");
            let (readiness, since) = match ready {
                None => (Readiness::Unknown, Value::Null),
                Some(ready) => (
                    match ready["status"].as_str().unwrap() {
                        "True" => Readiness::Ready,
                        "False" => Readiness::NotReady,
                        _ => Readiness::Unknown,
                    },
                    ready["lastTransitionTime"].clone(),
                ),
            };
            assert_eq!(node.readiness, readiness);
            assert_eq!(
                node.since
                    .map_or(Value::Null, |t| Value::from(t.to_string())),
                since
            );
        }
    }
    assert!(read > 0);
}

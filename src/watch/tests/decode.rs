//! What is read of each kind, field by field.

use serde_json::{Value, json};

use crate::model::{JobSet, LeaderWorkerSet, Node, Owner, Pod, Readiness, Slice};
use crate::watch::{
    DecodeError, Decoded, Interner, NodeRules, jobset, leader_worker_set, node, pod, slice,
};

const CREATED: &str = "2026-03-01T07:00:00Z";
const SINCE: &str = "2026-03-01T07:56:59Z";

/// An object with the metadata that all have, and more.
fn object(more: &Value) -> String {
    let mut object = json!({"metadata": {
        "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "42",
        "creationTimestamp": CREATED,
    }});
    merge(&mut object, more);
    object.to_string()
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

fn read_jobset(more: &Value) -> Result<Decoded<JobSet>, DecodeError> {
    jobset::decode(&object(more), &mut Interner::default())
}

fn read_lws(more: &Value) -> Result<Decoded<LeaderWorkerSet>, DecodeError> {
    leader_worker_set::decode(&object(more), &mut Interner::default())
}

fn read_slice(more: &Value) -> Result<Decoded<Slice>, DecodeError> {
    slice::decode(&object(more), &mut Interner::default())
}

fn read_pod(more: &Value) -> Result<Decoded<Pod>, DecodeError> {
    pod::decode(&object(more), &mut Interner::default())
}

fn read_node(more: &Value) -> Result<Decoded<Node>, DecodeError> {
    let rules = NodeRules {
        pool_labels: vec!["first".to_owned(), "second".to_owned()],
        resources: vec!["google.com/tpu".to_owned(), "nvidia.com/gpu".to_owned()],
    };
    node::decode(&object(more), &rules, &mut Interner::default())
}

fn job(replicas: &Value, parallelism: &Value, selector: &Value) -> Value {
    json!({"name": "j", "replicas": replicas, "template": {"spec": {
        "parallelism": parallelism,
        "template": {"spec": {"nodeSelector": selector, "containers": [{"name": "c"}]}},
    }}})
}

fn topology(text: &str) -> Value {
    json!({"cloud.google.com/gke-tpu-topology": text})
}

#[test]
fn jobsets_are_counted_over_their_replicated_jobs() {
    let null = Value::Null;
    // replicated jobs -> expected, nodes, chips, topology
    let cases = [
        ("none", json!([]), (0, 0, 0, None)),
        ("null", json!(null), (0, 0, 0, None)),
        ("bare", json!([{"name": "j"}]), (0, 0, 0, None)),
        (
            "parallelism is 1 by default",
            json!([job(&json!(2), &null, &topology("2x2x1"))]),
            (2, 2, 8, Some("2x2x1")),
        ),
        (
            "sums",
            json!([
                job(&json!(3), &json!(1), &topology("2x2x1")),
                job(&json!(2), &json!(3), &null)
            ]),
            (5, 9, 12, Some("2x2x1")),
        ),
        (
            "no replicas",
            json!([job(&json!(0), &json!(4), &topology("2x2"))]),
            (0, 0, 0, Some("2x2")),
        ),
        (
            "several topologies: the last is shown, all count",
            json!([
                job(&json!(1), &json!(1), &topology("4x4")),
                job(&json!(2), &json!(1), &topology("2x2"))
            ]),
            (3, 3, 24, Some("2x2")),
        ),
        (
            "one that does not parse is shown and adds nothing",
            json!([
                job(&json!(1), &json!(1), &topology("4x4")),
                job(&json!(2), &json!(1), &topology("4by4"))
            ]),
            (3, 3, 16, Some("4by4")),
        ),
        (
            "beyond any number",
            json!([
                job(&json!(i64::MAX), &json!(2), &topology("2x2")),
                job(&json!(1), &json!(1), &null)
            ]),
            (i64::MAX, i64::MAX, i64::MAX, Some("2x2")),
        ),
    ];
    for (case, jobs, (expected, nodes, chips, shown)) in cases {
        let read = read_jobset(&json!({"spec": {"replicatedJobs": jobs}})).unwrap();
        let jobset = read.object;
        assert_eq!(&*read.resource_version, "42");
        assert_eq!(
            (jobset.expected, jobset.expected_nodes, jobset.chips),
            (expected, nodes, chips),
            "{case}"
        );
        assert_eq!(jobset.topology.as_deref(), shown, "{case}");
        assert_eq!(
            (&*jobset.namespace, &*jobset.name, &*jobset.uid),
            ("ns", "n", "u")
        );
        assert_eq!(jobset.created.to_string(), CREATED);
    }
}

#[test]
fn a_jobsets_accelerator_and_spot_are_the_last_ones() {
    let spot = |value: &str| json!({"cloud.google.com/gke-spot": value});
    let accelerator = |value: &str| json!({"cloud.google.com/gke-tpu-accelerator": value});
    let cases = [
        ("none", vec![json!(null)], (None, false)),
        ("true", vec![spot("true")], (None, true)),
        ("only the word true", vec![spot("True")], (None, false)),
        ("the last", vec![spot("true"), spot("false")], (None, false)),
        (
            "the last that there is",
            vec![spot("true"), json!({"team": "a"})],
            (None, true),
        ),
        (
            "accelerators",
            vec![accelerator("x"), accelerator("y"), json!(null)],
            (Some("y"), false),
        ),
    ];
    for (case, selectors, (accelerator, spot)) in cases {
        let jobs: Vec<_> = selectors
            .iter()
            .map(|s| job(&json!(1), &json!(1), s))
            .collect();
        let jobset = read_jobset(&json!({"spec": {"replicatedJobs": jobs}}))
            .unwrap()
            .object;
        assert_eq!(
            (jobset.accelerator.as_deref(), jobset.spot),
            (accelerator, spot),
            "{case}"
        );
    }
}

#[test]
fn a_jobsets_status_is_read() {
    let status = json!({"status": {
        "replicatedJobsStatus": [
            {"name": "a", "ready": 2, "succeeded": 1, "failed": 5, "active": 9},
            {"name": "b", "ready": 3},
            {"name": "c", "ready": null},
        ],
        "conditions": [
            {"type": "StartupPolicyCompleted", "status": "True", "lastTransitionTime": "no time"},
            {"type": "Completed", "status": "True", "lastTransitionTime": SINCE},
            {"type": "Failed", "status": "False", "lastTransitionTime": SINCE},
            {"type": "Suspended", "status": "True", "lastTransitionTime": null},
        ],
    }});
    let jobset = read_jobset(&status).unwrap().object;
    assert_eq!(jobset.ready, 6);
    assert_eq!(
        jobset.completed.map(|t| t.to_string()).as_deref(),
        Some(SINCE)
    );
    assert_eq!(jobset.failed, None);
    assert_eq!(
        jobset.suspended.map(|t| t.to_string()).as_deref(),
        Some(CREATED)
    );
    assert!(!jobset.terminating);

    for nothing in [
        json!({"status": null}),
        json!({"status": {"conditions": null, "replicatedJobsStatus": null}}),
    ] {
        let jobset = read_jobset(&nothing).unwrap().object;
        assert_eq!((jobset.ready, jobset.completed), (0, None));
    }
    let deleted = read_jobset(&json!({"metadata": {"deletionTimestamp": SINCE}})).unwrap();
    assert!(deleted.object.terminating);
}

#[test]
fn what_every_object_has_must_be_there() {
    let cases = [
        (json!({"metadata": {"name": ""}}), "metadata.name"),
        (json!({"metadata": {"uid": null}}), "metadata.uid"),
        (
            json!({"metadata": {"creationTimestamp": null}}),
            "metadata.creationTimestamp",
        ),
        (
            json!({"metadata": {"creationTimestamp": "yesterday"}}),
            "metadata.creationTimestamp",
        ),
        (json!({"metadata": null}), "metadata."),
        (json!({"metadata": {"labels": 3}}), "a map of strings"),
    ];
    for (more, what) in &cases {
        for (kind, error) in [
            ("jobset", read_jobset(more).map(|_| ())),
            ("lws", read_lws(more).map(|_| ())),
            ("slice", read_slice(more).map(|_| ())),
            ("node", read_node(more).map(|_| ())),
        ] {
            let error = error.expect_err(kind).to_string();
            assert!(error.contains(what), "{kind}: {error}");
        }
    }
}

#[test]
fn leader_worker_sets_are_read() {
    let selector = |topology: &str| {
        json!({"cloud.google.com/gke-tpu-topology": topology,
               "cloud.google.com/gke-tpu-accelerator": "tpu7x",
               "cloud.google.com/gke-spot": "true"})
    };
    // spec.replicas, topology -> expected, chips
    let cases = [
        (json!(null), "2x2", 1, 4),
        (json!(0), "2x2", 0, 0),
        (json!(3), "2x2x2", 3, 24),
        (json!(3), "big", 3, 0),
    ];
    for (replicas, topology, expected, chips) in cases {
        let lws = read_lws(&json!({
            "spec": {"replicas": replicas, "leaderWorkerTemplate": {
                "size": 4,
                "leaderTemplate": {"spec": {"nodeSelector": selector("16x16")}},
                "workerTemplate": {"spec": {"nodeSelector": selector(topology)}},
            }},
            "status": {"readyReplicas": 2, "replicas": 3},
        }))
        .unwrap()
        .object;
        assert_eq!(
            (lws.expected, lws.ready, lws.chips),
            (expected, 2, chips),
            "{topology}"
        );
        assert_eq!(lws.topology.as_deref(), Some(topology));
        assert_eq!(lws.accelerator.as_deref(), Some("tpu7x"));
        assert!(lws.spot && !lws.terminating);
    }
    let bare = read_lws(&json!({})).unwrap().object;
    assert_eq!(
        (bare.expected, bare.ready, bare.chips, bare.spot),
        (1, 0, 0, false)
    );
}

#[test]
fn slices_are_read() {
    let ready = |status: &str| {
        json!([{"type": "Other", "status": "True"},
        {"type": "Ready", "status": status, "lastTransitionTime": SINCE}])
    };
    let cases = [
        (ready("True"), Some(Readiness::Ready)),
        (ready("False"), Some(Readiness::NotReady)),
        (ready("Unknown"), Some(Readiness::Unknown)),
        (json!([]), None),
        (json!(null), None),
    ];
    for (conditions, readiness) in cases {
        let slice = read_slice(&json!({
            "metadata": {"labels": {
                "tpu-provisioner.cloud.google.com/owner-kind": "jobset",
                "tpu-provisioner.cloud.google.com/owner-name": "train",
                "tpu-provisioner.cloud.google.com/owner-namespace": "",
            }},
            "spec": {"type": "tpu7x", "topology": "4x4x4", "partitionIds": null},
            "status": {"conditions": conditions},
        }))
        .unwrap()
        .object;
        assert_eq!(slice.ready, readiness);
        assert_eq!(
            slice.since.map(|t| t.to_string()).as_deref(),
            readiness.map(|_| SINCE)
        );
        assert_eq!(slice.accelerator.as_deref(), Some("tpu7x"));
        assert_eq!(slice.topology.as_deref(), Some("4x4x4"));
        assert_eq!(
            slice.owner,
            Owner {
                kind: Some("jobset".into()),
                namespace: None,
                name: Some("train".into()),
            }
        );
        assert_eq!(slice.deleting, None);
    }
    let deleting = read_slice(&json!({"metadata": {"deletionTimestamp": SINCE}})).unwrap();
    assert_eq!(
        deleting.object.deleting.map(|t| t.to_string()).as_deref(),
        Some(SINCE)
    );
    assert_eq!(deleting.object.owner, Owner::default());
}

#[test]
fn leader_pods_are_read() {
    for (phase, terminal) in [
        (json!("Pending"), false),
        (json!("Running"), false),
        (json!("Succeeded"), true),
        (json!("Failed"), true),
        (json!(null), false),
    ] {
        let pod = read_pod(&json!({
            "metadata": {"labels": {
                "batch.kubernetes.io/job-name": "train-j-0",
                "jobset.sigs.k8s.io/jobset-name": "train",
            }},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": phase},
        }))
        .unwrap()
        .object;
        assert_eq!(pod.terminal, terminal, "{phase}");
        assert_eq!(pod.job.as_deref(), Some("train-j-0"));
        assert_eq!(pod.jobset.as_deref(), Some("train"));
        assert_eq!(pod.node.as_deref(), Some("node-1"));
    }
    let pending = read_pod(&json!({"spec": {"nodeName": ""}})).unwrap().object;
    assert_eq!(
        (pending.node, pending.job, pending.terminal),
        (None, None, false)
    );
}

#[test]
fn a_nodes_readiness_is_its_ready_condition() {
    let condition = |status: &str, since: &Value| {
        json!([
        {"type": "MemoryPressure", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {"type": "Ready", "status": status, "lastHeartbeatTime": null, "lastTransitionTime": since}])
    };
    let cases = [
        (
            condition("True", &json!(SINCE)),
            Readiness::Ready,
            Some(SINCE),
        ),
        (
            condition("False", &json!(SINCE)),
            Readiness::NotReady,
            Some(SINCE),
        ),
        (
            condition("Unknown", &json!(SINCE)),
            Readiness::Unknown,
            Some(SINCE),
        ),
        (condition("True", &json!(null)), Readiness::Ready, None),
        (json!([]), Readiness::Unknown, None),
        (json!(null), Readiness::Unknown, None),
    ];
    for (conditions, readiness, since) in cases {
        let node = read_node(&json!({"status": {"conditions": conditions}}))
            .unwrap()
            .object;
        assert_eq!(node.readiness, readiness);
        assert_eq!(node.since.map(|t| t.to_string()).as_deref(), since);
    }
}

#[test]
fn a_nodes_pool_is_its_first_pool_label() {
    let cases = [
        (json!({"first": "a", "second": "b"}), Some("a")),
        (json!({"second": "b"}), Some("b")),
        (json!({"first": "", "second": "b"}), Some("b")),
        (json!({"third": "c"}), None),
        (json!(null), None),
    ];
    for (labels, pool) in cases {
        let node = read_node(&json!({"metadata": {"labels": labels}}))
            .unwrap()
            .object;
        assert_eq!(node.pool.as_deref(), pool, "{labels}");
    }
}

#[test]
fn a_nodes_labels_are_read() {
    let node = read_node(&json!({"metadata": {"labels": {
        "google.com/tpu-provisioner-jobset-namespace": "research",
        "google.com/tpu-provisioner-jobset-name": "train",
        "cloud.google.com/gke-tpu-topology": "2x4",
        "cloud.google.com/gke-tpu-accelerator": "tpu7x",
        "cloud.google.com/gke-accelerator-count": "4",
        "cloud.google.com/gke-spot": "true",
    }}}))
    .unwrap()
    .object;
    assert_eq!(node.jobset, Some(("research".into(), "train".into())));
    assert_eq!(node.topology.as_deref(), Some("2x4"));
    assert_eq!(node.accelerator.as_deref(), Some("tpu7x"));
    assert_eq!((node.accelerator_count, node.spot), (Some(4), true));

    let node = read_node(&json!({"metadata": {"labels": {
        "google.com/tpu-provisioner-jobset-name": "train",
        "cloud.google.com/gke-accelerator-count": "four",
        "cloud.google.com/gke-spot": "TRUE",
    }}}))
    .unwrap()
    .object;
    assert_eq!(node.jobset, None);
    assert_eq!((node.accelerator_count, node.spot), (None, false));
}

#[test]
fn a_node_offers_an_accelerator_when_it_has_some_of_a_configured_resource() {
    let cases = [
        (
            json!({"allocatable": {"google.com/tpu": "4", "cpu": "8"}}),
            true,
        ),
        (
            json!({"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "0"}}),
            true,
        ),
        (
            json!({"capacity": {"google.com/tpu": "0"}, "allocatable": {"google.com/tpu": "0"}}),
            false,
        ),
        (json!({"capacity": {"google.com/tpu": "0e3"}}), false),
        (json!({"capacity": {"google.com/tpu": "1k"}}), true),
        (json!({"capacity": {"cpu": "8", "amd.com/gpu": "8"}}), false),
        (json!({"capacity": null}), false),
    ];
    for (status, offers) in cases {
        let node = read_node(&json!({"status": status})).unwrap().object;
        assert_eq!(node.offers_accelerator, offers, "{status}");
    }
}

#[test]
fn texts_with_escapes_are_read_and_shared() {
    let mut strings = Interner::default();
    let json = object(&json!({"metadata": {"namespace": "n\u{e4}\"s"}}));
    let json = json.replace('\u{e4}', "\\u00e4");
    let one = jobset::decode(&json, &mut strings).unwrap().object;
    let two = jobset::decode(&json, &mut strings).unwrap().object;
    assert_eq!(&*one.namespace, "n\u{e4}\"s");
    assert!(std::sync::Arc::ptr_eq(&one.namespace, &two.namespace));
}

#[test]
fn node_rules_follow_the_pool_sources() {
    use crate::config::{Gke, LabelPools, NodePools};
    const GKE: &str = "cloud.google.com/gke-nodepool";
    let labels = |names: &[&str]| LabelPools {
        labels: names.iter().map(|name| (*name).to_owned()).collect(),
        resources: vec!["r".to_owned()],
        sizes: std::collections::BTreeMap::default(),
        empty_after: std::time::Duration::ZERO,
    };
    let gke = Gke {
        project: None,
        location: None,
        cluster: None,
        endpoint: None,
        interval: std::time::Duration::ZERO,
    };
    let cases = [
        (Some(labels(&["a", GKE])), None, vec!["a", GKE]),
        (Some(labels(&["a", GKE])), Some(gke.clone()), vec!["a", GKE]),
        (Some(labels(&["a"])), Some(gke.clone()), vec![GKE, "a"]),
        (Some(labels(&["a"])), None, vec!["a"]),
        (None, Some(gke), vec![GKE]),
        (None, None, vec![]),
    ];
    for (labels, gke, expected) in cases {
        let rules = NodeRules::of(&NodePools { labels, gke });
        assert_eq!(rules.pool_labels, expected);
    }
}

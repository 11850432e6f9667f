//! The Kubernetes objects of the scenarios, and what the tests read off them.

use serde_json::{Value, json};

use crate::ledger::{Entry, Span};
use crate::servers::api::{JOBSETS, Seen};

/// The topology of every pool and JobSet here: 8 chips, on two hosts of 4.
pub(crate) const TOPOLOGY: &str = "2x4";
/// Their accelerator.
pub(crate) const ACCELERATOR: &str = "tpu-v5-lite-podslice";
/// The namespace of the JobSets.
pub(crate) const NAMESPACE: &str = "default";

/// The path of a node, and of its status.
pub(crate) fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// The path of a JobSet.
pub(crate) fn jobset_path(name: &str) -> String {
    format!("{JOBSETS}/namespaces/{NAMESPACE}/jobsets/{name}")
}

/// A TPU node as its kubelet registers it: not ready yet. It may be labelled for a JobSet.
pub(crate) fn node(name: &str, pool: &str, jobset: Option<&str>) -> Value {
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let resources = json!({"cpu": "16", "memory": "64Gi", "pods": "32", "google.com/tpu": "4"});
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "cloud.google.com/gke-nodepool": pool,
            "cloud.google.com/gke-tpu-topology": TOPOLOGY,
            "cloud.google.com/gke-tpu-accelerator": ACCELERATOR,
            "cloud.google.com/gke-accelerator-count": "4",
        }},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "KubeletNotReady",
                "message": "starting", "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
        },
    });
    if let Some(jobset) = jobset {
        let labels = &mut node["metadata"]["labels"];
        labels["google.com/tpu-provisioner-jobset-namespace"] = json!(NAMESPACE);
        labels["google.com/tpu-provisioner-jobset-name"] = json!(jobset);
    }
    node
}

/// A JobSet of so many Jobs, each with two pods that take a host each.
pub(crate) fn jobset(name: &str, jobs: u32) -> Value {
    json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "failurePolicy": {"maxRestarts": 5},
            "replicatedJobs": [{"name": "workers", "replicas": jobs, "template": {"spec": {
                "parallelism": 2, "completions": 2, "backoffLimit": 0,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "nodeSelector": {
                        "cloud.google.com/gke-tpu-topology": TOPOLOGY,
                        "cloud.google.com/gke-tpu-accelerator": ACCELERATOR,
                    },
                    "containers": [{"name": "train", "image": "train",
                        "resources": {"limits": {"google.com/tpu": "4"}}}],
                }},
            }}}],
        },
    })
}

/// A time of the API, in seconds since the epoch.
pub(crate) fn api_time(value: &Value) -> f64 {
    let text = value
        .as_str()
        .unwrap_or_else(|| panic!("not a time: {value}"));
    let time: jiff::Timestamp = text.parse().expect("the API's times are RFC 3339");
    time.as_duration().as_secs_f64()
}

/// When an object was created.
pub(crate) fn created(object: &Value) -> Span {
    Span::exact(api_time(&object["metadata"]["creationTimestamp"]))
}

/// A condition of an object.
fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Since when a node's Ready condition has had this status, or what it has instead.
pub(crate) fn ready_is(node: &Value, status: &str) -> Result<Span, String> {
    match condition(node, "Ready") {
        Some(ready) if ready["status"] == status => {
            Ok(Span::exact(api_time(&ready["lastTransitionTime"])))
        }
        other => Err(format!("{}: {other:?}", node["metadata"]["name"])),
    }
}

/// How many Jobs of a JobSet there should be.
fn jobs(jobset: &Value) -> i64 {
    let replicated = jobset["spec"]["replicatedJobs"].as_array();
    let replicas = |job: &Value| job["replicas"].as_i64().unwrap_or(1);
    replicated.into_iter().flatten().map(replicas).sum()
}

/// How many of them the JobSet controller says are ready or have succeeded.
fn jobs_ready(jobset: &Value) -> i64 {
    let statuses = jobset["status"]["replicatedJobsStatus"].as_array();
    let count = |status: &Value, key: &str| status[key].as_i64().unwrap_or(0);
    let ready = |status: &Value| count(status, "ready") + count(status, "succeeded");
    statuses.into_iter().flatten().map(ready).sum()
}

/// Since when a JobSet is Completed.
fn completed(jobset: &Value) -> Option<Span> {
    let completed = condition(jobset, "Completed")?;
    let at = || Span::exact(api_time(&completed["lastTransitionTime"]));
    (completed["status"] == "True").then(at)
}

/// Whether a JobSet is up by its own status.
pub(crate) fn jobset_up(jobset: &Value) -> bool {
    jobs_ready(jobset) >= jobs(jobset) && completed(jobset).is_none()
}

fn jobset_labels(jobset: &Value) -> Vec<(&str, &str)> {
    let meta = &jobset["metadata"];
    vec![
        ("jobset_namespace", NAMESPACE),
        ("jobset_name", meta["name"].as_str().expect("a name")),
        ("jobset_uid", meta["uid"].as_str().expect("a UID")),
        ("tpu_topology", TOPOLOGY),
        ("tpu_accelerator", ACCELERATOR),
    ]
}

/// A JobSet's entry, from every version of it that the API server showed, but for those that came
/// and went between two instants, while the program was away.
pub(crate) fn jobset_entry(versions: &[Seen], away: Option<(f64, f64)>) -> Entry {
    let first = &versions.first().expect("it was seen").object;
    let mut entry = Entry::new("jobset", &jobset_labels(first), created(first));
    let missed = |at: f64| away.is_some_and(|(from, until)| from <= at && at <= until);
    for (index, seen) in versions.iter().enumerate() {
        let replaced = versions.get(index + 1).is_some_and(|next| missed(next.at));
        if missed(seen.at) && replaced {
            continue;
        }
        let jobset = &seen.object;
        match (entry.is_up(), completed(jobset)) {
            (true, Some(at)) => entry.expected_down(at),
            (false, None) if jobset_up(jobset) => entry.up(Span::seen(seen.at)),
            (true, None) if !jobset_up(jobset) => entry.down(Span::seen(seen.at)),
            _ => {}
        }
        entry.expected = jobs(jobset);
        entry.counts(jobs_ready(jobset), 0);
        entry.chips = jobs(jobset) * 8;
        if completed(jobset).is_some() {
            entry.expected_down = true;
            entry.conditions.insert("Completed");
        }
    }
    entry
}

/// The entry of a JobSet's nodes, down since it was created.
pub(crate) fn jobset_nodes_entry(jobset: &Value) -> Entry {
    let mut entry = Entry::new("jobset_nodes", &jobset_labels(jobset), created(jobset));
    entry.expected = jobs(jobset) * 2;
    entry.chips = jobs(jobset) * 8;
    entry
}

/// The entry of a pool of two hosts, down since then.
pub(crate) fn pool_entry(pool: &str, first: Span) -> Entry {
    let labels = [
        ("nodepool_name", pool),
        ("tpu_topology", TOPOLOGY),
        ("tpu_accelerator", ACCELERATOR),
    ];
    let mut entry = Entry::new("nodepool", &labels, first);
    entry.expected = 2;
    entry.chips = 8;
    entry
}

/// A pod that is bound and has not ended: its node, its Job, its JobSet, and whether it is a
/// leader.
pub(crate) fn placed(pod: &Value) -> Option<(String, String, String, bool)> {
    let label = |key: &str| {
        let value = pod["metadata"]["labels"][key].as_str();
        value.map(str::to_owned)
    };
    let phase = pod["status"]["phase"].as_str();
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return None;
    }
    let leader = label("batch.kubernetes.io/job-completion-index").as_deref() == Some("0");
    Some((
        pod["spec"]["nodeName"].as_str()?.to_owned(),
        label("batch.kubernetes.io/job-name")?,
        label("jobset.sigs.k8s.io/jobset-name")?,
        leader,
    ))
}

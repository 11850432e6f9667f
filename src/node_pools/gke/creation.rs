//! How each node pool was made: its create operation, found once and then remembered.

use std::collections::HashMap;
use std::sync::Arc;

use google_cloud_container_v1::model::operation::{Status, Type};
use google_cloud_container_v1::model::{self as api};
use jiff::Timestamp;

use crate::model::{NodePool, Operation};

/// What is known of how the pools that exist were made.
#[derive(Debug, Default)]
pub(super) struct Creations(HashMap<Arc<str>, Creation>);

#[derive(Clone, Debug)]
struct Creation {
    operation: Option<Operation>,
    /// Nothing more is to be learnt: the operation is over, or is not known to the API any more.
    settled: bool,
}

impl Creations {
    /// Forgets pools that are gone, so that one made anew under the same name is asked for anew.
    pub(super) fn keep(&mut self, pools: &[NodePool]) {
        self.0
            .retain(|name, _| pools.iter().any(|pool| pool.name == *name));
    }

    /// Whether the operations would say something new of these pools.
    pub(super) fn wanting(&self, pools: &[NodePool]) -> bool {
        pools.iter().any(|pool| self.wants(pool))
    }

    fn wants(&self, pool: &NodePool) -> bool {
        match self.0.get(&pool.name) {
            None => true,
            // A pool whose making is over is not provisioning: this is another of that name.
            Some(creation) if provisioning(pool) => {
                creation.operation.is_none() || creation.settled
            }
            Some(creation) => !creation.settled,
        }
    }

    /// Takes what the operations of the cluster's location say of the pools that want it.
    pub(super) fn learn(&mut self, cluster: &str, pools: &[NodePool], listed: &[api::Operation]) {
        for pool in pools {
            if !self.wants(pool) {
                continue;
            }
            // The latest, where a pool of that name was made before.
            let found = listed
                .iter()
                .filter(|operation| makes(operation, cluster, &pool.name))
                .filter_map(read)
                .max_by_key(|(operation, _)| operation.start);
            let creation = match found {
                Some((operation, over)) => Creation {
                    operation: Some(operation),
                    settled: over,
                },
                None => Creation {
                    operation: self.of(&pool.name),
                    settled: !provisioning(pool),
                },
            };
            self.0.insert(pool.name.clone(), creation);
        }
    }

    /// The operation that made a pool, where it is known.
    pub(super) fn of(&self, name: &str) -> Option<Operation> {
        self.0.get(name)?.operation.clone()
    }
}

fn provisioning(pool: &NodePool) -> bool {
    &*pool.status == "PROVISIONING"
}

/// Whether an operation is the making of that pool of that cluster.
fn makes(operation: &api::Operation, cluster: &str, pool: &str) -> bool {
    operation.operation_type == Type::CreateNodePool
        && operation
            .target_link
            .strip_suffix(pool)
            .and_then(|link| link.strip_suffix("/nodePools/"))
            .and_then(|link| link.strip_suffix(cluster))
            .is_some_and(|link| link.ends_with("/clusters/"))
}

/// An operation and whether it is over; `None` where it does not say when it started.
fn read(operation: &api::Operation) -> Option<(Operation, bool)> {
    let start: Timestamp = operation.start_time.parse().ok()?;
    let over = operation.status == Status::Done;
    let in_error = operation
        .error
        .as_ref()
        .is_some_and(|error| error.code != 0 || !error.message.is_empty());
    let failed = (over && in_error)
        .then(|| operation.end_time.parse().ok())
        .flatten();
    Some((Operation { start, failed }, over))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, status: &str) -> NodePool {
        NodePool {
            name: name.into(),
            status: status.into(),
            topology: None,
            accelerator: None,
            machine_type: None,
            spot: false,
            operation: None,
        }
    }

    fn operations(json: &serde_json::Value) -> Vec<api::Operation> {
        serde_json::from_value(json.clone()).unwrap()
    }

    fn made(name: &str, start: &str, more: &serde_json::Value) -> serde_json::Value {
        let mut operation = serde_json::json!({
            "name": "operation-1",
            "operationType": "CREATE_NODE_POOL",
            "status": "RUNNING",
            "startTime": start,
            "targetLink": format!(
                "https://container.googleapis.com/v1/projects/1/locations/l/clusters/c/nodePools/{name}"
            ),
        });
        for (key, value) in more.as_object().unwrap() {
            operation[key] = value.clone();
        }
        operation
    }

    const START: &str = "2026-03-01T08:00:00.123456789Z";
    const END: &str = "2026-03-01T08:10:00Z";

    #[test]
    fn an_operation_is_found_by_type_cluster_and_name() {
        let none = serde_json::json!({});
        let cases = [
            ("it", made("p", START, &none), true),
            ("another pool", made("pp", START, &none), false),
            (
                "a pool whose name ends so",
                made("a-p", START, &none),
                false,
            ),
            (
                "another type",
                made(
                    "p",
                    START,
                    &serde_json::json!({"operationType": "DELETE_NODE_POOL"}),
                ),
                false,
            ),
            (
                "an unknown type",
                made("p", START, &serde_json::json!({"operationType": "NEW"})),
                false,
            ),
            ("no start", made("p", "", &none), false),
            (
                "another cluster",
                made(
                    "p",
                    START,
                    &serde_json::json!({"targetLink": "https://x/v1/projects/1/locations/l/clusters/d/nodePools/p"}),
                ),
                false,
            ),
            (
                "another cluster whose name ends so",
                made(
                    "p",
                    START,
                    &serde_json::json!({"targetLink": "https://x/v1/projects/1/locations/l/clusters/b-c/nodePools/p"}),
                ),
                false,
            ),
            (
                "zonal links too",
                made(
                    "p",
                    START,
                    &serde_json::json!({"targetLink": "https://x/v1/projects/1/zones/z/clusters/c/nodePools/p"}),
                ),
                true,
            ),
        ];
        for (case, operation, found) in cases {
            let mut creations = Creations::default();
            let pools = [pool("p", "RUNNING")];
            creations.learn("c", &pools, &operations(&serde_json::json!([operation])));
            assert_eq!(creations.of("p").is_some(), found, "{case}");
        }
    }

    #[test]
    fn an_operation_failed_only_when_it_ended_in_an_error() {
        let error = serde_json::json!({"code": 8, "message": "no capacity"});
        let cases = [
            ("runs", serde_json::json!({}), None),
            (
                "done",
                serde_json::json!({"status": "DONE", "endTime": END}),
                None,
            ),
            (
                "failed",
                serde_json::json!({"status": "DONE", "endTime": END, "error": error}),
                Some(END),
            ),
            (
                "an error on the way",
                serde_json::json!({"error": error}),
                None,
            ),
            (
                "no error at all",
                serde_json::json!({"status": "DONE", "endTime": END, "error": {}}),
                None,
            ),
        ];
        for (case, more, failed) in cases {
            let mut creations = Creations::default();
            let listed = operations(&serde_json::json!([made("p", START, &more)]));
            creations.learn("c", &[pool("p", "ERROR")], &listed);
            let operation = creations.of("p").unwrap();
            assert_eq!(operation.start.to_string(), START, "{case}");
            assert_eq!(
                operation.failed,
                failed.map(|end| end.parse().unwrap()),
                "{case}"
            );
        }
    }

    #[test]
    fn operations_are_asked_for_only_when_they_say_something_new() {
        let none = serde_json::json!({});
        let done = serde_json::json!({"status": "DONE", "endTime": END});
        let running = operations(&serde_json::json!([made("p", START, &none)]));
        let over = operations(&serde_json::json!([made("p", START, &done)]));
        let cases: [(&str, &str, &[api::Operation], &str, bool); 8] = [
            (
                "old pool, forgotten operation",
                "RUNNING",
                &[],
                "RUNNING",
                false,
            ),
            (
                "old pool, known operation",
                "RUNNING",
                &over,
                "RUNNING",
                false,
            ),
            (
                "new pool, not listed yet",
                "PROVISIONING",
                &[],
                "PROVISIONING",
                true,
            ),
            (
                "new pool, listed",
                "PROVISIONING",
                &running,
                "PROVISIONING",
                false,
            ),
            (
                "made, its end not known",
                "PROVISIONING",
                &running,
                "RUNNING",
                true,
            ),
            (
                "failed, its end not known",
                "PROVISIONING",
                &running,
                "ERROR",
                true,
            ),
            (
                "made anew between two polls",
                "RUNNING",
                &over,
                "PROVISIONING",
                true,
            ),
            ("still being stopped", "RUNNING", &over, "STOPPING", false),
        ];
        for (case, first, listed, then, wanting) in cases {
            let mut creations = Creations::default();
            assert!(creations.wanting(&[pool("p", first)]), "{case}: unknown");
            creations.learn("c", &[pool("p", first)], listed);
            assert_eq!(creations.wanting(&[pool("p", then)]), wanting, "{case}");
        }
    }

    #[test]
    fn the_latest_making_counts_and_a_gone_pool_is_forgotten() {
        let none = serde_json::json!({});
        let listed = operations(&serde_json::json!([
            made("p", "2026-03-01T08:00:00Z", &none),
            made("p", "2026-03-01T09:00:00Z", &none),
            made("p", "2026-03-01T07:00:00Z", &none),
        ]));
        let mut creations = Creations::default();
        creations.learn("c", &[pool("p", "PROVISIONING")], &listed);
        let start = creations.of("p").unwrap().start;
        assert_eq!(start, "2026-03-01T09:00:00Z".parse::<Timestamp>().unwrap());
        creations.keep(&[pool("q", "RUNNING")]);
        assert_eq!(creations.of("p"), None);
    }

    #[test]
    fn an_operation_once_known_stays() {
        let none = serde_json::json!({});
        let listed = operations(&serde_json::json!([made("p", START, &none)]));
        let mut creations = Creations::default();
        creations.learn("c", &[pool("p", "PROVISIONING")], &listed);
        creations.learn("c", &[pool("p", "RUNNING")], &[]);
        assert!(creations.of("p").is_some());
        assert!(!creations.wanting(&[pool("p", "RUNNING")]));
    }
}

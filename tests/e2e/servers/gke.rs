//! A scripted stand-in of the part of the GKE API that lists node pools and operations. There is
//! no real one to be had here; paths and fields are those of its published REST surface.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

use super::free_port;

/// What it answers.
#[derive(Debug, Default)]
struct Script {
    pools: Vec<Value>,
    operations: Vec<Value>,
    failing: bool,
    calls: u64,
}

/// The stand-in; it ends when it is dropped.
pub(crate) struct Gke {
    script: Arc<Mutex<Script>>,
    port: u16,
    task: tokio::task::JoinHandle<()>,
}

impl Gke {
    /// The project, location and cluster it has.
    pub(crate) const PROJECT: &str = "e2e-project";
    /// See [`Gke::PROJECT`].
    pub(crate) const LOCATION: &str = "us-east5-a";
    /// See [`Gke::PROJECT`].
    pub(crate) const CLUSTER: &str = "e2e-cluster";

    /// Starts it without pools.
    pub(crate) async fn start() -> Self {
        let script = Arc::new(Mutex::new(Script::default()));
        let location = format!(
            "/v1/projects/{}/locations/{}",
            Self::PROJECT,
            Self::LOCATION
        );
        let pools = format!("{location}/clusters/{}/nodePools", Self::CLUSTER);
        let app = Router::new()
            .route(&pools, get(node_pools))
            .route(&format!("{location}/operations"), get(operations))
            .with_state(script.clone());
        let port = free_port();
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port))
            .await
            .expect("a free port");
        let task = tokio::spawn(async move {
            axum::serve(listener, app)
                .await
                .expect("the stand-in serves");
        });
        Self { script, port, task }
    }

    /// Its URL.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn edit(&self, edit: impl FnOnce(&mut Script)) {
        edit(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Every call fails from now on, or no more.
    pub(crate) fn failing(&self, failing: bool) {
        self.edit(|script| script.failing = failing);
    }

    /// How often the pools were asked for.
    pub(crate) fn calls(&self) -> u64 {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.calls
    }

    /// Begins to create a TPU pool of two 4-chip machines, at `started` (RFC 3339).
    pub(crate) fn create_pool(&self, name: &str, started: &str) {
        let cluster = format!(
            "https://container.googleapis.com/v1/projects/{}/zones/{}/clusters/{}",
            Self::PROJECT,
            Self::LOCATION,
            Self::CLUSTER
        );
        let pool = json!({
            "name": name,
            "status": "PROVISIONING",
            "initialNodeCount": 2,
            "selfLink": format!("{cluster}/nodePools/{name}"),
            "config": {
                "machineType": "ct5lp-hightpu-4t",
                "resourceLabels": {"goog-gke-accelerator-type": "tpu-v5-lite-podslice"},
            },
            "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x4"},
        });
        let begun = {
            let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
            script.operations.len()
        };
        let operation = json!({
            "name": format!("operation-{begun}"),
            "operationType": "CREATE_NODE_POOL",
            "status": "RUNNING",
            "zone": Self::LOCATION,
            "startTime": started,
            "targetLink": format!("{cluster}/nodePools/{name}"),
        });
        self.edit(|script| {
            script.pools.push(pool);
            script.operations.push(operation);
        });
    }

    /// The pool's status becomes this.
    pub(crate) fn set_status(&self, name: &str, status: &str) {
        self.edit(|script| {
            for pool in &mut script.pools {
                if pool["name"] == name {
                    pool["status"] = json!(status);
                }
            }
        });
    }

    /// The pool's newest create operation ends, with or without an error.
    pub(crate) fn end_operation(&self, name: &str, ended: &str, error: Option<&str>) {
        let target = format!("/nodePools/{name}");
        let of_it = |operation: &&mut Value| {
            let link = operation["targetLink"].as_str();
            link.is_some_and(|link| link.ends_with(&target))
        };
        self.edit(|script| {
            let newest = script.operations.iter_mut().rev().find(of_it);
            let operation = newest.expect("the pool was created");
            operation["status"] = json!("DONE");
            operation["endTime"] = json!(ended);
            if let Some(error) = error {
                operation["error"] = json!({"code": 8, "message": error});
                operation["statusMessage"] = json!(error);
            }
        });
    }

    /// The pool is no longer listed.
    pub(crate) fn remove_pool(&self, name: &str) {
        self.edit(|script| script.pools.retain(|pool| pool["name"] != name));
    }
}

impl Drop for Gke {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn node_pools(State(script): State<Arc<Mutex<Script>>>) -> Response {
    let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
    script.calls += 1;
    answer(&script, |script| json!({"nodePools": script.pools}))
}

async fn operations(State(script): State<Arc<Mutex<Script>>>) -> Response {
    let script = script.lock().unwrap_or_else(PoisonError::into_inner);
    answer(&script, |script| json!({"operations": script.operations}))
}

fn answer(script: &Script, body: impl FnOnce(&Script) -> Value) -> Response {
    let (status, body) = if script.failing {
        let error = json!({"error": {"code": 503, "status": "UNAVAILABLE",
            "message": "The service is currently unavailable."}});
        (StatusCode::SERVICE_UNAVAILABLE, error)
    } else {
        (StatusCode::OK, body(script))
    };
    let json = [(header::CONTENT_TYPE, "application/json; charset=UTF-8")];
    (status, json, body.to_string()).into_response()
}

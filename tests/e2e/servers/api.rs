//! The Kubernetes API as the tests speak it: paths and JSON, and a recording of every version of
//! the objects of a kind that the API server showed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Method, Request};
use kube::Client;
use kube::core::WatchEvent;
use serde_json::{Value, json};

use super::now;

/// The group and version of JobSets.
pub(crate) const JOBSETS: &str = "/apis/jobset.x-k8s.io/v1alpha2";

/// A client of one API server, for the runtime it was made in.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
}

impl Api {
    /// A client by kubeconfig.
    pub(crate) async fn connect(kubeconfig: &std::path::Path) -> Self {
        super::install_tls_provider();
        let file = kube::config::Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let mut config =
            kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default())
                .await
                .expect("a usable kubeconfig");
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        let client = Client::try_from(config).expect("a client");
        Self { client }
    }

    /// One request; the answer is JSON, or text as a JSON string.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let bytes = body.map(|body| serde_json::to_vec(body).expect("JSON"));
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(bytes.unwrap_or_default())
            .expect("a request");
        let answer = self.client.request_text(request);
        let text = tokio::time::timeout(Duration::from_secs(30), answer)
            .await
            .map_err(|_| format!("{method} {path}: no answer in 30 s"))?
            .map_err(|error| format!("{method} {path}: {error}"))?;
        Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Reads an object or a list.
    pub(crate) async fn get(&self, path: &str) -> Result<Value, String> {
        self.request(Method::GET, path, "application/json", None)
            .await
    }

    /// The objects of a list.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.expect("the list");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Creates an object.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        self.request(Method::POST, path, "application/json", Some(object))
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Merges a patch into an object, or into its `/status`.
    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Result<Value, String> {
        let kind = "application/merge-patch+json";
        self.request(Method::PATCH, path, kind, Some(patch)).await
    }

    /// Deletes an object.
    pub(crate) async fn delete(&self, path: &str) {
        let options = json!({"propagationPolicy": "Background"});
        self.request(Method::DELETE, path, "application/json", Some(&options))
            .await
            .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Whether the API server says that it is ready.
    pub(crate) async fn ready(&self) -> Result<(), String> {
        self.get("/readyz").await.map(drop)
    }

    /// Records from now on every version of the objects of a list path.
    pub(crate) async fn record(&self, path: &str) -> Recording {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let version = list_into(self, path, &seen).await.expect("the list");
        let task = tokio::spawn(follow(self.clone(), path.to_owned(), version, seen.clone()));
        Recording { seen, task }
    }
}

type Versions = Arc<Mutex<Vec<Seen>>>;

fn push(seen: &Versions, deleted: bool, object: Value) {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.push(Seen {
        at: now(),
        deleted,
        object,
    });
}

/// Lists, and records what is new against the versions already seen. Returns the list's version.
async fn list_into(api: &Api, path: &str, seen: &Versions) -> Result<String, String> {
    let list = api.get(path).await?;
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let mut before: Vec<Value> = Vec::new();
    for version in seen.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        before.retain(|object| uid(object) != uid(&version.object));
        if !version.deleted {
            before.push(version.object.clone());
        }
    }
    let objects = list["items"].as_array().cloned().unwrap_or_default();
    for gone in before
        .iter()
        .filter(|old| !objects.iter().any(|new| uid(new) == uid(old)))
    {
        push(seen, true, gone.clone());
    }
    for object in objects {
        if !before.contains(&object) {
            push(seen, false, object);
        }
    }
    let version = list["metadata"]["resourceVersion"].as_str();
    Ok(version.ok_or("a list without a version")?.to_owned())
}

/// Watches on from a version for as long as the task lives, over interruptions too. A server that
/// no longer has that version is asked for a list.
async fn follow(api: Api, path: String, mut version: String, seen: Versions) {
    loop {
        let request = Request::get(format!(
            "{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
        ))
        .body(Vec::new())
        .expect("a request");
        let mut expired = false;
        match api.client.request_events::<Value>(request).await {
            Err(kube::Error::Api(status)) => expired = status.code == 410,
            Err(_) => {}
            Ok(events) => {
                let mut events: BoxStream<'_, kube::Result<WatchEvent<Value>>> = events.boxed();
                while let Some(Ok(event)) = events.next().await {
                    let (deleted, object) = match event {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => (false, object),
                        WatchEvent::Deleted(object) => (true, object),
                        WatchEvent::Bookmark(mark) => {
                            version = mark.metadata.resource_version;
                            continue;
                        }
                        WatchEvent::Error(_) => {
                            expired = true;
                            break;
                        }
                    };
                    if let Some(newer) = object["metadata"]["resourceVersion"].as_str() {
                        newer.clone_into(&mut version);
                    }
                    push(&seen, deleted, object);
                }
            }
        }
        if expired && let Ok(newer) = list_into(&api, &path, &seen).await {
            version = newer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// One version of an object.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// When it was received, in seconds since the epoch.
    pub(crate) at: f64,
    /// Whether it was the last one.
    pub(crate) deleted: bool,
    /// The object.
    pub(crate) object: Value,
}

/// All versions of the objects of a kind; recording ends with it.
pub(crate) struct Recording {
    seen: Versions,
    task: tokio::task::JoinHandle<()>,
}

impl Recording {
    /// The versions of the objects with this name, in the order they came.
    pub(crate) fn of(&self, name: &str) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter()
            .filter(|seen| seen.object["metadata"]["name"] == name)
            .cloned()
            .collect()
    }

    /// The newest version of each object with this name, or an error when there is none or it is
    /// deleted.
    pub(crate) fn latest(&self, name: &str) -> Result<Value, String> {
        match self.of(name).pop() {
            Some(seen) if !seen.deleted => Ok(seen.object),
            Some(_) => Err(format!("{name} is deleted")),
            None => Err(format!("{name} was not seen yet")),
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.task.abort();
    }
}

//! An API server that answers by a script, and what a watch made of its answers.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body::Frame;
use http_body_util::StreamBody;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::measure::{Measurement, Recorder};
use crate::model::{Observation, Undecodable, Update};
use crate::watch::{Client, Feed, Options, Target, follow};

/// The instant at which every test starts.
pub(super) const START: &str = "2026-03-01T08:00:00Z";

/// How one request is answered.
pub(super) enum Answer {
    /// The connection is refused.
    Refused,
    /// Never.
    Never,
    /// With a status, headers and a body.
    Whole(u16, Vec<(&'static str, &'static str)>, String),
    /// With 200 and a body that comes in pieces.
    Pieces(Vec<Piece>),
}

/// A piece of a body. After the last one it ends.
pub(super) enum Piece {
    Chunk(String),
    Wait(u64),
    Break,
    Hang,
}

pub(super) fn status(code: u16) -> Answer {
    Answer::Whole(code, Vec::new(), status_json(code))
}

pub(super) fn status_json(code: u16) -> String {
    serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "message": format!("said {code}"),
    })
    .to_string()
}

/// A page of JobSets.
pub(super) fn page(version: &str, token: &str, items: &[String]) -> Answer {
    let items = items.join(",");
    Answer::Whole(
        200,
        Vec::new(),
        format!(
            r#"{{"kind":"JobSetList","apiVersion":"jobset.x-k8s.io/v1alpha2",
                "metadata":{{"resourceVersion":"{version}","continue":"{token}"}},
                "items":[{items}]}}"#
        ),
    )
}

/// A JobSet of `replicas`.
pub(super) fn jobset(name: &str, version: u64, replicas: u64) -> String {
    serde_json::json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-03-01T07:00:00Z",
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"replicatedJobs": [{"name": "j", "replicas": replicas}]},
    })
    .to_string()
}

/// A JobSet that cannot be read.
pub(super) fn unreadable(name: &str, version: u64) -> String {
    jobset(name, version, 1).replace("\"replicas\":1", "\"replicas\":\"many\"")
}

pub(super) fn event(r#type: &str, object: &str) -> String {
    format!("{{\"type\":\"{type}\",\"object\":{object}}}\n")
}

pub(super) fn bookmark(version: u64) -> String {
    event(
        "BOOKMARK",
        &format!(r#"{{"kind":"JobSet","metadata":{{"resourceVersion":"{version}"}}}}"#),
    )
}

/// A watch that says this and stays open.
pub(super) fn open(lines: &[String]) -> Answer {
    Answer::Pieces(vec![Piece::Chunk(lines.concat()), Piece::Hang])
}

/// A watch that says this and is closed.
pub(super) fn closed(lines: &[String]) -> Answer {
    Answer::Pieces(vec![Piece::Chunk(lines.concat())])
}

/// The wall clock that goes with tokio's.
pub(super) struct Time(Instant);

impl Clock for Time {
    fn now(&self) -> Timestamp {
        let start: Timestamp = START.parse().unwrap();
        start + self.0.elapsed()
    }

    fn sleep_until(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        unreachable!("a watch only reads this clock")
    }
}

/// Measurements, as short lines.
#[derive(Default)]
pub(super) struct Counted(pub(super) Mutex<Vec<String>>);

impl Recorder for Counted {
    fn record(&self, measurement: Measurement<'_>) {
        let line = match measurement {
            Measurement::WatchRestart { resource, reason } => {
                format!("{} {reason}", resource.resource)
            }
            Measurement::Undecodable { resource } => format!("{} undecodable", resource.resource),
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(line);
    }
}

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>;

/// A watch under test.
pub(super) struct Watched {
    pub(super) receiver: mpsc::Receiver<Observation>,
    pub(super) shutdown: CancellationToken,
    pub(super) task: tokio::task::JoinHandle<()>,
    start: Instant,
    counted: Arc<Counted>,
    asked: Arc<Mutex<Vec<String>>>,
    asked_at: Arc<Mutex<Vec<f64>>>,
    urls: Arc<Mutex<Vec<String>>>,
}

/// What became of a watch.
pub(super) struct Outcome {
    /// Requests, short.
    pub(super) asked: Vec<String>,
    /// When each was sent, in seconds from the start.
    pub(super) asked_at: Vec<f64>,
    /// Requests, in full.
    pub(super) urls: Vec<String>,
    /// Observations, short.
    pub(super) told: Vec<String>,
    /// When each came, in seconds from the start.
    pub(super) told_at: Vec<f64>,
    /// Measurements, short.
    pub(super) counted: Vec<String>,
    /// The observations.
    pub(super) observations: Vec<Observation>,
}

impl Watched {
    /// Follows `target` on a server that gives these answers in turn, and then none.
    pub(super) fn new(target: Target, capacity: usize, answers: Vec<Answer>) -> Self {
        let start = Instant::now();
        let counted = Arc::new(Counted::default());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let asked_at = Arc::new(Mutex::new(Vec::new()));
        let urls = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let (log, log_at, log_urls) = (asked.clone(), asked_at.clone(), urls.clone());
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            log.lock().unwrap().push(short(request.uri()));
            log_at.lock().unwrap().push(start.elapsed().as_secs_f64());
            log_urls.lock().unwrap().push(request.uri().to_string());
            let answer = answers.lock().unwrap().pop_front();
            answered(answer.unwrap_or(Answer::Never))
        });
        let (sender, receiver) = mpsc::channel(capacity);
        let shutdown = CancellationToken::new();
        let feed = Feed {
            client: Client::new(service, "default"),
            sender,
            clock: Arc::new(Time(start)),
            recorder: counted.clone(),
            shutdown: shutdown.clone(),
            options: Options::default(),
        };
        Self {
            receiver,
            shutdown,
            task: tokio::spawn(follow(target, feed)),
            start,
            counted,
            asked,
            asked_at,
            urls,
        }
    }

    /// What it did in the first `seconds`.
    pub(super) async fn until(mut self, seconds: u64) -> Outcome {
        let end = self.start + Duration::from_secs(seconds);
        let (mut told, mut told_at, mut observations) = (Vec::new(), Vec::new(), Vec::new());
        while let Ok(Some(observation)) = timeout_at(end, self.receiver.recv()).await {
            told.push(said(&observation));
            told_at.push(self.start.elapsed().as_secs_f64());
            observations.push(observation);
        }
        assert!(!self.task.is_finished(), "the watch ended");
        self.task.abort();
        let take = |list: &Mutex<Vec<String>>| std::mem::take(&mut *list.lock().unwrap());
        Outcome {
            asked: take(&self.asked),
            asked_at: std::mem::take(&mut *self.asked_at.lock().unwrap()),
            urls: take(&self.urls),
            told,
            told_at,
            counted: take(&self.counted.0),
            observations,
        }
    }
}

/// What following JobSets on such a server comes to.
pub(super) async fn jobsets(seconds: u64, answers: Vec<Answer>) -> Outcome {
    Watched::new(Target::JobSets, 64, answers)
        .until(seconds)
        .await
}

/// A request in short: `list`, `list t1`, `watch 10`, with the version where it is not the first.
fn short(uri: &http::Uri) -> String {
    let query = uri.query().unwrap_or_default();
    let value = |key: &str| {
        query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(k, _)| *k == key)
            .map(|(_, value)| value)
    };
    let version = if uri.path().contains("/v1alpha1/") {
        " v1alpha1"
    } else {
        ""
    };
    if value("watch") == Some("true") {
        format!("watch{version} {}", value("resourceVersion").unwrap_or("?"))
    } else {
        match value("continue") {
            Some(token) => format!("list{version} {token}"),
            None => format!("list{version}"),
        }
    }
}

fn broken(kind: std::io::ErrorKind) -> std::io::Error {
    std::io::Error::new(kind, "broken off by the script")
}

async fn answered(answer: Answer) -> Result<http::Response<Body>, tower::BoxError> {
    let (status, headers, pieces) = match answer {
        Answer::Refused => return Err(broken(std::io::ErrorKind::ConnectionRefused).into()),
        Answer::Never => std::future::pending().await,
        Answer::Whole(status, headers, body) => (status, headers, vec![Piece::Chunk(body)]),
        Answer::Pieces(pieces) => (200, Vec::new(), pieces),
    };
    let frames = futures::stream::iter(pieces)
        .filter_map(|piece| async {
            match piece {
                Piece::Chunk(text) => Some(Ok(Frame::data(Bytes::from(text)))),
                Piece::Wait(seconds) => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    None
                }
                Piece::Break => Some(Err(broken(std::io::ErrorKind::ConnectionReset))),
                Piece::Hang => std::future::pending().await,
            }
        })
        .boxed();
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(StreamBody::new(frames))?)
}

/// An observation in short.
fn said(observation: &Observation) -> String {
    match observation {
        Observation::JobSets(update) => {
            update_said(update, |j| format!("{}={}", j.name, j.expected))
        }
        Observation::Nodes(update) => update_said(update, |n| n.name.to_string()),
        Observation::Pods(update) => update_said(update, |p| p.name.to_string()),
        Observation::Slices(update) => update_said(update, |s| s.name.to_string()),
        Observation::LeaderWorkerSets(update) => update_said(update, |l| l.name.to_string()),
        Observation::NodePools(update) => update_said(update, |p| p.name.to_string()),
    }
}

fn update_said<T>(update: &Update<T>, name: impl Fn(&T) -> String) -> String {
    match update {
        Update::Listed {
            objects,
            undecodable,
            resource_version,
            ..
        } => {
            let mut text = format!("listed {resource_version}:");
            for object in objects {
                text.extend([" ", &name(object)]);
            }
            for Undecodable { namespace, name } in undecodable {
                text.extend([" !", namespace, "/", name]);
            }
            text
        }
        Update::Applied {
            object,
            resource_version,
            ..
        } => format!("applied {resource_version}: {}", name(object)),
        Update::Deleted {
            object,
            resource_version,
            ..
        } => format!("deleted {resource_version}: {}", name(object)),
        Update::Heard {
            resource_version, ..
        } => format!("heard {resource_version}"),
        Update::Failed { error, .. } => format!("failed: {error}"),
        Update::Absent { .. } => "absent".to_owned(),
    }
}

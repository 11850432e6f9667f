//! The probe server: `/livez` and `/healthz` (does the process work), `/readyz` (does it know the
//! fleet), each naming every check, and the log level for who is on this machine.

use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::connections::{Limits, Peer, serve};
use crate::model::Family;
use crate::snapshot::{Published, Snapshot, SourceHealth};

/// Says whether something works, and if not, why.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;
/// Says which log filter is in force.
pub type LogLevel = Arc<dyn Fn() -> String + Send + Sync>;
/// Puts a log filter in force, or says why it cannot.
pub type SetLogLevel = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

const LONGEST_FILTER: usize = 4096;
const LONGEST_BODY: Duration = Duration::from_secs(5);

/// What the probe server asks.
#[derive(Clone)]
pub struct ProbeState {
    published: Arc<Published>,
    families: Arc<[Family]>,
    alive: Check,
    log_level: Option<(LogLevel, SetLogLevel)>,
    ready: Arc<AtomicBool>,
}

impl fmt::Debug for ProbeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeState")
            .field("families", &self.families)
            .field("ready", &self.ready)
            .finish_non_exhaustive()
    }
}

impl ProbeState {
    /// `families` are those in use: it is ready when each is judged. `alive` fails when a task of
    /// the process has died or the state loop is stuck, and must not block.
    #[must_use]
    pub fn new(published: Arc<Published>, families: &[Family], alive: Check) -> Self {
        Self {
            published,
            families: families.into(),
            alive,
            log_level: None,
            ready: Arc::default(),
        }
    }

    /// Also serves `/log-level` (GET, PUT), to clients on this machine alone.
    #[must_use]
    pub fn with_log_level(mut self, get: LogLevel, set: SetLogLevel) -> Self {
        self.log_level = Some((get, set));
        self
    }
}

/// Serves the probes until `shutdown`.
pub async fn probes(listener: TcpListener, state: ProbeState, shutdown: CancellationToken) {
    let limits = Limits {
        connections: 64,
        head: Duration::from_secs(30),
        stall: Duration::from_secs(10),
        drain: Duration::from_secs(1),
    };
    serve(listener, routes(state), limits, shutdown).await;
}

pub(super) fn routes(state: ProbeState) -> Router {
    let mut routes = Router::new()
        .route("/livez", get(livez))
        .route("/healthz", get(livez))
        .route("/readyz", get(readyz));
    if state.log_level.is_some() {
        routes = routes.route("/log-level", get(log_level).put(set_log_level));
    }
    routes.with_state(state)
}

/// What is said of each check, one a line, and whether one of those that count failed.
#[derive(Default)]
struct Checks {
    text: String,
    failed: bool,
}

impl Checks {
    fn ok(&mut self, name: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "[+]{name} ok");
    }

    fn failed(&mut self, name: fmt::Arguments<'_>, why: &str) {
        self.failed = true;
        let _ = writeln!(self.text, "[-]{name} failed: {}", one_line(why));
    }

    /// It fails and is named, which alone does not fail the probe.
    fn named(&mut self, name: fmt::Arguments<'_>, why: &str, ready: bool) {
        let stays = if ready {
            " (the last good values stay)"
        } else {
            ""
        };
        let _ = writeln!(self.text, "[-]{name} failed: {}{stays}", one_line(why));
    }

    fn answer(mut self, what: &str) -> Response {
        let (status, word) = if self.failed {
            (StatusCode::SERVICE_UNAVAILABLE, "failed")
        } else {
            (StatusCode::OK, "passed")
        };
        let _ = writeln!(self.text, "{what} check {word}");
        (status, [(header::CACHE_CONTROL, "no-store")], self.text).into_response()
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

async fn livez(State(state): State<ProbeState>) -> Response {
    let mut checks = Checks::default();
    match (state.alive)() {
        Ok(()) => checks.ok(format_args!("tasks")),
        Err(why) => checks.failed(format_args!("tasks"), &why),
    }
    checks.answer("livez")
}

async fn readyz(State(state): State<ProbeState>) -> Response {
    let snapshot = state.published.snapshot();
    let judged = |family: &Family| {
        let judged = snapshot.families.get(family.index());
        judged.is_some_and(Option::is_some)
    };
    let now = snapshot.history.replayed && state.families.iter().all(judged);
    // Once ready, it stays so: an API that is away is not cured by a restart.
    let ready = state.ready.fetch_or(now, Ordering::Relaxed) || now;
    readiness(&snapshot, &state.families, ready).answer("readyz")
}

fn readiness(snapshot: &Snapshot, families: &[Family], ready: bool) -> Checks {
    let mut checks = Checks::default();
    let history = &snapshot.history;
    match (&history.error, history.replayed || ready) {
        (None, true) => checks.ok(format_args!("history")),
        (Some(error), true) => checks.named(format_args!("history"), error, ready),
        (None, false) => checks.failed(format_args!("history"), "it is still being read"),
        (Some(error), false) => checks.failed(format_args!("history"), error),
    }
    for source in &snapshot.sources {
        let SourceHealth {
            source,
            listed,
            absent,
            heard: _,
            error,
        } = source;
        let name = source.name();
        match error {
            // Families say below whether this is waited for.
            Some(error) => checks.named(format_args!("{name}"), error, ready),
            None if *absent => checks.ok(format_args!("{name} (not installed)")),
            None if *listed || ready => checks.ok(format_args!("{name}")),
            None => checks.named(format_args!("{name}"), "not listed yet", ready),
        }
    }
    for family in families {
        let judged = snapshot.families.get(family.index());
        if ready || judged.is_some_and(Option::is_some) {
            checks.ok(format_args!("family {}", family.name()));
        } else {
            checks.failed(
                format_args!("family {}", family.name()),
                "not judged yet: it waits for its sources to list and the history to be read",
            );
        }
    }
    checks
}

async fn log_level(State(state): State<ProbeState>, Extension(peer): Extension<Peer>) -> Response {
    let Some((get, _)) = state.log_level.filter(|_| local(peer)) else {
        return elsewhere();
    };
    format!("{}\n", get()).into_response()
}

async fn set_log_level(
    State(state): State<ProbeState>,
    Extension(peer): Extension<Peer>,
    body: Body,
) -> Response {
    let Some((get, set)) = state.log_level.filter(|_| local(peer)) else {
        return elsewhere();
    };
    let body = match tokio::time::timeout(LONGEST_BODY, to_bytes(body, LONGEST_FILTER)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let text = format!("a filter has at most {LONGEST_FILTER} bytes\n");
            return (StatusCode::PAYLOAD_TOO_LARGE, text).into_response();
        }
        Err(_) => return StatusCode::REQUEST_TIMEOUT.into_response(),
    };
    match std::str::from_utf8(&body).map_err(|error| error.to_string()) {
        Ok(text) => match set(text.trim()) {
            Ok(()) => format!("{}\n", get()).into_response(),
            Err(why) => (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
        },
        Err(why) => (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    }
}

/// Whether the client is on this machine or in this pod, as a port-forward is.
fn local(Peer(address): Peer) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn elsewhere() -> Response {
    (
        StatusCode::FORBIDDEN,
        "the log level is shown and set from this machine alone, such as by `kubectl port-forward`\n",
    )
        .into_response()
}

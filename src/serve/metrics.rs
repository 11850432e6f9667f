//! The metrics server: `/metrics` for Prometheus, `/` for people. A scrape is collected where
//! blocking is allowed, one at a time in the order of asking; what a slow client has not read yet
//! is its own and holds no lock.

use std::convert::Infallible;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use tokio::net::TcpListener;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::connections::{Limits, serve};
use super::negotiate::{self, Format};
use super::page;
use crate::clock::SharedClock;
use crate::export::Outlet;
use crate::measure::SharedRecorder;
use crate::snapshot::Published;

/// Collects what is published now as an exposition in chunks, or says why it cannot.
pub type Scrape = Arc<dyn Fn(Format) -> Result<Vec<Bytes>, String> + Send + Sync>;

/// How long a scrape waits for those before it.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Answers that are held in memory at once, until their clients have taken them.
const ANSWERS: usize = 16;
/// Chunks of a compressed answer.
const CHUNK: usize = 64 * 1024;

/// What the metrics server serves.
#[derive(Clone)]
pub struct MetricsState {
    scrape: Scrape,
    published: Arc<Published>,
    clock: SharedClock,
    probe_port: u16,
    turn: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    outlet: Arc<Mutex<Outlet>>,
}

impl fmt::Debug for MetricsState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsState")
            .field("probe_port", &self.probe_port)
            .finish_non_exhaustive()
    }
}

impl MetricsState {
    /// What is scraped, and what the page shows. `probe_port` is where the probes are served, for
    /// the page's links.
    #[must_use]
    pub fn new(
        scrape: Scrape,
        published: Arc<Published>,
        clock: SharedClock,
        probe_port: u16,
        recorder: SharedRecorder,
    ) -> Self {
        Self {
            scrape,
            published,
            clock,
            probe_port,
            turn: Arc::new(Semaphore::new(1)),
            answers: Arc::new(Semaphore::new(ANSWERS)),
            outlet: Arc::new(Mutex::new(Outlet::new("prometheus", "/metrics", recorder))),
        }
    }

    fn outcome(&self, outcome: Result<(), (&'static str, &str)>) {
        let mut outlet = self.outlet.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) => outlet.succeeded(),
            Err((reason, error)) => outlet.failed(reason, &error),
        }
    }
}

/// Serves `/metrics` and `/` until `shutdown`; requests under way then have a few seconds.
pub async fn metrics(listener: TcpListener, state: MetricsState, shutdown: CancellationToken) {
    serve(listener, routes(state), Limits::default(), shutdown).await;
}

pub(super) fn routes(state: MetricsState) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .route("/", get(landing))
        .with_state(state)
}

async fn scrape(State(state): State<MetricsState>, headers: HeaderMap) -> Response {
    let format = negotiate::format(&headers);
    let gzip = negotiate::gzip(&headers);
    let wait = async {
        let place = state.answers.clone().acquire_owned().await?;
        Ok::<_, AcquireError>((place, state.turn.clone().acquire_owned().await?))
    };
    let Ok(Ok((place, turn))) = tokio::time::timeout(LONGEST_WAIT, wait).await else {
        let error = "the scrapes before this one take too long";
        state.outcome(Err(("busy", error)));
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            [(header::RETRY_AFTER, "30")],
            format!("{error}\n"),
        )
            .into_response();
    };
    let collect = state.scrape.clone();
    let collected = tokio::task::spawn_blocking(move || {
        let chunks = collect(format);
        // The turn ends with the collection, also when the client has gone meanwhile.
        drop(turn);
        match chunks {
            Ok(chunks) if gzip => compress(chunks).map_err(|error| error.to_string()),
            chunks => chunks,
        }
    })
    .await;
    let chunks = match collected {
        Ok(Ok(chunks)) => chunks,
        Ok(Err(error)) => return failed(&state, &error),
        Err(error) => return failed(&state, &error.to_string()),
    };
    state.outcome(Ok(()));
    answer(chunks, place, format, gzip)
}

fn failed(state: &MetricsState, error: &str) -> Response {
    state.outcome(Err(("collect", error)));
    let text = format!("the metrics could not be collected: {error}\n");
    (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}

/// The answer, which has its `place` until it is sent or given up.
fn answer(chunks: Vec<Bytes>, place: OwnedSemaphorePermit, format: Format, gzip: bool) -> Response {
    let length: usize = chunks.iter().map(Bytes::len).sum();
    let chunks = chunks.into_iter().map(move |chunk| {
        let _held = &place;
        Ok::<_, Infallible>(chunk)
    });
    let mut response = Response::new(Body::from_stream(stream::iter(chunks)));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    headers.insert(header::CONTENT_LENGTH, length.into());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::VARY,
        HeaderValue::from_static("accept, accept-encoding"),
    );
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Compresses chunk by chunk, each freed when it is done. The fastest level: exposition text
/// shrinks twentyfold at any.
fn compress(chunks: Vec<Bytes>) -> std::io::Result<Vec<Bytes>> {
    let mut gzip = GzEncoder::new(Pieces::default(), Compression::fast());
    for chunk in chunks {
        gzip.write_all(&chunk)?;
    }
    Ok(gzip.finish()?.done())
}

/// Takes bytes in pieces of a size, so that nothing large is ever copied to grow.
#[derive(Default)]
struct Pieces {
    whole: Vec<Bytes>,
    last: Vec<u8>,
}

impl Pieces {
    fn done(mut self) -> Vec<Bytes> {
        if !self.last.is_empty() {
            self.whole.push(self.last.into());
        }
        self.whole
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.last.capacity() == 0 {
            self.last.reserve_exact(CHUNK);
        }
        self.last.extend_from_slice(bytes);
        if self.last.len() >= CHUNK {
            self.whole.push(std::mem::take(&mut self.last).into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

async fn landing(State(state): State<MetricsState>) -> Response {
    let page = page::landing(
        &state.published.snapshot(),
        state.clock.now(),
        state.probe_port,
    );
    let headers = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, Html(page)).into_response()
}

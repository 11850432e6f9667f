//! Both servers over real sockets.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::connections::{self, Limits};
use super::*;
use crate::clock::WallClock;
use crate::measure::{Ignore, Measurement, Recorder};
use crate::model::{Availability, Family, Source};
use crate::snapshot::{Published, Snapshot, SourceHealth, Table};

struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    Answer {
        status: status.parse().unwrap(),
        headers,
        body: bytes[end + 4..].to_vec(),
    }
}

async fn open(address: SocketAddr, request: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

async fn ask(address: SocketAddr, request: &str, headers: &str, body: &str) -> Answer {
    let mut stream = open(address, request, headers, body).await;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    parse(&bytes)
}

async fn get(address: SocketAddr, path: &str, headers: &str) -> Answer {
    ask(address, &format!("GET {path}"), headers, "").await
}

fn published(snapshot: Snapshot) -> Arc<Published> {
    let published = Published::new(jiff::Timestamp::UNIX_EPOCH);
    published.publish(|_| Arc::new(snapshot));
    Arc::new(published)
}

async fn listen() -> (TcpListener, SocketAddr) {
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = bind(any, "metricsAddress").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn state(scrape: Scrape, published: Arc<Published>, recorder: Arc<dyn Recorder>) -> MetricsState {
    MetricsState::new(scrape, published, Arc::new(WallClock), 8081, recorder)
}

async fn start(scrape: Scrape) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let (listener, address) = listen().await;
    let shutdown = CancellationToken::new();
    let state = state(scrape, published(Snapshot::default()), Arc::new(Ignore));
    let task = tokio::spawn(metrics(listener, state, shutdown.clone()));
    (address, shutdown, task)
}

fn named() -> Scrape {
    Arc::new(|format| {
        let name = match format {
            Format::Text => "text\n",
            Format::OpenMetrics => "open\n",
        };
        Ok(vec![
            Bytes::from_static(b"# "),
            Bytes::from_static(name.as_bytes()),
        ])
    })
}

#[tokio::test]
async fn a_scrape_has_the_form_and_the_coding_that_was_asked_for() {
    let (address, ..) = start(named()).await;
    let plain = get(address, "/metrics", "").await;
    assert_eq!(plain.status, 200);
    assert_eq!(plain.text(), "# text\n");
    assert_eq!(plain.headers["content-type"], Format::Text.content_type());
    assert_eq!(plain.headers["content-length"], "7");
    assert_eq!(plain.headers["vary"], "accept, accept-encoding");
    assert!(!plain.headers.contains_key("content-encoding"));

    let accept = "accept: application/openmetrics-text;version=1.0.0\r\naccept-encoding: gzip\r\n";
    let open = get(address, "/metrics", accept).await;
    assert_eq!(
        open.headers["content-type"],
        Format::OpenMetrics.content_type()
    );
    assert_eq!(open.headers["content-encoding"], "gzip");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&open.body[..])
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "# open\n");

    let head = ask(address, "HEAD /metrics", "", "").await;
    assert_eq!((head.status, head.text()), (200, ""));
    assert_eq!(head.headers["content-length"], "7");
    assert_eq!(ask(address, "POST /metrics", "", "").await.status, 405);
    assert_eq!(get(address, "/nothing", "").await.status, 404);
}

#[tokio::test]
async fn a_large_answer_comes_whole_in_either_coding() {
    let text: Vec<u8> = (0..3_000_000_u32)
        .flat_map(|n| (n % 251).to_string().into_bytes())
        .collect();
    let chunks: Vec<Bytes> = text.chunks(100_000).map(Bytes::copy_from_slice).collect();
    let (address, ..) = start(Arc::new(move |_| Ok(chunks.clone()))).await;
    assert!(get(address, "/metrics", "").await.body == text);
    let zipped = get(address, "/metrics", "accept-encoding: gzip\r\n").await;
    let mut back = Vec::new();
    flate2::read::GzDecoder::new(&zipped.body[..])
        .read_to_end(&mut back)
        .unwrap();
    assert!(back == text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scrapes_take_turns_and_who_leaves_gives_up_no_turn_early() {
    let (active, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (began, mut begins) = mpsc::unbounded_channel();
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let seen = most.clone();
    let (address, ..) = start(Arc::new(move |_| {
        most.fetch_max(active.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        began.send(()).unwrap();
        gate.lock().unwrap().recv().unwrap();
        active.fetch_sub(1, Ordering::SeqCst);
        Ok(vec![Bytes::from_static(b"x")])
    }))
    .await;
    // The first leaves while its collection runs.
    let leaves = open(address, "GET /metrics", "", "").await;
    begins.recv().await.unwrap();
    drop(leaves);
    let others: Vec<_> = (0..4)
        .map(|_| tokio::spawn(async move { get(address, "/metrics", "").await.status }))
        .collect();
    for _ in 0..5 {
        release.send(()).unwrap();
    }
    for other in others {
        assert_eq!(other.await.unwrap(), 200);
    }
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn answers_that_are_not_taken_are_bounded_and_free_their_places() {
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    let (began, mut begins) = mpsc::unbounded_channel();
    let (address, ..) = start(Arc::new(move |_| {
        began.send(()).unwrap();
        Ok(vec![chunk.clone(); 16])
    }))
    .await;
    let mut slow = Vec::new();
    for _ in 0..16 {
        slow.push(open(address, "GET /metrics", "", "").await);
        begins.recv().await.unwrap();
    }
    let waits = tokio::spawn(async move { get(address, "/metrics", "").await });
    // The page is no scrape.
    assert_eq!(get(address, "/", "").await.status, 200);
    assert!(begins.try_recv().is_err(), "a further answer was made");
    drop(slow.pop());
    assert_eq!(waits.await.unwrap().body.len(), 16 << 20);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_nobody() {
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    let (address, shutdown, task) = start(Arc::new(move |_| Ok(vec![chunk.clone(); 32]))).await;
    let mut slow = open(address, "GET /metrics", "", "").await;
    let mut first = [0; 15];
    slow.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    assert_eq!(get(address, "/metrics", "").await.body.len(), 32 << 20);
    // Nor does it hold up the end.
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(20), task)
        .await
        .unwrap()
        .unwrap();
}

async fn start_limited(limits: Limits, size: usize) -> SocketAddr {
    let (listener, address) = listen().await;
    let chunk = Bytes::from(vec![b'x'; size]);
    let state = state(
        Arc::new(move |_| Ok(vec![chunk.clone()])),
        published(Snapshot::default()),
        Arc::new(Ignore),
    );
    let routes = super::metrics::routes(state);
    tokio::spawn(connections::serve(
        listener,
        routes,
        limits,
        CancellationToken::new(),
    ));
    address
}

#[tokio::test]
async fn a_client_that_sends_nothing_or_half_a_head_loses_its_place() {
    let limits = Limits {
        connections: 1,
        head: Duration::from_millis(100),
        ..Limits::default()
    };
    let address = start_limited(limits, 1).await;
    for begun in ["", "GET /metrics HTTP/1.1\r\nhost:"] {
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(begun.as_bytes()).await.unwrap();
        assert_eq!(get(address, "/metrics", "").await.text(), "x");
        let mut rest = Vec::new();
        let _ = silent.read_to_end(&mut rest).await;
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_of_its_answer_loses_its_place() {
    let limits = Limits {
        connections: 1,
        stall: Duration::from_millis(100),
        ..Limits::default()
    };
    let address = start_limited(limits, 32 << 20).await;
    let slow = open(address, "GET /metrics", "", "").await;
    assert_eq!(get(address, "/metrics", "").await.body.len(), 32 << 20);
    drop(slow);
}

/// Counts failures by outlet and reason.
#[derive(Default)]
struct Failures(Mutex<Vec<(&'static str, &'static str)>>);

impl Recorder for Failures {
    fn record(&self, measurement: Measurement<'_>) {
        if let Measurement::ExportFailure { outlet, reason } = measurement {
            self.0.lock().unwrap().push((outlet, reason));
        }
    }
}

#[tokio::test]
async fn a_collection_that_fails_or_panics_is_an_error_that_passes() {
    let (listener, address) = listen().await;
    let turn = AtomicUsize::new(0);
    let failures = Arc::new(Failures::default());
    let state = state(
        Arc::new(move |_| match turn.fetch_add(1, Ordering::SeqCst) {
            0 => Err("not now".to_owned()),
            1 => panic!("a bug"),
            _ => Ok(vec![]),
        }),
        published(Snapshot::default()),
        failures.clone(),
    );
    tokio::spawn(metrics(listener, state, CancellationToken::new()));
    let first = get(address, "/metrics", "").await;
    assert_eq!(first.status, 500);
    assert!(first.text().contains("not now"), "{}", first.text());
    assert_eq!(get(address, "/metrics", "").await.status, 500);
    assert_eq!(get(address, "/metrics", "").await.status, 200);
    assert_eq!(*failures.0.lock().unwrap(), [("prometheus", "collect"); 2]);
}

#[tokio::test]
async fn a_request_under_way_at_shutdown_is_answered() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (began, mut begins) = mpsc::unbounded_channel();
    let (address, shutdown, task) = start(Arc::new(move |_| {
        began.send(()).unwrap();
        gate.lock().unwrap().recv().unwrap();
        Ok(vec![Bytes::from_static(b"last")])
    }))
    .await;
    let asked = tokio::spawn(async move { get(address, "/metrics", "").await });
    begins.recv().await.unwrap();
    shutdown.cancel();
    release.send(()).unwrap();
    assert_eq!(asked.await.unwrap().text(), "last");
    task.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

fn fleet() -> Snapshot {
    let mut table = Table::default();
    for (slot, (expected_down, up)) in [(false, true), (false, false), (true, false)]
        .into_iter()
        .enumerate()
    {
        let view = crate::snapshot::ObjectView {
            key: format!("{slot}").into(),
            attributes: Arc::default(),
            availability: Availability {
                expected_down,
                up,
                ..Availability::default()
            },
            chips: 0,
            status: "".into(),
            conditions: crate::snapshot::Conditions::default(),
            fold: None,
            found: false,
            failed: None,
            stands: None,
            only_provisioning: false,
        };
        table.set(slot, Some(Arc::new(view)));
    }
    let mut snapshot = Snapshot::default();
    snapshot.families[Family::NodePool.index()] = Some(table);
    snapshot.history.replayed = true;
    snapshot.sources = vec![health(Source::Nodes, true, None)];
    snapshot
}

fn health(source: Source, listed: bool, error: Option<&str>) -> SourceHealth {
    SourceHealth {
        source,
        listed,
        absent: false,
        heard: None,
        error: error.map(Into::into),
    }
}

#[tokio::test]
async fn the_page_shows_counts_and_escapes_what_others_wrote() {
    let (listener, address) = listen().await;
    let mut snapshot = fleet();
    snapshot.sources[0].error = Some("<script>\"&'".into());
    let state = state(named(), published(snapshot), Arc::new(Ignore));
    tokio::spawn(metrics(listener, state, CancellationToken::new()));
    let page = get(address, "/", "").await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let text = page.text();
    assert!(text.contains("href=\"/metrics\"") && text.contains(env!("CARGO_PKG_VERSION")));
    assert!(text.contains("&lt;script&gt;&quot;&amp;&#39;") && !text.contains("<script>"));
    let row: Vec<_> = text
        .lines()
        .filter(|line| line.contains("<td>nodepool</td>"))
        .collect();
    let cells = ">3</td><td class=\"n\">1</td><td class=\"n bad\">1</td><td class=\"n\">1</td>";
    assert!(row[0].contains(cells), "{}", row[0]);
    assert!(text.contains("<td>slice</td><td colspan=\"4\">not judged</td>"));
}

fn probe(snapshot: Snapshot, alive: Check) -> (ProbeState, Arc<Published>) {
    let published = published(snapshot);
    let state = ProbeState::new(published.clone(), &[Family::NodePool], alive);
    (state, published)
}

async fn start_probes(state: ProbeState) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(probes(listener, state, CancellationToken::new()));
    address
}

#[tokio::test]
async fn readiness_waits_for_history_and_families_and_then_stays() {
    let mut snapshot = Snapshot {
        sources: vec![
            health(Source::Nodes, false, None),
            health(Source::Pods, false, Some("forbidden\nreally")),
        ],
        ..Snapshot::default()
    };
    let (state, published) = probe(snapshot.clone(), Arc::new(|| Ok(())));
    let address = start_probes(state).await;
    let before = get(address, "/readyz", "").await;
    assert_eq!(before.status, 503);
    assert_eq!(
        before.text(),
        "[-]history failed: it is still being read\n\
         [-]nodes failed: not listed yet\n\
         [-]pods failed: forbidden really\n\
         [-]family nodepool failed: not judged yet: it waits for its sources to list and the history to be read\n\
         readyz check failed\n"
    );

    snapshot.history.replayed = true;
    published.publish(|_| Arc::new(snapshot.clone()));
    assert_eq!(get(address, "/readyz", "").await.status, 503);

    // Pods are not what a family waits for.
    snapshot.families[Family::NodePool.index()] = Some(Table::default());
    snapshot.sources[0].listed = true;
    published.publish(|_| Arc::new(snapshot.clone()));
    let ready = get(address, "/readyz", "").await;
    assert_eq!(ready.status, 200);
    assert_eq!(
        ready.text(),
        "[+]history ok\n[+]nodes ok\n\
         [-]pods failed: forbidden really (the last good values stay)\n\
         [+]family nodepool ok\nreadyz check passed\n"
    );

    snapshot.sources[0].error = Some("connection refused".into());
    snapshot.history.error = Some("disk full".into());
    published.publish(|_| Arc::new(snapshot.clone()));
    let later = get(address, "/readyz", "").await;
    assert_eq!(later.status, 200);
    for line in [
        "[-]history failed: disk full",
        "[-]nodes failed: connection refused",
    ] {
        assert!(later.text().contains(line), "{}", later.text());
    }
}

#[tokio::test]
async fn liveness_is_that_of_the_tasks() {
    let dead = Arc::new(Mutex::new(None::<String>));
    let why = dead.clone();
    let (state, _) = probe(
        Snapshot::default(),
        Arc::new(move || why.lock().unwrap().clone().map_or(Ok(()), Err)),
    );
    let address = start_probes(state).await;
    for path in ["/livez", "/healthz"] {
        let answer = get(address, path, "").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.text(), "[+]tasks ok\nlivez check passed\n");
    }
    *dead.lock().unwrap() = Some("the state loop has not turned for 60s".to_owned());
    let answer = get(address, "/livez", "").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.text().contains("[-]tasks failed: the state loop"),
        "{}",
        answer.text()
    );
    assert_eq!(get(address, "/log-level", "").await.status, 404);
}

#[tokio::test]
async fn the_log_level_is_shown_and_set_from_this_machine() {
    let level = Arc::new(Mutex::new("info".to_owned()));
    let (shown, set) = (level.clone(), level);
    let (state, _) = probe(Snapshot::default(), Arc::new(|| Ok(())));
    let state = state.with_log_level(
        Arc::new(move || shown.lock().unwrap().clone()),
        Arc::new(move |text| {
            if text == "loud" {
                return Err("\"loud\" is no level".to_owned());
            }
            text.clone_into(&mut set.lock().unwrap());
            Ok(())
        }),
    );
    let address = start_probes(state).await;
    assert_eq!(get(address, "/log-level", "").await.text(), "info\n");
    let answer = ask(address, "PUT /log-level", "", "debug\n").await;
    assert_eq!((answer.status, answer.text()), (200, "debug\n"));
    let answer = ask(address, "PUT /log-level", "", "loud").await;
    assert_eq!(
        (answer.status, answer.text()),
        (400, "\"loud\" is no level\n")
    );
    let answer = ask(address, "PUT /log-level", "", &"x".repeat(5000)).await;
    assert_eq!(answer.status, 413);
    assert_eq!(get(address, "/log-level", "").await.text(), "debug\n");
}

#[tokio::test]
async fn an_address_that_is_taken_is_said_with_its_setting() {
    let (_listener, address) = listen().await;
    let error = bind(address, "--metrics-address")
        .await
        .unwrap_err()
        .to_string();
    for part in [&address.to_string(), "--metrics-address", "another process"] {
        assert!(error.contains(part), "{error}");
    }
}

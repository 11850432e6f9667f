//! The push against a real gRPC server that can hang, refuse and ask for certificates.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::*;
use crate::config::Tls;
use crate::measure::{Measurement, Recorder};

/// What the server does with one request; `Take` when it was told nothing more.
enum Turn {
    Take,
    Hang,
    Refuse(Status),
    Partial(i64),
}

#[derive(Clone)]
struct Collector {
    turns: Arc<Mutex<VecDeque<Turn>>>,
    seen: mpsc::UnboundedSender<(MetadataMap, ExportMetricsServiceRequest)>,
}

type Seen = mpsc::UnboundedReceiver<(MetadataMap, ExportMetricsServiceRequest)>;

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let _ = self.seen.send((metadata, request));
        let turn = self.turns.lock().unwrap().pop_front();
        let mut response = ExportMetricsServiceResponse::default();
        match turn.unwrap_or(Turn::Take) {
            Turn::Take => {}
            Turn::Hang => std::future::pending().await,
            Turn::Refuse(status) => return Err(status),
            Turn::Partial(points) => {
                response.partial_success = Some(ExportMetricsPartialSuccess {
                    rejected_data_points: points,
                    error_message: "too old".into(),
                });
            }
        }
        Ok(Response::new(response))
    }
}

/// Serves until the test's runtime ends.
fn serve(
    listener: TcpListener,
    turns: impl IntoIterator<Item = Turn>,
    tls: Option<Arc<rustls::ServerConfig>>,
) -> Seen {
    let (seen, requests) = mpsc::unbounded_channel();
    let collector = Collector {
        turns: Arc::new(Mutex::new(turns.into_iter().collect())),
        seen,
    };
    let service = MetricsServiceServer::new(collector)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (service, tls) = (TowerToHyperService::new(service.clone()), tls.clone());
            tokio::spawn(async move {
                let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                match tls {
                    None => {
                        let _ = http2.serve_connection(TokioIo::new(stream), service).await;
                    }
                    Some(tls) => {
                        let acceptor = tokio_rustls::TlsAcceptor::from(tls);
                        if let Ok(stream) = acceptor.accept(stream).await {
                            let _ = http2.serve_connection(TokioIo::new(stream), service).await;
                        }
                    }
                }
            });
        }
    });
    requests
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Hands on what was recorded.
struct Recorded(mpsc::UnboundedSender<(&'static str, u64)>);

impl Recorder for Recorded {
    fn record(&self, measurement: Measurement<'_>) {
        let told = match measurement {
            Measurement::ExportFailure { outlet, reason } => {
                assert_eq!(outlet, "otlp");
                (reason, 0)
            }
            Measurement::ExportRejected { outlet, points } => {
                assert_eq!(outlet, "otlp");
                ("rejected", points)
            }
            other => panic!("{other:?}"),
        };
        let _ = self.0.send(told);
    }
}

fn settings(endpoint: String) -> config::Otlp {
    config::Otlp {
        endpoint,
        interval: Duration::from_hours(1),
        timeout: Duration::from_secs(20),
        headers: BTreeMap::new(),
        gzip: false,
        tls: Tls::default(),
    }
}

fn identity() -> Identity {
    Identity::new(
        "deployment",
        "process",
        Some("east"),
        &BTreeMap::new(),
        &BTreeMap::new(),
    )
}

#[expect(clippy::unnecessary_wraps, reason = "it is what the push is given")]
fn collect() -> Result<ExportMetricsServiceRequest, String> {
    let metric = |name: &str| Metric {
        name: name.to_owned(),
        data: Some(Data::Gauge(Gauge {
            data_points: vec![NumberDataPoint::default()],
        })),
        ..Metric::default()
    };
    Ok(ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            scope_metrics: vec![ScopeMetrics {
                metrics: vec![metric("jobset.up"), metric("leader")],
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        }],
    })
}

struct Running {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    recorded: mpsc::UnboundedReceiver<(&'static str, u64)>,
}

fn start(config: config::Otlp) -> Running {
    let (sender, recorded) = mpsc::unbounded_channel();
    let push = Push::new(
        config,
        identity(),
        Arc::new(collect),
        |name| name == "jobset.up",
        Arc::new(Recorded(sender)),
    )
    .unwrap();
    let shutdown = CancellationToken::new();
    Running {
        task: tokio::spawn(push.run(shutdown.clone())),
        shutdown,
        recorded,
    }
}

impl Running {
    /// Ends the push and returns what was recorded and not looked at.
    async fn end(mut self) -> Vec<(&'static str, u64)> {
        self.shutdown.cancel();
        self.task.await.unwrap();
        let mut rest = Vec::new();
        while let Ok(told) = self.recorded.try_recv() {
            rest.push(told);
        }
        rest
    }
}

#[tokio::test]
async fn a_push_has_both_resources_and_shutdown_sends_a_last_one() {
    let (listener, address) = listen().await;
    let mut seen = serve(listener, [], None);
    let mut config = settings(format!("http://{address}"));
    config.gzip = true;
    config.headers = BTreeMap::from([("x-tenant".to_owned(), "blue".to_owned())]);
    let running = start(config);
    let (metadata, request) = seen.recv().await.unwrap();
    assert_eq!(metadata.get("x-tenant").unwrap(), "blue");
    assert_eq!(metadata.get("grpc-encoding").unwrap(), "gzip");
    let shown: Vec<_> = request
        .resource_metrics
        .iter()
        .map(|resource| {
            let attributes = &resource.resource.as_ref().unwrap().attributes;
            let instance = attributes
                .iter()
                .find(|attribute| attribute.key == "service.instance.id")
                .unwrap();
            let name = resource.scope_metrics[0].metrics[0].name.clone();
            (format!("{:?}", instance.value), name)
        })
        .collect();
    assert_eq!(shown.len(), 2);
    assert!(shown[0].0.contains("deployment") && shown[0].1 == "jobset.up");
    assert!(shown[1].0.contains("process") && shown[1].1 == "leader");
    assert_eq!(running.end().await, []);
    assert!(seen.try_recv().is_ok(), "no last push");
    assert!(seen.try_recv().is_err(), "more than one last push");
}

#[tokio::test]
async fn a_collector_that_is_down_at_start_gets_the_push_once_it_is_up() {
    let (listener, address) = listen().await;
    drop(listener);
    let mut config = settings(format!("http://{address}"));
    config.interval = Duration::from_millis(50);
    let mut running = start(config);
    assert_eq!(running.recorded.recv().await, Some(("unavailable", 0)));
    let listener = TcpListener::bind(address).await.unwrap();
    let mut seen = serve(listener, [], None);
    assert!(seen.recv().await.is_some());
    running.end().await;
}

#[tokio::test]
async fn a_collector_that_hangs_costs_no_more_than_the_timeout() {
    let (listener, address) = listen().await;
    let mut seen = serve(listener, (0..1000).map(|_| Turn::Hang), None);
    let mut config = settings(format!("http://{address}"));
    config.interval = Duration::from_millis(200);
    config.timeout = Duration::from_millis(100);
    let mut running = start(config);
    seen.recv().await.unwrap();
    assert_eq!(running.recorded.recv().await, Some(("timeout", 0)));
    // The next push comes all the same, and so does the end.
    seen.recv().await.unwrap();
    assert_eq!(running.recorded.recv().await, Some(("timeout", 0)));
    let rest = tokio::time::timeout(Duration::from_secs(10), running.end()).await;
    assert_eq!(rest.unwrap().last(), Some(&("timeout", 0)));
}

#[tokio::test]
async fn a_listener_that_never_answers_is_a_timeout_too() {
    let (_listener, address) = listen().await;
    let mut config = settings(format!("http://{address}"));
    config.interval = Duration::from_millis(200);
    config.timeout = Duration::from_millis(50);
    let mut running = start(config);
    assert_eq!(running.recorded.recv().await, Some(("timeout", 0)));
    tokio::time::timeout(Duration::from_secs(10), running.end())
        .await
        .unwrap();
}

#[tokio::test]
async fn unavailable_is_tried_again_within_the_same_push() {
    let (listener, address) = listen().await;
    let refuse = || Turn::Refuse(Status::unavailable("starting"));
    let mut seen = serve(listener, [refuse(), refuse()], None);
    let running = start(settings(format!("http://{address}")));
    for _ in 0..3 {
        seen.recv().await.unwrap();
    }
    assert_eq!(running.end().await, []);
}

#[tokio::test]
async fn resource_exhausted_is_tried_again_only_where_the_collector_says_when() {
    let (listener, address) = listen().await;
    let told = ErrorDetails::with_retry_info(Some(Duration::from_millis(10)));
    let wait = Status::with_error_details(Code::ResourceExhausted, "queue is full", told);
    let too_big = Status::resource_exhausted("too big");
    let turns = [Turn::Refuse(wait), Turn::Refuse(too_big)];
    let mut seen = serve(listener, turns, None);
    let mut running = start(settings(format!("http://{address}")));
    seen.recv().await.unwrap();
    seen.recv().await.unwrap();
    assert_eq!(
        running.recorded.recv().await,
        Some(("resource_exhausted", 0))
    );
    assert!(seen.try_recv().is_err(), "tried again");
    assert_eq!(running.end().await, []);
}

#[tokio::test]
async fn refused_points_are_counted() {
    let (listener, address) = listen().await;
    let _seen = serve(listener, [Turn::Partial(7)], None);
    let mut running = start(settings(format!("http://{address}")));
    assert_eq!(running.recorded.recv().await, Some(("rejected", 7)));
    assert_eq!(running.end().await, []);
}

#[tokio::test]
async fn a_collection_that_fails_or_panics_is_counted_and_passes() {
    let (listener, address) = listen().await;
    let mut seen = serve(listener, [], None);
    let (sender, mut recorded) = mpsc::unbounded_channel();
    let turn = Mutex::new(0);
    let mut config = settings(format!("http://{address}"));
    config.interval = Duration::from_millis(10);
    let push = Push::new(
        config,
        identity(),
        Arc::new(move || {
            let turn = {
                let mut turn = turn.lock().unwrap();
                *turn += 1;
                *turn
            };
            match turn {
                1 => Err("not now".to_owned()),
                2 => panic!("a bug"),
                _ => collect(),
            }
        }),
        |_| true,
        Arc::new(Recorded(sender)),
    )
    .unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(push.run(shutdown.clone()));
    assert_eq!(recorded.recv().await, Some(("collect", 0)));
    assert_eq!(recorded.recv().await, Some(("collect", 0)));
    seen.recv().await.unwrap();
    shutdown.cancel();
    task.await.unwrap();
}

/// A CA, what it signs, and the files of each.
struct Authority {
    folder: tempfile::TempDir,
    ca: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = Self {
            folder: tempfile::tempdir().unwrap(),
            ca: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        };
        std::fs::write(authority.path("ca.pem"), authority.ca.pem()).unwrap();
        authority
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Signs a certificate and writes it and its key.
    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.ca).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        (certificate, key)
    }

    /// A server that asks for a client certificate of this authority.
    fn server(&self) -> Arc<rustls::ServerConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.ca.der().clone()).unwrap();
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            provider.clone(),
        )
        .build()
        .unwrap();
        let (certificate, key) = self.sign("server");
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![certificate.der().clone()],
                rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

#[tokio::test]
async fn tls_with_a_given_ca_and_client_certificate_that_are_read_again() {
    let authority = Authority::new();
    let (listener, address) = listen().await;
    let mut seen = serve(listener, [], Some(authority.server()));
    let mut config = settings(format!("https://localhost:{}", address.port()));
    config.interval = Duration::from_millis(50);
    config.tls = Tls {
        ca: Some(authority.path("ca.pem")),
        certificate: Some(authority.path("client.pem")),
        key: Some(authority.path("client.key")),
    };
    let mut running = start(config);
    // Neither is there yet; then one that the server does not know; then the right one.
    assert_eq!(running.recorded.recv().await, Some(("tls", 0)));
    let stranger = Authority::new();
    stranger.sign("client");
    for file in ["client.pem", "client.key"] {
        std::fs::copy(stranger.path(file), authority.path(file)).unwrap();
    }
    // Those before the files came, one that may have read but one of them, one that had both.
    while running.recorded.try_recv().is_ok() {}
    for _ in 0..3 {
        let (reason, _) = running.recorded.recv().await.unwrap();
        assert!(["tls", "unavailable"].contains(&reason), "{reason}");
    }
    assert!(seen.try_recv().is_err());
    authority.sign("client");
    assert!(seen.recv().await.is_some());
    running.end().await;
}

#[tokio::test]
async fn a_server_of_an_unknown_ca_is_not_sent_to() {
    let authority = Authority::new();
    let (listener, address) = listen().await;
    let mut seen = serve(listener, [], Some(authority.server()));
    let stranger = Authority::new();
    let mut config = settings(format!("https://localhost:{}", address.port()));
    config.interval = Duration::from_millis(50);
    config.timeout = Duration::from_millis(500);
    config.tls.ca = Some(stranger.path("ca.pem"));
    let mut running = start(config);
    assert_eq!(running.recorded.recv().await, Some(("tls", 0)));
    running.end().await;
    assert!(seen.try_recv().is_err());
}

#[test]
fn wrong_settings_are_said_before_anything_starts() {
    let push = |config| {
        Push::new(
            config,
            identity(),
            Arc::new(collect),
            |_| true,
            Arc::new(crate::measure::Ignore),
        )
    };
    let error = push(settings("collector:4317".to_owned())).unwrap_err();
    assert!(error.to_string().contains("collector:4317"), "{error}");
    let mut config = settings("http://collector:4317".to_owned());
    config.headers = BTreeMap::from([("a b".to_owned(), "c".to_owned())]);
    assert!(push(config).unwrap_err().to_string().contains("a b"));
}

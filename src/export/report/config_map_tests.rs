//! The ConfigMap exporter against an API server of one route.

use std::io::Read;
use std::sync::Mutex;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::super::tests::{Failures, published, snapshot, stopped};
use super::*;

#[derive(Clone, Default)]
struct Server {
    applied: Arc<Mutex<Vec<(Value, String, String)>>>,
    refuse: Arc<Mutex<Option<u16>>>,
    seen: Arc<tokio::sync::Notify>,
}

/// Takes an apply patch of the one ConfigMap, or refuses it with the code it is told.
async fn apply(
    server: Server,
    request: Request<Incoming>,
) -> Result<Response<String>, std::convert::Infallible> {
    assert_eq!(request.method(), "PATCH");
    assert_eq!(
        request.uri().path(),
        "/api/v1/namespaces/ns/configmaps/fleet"
    );
    let query = request.uri().query().unwrap().to_owned();
    let kind = request.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    let mut incoming = Box::pin(request.into_body());
    let mut bytes = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| incoming.as_mut().poll_frame(context)).await
    {
        bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    let refuse = *server.refuse.lock().unwrap();
    let answer = if let Some(code) = refuse {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "message": "no", "reason": "Forbidden", "code": code});
        let mut answer = Response::new(status.to_string());
        *answer.status_mut() = StatusCode::from_u16(code).unwrap();
        answer
    } else {
        let mut applied = server.applied.lock().unwrap();
        applied.push((body.clone(), query, kind));
        Response::new(body.to_string())
    };
    server.seen.notify_one();
    Ok(answer)
}

async fn start(server: Server) -> Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let server = server.clone();
            let service = service_fn(move |request| apply(server.clone(), request));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    let url = format!("http://{address}").parse().unwrap();
    Client::try_from(kube::Config::new(url)).unwrap()
}

fn reporter(client: Client, failures: Arc<Failures>) -> ConfigMapReport {
    ConfigMapReport::new(
        client,
        ("ns".to_owned(), "fleet".to_owned()),
        published(snapshot(&[])),
        Duration::from_millis(5),
        stopped(),
        failures,
    )
}

#[tokio::test]
async fn the_report_is_applied_under_its_key() {
    let server = Server::default();
    let reporter = reporter(start(server.clone()).await, Arc::default());
    reporter.report().await.unwrap();
    let applied = server.applied.lock().unwrap();
    let (body, query, kind) = &applied[0];
    assert!(query.contains("fieldManager=megamon") && query.contains("force=true"));
    assert_eq!(kind, "application/apply-patch+yaml");
    assert_eq!(body["kind"], "ConfigMap");
    assert_eq!(body["metadata"]["name"], "fleet");
    let report: Value = serde_json::from_str(body["data"]["report"].as_str().unwrap()).unwrap();
    assert_eq!(report["nodePoolsUp"], json!({}));
}

#[tokio::test]
async fn a_refusal_is_counted_with_its_reason_and_passes() {
    let server = Server::default();
    *server.refuse.lock().unwrap() = Some(403);
    let failures = Arc::new(Failures::default());
    let reporter = reporter(start(server.clone()).await, failures.clone());
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(reporter.run(shutdown.clone()));
    server.seen.notified().await;
    server.seen.notified().await;
    *server.refuse.lock().unwrap() = None;
    while server.applied.lock().unwrap().is_empty() {
        server.seen.notified().await;
    }
    shutdown.cancel();
    task.await.unwrap();
    let failures = failures.0.lock().unwrap();
    assert!(!failures.is_empty());
    assert!(
        failures
            .iter()
            .all(|said| *said == ("configmap", "forbidden"))
    );
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
    let (reason, _) = reporter(client, Arc::default()).report().await.unwrap_err();
    assert_eq!(reason, "unavailable");
}

#[test]
fn over_the_limit_it_is_gzipped_and_over_that_too_refused() {
    let text = |length: usize| "a".repeat(length).into_bytes();
    let (data, binary) = content(text(1000), 1000).unwrap();
    assert_eq!(data.unwrap()["report"].len(), 1000);
    assert!(binary.is_none());

    let (data, binary) = content(text(1001), 1000).unwrap();
    assert!(data.is_none());
    let zipped = &binary.unwrap()["report.gz"].0;
    let mut back = Vec::new();
    flate2::read::GzDecoder::new(&zipped[..])
        .read_to_end(&mut back)
        .unwrap();
    assert_eq!(back, text(1001));

    let (reason, error) = content(text(1000), 5).unwrap_err();
    assert_eq!(reason, "too_large");
    assert!(
        error.contains("1000 bytes") && error.contains("holds 5"),
        "{error}"
    );
}

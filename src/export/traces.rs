//! Traces over OTLP/gRPC, off unless configured: the provider whose tracer `logs` hands spans to.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};

use super::otlp::{ChannelError, HeaderError, connect, metadata};
use crate::config;

/// Why traces cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// Endpoint or TLS.
    #[error("traces: {0}")]
    Channel(#[from] ChannelError),
    /// A header.
    #[error("traces: {0}")]
    Header(#[from] HeaderError),
    /// The exporter.
    #[error("traces: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// The export of traces.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    timeout: Duration,
}

impl Traces {
    /// Prepares the export; connects when the first batch is sent. `resource` holds the resource
    /// attributes of the program's own telemetry. Must be called inside the runtime.
    pub fn new(
        config: &config::Traces,
        resource: &BTreeMap<String, String>,
    ) -> Result<Self, TracesError> {
        let mut builder = SpanExporter::builder()
            .with_tonic()
            .with_channel(connect(&config.otlp)?)
            .with_metadata(metadata(&config.otlp.headers)?);
        if config.otlp.gzip {
            builder = builder.with_compression(opentelemetry_otlp::Compression::Gzip);
        }
        let attributes = resource
            .iter()
            .map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(builder.build()?)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
                config.sample_ratio,
            ))))
            .with_resource(
                Resource::builder_empty()
                    .with_attributes(attributes)
                    .build(),
            )
            .build();
        Ok(Self {
            provider,
            timeout: config.otlp.timeout,
        })
    }

    /// What makes the spans.
    #[must_use]
    pub fn tracer(&self) -> SdkTracer {
        self.provider.tracer("megamon")
    }

    /// Sends what is left, for no longer than the timeout, and ends.
    pub async fn shutdown(self) {
        let Self { provider, timeout } = self;
        // The SDK's own shutdown blocks its thread and needs the runtime to go on meanwhile.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown());
        if tokio::time::timeout(timeout, ended).await.is_err() {
            tracing::warn!("the last traces could not be sent in time");
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use hyper_util::service::TowerToHyperService;
    use opentelemetry::trace::{Span, Tracer};
    use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
        TraceService, TraceServiceServer,
    };
    use opentelemetry_proto::tonic::collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
    };
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tonic::{Request, Response, Status};

    use super::*;

    struct Collector(UnboundedSender<(String, ExportTraceServiceRequest)>);

    #[tonic::async_trait]
    impl TraceService for Collector {
        async fn export(
            &self,
            request: Request<ExportTraceServiceRequest>,
        ) -> Result<Response<ExportTraceServiceResponse>, Status> {
            let tenant = request
                .metadata()
                .get("x-tenant")
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            self.0.send((tenant, request.into_inner())).unwrap();
            Ok(Response::new(ExportTraceServiceResponse::default()))
        }
    }

    async fn start() -> (TcpListener, Traces) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let traces = Traces::new(
            &config::Traces {
                otlp: config::Otlp {
                    endpoint,
                    interval: Duration::ZERO,
                    timeout: Duration::from_secs(2),
                    headers: BTreeMap::from([("x-tenant".to_owned(), "blue".to_owned())]),
                    gzip: false,
                    tls: config::Tls::default(),
                },
                sample_ratio: 1.0,
            },
            &BTreeMap::from([("service.name".to_owned(), "megamon".to_owned())]),
        )
        .unwrap();
        (listener, traces)
    }

    #[tokio::test]
    async fn shutdown_sends_the_last_spans_also_from_a_single_thread() {
        let (listener, traces) = start().await;
        let (sender, mut received) = unbounded_channel();
        let service = TowerToHyperService::new(TraceServiceServer::new(Collector(sender)));
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(stream), service).await;
        });
        traces.tracer().start("reconcile").end();
        traces.shutdown().await;
        let (tenant, request) = received.recv().await.unwrap();
        assert_eq!(tenant, "blue");
        let resource = &request.resource_spans[0];
        assert_eq!(resource.scope_spans[0].spans[0].name, "reconcile");
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        assert_eq!(attributes[0].key, "service.name");
    }

    #[tokio::test]
    async fn shutdown_does_not_wait_for_a_collector_that_hangs() {
        let (_listener, traces) = start().await;
        traces.tracer().start("reconcile").end();
        tokio::time::timeout(Duration::from_secs(10), traces.shutdown())
            .await
            .unwrap();
    }
}

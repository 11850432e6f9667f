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

//! Builds the meter provider, its one reader, the instruments that exist from the start, and the
//! recorder of measurements.

use std::collections::BTreeMap;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream};

use super::reader::{Collector, SharedReader};
use super::recorder::OtelRecorder;
use crate::clock::SharedClock;
use crate::instruments::catalogue;
use crate::instruments::observe::{self, Fleet, Latch};
use crate::snapshot::Published;

/// Longest name of an instrument.
const LONGEST_NAME: usize = 255;

/// What is wrong with what a provider was to be built from.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProviderError {
    /// Instruments cannot be named under this prefix.
    #[error(
        "metric prefix {prefix:?}: {name:?} is no instrument name, expected a letter, then \
         letters, digits, '_', '.', '-' or '/', at most 255 in all, such as \"megamon.alpha\""
    )]
    Prefix {
        /// The prefix.
        prefix: String,
        /// The first name that does not work.
        name: String,
    },
    /// The reader cannot be built.
    #[error("the metrics reader cannot be built: {0}")]
    Reader(String),
}

/// What the metrics are built from.
pub struct Settings {
    /// Prefix of every name, such as `megamon.alpha`.
    pub prefix: String,
    /// Objects of one family that are shown.
    pub objects_per_family: usize,
    /// Resource attributes, all of them: nothing is added.
    pub resource: BTreeMap<String, String>,
}

/// The metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    /// The provider, for instruments of other libraries. Shut it down last.
    pub provider: SdkMeterProvider,
    /// What both outlets collect from.
    pub collector: Arc<Collector>,
    /// Takes the measurements of every room.
    pub recorder: Arc<OtelRecorder>,
}

impl Metrics {
    /// Builds them over what is published.
    ///
    /// # Errors
    /// When the prefix makes no names.
    pub fn build(
        settings: Settings,
        published: Arc<Published>,
        clock: SharedClock,
    ) -> Result<Self, ProviderError> {
        Self::build_with(
            settings,
            published,
            clock,
            opentelemetry_prometheus::exporter()
                // The exporter's own registry is not used: the text is written from the reader.
                .with_registry(prometheus::Registry::new()),
        )
    }

    pub(super) fn build_with(
        settings: Settings,
        published: Arc<Published>,
        clock: SharedClock,
        exporter: opentelemetry_prometheus::ExporterBuilder,
    ) -> Result<Self, ProviderError> {
        let Settings {
            prefix,
            objects_per_family,
            resource,
        } = settings;
        check(&prefix)?;
        let resource = resource
            .into_iter()
            .map(|(key, value)| KeyValue::new(key, value));
        let exporter = exporter
            .build()
            .map_err(|error| ProviderError::Reader(error.to_string()))?;
        let reader = SharedReader(Arc::new(exporter));
        let view_prefix = prefix.clone();
        let provider = SdkMeterProvider::builder()
            .with_resource(Resource::builder_empty().with_attributes(resource).build())
            .with_reader(reader.clone())
            .with_view(move |instrument: &Instrument| {
                let limit = observe::cardinality_limit(
                    instrument.name(),
                    &view_prefix,
                    instrument.scope(),
                    objects_per_family,
                );
                // The limit is neither 0 nor the largest number, the two that are refused.
                Stream::builder().with_cardinality_limit(limit).build().ok()
            })
            .build();
        let meter = observe::meter(&provider);
        let latch = Arc::new(Latch::default());
        observe::own_gauges(&meter, &prefix, &latch);
        let recorder = Arc::new(OtelRecorder::new(&meter, &prefix));
        let fleet = Fleet::new(
            provider.clone(),
            &prefix,
            Arc::clone(&latch),
            objects_per_family,
        );
        let collector = Arc::new(Collector::new(
            clock,
            published,
            reader,
            latch,
            Arc::clone(&recorder),
            fleet,
            objects_per_family,
        ));
        Ok(Self {
            provider,
            collector,
            recorder,
        })
    }
}

/// The SDK only logs a bad name, and its instrument then does nothing: so it is refused here.
fn check(prefix: &str) -> Result<(), ProviderError> {
    for instrument in catalogue() {
        let name = instrument.otel_name(prefix);
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        let goes_on = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c));
        if prefix.is_empty() || !begins || !goes_on || name.len() > LONGEST_NAME {
            return Err(ProviderError::Prefix {
                prefix: prefix.to_owned(),
                name,
            });
        }
    }
    Ok(())
}

//! Makes the observable instruments of the catalogue. Their callbacks read the [`Readout`] that
//! is latched for a collection, and observe nothing when none is.
//!
//! The SDK keeps one table for each instrument, made as large as its limit when the instrument is
//! made: a small fleet under a large limit would spread over megabytes of almost empty pages. So
//! a family's instruments are made when it is first published, in a size that fits it, and made
//! again, larger, should it outgrow them (the earlier ones then observe nothing). The SDK tells
//! instruments of one name apart only by their scope, and a scope with an empty version or schema
//! URL is the same scope to every receiver.

use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::catalogue::{INSTRUMENTATION_SCOPE, Instrument, OWN};
use super::family::{self, READINGS, Read};
use super::own;
use super::readout::{CONDITIONS, Readout, Shown};
use super::value;
use crate::measure::Resource;
use crate::model::{Family, Source};
use crate::snapshot::Collection;

/// In how many sizes a family's instruments are made.
const SIZES: usize = 4;

/// The smallest of them, in objects.
const SMALLEST: usize = 128;

/// How many attribute sets an own instrument may have. They are bounded by their nature.
const OWN_SERIES: usize = 200;

/// The readout that callbacks see, for the length of a collection.
#[derive(Default)]
pub struct Latch(Mutex<Option<Arc<Readout>>>);

impl Latch {
    /// Puts a readout in, or takes it out with `None`.
    pub fn set(&self, readout: Option<Arc<Readout>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = readout;
    }

    fn get(&self) -> Option<Arc<Readout>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl std::fmt::Debug for Latch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Latch")
    }
}

/// The sizes of a family's instruments under a limit, in objects: from [`SMALLEST`] to the limit
/// in equal ratios.
fn sizes(most: usize) -> [usize; SIZES] {
    let most = most.max(1);
    if most <= SMALLEST {
        return [most; SIZES];
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size between two sizes need not be exact"
    )]
    let between = |share: f64| {
        let (least, most) = (SMALLEST as f64, most as f64);
        (least * (most / least).powf(share)).ceil() as usize
    };
    [
        SMALLEST,
        between(1.0 / 3.0).min(most),
        between(2.0 / 3.0).min(most),
        most,
    ]
}

/// The scope under which the instruments of a size are made.
fn scope(size: usize) -> InstrumentationScope {
    let mut scope = InstrumentationScope::builder(INSTRUMENTATION_SCOPE);
    if size & 1 != 0 {
        scope = scope.with_version("");
    }
    if size & 2 != 0 {
        scope = scope.with_schema_url("");
    }
    scope.build()
}

fn size_of(scope: &InstrumentationScope) -> usize {
    usize::from(scope.version().is_some()) + 2 * usize::from(scope.schema_url().is_some())
}

/// How many attribute sets the SDK must be able to hold for an instrument, so that it never folds
/// any into an overflow series: those of this collection and of the last.
#[must_use]
pub fn cardinality_limit(
    otel_name: &str,
    prefix: &str,
    scope: &InstrumentationScope,
    most: usize,
) -> usize {
    let name = otel_name
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('.'));
    let instrument = name.filter(|_| scope.name() == INSTRUMENTATION_SCOPE);
    match instrument {
        Some(name) if super::scope_of(name) == super::Scope::Fleet => {
            let objects = sizes(most).get(size_of(scope)).copied().unwrap_or(most);
            let each = if name == family::CONDITION.name {
                CONDITIONS
            } else {
                1
            };
            objects
                .saturating_mul(2 * each)
                .saturating_add(1)
                .min(usize::MAX / 64)
        }
        _ => OWN_SERIES,
    }
}

/// The own meter of a provider.
#[must_use]
pub fn meter(provider: &SdkMeterProvider) -> Meter {
    provider.meter_with_scope(scope(0))
}

/// The fleet's instruments.
#[derive(Debug)]
pub struct Fleet {
    provider: SdkMeterProvider,
    prefix: String,
    latch: Arc<Latch>,
    sizes: [usize; SIZES],
    /// By [`Family::index`]: the size of the family's instruments, once there are any.
    made: [Option<usize>; Family::ALL.len()],
}

impl Fleet {
    /// No instruments yet; at most `most` objects of a family will be published.
    #[must_use]
    pub fn new(provider: SdkMeterProvider, prefix: &str, latch: Arc<Latch>, most: usize) -> Self {
        Self {
            provider,
            prefix: prefix.to_owned(),
            latch,
            sizes: sizes(most),
            made: [None; Family::ALL.len()],
        }
    }

    /// Makes the instruments that a readout needs and that are not there yet.
    pub fn fit(&mut self, readout: &mut Readout) {
        for family in Family::ALL {
            let (Some(Some(shown)), Some(made)) = (
                readout.families.get_mut(family.index()),
                self.made.get(family.index()).copied(),
            ) else {
                continue;
            };
            let widest = shown.widest();
            let needed = self
                .sizes
                .iter()
                .position(|size| *size >= widest)
                .unwrap_or(SIZES - 1);
            let size = made.map_or(needed, |made| made.max(needed));
            if made != Some(size) {
                self.make(family, size);
                if let Some(made) = self.made.get_mut(family.index()) {
                    *made = Some(size);
                }
            }
            shown.size = size;
        }
    }

    fn make(&self, family: Family, size: usize) {
        let meter = self.provider.meter_with_scope(scope(size));
        for reading in READINGS {
            let instrument = reading.of(family);
            match reading.read {
                Read::Integer(read) => {
                    self.integers(&meter, &instrument, family, size, move |shown, observe| {
                        for row in &shown.rows {
                            if let Some(value) = read(row) {
                                observe(value, row.derived.base());
                            }
                        }
                    });
                }
                Read::Time(read) => {
                    self.doubles(&meter, &instrument, family, size, move |shown, observe| {
                        for row in &shown.rows {
                            if let Some(value) = read(row) {
                                observe(value::seconds(value), row.derived.base());
                            }
                        }
                    });
                }
            }
        }
        match family {
            Family::JobSet => {
                self.integers(
                    &meter,
                    &family::CONDITION,
                    family,
                    size,
                    |shown, observe| {
                        for set in &shown.conditions {
                            observe(1, set);
                        }
                    },
                );
            }
            Family::NodePool => {
                self.integers(
                    &meter,
                    &family::SCHEDULED,
                    family,
                    size,
                    |shown, observe| {
                        for set in &shown.scheduled {
                            observe(1, set);
                        }
                    },
                );
                let duration = &family::PROVISIONING_DURATION;
                self.doubles(&meter, duration, family, size, |shown, observe| {
                    for (set, seconds) in &shown.provisioning {
                        observe(*seconds, set);
                    }
                });
            }
            Family::JobSetNodes | Family::Slice | Family::Lws => {}
        }
    }

    fn integers(
        &self,
        meter: &Meter,
        instrument: &Instrument,
        family: Family,
        size: usize,
        read: impl Fn(&Shown, &dyn Fn(i64, &[KeyValue])) + Send + Sync + 'static,
    ) {
        integers(
            meter,
            instrument,
            &self.prefix,
            &self.latch,
            move |readout, observe| {
                if let Some(shown) = shown(readout, family, size) {
                    read(shown, observe);
                }
            },
        );
    }

    fn doubles(
        &self,
        meter: &Meter,
        instrument: &Instrument,
        family: Family,
        size: usize,
        read: impl Fn(&Shown, &dyn Fn(f64, &[KeyValue])) + Send + Sync + 'static,
    ) {
        doubles(
            meter,
            instrument,
            &self.prefix,
            &self.latch,
            move |readout, observe| {
                if let Some(shown) = shown(readout, family, size) {
                    read(shown, observe);
                }
            },
        );
    }
}

/// What is shown of a family, if it is the instruments of this size that show it.
fn shown(readout: &Readout, family: Family, size: usize) -> Option<&Shown> {
    readout.shown(family).filter(|shown| shown.size == size)
}

/// Makes the program's own observable gauges.
pub fn own_gauges(meter: &Meter, prefix: &str, latch: &Arc<Latch>) {
    let build = build_attributes();
    integers(meter, &own::BUILD_INFO, prefix, latch, move |_, observe| {
        observe(1, &build);
    });
    let watches: Vec<(Source, Vec<KeyValue>)> = Source::ALL
        .into_iter()
        .filter_map(|source| Some((source, resource_attributes(&own::resource_of(source)?))))
        .collect();
    doubles(
        meter,
        &own::WATCH_LAG,
        prefix,
        latch,
        move |readout, observe| {
            let Collection { snapshot, now } = &readout.collection;
            for health in snapshot.sources.iter().filter(|health| !health.absent) {
                let watch = watches.iter().find(|(source, _)| *source == health.source);
                if let (Some((_, set)), Some(heard)) = (watch, health.heard) {
                    observe(value::age(heard, *now), set);
                }
            }
        },
    );
    doubles(
        meter,
        &own::SOURCE_LAST_SUCCESS,
        prefix,
        latch,
        |readout, observe| {
            let snapshot = &readout.collection.snapshot;
            let sources = snapshot
                .sources
                .iter()
                .map(|health| (health.source.name(), health.heard));
            for (source, at) in sources.chain([(own::STORE, snapshot.history.last_success)]) {
                if let Some(at) = at {
                    observe(value::epoch_seconds(at), &[KeyValue::new("source", source)]);
                }
            }
        },
    );
    integers(
        meter,
        &own::HISTORY_PENDING,
        prefix,
        latch,
        |readout, observe| {
            observe(
                value::count(readout.collection.snapshot.history.pending),
                &[],
            );
        },
    );
    doubles(
        meter,
        &own::HISTORY_PENDING_AGE,
        prefix,
        latch,
        |readout, observe| {
            let Collection { snapshot, now } = &readout.collection;
            let oldest = snapshot.history.oldest;
            observe(oldest.map_or(0.0, |oldest| value::age(oldest, *now)), &[]);
        },
    );
    integers(meter, &own::SERIES, prefix, latch, |readout, observe| {
        let families = Family::ALL
            .into_iter()
            .filter_map(|family| Some((family.name(), readout.shown(family)?.series)));
        for (group, series) in families.chain(readout.own_series.map(|series| (OWN, series))) {
            observe(value::count(series), &[KeyValue::new("family", group)]);
        }
    });
}

fn integers(
    meter: &Meter,
    instrument: &Instrument,
    prefix: &str,
    latch: &Arc<Latch>,
    read: impl Fn(&Readout, &dyn Fn(i64, &[KeyValue])) + Send + Sync + 'static,
) {
    let latch = Arc::clone(latch);
    let _ = meter
        .i64_observable_gauge(instrument.otel_name(prefix))
        .with_unit(instrument.unit)
        .with_description(instrument.description.clone())
        .with_callback(move |observer| {
            if let Some(readout) = latch.get() {
                read(&readout, &|value, set| observer.observe(value, set));
            }
        })
        .build();
}

fn doubles(
    meter: &Meter,
    instrument: &Instrument,
    prefix: &str,
    latch: &Arc<Latch>,
    read: impl Fn(&Readout, &dyn Fn(f64, &[KeyValue])) + Send + Sync + 'static,
) {
    let latch = Arc::clone(latch);
    let _ = meter
        .f64_observable_gauge(instrument.otel_name(prefix))
        .with_unit(instrument.unit)
        .with_description(instrument.description.clone())
        .with_callback(move |observer| {
            if let Some(readout) = latch.get() {
                read(&readout, &|value, set| observer.observe(value, set));
            }
        })
        .build();
}

/// What `build.info` says: the version, and the commit and date if the build was told them.
fn build_attributes() -> [KeyValue; 3] {
    [
        KeyValue::new("commit", option_env!("MEGAMON_COMMIT").unwrap_or("none")),
        KeyValue::new("date", option_env!("MEGAMON_DATE").unwrap_or("unknown")),
        KeyValue::new("version", env!("CARGO_PKG_VERSION")),
    ]
}

/// The attributes of a resource, sorted; the core group, whose name is empty, is left out.
#[must_use]
pub fn resource_attributes(resource: &Resource) -> Vec<KeyValue> {
    let Resource {
        group,
        version,
        resource,
    } = resource;
    [
        ("group", group),
        ("resource", resource),
        ("version", version),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| KeyValue::new(key, Arc::clone(value)))
    .collect()
}

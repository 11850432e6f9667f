//! The log: for people on a terminal, one JSON object a line elsewhere, always on standard error
//! (standard output is the report's). Its filter can be changed while the program runs. Spans go
//! to the trace exporter, where one is configured.

use std::fmt;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Scope};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::clock::{Clock, WallClock};
use crate::config::{Log, LogFormat};
use crate::export::traces::Traces;

/// Target of the summary lines.
const SUMMARY: &str = "megamon::summary";
/// Field of an event whose JSON object is put into the line itself.
const RECORD: &str = "record";

/// A filter that means nothing, or not what was meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "log level {filter:?}: {reason}; expected off, error, warn, info, debug or trace, or a list such as info,megamon::watch=debug"
)]
pub struct InvalidFilter {
    filter: String,
    reason: String,
}

/// Why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter.
    #[error(transparent)]
    Filter(#[from] InvalidFilter),
    /// There is a log already.
    #[error("the log is set up already: {0}")]
    Again(#[from] tracing_subscriber::util::TryInitError),
}

/// Changes the filter while the program runs. A clone changes the same.
#[derive(Clone)]
pub struct Handle {
    reload: reload::Handle<EnvFilter, Registry>,
    current: Arc<Mutex<String>>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.filter()).finish()
    }
}

impl Handle {
    /// The filter in force.
    #[must_use]
    pub fn filter(&self) -> String {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Puts another filter in force, from the next event on. On an error the old one stays.
    pub fn set_filter(&self, text: &str) -> Result<(), InvalidFilter> {
        let text = text.trim();
        let filter = parse(text)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.reload.reload(filter).map_err(|error| InvalidFilter {
            filter: text.to_owned(),
            reason: error.to_string(),
        })?;
        text.clone_into(&mut current);
        drop(current);
        tracing::info!(filter = text, "log level changed");
        Ok(())
    }
}

/// Checks a filter without using it.
pub fn check_filter(text: &str) -> Result<(), InvalidFilter> {
    parse(text.trim()).map(drop)
}

fn parse(text: &str) -> Result<EnvFilter, InvalidFilter> {
    let refuse = |reason: String| InvalidFilter {
        filter: text.to_owned(),
        reason,
    };
    if text.is_empty() {
        return Err(refuse("it is empty".to_owned()));
    }
    for directive in text.split(',').map(str::trim) {
        // The filter's own syntax takes a bare word for a target: `inof` would silence everything.
        let word = !directive.contains(['=', ':', '[']);
        // And nothing at all for the level error.
        if word && (directive.is_empty() || directive.parse::<LevelFilter>().is_err()) {
            return Err(refuse(format!("{directive:?} is no level")));
        }
    }
    // The syntax knows no spaces around commas, people do.
    let mut directives: Vec<_> = text.split(',').map(str::trim).collect();
    // The client says each failed request as an error; here a failure is said once, by its watch.
    if !text.contains("kube_client") {
        directives.push("kube_client::client::builder=off");
    }
    EnvFilter::builder()
        .parse(directives.join(","))
        .map_err(|error| refuse(error.to_string()))
}

/// Sets up the log of this process, and hands spans to `traces` where that is given.
pub fn init(config: &Log, traces: Option<&Traces>) -> Result<Handle, LogError> {
    let human = match config.format {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let (layer, handle) = layer(config, human, std::io::stderr)?;
    let spans = traces.map(|traces| {
        // Only spans of this program: the exporter's own would export themselves for ever.
        let ours = filter_fn(|metadata| metadata.target().starts_with("megamon"));
        tracing_opentelemetry::layer()
            .with_tracer(traces.tracer())
            .with_filter(ours.and(LevelFilter::INFO))
    });
    tracing_subscriber::registry()
        .with(layer)
        .with(spans)
        .try_init()?;
    Ok(handle)
}

type Boxed = Box<dyn Layer<Registry> + Send + Sync>;

fn layer<W>(config: &Log, human: bool, writer: W) -> Result<(Boxed, Handle), InvalidFilter>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let text = config.level.trim();
    let (filter, reload) = reload::Layer::new(parse(text)?);
    let handle = Handle {
        reload,
        current: Arc::new(Mutex::new(text.to_owned())),
    };
    let fmt = tracing_subscriber::fmt::layer().with_writer(writer);
    let layer = if human {
        fmt.with_ansi(std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()))
            .with_filter(filter)
            .boxed()
    } else {
        // Span fields are rendered as JSON by the fields' formatter, the line by ours.
        fmt.json()
            .event_format(JsonLine)
            .with_filter(filter)
            .boxed()
    };
    Ok((layer, handle))
}

/// Writes a summary's line (see `export::report::summary_line`): its keys stand in the log line
/// itself.
pub fn summary(line: &Value) {
    tracing::info!(target: SUMMARY, record = %line, "summary changed");
}

/// One JSON object a line: `timestamp`, `level`, `target`, `message`, the event's fields, `spans`.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let mut fields = Fields {
            splice: metadata.target() == SUMMARY,
            line: Map::new(),
        };
        let line = &mut fields.line;
        line.insert("timestamp".to_owned(), WallClock.now().to_string().into());
        line.insert("level".to_owned(), metadata.level().as_str().into());
        line.insert("target".to_owned(), metadata.target().into());
        event.record(&mut fields);
        let mut line = fields.line;
        let mut spans = Vec::new();
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            let mut fields = span
                .extensions()
                .get::<FormattedFields<N>>()
                .and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok())
                .unwrap_or_default();
            fields.insert("name".to_owned(), span.name().into());
            spans.push(Value::Object(fields));
        }
        if !spans.is_empty() {
            line.insert("spans".to_owned(), Value::Array(spans));
        }
        let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

struct Fields {
    splice: bool,
    line: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        // An event's field does not take the place of what every line has.
        let name = match field.name() {
            name @ ("timestamp" | "level" | "target" | "spans") => format!("field.{name}"),
            name => name.to_owned(),
        };
        self.line.insert(name, value);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if self.splice
            && field.name() == RECORD
            && let Ok(Value::Object(record)) = serde_json::from_str(&text)
        {
            self.line.extend(record);
            return;
        }
        self.put(field, text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }

        fn json(&self) -> Vec<Value> {
            self.text()
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        }
    }

    fn with_log(human: bool, level: &str, body: impl FnOnce(&Handle)) -> Lines {
        let lines = Lines::default();
        let writer = lines.clone();
        let config = Log {
            format: LogFormat::Auto,
            level: level.to_owned(),
        };
        let (layer, handle) = layer(&config, human, move || writer.clone()).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || body(&handle));
        lines
    }

    #[test]
    fn the_clients_own_errors_are_heard_only_by_those_who_ask() {
        let quiet = "kube_client::client::builder=off";
        assert!(parse("info").unwrap().to_string().contains(quiet));
        let asked = parse("info,kube_client=debug").unwrap().to_string();
        assert!(!asked.contains(quiet), "{asked}");
    }

    #[test]
    fn json_has_one_object_a_line_with_fields_and_spans() {
        let lines = with_log(false, "info", |_| {
            let span = tracing::info_span!("reconcile", controller = "nodes", turn = 3);
            let _entered = span.enter();
            tracing::warn!(
                count = 2,
                share = 0.5,
                ok = true,
                name = "a\"b\nc",
                "it is {}",
                "so"
            );
        });
        let lines = lines.json();
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "it is so");
        assert_eq!(line["count"], 2);
        assert_eq!(line["share"], 0.5);
        assert_eq!(line["ok"], true);
        assert_eq!(line["name"], "a\"b\nc");
        assert_eq!(line["spans"][0]["name"], "reconcile");
        assert_eq!(line["spans"][0]["controller"], "nodes");
        assert_eq!(line["spans"][0]["turn"], 3);
        assert!(
            line["timestamp"]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .is_ok()
        );
    }

    #[test]
    fn a_summary_stands_in_the_line_itself() {
        let lines = with_log(false, "info", |_| {
            summary(&serde_json::json!({
                "type": "nodepools",
                "summary": {"provisioningState": "success"},
                "nodePoolName": "p",
            }));
        });
        let line = &lines.json()[0];
        assert_eq!(line["type"], "nodepools");
        assert_eq!(line["summary"]["provisioningState"], "success");
        assert_eq!(line["nodePoolName"], "p");
        assert!(line.get("record").is_none());
    }

    #[test]
    fn people_get_text() {
        let lines = with_log(true, "info", |_| tracing::info!(answer = 42, "hello"));
        let text = lines.text();
        assert!(text.contains("hello") && text.contains("answer"), "{text}");
        assert!(serde_json::from_str::<Value>(&text).is_err());
    }

    #[test]
    fn the_filter_changes_while_it_runs_and_a_bad_one_changes_nothing() {
        let lines = with_log(false, "warn", |handle| {
            tracing::info!("before");
            handle.set_filter("megamon=debug").unwrap();
            tracing::debug!("after");
            let error = handle.set_filter("debgu").unwrap_err();
            assert!(
                error.to_string().contains("\"debgu\" is no level"),
                "{error}"
            );
            assert_eq!(handle.filter(), "megamon=debug");
            tracing::debug!("still");
        });
        let messages: Vec<_> = lines
            .json()
            .iter()
            .map(|line| line["message"].clone())
            .collect();
        assert_eq!(messages, ["log level changed", "after", "still"]);
    }

    #[test]
    fn filters_are_checked() {
        for good in [
            "info",
            "OFF",
            "info,megamon::watch=debug",
            "warn, kube_client=trace",
            "megamon[reconcile]=debug",
        ] {
            assert_eq!(check_filter(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            " ",
            "loud",
            "info,,debug",
            "info,megamon=loud",
            "megamon=info,verbose",
        ] {
            let error = check_filter(bad).unwrap_err().to_string();
            assert!(
                error.contains("expected off, error, warn"),
                "{bad}: {error}"
            );
        }
    }
}

//! Names in Prometheus, by the rule of the contract: a dot becomes `_`, a unit adds its suffix,
//! a counter ends in `_total`. And whose series a metric's are, by its name.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::catalogue::{Kind, Scope, catalogue};

/// The Prometheus name of an instrument.
#[must_use]
pub fn prometheus(otel_name: &str, unit: &str, counter: bool) -> String {
    let mut name = sanitise_name(otel_name);
    if let Some(suffix) = unit_suffix(unit) {
        name.push('_');
        name.push_str(&suffix);
    }
    if counter {
        name.push_str("_total");
    }
    name
}

fn sanitise_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 16);
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        out.push('_');
    }
    out.extend(name.chars().map(|c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | ':' => c,
        _ => '_',
    }));
    out
}

/// A label name that every scraper takes: what is not `[a-zA-Z0-9_]` becomes `_`, and one that
/// would begin with a digit gets a `_` before it.
#[must_use]
pub fn label(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 1);
    if key.is_empty() || key.starts_with(|c: char| c.is_ascii_digit()) {
        out.push('_');
    }
    out.extend(key.chars().map(|c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' => c,
        _ => '_',
    }));
    out
}

/// The suffix that a unit adds; `None` for an annotation such as `{event}` and for an unknown one.
fn unit_suffix(unit: &str) -> Option<String> {
    if let Some(word) = unit_word(unit) {
        return Some(word.to_owned());
    }
    let (first, per) = unit.split_once('/')?;
    let per = match per {
        "s" => "second",
        "m" => "minute",
        "h" => "hour",
        "d" => "day",
        "w" => "week",
        "mo" => "month",
        "y" => "year",
        _ => return None,
    };
    match unit_word(first) {
        Some(word) if !["1", "d", "h", "min", "s", "ms", "us", "ns"].contains(&first) => {
            Some(format!("{word}_per_{per}"))
        }
        _ => Some(format!("per_{per}")),
    }
}

fn unit_word(unit: &str) -> Option<&'static str> {
    Some(match unit {
        "d" => "days",
        "h" => "hours",
        "min" => "minutes",
        "s" => "seconds",
        "ms" => "milliseconds",
        "us" => "microseconds",
        "ns" => "nanoseconds",
        "By" | "B" => "bytes",
        "KiBy" => "kibibytes",
        "MiBy" => "mebibytes",
        "GiBy" => "gibibytes",
        "TiBy" => "tibibytes",
        "KBy" | "KB" => "kilobytes",
        "MBy" | "MB" => "megabytes",
        "GBy" | "GB" => "gigabytes",
        "TBy" | "TB" => "terabytes",
        "m" => "meters",
        "V" => "volts",
        "A" => "amperes",
        "J" => "joules",
        "W" => "watts",
        "g" => "grams",
        "Cel" => "celsius",
        "Hz" => "hertz",
        "1" => "ratio",
        "%" => "percent",
        _ => return None,
    })
}

static SCOPES: LazyLock<HashMap<String, Scope>> = LazyLock::new(|| {
    let mut scopes = HashMap::new();
    for instrument in catalogue() {
        let name = instrument.name.to_string();
        let family = prometheus(&name, instrument.unit, instrument.kind == Kind::Counter);
        scopes.insert(name, instrument.scope);
        scopes.insert(family, instrument.scope);
    }
    scopes
});

/// Whose series a metric's are, by its OpenTelemetry name or that of its Prometheus family, under
/// any prefix. What is not in the catalogue (process and runtime metrics) is [`Scope::Own`].
#[must_use]
pub fn scope_of(metric: &str) -> Scope {
    let mut rest = metric;
    loop {
        if let Some(scope) = SCOPES.get(rest) {
            return *scope;
        }
        match rest.split_once(['.', '_', '/', '-']) {
            Some((_, after)) => rest = after,
            None => return Scope::Own,
        }
    }
}

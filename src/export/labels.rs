//! Labels of a series: attributes under sanitised names, sorted, then the scope's. Rendered once
//! for an attribute set, which the instruments of a family share, and kept while it is in use.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use opentelemetry::{InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::Resource;

use crate::instruments::names;

/// The labels that every series of an instrumentation scope has.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Names and values, in order.
    labels: Arc<[(String, String)]>,
    /// Rendered, without a brace or a leading comma.
    text: Arc<str>,
}

impl Scope {
    pub(super) fn of(scope: &InstrumentationScope) -> Self {
        let mut labels = vec![("otel_scope_name".to_owned(), scope.name().to_owned())];
        for (name, value) in [
            ("otel_scope_version", scope.version()),
            ("otel_scope_schema_url", scope.schema_url()),
        ] {
            // An empty label is none.
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                labels.push((name.to_owned(), value.to_owned()));
            }
        }
        let mut further: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for KeyValue { key, value, .. } in scope.attributes() {
            let name = names::label(&format!("otel_scope_{key}"));
            if !matches!(
                name.as_str(),
                "otel_scope_name" | "otel_scope_version" | "otel_scope_schema_url"
            ) {
                further.entry(name).or_default().push(value.to_string());
            }
        }
        labels.extend(further.into_iter().map(|(name, all)| (name, all.join(";"))));
        let mut text = String::new();
        for (name, value) in &labels {
            push(&mut text, name, value);
        }
        Self {
            labels: Arc::from(labels),
            text: Arc::from(text),
        }
    }
}

/// The labels of a resource, in braces; empty for an empty resource.
pub(super) fn of_resource(resource: &Resource) -> String {
    let labels = merged(
        resource.iter().map(|(key, value)| (key.as_str(), value)),
        &[],
    );
    if labels.is_empty() {
        return String::new();
    }
    let mut text = String::from("{");
    let start = text.len();
    for (name, value) in &labels {
        push_after(&mut text, start, name, value);
    }
    text.push('}');
    text
}

/// Labels in order: attributes by name, then the scope's. Attributes that come to one name share
/// it, their values joined with `;`.
fn merged<'a>(
    attributes: impl Iterator<Item = (&'a str, &'a Value)>,
    scope: &[(String, String)],
) -> Vec<(String, String)> {
    // By name, then by original key.
    let mut own: BTreeMap<String, BTreeMap<&str, Cow<'a, str>>> = BTreeMap::new();
    for (key, value) in attributes {
        own.entry(names::label(key))
            .or_default()
            .insert(key, value.as_str());
    }
    let mut of_scope = Vec::with_capacity(scope.len());
    for (name, value) in scope {
        let mut values = own.remove(name).unwrap_or_default();
        values.insert(name, Cow::Borrowed(value));
        of_scope.push((name.clone(), join(values)));
    }
    own.into_iter()
        .map(|(name, values)| (name, join(values)))
        .chain(of_scope)
        .collect()
}

fn join(values: BTreeMap<&str, Cow<'_, str>>) -> String {
    let values: Vec<Cow<'_, str>> = values.into_values().collect();
    values.join(";")
}

fn push(text: &mut String, name: &str, value: &str) {
    push_after(text, 0, name, value);
}

/// Appends `name="value"`, after a comma if there is something behind `start`.
fn push_after(text: &mut String, start: usize, name: &str, value: &str) {
    if text.len() > start {
        text.push(',');
    }
    text.push_str(name);
    text.push_str("=\"");
    escape(value, true, &mut |part| text.push_str(part));
    text.push('"');
}

/// Escapes a label value, or a help text, in which the older format leaves quotes as they are.
pub(super) fn escape(text: &str, quotes: bool, put: &mut dyn FnMut(&str)) {
    let mut rest = text;
    while let Some(at) = rest.find(|c| c == '\\' || c == '\n' || (quotes && c == '"')) {
        let (before, from) = rest.split_at(at);
        put(before);
        put(match from.as_bytes().first() {
            Some(b'\\') => "\\\\",
            Some(b'\n') => "\\n",
            _ => "\\\"",
        });
        rest = from.get(1..).unwrap_or_default();
    }
    put(rest);
}

/// Rendered labels by attribute set.
///
/// An entry is found by the addresses of the set's strings and holds a set of its own, against
/// which what is asked for is compared: by address where both share the string, else by content.
/// Its strings live as long as the entry, so an equal address is an equal string.
#[derive(Debug, Default)]
pub(super) struct LabelCache {
    entries: HashMap<u64, Entry, BuildHasherDefault<AsIs>>,
    scrape: u32,
}

#[derive(Debug)]
struct Entry {
    set: Box<[KeyValue]>,
    /// Without the labels of a scope: those follow it.
    text: Box<str>,
    /// The last scrape that used it.
    used: u32,
}

/// How many scrapes an entry is kept for without being used.
const KEPT: u32 = 3;

impl LabelCache {
    /// A scrape begins.
    pub(super) fn begin(&mut self) {
        self.scrape = self.scrape.wrapping_add(1);
    }

    /// A scrape is over: what was not used lately is dropped.
    pub(super) fn end(&mut self) {
        let scrape = self.scrape;
        self.entries
            .retain(|_, entry| scrape.wrapping_sub(entry.used) < KEPT);
        if self.entries.capacity() > 4 * self.entries.len() + 1024 {
            self.entries.shrink_to_fit();
        }
    }

    /// How many sets it holds.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Writes the labels of a series, without braces.
    pub(super) fn write(
        &mut self,
        attributes: &[&KeyValue],
        scope: &Scope,
        put: &mut dyn FnMut(&str),
    ) {
        if let Some(text) = self.rendered(attributes) {
            put(text);
            if !text.is_empty() && !scope.text.is_empty() {
                put(",");
            }
            put(&scope.text);
        } else {
            let mut text = String::new();
            for (name, value) in merged(pairs(attributes), &scope.labels) {
                push(&mut text, &name, &value);
            }
            put(&text);
        }
    }

    /// The attributes rendered; `None` where one of them has the name of a label of a scope.
    fn rendered(&mut self, attributes: &[&KeyValue]) -> Option<&str> {
        let key = address_of(attributes);
        let scrape = self.scrape;
        let found = self
            .entries
            .get(&key)
            .is_some_and(|entry| same(&entry.set, attributes));
        if !found {
            let labels = merged(pairs(attributes), &[]);
            if labels
                .iter()
                .any(|(name, _)| name.starts_with("otel_scope_"))
            {
                return None;
            }
            let mut text = String::new();
            for (name, value) in labels {
                push(&mut text, &name, &value);
            }
            let entry = Entry {
                set: attributes.iter().copied().cloned().collect(),
                text: text.into_boxed_str(),
                used: scrape,
            };
            self.entries.insert(key, entry);
        }
        let entry = self.entries.get_mut(&key)?;
        entry.used = scrape;
        Some(&entry.text)
    }
}

fn pairs<'a>(attributes: &[&'a KeyValue]) -> impl Iterator<Item = (&'a str, &'a Value)> {
    attributes
        .iter()
        .map(|attribute| (attribute.key.as_str(), &attribute.value))
}

fn same(set: &[KeyValue], attributes: &[&KeyValue]) -> bool {
    let same_value = |own: &Value, other: &Value| match (own, other) {
        (Value::String(own), Value::String(other)) => same_text(own.as_str(), other.as_str()),
        (own, other) => own == other,
    };
    set.len() == attributes.len()
        && set.iter().zip(attributes).all(|(own, other)| {
            same_text(own.key.as_str(), other.key.as_str()) && same_value(&own.value, &other.value)
        })
}

fn same_text(a: &str, b: &str) -> bool {
    std::ptr::eq(a, b) || a == b
}

/// A number made of where an attribute set's strings are. Sets that share theirs agree in it.
fn address_of(attributes: &[&KeyValue]) -> u64 {
    let mut hash: u64 = 0;
    let mut mix = |part: u64| {
        hash = (hash.rotate_left(5) ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    };
    for KeyValue { key, value, .. } in attributes {
        mix(address(key.as_str()));
        mix(match value {
            Value::String(text) => address(StringValue::as_str(text)),
            Value::Bool(value) => u64::from(*value),
            Value::I64(value) => value.cast_unsigned(),
            Value::F64(value) => value.to_bits(),
            _ => 0,
        });
    }
    hash
}

fn address(text: &str) -> u64 {
    u64::try_from(text.as_ptr().addr()).unwrap_or_default()
}

/// The keys are mixed already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

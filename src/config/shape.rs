//! Checks a document against the schema's table: names, types, nothing twice. What passes becomes
//! settings under their canonical names, each with its origin; what does not becomes a problem, so
//! that one reading finds them all.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::document::{Entry, Node, Position, Value};
use super::problem::{Origin, Path, Problem};
use super::schema::{self, Field, Kind};

/// Settings gathered from several origins, the later over the earlier.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Under canonical names.
    pub(super) settings: Map<String, Json>,
    /// Where each was given.
    pub(super) origins: BTreeMap<Path, Origin>,
    /// What was wrong so far.
    pub(super) problems: Vec<Problem>,
}

impl Gathered {
    /// Takes the settings of a document.
    pub(super) fn document(&mut self, file: &str, node: &Node) {
        let mut reader = Reader {
            file,
            origins: &mut self.origins,
            problems: &mut self.problems,
        };
        match &node.value {
            Value::Null => {}
            Value::Map(entries) => {
                self.settings = reader.section(&Path::default(), schema::ROOT, entries);
            }
            other => reader.wrong(&Path::default(), node, other, "a group of settings"),
        }
    }

    /// Sets one setting, or one entry of a map.
    pub(super) fn set(&mut self, path: Path, value: Json, origin: Origin) {
        self.clear(&path);
        let mut names = path.names().collect::<Vec<_>>();
        let Some(last) = names.pop() else { return };
        let mut group = &mut self.settings;
        for name in names {
            let below = group
                .entry(name)
                .or_insert_with(|| Json::Object(Map::new()));
            let Json::Object(below) = below else { return };
            group = below;
        }
        group.insert(last.to_owned(), value);
        self.origins.insert(path, origin);
    }

    /// Takes a setting back.
    pub(super) fn clear(&mut self, path: &Path) {
        self.origins.retain(|known, _| !known.is_within(path));
        let mut names = path.names().collect::<Vec<_>>();
        let Some(last) = names.pop() else { return };
        let mut group = &mut self.settings;
        for name in names {
            let Some(Json::Object(below)) = group.get_mut(name) else {
                return;
            };
            group = below;
        }
        group.remove(last);
    }
}

/// Reads one file.
struct Reader<'a> {
    file: &'a str,
    origins: &'a mut BTreeMap<Path, Origin>,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn origin(&self, at: Position) -> Origin {
        Origin::File {
            name: self.file.to_owned(),
            position: Some(at),
        }
    }

    fn problem(&mut self, path: Path, at: Position, what: String, expected: &str) {
        self.problems.push(Problem {
            origin: self.origin(at),
            path,
            what,
            expected: expected.to_owned(),
        });
    }

    fn wrong(&mut self, path: &Path, node: &Node, value: &Value, expected: &str) {
        let kind = match value {
            Value::Switch(_) => " is true or false",
            Value::Whole(_) | Value::Number(_) => " is a number",
            Value::Text(_) => " is text",
            Value::Null | Value::List(_) | Value::Map(_) => " is here",
        };
        self.problem(path.clone(), node.at, format!("{value}{kind}"), expected);
    }

    /// The settings of a group, under canonical names.
    fn section(&mut self, path: &Path, message: &str, entries: &[Entry]) -> Map<String, Json> {
        let fields = schema::fields(message);
        let mut seen = BTreeMap::new();
        let mut settings = Map::new();
        for entry in entries {
            let named =
                |field: &&Field| [field.name, field.proto_name].contains(&entry.key.as_str());
            let Some(field) = fields.iter().find(named) else {
                let what = "is no setting here".to_owned();
                let expected = nearest(fields, &entry.key);
                self.problem(path.name(&*entry.key), entry.at, what, &expected);
                continue;
            };
            let path = path.name(field.name);
            if !self.first(&path, &mut seen, entry) {
                continue;
            }
            if let Some(value) = self.value(&path, field, entry) {
                settings.insert(field.name.to_owned(), value);
            }
        }
        settings
    }

    /// Whether this is the first with its name.
    fn first(&mut self, path: &Path, seen: &mut BTreeMap<Path, Position>, entry: &Entry) -> bool {
        if let Some(before) = seen.get(path) {
            let what = format!("is given twice, first in line {}", before.line);
            self.problem(path.clone(), entry.at, what, "it once");
            return false;
        }
        seen.insert(path.clone(), entry.at);
        true
    }

    fn value(&mut self, path: &Path, field: &Field, entry: &Entry) -> Option<Json> {
        let node = &entry.node;
        let value = match (field.kind, &node.value) {
            // A group with everything below it commented out is a group in which nothing is set.
            (Kind::Section(_), Value::Null) => Json::Object(Map::new()),
            (_, Value::Null) => {
                let what = "has no value".to_owned();
                let expected = format!("{}, or leave it out for the default", field.expected());
                self.problem(path.clone(), entry.at, what, &expected);
                return None;
            }
            (Kind::Section(message), Value::Map(entries)) => {
                Json::Object(self.section(path, message, entries))
            }
            (Kind::TextList, Value::List(items)) => {
                let items = items.iter().enumerate();
                let texts = items
                    .map(|(index, item)| self.text(&path.index(index), item, "text"))
                    .collect::<Vec<_>>();
                Json::Array(texts.into_iter().collect::<Option<_>>()?)
            }
            (Kind::TextMap | Kind::WholeMap, Value::Map(entries)) => {
                let mut seen = BTreeMap::new();
                let mut map = Map::new();
                for entry in entries {
                    let path = path.name(&*entry.key);
                    if !self.first(&path, &mut seen, entry) {
                        continue;
                    }
                    let value = if field.kind == Kind::TextMap {
                        self.secret(&path, &entry.node)
                    } else {
                        self.whole(&path, &entry.node)
                    };
                    if let Some(value) = value {
                        map.insert(entry.key.clone(), value);
                    }
                }
                Json::Object(map)
            }
            (Kind::Text, _) => self.text(path, node, &field.expected())?,
            (Kind::Whole, _) => self.whole(path, node)?,
            (Kind::Switch, Value::Switch(switch)) => Json::Bool(*switch),
            (Kind::Number, Value::Number(number)) => (*number).into(),
            #[expect(clippy::cast_precision_loss, reason = "shares are from 0 to 1")]
            (Kind::Number, Value::Whole(whole)) => (*whole as f64).into(),
            (_, value) => {
                self.wrong(path, node, value, &field.expected());
                return None;
            }
        };
        self.origins.insert(path.clone(), self.origin(node.at));
        Some(value)
    }

    fn text(&mut self, path: &Path, node: &Node, expected: &str) -> Option<Json> {
        self.origins.insert(path.clone(), self.origin(node.at));
        match &node.value {
            Value::Text(text) => Some(Json::String(text.clone())),
            value @ (Value::Switch(_) | Value::Whole(_) | Value::Number(_))
                if expected == "text" =>
            {
                self.wrong(path, node, value, "text: put it in quotes");
                None
            }
            value => {
                self.wrong(path, node, value, expected);
                None
            }
        }
    }

    /// A text that may be a token, and so is not repeated.
    fn secret(&mut self, path: &Path, node: &Node) -> Option<Json> {
        self.origins.insert(path.clone(), self.origin(node.at));
        let what = match &node.value {
            Value::Text(text) => return Some(Json::String(text.clone())),
            Value::Null => "has no value",
            Value::Switch(_) => "is true or false",
            Value::Whole(_) | Value::Number(_) => "is a number",
            Value::List(_) => "is a list",
            Value::Map(_) => "is a mapping",
        };
        let expected = "text: put it in quotes";
        self.problem(path.clone(), node.at, what.to_owned(), expected);
        None
    }

    fn whole(&mut self, path: &Path, node: &Node) -> Option<Json> {
        self.origins.insert(path.clone(), self.origin(node.at));
        let expected = format!("a whole number from 0 to {}", u32::MAX);
        match &node.value {
            Value::Whole(whole) => {
                if let Ok(whole) = u32::try_from(*whole) {
                    return Some(whole.into());
                }
                self.problem(
                    path.clone(),
                    node.at,
                    format!("{whole} is out of range"),
                    &expected,
                );
            }
            value => self.wrong(path, node, value, &expected),
        }
        None
    }
}

/// What somebody may have meant who wrote a name that no setting of the group has.
fn nearest(fields: &[Field], name: &str) -> String {
    let near = |field: &Field| {
        let distance = |known| strsim::damerau_levenshtein(known, name);
        distance(field.name).min(distance(field.proto_name))
    };
    let close = |distance: usize| distance <= (name.chars().count() / 3).max(2);
    fields
        .iter()
        .map(|field| (near(field), field.name))
        .filter(|(distance, _)| close(*distance))
        .min_by_key(|(distance, _)| *distance)
        .map_or_else(
            || {
                let names = fields.iter().map(|field| field.name).collect::<Vec<_>>();
                format!("one of {}", names.join(", "))
            },
            |(_, name)| name.to_owned(),
        )
}

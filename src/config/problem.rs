//! What is wrong with a configuration: where, what, and what was expected instead.

use std::fmt;

use super::document::Position;

/// Where a setting stands among the others, such as `otlp.headers.authorization`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Name(String),
    Index(usize),
}

impl Path {
    /// The path of something by name below this one.
    #[must_use]
    pub fn name(&self, name: impl Into<String>) -> Self {
        self.with(Segment::Name(name.into()))
    }

    /// The path of an item of a list at this one.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut path = self.clone();
        path.0.push(segment);
        path
    }

    /// The path above; `None` at the top.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        let (_, above) = self.0.split_last()?;
        Some(Self(above.to_vec()))
    }

    /// Whether this is `other` or below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The names on the way, the list positions left out.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|segment| match segment {
            Segment::Name(name) => Some(name.as_str()),
            Segment::Index(_) => None,
        })
    }
}

/// A path of plain names with dots between them.
impl From<&str> for Path {
    fn from(dotted: &str) -> Self {
        let names = dotted.split('.').map(|name| Segment::Name(name.to_owned()));
        Self(names.collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |name: &str| {
            let part = |char: char| char.is_ascii_alphanumeric() || "_-".contains(char);
            !name.is_empty() && name.chars().all(part)
        };
        if self.0.is_empty() {
            return f.write_str("document");
        }
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Name(name) if !plain(name) => write!(f, "[{name:?}]")?,
                Segment::Name(name) if position == 0 => f.write_str(name)?,
                Segment::Name(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// Where a setting was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// As it was named.
        name: String,
        /// Where in it; `None` for the file as a whole.
        position: Option<Position>,
    },
    /// By an environment variable.
    Variable(&'static str),
    /// By a flag.
    Flag(&'static str),
    /// Nowhere.
    Default,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where the setting was given.
    pub origin: Origin,
    /// Which setting.
    pub path: Path,
    /// What is wrong.
    pub what: String,
    /// What was expected; empty where there is nothing to add.
    pub expected: String,
}

/// `file:line:column: path: what is wrong, expected what`; the variable's or flag's name stands in
/// the place of file and path.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::File {
                name,
                position: Some(Position { line, column }),
            } => write!(f, "{name}:{line}:{column}: {}: ", self.path)?,
            Origin::File {
                name,
                position: None,
            } => write!(f, "{name}: ")?,
            Origin::Variable(name) | Origin::Flag(name) => write!(f, "{name}: ")?,
            Origin::Default => write!(f, "{}: ", self.path)?,
        }
        f.write_str(&self.what)?;
        if self.expected.is_empty() {
            Ok(())
        } else {
            write!(f, ", expected {}", self.expected)
        }
    }
}

/// Everything that is wrong with a configuration, in the order of its files' lines; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

/// One line for each.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

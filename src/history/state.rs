//! What the log comes to: the lives that go on, the lives that ended, the watermarks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Record, Remembered, Watermark};
use crate::model::{Attributes, ObjectKey, Source};
use crate::observed::PoolKind;
use crate::summary::Fold;

/// What is remembered of one life of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Life {
    /// When it began: its first event.
    pub start: Timestamp,
    /// Nothing is known of its past.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub found: bool,
    /// What names it, as last shown.
    pub attributes: Arc<Attributes>,
    /// How many are expected of it, as last shown.
    pub expected: i64,
    /// What kind of pool it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolKind>,
    /// What its events come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<Fold>,
    /// When its provisioning failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Timestamp>,
    /// A label pool without nodes: since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emptied: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
}

impl Life {
    /// Takes a record of this life; what is about something else changes nothing.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Event { event, .. } => match &mut self.fold {
                Some(fold) => fold.apply(*event),
                none => *none = Some(Fold::new(*event)),
            },
            Record::Changed {
                attributes,
                expected,
                pool,
                ..
            } => {
                self.attributes = attributes.clone();
                self.expected = *expected;
                self.pool = *pool;
            }
            Record::Failed { at, .. } => self.failed = Some(*at),
            Record::Emptied { at, .. } => self.emptied = *at,
            Record::Ended { at, .. } => {
                self.ended = Some(*at);
                if let Some(fold) = &mut self.fold {
                    fold.end(*at);
                }
            }
            Record::Deployment { .. }
            | Record::Nodes { .. }
            | Record::Watched { .. }
            | Record::Watermark { .. }
            | Record::Began { .. } => {}
        }
    }
}

/// What a log comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Names the deployment.
    pub deployment: Option<Arc<str>>,
    /// When each kind was first watched.
    pub watched: BTreeMap<Source, Timestamp>,
    /// How far the log covers each watch.
    pub watermarks: BTreeMap<Source, Watermark>,
    /// The nodes as of their watermark, by name.
    pub nodes: HashMap<Arc<str>, Remembered>,
    /// The lives that go on.
    pub lives: HashMap<ObjectKey, Life>,
    /// The lives that ended, oldest first.
    pub ended: Vec<(ObjectKey, Life)>,
    /// Records about a life that the log does not know. None, unless the log was damaged.
    pub strays: u64,
}

impl State {
    /// Takes the next record.
    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Deployment { id } => {
                self.deployment.get_or_insert(id);
            }
            Record::Watched { source, since } => {
                self.watched.entry(source).or_insert(since);
            }
            Record::Watermark { source, mark } => {
                self.watermarks.insert(source, mark);
            }
            Record::Nodes { nodes } => {
                for (name, node) in nodes {
                    match node {
                        Some(node) => self.nodes.insert(name, node),
                        None => self.nodes.remove(&name),
                    };
                }
            }
            Record::Began {
                object,
                start,
                found,
                attributes,
                expected,
                pool,
            } => {
                let life = Life {
                    start,
                    found,
                    attributes,
                    expected,
                    pool,
                    fold: None,
                    failed: None,
                    emptied: None,
                    ended: None,
                };
                if let Some(mut old) = self.lives.insert(object.clone(), life) {
                    old.apply(&Record::Ended {
                        object: object.clone(),
                        at: start,
                    });
                    self.ended.push((object, old));
                }
            }
            Record::Event { ref object, .. }
            | Record::Changed { ref object, .. }
            | Record::Failed { ref object, .. }
            | Record::Emptied { ref object, .. } => match self.lives.get_mut(object) {
                Some(life) => life.apply(&record),
                None => self.strays += 1,
            },
            Record::Ended { ref object, .. } => match self.lives.remove(object) {
                Some(mut life) => {
                    life.apply(&record);
                    self.ended.push((object.clone(), life));
                }
                None => self.strays += 1,
            },
        }
    }

    /// Forgets lives that ended before an instant.
    pub fn forget_ended_before(&mut self, instant: Timestamp) {
        self.ended
            .retain(|(_, life)| life.ended.is_none_or(|ended| ended >= instant));
    }

    /// The newest watermark.
    #[must_use]
    pub fn newest(&self) -> Option<Timestamp> {
        self.watermarks.values().map(|mark| mark.at).max()
    }
}

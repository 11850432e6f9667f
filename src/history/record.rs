//! What the log says, one record a line.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::{Attributes, Event, ObjectKey, Readiness, Source};
use crate::observed::{Member, PoolKind};

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "record",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Record {
    /// Names the deployment whose history this is, for as long as it lasts.
    Deployment {
        /// A random UUID.
        id: Arc<str>,
    },
    /// A kind is watched for the first time.
    Watched {
        /// Which.
        source: Source,
        /// When its first list began.
        since: Timestamp,
    },
    /// Everything that a watch showed up to here is in the log.
    Watermark {
        /// Which watch.
        source: Source,
        /// Up to where.
        #[serde(flatten)]
        mark: Watermark,
    },
    /// What is remembered of nodes, by name, has changed: they were made, made anew, are or are no
    /// longer Ready, or (`None`) are gone.
    Nodes {
        /// What changed since the record before.
        nodes: BTreeMap<Arc<str>, Option<Remembered>>,
    },
    /// A life begins.
    Began {
        /// Whose.
        #[serde(flatten)]
        object: ObjectKey,
        /// When: its first event.
        start: Timestamp,
        /// Nothing is known of its past.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        found: bool,
        /// What names it.
        attributes: Arc<Attributes>,
        /// How many are expected of it.
        expected: i64,
        /// What kind of pool it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<PoolKind>,
    },
    /// It went up or down.
    Event {
        /// Which.
        #[serde(flatten)]
        object: ObjectKey,
        /// How and when.
        #[serde(flatten)]
        event: Event,
    },
    /// Its attributes or its expectation are others now.
    Changed {
        /// Which.
        #[serde(flatten)]
        object: ObjectKey,
        /// What names it.
        attributes: Arc<Attributes>,
        /// How many are expected of it.
        expected: i64,
        /// What kind of pool it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pool: Option<PoolKind>,
    },
    /// A pool's provisioning failed.
    Failed {
        /// Which.
        #[serde(flatten)]
        object: ObjectKey,
        /// When.
        at: Timestamp,
    },
    /// A label pool lost its last node (or, with `None`, has one again).
    Emptied {
        /// Which.
        #[serde(flatten)]
        object: ObjectKey,
        /// When.
        at: Option<Timestamp>,
    },
    /// A life ends.
    Ended {
        /// Whose.
        #[serde(flatten)]
        object: ObjectKey,
        /// When.
        at: Timestamp,
    },
}

/// How far the log covers a watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Watermark {
    /// The instant.
    pub at: Timestamp,
    /// The resourceVersion; empty for what has none.
    #[serde(default)]
    pub resource_version: Arc<str>,
}

/// A node as of the watermark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    /// Its UID.
    pub uid: Arc<str>,
    /// Its state, if it was not Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<NotReady>,
}

/// The state of a node that was not Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotReady {
    /// creationTimestamp of the node.
    pub created: Timestamp,
    /// Its readiness.
    pub readiness: Readiness,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// It had been Unknown for too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
}

impl From<Member> for Remembered {
    fn from(member: Member) -> Self {
        let Member {
            name: _,
            uid,
            created,
            readiness,
            since,
            overdue,
        } = member;
        let state = NotReady {
            created,
            readiness,
            since,
            overdue,
        };
        Self {
            uid,
            not_ready: (readiness != Readiness::Ready).then_some(state),
        }
    }
}

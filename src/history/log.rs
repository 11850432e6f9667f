//! The log: opening it under a new epoch, appending to it, compacting it.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::codec::{self, DecodeError, Format, Header};
use super::{Life, Record, Remembered, State, Store, StoreError, Watermark};
use crate::model::{ObjectKey, Source};

const LOG: &str = "log";
const SNAPSHOT: &str = "snapshot";
/// A log object is deleted only this long after it was compacted, so that a writer that slept
/// finds its number taken and not free.
const KEPT_AFTER_COMPACTION: SignedDuration = SignedDuration::from_hours(1);

fn name(folder: &str, sequence: u64) -> String {
    format!("{folder}/{sequence:020}.jsonl")
}

/// An open log, of which this process is the writer.
#[derive(Clone, Debug)]
pub struct Log {
    store: Store,
    writer: Arc<str>,
    epoch: u64,
    next: u64,
    compacted: u64,
}

/// A log and what it came to.
#[derive(Debug)]
pub struct Opened {
    /// The log, ready for appends.
    pub log: Log,
    /// What it came to.
    pub state: State,
}

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store did not do what it was asked.
    #[error("the history at {url} cannot be read: {cause}")]
    Store {
        /// Where.
        url: String,
        /// Why.
        cause: StoreError,
    },
    /// An object cannot be used.
    #[error(
        "the history at {url} is damaged: {name}: {cause}; it is not used and nothing was changed: restore that object from a copy, or move the whole history away to begin a new one"
    )]
    Damaged {
        /// Where.
        url: String,
        /// Which object.
        name: String,
        /// What is wrong with it.
        cause: DecodeError,
    },
    /// An object is missing.
    #[error(
        "the history at {url} is damaged: {name} is missing; nothing was changed: restore that object from a copy, or move the whole history away to begin a new one"
    )]
    Missing {
        /// Where.
        url: String,
        /// Which object.
        name: String,
    },
    /// A record could not be written as JSON.
    #[error("a record cannot be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

/// Why records could not be appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another process has taken over: this one must stop publishing.
    #[error(
        "{name} was written by {writer} under epoch {epoch}: this process no longer owns the history"
    )]
    Fenced {
        /// The object that was in the way.
        name: String,
        /// Who wrote it.
        writer: String,
        /// Under which epoch.
        epoch: u64,
    },
    /// The store did not do what it was asked; it can be tried again.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object in the way cannot be read.
    #[error("{name} is in the way and cannot be used: {cause}")]
    Damaged {
        /// Which object.
        name: String,
        /// What is wrong with it.
        cause: DecodeError,
    },
    /// A record could not be written as JSON.
    #[error("a record cannot be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

/// A line of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "camelCase")]
enum Entry {
    Deployment {
        id: Arc<str>,
    },
    Watched {
        source: Source,
        since: Timestamp,
    },
    Watermark {
        source: Source,
        #[serde(flatten)]
        mark: Watermark,
    },
    Nodes {
        nodes: HashMap<Arc<str>, Remembered>,
    },
    Life {
        #[serde(flatten)]
        object: ObjectKey,
        life: Box<Life>,
    },
}

/// The log as it was read.
struct Replayed {
    state: State,
    /// The number of the last object.
    last: u64,
    epoch: u64,
    snapshot: u64,
}

async fn object(store: &Store, name: String) -> Result<bytes::Bytes, OpenError> {
    let url = || store.url().to_owned();
    match store.read(&name).await {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(OpenError::Missing { url: url(), name }),
        Err(cause) => Err(OpenError::Store { url: url(), cause }),
    }
}

async fn replay(store: &Store, up_to: Option<u64>) -> Result<Replayed, OpenError> {
    let url = || store.url().to_owned();
    let listed = |cause| OpenError::Store { url: url(), cause };
    let damaged = |name: String| {
        move |cause| OpenError::Damaged {
            url: store.url().to_owned(),
            name,
            cause,
        }
    };
    let snapshots = store.list(SNAPSHOT).await.map_err(listed)?;
    let logs = store.list(LOG).await.map_err(listed)?;
    let mut replayed = Replayed {
        state: State::default(),
        last: 0,
        epoch: 0,
        snapshot: 0,
    };
    let within = |sequence: &u64| up_to.is_none_or(|up_to| *sequence <= up_to);
    if let Some(sequence) = snapshots.into_iter().rev().find(within) {
        let name = name(SNAPSHOT, sequence);
        let bytes = object(store, name.clone()).await?;
        let state = &mut replayed.state;
        let header = codec::decode(&bytes, sequence, |entry| match entry {
            Entry::Deployment { id } => state.deployment = Some(id),
            Entry::Nodes { nodes } => state.nodes = nodes,
            Entry::Watched { source, since } => {
                state.watched.insert(source, since);
            }
            Entry::Watermark { source, mark } => {
                state.watermarks.insert(source, mark);
            }
            Entry::Life { object, life } if life.ended.is_some() => {
                state.ended.push((object, *life));
            }
            Entry::Life { object, life } => {
                state.lives.insert(object, *life);
            }
        })
        .map_err(damaged(name))?;
        replayed.epoch = header.epoch;
        replayed.last = sequence;
        replayed.snapshot = sequence;
    }
    for sequence in logs.into_iter().filter(within) {
        if sequence <= replayed.last {
            continue;
        }
        let missing = replayed.last + 1;
        if sequence != missing {
            return Err(OpenError::Missing {
                url: url(),
                name: name(LOG, missing),
            });
        }
        let name = name(LOG, sequence);
        let bytes = object(store, name.clone()).await?;
        let state = &mut replayed.state;
        let header = codec::decode(&bytes, sequence, |record| state.apply(record));
        replayed.epoch = header.map_err(damaged(name))?.epoch.max(replayed.epoch);
        replayed.last = sequence;
    }
    Ok(replayed)
}

impl Log {
    /// Reads the log, and makes `writer` its writer under the next epoch.
    pub async fn open(store: Store, writer: &str, now: Timestamp) -> Result<Opened, OpenError> {
        loop {
            let Replayed {
                mut state,
                last,
                epoch,
                snapshot,
            } = replay(&store, None).await?;
            let mut log = Self {
                store: store.clone(),
                writer: writer.into(),
                epoch: epoch + 1,
                next: last + 1,
                compacted: snapshot,
            };
            // The first writer names the deployment.
            let new = state.deployment.is_none().then(|| Record::Deployment {
                id: uuid::Uuid::new_v4().to_string().into(),
            });
            let barrier: Vec<_> = new.into_iter().collect();
            match log.append(&barrier, now).await {
                Ok(()) => {
                    for record in barrier {
                        state.apply(record);
                    }
                    return Ok(Opened { log, state });
                }
                // Somebody else wrote meanwhile: read that too.
                Err(AppendError::Fenced { .. }) => {}
                Err(AppendError::Store(cause)) => {
                    return Err(OpenError::Store {
                        url: store.url().to_owned(),
                        cause,
                    });
                }
                Err(AppendError::Damaged { name, cause }) => {
                    return Err(OpenError::Damaged {
                        url: store.url().to_owned(),
                        name,
                        cause,
                    });
                }
                Err(AppendError::Encode(error)) => return Err(error.into()),
            }
        }
    }

    /// The epoch under which this process appends.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Appends records as one object. When this returns, they are durable.
    pub async fn append(&mut self, records: &[Record], now: Timestamp) -> Result<(), AppendError> {
        let about = (self.next, self.epoch, &*self.writer, now);
        let bytes = codec::encode(Format::Log, about, records)?;
        let name = name(LOG, self.next);
        match self.store.create(&name, bytes).await {
            Ok(()) => {}
            Err(StoreError::Exists(_)) => {
                // It may be our own, written by a request whose answer was lost.
                let header = self.header_of(&name).await?;
                if header.writer != *self.writer || header.epoch != self.epoch || header.at != now {
                    let Header { writer, epoch, .. } = header;
                    return Err(AppendError::Fenced {
                        name,
                        writer,
                        epoch,
                    });
                }
            }
            Err(error) => return Err(error.into()),
        }
        self.next += 1;
        Ok(())
    }

    async fn header_of(&self, name: &str) -> Result<Header, AppendError> {
        let bytes = self.store.read(name).await?.unwrap_or_default();
        let (header, _) =
            codec::header(&bytes, self.next).map_err(|cause| AppendError::Damaged {
                name: name.to_owned(),
                cause,
            })?;
        Ok(header)
    }

    /// Log objects that no snapshot covers.
    #[must_use]
    pub fn uncompacted(&self) -> u64 {
        (self.next - 1).saturating_sub(self.compacted)
    }

    /// Marks everything appended so far as being compacted, and returns what does it.
    pub fn begin_compaction(&mut self) -> Compaction {
        self.compacted = self.next - 1;
        Compaction {
            store: self.store.clone(),
            writer: self.writer.clone(),
            epoch: self.epoch,
            up_to: self.compacted,
        }
    }
}

/// A compaction: reads the log up to a number from the store and writes the snapshot of it. It
/// shares nothing with the log that goes on meanwhile.
#[derive(Debug)]
pub struct Compaction {
    store: Store,
    writer: Arc<str>,
    epoch: u64,
    up_to: u64,
}

impl Compaction {
    /// Writes the snapshot, forgets lives that ended longer than `retention` ago, and deletes what
    /// has long been compacted.
    pub async fn run(self, retention: SignedDuration, now: Timestamp) -> Result<(), OpenError> {
        let url = || self.store.url().to_owned();
        let failed = |cause| OpenError::Store { url: url(), cause };
        let Replayed {
            mut state, epoch, ..
        } = replay(&self.store, Some(self.up_to)).await?;
        if let Ok(horizon) = now.checked_sub(retention) {
            state.forget_ended_before(horizon);
        }
        let deployment = state.deployment.into_iter();
        let watched = state.watched.into_iter();
        let marks = state.watermarks.into_iter();
        let nodes = Some(state.nodes).into_iter();
        let lives = state.ended.into_iter().chain(state.lives);
        let entries = deployment
            .map(|id| Entry::Deployment { id })
            .chain(watched.map(|(source, since)| Entry::Watched { source, since }))
            .chain(marks.map(|(source, mark)| Entry::Watermark { source, mark }))
            .chain(nodes.map(|nodes| Entry::Nodes { nodes }))
            .chain(lives.map(|(object, life)| Entry::Life {
                object,
                life: Box::new(life),
            }));
        let about = (self.up_to, epoch.max(self.epoch), &*self.writer, now);
        let bytes = codec::encode(Format::Snapshot, about, entries)?;
        match self.store.create(&name(SNAPSHOT, self.up_to), bytes).await {
            Ok(()) | Err(StoreError::Exists(_)) => {}
            Err(cause) => return Err(failed(cause)),
        }
        // What is covered by a snapshot that is old enough is no longer needed.
        let snapshots = self.store.list(SNAPSHOT).await.map_err(failed)?;
        let mut horizon = None;
        for sequence in snapshots.iter().rev() {
            let bytes = object(&self.store, name(SNAPSHOT, *sequence)).await?;
            let Ok((header, _)) = codec::header(&bytes, *sequence) else {
                continue;
            };
            if now.duration_since(header.at) >= KEPT_AFTER_COMPACTION {
                horizon = Some(*sequence);
                break;
            }
        }
        let Some(horizon) = horizon else {
            return Ok(());
        };
        for sequence in snapshots.into_iter().filter(|sequence| *sequence < horizon) {
            self.store
                .remove(&name(SNAPSHOT, sequence))
                .await
                .map_err(failed)?;
        }
        let logs = self.store.list(LOG).await.map_err(failed)?;
        for sequence in logs.into_iter().filter(|sequence| *sequence <= horizon) {
            self.store
                .remove(&name(LOG, sequence))
                .await
                .map_err(failed)?;
        }
        Ok(())
    }
}

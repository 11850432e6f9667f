//! Where the history is kept: numbered objects below one place, made only if absent.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

/// A store of objects.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<dyn ObjectStore>,
    url: String,
}

/// What can go wrong with a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no store that this program knows.
    #[error(
        "history.url: {url:?} is no place for a history, expected file:///absolute/path or memory:"
    )]
    Url {
        /// The URL.
        url: String,
    },
    /// The directory cannot be used.
    #[error(
        "the directory {path} of the history cannot be made: {cause}; make it writable for this process or set history.url"
    )]
    Directory {
        /// The directory.
        path: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The object is there already.
    #[error("{0} exists already")]
    Exists(String),
    /// The store did not do what it was asked.
    #[error("{operation} {name}: {cause}")]
    Failed {
        /// What was asked.
        operation: &'static str,
        /// Of which object.
        name: String,
        /// Why not.
        cause: object_store::Error,
    },
}

impl Store {
    /// Opens the store that a URL names.
    pub fn open(url: &str) -> Result<Self, StoreError> {
        let inner: Arc<dyn ObjectStore> = if url == "memory:" {
            Arc::new(InMemory::new())
        } else if let Some(path) = url
            .strip_prefix("file://")
            .filter(|path| path.starts_with('/'))
        {
            let directory = |cause| StoreError::Directory {
                path: path.to_owned(),
                cause,
            };
            std::fs::create_dir_all(path).map_err(directory)?;
            let local =
                LocalFileSystem::new_with_prefix(path).map_err(|cause| StoreError::Failed {
                    operation: "open",
                    name: path.to_owned(),
                    cause,
                })?;
            // What was appended must be there after a power cut.
            Arc::new(local.with_fsync(true))
        } else {
            return Err(StoreError::Url {
                url: url.to_owned(),
            });
        };
        Ok(Self::over(inner, url))
    }

    /// A store over one that is open; `url` is what it is called in messages.
    #[must_use]
    pub fn over(inner: Arc<dyn ObjectStore>, url: &str) -> Self {
        Self {
            inner,
            url: url.to_owned(),
        }
    }

    /// The URL it was opened by.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes an object, if there is none of that name.
    pub async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        let payload = PutPayload::from(bytes);
        match self
            .inner
            .put_opts(&Path::from(name), payload, options)
            .await
        {
            Ok(_) => Ok(()),
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => Err(StoreError::Exists(name.to_owned())),
            Err(cause) => Err(failed("write", name, cause)),
        }
    }

    /// Reads an object; `None` if there is none of that name.
    pub async fn read(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let got = match self.inner.get(&Path::from(name)).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(cause) => return Err(failed("read", name, cause)),
        };
        got.bytes()
            .await
            .map(Some)
            .map_err(|cause| failed("read", name, cause))
    }

    /// The numbers of the objects of a folder that are named by one, in order.
    pub async fn list(&self, folder: &str) -> Result<Vec<u64>, StoreError> {
        let path = Path::from(folder);
        let found: Vec<_> = self
            .inner
            .list(Some(&path))
            .try_collect()
            .await
            .map_err(|cause| failed("list", folder, cause))?;
        let mut numbers: Vec<u64> = found
            .iter()
            .filter_map(|meta| {
                meta.location
                    .filename()?
                    .strip_suffix(".jsonl")?
                    .parse()
                    .ok()
            })
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Removes an object; one that is not there is no error.
    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        match self.inner.delete(&Path::from(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(cause) => Err(failed("delete", name, cause)),
        }
    }
}

fn failed(operation: &'static str, name: &str, cause: object_store::Error) -> StoreError {
    StoreError::Failed {
        operation,
        name: name.to_owned(),
        cause,
    }
}

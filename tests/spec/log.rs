//! The log on a real directory and in memory: what is appended is there again, one writer at a
//! time, compaction changes nothing, and nothing damaged is ever used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::SignedDuration;
use megamon::history::{AppendError, Log, OpenError, Opened, Record, State, Store};
use megamon::model::Family::NodePool;
use megamon::model::{Attributes, Event, ObjectKey};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use crate::world::at;

fn pool(name: &str) -> ObjectKey {
    ObjectKey {
        family: NodePool,
        key: name.into(),
    }
}

fn began(name: &str) -> Record {
    Record::Began {
        object: pool(name),
        start: at("0:00"),
        found: false,
        attributes: Arc::new(Attributes {
            name: name.into(),
            spot: true,
            ..Attributes::default()
        }),
        expected: 2,
        pool: None,
    }
}

fn event(name: &str, up: bool, when: &str) -> Record {
    Record::Event {
        object: pool(name),
        event: Event {
            up,
            expected_down: false,
            timestamp: at(when),
            bounds: None,
        },
    }
}

fn ended(name: &str, when: &str) -> Record {
    Record::Ended {
        object: pool(name),
        at: at(when),
    }
}

fn batches() -> Vec<Vec<Record>> {
    vec![
        vec![began("a"), event("a", false, "0:00"), began("b")],
        vec![event("b", false, "0:01"), event("a", true, "1:00")],
        vec![ended("b", "2:00")],
        vec![
            event("a", false, "3:00"),
            began("b"),
            event("b", false, "3:30"),
        ],
        vec![event("a", true, "4:00")],
    ]
}

fn folded(batches: &[Vec<Record>]) -> State {
    let mut state = State::default();
    for record in batches.iter().flatten() {
        state.apply(record.clone());
    }
    state
}

/// The same but for the deployment's name, which is random.
fn same(left: &State, right: &State) {
    let bare = |state: &State| State {
        deployment: None,
        ..state.clone()
    };
    assert_eq!(bare(left), bare(right));
}

async fn open(store: &Store, writer: &str) -> Opened {
    Log::open(store.clone(), writer, at("0:00")).await.unwrap()
}

/// Each of the stores that this version has, by its URL.
fn stores() -> (tempfile::TempDir, Vec<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}/new/history", folder.path().display());
    let stores = vec![Store::open("memory:").unwrap(), Store::open(&url).unwrap()];
    (folder, stores)
}

#[tokio::test]
async fn what_is_appended_is_there_again() {
    let (_folder, stores) = stores();
    for store in stores {
        let Opened { mut log, state } = open(&store, "one").await;
        assert_eq!(log.epoch(), 1);
        let named = state.deployment.clone().unwrap();
        let batches = batches();
        for (count, batch) in batches.iter().enumerate() {
            log.append(batch, at("9:00")).await.unwrap();
            // Any prefix can be read, and the next writer has the next epoch.
            let other = open(&copy(&store).await, "reader").await;
            same(&other.state, &folded(&batches[..=count]));
            assert_eq!(other.log.epoch(), 2);
        }
        let again = open(&store, "two").await;
        same(&again.state, &folded(&batches));
        assert_eq!(again.log.epoch(), 2);
        assert_eq!(
            again.state.deployment,
            Some(named),
            "the deployment keeps its name"
        );
    }
}

/// What is in a store now, in memory.
async fn copy(store: &Store) -> Store {
    let copy = Store::open("memory:").unwrap();
    for folder in ["log", "snapshot"] {
        for number in store.list(folder).await.unwrap() {
            let name = format!("{folder}/{number:020}.jsonl");
            let bytes = store.read(&name).await.unwrap().unwrap();
            copy.create(&name, bytes.to_vec()).await.unwrap();
        }
    }
    copy
}

#[tokio::test]
async fn a_former_writer_is_fenced_at_once() {
    let (_folder, stores) = stores();
    for store in stores {
        let mut former = open(&store, "former").await.log;
        former.append(&[began("a")], at("1:00")).await.unwrap();
        let mut new = open(&store, "new").await.log;
        let error = former
            .append(&[event("a", false, "1:00")], at("2:00"))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, AppendError::Fenced { writer, epoch: 2, .. } if writer == "new"),
            "{error}"
        );
        new.append(&[event("a", false, "1:00")], at("2:00"))
            .await
            .unwrap();
        assert_eq!(open(&store, "reader").await.state.strays, 0);
    }
}

#[tokio::test]
async fn compaction_changes_nothing_and_deletes_only_what_is_long_covered() {
    let (_folder, stores) = stores();
    for store in stores {
        let mut log = open(&store, "one").await.log;
        let batches = batches();
        let retention = SignedDuration::from_hours(24 * 30);
        for batch in &batches[..3] {
            log.append(batch, at("5:00")).await.unwrap();
        }
        assert_eq!(log.uncompacted(), 4, "the barrier too");
        let compaction = log.begin_compaction();
        // Appends go on meanwhile.
        log.append(&batches[3], at("6:00")).await.unwrap();
        compaction.run(retention, at("10:00")).await.unwrap();
        assert_eq!(
            store.list("log").await.unwrap().len(),
            5,
            "nothing is deleted within the hour"
        );
        log.append(&batches[4], at("7:00")).await.unwrap();
        same(
            &open(&copy(&store).await, "reader").await.state,
            &folded(&batches),
        );

        log.begin_compaction()
            .run(retention, at("1:10:00"))
            .await
            .unwrap();
        assert_eq!(
            store.list("log").await.unwrap(),
            [5, 6],
            "what the old snapshot covers is gone"
        );
        assert_eq!(store.list("snapshot").await.unwrap(), [4, 6]);
        same(&open(&store, "two").await.state, &folded(&batches));
        assert_eq!(
            open(&store, "three").await.log.epoch(),
            3,
            "the epoch survives compaction"
        );

        // What ended long ago is forgotten, and only that.
        let mut log = open(&store, "four").await.log;
        log.begin_compaction()
            .run(SignedDuration::from_mins(1), at("2:00:00"))
            .await
            .unwrap();
        let state = open(&store, "five").await.state;
        assert!(state.ended.is_empty());
        assert_eq!(state.lives, folded(&batches).lives);
    }
}

#[tokio::test]
async fn nothing_damaged_is_used_and_each_is_named() {
    type Damage = fn(&str) -> Vec<u8>;
    let cases: [(Damage, &str); 5] = [
        (
            |text| text.as_bytes()[..text.len() - 10].to_vec(),
            "it is torn",
        ),
        (
            |text| {
                text.replace("0:", "1:")
                    .replacen("true", "null", 1)
                    .into_bytes()
            },
            "it is damaged",
        ),
        (|_| b"hello\n".to_vec(), "does not begin with a header"),
        (
            |text| text.replace("\"version\":1", "\"version\":7").into_bytes(),
            "use a newer megamon",
        ),
        (
            |text| {
                text.replace("\"sequence\":3", "\"sequence\":4")
                    .into_bytes()
            },
            "its name says 3",
        ),
    ];
    for (damage, said) in cases {
        let store = Store::open("memory:").unwrap();
        let mut log = open(&store, "one").await.log;
        for batch in batches() {
            log.append(&batch, at("5:00")).await.unwrap();
        }
        let name = format!("log/{:020}.jsonl", 3);
        let whole = store.read(&name).await.unwrap().unwrap();
        store.remove(&name).await.unwrap();
        let error = Log::open(store.clone(), "two", at("6:00"))
            .await
            .unwrap_err();
        assert!(matches!(&error, OpenError::Missing { .. }), "{error}");
        assert!(
            error.to_string().contains(&format!("{name} is missing")),
            "{error}"
        );

        let text = std::str::from_utf8(&whole).unwrap();
        store.create(&name, damage(text)).await.unwrap();
        let error = Log::open(store.clone(), "two", at("6:00"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(&name) && error.contains(said), "{error}");
        assert_eq!(
            store.list("log").await.unwrap().len(),
            6,
            "nothing was changed"
        );
    }
}

#[test]
fn a_url_that_is_no_store_is_said() {
    for url in ["", "ftp://x", "file://relative", "gs://bucket"] {
        let error = Store::open(url).unwrap_err().to_string();
        assert!(
            error.contains("history.url") && error.contains("file:///absolute/path"),
            "{error}"
        );
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Store::open(&format!("file://{}/below", file.path().display())).unwrap_err();
    assert!(error.to_string().contains("make it writable"), "{error}");
}

/// A store that does what it is asked and says that it did not.
#[derive(Debug, Default)]
struct Forgetful {
    inner: InMemory,
    lies: AtomicBool,
}

impl std::fmt::Display for Forgetful {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("forgetful")
    }
}

#[async_trait]
impl ObjectStore for Forgetful {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let done = self.inner.put_opts(path, payload, options).await?;
        if self.lies.swap(false, Ordering::Relaxed) {
            return Err(object_store::Error::Generic {
                store: "forgetful",
                source: "503".into(),
            });
        }
        Ok(done)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.inner.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &Path,
        to: &Path,
        options: CopyOptions,
    ) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn a_write_that_was_done_and_denied_is_our_own() {
    let forgetful = Arc::new(Forgetful::default());
    let store = Store::over(forgetful.clone(), "forgetful:");
    let mut log = open(&store, "one").await.log;
    forgetful.lies.store(true, Ordering::Relaxed);
    let batch = [began("a"), event("a", false, "0:00")];
    let denied = log.append(&batch, at("1:00")).await.unwrap_err();
    assert!(matches!(denied, AppendError::Store(_)), "{denied}");
    log.append(&batch, at("1:00")).await.unwrap();
    log.append(&[event("a", true, "2:00")], at("2:00"))
        .await
        .unwrap();
    let state = open(&store, "two").await.state;
    assert_eq!(
        state.lives[&pool("a")].fold.unwrap().first_up(),
        Some(at("2:00"))
    );
    assert_eq!(
        (state.strays, store.list("log").await.unwrap().len()),
        (0, 4)
    );
}

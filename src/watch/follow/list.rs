//! Gets whole lists: page by page, told as one message or not at all.

use std::collections::HashSet;
use std::sync::Arc;

use http::StatusCode;
use tokio::time::sleep;

use super::{Reason, Standing, State, Step, Watch};
use crate::model::{Undecodable, Update};
use crate::watch::collection::{Collection, Kind};
use crate::watch::request::{Page, RequestError};

/// A whole list.
struct List<T> {
    objects: Vec<T>,
    undecodable: Vec<Undecodable>,
    resource_version: Arc<str>,
}

impl<K: Kind> Watch<K> {
    /// One whole list, and what follows from its outcome.
    pub(super) async fn list(&mut self) -> Step<State> {
        let began = self.feed.clock.now();
        let list = match self.pages().await {
            Ok(list) => list,
            Err(error) => {
                return match error.status() {
                    Some(StatusCode::GONE) => {
                        self.restart(Reason::Expired).await;
                        Ok(State::Listing)
                    }
                    Some(StatusCode::NOT_FOUND) if K::COLLECTION.custom => {
                        self.missing(began).await
                    }
                    _ => self.fail("list", &error).await,
                };
            }
        };
        if self.standing == Standing::Absent {
            tracing::info!(watch = K::SOURCE.name(), "the kind is installed now");
        }
        self.standing = Standing::Present;
        let from = list.resource_version.clone();
        self.send(Update::Listed {
            objects: list.objects,
            undecodable: list.undecodable,
            resource_version: list.resource_version,
            began,
            seen: self.feed.clock.now(),
        })
        .await?;
        Ok(State::Watching(from))
    }

    /// Gets all pages. The body of one is dropped, or written over, before the next is asked for.
    async fn pages(&mut self) -> Result<List<K::Object>, RequestError> {
        let mut list = List {
            objects: Vec::new(),
            undecodable: Vec::new(),
            resource_version: "".into(),
        };
        let mut unreadable = 0_usize;
        let mut body = Vec::new();
        let mut token = None;
        loop {
            self.requests
                .page(self.version_name(), token, &mut body)
                .await?;
            let page: Page<'_> = serde_json::from_slice(&body).map_err(RequestError::NoList)?;
            // Every page is of the state as of the first one.
            if list.resource_version.is_empty() {
                let Some(version) = page.metadata.resource_version.some() else {
                    return Err(RequestError::NoResourceVersion);
                };
                list.resource_version = version.into();
                let remaining = page.metadata.remaining_item_count.unwrap_or_default();
                let all = page.items.len().saturating_add(remaining.min(1_000_000));
                list.objects.reserve_exact(all);
            }
            for item in &page.items {
                match self.kind.decode(item.get()) {
                    Ok(decoded) => list.objects.push(decoded.object),
                    Err(error) => {
                        unreadable = unreadable.saturating_add(1);
                        list.undecodable
                            .extend(self.undecodable(item.get(), &error));
                    }
                }
            }
            token = page.metadata.r#continue.some().map(str::to_owned);
            if token.is_none() {
                break;
            }
        }
        if unreadable == 0 {
            self.named.clear();
        } else {
            let still: HashSet<(&str, &str)> = list
                .undecodable
                .iter()
                .map(|object| (&*object.namespace, &*object.name))
                .collect();
            self.named
                .retain(|(namespace, name)| still.contains(&(&**namespace, &**name)));
        }
        tracing::debug!(
            watch = K::SOURCE.name(),
            objects = list.objects.len(),
            unreadable,
            resource_version = &*list.resource_version,
            "listed"
        );
        Ok(list)
    }

    /// A list's answer is that there is no such kind.
    async fn missing(&mut self, began: jiff::Timestamp) -> Step<State> {
        let Collection { versions, .. } = K::COLLECTION;
        self.version = self.version.saturating_add(1);
        if self.version < versions.len() {
            return Ok(State::Listing);
        }
        self.version = 0;
        match self.standing {
            // Said again at each look, so that the age of what is known stays small.
            Standing::Absent => {
                self.say_absent(began).await?;
                return Ok(State::Absent);
            }
            Standing::Present => {
                // All its objects would be taken for gone, so the server is asked once more.
                self.standing = Standing::Doubtful;
                sleep(self.feed.options.backoff_min).await;
                return Ok(State::Listing);
            }
            Standing::Unknown | Standing::Doubtful => {}
        }
        self.standing = Standing::Absent;
        self.settled();
        self.count(Reason::Absent);
        tracing::info!(
            watch = K::SOURCE.name(),
            group = K::COLLECTION.group,
            "the kind is not installed; waiting for it"
        );
        self.named.clear();
        self.say_absent(began).await?;
        Ok(State::Absent)
    }

    async fn say_absent(&mut self, began: jiff::Timestamp) -> Step<()> {
        let seen = self.feed.clock.now();
        self.send(Update::Absent { began, seen }).await
    }
}

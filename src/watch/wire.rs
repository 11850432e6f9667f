//! Slim wire types: of an API object only what is read is kept, and that borrowed from the answer.
//! `null` is as good as absent everywhere, and a field that nobody reads is skipped without a copy.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::model::{Readiness, Undecodable};

/// A fact read from an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<T> {
    /// The fact.
    pub object: T,
    /// The object's resourceVersion; empty where it has none.
    pub resource_version: Arc<str>,
}

/// Why an object could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is no JSON, or a field has another type than the API documents.
    #[error("it does not read as the documented type: {0}")]
    Json(#[from] serde_json::Error),
    /// A field that every object has is missing or empty.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A time is none.
    #[error("{field} is no RFC 3339 time: {text:?}: {source}")]
    Time {
        /// The field.
        field: &'static str,
        /// What it says.
        text: String,
        /// What is wrong with it.
        source: jiff::Error,
    },
}

/// A text, borrowed from the answer unless it holds escapes. Empty when `null` or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    pub(super) fn get(&self) -> &str {
        &self.0
    }

    /// The text unless it is empty.
    pub(super) fn some(&self) -> Option<&str> {
        Some(self.get()).filter(|text| !text.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Text::default())
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
                d.deserialize_str(self)
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_option(TextVisitor)
    }
}

/// A map of texts, such as labels. Objects have few, so it is searched from the front.
#[derive(Clone, Debug, Default)]
pub(super) struct TextMap<'a>(Vec<(Text<'a>, Text<'a>)>);

impl TextMap<'_> {
    /// The value of a key, which may be empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(k, _)| k.get() == key)?;
        Some(value.get())
    }

    /// The value of a key unless it is empty.
    pub(super) fn some(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| !value.is_empty())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TextMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor;
        impl<'de> Visitor<'de> for MapVisitor {
            type Value = TextMap<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }
            fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(TextMap::default())
            }
            fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
                d.deserialize_map(self)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(16);
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(TextMap(entries))
            }
        }
        deserializer.deserialize_option(MapVisitor)
    }
}

/// For `deserialize_with`: `null` is the default.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What is read of `metadata`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    pub(super) resource_version: Text<'a>,
    #[serde(borrow)]
    creation_timestamp: Text<'a>,
    #[serde(borrow)]
    deletion_timestamp: Text<'a>,
    #[serde(borrow)]
    pub(super) labels: TextMap<'a>,
}

impl Metadata<'_> {
    pub(super) fn name(&self) -> Result<Arc<str>, DecodeError> {
        let name = self.name.some();
        Ok(name.ok_or(DecodeError::Missing("metadata.name"))?.into())
    }

    pub(super) fn uid(&self) -> Result<Arc<str>, DecodeError> {
        let uid = self.uid.some();
        Ok(uid.ok_or(DecodeError::Missing("metadata.uid"))?.into())
    }

    pub(super) fn created(&self) -> Result<Timestamp, DecodeError> {
        time("metadata.creationTimestamp", &self.creation_timestamp)?
            .ok_or(DecodeError::Missing("metadata.creationTimestamp"))
    }

    pub(super) fn deleting(&self) -> Result<Option<Timestamp>, DecodeError> {
        time("metadata.deletionTimestamp", &self.deletion_timestamp)
    }

    pub(super) fn decoded<T>(&self, object: T) -> Decoded<T> {
        Decoded {
            object,
            resource_version: self.resource_version.get().into(),
        }
    }
}

/// A time of the API; `None` where it is missing.
fn time(field: &'static str, text: &Text<'_>) -> Result<Option<Timestamp>, DecodeError> {
    let Some(text) = text.some() else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|source| DecodeError::Time {
        field,
        text: text.to_owned(),
        source,
    })
}

/// One of `status.conditions`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Condition<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    last_transition_time: Text<'a>,
}

impl Condition<'_> {
    pub(super) fn readiness(&self) -> Readiness {
        match self.status.get() {
            "True" => Readiness::Ready,
            "False" => Readiness::NotReady,
            _ => Readiness::Unknown,
        }
    }

    pub(super) fn since(&self) -> Result<Option<Timestamp>, DecodeError> {
        time(
            "status.conditions[].lastTransitionTime",
            &self.last_transition_time,
        )
    }
}

/// The condition of a type.
pub(super) fn find<'c, 'a>(
    conditions: &'c [Condition<'a>],
    r#type: &str,
) -> Option<&'c Condition<'a>> {
    conditions.iter().find(|c| c.r#type.get() == r#type)
}

/// What is read of a pod template: `spec.nodeSelector`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct PodTemplate<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) spec: PodTemplateSpec<'a>,
}

/// What is read of a pod template's `spec`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodTemplateSpec<'a> {
    #[serde(borrow)]
    pub(super) node_selector: TextMap<'a>,
}

/// The node labels of TPU machines, which node selectors name too.
pub(super) mod label {
    pub(crate) const TOPOLOGY: &str = "cloud.google.com/gke-tpu-topology";
    pub(crate) const ACCELERATOR: &str = "cloud.google.com/gke-tpu-accelerator";
    pub(crate) const ACCELERATOR_COUNT: &str = "cloud.google.com/gke-accelerator-count";
    pub(crate) const SPOT: &str = "cloud.google.com/gke-spot";
    pub(crate) const GKE_NODE_POOL: &str = "cloud.google.com/gke-nodepool";
}

/// An object of which nothing but its name and resourceVersion is read.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Named<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: NamedMetadata<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NamedMetadata<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    resource_version: Text<'a>,
}

impl Named<'_> {
    /// Name and namespace of an object; `None` where not even those can be read.
    pub(super) fn of(object: &str) -> Option<Undecodable> {
        let named: Named<'_> = serde_json::from_str(object).ok()?;
        Some(Undecodable {
            namespace: named.metadata.namespace.get().into(),
            name: named.metadata.name.some()?.into(),
        })
    }

    /// The resourceVersion of an object; `None` where it cannot be read.
    pub(super) fn resource_version(object: &str) -> Option<Arc<str>> {
        let named: Named<'_> = serde_json::from_str(object).ok()?;
        Some(named.metadata.resource_version.some()?.into())
    }
}

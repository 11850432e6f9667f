//! The attribute sets of an object's series, built once and kept with the object's attributes.
//!
//! A set is sorted by key and its strings are shared, so that the SDK keeps one copy of it and
//! taking it costs a few reference counts.

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use opentelemetry::KeyValue;

use crate::model::{Attributes, Family};
use crate::snapshot::Scheduled;
use crate::summary::Provisioning;

/// A sorted attribute set.
pub(crate) type AttributeSet = Arc<[KeyValue]>;

/// A JobSet's condition, as an attribute.
#[derive(Clone, Copy)]
pub(crate) enum Condition {
    Completed,
    Failed,
    Suspended,
}

impl Condition {
    fn name(self) -> &'static str {
        match self {
            Self::Completed => "Completed",
            Self::Failed => "Failed",
            Self::Suspended => "Suspended",
        }
    }
}

/// Texts that many objects have in common, each kept once: a collection takes every attribute of
/// every series, and what it touches should fit the processor's caches.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    kept: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Texts {
    /// The one copy of a text.
    fn shared(&mut self, text: &Arc<str>) -> Arc<str> {
        if let Some(kept) = self.kept.get(text) {
            return Arc::clone(kept);
        }
        if self.kept.len() >= self.sweep_at {
            // What nobody else holds belongs to no object any more.
            self.kept.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = 2 * self.kept.len() + 64;
        }
        self.kept.insert(Arc::clone(text));
        Arc::clone(text)
    }
}

/// The attribute sets of one object.
#[derive(Debug)]
pub(crate) struct Derived {
    names: Names,
    base: AttributeSet,
    provisioning: [OnceLock<AttributeSet>; 3],
    conditions: [OnceLock<AttributeSet>; 3],
}

/// Which keys an object's names go under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    JobSet,
    NodePool,
    Slice,
    Lws,
}

impl Names {
    fn of(family: Family) -> Self {
        match family {
            Family::JobSet | Family::JobSetNodes => Self::JobSet,
            Family::NodePool => Self::NodePool,
            Family::Slice => Self::Slice,
            Family::Lws => Self::Lws,
        }
    }
}

impl Derived {
    /// The sets of an object's attributes: those kept with them, else made now and kept.
    pub(crate) fn of(family: Family, attributes: &Attributes, texts: &mut Texts) -> Arc<Self> {
        let names = Names::of(family);
        let kept = attributes.derived.get_or_init(|| {
            Arc::new(Self::new(names, attributes, texts)) as Arc<dyn Any + Send + Sync>
        });
        match Arc::clone(kept).downcast::<Self>() {
            Ok(derived) if derived.names == names => derived,
            // Another reader's, or another family's.
            _ => Arc::new(Self::new(names, attributes, texts)),
        }
    }

    fn new(names: Names, attributes: &Attributes, texts: &mut Texts) -> Self {
        let Attributes {
            name,
            namespace,
            uid,
            tpu_topology,
            tpu_accelerator,
            spot,
            owner_kind,
            owner_name,
            owner_namespace,
            derived: _,
        } = attributes;
        let mut shared = |text| texts.shared(text);
        let (tpu_accelerator, tpu_topology) = (&shared(tpu_accelerator), &shared(tpu_topology));
        let (namespace, owner_namespace) = (&shared(namespace), &shared(owner_namespace));
        let owner_kind = &shared(owner_kind);
        let mut set: Vec<(&'static str, &Arc<str>)> = vec![
            ("tpu.accelerator", tpu_accelerator),
            ("tpu.topology", tpu_topology),
        ];
        match names {
            Names::JobSet => set.extend([
                ("jobset.name", name),
                ("jobset.namespace", namespace),
                ("jobset.uid", uid),
            ]),
            Names::NodePool => set.push(("nodepool.name", name)),
            Names::Slice => set.extend([
                ("slice.name", name),
                ("slice.owner.kind", owner_kind),
                ("slice.owner.name", owner_name),
                ("slice.owner.namespace", owner_namespace),
            ]),
            Names::Lws => set.extend([
                ("lws.name", name),
                ("lws.namespace", namespace),
                ("lws.uid", uid),
            ]),
        }
        let mut set = strings(set);
        if *spot && names != Names::Slice {
            set.push(KeyValue::new("spot", true));
        }
        Self {
            names,
            base: sorted(set),
            provisioning: [const { OnceLock::new() }; 3],
            conditions: [const { OnceLock::new() }; 3],
        }
    }

    /// The object's own set.
    pub(crate) fn base(&self) -> &AttributeSet {
        &self.base
    }

    /// The set with a `provisioning_state`.
    pub(crate) fn provisioning(&self, state: Provisioning) -> AttributeSet {
        let at = match state {
            Provisioning::Provisioning => 0,
            Provisioning::Success => 1,
            Provisioning::Failed => 2,
        };
        self.with(&self.provisioning, at, "provisioning_state", state.name())
    }

    /// The set with a `condition`.
    pub(crate) fn condition(&self, condition: Condition) -> AttributeSet {
        self.with(
            &self.conditions,
            condition as usize,
            "condition",
            condition.name(),
        )
    }

    fn with(
        &self,
        kept: &[OnceLock<AttributeSet>; 3],
        at: usize,
        key: &'static str,
        value: &'static str,
    ) -> AttributeSet {
        let make = || {
            let mut set = self.base.to_vec();
            set.push(KeyValue::new(key, value));
            sorted(set)
        };
        kept.get(at)
            .map_or_else(make, |kept| kept.get_or_init(make).clone())
    }
}

/// The attribute set of `nodepool.job.scheduled`.
pub(crate) fn scheduled(scheduled: &Scheduled) -> AttributeSet {
    let Scheduled { pool, job, jobset } = scheduled;
    Arc::from(strings([
        ("job.name", job),
        ("jobset.name", jobset),
        ("nodepool.name", pool),
    ]))
}

/// Text attributes; an empty one is left out.
fn strings<'a>(pairs: impl IntoIterator<Item = (&'static str, &'a Arc<str>)>) -> Vec<KeyValue> {
    pairs
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| KeyValue::new(key, Arc::clone(value)))
        .collect()
}

fn sorted(mut set: Vec<KeyValue>) -> AttributeSet {
    set.sort_by(|a, b| a.key.cmp(&b.key));
    Arc::from(set)
}

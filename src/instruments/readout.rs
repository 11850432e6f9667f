//! What one collection publishes: a snapshot at one `now`, computed once per object, below the
//! series limits. The instruments' callbacks only read it, so that nothing in them can fail.

use std::collections::HashSet;
use std::sync::Arc;

use super::attributes::{self, AttributeSet, Condition, Derived, Texts};
use super::family::{READINGS, Read};
use super::limit::Limit;
use super::value;
use crate::model::Family;
use crate::snapshot::{Collection, ObjectView, Scheduled, Table};
use crate::summary::{Nanos, Provisioning, Summary};

const FAMILIES: usize = Family::ALL.len();

/// One object that is shown.
pub(crate) struct Row {
    pub(crate) family: Family,
    pub(crate) view: Arc<ObjectView>,
    pub(crate) derived: Arc<Derived>,
    /// What its durable events come to now; `None` before the first of them is.
    pub(crate) summary: Option<Summary>,
    /// A node pool's provisioning, where it is shown.
    provisioning: Option<(Provisioning, Nanos)>,
}

impl Row {
    fn new(
        family: Family,
        view: Arc<ObjectView>,
        collection: &Collection,
        texts: &mut Texts,
    ) -> Self {
        let derived = Derived::of(family, &view.attributes, texts);
        let provisioning = (family == Family::NodePool)
            .then(|| view.provisioning(collection.now))
            .flatten()
            .filter(|(state, _)| !view.only_provisioning || *state == Provisioning::Failed);
        Self {
            family,
            summary: view.summary(collection.now),
            provisioning,
            derived,
            view,
        }
    }

    fn conditions(&self) -> impl Iterator<Item = Condition> {
        let shown = self.family == Family::JobSet && !self.view.only_provisioning;
        let conditions = self.view.conditions;
        [
            (conditions.completed, Condition::Completed),
            (conditions.failed, Condition::Failed),
            (conditions.suspended, Condition::Suspended),
        ]
        .into_iter()
        .filter(move |(is_true, _)| shown && *is_true)
        .map(|(_, condition)| condition)
    }

    /// How many series it has.
    fn series(&self) -> usize {
        let own = if self.view.only_provisioning {
            0
        } else {
            READINGS
                .iter()
                .filter(|reading| match reading.read {
                    Read::Integer(read) => read(self).is_some(),
                    Read::Time(read) => read(self).is_some(),
                })
                .count()
        };
        own + self.conditions().count() + usize::from(self.provisioning.is_some())
    }
}

/// What is shown of one family.
#[derive(Default)]
pub(crate) struct Shown {
    /// The objects that have the family's own instruments.
    pub(crate) rows: Vec<Row>,
    /// `nodepool.provisioning.duration`: attributes and seconds.
    pub(crate) provisioning: Vec<(AttributeSet, f64)>,
    /// `jobset.condition`.
    pub(crate) conditions: Vec<AttributeSet>,
    /// `nodepool.job.scheduled`.
    pub(crate) scheduled: Vec<AttributeSet>,
    /// How many series all that is.
    pub(crate) series: usize,
    /// Index of the instruments that publish it.
    pub(crate) size: usize,
}

impl Shown {
    /// The most series that one of its instruments has.
    pub(crate) fn widest(&self) -> usize {
        self.rows
            .len()
            .max(self.provisioning.len())
            .max(self.conditions.len().div_ceil(CONDITIONS))
            .max(self.scheduled.len())
    }
}

/// How many conditions of a JobSet can be True at once.
pub(crate) const CONDITIONS: usize = 3;

/// Series left out because their family is at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The family.
    pub family: &'static str,
    /// How many series.
    pub series: u64,
}

/// What one collection publishes.
pub struct Readout {
    /// The snapshot and the `now` that it was read at.
    pub collection: Collection,
    /// By [`Family::index`]; `None` for a family that is not judged.
    pub(crate) families: [Option<Shown>; FAMILIES],
    /// The program's own series at the last collection.
    pub(crate) own_series: Option<usize>,
}

impl Readout {
    pub(crate) fn shown(&self, family: Family) -> Option<&Shown> {
        self.families.get(family.index())?.as_ref()
    }
}

/// Makes the readouts of a process, and remembers from one to the next what is shown.
pub struct Reader {
    objects: [Limit<Arc<str>>; FAMILIES],
    scheduled: Limit<(Arc<str>, Arc<str>, Arc<str>)>,
    texts: Texts,
}

impl Reader {
    /// Shows at most `most` objects of each family.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            objects: Family::ALL.map(|family| Limit::new(family.name(), most)),
            scheduled: Limit::new(Family::NodePool.name(), most),
            texts: Texts::default(),
        }
    }

    /// Reads a snapshot. Says what the limits leave out that was not left out before.
    pub fn read(
        &mut self,
        collection: Collection,
        own_series: Option<usize>,
    ) -> (Readout, Vec<LeftOut>) {
        let mut left_out = Vec::new();
        let mut families = [const { None }; FAMILIES];
        for ((family, limit), place) in Family::ALL
            .into_iter()
            .zip(&mut self.objects)
            .zip(&mut families)
        {
            let Some(Some(table)) = collection.snapshot.families.get(family.index()) else {
                continue;
            };
            let (mut shown, mut series) =
                read_family(family, table, limit, &collection, &mut self.texts);
            if family == Family::NodePool {
                series += read_scheduled(&mut self.scheduled, limit, &collection, &mut shown);
            }
            if series > 0 {
                left_out.push(LeftOut {
                    family: family.name(),
                    series: u64::try_from(series).unwrap_or(u64::MAX),
                });
            }
            *place = Some(shown);
        }
        let readout = Readout {
            collection,
            families,
            own_series,
        };
        (readout, left_out)
    }
}

/// What is shown of a family, and how many series have just been left out of it.
fn read_family(
    family: Family,
    table: &Table<ObjectView>,
    limit: &mut Limit<Arc<str>>,
    collection: &Collection,
    texts: &mut Texts,
) -> (Shown, usize) {
    let objects: Vec<&Arc<ObjectView>> = table.iter().collect();
    let selection = limit.select(objects, |view| Arc::clone(&view.key));
    let left_out = selection
        .newly_left_out
        .into_iter()
        .map(|view| Row::new(family, Arc::clone(view), collection, texts).series())
        .sum();
    let mut shown = Shown {
        rows: Vec::with_capacity(selection.shown.len()),
        ..Shown::default()
    };
    for view in selection.shown {
        let row = Row::new(family, Arc::clone(view), collection, texts);
        shown.series += row.series();
        if let Some((state, duration)) = row.provisioning {
            shown
                .provisioning
                .push((row.derived.provisioning(state), value::seconds(duration)));
        }
        shown
            .conditions
            .extend(row.conditions().map(|of| row.derived.condition(of)));
        if !row.view.only_provisioning {
            shown.rows.push(row);
        }
    }
    (shown, left_out)
}

/// `nodepool.job.scheduled` of the pools that are shown. A pool that the limit leaves out has
/// none either.
fn read_scheduled(
    limit: &mut Limit<(Arc<str>, Arc<str>, Arc<str>)>,
    pools: &Limit<Arc<str>>,
    collection: &Collection,
    shown: &mut Shown,
) -> usize {
    let mut all: Vec<&Arc<Scheduled>> = collection.snapshot.scheduled.iter().collect();
    if pools.reached() {
        let names: HashSet<&str> = shown
            .rows
            .iter()
            .map(|row| row.view.attributes.name.as_ref())
            .collect();
        all.retain(|scheduled| names.contains(scheduled.pool.as_ref()));
    }
    let selection = limit.select(all, |scheduled| {
        let Scheduled { pool, job, jobset } = scheduled.as_ref();
        (Arc::clone(pool), Arc::clone(job), Arc::clone(jobset))
    });
    shown.scheduled = selection
        .shown
        .into_iter()
        .map(|scheduled| attributes::scheduled(scheduled))
        .collect();
    shown.series += shown.scheduled.len();
    selection.newly_left_out.len()
}

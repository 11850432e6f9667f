//! The instruments of the availability families: one table of readings that every family has, and
//! what the jobset and nodepool families have besides.

use std::borrow::Cow;

use super::catalogue::{Instrument, Kind, Scope};
use super::readout::Row;
use crate::model::Family;
use crate::summary::{Nanos, Summary};

/// How a value is read off an object. `None` is a series that is not there, which is not zero.
#[derive(Clone, Copy)]
pub(crate) enum Read {
    /// A count.
    Integer(fn(&Row) -> Option<i64>),
    /// A time, published in seconds.
    Time(fn(&Row) -> Option<Nanos>),
}

/// One instrument that every family has.
pub(crate) struct Reading {
    /// Name below the family.
    name: &'static str,
    unit: &'static str,
    /// `{object}` stands for what the family is about.
    description: &'static str,
    /// How it is read.
    pub(crate) read: Read,
}

/// A time that is defined once its events are durable.
macro_rules! durable {
    ($field:ident) => {
        Read::Time(|row| row.summary.and_then(|summary: Summary| summary.$field))
    };
}

/// What every family has.
pub(crate) const READINGS: &[Reading] = &[
    Reading {
        name: "up",
        unit: "",
        description: "1 when the {object} is up and not expected to be down, else 0",
        read: Read::Integer(|row| Some(i64::from(row.view.availability.up))),
    },
    Reading {
        name: "up.time",
        unit: "s",
        description: "Total time the {object} was up, the running stretch included",
        read: Read::Time(|row| Some(row.summary.map_or(0, |summary| summary.up_time))),
    },
    Reading {
        name: "down.time",
        unit: "s",
        description: "Total time the {object} was down, the running stretch included",
        read: Read::Time(|row| Some(row.summary.map_or(0, |summary| summary.down_time))),
    },
    Reading {
        name: "interruption.count",
        unit: "",
        description: "Times the {object} went down after being up, expected downs left out",
        read: Read::Integer(|row| {
            Some(
                row.summary
                    .map_or(0, |s| super::value::count(s.interruptions)),
            )
        }),
    },
    Reading {
        name: "recovery.count",
        unit: "",
        description: "Times the {object} came up again after an unexpected down",
        read: Read::Integer(|row| {
            Some(row.summary.map_or(0, |s| super::value::count(s.recoveries)))
        }),
    },
    Reading {
        name: "down.time.initial",
        unit: "s",
        description: "Time from the first event of the {object} to its first up",
        read: durable!(down_initial),
    },
    Reading {
        name: "down.time.between.recovery",
        unit: "s",
        description: "Total of the downs of the {object} that followed an up and ended in an up",
        read: durable!(down_between),
    },
    Reading {
        name: "down.time.between.recovery.mean",
        unit: "s",
        description: "Mean time to recovery (MTTR) of the {object}",
        read: durable!(down_between_mean),
    },
    Reading {
        name: "down.time.between.recovery.latest",
        unit: "s",
        description: "The last down of the {object} that followed an up and ended in an up",
        read: durable!(down_between_latest),
    },
    Reading {
        name: "up.time.between.interruption",
        unit: "s",
        description: "Total of the ups of the {object} that ended in a down, from its first interruption on",
        read: durable!(up_between),
    },
    Reading {
        name: "up.time.between.interruption.mean",
        unit: "s",
        description: "Mean time between interruptions (MTBI) of the {object}",
        read: durable!(up_between_mean),
    },
    Reading {
        name: "up.time.between.interruption.latest",
        unit: "s",
        description: "The last up of the {object} that ended in a down",
        read: durable!(up_between_latest),
    },
    Reading {
        name: "tpu.chip.count",
        unit: "",
        description: "TPU chips that the {object} asks for",
        read: Read::Integer(|row| Some(row.view.chips).filter(|chips| *chips != 0)),
    },
    Reading {
        name: "expected",
        unit: "",
        description: "How many parts of the {object} there should be",
        read: Read::Integer(|row| Some(row.view.availability.counts.expected)),
    },
    Reading {
        name: "ready",
        unit: "",
        description: "How many parts of the {object} are ready",
        read: Read::Integer(|row| Some(row.view.availability.counts.ready)),
    },
    Reading {
        name: "unknown",
        unit: "",
        description: "How many parts of the {object} are in a state nobody knows",
        read: Read::Integer(|row| Some(row.view.availability.counts.unknown)),
    },
    Reading {
        name: "expected.down",
        unit: "",
        description: "1 while a down of the {object} is or would be expected, else 0",
        read: Read::Integer(|row| {
            // A JobSet's nodes are never expected down by their rule, so that their events stay
            // unexpected; but what is finished must not page anybody.
            let finished = row.family == Family::JobSetNodes && row.view.conditions.completed;
            Some(i64::from(row.view.availability.expected_down || finished))
        }),
    },
];

impl Reading {
    /// This instrument of one family.
    pub(crate) fn of(&self, family: Family) -> Instrument {
        Instrument {
            name: Cow::Owned(format!("{}.{}", family.name(), self.name)),
            kind: Kind::Gauge,
            unit: self.unit,
            description: Cow::Owned(self.description.replace("{object}", object(family))),
            attributes: attributes(family),
            family: family.name(),
            scope: Scope::Fleet,
            boundaries: &[],
        }
    }
}

fn object(family: Family) -> &'static str {
    match family {
        Family::JobSet => "JobSet",
        Family::JobSetNodes => "JobSet's nodes",
        Family::NodePool => "node pool",
        Family::Slice => "slice",
        Family::Lws => "LeaderWorkerSet",
    }
}

/// Attribute keys of a family, sorted.
pub(crate) fn attributes(family: Family) -> &'static [&'static str] {
    match family {
        Family::JobSet | Family::JobSetNodes => &[
            "jobset.name",
            "jobset.namespace",
            "jobset.uid",
            "spot",
            "tpu.accelerator",
            "tpu.topology",
        ],
        Family::NodePool => &["nodepool.name", "spot", "tpu.accelerator", "tpu.topology"],
        Family::Slice => &[
            "slice.name",
            "slice.owner.kind",
            "slice.owner.name",
            "slice.owner.namespace",
            "tpu.accelerator",
            "tpu.topology",
        ],
        Family::Lws => &[
            "lws.name",
            "lws.namespace",
            "lws.uid",
            "spot",
            "tpu.accelerator",
            "tpu.topology",
        ],
    }
}

/// `jobset.condition`.
pub(crate) const CONDITION: Instrument = Instrument {
    name: Cow::Borrowed("jobset.condition"),
    kind: Kind::Gauge,
    unit: "",
    description: Cow::Borrowed("1 for each condition of the JobSet that is True"),
    attributes: &[
        "condition",
        "jobset.name",
        "jobset.namespace",
        "jobset.uid",
        "spot",
        "tpu.accelerator",
        "tpu.topology",
    ],
    family: "jobset",
    scope: Scope::Fleet,
    boundaries: &[],
};

/// `nodepool.job.scheduled`.
pub(crate) const SCHEDULED: Instrument = Instrument {
    name: Cow::Borrowed("nodepool.job.scheduled"),
    kind: Kind::Gauge,
    unit: "",
    description: Cow::Borrowed("1 while the leader pod of a JobSet's Job runs on the node pool"),
    attributes: &["job.name", "jobset.name", "nodepool.name"],
    family: "nodepool",
    scope: Scope::Fleet,
    boundaries: &[],
};

/// `nodepool.provisioning.duration`.
pub(crate) const PROVISIONING_DURATION: Instrument = Instrument {
    name: Cow::Borrowed("nodepool.provisioning.duration"),
    kind: Kind::Gauge,
    unit: "s",
    description: Cow::Borrowed(
        "Time from the first event of the node pool to now (provisioning), to its first up (success), or to its failure (failed)",
    ),
    attributes: &[
        "nodepool.name",
        "provisioning_state",
        "spot",
        "tpu.accelerator",
        "tpu.topology",
    ],
    family: "nodepool",
    scope: Scope::Fleet,
    boundaries: &[],
};

//! The contract of the history, case by case.

mod expected;
mod first_sight;
mod gap;
mod lives;
mod shown;
mod times;

use megamon::model::Family::{JobSet, JobSetNodes, NodePool};
use megamon::model::Readiness::{NotReady, Ready, Unknown};
use megamon::model::{Observation, Operation, Source, Undecodable, Update};

use crate::world::*;

/// Two nodes of pool `p` (expected 2 by topology and accelerator count), Ready since long ago.
fn two() -> [megamon::model::Node; 2] {
    [
        node("a", "p", Ready, "-9:00:00"),
        node("b", "p", Ready, "-9:00:00"),
    ]
}

fn empty_watches(world: &mut World) {
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &[]);
}

fn running() -> World {
    let mut world = World::labels();
    world.jobsets("0:00", &[]);
    world.nodes("0:00", &two());
    world.commit();
    world
}

//! Properties of the fold, the judging and the log.

use megamon::history::State;
use megamon::model::Family::NodePool;
use megamon::model::Readiness::{NotReady, Ready, Unknown};
use megamon::model::{Event, Node, Readiness};
use megamon::summary::Fold;
use proptest::prelude::*;

use crate::world::{World, at, made, node};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn clock(second: u32) -> String {
    format!("{}:{:02}", second / 60, second % 60)
}

fn fact(name: usize, readiness: Readiness, since: u32) -> Node {
    // Three expected of four.
    let topology = Some("3x4".into());
    Node {
        topology,
        ..made("-1:00:00", node(NAMES[name], "p", readiness, &clock(since)))
    }
}

fn readiness() -> impl Strategy<Value = Readiness> {
    prop_oneof![3 => Just(Ready), 2 => Just(NotReady), 1 => Just(Unknown)]
}

/// For each node a few changes, in order of time; and a shuffle of all of them that keeps each
/// node's own order.
fn story() -> impl Strategy<Value = (Vec<Node>, Vec<usize>)> {
    let changes = prop::collection::vec((0..NAMES.len(), readiness(), 60u32..170), 1..12);
    changes.prop_flat_map(|changes| {
        let mut facts: Vec<_> = changes
            .into_iter()
            .map(|(name, readiness, since)| fact(name, readiness, since))
            .collect();
        facts.sort_by_key(|fact| fact.since);
        // A node's condition has a new time only when its status changes.
        let mut last = [Ready; 4];
        facts.retain(|fact| {
            let place = NAMES.iter().position(|name| **name == *fact.name).unwrap();
            std::mem::replace(&mut last[place], fact.readiness) != fact.readiness
        });
        let count = facts.len();
        (
            Just(facts),
            Just((0..count).collect::<Vec<_>>()).prop_shuffle(),
        )
    })
}

/// Puts the facts in the order of the shuffle, each node's own in order of time.
fn arrivals(facts: &[Node], shuffle: &[usize]) -> Vec<Node> {
    let mut left: Vec<Vec<Node>> = NAMES
        .iter()
        .map(|name| {
            facts
                .iter()
                .filter(|fact| *fact.name == **name)
                .rev()
                .cloned()
                .collect()
        })
        .collect();
    let order = shuffle.iter().map(|place| facts[*place].name.clone());
    order
        .filter_map(|name| left[NAMES.iter().position(|known| **known == *name).unwrap()].pop())
        .collect()
}

fn world() -> World {
    let mut world = World::labels();
    world.jobsets("0:00", &[]);
    let all: Vec<_> = (0..4)
        .map(|name| Node {
            since: Some(at("-30:00")),
            ..fact(name, Ready, 0)
        })
        .collect();
    world.nodes("0:00", &all);
    world.commit();
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any order in which the same facts arrive gives the same events.
    #[test]
    fn order_of_arrival_does_not_matter((facts, shuffle) in story()) {
        let events = |facts: &[Node]| {
            let mut world = world();
            for fact in facts {
                world.node("2:50", fact.clone());
            }
            world.commit();
            world.events(NodePool, "p")
        };
        prop_assert_eq!(events(&facts), events(&arrivals(&facts, &shuffle)));
    }

    /// A list tells the same as the watch would have, if each node changed once.
    #[test]
    fn a_list_tells_what_a_watch_would_have((facts, _) in story()) {
        let mut once: Vec<Node> = Vec::new();
        for fact in facts {
            if !once.iter().any(|seen| seen.name == fact.name) {
                once.push(fact);
            }
        }
        let mut watched = world();
        for fact in &once {
            watched.node("2:50", fact.clone());
        }
        watched.commit();
        let mut listed = world();
        let rest = (0..4).map(|name| Node { since: Some(at("-30:00")), ..fact(name, Ready, 0) });
        let rest = rest.filter(|node| !once.iter().any(|seen| seen.name == node.name));
        let all: Vec<_> = once.iter().cloned().chain(rest).collect();
        listed.nodes("2:50", &all);
        listed.commit();
        prop_assert_eq!(watched.events(NodePool, "p"), listed.events(NodePool, "p"));
    }

    /// A restart at any point of a story changes no event, and nothing goes back.
    #[test]
    fn a_restart_changes_nothing((facts, _) in story(), restart in 0usize..12) {
        let tell = |restart: Option<usize>| {
            let mut world = world();
            let mut now: Vec<_> =
                (0..4).map(|name| Node { since: Some(at("-30:00")), ..fact(name, Ready, 0) }).collect();
            for (step, fact) in facts.iter().enumerate() {
                let when = clock(60 + u32::try_from(
                    fact.since.unwrap().duration_since(at("1:00")).as_secs()).unwrap());
                if let Some(place) = now.iter().position(|node| node.name == fact.name) {
                    now[place] = fact.clone();
                }
                world.node(&when, fact.clone());
                world.commit();
                if restart == Some(step) {
                    let before = world.summary(NodePool, "p");
                    world.restart(&when);
                    world.jobsets(&when, &[]);
                    world.nodes(&when, &now);
                    let after = world.summary(NodePool, "p");
                    assert!(after.interruptions >= before.interruptions);
                    assert!(after.recoveries >= before.recoveries);
                    assert!(after.down_between >= before.down_between);
                    assert!(after.up_between >= before.up_between);
                    assert!(after.up_time + after.down_time >= before.up_time + before.down_time);
                    world.commit();
                }
            }
            world.events(NodePool, "p")
        };
        prop_assert_eq!(tell(None), tell(Some(restart)));
    }

    /// Any prefix of the log folds, at the `now` used then, to what was published then.
    #[test]
    fn a_prefix_of_the_log_is_what_was_published((facts, shuffle) in story()) {
        let mut world = world();
        let mut published = Vec::new();
        for (step, fact) in arrivals(&facts, &shuffle).into_iter().enumerate() {
            let when = clock(170 + u32::try_from(step).unwrap());
            world.node(&when, fact);
            world.commit();
            published.push((world.records.len(), world.now, world.summary(NodePool, "p")));
        }
        for (length, now, summary) in published {
            let mut state = State::default();
            for record in &world.records[..length] {
                state.apply(record.clone());
            }
            let life = &state.lives[&crate::world::key(NodePool, "p")];
            let mut folded = life.fold.unwrap().at(now);
            folded.down_initial = None; // found
            prop_assert_eq!(folded, summary);
        }
    }

    /// The fold of a whole is the fold of its parts.
    #[test]
    fn folding_goes_on_where_it_stopped(seconds in prop::collection::vec((0u32..100, any::<bool>()), 1..40), cut in 0usize..40) {
        let mut now = 0;
        let events: Vec<Event> = seconds.iter().enumerate().map(|(i, (wait, expected_down))| {
            now += wait;
            Event { up: i % 2 == 1, expected_down: *expected_down, timestamp: at(&clock(now)), bounds: None }
        }).collect();
        let whole = Fold::of(&events).unwrap();
        let cut = cut.clamp(1, events.len());
        let mut parts = Fold::of(&events[..cut]).unwrap();
        let json = serde_json::to_string(&parts).unwrap();
        parts = serde_json::from_str(&json).unwrap();
        for event in &events[cut..] {
            parts.apply(*event);
        }
        prop_assert_eq!(whole, parts);
        let summary = whole.at(at("3:00:00"));
        let total = at("3:00:00").duration_since(events[0].timestamp).as_nanos();
        prop_assert_eq!(i128::from(summary.up_time + summary.down_time), total);
    }
}

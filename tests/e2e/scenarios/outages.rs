//! What the program depends on goes away and comes back: values stay, ages show, everything
//! recovers by itself.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::objects::{self, NAMESPACE};
use crate::program::Settings;
use crate::samples::Samples;
use crate::servers::api::JOBSETS;
use crate::servers::control_plane::Parts;
use crate::servers::{eventually, now};
use crate::world::World;

const OUTAGE: Duration = Duration::from_secs(30);

/// The API server hangs for half a minute, then is down for half a minute.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_is_away_for_half_a_minute() {
    let mut world = World::start(Parts::ALL, None, &Settings::default()).await;
    let list = format!("{JOBSETS}/namespaces/{NAMESPACE}/jobsets");
    let made = world
        .api()
        .create(&list, &objects::jobset("train", 1))
        .await;
    let (first, up) = world.join_nodes(&["a-0", "a-1"], "a", Some("train")).await;
    world.jobset_is("train", "runs", objects::jobset_up).await;
    world.account_for_jobset("train").await;
    world.ledger.add("a", objects::pool_entry("a", first));
    world
        .ledger
        .add("nodes of train", objects::jobset_nodes_entry(&made));
    for entry in ["a", "nodes of train"] {
        let entry = world.ledger.get(entry);
        entry.up(up);
        entry.counts(2, 0);
    }
    // A pool without pods: those on a node that is not ready would be taken for not ready too.
    let (first, up) = world.join_nodes(&["b-0", "b-1"], "b", None).await;
    let pool = world.ledger.add("b", objects::pool_entry("b", first));
    pool.up(up);
    pool.counts(2, 0);
    world.check("the JobSet runs", &[]).await;

    for hangs in [true, false] {
        let how = if hangs { "hangs" } else { "is down" };
        let before = world.program.scrape().await.expect("a scrape").samples;
        if hangs {
            world.plane.pause_api_server();
        } else {
            world.plane.kill_api_server();
        }
        let begun = Instant::now();
        let mut during = Samples::default();
        while begun.elapsed() < OUTAGE {
            let asked = Instant::now();
            let observed = world
                .program
                .scrape()
                .await
                .expect("a scrape in the outage");
            assert!(
                asked.elapsed() < Duration::from_secs(1),
                "it is answered at once"
            );
            let shown = world.ledger.compare(&observed);
            assert_eq!(shown, Ok(()), "while the API server {how}");
            during = observed.samples;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        ages_show(&before, &during, how);
        world.program.ready().await.expect("it stays ready");
        if hangs {
            world.plane.resume_api_server();
        } else {
            world.plane.start_api_server().await;
        }
        world
            .check(&format!("the API server is back, which {how}"), &[])
            .await;
        // Nothing that happens from now on is missed.
        let down = world.set_ready("b-1", false).await;
        let pool = world.ledger.get("b");
        pool.down(down);
        pool.counts(1, 0);
        world.check("a node is not ready", &[]).await;
        let up = world.set_ready("b-1", true).await;
        let pool = world.ledger.get("b");
        pool.up(up);
        pool.counts(2, 0);
        world.check("it is again", &[]).await;
        sources_are_heard(&world, how).await;
    }
}

/// In an outage the lag of each watch grows and the last success of its source stands.
fn ages_show(before: &Samples, during: &Samples, how: &str) {
    for resource in ["nodes", "jobsets", "pods"] {
        let lag = during.value("megamon_alpha_watch_lag_seconds", &[("resource", resource)]);
        let lag = lag.unwrap_or_else(|error| panic!("{error}"));
        assert!(
            lag > OUTAGE.as_secs_f64() - 3.0,
            "{resource}: lag {lag} while it {how}"
        );
    }
    for source in ["nodes", "jobsets", "pods"] {
        let last_success = |samples: &Samples| {
            let name = "megamon_alpha_source_last_success_seconds";
            let value = samples.value(name, &[("source", source)]);
            value.unwrap_or_else(|error| panic!("{error}"))
        };
        let (old, new) = (last_success(before), last_success(during));
        // What was on its way when the outage began may still have come.
        assert!(
            (0.0..5.0).contains(&(new - old)),
            "{source}: the last success went from {old} to {new} while it {how}"
        );
    }
}

/// Each watch hears of a change again.
async fn sources_are_heard(world: &World, mark: &str) {
    let pods = world.pods().await;
    let pod = pods[0]["metadata"]["name"].as_str().expect("a name");
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}");
    let patch = json!({"metadata": {"annotations": {"e2e/mark": mark}}});
    for (resource, path) in [
        ("pods", pods),
        ("jobsets", objects::jobset_path("train")),
        ("nodes", objects::node_path("a-0")),
    ] {
        let begun = now();
        let patched = world.api().merge(&path, &patch).await;
        patched.unwrap_or_else(|error| panic!("{error}"));
        let what = format!("the watch of {resource} hears of a change");
        eventually(Duration::from_mins(1), &what, async || {
            let observed = world.program.scrape().await?;
            let labels = [("resource", resource)];
            let lag = observed
                .samples
                .value("megamon_alpha_watch_lag_seconds", &labels)?;
            if observed.now.1 - lag >= begun {
                Ok(())
            } else {
                Err(format!("lag {lag}"))
            }
        })
        .await;
    }
}

/// The Collector is down, then hangs: scrapes and watching go on, failures are counted, and
/// pushes resume by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn the_collector_is_away() {
    let mut world = World::start(Parts::NODES, None, &Settings::default()).await;
    let (first, up) = world.join_nodes(&["a-0", "a-1"], "a", None).await;
    let pool = world.ledger.add("a", objects::pool_entry("a", first));
    pool.up(up);
    pool.counts(2, 0);
    world.check("provisioned", &[]).await;

    for hangs in [false, true] {
        let failures = async |world: &World| {
            let samples = world.program.scrape().await?.samples;
            Ok::<f64, String>(
                samples.sum("megamon_alpha_export_failures_total", &[("outlet", "otlp")]),
            )
        };
        let before = failures(&world).await.expect("a scrape");
        if hangs {
            world.collector.pause();
        } else {
            world.collector.kill();
        }
        eventually(
            Duration::from_secs(40),
            "failures are counted",
            async || match failures(&world).await? {
                count if count > before => Ok(()),
                count => Err(format!("{count}, as before")),
            },
        )
        .await;
        // Meanwhile what happens in the cluster shows at once.
        let down = world.set_ready("a-1", false).await;
        let asked = Instant::now();
        let pool = world.ledger.get("a");
        pool.down(down);
        pool.counts(1, 0);
        world.scrape_shows_it("a node is not ready").await;
        assert!(
            asked.elapsed() < Duration::from_secs(5),
            "watching is not delayed"
        );
        let up = world.set_ready("a-1", true).await;
        let pool = world.ledger.get("a");
        pool.up(up);
        pool.counts(2, 0);
        world.scrape_shows_it("it is again").await;
        if hangs {
            world.collector.resume();
        } else {
            world.collector.restart().await;
        }
        world.check("the Collector is back", &[]).await;
    }
    said_once_per_change(&world.program.log());
}

/// The log has one line for each change between failing and succeeding, not one for each push.
fn said_once_per_change(log: &str) {
    let warnings = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["level"] == "WARN" || line["level"] == "ERROR")
        .filter(|line| {
            line["target"]
                .as_str()
                .is_some_and(|target| target.contains("export"))
        })
        .count();
    assert!(
        (2..=4).contains(&warnings),
        "{warnings} warnings for two outages:\n{log}"
    );
}

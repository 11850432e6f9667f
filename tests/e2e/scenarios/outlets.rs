//! The outlets as those who read them see them: promtool checks the exposition, a real Prometheus
//! scrapes it, and each series of a scrape is there.

use std::time::Duration;

use crate::objects;
use crate::program::Settings;
use crate::servers::control_plane::Parts;
use crate::servers::eventually;
use crate::servers::prometheus::{Prometheus, promtool_check_metrics};
use crate::world::World;

/// What promtool does not like and the contract fixes: a part of its complaint and the reason.
const ALLOWED: [(&str, &str); 1] = [(
    "non-histogram and non-summary metrics should not have \"_count\" suffix",
    "interruption.count, recovery.count and tpu.chip.count are names that dashboards and alerts \
     already use, and gauges so that a restart is no reset",
)];

#[tokio::test(flavor = "multi_thread")]
async fn prometheus_reads_the_exposition() {
    let mut world = World::start(Parts::NODES, None, &Settings::default()).await;
    let (first, up) = world.join_nodes(&["a-0", "a-1"], "a", None).await;
    let pool = world.ledger.add("a", objects::pool_entry("a", first));
    pool.up(up);
    pool.counts(2, 0);
    let down = world.set_ready("a-0", false).await;
    world.ledger.get("a").down(down);
    world.ledger.get("a").counts(1, 0);
    let up = world.set_ready("a-0", true).await;
    world.ledger.get("a").up(up);
    world.ledger.get("a").counts(2, 0);
    world.check("a pool with a past", &[]).await;

    let text = world.program.scrape_text().await.expect("a scrape");
    let complaints: Vec<String> = promtool_check_metrics(&text)
        .into_iter()
        .filter(|line| !ALLOWED.iter().any(|(allowed, _)| line.contains(allowed)))
        .collect();
    assert_eq!(complaints, Vec::<String>::new(), "in:\n{text}");

    let prometheus = Prometheus::start(&world.program.metrics_address()).await;
    eventually(
        Duration::from_mins(1),
        "Prometheus scrapes it",
        async || match prometheus.number("up").await? {
            1.0 => Ok(()),
            up => Err(format!("up is {up}")),
        },
    )
    .await;
    // Some series are made by what is going on, so both are looked at until they agree.
    eventually(Duration::from_mins(1), "as many series", async || {
        let here = world.program.scrape().await?.samples.0.len();
        let there = prometheus.number("scrape_samples_scraped").await?;
        let stored = prometheus
            .number("count({job=\"megamon\",__name__!~\"up|scrape_.*\"})")
            .await?;
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let here = here as f64;
        if here - there == 0.0 && there - stored == 0.0 {
            Ok(())
        } else {
            Err(format!("{here} here, {there} scraped, {stored} stored"))
        }
    })
    .await;
    let query = "megamon_alpha_nodepool_interruption_count{nodepool_name=\"a\"}";
    assert_eq!(prometheus.number(query).await, Ok(1.0));
}

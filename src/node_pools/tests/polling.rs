//! When a source is polled and what is told of it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::model::{NodePool, Observation, Update};
use crate::node_pools::{ListError, Listing, NodePools, PollNow, Polling, poll};

struct Time(Instant);

impl Clock for Time {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.0.elapsed()
    }

    fn sleep_until(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        unreachable!("polling only reads this clock")
    }
}

/// Answers in turn, each after so many seconds; fails when it has none left.
struct Scripted {
    start: Instant,
    answers: VecDeque<(u64, Listing)>,
    asked_at: Arc<Mutex<Vec<f64>>>,
}

impl NodePools for Scripted {
    async fn list(&mut self) -> Result<Listing, ListError> {
        let at = self.start.elapsed().as_secs_f64();
        self.asked_at.lock().unwrap().push(at);
        match self.answers.pop_front() {
            Some((after, listing)) => {
                sleep(Duration::from_secs(after)).await;
                Ok(listing)
            }
            None => Err(ListError::Client("none left".to_owned())),
        }
    }
}

fn listing(name: &str) -> Listing {
    Listing {
        pools: vec![NodePool {
            name: name.into(),
            status: "RUNNING".into(),
            topology: None,
            accelerator: None,
            machine_type: None,
            spot: false,
            operation: None,
        }],
        undecodable: Vec::new(),
    }
}

struct Polled {
    receiver: mpsc::Receiver<Observation>,
    now: PollNow,
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    asked_at: Arc<Mutex<Vec<f64>>>,
}

fn polled(answers: Vec<(u64, Listing)>) -> Polled {
    let start = Instant::now();
    let asked_at = Arc::new(Mutex::new(Vec::new()));
    let source = Scripted {
        start,
        answers: answers.into(),
        asked_at: asked_at.clone(),
    };
    let (sender, receiver) = mpsc::channel(64);
    let now = PollNow::default();
    let shutdown = CancellationToken::new();
    let polling = Polling {
        interval: Duration::from_secs(10),
        now: now.clone(),
        sender,
        clock: Arc::new(Time(start)),
        shutdown: shutdown.clone(),
    };
    Polled {
        receiver,
        now,
        shutdown,
        task: tokio::spawn(poll(source, polling)),
        asked_at,
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_is_polled_at_its_interval() {
    let polled = polled(vec![
        (0, listing("a")),
        (3, listing("a")),
        (15, listing("a")),
    ]);
    sleep(Duration::from_secs(42)).await;
    // From request to request; one that takes longer is followed by the next.
    assert_eq!(*polled.asked_at.lock().unwrap(), [0.0, 10.0, 20.0, 35.0]);
}

#[tokio::test(start_paused = true)]
async fn a_list_bears_the_instant_before_its_request_and_a_failure_is_no_list() {
    let mut polled = polled(vec![(3, listing("a"))]);
    let Some(Observation::NodePools(Update::Listed {
        objects,
        began,
        seen,
        resource_version,
        ..
    })) = polled.receiver.recv().await
    else {
        panic!("a list");
    };
    assert_eq!(&*objects[0].name, "a");
    assert_eq!(&*resource_version, "");
    assert_eq!((began.as_second(), seen.as_second()), (0, 3));
    for at in [10, 20] {
        let Some(Observation::NodePools(Update::Failed { error, seen })) =
            polled.receiver.recv().await
        else {
            panic!("a failure");
        };
        assert!(error.contains("none left"), "{error}");
        assert_eq!(seen.as_second(), at);
    }
}

#[tokio::test(start_paused = true)]
async fn it_polls_at_once_when_asked_but_not_more_than_once_a_second() {
    let polled = polled(vec![(0, listing("a")); 20]);
    sleep(Duration::from_secs(4)).await;
    polled.now.ask();
    polled.now.ask();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(*polled.asked_at.lock().unwrap(), [0.0, 4.0]);
    for _ in 0..20 {
        polled.now.ask();
        sleep(Duration::from_millis(100)).await;
    }
    let asked_at = polled.asked_at.lock().unwrap().clone();
    assert!(
        asked_at.windows(2).all(|two| two[1] - two[0] >= 1.0),
        "{asked_at:?}"
    );
    assert!(asked_at.len() >= 4, "{asked_at:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_during_a_request_is_answered_by_the_next() {
    let polled = polled(vec![(3, listing("a")); 5]);
    sleep(Duration::from_secs(2)).await;
    polled.now.ask();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(*polled.asked_at.lock().unwrap(), [0.0, 3.0]);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_receiver_and_when_told_to() {
    let one = polled(vec![(0, listing("a"))]);
    drop(one.receiver);
    one.task.await.unwrap();
    let mut other = polled(vec![(0, listing("a")), (1_000_000, listing("a"))]);
    assert!(other.receiver.recv().await.is_some());
    sleep(Duration::from_secs(15)).await;
    other.shutdown.cancel();
    other.task.await.unwrap();
}

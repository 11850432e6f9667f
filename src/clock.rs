//! The one place that asks what time it is. Everything else is handed `now`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

/// A source of time: the wall clock, or one that a test or a simulation drives.
pub trait Clock: Send + Sync + 'static {
    /// The instant now.
    fn now(&self) -> Timestamp;

    /// Completes when `now` has reached `instant`.
    fn sleep_until(&self, instant: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// A clock that is shared.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, instant: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // The wall clock may be set while we sleep, so look again at least once a minute.
            loop {
                let left = Duration::try_from(instant.duration_since(Timestamp::now()))
                    .unwrap_or_default();
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(Duration::from_mins(1))).await;
            }
        })
    }
}

//! The durable history: what is remembered of each object, as a log of numbered, immutable
//! objects that snapshots compact.
//!
//! ```text
//!  snapshot 41          log 42     log 43     log 44 (epoch 7 begins)   log 45
//!  the state after 41   records    records    a barrier                 records
//! ```
//!
//! A log object is created under the next number and only if that is free. A writer opens the log
//! by creating a barrier with the next epoch; whoever wrote under the epoch before finds its next
//! number taken, and stops. Nothing is ever rewritten.

mod codec;
mod log;
mod record;
mod state;
mod store;

pub use codec::DecodeError;
pub use log::{AppendError, Compaction, Log, OpenError, Opened};
pub use record::{NotReady, Record, Remembered, Watermark};
pub use state::{Life, State};
pub use store::{Store, StoreError};

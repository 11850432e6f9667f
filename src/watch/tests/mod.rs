//! The watch against an API server that a test plays in its own process, on tokio's paused clock:
//! pauses and timeouts are exact and cost no time.

mod decode;
mod failures;
mod follow;
mod script;
mod sockets;
mod vectors;

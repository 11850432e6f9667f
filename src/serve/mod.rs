//! HTTP: the metrics server (`/metrics` and a page for people) and the probe server (`/livez`,
//! `/healthz`, `/readyz`, and the log level). Knows what to serve, not how it was made.

mod connections;
mod metrics;
mod negotiate;
mod page;
mod probes;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

pub use metrics::{MetricsState, Scrape, metrics};
pub use negotiate::Format;
pub use probes::{Check, LogLevel, ProbeState, SetLogLevel, probes};

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct BindError {
    address: SocketAddr,
    setting: &'static str,
    source: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            setting,
            source,
        } = self;
        write!(f, "cannot listen on {address} ({setting}): {source}")?;
        match source.kind() {
            io::ErrorKind::AddrInUse => {
                f.write_str("; another process listens there, end it or set another address")
            }
            io::ErrorKind::PermissionDenied => {
                f.write_str("; ports below 1024 need a privilege, set a higher one")
            }
            io::ErrorKind::AddrNotAvailable => {
                f.write_str("; this machine has no such address, 0.0.0.0 stands for all it has")
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Listens on an address; `setting` is what it was set by, for the error. Must be called inside
/// the runtime.
pub async fn bind(address: SocketAddr, setting: &'static str) -> Result<TcpListener, BindError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| BindError {
            address,
            setting,
            source,
        })
}

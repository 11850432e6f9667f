//! Accepts connections and bounds what each may cost: how long its head may take, how long it may
//! read nothing of an answer, and how many there are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

/// What a connection may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at once; further ones wait to be accepted.
    pub(super) connections: usize,
    /// From the wish for a request, on a new or an idle connection, to its whole head. Longer than
    /// a minute, so that a scrape each minute keeps its connection.
    pub(super) head: Duration,
    /// Longest time in which a client takes nothing of its answer.
    pub(super) stall: Duration,
    /// How long requests under way may take at shutdown.
    pub(super) drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            head: Duration::from_secs(75),
            stall: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}

/// The client's address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Serves until `shutdown`, then lets requests that are under way end, for a while.
pub(super) async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut open = JoinSet::new();
    loop {
        let accepted = async {
            // The place is had before the connection: what is not accepted costs next to nothing.
            let place = places.clone().acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = open.join_next() => {}
            (accepted, place) = accepted => match accepted {
                Ok((stream, peer)) => {
                    let routes = routes.clone().layer(Extension(Peer(peer)));
                    let shutdown = shutdown.clone();
                    open.spawn(async move {
                        connection(stream, routes, limits, shutdown).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // Out of file descriptors, say: what is open may end meanwhile.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    }
    drop(listener);
    let drained = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.drain, drained).await.is_err() {
        tracing::debug!("connections are cut off at shutdown");
    }
}

async fn connection(
    stream: TcpStream,
    routes: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.stall));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(64 * 1024)
        .serve_connection(
            TokioIo::new(Box::pin(stream)),
            TowerToHyperService::new(routes),
        );
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

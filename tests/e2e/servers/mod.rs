//! Real servers for the tests: they start on free loopback ports in a folder of their own, are
//! waited for until they are ready, and end with the test that started them.
//!
//! Nothing here sleeps and hopes: [`eventually`] polls a condition until it holds or its deadline
//! has passed, and then says what was still wrong.

pub(crate) mod api;
pub(crate) mod collector;
pub(crate) mod control_plane;
pub(crate) mod gke;
pub(crate) mod pki;
pub(crate) mod process;
pub(crate) mod prometheus;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Seconds since the epoch, now.
pub(crate) fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970")
        .as_secs_f64()
}

/// Polls until the condition holds; panics with what was wrong last when it does not in time.
pub(crate) async fn eventually<T>(
    within: Duration,
    what: &str,
    mut condition: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        match condition().await {
            Ok(value) => return value,
            Err(wrong) if begun.elapsed() > within => {
                panic!("{what}: not within {within:?}:\n{wrong}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Where `tests/servers/install.sh` put a program, by the same rule and the same versions.
pub(crate) fn installed(name: &str, program: &str) -> PathBuf {
    const VERSIONS: &str = include_str!("../../servers/versions");
    let version = VERSIONS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find_map(|(entry, version)| (entry == name).then_some(version))
        .unwrap_or_else(|| panic!("tests/servers/versions has no {name}"));
    let cache = std::env::var_os("MEGAMON_TEST_SERVERS").map_or_else(
        || {
            std::env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
                .expect("HOME is set")
                .join("megamon-test-servers")
        },
        PathBuf::from,
    );
    let path = cache.join(format!("{name}-{version}")).join(program);
    assert!(
        path.exists(),
        "{} is missing: run tests/servers/install.sh first, it installs the servers that the tests run against",
        path.display()
    );
    path
}

/// A free loopback port below the range from which the kernel takes those of connections, so that
/// a server that is stopped finds its port free again.
pub(crate) fn free_port() -> u16 {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() * 997 % u32::from(COUNT)).expect("below COUNT");
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// A folder for one test, removed at its end.
pub(crate) fn scratch() -> tempfile::TempDir {
    let folder = tempfile::Builder::new()
        .prefix("megamon-e2e-")
        .tempdir()
        .expect("a temporary folder");
    process::Reaper::remove_at_end(folder.path());
    folder
}

/// An HTTP client for loopback.
pub(crate) fn http() -> reqwest::Client {
    install_tls_provider();
    reqwest::Client::builder()
        .timeout(Duration::from_secs(5))
        .pool_max_idle_per_host(0)
        .build()
        .expect("an HTTP client")
}

/// Chooses the TLS provider of this process; again is harmless.
pub(crate) fn install_tls_provider() {
    let _already = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

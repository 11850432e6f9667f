//! End to end: the real binary against real servers (an API server with its controllers, the
//! JobSet controller, an OpenTelemetry Collector, Prometheus), which `tests/servers/install.sh`
//! installs. Each scenario ends every step by holding whole metric families against its ledger.

#[cfg(test)]
mod harness;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod never_back;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod program;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod world;

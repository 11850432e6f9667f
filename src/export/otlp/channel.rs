//! The gRPC connection to a collector: endpoint, TLS, headers. Metrics and traces share it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::config;

/// An endpoint that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("OTLP endpoint {endpoint:?}: {reason}; expected a URL such as http://collector:4317")]
pub struct EndpointError {
    endpoint: String,
    reason: String,
}

/// A header that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("OTLP header {name:?}: {reason}")]
pub struct HeaderError {
    name: String,
    reason: &'static str,
}

/// Why no connection can be prepared.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A certificate or a key cannot be read.
    #[error("cannot read the {what} {}: {source}", path.display())]
    Read {
        /// What it is.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Only one of certificate and key is set.
    #[error("a client certificate needs both its certificate and its key, only the {0} is set")]
    HalfIdentity(&'static str),
    /// What the files hold does not make a TLS client.
    #[error("TLS: {0}")]
    Tls(String),
}

/// Checks an endpoint without connecting.
pub(super) fn endpoint(text: &str) -> Result<Endpoint, EndpointError> {
    let refuse = |reason: String| EndpointError {
        endpoint: text.to_owned(),
        reason,
    };
    let endpoint = Endpoint::from_shared(text.to_owned())
        .map_err(|error| refuse(chain(&error)))?
        .user_agent(concat!("megamon/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| refuse(chain(&error)))?;
    match endpoint.uri().scheme_str() {
        Some("http" | "https") => {}
        Some(other) => {
            return Err(refuse(format!(
                "scheme {other:?} is neither http nor https"
            )));
        }
        None => return Err(refuse("it has no scheme".to_owned())),
    }
    if endpoint.uri().host().is_none_or(str::is_empty) {
        return Err(refuse("it has no host".to_owned()));
    }
    Ok(endpoint)
}

/// Prepares a connection, which is made when it is first used. Certificates are read anew each
/// time, so that a renewed one is taken up. Must be called inside the runtime.
pub(in crate::export) fn connect(config: &config::Otlp) -> Result<Channel, ChannelError> {
    let mut endpoint = endpoint(&config.endpoint)?
        .connect_timeout(config.timeout)
        .timeout(config.timeout)
        .tcp_keepalive(Some(Duration::from_secs(30)));
    if endpoint.uri().scheme_str() == Some("https") {
        endpoint = endpoint
            .tls_config(tls(&config.tls)?)
            .map_err(|error| ChannelError::Tls(chain(&error)))?;
    }
    Ok(endpoint.connect_lazy())
}

fn tls(config: &config::Tls) -> Result<ClientTlsConfig, ChannelError> {
    let mut tls = ClientTlsConfig::new();
    tls = match &config.ca {
        Some(path) => tls.ca_certificate(Certificate::from_pem(read("CA certificate", path)?)),
        None => tls.with_enabled_roots(),
    };
    match (&config.certificate, &config.key) {
        (None, None) => {}
        (Some(certificate), Some(key)) => {
            tls = tls.identity(Identity::from_pem(
                read("client certificate", certificate)?,
                read("client key", key)?,
            ));
        }
        (Some(_), None) => return Err(ChannelError::HalfIdentity("certificate")),
        (None, Some(_)) => return Err(ChannelError::HalfIdentity("key")),
    }
    Ok(tls)
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, ChannelError> {
    std::fs::read(path).map_err(|source| ChannelError::Read {
        what,
        path: path.to_owned(),
        source,
    })
}

/// The headers as gRPC metadata. Their values are kept out of logs.
pub(in crate::export) fn metadata(
    headers: &BTreeMap<String, String>,
) -> Result<MetadataMap, HeaderError> {
    let mut metadata = MetadataMap::new();
    for (name, value) in headers {
        let refuse = |reason| HeaderError {
            name: name.clone(),
            reason,
        };
        let key = AsciiMetadataKey::from_bytes(name.to_lowercase().as_bytes()).map_err(|_| {
            refuse("not a header name; expected letters, digits, `-`, `_` or `.`, and not the ending `-bin`")
        })?;
        let mut value = AsciiMetadataValue::try_from(value.as_str())
            .map_err(|_| refuse("its value holds characters that a header cannot carry"))?;
        value.set_sensitive(true);
        metadata.insert(key, value);
    }
    Ok(metadata)
}

/// An error and what caused it, in one line, each text once.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !next.is_empty() && !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        source = error.source();
    }
    text
}

/// Whether the peer's or our own certificate is behind an error.
pub(super) fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        // An IO error hides what it wraps from `source`.
        let wrapped = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        let wrapped = wrapped.and_then(|error| error.downcast_ref::<rustls::Error>());
        if wrapped.is_some() || error.is::<rustls::Error>() {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_needs_scheme_and_host() {
        for good in ["http://collector:4317", "https://[::1]:4317/path"] {
            assert!(endpoint(good).is_ok(), "{good}");
        }
        for (bad, word) in [
            ("collector:4317", "scheme"),
            ("/path", "scheme"),
            ("grpc://collector:4317", "grpc"),
            ("http://", "expected a URL"),
            ("http://a b", "expected a URL"),
        ] {
            let error = endpoint(bad).unwrap_err().to_string();
            assert!(
                error.contains(word) && error.contains(bad),
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn headers_are_checked_by_name() {
        let headers = |name: &str, value: &str| {
            metadata(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
        };
        assert_eq!(
            headers("X-Tenant", "a").unwrap().get("x-tenant").unwrap(),
            "a"
        );
        for (name, value) in [("a b", "v"), ("trace-bin", "v"), ("ok", "line\nbreak")] {
            let error = headers(name, value).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert!(!error.contains("line"), "a value shows: {error}");
        }
    }

    #[test]
    fn half_a_client_identity_is_said() {
        let error = tls(&config::Tls {
            certificate: Some("cert.pem".into()),
            ..config::Tls::default()
        })
        .unwrap_err();
        assert!(error.to_string().contains("only the certificate is set"));
    }
}

//! Sends one request to the collector: with a time limit, retried with backoff where the code says
//! that it may work, over a new connection after a failure of the old one.

use std::fmt;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::{BufMut, Bytes};
use http::uri::PathAndQuery;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use prost::Message;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::codec::{
    BufferSettings, Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder,
};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use super::PushError;
use super::channel;
use crate::config;

const PATH: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// One encoded request. Sending it again copies a pointer.
#[derive(Clone, Debug)]
pub(super) struct Part {
    bytes: Bytes,
}

impl Part {
    pub(super) fn of(request: &ExportMetricsServiceRequest) -> Self {
        Self {
            bytes: request.encode_to_vec().into(),
        }
    }
}

/// What the collector said of a request that it took.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Points that it refused.
    pub(super) rejected: u64,
    /// Why, or a warning.
    pub(super) message: String,
}

/// Why a request did not get through.
#[derive(Debug)]
pub(super) struct Failure {
    /// One of a closed set of words.
    pub(super) reason: &'static str,
    message: String,
    retry: Retry,
    broken: bool,
    concerns_all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    Never,
    Backoff,
    After(Duration),
}

impl Failure {
    /// Whether the next request would fare no better.
    pub(super) fn concerns_all(&self) -> bool {
        self.concerns_all
    }

    fn timeout(timeout: Duration) -> Self {
        Self {
            reason: "timeout",
            message: format!("no answer within {timeout:?}"),
            retry: Retry::Backoff,
            broken: true,
            concerns_all: true,
        }
    }

    fn of(status: &Status) -> Self {
        let told = status
            .get_details_retry_info()
            .and_then(|told| told.retry_delay);
        // An error of the connection itself has a source; a status that was received has none.
        let local = std::error::Error::source(status).is_some();
        let reason = match status.code() {
            _ if local && channel::is_tls(status) => "tls",
            Code::Cancelled if local => "timeout",
            Code::Unknown if local => "unavailable",
            code => word(code),
        };
        let retry = match status.code() {
            Code::ResourceExhausted => told.map_or(Retry::Never, Retry::After),
            Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss => told.map_or(Retry::Backoff, Retry::After),
            Code::Unknown if local => Retry::Backoff,
            _ => Retry::Never,
        };
        let concerns_all = !matches!(
            status.code(),
            Code::InvalidArgument
                | Code::ResourceExhausted
                | Code::OutOfRange
                | Code::Internal
                | Code::DataLoss
                | Code::FailedPrecondition
        );
        let mut message = format!("{:?}", status.code());
        let said = match std::error::Error::source(status) {
            Some(source) => format!("{}: {}", status.message(), channel::chain(source)),
            None => status.message().to_owned(),
        };
        if !said.is_empty() {
            message.push_str(": ");
            message.push_str(&said);
        }
        Self {
            reason,
            message,
            retry,
            broken: local,
            concerns_all,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The word for a code that the collector answered.
fn word(code: Code) -> &'static str {
    match code {
        Code::DeadlineExceeded => "timeout",
        Code::Unavailable => "unavailable",
        Code::ResourceExhausted => "resource_exhausted",
        Code::Unauthenticated => "unauthenticated",
        Code::PermissionDenied => "permission_denied",
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => "invalid",
        Code::Unimplemented | Code::NotFound => "unimplemented",
        _ => "internal",
    }
}

/// The client's side of the connection.
pub(super) struct Sender {
    config: config::Otlp,
    metadata: MetadataMap,
    channel: Option<Channel>,
}

impl Sender {
    pub(super) fn new(config: config::Otlp) -> Result<Self, PushError> {
        channel::endpoint(&config.endpoint)?;
        Ok(Self {
            metadata: channel::metadata(&config.headers)?,
            config,
            channel: None,
        })
    }

    /// Sends a request, again and again while that may help and `due` is not reached.
    pub(super) async fn send(&mut self, part: &Part, due: Instant) -> Result<Answer, Failure> {
        let mut delays = ExponentialBuilder::new()
            .with_min_delay(FIRST_DELAY)
            .with_max_delay(LONGEST_DELAY)
            .with_jitter()
            .without_max_times()
            .build();
        loop {
            let limit = due.min(Instant::now() + self.config.timeout);
            let failure = match tokio::time::timeout_at(limit, self.attempt(part)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::timeout(self.config.timeout),
            };
            if failure.broken {
                // The next attempt connects anew and reads the certificates again.
                self.channel = None;
            }
            let delay = match failure.retry {
                Retry::Never => return Err(failure),
                Retry::After(delay) => delay,
                Retry::Backoff => delays.next().unwrap_or(LONGEST_DELAY),
            };
            let next = Instant::now() + delay;
            if next >= due {
                return Err(failure);
            }
            tracing::debug!(endpoint = %self.config.endpoint, error = %failure, ?delay, "push is retried");
            tokio::time::sleep_until(next).await;
        }
    }

    async fn attempt(&mut self, part: &Part) -> Result<Answer, Failure> {
        let channel = if let Some(channel) = &self.channel {
            channel.clone()
        } else {
            let channel = channel::connect(&self.config).map_err(|error| Failure {
                reason: "tls",
                message: error.to_string(),
                retry: Retry::Never,
                broken: true,
                concerns_all: true,
            })?;
            self.channel.insert(channel).clone()
        };
        let mut grpc = Grpc::new(channel).accept_compressed(CompressionEncoding::Gzip);
        if self.config.gzip {
            grpc = grpc.send_compressed(CompressionEncoding::Gzip);
        }
        grpc.ready()
            .await
            .map_err(|error| Failure::of(&Status::from_error(Box::new(error))))?;
        let mut request = Request::new(part.bytes.clone());
        *request.metadata_mut() = self.metadata.clone();
        request.set_timeout(self.config.timeout);
        let response = grpc
            .unary(request, PathAndQuery::from_static(PATH), Encoded)
            .await
            .map_err(|status| Failure::of(&status))?;
        let refused = response.into_inner().partial_success.unwrap_or_default();
        Ok(Answer {
            rejected: u64::try_from(refused.rejected_data_points).unwrap_or(0),
            message: refused.error_message,
        })
    }
}

/// Takes requests that are encoded already.
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = ExportMetricsServiceResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.reserve(item.len());
        into.put(item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl Decoder for Encoded {
    type Item = ExportMetricsServiceResponse;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        ExportMetricsServiceResponse::decode(from)
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn codes_are_retried_as_the_protocol_says() {
        let second = Duration::from_secs(1);
        for (code, reason, retry, retry_told) in [
            (
                Code::Unavailable,
                "unavailable",
                Retry::Backoff,
                Retry::After(second),
            ),
            (
                Code::DeadlineExceeded,
                "timeout",
                Retry::Backoff,
                Retry::After(second),
            ),
            (
                Code::Cancelled,
                "internal",
                Retry::Backoff,
                Retry::After(second),
            ),
            (
                Code::Aborted,
                "internal",
                Retry::Backoff,
                Retry::After(second),
            ),
            (
                Code::OutOfRange,
                "invalid",
                Retry::Backoff,
                Retry::After(second),
            ),
            (
                Code::DataLoss,
                "internal",
                Retry::Backoff,
                Retry::After(second),
            ),
            (
                Code::ResourceExhausted,
                "resource_exhausted",
                Retry::Never,
                Retry::After(second),
            ),
            (Code::InvalidArgument, "invalid", Retry::Never, Retry::Never),
            (
                Code::Unauthenticated,
                "unauthenticated",
                Retry::Never,
                Retry::Never,
            ),
            (
                Code::PermissionDenied,
                "permission_denied",
                Retry::Never,
                Retry::Never,
            ),
            (
                Code::Unimplemented,
                "unimplemented",
                Retry::Never,
                Retry::Never,
            ),
            (Code::Unknown, "internal", Retry::Never, Retry::Never),
        ] {
            let failure = Failure::of(&Status::new(code, "words"));
            assert_eq!((failure.reason, failure.retry), (reason, retry), "{code:?}");
            assert!(failure.to_string().ends_with("words"), "{failure}");
            let told = ErrorDetails::with_retry_info(Some(second));
            let failure = Failure::of(&Status::with_error_details(code, "words", told));
            assert_eq!(failure.retry, retry_told, "{code:?} with RetryInfo");
        }
    }
}

//! How a text becomes a value: durations, addresses, URLs, prefixes, log filters. Each says what is
//! wrong with a text that has not its form, without saying where it stood.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tracing_subscriber::EnvFilter;

/// What is wrong with a text, and what was expected.
pub(super) type Fault = (String, String);

/// What a duration looks like.
pub(super) const DURATION: &str = "a number with ms, s, m, h or d, such as 30s";

/// What a listen address looks like.
pub(super) const ADDRESS: &str = "an IP address and port, such as 0.0.0.0:8080";

const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// A duration: whole numbers with the units `d h m s ms`, each at most once, the longest first,
/// such as `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, Fault> {
    let fault = || (format!("{text:?} is no duration"), DURATION.to_owned());
    let mut millis = 0_u64;
    let mut units = UNITS.iter();
    let mut rest = text;
    if rest.is_empty() {
        return Err(fault());
    }
    while !rest.is_empty() {
        let digits = rest.find(|char: char| !char.is_ascii_digit());
        let (number, after) = rest.split_at(digits.unwrap_or(rest.len()));
        let letters = after.find(|char: char| !char.is_ascii_alphabetic());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        let number: u64 = number.parse().map_err(|_| fault())?;
        let (_, length) = units.find(|(known, _)| *known == unit).ok_or_else(fault)?;
        let part = number.checked_mul(*length);
        millis = part
            .and_then(|part| millis.checked_add(part))
            .ok_or_else(fault)?;
        rest = after;
    }
    Ok(Duration::from_millis(millis))
}

/// A duration as [`duration`] reads it; what is below a millisecond is dropped.
pub(super) fn duration_text(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, length) in UNITS {
        let number = millis / length;
        millis %= length;
        if number > 0 {
            text.push_str(&number.to_string());
            text.push_str(unit);
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

/// An address to listen on; `:8080` is that port of all IPv4 addresses.
pub(super) fn address(text: &str) -> Result<SocketAddr, Fault> {
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
    if let Some(port) = port {
        return Ok((Ipv4Addr::UNSPECIFIED, port).into());
    }
    text.parse()
        .map_err(|_| (format!("{text:?} is no address"), ADDRESS.to_owned()))
}

/// Whether two addresses cannot both be listened on.
pub(super) fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && (any || one.ip() == other.ip())
}

/// An endpoint without a path, with its scheme.
pub(super) fn endpoint(text: &str) -> Result<String, Fault> {
    const EXPECTED: &str =
        "http:// or https:// with a host and a port, such as http://collector:4317";
    let fault = |what: &str| Err((format!("{text:?} {what}"), EXPECTED.to_owned()));
    if text.contains('@') {
        // What stands before it may be a password, so it is not repeated.
        let what = "has more than a host and a port";
        return Err((what.to_owned(), EXPECTED.to_owned()));
    }
    let Some((scheme, _)) = text.split_once("://") else {
        return fault("has no scheme");
    };
    if !["http", "https"].contains(&scheme) {
        return fault("has another scheme");
    }
    let Ok(uri) = text.parse::<http::Uri>() else {
        return fault("is no URL");
    };
    let Some(host) = uri.host().filter(|host| !host.is_empty()) else {
        return fault("has no host");
    };
    // Nothing but a port may be left of the authority when the host is taken away.
    let port = |all: &http::uri::Authority| all.port_u16().is_some_and(|port| port != 0);
    if uri
        .authority()
        .is_some_and(|all| all.as_str() != host && !port(all))
    {
        return fault("has no valid port");
    }
    if uri.path() != "/" || uri.query().is_some() {
        return fault("has a path, which gRPC does not use");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Where the history is kept.
pub(super) fn history(text: &str) -> Result<String, Fault> {
    const EXPECTED: &str = "file:///absolute/path or memory:";
    let fault = |what: String| Err((what, EXPECTED.to_owned()));
    if text == "memory:" {
        return Ok(text.to_owned());
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return fault(format!("{text:?} is no URL of a history"));
    };
    match scheme {
        "file" if rest.starts_with('/') && !rest.trim_matches('/').is_empty() => {
            Ok(text.to_owned())
        }
        "file" => fault(format!("{text:?} names no absolute path")),
        "gs" | "s3" | "az" => {
            let bucket = rest.split('/').next().unwrap_or_default();
            if bucket.is_empty() {
                fault(format!("{text:?} names no bucket"))
            } else {
                fault(format!("{scheme}:// is not supported by this version"))
            }
        }
        _ => fault(format!("{text:?} has an unknown scheme")),
    }
}

/// The first part of metric names.
pub(super) fn prefix(text: &str) -> Result<String, Fault> {
    let part = |char: char| char.is_ascii_alphanumeric() || "_.-/".contains(char);
    let valid = text.starts_with(|char: char| char.is_ascii_alphabetic())
        && text.ends_with(|char: char| char.is_ascii_alphanumeric() || char == '_')
        && text.len() <= 100
        && text.chars().all(part);
    if valid {
        return Ok(text.to_owned());
    }
    let expected = "at most 100 letters, digits, _ . - /, from a letter to a letter, digit or _";
    Err((format!("{text:?} is no metric prefix"), expected.to_owned()))
}

/// A log filter: a level, or several directives.
pub(super) fn log_filter(text: &str) -> Result<String, Fault> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    // A lone word that is no level would be taken for a target, and a slip of the pen for silence.
    let parts = text.split(',').map(str::trim).collect::<Vec<_>>();
    let slip = |part: &&str| {
        !part.contains(['=', '[', ':']) && !LEVELS.contains(&part.to_lowercase().as_str())
    };
    let joined = parts.join(",");
    if !parts.iter().any(slip) && EnvFilter::try_new(&joined).is_ok() {
        return Ok(joined);
    }
    let expected = format!("one of {}, or target=level parts", LEVELS.join(", "));
    Err((format!("{text:?} is no log filter"), expected))
}

/// A label key or resource name of Kubernetes: an optional DNS prefix and a name.
pub(super) fn qualified(text: &str) -> Result<String, Fault> {
    let edge = |char: char| char.is_ascii_alphanumeric();
    let within = |part: &str, more: &str, longest: usize| {
        (1..=longest).contains(&part.len())
            && part.starts_with(edge)
            && part.ends_with(edge)
            && part.chars().all(|char| edge(char) || more.contains(char))
    };
    let (prefix, name) = text.rsplit_once('/').unwrap_or(("", text));
    let prefixed = text.contains('/');
    if within(name, "-_.", 63) && (!prefixed || within(prefix, "-.", 253)) {
        return Ok(text.to_owned());
    }
    let expected = "a name such as cloud.google.com/gke-nodepool";
    Err((
        format!("{text:?} is no name of Kubernetes"),
        expected.to_owned(),
    ))
}

/// The name of an object or a namespace.
pub(super) fn object_name(text: &str) -> Result<String, Fault> {
    let edge = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let valid = (1..=253).contains(&text.len())
        && text.starts_with(edge)
        && text.ends_with(edge)
        && text.chars().all(|char| edge(char) || "-.".contains(char));
    if valid {
        return Ok(text.to_owned());
    }
    let expected = "lower-case letters, digits, - and .";
    Err((
        format!("{text:?} is no name of an object"),
        expected.to_owned(),
    ))
}

/// A word of a closed set, as the value that it stands for.
pub(super) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Fault> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words = words.iter().map(|(word, _)| *word).collect::<Vec<_>>();
        (format!("{text:?} is not known"), words.join(" or "))
    })
}

/// Text that is there.
pub(super) fn text(text: &str) -> Result<String, Fault> {
    if text.trim().is_empty() {
        return Err((
            "is empty".to_owned(),
            "text, or leave it out for the default".to_owned(),
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations() {
        let table = [
            ("0s", Some(0)),
            ("250ms", Some(250)),
            ("90s", Some(90_000)),
            ("5m", Some(300_000)),
            ("1h30m", Some(5_400_000)),
            ("1d2h3m4s5ms", Some(93_784_005)),
            ("30d", Some(2_592_000_000)),
            ("", None),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("1.5h", None),
            ("1m1h", None),
            ("1s1s", None),
            ("1 s", None),
            ("1S", None),
            ("1w", None),
            ("99999999999999999999s", None),
            ("9999999999999999999d", None),
            ("213503982334d18446744073709551615ms", None),
        ];
        for (text, millis) in table {
            let read = duration(text).ok();
            assert_eq!(read, millis.map(Duration::from_millis), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_duration_is_read_as_it_is_written(millis in 0..u64::MAX) {
            let length = Duration::from_millis(millis);
            prop_assert_eq!(duration(&duration_text(length)), Ok(length));
        }
    }

    #[test]
    fn endpoints() {
        for valid in [
            "http://c:4317",
            "https://c",
            "http://[::1]:1",
            "http://10.0.0.1:65535",
        ] {
            assert_eq!(endpoint(valid), Ok(valid.to_owned()));
        }
        assert_eq!(endpoint("http://c:1/"), Ok("http://c:1".to_owned()));
        for wrong in [
            "",
            "c",
            "c:1",
            "grpc://c:1",
            "http://",
            "http://:1",
            "http://c:",
            "http://c:0",
            "http://c:65536",
            "http://c:1/x",
            "http://c:1?x",
            "http://a b:1",
            "unix:///run/s",
        ] {
            endpoint(wrong).unwrap_err();
        }
    }

    #[test]
    fn addresses_that_collide() {
        for (one, other, both) in [
            ("0.0.0.0:1", "0.0.0.0:1", true),
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("[::]:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ] {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(collide(one, other), both, "{one} {other}");
        }
    }

    #[test]
    fn log_filters() {
        for valid in ["info", "OFF", "info,megamon::watch=debug", "hyper=off"] {
            assert_eq!(log_filter(valid), Ok(valid.to_owned()));
        }
        assert_eq!(log_filter("warn, a=info"), Ok("warn,a=info".to_owned()));
        for wrong in ["inof", "info,megamon", "megamon=loud", "info,"] {
            log_filter(wrong).unwrap_err();
        }
    }
}

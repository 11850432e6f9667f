//! Which of the forms that are served a client wants, by `Accept` and `Accept-Encoding` with their
//! weights (RFC 9110, 12.5).

use axum::http::{HeaderMap, HeaderName, header};

/// A form of the Prometheus exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Text 0.0.4, the default.
    Text,
    /// OpenMetrics text 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Text => ("text", "plain", "0.0.4"),
            Self::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
        }
    }
}

/// One element of `Accept`: how well it names a format, its weight.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    version: Option<&'a str>,
    weight: f32,
}

/// The form that the client likes best. One that likes neither gets text all the same: the header
/// of a person's browser or of a careless probe must not end in an error.
pub(super) fn format(headers: &HeaderMap) -> Format {
    let ranges: Vec<Range<'_>> = elements(headers, &header::ACCEPT)
        .filter_map(range)
        .collect();
    let liked = |format: Format| {
        let (kind, subtype, version) = format.parts();
        let matching = ranges.iter().enumerate().filter_map(|(place, range)| {
            let specific = match (range.kind, range.subtype) {
                ("*", "*") => 0,
                (of, "*") if of.eq_ignore_ascii_case(kind) => 1,
                (of, name)
                    if of.eq_ignore_ascii_case(kind) && name.eq_ignore_ascii_case(subtype) =>
                {
                    match range.version {
                        None => 2,
                        Some(asked) if asked == version => 3,
                        Some(_) => return None,
                    }
                }
                _ => return None,
            };
            Some((specific, std::cmp::Reverse(place), range.weight))
        });
        // The most specific range decides the weight; of several, the first.
        matching
            .max_by_key(|(specific, place, _)| (*specific, *place))
            .filter(|(_, _, weight)| *weight > 0.0)
    };
    match (liked(Format::Text), liked(Format::OpenMetrics)) {
        (None, Some(_)) => Format::OpenMetrics,
        (Some(text), Some(open)) => {
            let by_weight = text.2.total_cmp(&open.2);
            let by_rest = (text.0, text.1).cmp(&(open.0, open.1));
            if by_weight.then(by_rest).is_lt() {
                Format::OpenMetrics
            } else {
                Format::Text
            }
        }
        _ => Format::Text,
    }
}

/// Whether the client wants gzip at least as much as no coding.
pub(super) fn gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    for element in elements(headers, &header::ACCEPT_ENCODING) {
        let (name, weight) = weighted(element);
        match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = Some(weight),
            "identity" => identity = Some(weight),
            "*" => any = Some(weight),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or(0.0);
    gzip > 0.0 && gzip >= identity.unwrap_or(0.0)
}

fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

fn range(element: &str) -> Option<Range<'_>> {
    let (media, weight) = weighted(element);
    let (kind, subtype) = media.split_once('/')?;
    let version = parameters(element)
        .find(|(name, _)| name.eq_ignore_ascii_case("version"))
        .map(|(_, value)| value);
    Some(Range {
        kind: kind.trim(),
        subtype: subtype.trim(),
        version,
        weight,
    })
}

/// What stands before the parameters, and the weight. One that is no number counts as 0.
fn weighted(element: &str) -> (&str, f32) {
    let name = element.split(';').next().unwrap_or_default().trim();
    let weight: f32 = parameters(element)
        .find(|(name, _)| name.eq_ignore_ascii_case("q"))
        .map_or(1.0, |(_, value)| value.parse().unwrap_or(0.0));
    (name, if weight.is_finite() { weight } else { 0.0 })
}

fn parameters(element: &str) -> impl Iterator<Item = (&str, &str)> {
    element
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn accept() {
        use Format::{OpenMetrics, Text};
        // As Prometheus 2 and 3 send it.
        let two = "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let three = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        let text_first = "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4,*/*;q=0.1";
        for (accept, format) in [
            (vec![], Text),
            (vec!["*/*"], Text),
            (vec![""], Text),
            (vec![two], OpenMetrics),
            (vec![three], OpenMetrics),
            (vec![text_first], Text),
            (vec!["application/openmetrics-text"], OpenMetrics),
            (
                vec!["Application/OpenMetrics-Text; Version=1.0.0"],
                OpenMetrics,
            ),
            (
                vec!["application/openmetrics-text; version=\"1.0.0\""],
                OpenMetrics,
            ),
            (vec!["application/openmetrics-text;version=0.0.1"], Text),
            (vec!["application/openmetrics-text;q=0"], Text),
            (vec!["application/openmetrics-text;q=x"], Text),
            (vec!["application/*"], OpenMetrics),
            (vec!["application/*;q=0.5,*/*;q=0.4"], OpenMetrics),
            (vec!["application/openmetrics-text,*/*;q=0.1"], OpenMetrics),
            (vec!["application/openmetrics-text;q=0.2,*/*;q=0.9"], Text),
            (vec!["text/plain,application/openmetrics-text"], Text),
            (vec!["application/openmetrics-text,text/plain"], OpenMetrics),
            (vec!["text/html,application/xhtml+xml,*/*;q=0.8"], Text),
            (vec!["application/json"], Text),
            (
                vec!["text/plain;q=0.3", "application/openmetrics-text;q=0.9"],
                OpenMetrics,
            ),
            (vec!["*/*;q=0"], Text),
        ] {
            assert_eq!(
                super::format(&headers(&header::ACCEPT, &accept)),
                format,
                "{accept:?}"
            );
        }
    }

    #[test]
    fn accept_encoding() {
        for (accept, wanted) in [
            (vec![], false),
            (vec!["gzip"], true),
            (vec!["GZIP"], true),
            (vec!["deflate, gzip;q=0.5, br"], true),
            (vec!["deflate", "gzip"], true),
            (vec!["gzip;q=0"], false),
            (vec!["gzip;q=0.0, *"], false),
            (vec!["*"], true),
            (vec!["identity"], false),
            (vec!["identity;q=1, gzip;q=0.5"], false),
            (vec!["br"], false),
        ] {
            assert_eq!(
                super::gzip(&headers(&header::ACCEPT_ENCODING, &accept)),
                wanted,
                "{accept:?}"
            );
        }
    }
}

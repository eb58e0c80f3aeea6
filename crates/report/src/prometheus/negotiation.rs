// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which format a scraper gets, by the `Accept` line of its request.

use super::{Family, protobuf, text};

/// How figures go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Text, version 0.0.4: what everybody reads, files too.
    Text,
    /// OpenMetrics, version 1.0.0: text, too.
    OpenMetrics,
    /// Families in protobuf: native histograms.
    Protobuf,
}

impl MetricsFormat {
    /// The content type for a scraper.
    pub fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            MetricsFormat::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The figures in this format.
    pub fn of(self, families: &[Family]) -> Vec<u8> {
        match self {
            MetricsFormat::Text => text::text(families).into_bytes(),
            MetricsFormat::OpenMetrics => text::open_metrics(families).into_bytes(),
            MetricsFormat::Protobuf => protobuf::protobuf(families),
        }
    }

    /// Protobuf, or else OpenMetrics, where `accept` takes it by name and prefers no other; else text,
    /// whatever is accepted.
    pub fn accepted(accept: &str) -> MetricsFormat {
        let (mut text, mut open, mut protobuf) = (0.0, 0.0, 0.0);
        for range in accept.to_ascii_lowercase().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let options: Vec<_> = parts.filter_map(|option| option.split_once('=')).collect();
            let option = |name: &str| {
                options.iter().find(|one| one.0.trim() == name).map(|one| one.1.trim().trim_matches('"'))
            };
            let weight = option("q").map_or(1.0, |weight| weight.parse::<f64>().unwrap_or(0.0));
            let families = option("proto") == Some("io.prometheus.client.metricfamily")
                && option("encoding") == Some("delimited");
            match kind {
                "application/vnd.google.protobuf" if families => protobuf = weight.max(protobuf),
                "text/plain" if option("version").is_none_or(|version| version == "0.0.4") => {
                    text = weight.max(text);
                }
                "application/openmetrics-text"
                    if option("version").is_none_or(|version| version == "1.0.0") =>
                {
                    open = weight.max(open);
                }
                "*/*" | "text/*" => text = weight.max(text),
                _ => {}
            }
        }
        match (protobuf, open) {
            (protobuf, open) if protobuf > 0.0 && protobuf >= text && protobuf >= open => {
                MetricsFormat::Protobuf
            }
            (_, open) if open > 0.0 && open >= text => MetricsFormat::OpenMetrics,
            _ => MetricsFormat::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_what_it_prefers_and_text_where_it_says_nothing() {
        let family = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily";
        for (accept, format) in [
            ("", MetricsFormat::Text),
            ("*/*", MetricsFormat::Text),
            ("text/html,application/xhtml+xml,*/*;q=0.8", MetricsFormat::Text),
            // Prometheus 2.42 without and with native histograms, and 3.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                MetricsFormat::OpenMetrics,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                MetricsFormat::Protobuf,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                MetricsFormat::Protobuf,
            ),
            (&format!("{family}; encoding=\"delimited\" ; q=0.5"), MetricsFormat::Protobuf),
            (&format!("{family};encoding=delimited;q=0.2, text/plain;q=0.9"), MetricsFormat::Text),
            (&format!("{family};encoding=delimited;q=0"), MetricsFormat::Text),
            (&format!("{family};encoding=text"), MetricsFormat::Text),
            ("application/vnd.google.protobuf", MetricsFormat::Text),
            ("application/openmetrics-text;version=0.0.1", MetricsFormat::Text),
            ("application/openmetrics-text;q=0.5,text/plain", MetricsFormat::Text),
            ("application/openmetrics-text, text/plain;q=0.5", MetricsFormat::OpenMetrics),
            (&format!("{family};encoding=delimited;q=x"), MetricsFormat::Text),
        ] {
            assert_eq!(MetricsFormat::accepted(accept), format, "{accept}");
        }
    }
}

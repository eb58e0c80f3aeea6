// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which format a scraper gets, by the `Accept` line of its request.

use super::{Family, protobuf, text};

/// How figures go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text, version 0.0.4: what everybody reads, files too.
    Text,
    /// Families in protobuf: native histograms.
    Protobuf,
}

impl Format {
    /// What a scraper is told that it gets.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The figures in this format.
    pub fn of(self, families: &[Family]) -> Vec<u8> {
        match self {
            Format::Text => text::text(families).into_bytes(),
            Format::Protobuf => protobuf::protobuf(families),
        }
    }

    /// Protobuf where `accept` takes it by name and prefers nothing of the text's; else text, whatever is accepted.
    pub fn accepted(accept: &str) -> Format {
        let (mut text, mut protobuf) = (0.0, 0.0);
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
                "*/*" | "text/*" => text = weight.max(text),
                _ => {}
            }
        }
        if protobuf > 0.0 && protobuf >= text { Format::Protobuf } else { Format::Text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_gets_what_it_prefers_and_text_where_it_says_nothing() {
        let family = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily";
        for (accept, format) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::Text),
            // Prometheus 2.42 without and with native histograms, and 3.
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Format::Text,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Format::Protobuf,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                Format::Protobuf,
            ),
            (&format!("{family}; encoding=\"delimited\" ; q=0.5"), Format::Protobuf),
            (&format!("{family};encoding=delimited;q=0.2, text/plain;q=0.9"), Format::Text),
            (&format!("{family};encoding=delimited;q=0"), Format::Text),
            (&format!("{family};encoding=text"), Format::Text),
            ("application/vnd.google.protobuf", Format::Text),
            (&format!("{family};encoding=delimited;q=x"), Format::Text),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }
}

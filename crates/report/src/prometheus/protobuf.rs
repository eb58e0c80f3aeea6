// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prometheus' protobuf format: `io.prometheus.client.MetricFamily`, each after its length
//! (<https://github.com/prometheus/client_model/blob/master/io/prometheus/client/metrics.proto>, field numbers from there; wire:
//! <https://protobuf.dev/programming-guides/encoding/>). The one format that has native histograms.
//!
//! Three kinds of field are all it takes: whole numbers, doubles, and bytes (texts, messages, lists of whole
//! numbers).

use super::exponential::{SCHEMA, ZERO_OCTAVE};
use super::{CLASSIC, Exponential, Family, MetricSamples};

pub(super) fn protobuf(families: &[Family]) -> Vec<u8> {
    let mut out = Vec::new();
    for one in families {
        let message = family(one);
        whole(&mut out, message.len() as u64);
        out.extend(message);
    }
    out
}

fn family(Family { name, help, samples }: &Family) -> Vec<u8> {
    let mut out = Vec::new();
    bytes(&mut out, 1, name.as_bytes());
    bytes(&mut out, 2, help.as_bytes());
    // Fields of a metric: gauge 2, counter 3, histogram 7.
    let (kind, field) = match samples {
        MetricSamples::Counters(_) => (0, 3),
        MetricSamples::Gauges(_) => (1, 2),
        MetricSamples::Histograms(_) => (4, 7),
    };
    number(&mut out, 3, kind);
    match samples {
        MetricSamples::Counters(samples) | MetricSamples::Gauges(samples) => {
            for (labels, value) in samples {
                let mut one = Vec::new();
                double(&mut one, 1, *value);
                bytes(&mut out, 4, &metric(labels, field, &one));
            }
        }
        MetricSamples::Histograms(samples) => {
            for (labels, value) in samples {
                bytes(&mut out, 4, &metric(labels, field, &histogram(value)));
            }
        }
    }
    out
}

fn metric(labels: &[(&str, String)], field: u64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in labels {
        let mut pair = Vec::new();
        bytes(&mut pair, 1, name.as_bytes());
        bytes(&mut pair, 2, value.as_bytes());
        bytes(&mut out, 1, &pair);
    }
    bytes(&mut out, field, value);
    out
}

fn histogram(value: &Exponential) -> Vec<u8> {
    let mut out = Vec::new();
    number(&mut out, 1, value.count);
    double(&mut out, 2, value.sum_s.unwrap_or(f64::NAN));
    for octave in CLASSIC {
        let mut bucket = Vec::new();
        number(&mut bucket, 1, value.up_to(octave));
        double(&mut bucket, 2, f64::from(octave).exp2());
        bytes(&mut out, 3, &bucket);
    }
    number(&mut out, 5, signed(SCHEMA.into()));
    double(&mut out, 6, f64::from(ZERO_OCTAVE).exp2());
    number(&mut out, 7, value.zero);
    // Buckets that follow one another are a span; each has its distance from the one before, and counts their
    // differences.
    let (mut spans, mut differences) = (Vec::<(i64, u64)>::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for (index, count) in &value.buckets {
        let (index, count) = (i64::from(*index), *count as i64);
        match spans.last_mut() {
            Some((_, length)) if index == next => *length += 1,
            _ => spans.push((index - next, 1)),
        }
        whole(&mut differences, signed(count.wrapping_sub(before)));
        (next, before) = (index + 1, count);
    }
    for (distance, length) in spans {
        let mut span = Vec::new();
        number(&mut span, 1, signed(distance));
        number(&mut span, 2, length);
        bytes(&mut out, 12, &span);
    }
    bytes(&mut out, 13, &differences);
    out
}

/// Seven bits a byte, the lowest first; the eighth says that more come.
fn whole(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A number with a sign as one without: 0, -1, 1, -2, …
fn signed(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    whole(out, field << 3);
    whole(out, value);
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    whole(out, field << 3 | 1);
    out.extend(value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    whole(out, field << 3 | 2);
    whole(out, value.len() as u64);
    out.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The bytes that Google's protobuf 7 for Python made of the same messages.
    #[test]
    fn families_are_what_protobuf_itself_makes_of_them() {
        let hex = |families: &[Family]| -> String {
            protobuf(families).iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let buckets = BTreeMap::from([(-3, 5), (-2, 1), (7, 9)]);
        let times = Exponential { zero: 2, buckets, count: 17, sum_s: Some(0.5) };
        let labels = vec![("a", "b".to_string())];
        let family =
            Family { name: "t", help: "h", samples: MetricSamples::Histograms(vec![(labels, times)]) };
        let histogram = hex(&[family]);
        assert_eq!(histogram.len(), 2 * 338);
        let begin = "d0020a0174120168180422c5020a060a01611201623aba02081111000000000000e03f";
        let first = "1a0b080211000000000000b03e";
        let last = "1a0b080811000000000000f03f";
        let end = "280a31000000000000103e38026204080510026204081010016a030a0710";
        assert!(histogram.starts_with(&format!("{begin}{first}")), "{histogram}");
        assert!(histogram.ends_with(&format!("{last}{end}")), "{histogram}");
        let family =
            Family { name: "c", help: "h", samples: MetricSamples::Counters(vec![(Vec::new(), 3.0)]) };
        assert_eq!(hex(&[family]), "150a01631201681800220b1a09090000000000000840");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prometheus' text format, version 0.0.4 (<https://prometheus.io/docs/instrumenting/exposition_formats/>), and OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), which has another name for a counter's family, units, and an end.

use std::fmt::Write;

use untrusted::text::label;

use super::{CLASSIC, Exponential, Family, Labels, MetricSamples};

pub(super) fn text(families: &[Family]) -> String {
    let mut out = String::new();
    families.iter().for_each(|family| of_family(&mut out, family, family.name));
    out
}

pub(super) fn open_metrics(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let name = match family.samples {
            MetricSamples::Counters(_) => family.name.strip_suffix("_total").unwrap_or(family.name),
            _ => family.name,
        };
        if name.ends_with("_seconds") {
            let _ = writeln!(out, "# UNIT {name} seconds");
        }
        of_family(&mut out, family, name);
    }
    out + "# EOF\n"
}

/// The samples of a family, whose own name is `of`.
fn of_family(out: &mut String, Family { name, help, samples }: &Family, of: &str) {
    let kind = match samples {
        MetricSamples::Counters(_) => "counter",
        MetricSamples::Gauges(_) => "gauge",
        MetricSamples::Histograms(_) => "histogram",
    };
    let _ = writeln!(out, "# HELP {of} {help}\n# TYPE {of} {kind}");
    match samples {
        MetricSamples::Counters(samples) | MetricSamples::Gauges(samples) => {
            samples.iter().for_each(|(labels, value)| line(out, name, labels, None, *value));
        }
        MetricSamples::Histograms(samples) => {
            samples.iter().for_each(|(labels, value)| histogram(out, name, labels, value));
        }
    }
}

fn histogram(out: &mut String, name: &str, labels: &Labels, value: &Exponential) {
    let count = value.count as f64;
    let bucket = format!("{name}_bucket");
    for octave in CLASSIC {
        let bound = number(f64::from(octave).exp2());
        line(out, &bucket, labels, Some(&bound), value.up_to(octave) as f64);
    }
    line(out, &bucket, labels, Some("+Inf"), count);
    value.sum_s.iter().for_each(|sum_s| line(out, &format!("{name}_sum"), labels, None, *sum_s));
    line(out, &format!("{name}_count"), labels, None, count);
}

fn line(out: &mut String, name: &str, labels: &Labels, bound: Option<&str>, value: f64) {
    let pair = |(name, value): &(&str, String)| format!("{name}=\"{}\"", label(value));
    let bound = bound.map(|bound| format!("le=\"{bound}\""));
    let labels = labels.iter().map(pair).chain(bound).collect::<Vec<_>>().join(",");
    let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
    let _ = writeln!(out, "{name}{labels} {value}");
}

/// A bound as Prometheus itself writes it where it comes in the other format, so that its series is the same.
fn number(bound: f64) -> String {
    if bound >= 1e-4 {
        return bound.to_string();
    }
    let text = format!("{bound:e}");
    let (digits, exponent) = text.split_once("e-").unwrap_or((&text, "0"));
    format!("{digits}e-{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::histogram::Histogram;

    #[test]
    fn a_histogram_has_a_bucket_an_octave_that_counts_all_below_it() {
        let mut seen = Histogram::new();
        [0, 900, 2_500_000_000, 100_000].iter().for_each(|value| seen.record(*value));
        let samples = vec![(vec![("load", "idle".to_string())], Exponential::of(&seen, Some(seen.sum_ns())))];
        let text = text(&[Family { name: "t", help: "Times.", samples: MetricSamples::Histograms(samples) }]);
        for line in [
            "# TYPE t histogram",
            r#"t_bucket{load="idle",le="9.5367431640625e-07"} 2"#,
            r#"t_bucket{load="idle",le="6.103515625e-05"} 2"#,
            r#"t_bucket{load="idle",le="0.0001220703125"} 3"#,
            r#"t_bucket{load="idle",le="1"} 3"#,
            r#"t_bucket{load="idle",le="+Inf"} 4"#,
            r#"t_sum{load="idle"} 2.5001009"#,
            r#"t_count{load="idle"} 4"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("t_bucket")).count(), 22);
    }

    #[test]
    fn open_metrics_name_a_counters_family_without_its_suffix_and_have_an_end() {
        let samples = || MetricSamples::Counters(vec![(vec![("cpu", "1".to_string())], 3.0)]);
        let families = [
            Family { name: "late_cycles_total", help: "Late.", samples: samples() },
            Family { name: "limit_seconds", help: "Limit.", samples: MetricSamples::Gauges(Vec::new()) },
        ];
        assert_eq!(
            open_metrics(&families),
            "# HELP late_cycles Late.\n# TYPE late_cycles counter\nlate_cycles_total{cpu=\"1\"} 3\n\
             # UNIT limit_seconds seconds\n# HELP limit_seconds Limit.\n# TYPE limit_seconds gauge\n# EOF\n"
        );
        assert!(
            text(&families).starts_with("# HELP late_cycles_total Late.\n# TYPE late_cycles_total counter\n")
        );
    }
}

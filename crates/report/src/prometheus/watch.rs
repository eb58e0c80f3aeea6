// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of `isolator watch`. The kernel counts interruptions and does not time them, so nothing here
//! is a distribution.

use cause::rates::{Interrupter, SentRate, WatchDocument};
use evidence::cause::CauseKind;

use super::{Family, Labels, MetricSamples, label};

/// An interval's document as metrics.
pub fn watch(document: &WatchDocument) -> Vec<Family> {
    let each = |value: fn(&Interrupter) -> f64| {
        document.sources.iter().map(|one| (source(one.cpu, one.kind, &one.name), value(one))).collect()
    };
    let mut families = vec![
        Family {
            name: "isolator_interruptions_total",
            help: "What interrupted a watched CPU since the watch began.",
            samples: MetricSamples::Counters(each(|one| one.total as f64)),
        },
        Family {
            name: "isolator_interruptions_per_second",
            help: "The same in the last interval, for each second of it.",
            samples: MetricSamples::Gauges(each(|one| one.per_second)),
        },
    ];
    if let Some(senders) = &document.senders {
        families.push(Family {
            name: "isolator_ipis_sent_per_second",
            help: "IPIs to a watched CPU in the last interval by sender, for each second of it.",
            samples: MetricSamples::Gauges(senders.iter().map(sent).collect()),
        });
    }
    let isolated = |cpu| (vec![of_cpu(cpu)], f64::from(u8::from(document.isolated.contains(cpu))));
    families.push(Family {
        name: "isolator_watched_cpu_isolated",
        help: "Whether a watched CPU is isolated.",
        samples: MetricSamples::Gauges(document.cpus.iter().map(isolated).collect()),
    });
    families.push(Family {
        name: "isolator_watch_interval_seconds",
        help: "Length of the last interval.",
        samples: MetricSamples::Gauges(vec![(Vec::new(), document.interval_ns as f64 / 1e9)]),
    });
    families
}

fn sent(one: &SentRate) -> (Labels, f64) {
    let sender = &one.sender;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let mut labels = source(one.cpu, CauseKind::Ipi, &one.name);
    labels.extend([
        label("sender_cpu", &number(sender.cpu)),
        label("sender_pid", &number(sender.pid)),
        label("sender", &text(&sender.comm)),
        label("function", &text(&sender.function)),
        label("call_site", &text(&sender.call_site)),
    ]);
    (labels, one.per_second)
}

fn of_cpu(cpu: u32) -> (&'static str, String) {
    label("cpu", &cpu.to_string())
}

fn source(cpu: u32, kind: CauseKind, name: &str) -> Labels {
    vec![of_cpu(cpu), label("kind", kind.name()), label("name", name)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::MetricsFormat;
    use evidence::cause::Sender;

    #[test]
    fn figures_have_labels_that_cannot_break_out_of_their_quotes() {
        let document = WatchDocument {
            schema_version: 1,
            number: 1,
            time: "2026-03-01T10:00:00Z".into(),
            interval_ns: 500_000_000,
            cpus: "2-3".parse().unwrap(),
            isolated: "3".parse().unwrap(),
            sources: vec![Interrupter {
                cpu: 3,
                kind: CauseKind::Irq,
                name: "45 a\"b\\c\nd\u{1b}".into(),
                count: 2,
                per_second: 4.0,
                total: 7,
            }],
            senders: Some(vec![SentRate {
                cpu: 3,
                name: "reschedule".into(),
                sender: Sender { cpu: Some(0), comm: Some("echo".into()), ..Sender::default() },
                count: 1,
                per_second: 2.0,
            }]),
            could_not_see: Vec::new(),
        };
        let text = String::from_utf8(MetricsFormat::Text.of(&watch(&document))).unwrap();
        for line in [
            "isolator_interruptions_total{cpu=\"3\",kind=\"irq\",name=\"45 a\\\"b\\\\c\\nd\u{fffd}\"} 7",
            "isolator_interruptions_per_second{cpu=\"3\",kind=\"irq\",name=\"45 a\\\"b\\\\c\\nd\u{fffd}\"} 4",
            r#"isolator_ipis_sent_per_second{cpu="3",kind="ipi",name="reschedule",sender_cpu="0",sender_pid="",sender="echo",function="",call_site=""} 2"#,
            r#"isolator_watched_cpu_isolated{cpu="2"} 0"#,
            "isolator_watch_interval_seconds 0.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.lines().all(|line| line.starts_with("isolator_") || line.starts_with("# ")), "{text}");
    }
}

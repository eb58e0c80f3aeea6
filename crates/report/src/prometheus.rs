// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures of `isolator watch` in Prometheus' text format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).
//!
//! Written by hand: it is a dozen lines of a stable format, made from a document that is there already, where the
//! client library wants a registry of families that are known beforehand.

use std::fmt::Write;

use evidence::watch::WatchDocument;

/// What a scraper is told that it gets.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The document as metrics. The totals only grow while a watch lasts; a new watch begins at nothing, as a counter may.
pub fn prometheus(document: &WatchDocument) -> String {
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, String)>| {
        let _ = writeln!(out, "# HELP isolator_{name} {help}\n# TYPE isolator_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "isolator_{name}{{{labels}}} {value}");
        }
    };
    let source = |cpu: u32, kind: &str, name: &str| {
        format!("cpu=\"{cpu}\",kind=\"{kind}\",name=\"{}\"", escaped(name))
    };
    let each = |value: fn(&evidence::watch::Interrupter) -> String| {
        let one = |one| (labels_of(one, &source), value(one));
        document.sources.iter().map(one).collect::<Vec<_>>()
    };
    family(
        "interruptions_total",
        "counter",
        "What interrupted a watched CPU since the watch began.",
        each(|one| one.total.to_string()),
    );
    family(
        "interruptions_per_second",
        "gauge",
        "The same in the last interval, for each second of it.",
        each(|one| one.per_second.to_string()),
    );
    if let Some(senders) = &document.senders {
        let text = |text: &Option<String>| escaped(text.as_deref().unwrap_or_default());
        let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
        let one = |one: &evidence::watch::SentRate| {
            let sender = &one.sender;
            let labels = format!(
                "{},sender_cpu=\"{}\",sender_pid=\"{}\",sender=\"{}\",function=\"{}\",call_site=\"{}\"",
                source(one.cpu, "ipi", &one.name),
                number(sender.cpu),
                number(sender.pid),
                text(&sender.comm),
                text(&sender.function),
                text(&sender.call_site)
            );
            (labels, one.per_second.to_string())
        };
        let help = "IPIs to a watched CPU in the last interval by sender, for each second of it.";
        family("ipis_sent_per_second", "gauge", help, senders.iter().map(one).collect());
    }
    let cpus = document.cpus.iter();
    let isolated = |cpu| (format!("cpu=\"{cpu}\""), u8::from(document.isolated.contains(cpu)).to_string());
    family(
        "watched_cpu_isolated",
        "gauge",
        "Whether a watched CPU is isolated.",
        cpus.map(isolated).collect(),
    );
    let _ = writeln!(
        out,
        "# HELP isolator_watch_interval_seconds Length of the last interval.\n\
         # TYPE isolator_watch_interval_seconds gauge\n\
         isolator_watch_interval_seconds {}",
        document.interval_ns as f64 / 1e9
    );
    out
}

fn labels_of(one: &evidence::watch::Interrupter, source: &dyn Fn(u32, &str, &str) -> String) -> String {
    source(one.cpu, one.kind.name(), &one.name)
}

/// A label's value: backslash, quote and line feed are escaped, other control characters replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::cause::{Kind, Sender};
    use evidence::watch::{Interrupter, SentRate};

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
                kind: Kind::Irq,
                name: "45 a\"b\\c\nd".into(),
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
        let text = prometheus(&document);
        for line in [
            r#"isolator_interruptions_total{cpu="3",kind="irq",name="45 a\"b\\c\nd"} 7"#,
            r#"isolator_interruptions_per_second{cpu="3",kind="irq",name="45 a\"b\\c\nd"} 4"#,
            r#"isolator_ipis_sent_per_second{cpu="3",kind="ipi",name="reschedule",sender_cpu="0",sender_pid="",sender="echo",function="",call_site=""} 2"#,
            r#"isolator_watched_cpu_isolated{cpu="2"} 0"#,
            "isolator_watch_interval_seconds 0.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(text.lines().all(|line| line.starts_with("isolator_") || line.starts_with("# ")), "{text}");
    }
}

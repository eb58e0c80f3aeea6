// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answer to a scraper's HTTP request: `GET /metrics`, in the format that it accepts.

use super::MetricsFormat;

/// The answer to a request whose head is `head`; `page` makes the figures in a format.
pub fn answer(head: &str, page: &impl Fn(MetricsFormat) -> Vec<u8>) -> Vec<u8> {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let path = |path: &str| path.split('?').next().unwrap_or_default().to_string();
    let said = |status, text: &str| (status, MetricsFormat::Text, text.as_bytes().to_vec());
    let (status, format, body) = match (words.next(), words.next().map(path).as_deref()) {
        (Some("GET" | "HEAD"), Some("/metrics" | "/")) => {
            let format = MetricsFormat::accepted(&accept(head));
            ("200 OK", format, page(format))
        }
        (Some("GET" | "HEAD"), Some(_)) => said("404 Not Found", "the figures are at /metrics\n"),
        _ => said("400 Bad Request", "only GET /metrics is understood\n"),
    };
    let (kind, length) = (format.content_type(), body.len());
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .into_bytes();
    if !head.starts_with("HEAD ") {
        answer.extend(body);
    }
    answer
}

/// The forms that a request accepts: all its lines of that name.
fn accept(head: &str) -> String {
    headers(head, "accept").collect::<Vec<_>>().join(",")
}

/// The values of all lines `name` of a request whose head is `head`.
pub fn headers<'a>(head: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.filter(move |(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(head: &str) -> String {
        let page = |format| format!("{format:?}").into_bytes();
        String::from_utf8(answer(head, &page)).unwrap()
    }

    #[test]
    fn only_the_figures_are_served() {
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1", "200 OK", "Text"),
            ("GET /?x=/etc/passwd HTTP/1.1", "200 OK", "Text"),
            ("HEAD /metrics HTTP/1.1", "200 OK", ""),
            ("GET /../etc/passwd HTTP/1.1", "404 Not Found", "the figures are at /metrics\n"),
            ("POST /metrics HTTP/1.1", "400 Bad Request", "only GET /metrics is understood\n"),
            ("GET", "400 Bad Request", "only GET /metrics is understood\n"),
            ("", "400 Bad Request", "only GET /metrics is understood\n"),
        ] {
            let answer = answered(&format!("{request}\r\n\r\n"));
            let (head, text) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {head}");
            assert_eq!(text, body, "{request}");
        }
    }

    #[test]
    fn all_accept_lines_choose_the_format() {
        let asks = "GET / HTTP/1.1\r\naccept: text/plain;q=0.1\r\nACCEPT: application/vnd.google.protobuf;\
            proto=io.prometheus.client.MetricFamily;encoding=delimited\r\n\r\n";
        assert!(answered(asks).ends_with("Protobuf"));
    }
}

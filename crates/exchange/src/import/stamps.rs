// SPDX-License-Identifier: MIT OR Apache-2.0
//! The beginnings that logs and mails put before a line: quoting, time stamps, a log's host and program.
//!
//! | before the line | written by |
//! |---|---|
//! | `> `, `>> `, `> > ` | mails, Markdown |
//! | `2024-01-01T00:00:00.0000000Z ` | GitHub Actions, Azure, `docker logs -t` |
//! | `job⇥step⇥2024-01-01T00:00:00Z ` | `gh run view --log` |
//! | `2024-01-01T00:00:00.000000Z 00O ` | GitLab |
//! | `2024-01-01T00:00:00Z stdout F ` | Kubernetes |
//! | `[2024-01-01T00:00:00.000Z] `, `00:00:01.234  ` | Jenkins |
//! | `2024-01-01 00:00:00,000 - INFO - ` | Python's logging |
//! | `- {"dt": "…", "lvl": "target", "msg": "…"}` | LAVA |
//! | `<8>[   12.345678] `, `[   12.345678][  T123] ` | the kernel's log, kernelci |
//! | `Nov 25 08:49:29 host program[123]: ` | syslog, journalctl; without host and program `ts` |

use std::borrow::Cow;

/// Names of the months.
pub(super) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A line without all that stands before it.
pub(super) fn bare(line: &str) -> Cow<'_, str> {
    let mut rest = line.trim();
    loop {
        let strips = [dated, timed, syslog, kernel, tabbed];
        let shorter = rest.strip_prefix('>').or_else(|| strips.iter().find_map(|strip| strip(rest)));
        match shorter {
            Some(shorter) => rest = shorter.trim_start(),
            None => break,
        }
    }
    match lava(rest) {
        Some(message) => Cow::Owned(bare(&message).into_owned()),
        None => Cow::Borrowed(rest),
    }
}

/// The rest after a pattern: `0` is a digit, any other character itself.
fn pattern<'a>(line: &'a str, pattern: &str) -> Option<&'a str> {
    let fits = |(byte, wanted): (u8, u8)| match wanted {
        b'0' => byte.is_ascii_digit(),
        _ => byte == wanted,
    };
    let same = line.len() >= pattern.len() && line.bytes().zip(pattern.bytes()).all(fits);
    same.then(|| &line[pattern.len()..])
}

/// The rest after a fraction of a second, which may be absent.
fn fraction(line: &str) -> &str {
    let is_digit = |c: char| c.is_ascii_digit();
    let digits = line.strip_prefix(['.', ',']).filter(|digits| digits.starts_with(is_digit));
    digits.map_or(line, |digits| digits.trim_start_matches(is_digit))
}

/// Something in brackets or not; after it comes a blank, and then the line.
fn enclosed(line: &str, inner: fn(&str) -> Option<&str>) -> Option<&str> {
    let rest = match line.strip_prefix('[') {
        Some(opened) => inner(opened)?.strip_prefix(']')?,
        None => inner(line)?,
    };
    (rest.is_empty() || rest.starts_with([' ', '\t'])).then_some(rest)
}

fn dated(line: &str) -> Option<&str> {
    fn stamp(line: &str) -> Option<&str> {
        let date = pattern(line, "0000-00-00")?;
        let time = fraction(pattern(date.strip_prefix(['T', ' '])?, "00:00:00")?);
        let numeric = |zone| {
            let zone = str::strip_prefix(zone, ['+', '-'])?;
            pattern(zone, "00:00").or_else(|| pattern(zone, "0000"))
        };
        let zone = time.strip_prefix('Z').or_else(|| numeric(time));
        Some(zone.or_else(|| numeric(time.strip_prefix(' ')?)).unwrap_or(time))
    }
    let rest = enclosed(line, stamp)?.trim_start();
    Some(stream(rest).or_else(|| logger(rest)).or_else(|| level(rest)).unwrap_or(rest))
}

fn timed(line: &str) -> Option<&str> {
    let rest = enclosed(line, |line| Some(fraction(pattern(line, "00:00:00")?)))?;
    // Nothing but a time of day may be a sample of cyclictest -v.
    (!rest.trim().is_empty()).then(|| level(rest.trim_start()).unwrap_or(rest))
}

/// GitLab's number and kind of stream, or Kubernetes' name of it.
fn stream(line: &str) -> Option<&str> {
    let gitlab = |kind: char| {
        let rest = pattern(line, "00")?.strip_prefix(kind)?;
        rest.strip_prefix([' ', '+']).or(rest.is_empty().then_some(rest))
    };
    let kubernetes = |name| str::strip_prefix(line, name)?.strip_prefix(['F', 'P'])?.strip_prefix(' ');
    let kubernetes = || kubernetes("stdout ").or_else(|| kubernetes("stderr "));
    gitlab('O').or_else(|| gitlab('E')).or_else(kubernetes)
}

/// `- INFO - `, `INFO: `, `[INFO] `.
fn level(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("- ").unwrap_or(line);
    let rest = rest.strip_prefix('[').unwrap_or(rest);
    let levels = ["DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "TRACE"];
    let rest = levels.iter().find_map(|name| rest.strip_prefix(name))?.trim_start();
    let rest = rest.strip_prefix([']', ':', '-', '|']).unwrap_or(rest);
    rest.starts_with(' ').then_some(rest)
}

fn syslog(line: &str) -> Option<&str> {
    let rest = MONTHS.iter().find_map(|month| line.strip_prefix(month))?.strip_prefix(' ')?;
    let rest = pattern(rest, "00 ").or_else(|| pattern(rest, " 0 ")).or_else(|| pattern(rest, "0 "))?;
    let rest = fraction(pattern(rest, "00:00:00")?).strip_prefix(' ')?.trim_start();
    Some(logger(rest).unwrap_or(rest))
}

/// `host program[123]: `.
fn logger(line: &str) -> Option<&str> {
    let (_, program) = line.split_once(' ')?;
    let (name, rest) = program.split_once("]: ")?;
    let (name, pid) = name.split_once('[')?;
    let is_logger = !name.contains(' ') && !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
    is_logger.then_some(rest)
}

fn kernel(line: &str) -> Option<&str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = match line.strip_prefix('<').and_then(|line| line.split_once('>')) {
        Some((level, rest)) if digits(level) => rest,
        Some(_) => return None,
        None => line,
    };
    let (inside, rest) = rest.strip_prefix('[')?.split_once(']')?;
    let seconds = inside.trim().split_once('.').is_some_and(|(whole, part)| digits(whole) && digits(part));
    // With the caller's thread or CPU: [   12.345678][  T123]
    let caller = inside.trim().strip_prefix(['T', 'C']).is_some_and(digits);
    (seconds || caller).then_some(rest)
}

/// The names of a job and its step, before a stamp.
fn tabbed(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once('\t')?;
    let (_, rest) = rest.split_once('\t')?;
    dated(rest.trim_start_matches('\u{feff}'))
}

fn lava(line: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct LogLine {
        #[serde(rename = "dt")]
        _dt: String,
        msg: String,
    }
    let entry = line.strip_prefix("- ").filter(|entry| entry.starts_with("{\"dt\""))?;
    serde_json::from_str::<LogLine>(entry).ok().map(|line| line.msg)
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn reads_through_what_logs_put_before_a_line() {
        let line = "T: 0 ( 3407) P:99 I:1000 C: 100000 Min:      7 Max:      18";
        for before in [
            "",
            "    ",
            "> ",
            ">> > ",
            ">\t",
            "2024-01-01T00:00:00.0000000Z ",
            "2024-01-01T00:00:00.0000000Z   ",
            "prove\tRun cyclictest\t2024-01-01T00:00:00.0000000Z ",
            "2024-05-22T12:43:46.962646Z 00O ",
            "2024-05-22T12:43:46.962646Z 00O+",
            "2024-05-22T12:43:46.962646Z stdout F ",
            "[2024-01-01T00:00:00.000Z] ",
            "[2024-01-01 00:00:00] ",
            "00:00:01.234  ",
            "[12:34:56] ",
            "2024-01-01 00:00:00,123 - INFO - ",
            "2024-01-01 00:00:00 +0200 ",
            "2024-01-01T00:00:00+02:00 host cyclictest[12]: ",
            "<8>[   12.345678] ",
            "[   12.345678] ",
            "[   12.345678][  T123] ",
            "Nov 25 08:49:29 ",
            "Nov  5 08:49:29 host cyclictest[123]: ",
            "> 2024-01-01T00:00:00Z [   12.345678] > ",
        ] {
            assert_eq!(bare(&format!("{before}{line}")), line, "{before:?}");
        }
        let lava = format!(r#"- {{"dt": "2024-01-01T00:00:00.1", "lvl": "target", "msg": "[ 1.5] {line}"}}"#);
        assert_eq!(bare(&lava), line);
    }

    #[test]
    fn leaves_a_line_of_a_tool_alone() {
        for line in [
            "0:   11022:      62",
            "12:34:56",
            "# Duration:   0 00:10:00",
            "[1] 12",
            "ts: 1795193316.287724395, inner:36042, outer:28051, cpu:1",
            "0        600000    588000",
            "<5 us",
            "Nov",
            "é2024-01-01T00:00:00Z x",
        ] {
            assert_eq!(bare(line), line);
        }
    }
}

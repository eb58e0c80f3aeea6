// SPDX-License-Identifier: MIT OR Apache-2.0

use machine::boot::quoting::{in_double_quotes, quoted};

use super::*;

fn read(text: &str) -> Variables {
    let mut variables = Variables::default();
    variables.read(text);
    variables
}

#[test]
fn reads_what_a_shell_would_assign() {
    let seen = read(concat!(
        "# comment A=1\nA=\"quiet splash\" # why\nB='single $A'\n  C=word\nexport D=\"$A ${C}\"\n",
        "A=\"$A more\"\nA+=\" end\"\nE=\"a \\\"b c\\\" \\$x\"\nF=\nG=\"two\\\n lines\"\n",
        "H=\"${A:+$A }\\$tuned_params\"\nI=\"${Q:+x }y\"\nJ=\"${Q:-none}\"\nK=\"${C-none}\"; L=1; M=a#b\n",
        "GRUB_A=1 GRUB_B=2\nN=$(a 'b )' \"c\")\nO=after\n"
    ));
    for (name, value) in [
        ("A", "quiet splash more end"),
        ("B", "single $A"),
        ("C", "word"),
        ("D", "quiet splash word"),
        ("E", "a \"b c\" $x"),
        ("F", ""),
        ("G", "two lines"),
        ("H", "quiet splash more end $tuned_params"),
        ("I", "y"),
        ("J", "none"),
        ("K", "word"),
        ("L", "1"),
        ("M", "a#b"),
        ("GRUB_A", "1"),
        ("GRUB_B", "2"),
        ("O", "after"),
    ] {
        assert_eq!(seen.get(name), Some(value), "{name}");
    }
    assert!(seen.has("F") && !seen.has("Z") && seen.get("Z") == Some(""));
}

#[test]
fn says_unknown_where_only_a_shell_could_tell() {
    let seen = read(concat!(
        "A=`lsb_release`\nB=$(x)\nC=\"$A y\"\nif true; then\nD=1\nfi\nif x; then DD=1; fi\n[ x ] && EE=1\n",
        "case x in\na) FF=1;;\nesac\nf() {\nGG=1\n}\nH=after\nHH=${H%x}\nE=\"open\nF=a; G=b\n"
    ));
    for name in ["A", "B", "C", "D", "DD", "EE", "FF", "GG", "HH", "E"] {
        assert_eq!(seen.get(name), None, "{name}");
    }
    assert_eq!(seen.get("H"), Some("after"));
}

#[test]
fn says_unknown_and_why_where_a_shell_reads_something_else() {
    for (text, why) in [
        ("A=\"quiet\" isolcpus=2,3\n", "isolcpus=2,3 stands outside of the quotes"),
        ("A=\"quiet\" splash\n", "splash stands outside of the quotes"),
        ("A= \"quiet\"\n", "\"quiet\" stands outside of the quotes"),
        ("A = \"quiet isolcpus=2,3\"\n", "a space stands before ="),
        ("A =\"quiet\"\n", "a space stands before ="),
        ("\u{feff}A=\"quiet\"\n", "a byte order mark stands before it"),
        ("A=\u{201c}quiet isolcpus=2,3\u{201d}\n", "its quotes are typographic"),
        ("A=\"quiet\nisolcpus=2,3\"\n", "its value goes over more than one line"),
        ("A=\"quiet isolcpus=2,3\nB=1\n", "a quote is not closed"),
        (". /etc/other\n", "`. /etc/other` may set it"),
        ("A=1\n. /etc/other\n", "`. /etc/other` may set it"),
        ("A=1\ncat <<E\nA=2\nE\n", "what follows may belong to a here-document"),
        ("A\0=\0x\0\n", "it is not a text of lines"),
        ("A=1\rB=2\r", "it is not a text of lines"),
        ("B=`x`\nA=\"$B\"\n", "only a shell could tell its value"),
    ] {
        let seen = read(text);
        assert_eq!(seen.get("A"), None, "{text}");
        let unclear = seen.unclear("A").unwrap();
        assert!(unclear.why.starts_with(why), "{text}: {unclear:?}");
        assert!(
            text.trim_start_matches('\u{feff}').contains(unclear.text.trim_start_matches('\u{feff}')),
            "{unclear:?}"
        );
    }
    assert_eq!(read("A=1\nexit 0\nA=2\n").get("A"), Some("1"));
    assert_eq!(read(". /x\nA=\"quiet\"\n").get("A"), Some("quiet"));
}

#[test]
fn carriage_returns_at_line_ends_do_no_harm() {
    let seen = read("A=\"quiet isolcpus=2,3\"\r\nB=0\r\nC=\"x\\\r\ny\"\r\n");
    assert_eq!(
        (seen.get("A"), seen.get("B"), seen.get("C")),
        (Some("quiet isolcpus=2,3"), Some("0"), Some("xy"))
    );
}

#[test]
fn knows_from_which_file_each_word_came() {
    let mut seen = Variables::default();
    seen.read("A=\"quiet splash\"\nLIST=2-3\n");
    seen.read("A=\"$A isolcpus=$LIST\"\n");
    seen.read("A+=\" nosmt\"\n");
    assert_eq!(seen.get("A"), Some("quiet splash isolcpus=2-3 nosmt"));
    let parts = |seen: &Variables| seen.parts("A").into_iter().collect::<Vec<_>>();
    let of = |file: usize, words: &str| (file, words.to_string());
    assert_eq!(parts(&seen), [of(0, "quiet splash"), of(1, "isolcpus=2-3"), of(2, "nosmt")]);
    seen.read("A=\"quiet\"\n");
    assert_eq!(parts(&seen), [of(3, "quiet")]);
    seen.read("A=`x`\n");
    assert_eq!((parts(&seen), seen.unclear("A").map(|unclear| unclear.file)), (Vec::new(), Some(4)));
}

#[test]
fn a_value_without_end_is_not_followed() {
    let mut text = "A=xy\n".to_string() + &"A=\"$A$A\"\n".repeat(60);
    text += &format!("B={}y{}\n", "${A:+".repeat(100_000), "}".repeat(100_000));
    text += &("if ".repeat(100_000) + "\nC=1\n");
    let seen = read(&text);
    assert_eq!((seen.get("A"), seen.get("B"), seen.get("C")), (None, None, None));
    assert_eq!(seen.unclear("A").unwrap().why, "it is longer than any boot line");
}

#[test]
fn typographic_quotes_within_plain_ones_are_letters() {
    assert_eq!(read("A=\"it\u{2019}s \u{201c}x\u{201d}\"\n").get("A"), Some("it\u{2019}s \u{201c}x\u{201d}"));
}

#[test]
fn quotes_so_that_it_reads_back() {
    for text in ["a b", "it's", "\"$x\" `y` \\"] {
        assert_eq!(read(&format!("A={}", quoted(text))).get("A"), Some(text));
        assert_eq!(read(&format!("A=\"{}\"", in_double_quotes(text))).get("A"), Some(text));
    }
}

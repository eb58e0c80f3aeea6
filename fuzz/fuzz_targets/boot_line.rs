// SPDX-License-Identifier: MIT OR Apache-2.0
//! Boot lines: words have no space outside quotes, and what was added can be taken away to the byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use machine::boot::line::{kernel_words, value, with_words, without_words, words};

fuzz_target!(|text: &str| {
    assert!(kernel_words(text).count() <= words(text).count());
    for word in words(text) {
        assert!(text.contains(word.raw) && !word.raw.is_empty());
        let _ = value(text, word.name);
    }
    // A word of ours never stands in a line already, and quotes that stay open take all that follows.
    let ours = ["isolcpus=managed_irq,domain,3", "skew_tick=1"];
    if text.matches('"').count() % 2 == 0 && !words(text).any(|word| ours.contains(&word.raw)) {
        let longer = with_words(text, &ours);
        assert_eq!(kernel_words(&longer).count(), kernel_words(text).count() + 2, "{longer:?}");
        assert_eq!(without_words(&longer, &ours), text, "{longer:?}");
    }
});

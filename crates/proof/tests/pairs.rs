// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two runs of one process differ by chance alone: a comparison says so, also where latencies come in bursts.

use proof::simulated::{families, pairs};

#[test]
fn sixteen_pairs_of_one_process_hardly_differ() {
    let mut wrong = Vec::new();
    for (seed, (name, family, _, _)) in (1..).zip(families()) {
        let changed = pairs::changed(family, 3.0, 16, seed);
        if changed.worse > 1 || changed.better > 1 {
            wrong.push(format!("{name}: {changed:?}"));
        }
        // A comparison that never says anything would be right as well.
        assert!(changed.intervals >= 16, "{name}: {changed:?}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

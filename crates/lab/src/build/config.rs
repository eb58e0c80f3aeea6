// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kernel's configuration: fragments laid over each other, and whether what was asked for is there.

use std::collections::BTreeMap;

/// Options in order: each with what it is set to; `n` where it is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildConfig(BTreeMap<String, String>);

impl BuildConfig {
    /// Reads the text of a configuration or fragment.
    pub fn parse(text: &str) -> BuildConfig {
        let option = |line: &str| -> Option<(String, String)> {
            let line = line.trim();
            let (name, value) = match line.strip_prefix("# CONFIG_") {
                Some(rest) => (rest.strip_suffix(" is not set")?, "n"),
                None => line.strip_prefix("CONFIG_")?.split_once('=')?,
            };
            Some((name.to_string(), value.to_string()))
        };
        BuildConfig(text.lines().filter_map(option).collect())
    }

    /// Lays another one over it.
    pub fn over(mut self, other: BuildConfig) -> BuildConfig {
        self.0.extend(other.0);
        self
    }

    /// Without the options whose names begin so.
    pub fn without(mut self, start: &str) -> BuildConfig {
        self.0.retain(|name, _| !name.starts_with(start));
        self
    }

    /// The value of an option: `n` where it is absent.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("n", String::as_str)
    }

    /// As the kernel's build reads it.
    pub fn text(&self) -> String {
        let line = |(name, value): (&String, &String)| match value.as_str() {
            "n" => format!("# CONFIG_{name} is not set\n"),
            _ => format!("CONFIG_{name}={value}\n"),
        };
        self.0.iter().map(line).collect()
    }

    /// Options that differ in `got`: `CONFIG_X (y asked, n got)`. An empty text is there too where its option
    /// is not.
    pub fn missing_in(&self, got: &BuildConfig) -> Vec<String> {
        let same = |asked: &str, got: &str| asked == got || (asked, got) == ("\"\"", "n");
        let differs = self.0.iter().filter(|(name, value)| !same(value, got.get(name)));
        differs.map(|(name, value)| format!("CONFIG_{name} ({value} asked, {} got)", got.get(name))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_lie_over_each_other_and_what_is_otherwise_is_named() {
        let below = BuildConfig::parse("CONFIG_SMP=y\n# CONFIG_RT is not set\nCONFIG_HZ=250\n# a word\n");
        let config = below.over(BuildConfig::parse("CONFIG_RT=y\nCONFIG_NAME=\"a b\"\nCONFIG_KCORE=n\n"));
        assert_eq!(
            config.text(),
            "CONFIG_HZ=250\n# CONFIG_KCORE is not set\nCONFIG_NAME=\"a b\"\nCONFIG_RT=y\nCONFIG_SMP=y\n"
        );
        let got = BuildConfig::parse("CONFIG_SMP=y\nCONFIG_RT=m\nCONFIG_NAME=\"a b\"\nCONFIG_MORE=y\n");
        assert_eq!(config.missing_in(&got), ["CONFIG_HZ (250 asked, n got)", "CONFIG_RT (y asked, m got)"]);
        // No keys are asked for, and there is no option for any.
        assert_eq!(BuildConfig::parse("CONFIG_KEYS=\"\"\n").missing_in(&got), Vec::<String>::new());
    }
}

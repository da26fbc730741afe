//! `[timeouts_ms]` of `devloop.toml`: how long tools may take.
//!
//! Answers for which time counts for a tool. Leaves out what becomes of a call that takes longer.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::Spanned;

use super::execution::between;
use super::permissions::Wrong;

/// A day, as for a tool of a host.
const LONGEST_MS: u32 = 24 * 60 * 60 * 1_000;

/// The times of tools for which the settings say another than they say themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeouts(BTreeMap<String, Duration>);

impl Timeouts {
    /// How long a tool may take, where itself it says `own`. A name counts more than a beginning with `*`, and a longer
    /// beginning more than a shorter one.
    pub fn of(&self, tool: &str, own: Duration) -> Duration {
        let named = self.0.get(tool);
        let begun = || {
            let meant = self.0.iter().filter(|(name, _)| {
                name.strip_suffix('*')
                    .is_some_and(|beginning| tool.starts_with(beginning))
            });
            meant.max_by_key(|(name, _)| name.len()).map(|(_, time)| time)
        };
        named.or_else(begun).copied().unwrap_or(own)
    }

    /// The names and beginnings, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Takes what a file says over what an earlier one said of the same name.
    pub(super) fn join(&mut self, section: Section) -> Result<(), Wrong> {
        for (name, said) in section {
            let letters = name.strip_suffix('*').unwrap_or(&name);
            let is_name = letters
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            if !is_name || name.is_empty() {
                return Err(Wrong {
                    at: said.span().start,
                    message: format!(
                        "timeouts_ms has {name:?}, which names no tool; expected letters, digits, `_` and `-`, with `*` at the \
                         end for every tool that begins so"
                    ),
                });
            }
            let ms = between(&format!("timeouts_ms.{name}"), &said, 1, LONGEST_MS)?;
            self.0.insert(name, Duration::from_millis(ms.into()));
        }
        Ok(())
    }
}

/// The section as written.
pub(super) type Section = BTreeMap<String, Spanned<i64>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_name_counts() {
        let timeouts: BTreeMap<_, _> = [("*", 1), ("docs__*", 2), ("docs__long_*", 3), ("docs__long_one", 4)]
            .map(|(name, ms)| (name.to_owned(), Duration::from_millis(ms)))
            .into();
        let timeouts = Timeouts(timeouts);
        let time = |tool: &str| timeouts.of(tool, Duration::from_millis(9)).as_millis();
        assert_eq!(
            ["docs__long_one", "docs__long_two", "docs__x", "docs"].map(time),
            [4, 3, 2, 1]
        );
        let none = Timeouts::default();
        assert_eq!(none.of("docs", Duration::from_millis(9)).as_millis(), 9);
    }
}

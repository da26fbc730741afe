//! `[timeouts_ms]` of `devloop.toml`: how long tools may take.
//!
//! Answers for which time counts for a tool. Leaves out what becomes of a call that takes longer.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reading::{Number, Table, quoted};

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
    pub(super) fn read(&mut self, table: &mut Table<'_, '_>) {
        for (name, number) in table.numbers(1, LONGEST_MS) {
            let letters = name.strip_suffix('*').unwrap_or(&name);
            let is_name = letters
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            let at = match &number {
                Number::Unsaid => continue,
                Number::Wrong(at) => *at,
                Number::Said(said) => said.at,
            };
            if !is_name || name.is_empty() {
                let message = format!(
                    "timeouts_ms has {}, which names no tool; expected letters, digits, `_` and `-`, with `*` at the end for \
                     every tool that begins so",
                    quoted(&name)
                );
                table.wrongs.push(at, message);
            } else if let Some(ms) = number.value() {
                self.0.insert(name, Duration::from_millis(ms.into()));
            }
        }
    }
}

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

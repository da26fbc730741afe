//! A tool as data: everything that a spec says about one face of a handler.
//!
//! Answers for the record that registries, projections and the sandbox read; generated code fills it with constants.
//! Leaves out how a field is used: admission lives in the core, faces in the runtime.

use std::time::Duration;

/// The group of the tools that belong to the registry itself: every agent has them, and none is granted them.
pub const CATALOG: &str = "catalog";

/// One callable tool: a face of a handler.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the spec")]
pub struct Tool {
    /// The name that agents call, snake_case, unique over all names and aliases.
    pub name: &'static str,
    /// Other names of the same tool.
    pub aliases: &'static [&'static str],
    /// The human name.
    pub title: &'static str,
    /// The folder of the spec: `persistence`, `docs`, …
    pub group: &'static str,
    /// The handler that carries out a call.
    pub handler: &'static str,
    /// The spec file, relative to the root of the repository.
    pub spec: &'static str,
    /// The first sentence of the description.
    pub summary: &'static str,
    /// What follows the summary in the description; empty when there is nothing to add.
    pub details: &'static str,
    /// What a caller should know, in the order of the description.
    pub notes: &'static [&'static str],
    /// What a caller should beware of, in the order of the description.
    pub cautions: &'static [&'static str],
    /// The model-facing text: summary, details, rules, notes, cautions. At most 2,048 characters.
    pub description: &'static str,
    /// The permission class.
    pub kind: Kind,
    /// A repeated call changes nothing more.
    pub idempotent: bool,
    /// May remove or replace what cannot be had back.
    pub destructive: bool,
    /// Reaches beyond the project and this machine.
    pub open_world: bool,
    /// May run beside other calls of one session.
    pub parallelism: Parallelism,
    /// May run beside itself on the same path.
    pub concurrency_safe: bool,
    /// May be replayed automatically after a transient failure.
    pub retry_safe: bool,
    /// Ask providers for strict arguments.
    pub strict: bool,
    /// Shown at once, or after a search.
    pub exposure: Exposure,
    /// Catalogue data.
    pub category: &'static str,
    /// Catalogue data.
    pub tags: &'static [&'static str],
    /// The tool's own semantic version.
    pub version: &'static str,
    /// How a remembered permission names a call.
    pub permission: Permission,
    /// JSON Pointers of the input fields that name files the call acts on; `*` stands for every array index and
    /// every key of a map.
    pub affected_paths: &'static [&'static str],
    /// The longest that a call may take.
    pub timeout: Duration,
    /// JSON Schema of the input, as text, closed, inside the portable subset.
    pub input_schema: &'static str,
    /// JSON Schema of a success, as text, open, with `ok`.
    pub output_schema: &'static str,
    /// Input that the face fixes, a JSON object as text: merged after validation, never sent by the caller.
    pub bind: &'static str,
    /// What the schema cannot say.
    pub rules: &'static [Rule],
    /// JSON Pointers of the input fields that hold project-relative paths, bound ones included; `*` stands for every
    /// array index and every key of a map.
    pub path_fields: &'static [&'static str],
    /// What a call touches.
    pub effects: Effects,
    /// The expected failures of its own.
    pub failures: &'static [FailureSpec],
    /// The shared failures it can have, codes of [`CommonFailure`](crate::CommonFailure).
    pub common_failures: &'static [&'static str],
    /// At least one; checked against the schemas when the spec was built.
    pub examples: &'static [Example],
}

impl Tool {
    /// Whether every agent has the tool without a grant.
    pub fn is_of_catalog(&self) -> bool {
        self.group == CATALOG
    }

    /// Whether a client may treat the tool as free of side effects: `read_only` as a permission class is not enough,
    /// a tool that declares a write has one.
    pub const fn read_only_hint(&self) -> bool {
        matches!(self.kind, Kind::ReadOnly) && self.effects.writes.is_empty()
    }
}

/// A *permission* class. It says nothing about durable state: a `ReadOnly` tool may be used in Plan mode and still
/// keep a list on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Usable in Plan mode.
    ReadOnly,
    /// Changes the project.
    Write,
    /// Starts programs.
    Execute,
}

impl Kind {
    /// The word that specs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::Write => "write",
            Self::Execute => "execute",
        }
    }
}

/// Whether calls of one session may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parallelism {
    /// Runs beside other shared calls.
    Shared,
    /// Runs alone, in order.
    Exclusive,
}

impl Parallelism {
    /// The word that specs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
        }
    }
}

/// When a tool's schema is shown to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exposure {
    /// From the start.
    Always,
    /// After a tool search loaded it.
    Deferred,
}

impl Exposure {
    /// The word that specs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Deferred => "deferred",
        }
    }
}

/// How permissions name a call, as templates over input fields.
#[derive(Clone, Copy, Debug)]
pub struct Permission {
    /// What is asked for: `Tool` or `Tool(content)`.
    pub signature: &'static str,
    /// What may be remembered; empty forbids remembering.
    pub rule: &'static str,
}

/// A constraint between fields of an input. Appended to the description, checked before the handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Exactly one of the fields is given.
    ExactlyOneOf(&'static [&'static str]),
    /// At most one of the fields is given.
    AtMostOneOf(&'static [&'static str]),
    /// `field` is required when `when` has one of the values (JSON texts).
    RequiredIf {
        /// The field that becomes required.
        field: &'static str,
        /// The field that decides.
        when: &'static str,
        /// Its deciding values, each as JSON text.
        is: &'static [&'static str],
    },
}

/// What a call touches. The sandbox enforces it.
#[derive(Clone, Copy, Debug)]
pub struct Effects {
    /// Path patterns that may be read.
    pub reads: &'static [&'static str],
    /// Path patterns that may be written.
    pub writes: &'static [WriteEffect],
    /// Events that may be emitted.
    pub events: &'static [&'static str],
    /// State of the machine outside the project.
    pub host: &'static [&'static str],
}

/// One pattern that a tool may write.
#[derive(Clone, Copy, Debug)]
pub struct WriteEffect {
    /// The path pattern.
    pub path: &'static str,
    /// Short names of the agents for which it holds; empty means all that are granted the tool.
    pub only: &'static [&'static str],
    /// When it happens, for people.
    pub when: &'static str,
}

/// One expected failure, as documented.
#[derive(Clone, Copy, Debug)]
pub struct FailureSpec {
    /// The code.
    pub code: &'static str,
    /// What it means.
    pub summary: &'static str,
    /// What to do about it; empty when there is nothing to say.
    pub hint: &'static str,
}

/// One example call.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// What it shows.
    pub title: &'static str,
    /// The input, as JSON text.
    pub input: &'static str,
    /// The answer, as JSON text; empty when the spec gives none.
    pub output: &'static str,
}

/// Whether a text is a version as [semver.org](https://semver.org) has them, with what may follow the three numbers.
pub fn is_semver(version: &str) -> bool {
    let (rest, build) = version
        .split_once('+')
        .map_or((version, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest
        .split_once('-')
        .map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let is_number = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
    };
    let is_word = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && pre.is_none_or(|pre| {
            pre.split('.')
                .all(|part| is_word(part) && (part.chars().any(|c| !c.is_ascii_digit()) || is_number(part)))
        })
        && build.is_none_or(|build| build.split('.').all(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_semver() {
        for version in ["1.0.0", "1.0.0-rc.1+b.7", "0.10.0", "1.0.0--", "1.0.0+01", "1.0.0-0a"] {
            assert!(is_semver(version), "{version}");
        }
        for other in [
            "1.0",
            "01.0.0",
            "1.0.0-",
            "1.0.0-01",
            "1.0.0+",
            "1.0.0+a b",
            "1.0.0-é",
            "1.0.0-a..b",
            "1.0.0+a+b",
            "",
        ] {
            assert!(!is_semver(other), "{other}");
        }
    }
}

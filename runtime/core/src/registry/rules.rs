//! Constraints between the fields of one input, which the schema subset can't express.
//!
//! Answers for reading and checking [`Rule`]s. Leaves out their text in a tool's description, which is generated.

use devloop_contract::tool::Rule;
use devloop_contract::value::same;
use serde_json::{Map, Value};

use super::place::Step;
use super::validate::{Report, list, show};

/// A rule that is ready to be checked.
#[derive(Debug)]
pub(super) enum Constraint {
    ExactlyOneOf(&'static [&'static str]),
    AtMostOneOf(&'static [&'static str]),
    RequiredIf {
        field: &'static str,
        when: &'static str,
        is: Vec<Value>,
    },
}

impl Constraint {
    /// Reads a rule; its deciding values are JSON texts.
    pub(super) fn compile(rule: &Rule) -> Result<Self, serde_json::Error> {
        Ok(match *rule {
            Rule::ExactlyOneOf(fields) => Self::ExactlyOneOf(fields),
            Rule::AtMostOneOf(fields) => Self::AtMostOneOf(fields),
            Rule::RequiredIf { field, when, is } => Self::RequiredIf {
                field,
                when,
                is: is
                    .iter()
                    .map(|text| serde_json::from_str(text))
                    .collect::<Result<_, _>>()?,
            },
        })
    }

    /// The fields of a choice. A default would make one count as given always.
    pub(super) fn choices(&self) -> &'static [&'static str] {
        match self {
            Self::ExactlyOneOf(fields) | Self::AtMostOneOf(fields) => fields,
            Self::RequiredIf { .. } => &[],
        }
    }

    /// Adds what is wrong with an input whose defaults are filled in. A field that is null counts as not given, one that
    /// the face binds as given.
    pub(super) fn check(&self, input: &Map<String, Value>, bind: &Map<String, Value>, report: &mut Report) {
        let get = |field: &str| input.get(field).or_else(|| bind.get(field));
        let given = |field: &str| get(field).is_some_and(|value| !value.is_null());
        match self {
            Self::ExactlyOneOf(fields) => match fields.iter().filter(|field| given(field)).count() {
                0 => report.add(&[], || {
                    format!(
                        "exactly one of {} must be given, got none",
                        list(fields.iter().copied())
                    )
                }),
                1 => {}
                _ => report.add(&[], || too_many("exactly", fields, &given)),
            },
            Self::AtMostOneOf(fields) => {
                if fields.iter().filter(|field| given(field)).count() > 1 {
                    report.add(&[], || too_many("at most", fields, &given));
                }
            }
            Self::RequiredIf { field, when, is } => {
                if let Some(value) = get(when)
                    && is.iter().any(|one| same(one, value))
                    && !given(field)
                {
                    report.add(&[Step::Key(field)], || {
                        format!("`{field}` is missing; it is required when `{when}` is {}", show(value))
                    });
                }
            }
        }
    }
}

fn too_many(how_many: &str, fields: &[&str], given: &dyn Fn(&str) -> bool) -> String {
    format!(
        "{how_many} one of {} may be given, got {}",
        list(fields.iter().copied()),
        list(fields.iter().copied().filter(|field| given(field)))
    )
}

//! Judging specs that could be read.
//!
//! Answers for running every family of checks, in order. Each family is one room; what they share stands in rooms below
//! them, so that none needs another one's inside: the forms of names (`forms`), values against schemas (`values`), paths among
//! values (`path_values`). Leaves out reading (`load`, `decode`).

mod catalog;
mod examples;
mod faces;
mod forms;
mod names;
mod path_values;
mod paths;
mod permission;
mod policy;
mod references;
mod schemas;
mod texts;
mod values;

use crate::report::Report;
use crate::specs::Specs;

pub(crate) use names::group_name;
pub(crate) use references::{HOST_EFFECTS, SITES};

/// Runs every check. What a file could not say was replaced by something harmless and marked as broken in `report`.
pub(crate) fn run(specs: &Specs, report: &mut Report) {
    names::check(specs, report);
    texts::check(specs, report);
    let schemas = schemas::check(specs, report);
    faces::check(specs, &schemas, report);
    references::check(specs, report);
    catalog::check(specs, report);
    paths::check(specs, report);
    permission::check(specs, report);
    policy::check(specs, report);
    path_values::check(specs, report);
    examples::check(specs, &schemas, report);
}

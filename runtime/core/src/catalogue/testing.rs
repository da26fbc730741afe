//! What the tests of the catalogue share.

use devloop_contract::tool::{Exposure, Kind};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::{Catalogue, Entry, Offered};
use crate::registry::{Definition, Text, ToolBuilder};

/// Runs so many cases, and many more in the long form.
pub(super) fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases: if is_long() { cases * 50 } else { cases },
        failure_persistence: None,
        max_shrink_iters: 10_000,
        ..Config::default()
    })
}

pub(super) fn is_long() -> bool {
    std::env::var_os("DEVLOOP_LONG").is_some()
}

pub(super) fn catalogue() -> Catalogue {
    Catalogue::new(|_| Ok(()))
}

/// A tool of the host.
pub(super) fn host(name: &str) -> ToolBuilder {
    ToolBuilder::new(name.to_owned()).summary("Does what a test needs.")
}

pub(super) fn deferred(name: &str, kind: Kind) -> Definition {
    host(name).kind(kind).exposure(Exposure::Deferred).build().unwrap()
}

/// The search that makes deferral work.
pub(super) fn tool_search() -> Definition {
    host(super::TOOL_SEARCH).kind(Kind::ReadOnly).build().unwrap()
}

/// A tool of a server that takes nothing.
pub(super) fn offered(name: &str) -> Offered {
    Offered {
        name: name.to_owned(),
        title: None,
        description: Some(format!("Does {name}. And more.")),
        input_schema: json!({"type": "object", "properties": {}}),
        output_schema: None,
        annotations: None,
        meta: None,
    }
}

pub(super) fn with_schema(name: &str, schema: Value) -> Offered {
    Offered {
        input_schema: schema,
        ..offered(name)
    }
}

pub(super) fn names<'e, R: 'e>(entries: impl IntoIterator<Item = &'e std::sync::Arc<Entry<R>>>) -> Vec<&'e str> {
    entries.into_iter().map(|entry| entry.name()).collect()
}

pub(super) fn texts(names: &[Text]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

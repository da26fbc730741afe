//! What crosses crates, in one binary.

mod agents;
mod contract_layer;
mod grants;
mod providers;
mod tidy;
mod typed;

use std::path::PathBuf;

/// The agents of the source system. Who adds an agent or a tool breaks no test: only what the source names is judged.
const SOURCE_AGENTS: [&str; 6] = ["pm", "architect", "coder", "tester", "integrator", "bug-triager"];

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

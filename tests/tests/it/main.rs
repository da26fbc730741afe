//! What crosses crates, in one binary.

mod agents;
mod grants;
mod tidy;
mod typed;

use std::path::PathBuf;

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

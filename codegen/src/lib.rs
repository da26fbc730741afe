//! devloop's code generator: a pure function from YAML specs to Rust, JSON Schemas and tables.
//!
//! [`load()`] reads a `specs/` folder and reports every error in it at once; [`generate`] turns what it loaded into a
//! [`FileMap`]. The build script of `devloop-generated`, the program `cargo codegen` and the tests are three callers of
//! these two functions.
//!
//! Leaves out: the environment, printing, and writing of any file. The same input gives the same bytes.

pub mod diagnostic;
pub mod model;
pub mod resolve;
pub mod yaml;

mod check;
mod decode;
mod editor;
mod emit;
mod load;
mod losses;
mod pointer;
mod report;
mod specs;
mod suggest;

use std::collections::BTreeMap;

pub use diagnostic::{Diagnostic, SpecErrors};
pub use editor::editor_schemas;
pub use emit::{MANIFEST, SNAPSHOT, generate, skeleton};
pub use load::load;
pub use losses::losses;
pub use specs::{AgentFile, SpecFile, Specs, ToolFile};

/// Generated files: path relative to the root of the repository, with `/` as separator, to contents with `\n` line ends.
pub type FileMap = BTreeMap<String, String>;

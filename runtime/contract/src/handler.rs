//! The two traits between a spec and its implementation.
//!
//! Answers for the binding: a marker type that stands for one handler spec, and the trait that its implementation
//! must provide. Leaves out dispatch (generated) and everything a handler needs while it runs (the runtime's context).

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::{ExpectedFailure, Outcome};

/// One handler spec as a type: its name, where it was declared, and the types of its data.
///
/// Implemented by generated marker types only.
pub trait Handler: Send + Sync + 'static {
    /// The handler's name, equal to the stem of its spec file.
    const NAME: &'static str;
    /// The spec file, relative to the root of the repository, with `/` as separator.
    const SPEC: &'static str;
    /// What a call brings, after it was normalised and validated.
    type Input: DeserializeOwned + Serialize + Send + 'static;
    /// What a successful call answers; `ok: true` is added by the call path.
    type Output: Serialize + Send + 'static;
    /// The expected failures that the spec lists.
    type Failure: ExpectedFailure;
}

/// Implements one handler. The runtime implements it once per handler spec, for its `Context`.
#[diagnostic::on_unimplemented(
    message = "the handler `{H}` has a spec but no implementation",
    label = "`{H}` is not implemented for `{Self}`",
    note = "create `runtime/src/handlers/<group>/<handler>.rs` with `impl Handle<{H}> for Context`; `cargo codegen write` lists the module and prints the frame to fill in; `specs/README.md` has an example"
)]
pub trait Handle<H: Handler> {
    /// Carries out one call.
    ///
    /// # Errors
    /// A [`Refusal`](crate::Refusal): an expected failure that the agent can act on, refused input or path, or an
    /// internal error.
    fn handle(&self, input: H::Input) -> impl Future<Output = Outcome<H::Output, H::Failure>> + Send;
}

//! `read_artifact`: a part of an artifact of this session.

use devloop_contract::{Handle, Outcome};
use devloop_generated::tools::catalog::read_artifact::{Failure, Input, Output, ReadArtifact};

use crate::context::Context;

impl Handle<ReadArtifact> for Context {
    async fn handle(&self, _input: Input) -> Outcome<Output, Failure> {
        Err(Failure::UnknownArtifact.into())
    }
}

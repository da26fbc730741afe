//! `read_artifact`: a part of an artifact of this session.
//!
//! Answers for saying which part and why there is none. Leaves out the files and where a part ends (the core's `artifacts`).

use devloop_contract::failure::Because;
use devloop_contract::{Handle, InternalError, Outcome};
use devloop_core::artifacts::ArtifactError;
use devloop_core::artifacts::page::{From, NoPage, Room, page};
use devloop_generated::tools::catalog::read_artifact::{Failure, Input, OutOfRangeDetails, Output, ReadArtifact};

use crate::context::Context;

/// As many characters as the text of a part may be in the answer, in eighths of what a result may have. The other fields
/// have room beside it.
const WRITTEN: usize = 7;

impl Handle<ReadArtifact> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        self.blocking(move |context| read(context, &input)).await
    }
}

fn read(context: &Context, input: &Input) -> Outcome<Output, Failure> {
    let Some(store) = context.session().artifacts() else {
        return Err(Failure::UnknownArtifact.because("this machine has no place for artifacts, so there are none"));
    };
    let bytes = match store.read(&input.id) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err(Failure::UnknownArtifact.into()),
        Err(error @ ArtifactError::Drifted { .. }) => return Err(Failure::Damaged.because(error.to_string())),
        Err(error) => return Err(InternalError::new("the artifact cannot be read", error).into()),
    };
    let from = match input.line {
        Some(line) => From::Line(line),
        None => From::Offset(input.offset.unwrap_or_default()),
    };
    let room = Room {
        bytes: input.bytes,
        lines: input.lines,
        written: (context.session().project().config().result_chars / 8 * WRITTEN) as u64,
    };
    let size = bytes.len() as u64;
    let part = page(&bytes, from, room).map_err(|error| match error {
        NoPage::NotText => Failure::NotText,
        NoPage::OutOfRange { lines } => Failure::OutOfRange(OutOfRangeDetails {
            size: Some(size),
            lines,
        }),
    })?;
    Ok(Output {
        id: input.id.clone(),
        size,
        offset: part.offset,
        text: part.text,
        next_offset: part.next_offset,
        next_line: part.next_line,
    })
}

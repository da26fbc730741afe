//! What providers will not be told of a tool's input and description.
//!
//! Answers for running the projections of the runtime over the schemas of specs and giving each loss a place. Leaves out
//! the projections themselves ([`devloop_contract::projection`]), and errors: a loss stops nothing, as admission checks
//! the whole schema whatever a provider knows of it.

use std::collections::BTreeMap;

use devloop_contract::projection::{Loss, OPENAI_DESCRIPTION, description, gemini, openai_strict};
use serde_json::Value;

use crate::diagnostic::Diagnostic;
use crate::resolve::{Face, faces};
use crate::specs::Specs;

/// Every loss of every tool, in order of place. What is lost alike in several places of one tool is told once, at the
/// first of them.
pub fn losses(specs: &Specs) -> Vec<Diagnostic> {
    let mut told: Vec<Diagnostic> = faces(specs).iter().flat_map(of_face).collect();
    told.sort();
    // Tools of one handler share what they have in common.
    told.dedup();
    told
}

fn of_face(face: &Face<'_>) -> Vec<Diagnostic> {
    let schema = Value::Object(face.input.clone());
    let mut all: Vec<(&str, Loss)> = Vec::new();
    match openai_strict(&schema) {
        Ok(projected) => all.extend(
            projected
                .losses
                .into_iter()
                .map(|loss| ("a strict function of OpenAI", loss)),
        ),
        Err(mut loss) => {
            loss.what.push_str("; it is declared without strict mode");
            all.push(("a strict function of OpenAI", loss));
        }
    }
    if let (_, Some(mut loss)) = description(&face.description, OPENAI_DESCRIPTION) {
        loss.what.insert_str(0, "the description: ");
        all.push(("a function of OpenAI", loss));
    }
    let losses = gemini(&schema).losses;
    all.extend(losses.into_iter().map(|loss| ("a function of Gemini", loss)));
    let mut places: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for (reader, loss) in all {
        places.entry((reader, loss.what)).or_default().push(loss.pointer);
    }
    let file = &face.tool.file;
    places
        .into_iter()
        .map(|((reader, what), pointers)| {
            let place = match pointers[0].as_str() {
                // It is made of all texts; they begin with this one.
                "description" => file.tree.key_place("/summary"),
                pointer => file.tree.key_place(&format!("/input{pointer}")),
            };
            let more = match pointers.len() - 1 {
                0 => String::new(),
                1 => " (and in 1 more place)".to_owned(),
                more => format!(" (and in {more} more places)"),
            };
            Diagnostic {
                path: file.path.clone(),
                line: place.line,
                column: place.column,
                message: format!("as {reader}, `{}`: {what}{more}", face.name),
                help: None,
            }
        })
        .collect()
}

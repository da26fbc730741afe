//! `snapshot/events.rs` and `snapshot/types.rs`: the events with their typed payloads, and the shared types.
//!
//! Answers for both files. Leaves out who emits an event.

use quote::quote;

use super::Layout;
use super::rust::{RustFile, arms, docs, ident, prose};
use super::shapes::{Shapes, Side};
use crate::FileMap;
use crate::diagnostic::Diagnostic;
use crate::resolve::pascal_case;

/// Adds both files.
pub(super) fn emit(layout: &Layout<'_>, files: &mut FileMap, errors: &mut Vec<Diagnostic>) {
    match events(layout) {
        Ok(text) => drop(files.insert("generated/snapshot/events.rs".into(), text)),
        Err(found) => errors.extend(found),
    }
    match types(layout) {
        Ok(text) => drop(files.insert("generated/snapshot/types.rs".into(), text)),
        Err(found) => errors.extend(found),
    }
}

fn events(layout: &Layout<'_>) -> Result<String, Vec<Diagnostic>> {
    let source = layout.events;
    let events: Vec<_> = source
        .spec
        .events
        .iter()
        .map(|(name, event)| (name, pascal_case(name), event))
        .collect();
    let mut file = RustFile::new(&source.path);
    let variants = events.iter().map(|(_, variant, event)| {
        let (variant, docs) = (ident(variant), docs(&prose(&event.summary)));
        quote!(#docs #variant(#variant))
    });
    let names = arms(events.iter().map(|(name, variant, _)| {
        let variant = ident(variant);
        (quote!(Self::#variant(_)), quote!(#name))
    }));
    let payloads = events.iter().map(|(_, variant, _)| {
        let variant = ident(variant);
        quote!(Self::#variant(payload) => serde_json::to_value(payload),)
    });
    let parsed = events.iter().map(|(name, variant, _)| {
        let variant = ident(variant);
        quote!(#name => serde::Deserialize::deserialize(payload).map(Self::#variant),)
    });
    let all = events.iter().map(|(name, ..)| name);
    file.push(quote! {
        /// What a tool tells the rest of the system. The agent, the call, the unit and the time are added to the
        /// payload when it is emitted.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event { #(#variants),* }

        impl Event {
            /// The name of every event, as in the spec.
            pub const NAMES: &'static [&'static str] = &[#(#all),*];

            /// The event's name.
            pub const fn name(&self) -> &'static str { match self { #names } }

            /// What it carries of its own: an object.
            pub fn payload(&self) -> serde_json::Value {
                let payload = match self { #(#payloads)* };
                payload.expect("a payload is plain data with text keys")
            }

            /// The event with a name and a payload. What is in the payload beside the event's own fields is left
            /// out; a name that is not known here gives nothing.
            ///
            /// # Errors
            /// A payload that is not one of this event.
            pub fn parse(name: &str, payload: &serde_json::Value) -> Result<Option<Self>, serde_json::Error> {
                let event = match name {
                    #(#parsed)*
                    _ => return Ok(None),
                };
                event.map(Some)
            }
        }
    });
    let mut shapes = Shapes::new(&source.path, &source.tree, layout.types, &[]);
    for (name, variant, event) in &events {
        let about = format!("The payload of `{name}`: {}", prose(&event.summary));
        shapes.add(
            variant,
            &event.payload,
            Side::Output,
            &about,
            &format!("/events/{name}/payload"),
        );
    }
    for item in shapes.finish()? {
        file.push(item);
    }
    for (_, variant, _) in &events {
        let variant = ident(variant);
        file.push(quote! {
            impl From<#variant> for Event {
                fn from(payload: #variant) -> Self { Self::#variant(payload) }
            }
        });
    }
    Ok(file.finish())
}

fn types(layout: &Layout<'_>) -> Result<String, Vec<Diagnostic>> {
    let source = layout.types_file;
    let mut file = RustFile::new(&source.path);
    let mut shapes = Shapes::new(&source.path, &source.tree, layout.types, &[]);
    shapes.add_shared();
    for item in shapes.finish()? {
        file.push(item);
    }
    Ok(file.finish())
}

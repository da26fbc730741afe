//! `snapshot/tables.rs`, `markers.rs` and `dispatch.rs`: what spans handlers.
//!
//! Answers for the ids of tools and handlers, look-up by name, grants, totals, the typed input of any handler and the
//! dispatch to its implementation. Leaves out the data of a single tool.

use std::cmp::Ordering;

use proc_macro2::Literal;
use quote::quote;

use super::Layout;
use super::rust::{MAX_WIDTH, RustFile, arms, docs, ident, upper_ident};
use crate::FileMap;
use crate::resolve::pascal_case;

/// Adds the three files.
pub(super) fn emit(layout: &Layout<'_>, files: &mut FileMap) {
    files.insert("generated/snapshot/tables.rs".into(), tables(layout));
    files.insert("generated/snapshot/markers.rs".into(), markers(layout));
    files.insert("generated/snapshot/dispatch.rs".into(), dispatch(layout));
}

fn tables(layout: &Layout<'_>) -> String {
    let mut file = RustFile::new("specs/");
    let tools: Vec<_> = layout
        .faces
        .iter()
        .map(|face| (ident(&pascal_case(face.name)), face))
        .collect();
    let variants = tools.iter().map(|(variant, face)| {
        let docs = docs(&format!("`{}`", face.name));
        quote!(#docs #variant)
    });
    let all = tools.iter().map(|(variant, _)| variant);
    let names = arms(tools.iter().map(|(variant, face)| {
        let name = face.name;
        (quote!(Self::#variant), quote!(#name))
    }));
    let statics = arms(tools.iter().map(|(variant, face)| {
        let module = super::module(face.tool);
        let constant = upper_ident(face.name);
        (quote!(Self::#variant), quote!(&#module::#constant))
    }));
    let found = tools.iter().map(|(variant, face)| {
        let names = std::iter::once(face.name).chain(face.aliases.iter().map(String::as_str));
        quote!(#(#names)|* => Some(Self::#variant),)
    });
    file.push(quote! {
        /// A tool: one face of a handler.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ToolId { #(#variants),* }

        impl ToolId {
            /// Every tool, sorted by name.
            pub const ALL: &'static [Self] = &[#(Self::#all),*];

            /// The name that agents call.
            pub const fn name(self) -> &'static str { match self { #names } }

            /// What the spec says about it.
            pub const fn tool(self) -> &'static devloop_contract::Tool { match self { #statics } }

            /// The tool of a name or an alias.
            pub fn find(name: &str) -> Option<Self> { match name { #(#found)* _ => None } }
        }

        /// The tool of a name or an alias.
        pub fn tool(name: &str) -> Option<&'static devloop_contract::Tool> { ToolId::find(name).map(ToolId::tool) }
    });

    let handlers: Vec<_> = layout
        .handlers()
        .map(|tool| (ident(&pascal_case(&tool.file.spec.handler)), &tool.file))
        .collect();
    let variants = handlers.iter().map(|(variant, file)| {
        let docs = docs(&format!("`{}`", file.spec.handler));
        quote!(#docs #variant)
    });
    let all = handlers.iter().map(|(variant, _)| variant);
    let names = arms(handlers.iter().map(|(variant, file)| {
        let name = &file.spec.handler;
        (quote!(Self::#variant), quote!(#name))
    }));
    let specs = arms(handlers.iter().map(|(variant, file)| {
        let path = &file.path;
        (quote!(Self::#variant), quote!(#path))
    }));
    file.push(quote! {
        /// A handler: one spec, one implementation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum HandlerId { #(#variants),* }

        impl HandlerId {
            /// Every handler, by group and name.
            pub const ALL: &'static [Self] = &[#(Self::#all),*];

            /// The handler's name.
            pub const fn name(self) -> &'static str { match self { #names } }

            /// The spec file, relative to the root of the repository.
            pub const fn spec(self) -> &'static str { match self { #specs } }
        }
    });

    let grants = layout.grants().map(|(agent, face)| {
        let (agent, tool) = (
            ident(&pascal_case(&agent.file.spec.name)),
            ident(&pascal_case(face.name)),
        );
        quote!(Grant { agent: crate::AgentId::#agent, tool: ToolId::#tool })
    });
    let totals = layout.totals();
    let [handlers, tools, names, grant_count, catalog] = [
        totals.handlers,
        totals.tools,
        totals.names,
        totals.grants,
        totals.catalog,
    ]
    .map(Literal::usize_unsuffixed);
    file.push(quote! {
        /// That an agent may call a tool.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Grant {
            /// Who.
            pub agent: crate::AgentId,
            /// What.
            pub tool: ToolId,
        }

        /// Every grant, in the order of the loop and of each agent's list.
        pub static GRANTS: &[Grant] = &[#(#grants),*];

        /// How much there is of everything. The group `catalog`, which every agent has, is counted apart.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Counts {
            /// Handlers: specs, and implementations.
            pub handlers: usize,
            /// Tools: faces of handlers.
            pub tools: usize,
            /// Names that can be called: tools and their aliases.
            pub names: usize,
            /// Grants of a tool to an agent.
            pub grants: usize,
            /// Tools that every agent has without a grant.
            pub catalog: usize,
        }

        impl std::fmt::Display for Counts {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "handlers={} tools={} ", self.handlers, self.tools)?;
                write!(f, "names={} grants={} ", self.names, self.grants)?;
                write!(f, "catalog={}", self.catalog)
            }
        }

        /// How much the specs declare.
        pub const fn counts() -> Counts {
            Counts { handlers: #handlers, tools: #tools, names: #names, grants: #grant_count, catalog: #catalog }
        }
    });
    file.finish()
}

fn markers(layout: &Layout<'_>) -> String {
    let mut file = RustFile::new("specs/tools/");
    let mut tools: Vec<_> = layout.handlers().collect();
    tools.sort_by(|a, b| natural(&a.group, &b.group).then_with(|| natural(&a.file.stem, &b.file.stem)));
    let uses = tools.into_iter().map(|tool| {
        let (module, marker) = (super::module(tool), ident(&pascal_case(&tool.file.spec.handler)));
        quote!(pub use #module::#marker;)
    });
    let uses = quote!(#(#uses)*);
    file.push_close(uses);
    file.finish()
}

/// The order that rustfmt gives to `use` lines: runs of digits by their number, all else by its characters.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    while let (Some(first), Some(second)) = (left.chars().next(), right.chars().next()) {
        let order = if first.is_ascii_digit() && second.is_ascii_digit() {
            let (number, rest) = number(left);
            let (against, against_rest) = self::number(right);
            (left, right) = (rest, against_rest);
            number.len().cmp(&against.len()).then_with(|| number.cmp(against))
        } else {
            (left, right) = (&left[first.len_utf8()..], &right[second.len_utf8()..]);
            first.cmp(&second)
        };
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

/// The digits at the beginning, without leading zeros, and the rest.
fn number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].trim_start_matches('0'), &text[end..])
}

fn dispatch(layout: &Layout<'_>) -> String {
    let mut file = RustFile::new("specs/tools/");
    let handlers: Vec<_> = layout
        .handlers()
        .map(|tool| {
            (
                ident(&pascal_case(&tool.file.spec.handler)),
                super::module(tool),
                &tool.file.spec.handler,
            )
        })
        .collect();
    let variants = handlers.iter().map(|(marker, module, handler)| {
        let docs = docs(&format!("For `{handler}`."));
        quote!(#docs #marker(#module::Input))
    });
    let parses = handlers
        .iter()
        .map(|(marker, _, handler)| quote!(#handler => serde::Deserialize::deserialize(input).map(Self::#marker),));
    let ids = handlers
        .iter()
        .map(|(marker, ..)| quote!(Self::#marker(_) => crate::HandlerId::#marker,));
    let values = handlers
        .iter()
        .map(|(marker, ..)| quote!(Self::#marker(input) => serde_json::to_value(input),));
    let calls = handlers
        .iter()
        .map(|(marker, ..)| quote!(AnyInput::#marker(input) => call::<crate::#marker, C>(ctx, input),));
    file.push_close(quote!(
        use std::pin::Pin;
    ));
    file.push_close(quote! {
        use devloop_contract::failure::{ErasedRefusal, erase};
        use devloop_contract::{Handle, Handler, Tool};
        use serde_json::{Error, Value};
    });
    file.push(quote! {
        /// The typed input of some handler.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyInput { #(#variants),* }

        impl AnyInput {
            /// Types an input that was normalised and validated, with defaults and the face's bound fields filled in.
            ///
            /// # Errors
            /// The input does not fit the type, or no handler has the tool's `handler` name.
            pub fn parse(tool: &Tool, input: &Value) -> Result<Self, Error> {
                match tool.handler {
                    #(#parses)*
                    _ => Err(serde::de::Error::custom("no such handler")),
                }
            }

            /// Whose input it is.
            pub const fn handler(&self) -> crate::HandlerId { match self { #(#ids)* } }

            /// The input as JSON again.
            ///
            /// # Errors
            /// A value that JSON cannot say.
            pub fn to_value(&self) -> Result<Value, Error> { match self { #(#values)* } }
        }
    });
    // The whole path, though the marker stands at the root, too: the compiler shows the bound that is not met, and the
    // path says which file is missing.
    let bounds: Vec<String> = layout
        .handlers()
        .map(|tool| {
            let (group, handler) = (ident(&tool.group), ident(&tool.file.spec.handler));
            format!(
                "Handle<crate::tools::{group}::{handler}::{}>",
                pascal_case(&tool.file.spec.handler)
            )
        })
        .collect();
    let short = bounds.join(" + ");
    // The widths are rustfmt's: it keeps room for the braces.
    let bounds = match short.len() {
        length if length <= MAX_WIDTH - 38 => format!(" {short} + Sync {{}}"),
        length if length <= MAX_WIDTH - 11 => format!("\n    {short} + Sync\n{{\n}}"),
        _ => format!("\n    {}\n    + Sync\n{{\n}}", bounds.join("\n    + ")),
    };
    file.push_text(&format!(
        "/// What implements every handler. It has no blanket implementation: `impl HandleAll for Context {{}}` makes the\n\
         /// compiler name each handler that `Context` lacks.\n\
         pub trait HandleAll:{bounds}\n"
    ));
    file.push_text(
        "/// A call on its way.\n\
         pub type Dispatched<'a> = Pin<Box<dyn Future<Output = Result<Value, ErasedRefusal>> + Send + 'a>>;\n",
    );
    file.push(quote! {
        /// Carries out one call by the implementation of its handler.
        pub fn dispatch<C: HandleAll>(ctx: &C, input: AnyInput) -> Dispatched<'_> {
            match input { #(#calls)* }
        }
    });
    file.push_text(
        "fn call<H: Handler, C: Handle<H> + Sync>(ctx: &C, input: H::Input) -> Dispatched<'_> {\n    \
             Box::pin(async move { erase(ctx.handle(input).await) })\n\
         }\n",
    );
    file.finish()
}

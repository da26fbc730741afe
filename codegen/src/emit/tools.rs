//! `snapshot/tools/`: one file per handler, and the files that list them.
//!
//! Answers for a handler's marker, types, failures and tool tables. Leaves out what spans handlers.

use proc_macro2::TokenStream;
use quote::quote;
use serde_json::Value;

use super::rust::{RustFile, arms, arms_by, docs, ident, prose, text, texts, upper_ident};
use super::shapes::{Shapes, Side};
use super::{Layout, json_text};
use crate::FileMap;
use crate::diagnostic::Diagnostic;
use crate::model::{Exposure, FailureDetail, FailureEntry, Kind, Parallelism, RuleSpec, Schema, TypesSpec, WriteEntry};
use crate::resolve::{DEFAULT_TIMEOUT_MS, Face, faces_of, failure_summary, pascal_case, timeout_ms};
use crate::specs::ToolFile;

/// Adds the files of every handler.
pub(super) fn emit(layout: &Layout<'_>, files: &mut FileMap, errors: &mut Vec<Diagnostic>) {
    let mut root = RustFile::new("specs/tools/");
    for (group, tools) in &layout.groups {
        let mut list = RustFile::new(&format!("specs/tools/{group}/"));
        for tool in tools {
            let stem = &tool.file.stem;
            match handler(tool, layout.types) {
                Ok(text) => {
                    files.insert(format!("generated/snapshot/tools/{group}/{stem}.rs"), text);
                }
                Err(found) => errors.extend(found),
            }
            let docs = docs(&prose(&tool.file.spec.summary));
            list.push(include(stem, &format!("{stem}.rs"), &docs));
        }
        files.insert(format!("generated/snapshot/tools/{group}/mod.rs"), list.finish());
        let docs = docs(&format!("The `{group}` handlers."));
        root.push(include(group, &format!("{group}/mod.rs"), &docs));
    }
    files.insert("generated/snapshot/tools/mod.rs".into(), root.finish());
}

/// A module whose text stands in a file beside this one. (`mod name;` would make the file start with its own inner docs,
/// but a build script's folder is outside what editors search for modules.)
fn include(name: &str, path: &str, docs: &TokenStream) -> TokenStream {
    let name = ident(name);
    quote!(#docs pub mod #name { include!(#path); })
}

fn handler(tool: &ToolFile, types: &TypesSpec) -> Result<String, Vec<Diagnostic>> {
    let spec = &tool.file.spec;
    let marker_name = pascal_case(&spec.handler);
    let marker = ident(&marker_name);
    let mut file = RustFile::new(&tool.file.path);

    let (name, path) = (&spec.handler, &tool.file.path);
    let fails = if spec.failures.is_empty() {
        "has no failures of its own"
    } else {
        "fails with a [`Failure`]"
    };
    let about = docs(&format!(
        "{}\n\nTakes an [`Input`], answers with an [`Output`], and {fails}. Declared in `{path}`.",
        prose(&spec.summary)
    ));
    file.push(quote! {
        #about
        #[derive(Clone, Copy, Debug)]
        pub struct #marker;

        impl devloop_contract::Handler for #marker {
            const NAME: &'static str = #name;
            const SPEC: &'static str = #path;
            type Input = Input;
            type Output = Output;
            type Failure = Failure;
        }
    });

    let mut shapes = Shapes::new(path, &tool.file.tree, types, &["Input", "Output", &marker_name]);
    let about = |schema: &Schema, fallback: &str| {
        let own = schema
            .get("description")
            .and_then(Value::as_str)
            .map(|own| format!("{}\n\n", prose(own)));
        format!("{}{fallback}", own.unwrap_or_default())
    };
    shapes.add(
        "Input",
        &spec.input,
        Side::Input,
        &about(&spec.input, &format!("What [`{marker_name}`] takes.")),
        "/input",
    );
    let answer = format!("What [`{marker_name}`] answers.");
    shapes.add(
        "Output",
        &spec.output,
        Side::Output,
        &about(&spec.output, &answer),
        "/output",
    );
    for (code, entry) in &spec.failures {
        if let Some((schema, name)) = details(code, entry) {
            let about = format!("The data of [`Failure::{}`].", ident(&pascal_case(code)));
            shapes.add(
                &name,
                schema,
                Side::Output,
                &about,
                &format!("/failures/{code}/details"),
            );
        }
    }
    for item in shapes.finish()? {
        file.push(item);
    }

    file.push(failure(tool, &marker_name));
    for face in faces_of(tool, types) {
        file.push(table(&face, &marker_name));
    }
    Ok(file.finish())
}

fn details<'s>(code: &str, entry: &'s FailureEntry) -> Option<(&'s Schema, String)> {
    match entry {
        FailureEntry::Detail(FailureDetail {
            details: Some(schema), ..
        }) => {
            let title = schema.get("title").and_then(Value::as_str).map(pascal_case);
            Some((schema, title.unwrap_or_else(|| format!("{}Details", pascal_case(code)))))
        }
        _ => None,
    }
}

fn hint(entry: &FailureEntry) -> Option<&str> {
    match entry {
        FailureEntry::Detail(detail) => detail.hint.as_deref().map(str::trim),
        FailureEntry::Text(_) => None,
    }
}

fn failure(tool: &ToolFile, marker: &str) -> TokenStream {
    let failures = &tool.file.spec.failures;
    if failures.is_empty() {
        let about = docs(&format!("[`{marker}`] has no failures of its own."));
        return quote!(#about pub type Failure = devloop_contract::failure::NoFailure;);
    }
    let about = docs(&format!("The expected failures of [`{marker}`]."));
    let mut variants = Vec::new();
    let (mut codes, mut summaries, mut hints, mut data) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (code, entry) in failures {
        let variant = ident(&pascal_case(code));
        let summary = failure_summary(entry).trim();
        let about = docs(&prose(summary));
        let details = details(code, entry).map(|(_, name)| ident(&name));
        let hint = hint(entry)
            .map(text)
            .map_or_else(|| quote!(None), |hint| quote!(Some(#hint)));
        let summary = text(summary);
        let any = if details.is_some() {
            quote!(Self::#variant(_))
        } else {
            quote!(Self::#variant)
        };
        codes.push((any.clone(), quote!(#code)));
        summaries.push((any.clone(), summary));
        hints.push((any.clone(), hint));
        if let Some(details) = details {
            variants.push(quote!(#about #variant(#details)));
            let result = quote!(serde_json::to_value(details).ok());
            data.push((details.to_string(), quote!(Self::#variant(details)), result));
        } else {
            variants.push(quote!(#about #variant));
            data.push((String::new(), any, quote!(None)));
        }
    }
    let (codes, summaries) = (arms(codes), arms(summaries));
    // Where no failure has any, a `match` with one arm would be noise.
    let none = |result: &TokenStream| result.to_string() == "None";
    let no_hints = hints.iter().all(|(_, result)| none(result));
    let no_data = data.iter().all(|(_, _, result)| none(result));
    let (hints, data) = (arms(hints), arms_by(data));
    let hints = if no_hints {
        quote!(None)
    } else {
        quote!(match self { #hints })
    };
    let data = if no_data {
        quote!(None)
    } else {
        quote!(match self { #data })
    };
    quote! {
        #about
        #[derive(Clone, Debug, PartialEq)]
        pub enum Failure { #(#variants),* }

        impl devloop_contract::ExpectedFailure for Failure {
            fn code(&self) -> &'static str { match self { #codes } }
            fn summary(&self) -> &'static str { match self { #summaries } }
            fn hint(&self) -> Option<&'static str> { #hints }
            fn details(&self) -> Option<serde_json::Value> { #data }
        }
    }
}

fn table(face: &Face<'_>, marker: &str) -> TokenStream {
    let (tool, spec) = (face.tool, &face.tool.file.spec);
    let about = docs(&format!("The tool `{}`, served by [`{marker}`].", face.name));
    let constant = upper_ident(face.name);
    let (name, group, handler, path) = (face.name, &tool.group, &spec.handler, &tool.file.path);
    let (aliases, tags) = (texts(face.aliases), texts(&spec.tags));
    let (title, summary, description) = (text(&face.title), text(face.summary.trim()), text(&face.description));
    let details = text(face.details.unwrap_or_default().trim());
    let (notes, cautions) = (
        texts(spec.notes.iter().map(|note| note.trim())),
        texts(spec.cautions.iter().map(|caution| caution.trim())),
    );
    let kind = match spec.kind {
        Kind::ReadOnly => quote!(ReadOnly),
        Kind::Write => quote!(Write),
        Kind::Execute => quote!(Execute),
    };
    let (idempotent, destructive, open_world) = (spec.idempotent, spec.destructive, spec.open_world);
    let (concurrency_safe, retry_safe, strict) = (spec.concurrency_safe, spec.retry_safe, spec.strict);
    let parallelism = match parallelism(face) {
        Parallelism::Shared => quote!(Shared),
        Parallelism::Exclusive => quote!(Exclusive),
    };
    let exposure = match spec.exposure {
        Exposure::Always => quote!(Always),
        Exposure::Deferred => quote!(Deferred),
    };
    let (category, version) = (category(face), version(face));
    let (signature, rule) = permission(face);
    let (signature, rule) = (text(signature), text(rule));
    let timeout = duration(timeout(face));
    let (affected, path_fields) = (texts(&spec.affected_paths), texts(&face.path_fields));
    let (input, output) = (text(&json_text(&face.input)), text(&json_text(&face.output)));
    let bind = text(&compact(&face.bind));
    let rules = face.rules.iter().map(rule_tokens);
    let (reads, events, host) = (
        texts(&spec.effects.reads),
        texts(&spec.effects.events),
        texts(&spec.effects.host),
    );
    let writes = spec.effects.writes.iter().map(|entry| {
        let (path, only, when): (&str, &[String], &str) = match entry {
            WriteEntry::Path(path) => (path, &[], ""),
            WriteEntry::When(entry) => (
                &entry.path,
                &entry.only,
                entry.when.as_deref().unwrap_or_default().trim(),
            ),
        };
        let (path, only, when) = (text(path), texts(only), text(when));
        quote!(devloop_contract::tool::WriteEffect { path: #path, only: #only, when: #when })
    });
    let failures = spec.failures.iter().map(|(code, entry)| {
        let (summary, hint) = (
            text(failure_summary(entry).trim()),
            text(hint(entry).unwrap_or_default()),
        );
        quote!(devloop_contract::tool::FailureSpec { code: #code, summary: #summary, hint: #hint })
    });
    let common = texts(&spec.common_failures);
    let examples = face.examples.iter().map(|example| {
        let (title, input) = (text(&example.title), text(&compact(&example.input)));
        let output = text(&example.output.as_ref().map(compact).unwrap_or_default());
        quote!(devloop_contract::tool::Example { title: #title, input: #input, output: #output })
    });
    quote! {
        #about
        pub static #constant: devloop_contract::Tool = devloop_contract::Tool {
            name: #name,
            aliases: #aliases,
            title: #title,
            group: #group,
            handler: #handler,
            spec: #path,
            summary: #summary,
            details: #details,
            notes: #notes,
            cautions: #cautions,
            description: #description,
            kind: devloop_contract::tool::Kind::#kind,
            idempotent: #idempotent,
            destructive: #destructive,
            open_world: #open_world,
            parallelism: devloop_contract::tool::Parallelism::#parallelism,
            concurrency_safe: #concurrency_safe,
            retry_safe: #retry_safe,
            strict: #strict,
            exposure: devloop_contract::tool::Exposure::#exposure,
            category: #category,
            tags: #tags,
            version: #version,
            permission: devloop_contract::tool::Permission { signature: #signature, rule: #rule },
            affected_paths: #affected,
            timeout: #timeout,
            input_schema: #input,
            output_schema: #output,
            bind: #bind,
            rules: &[#(#rules),*],
            path_fields: #path_fields,
            effects: devloop_contract::tool::Effects {
                reads: #reads,
                writes: &[#(#writes),*],
                events: #events,
                host: #host,
            },
            failures: &[#(#failures),*],
            common_failures: #common,
            examples: &[#(#examples),*],
        };
    }
}

fn compact(map: &serde_json::Map<String, Value>) -> String {
    serde_json::to_string(map).expect("a JSON value is JSON")
}

/// What the spec says, or `shared` for what may run beside itself.
pub(super) fn parallelism(face: &Face<'_>) -> Parallelism {
    let spec = &face.tool.file.spec;
    let default = if spec.concurrency_safe {
        Parallelism::Shared
    } else {
        Parallelism::Exclusive
    };
    spec.parallelism.unwrap_or(default)
}

/// What the spec says, or the group.
pub(super) fn category<'f>(face: &'f Face<'_>) -> &'f str {
    face.tool.file.spec.category.as_deref().unwrap_or(&face.tool.group)
}

/// What the spec says, or the first version.
pub(super) fn version<'f>(face: &'f Face<'_>) -> &'f str {
    face.tool.file.spec.version.as_deref().unwrap_or("1.0.0")
}

/// Signature and rule: what the spec says, or the tool's name.
pub(super) fn permission<'f>(face: &'f Face<'_>) -> (&'f str, &'f str) {
    let permission = face.tool.file.spec.permission.as_ref();
    (
        permission
            .and_then(|permission| permission.signature.as_deref())
            .unwrap_or(face.name),
        permission
            .and_then(|permission| permission.rule.as_deref())
            .unwrap_or(face.name),
    )
}

/// In milliseconds.
pub(super) fn timeout(face: &Face<'_>) -> u64 {
    face.tool
        .file
        .spec
        .timeout
        .as_deref()
        .and_then(timeout_ms)
        .unwrap_or(DEFAULT_TIMEOUT_MS)
}

fn rule_tokens(rule: &RuleSpec) -> TokenStream {
    match rule {
        RuleSpec::ExactlyOneOf(fields) => {
            let fields = texts(fields);
            quote!(devloop_contract::tool::Rule::ExactlyOneOf(#fields))
        }
        RuleSpec::AtMostOneOf(fields) => {
            let fields = texts(fields);
            quote!(devloop_contract::tool::Rule::AtMostOneOf(#fields))
        }
        RuleSpec::RequiredIf(rule) => {
            let (field, when) = (&rule.field, &rule.when);
            let is = texts(rule.is.iter().map(Value::to_string));
            quote!(devloop_contract::tool::Rule::RequiredIf { field: #field, when: #when, is: #is })
        }
    }
}

/// The greatest unit that divides it: that is how a person would write it, and what Clippy asks for.
pub(super) fn duration(ms: u64) -> TokenStream {
    let (function, number) = match ms {
        _ if ms.is_multiple_of(60_000) => ("from_mins", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => ("from_secs", ms / 1_000),
        _ => ("from_millis", ms),
    };
    let function = ident(function);
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('_');
        }
        grouped.push(digit);
    }
    let number: TokenStream = grouped.parse().expect("digits are a number");
    quote!(std::time::Duration::#function(#number))
}

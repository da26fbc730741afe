//! One generated Rust file: a header, and items that look as if a person had written them.
//!
//! Answers for headers, doc comments, identifiers, literals and layout. Leaves out what the items say.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote};

/// The column at which doc comments are wrapped, `/// ` and the indentation not counted.
const DOC_WIDTH: usize = 100;

/// A Rust file in the making.
pub(super) struct RustFile {
    text: String,
}

impl RustFile {
    /// A file whose header names the specs that it is made from.
    pub(super) fn new(source: &str) -> Self {
        Self { text: header("//", source) }
    }

    /// Appends items, each after a blank line.
    pub(super) fn push(&mut self, items: TokenStream) {
        let file: syn::File = syn::parse2(items).expect("emitters build whole items");
        for item in file.items {
            let is_impl = matches!(item, syn::Item::Impl(_));
            let text = prettyplease::unparse(&syn::File { shebang: None, frontmatter: None, attrs: Vec::new(), items: vec![item] });
            self.text.push('\n');
            if is_impl { self.text.push_str(&with_air(&text)) } else { self.text.push_str(&text) }
        }
    }

    /// Appends items that belong together, such as `use` lines, after one blank line.
    pub(super) fn push_close(&mut self, items: TokenStream) {
        let file: syn::File = syn::parse2(items).expect("emitters build whole items");
        self.text.push('\n');
        self.text.push_str(&prettyplease::unparse(&file));
    }

    /// The whole text.
    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// The first line of a generated file, in the comment form of its language.
pub(super) fn header(comment: &str, source: &str) -> String {
    format!("{comment} @generated from {source} by `cargo codegen write`. Do not edit.\n")
}

/// A blank line between the functions and public constants of an `impl`: the printer leaves none.
fn with_air(item: &str) -> String {
    let mut text = String::new();
    let mut lines = item.lines().peekable();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let ends = line == "    }" || line.starts_with("    pub const ") && line.ends_with(';') || line == "    ];";
        if ends && lines.peek().is_some_and(|next| *next != "}") {
            text.push('\n');
        }
    }
    text
}

/// Doc comments, one `///` per line, wrapped.
pub(super) fn docs(text: &str) -> TokenStream {
    let lines = wrapped(text.trim());
    let lines = lines.iter().map(|line| if line.is_empty() { String::new() } else { format!(" {line}") });
    quote!(#(#[doc = #lines])*)
}

/// Markdown text that comes from a spec, made safe for rustdoc: outside code spans, brackets would be taken for links
/// and angle brackets for HTML.
pub(super) fn prose(text: &str) -> String {
    let mut safe = String::new();
    let mut code = false;
    for c in text.trim().chars() {
        code ^= c == '`';
        if !code && matches!(c, '[' | ']' | '<' | '>') {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim_end();
        let indent = if line.trim_start().starts_with("- ") { "  " } else { "" };
        let mut current = String::new();
        for word in line.split(' ') {
            if !current.is_empty() && current.chars().count() + 1 + word.chars().count() > DOC_WIDTH {
                lines.push(std::mem::replace(&mut current, indent.to_owned()));
            } else if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

/// An identifier; what Rust would not take is changed, so that this cannot fail. The checks refuse such names.
pub(super) fn ident(name: &str) -> Ident {
    let mut safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if safe.is_empty() || safe == "_" || safe.starts_with(|c: char| c.is_ascii_digit()) {
        safe.insert(0, 'X');
    }
    if syn::parse_str::<Ident>(&safe).is_err() {
        safe.push('_');
    }
    Ident::new(&safe, Span::call_site())
}

/// `write_todolist` as `WRITE_TODOLIST`.
pub(super) fn upper_ident(name: &str) -> Ident {
    ident(&name.to_ascii_uppercase())
}

/// A text of several lines or with quotes as a raw string, any other as a plain one.
pub(super) fn text(text: &str) -> TokenStream {
    let raw = (text.contains('\n') || text.contains('"') || text.contains('\\'))
        && !text.chars().any(|c| c == '\r' || (c.is_control() && c != '\n' && c != '\t'));
    if !raw {
        return Literal::string(text).into_token_stream();
    }
    let mut hashes = String::new();
    while text.contains(&format!("\"{hashes}")) {
        hashes.push('#');
    }
    format!("r{hashes}\"{text}\"{hashes}").parse().expect("enough hashes end a raw string")
}

/// A list of texts: `&["a", "b"]`.
pub(super) fn texts<T: AsRef<str>>(list: impl IntoIterator<Item = T>) -> TokenStream {
    let list = list.into_iter().map(|item| text(item.as_ref()));
    quote!(&[#(#list),*])
}

/// The arms of a `match` with equal results joined, in order of their first pattern: Clippy wants them so, and readers
/// too. The patterns bind nothing.
pub(super) fn arms(arms: impl IntoIterator<Item = (TokenStream, TokenStream)>) -> TokenStream {
    arms_by(arms.into_iter().map(|(pattern, result)| (result.to_string(), pattern, result)))
}

/// The same for patterns that bind something: arms are joined when they have the same key.
pub(super) fn arms_by<K: PartialEq>(arms: impl IntoIterator<Item = (K, TokenStream, TokenStream)>) -> TokenStream {
    let mut joined: Vec<(K, Vec<TokenStream>, TokenStream)> = Vec::new();
    for (key, pattern, result) in arms {
        match joined.iter_mut().find(|(known, ..)| *known == key) {
            Some((_, patterns, _)) => patterns.push(pattern),
            None => joined.push((key, vec![pattern], result)),
        }
    }
    joined.into_iter().map(|(_, patterns, result)| quote!(#(#patterns)|* => #result,)).collect()
}

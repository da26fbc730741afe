//! One generated Rust file: a header, and items that look as if a person had written them.
//!
//! Answers for headers, doc comments, identifiers, literals and layout. Leaves out what the items say.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote};

/// The longest line of code, as in the workspace's `rustfmt.toml`.
pub(super) const MAX_WIDTH: usize = 120;

/// The longest list that stands on one line: what rustfmt allows at this width.
const LIST_WIDTH: usize = 72;

/// The longest element of a list that is filled like text.
const SHORT_ELEMENT: usize = 10;

/// The column at which doc comments are wrapped, `/// ` and the indentation not counted.
const DOC_WIDTH: usize = 100;

/// A Rust file in the making.
pub(super) struct RustFile {
    text: String,
}

impl RustFile {
    /// A file whose header names the specs that it is made from.
    pub(super) fn new(source: &str) -> Self {
        Self {
            text: header("//", source),
        }
    }

    /// Appends items, each after a blank line.
    pub(super) fn push(&mut self, items: TokenStream) {
        let file: syn::File = syn::parse2(items).expect("emitters build whole items");
        for item in file.items {
            let is_impl = matches!(item, syn::Item::Impl(_));
            let text = prettyplease::unparse(&syn::File {
                shebang: None,
                frontmatter: None,
                attrs: Vec::new(),
                items: vec![item],
            });
            self.text.push('\n');
            let text = rejoined(&text);
            self.text.push_str(&if is_impl { with_air(&text) } else { text });
        }
    }

    /// Appends items that belong together, such as `use` lines, after one blank line.
    pub(super) fn push_close(&mut self, items: TokenStream) {
        let file: syn::File = syn::parse2(items).expect("emitters build whole items");
        self.text.push('\n');
        self.text.push_str(&rejoined(&prettyplease::unparse(&file)));
    }

    /// Appends an item that is laid out already, after a blank line.
    pub(super) fn push_text(&mut self, item: &str) {
        self.text.push('\n');
        self.text.push_str(item);
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

/// The printer breaks lines at another width than rustfmt does in this workspace. This joins what it broke, in the few
/// shapes that generated items have: derives, lists, parameters, `Some` of a text, and match arms with a block around one expression.
fn rejoined(text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // What stands around a joined group may fit then, so this goes on until nothing does. Each turn has fewer lines.
    loop {
        let before = lines.len();
        let mut at = 0;
        while at < lines.len() {
            let raw = raw_string_end(&lines, at);
            if raw > at {
                at = raw;
                continue;
            }
            if let Some((end, joined)) = join(&lines, at) {
                lines.splice(at..=end, joined);
            }
            at += 1;
        }
        if lines.len() == before {
            return lines.join("\n") + "\n";
        }
    }
}

/// The line on which a raw string ends that begins on line `at` and goes on; `at` when there is none.
fn raw_string_end(lines: &[String], at: usize) -> usize {
    let line = &lines[at];
    let Some(start) = [" r\"", " r#", "(r\"", "(r#", "[r\"", "[r#"]
        .iter()
        .filter_map(|start| line.find(start))
        .min()
    else {
        return at;
    };
    let hashes: String = line[start + 2..].chars().take_while(|c| *c == '#').collect();
    let open = start + 2 + hashes.len() + 1;
    let close = format!("\"{hashes}");
    if line.get(open..).is_none_or(|rest| rest.contains(&close)) {
        return at;
    }
    (at + 1..lines.len())
        .find(|next| lines[*next].contains(&close))
        .unwrap_or(at)
}

/// The group that opens at the end of line `at`, on fewer lines: its last line and what replaces it.
fn join(lines: &[String], at: usize) -> Option<(usize, Vec<String>)> {
    let head = &lines[at];
    let depth = indent(head);
    let open = head.chars().last().filter(|c| matches!(c, '(' | '[' | '{' | '<'))?;
    let end = at + 1 + lines[at + 1..].iter().position(|line| indent(line) <= depth)?;
    let inner: Vec<&str> = lines[at + 1..end].iter().map(|line| line.trim_start()).collect();
    if open == '['
        && let Some(hugged) = hug(&lines[at..=end], depth)
    {
        return Some((end, hugged));
    }
    if let Some(bare) = unblock(&lines[at..=end]) {
        return Some((end, bare));
    }
    let flat = lines[at + 1..end]
        .iter()
        .all(|line| indent(line) == depth + 4 && !line.trim_start().starts_with(['/', '#']));
    if inner.is_empty() || !flat {
        return None;
    }
    let content = inner.join(" ");
    let content = content.strip_suffix(',').unwrap_or(&content);
    let tail = lines[end].trim_start();
    let one = format!("{head}{content}{tail}");
    let fits = one.chars().count() <= MAX_WIDTH;
    match open {
        '(' if head.trim_start().starts_with("#[derive(") && fits => Some((end, vec![one])),
        '<' if fits => Some((end, vec![one])),
        '(' if head.contains("fn ") && fits => Some((end, vec![one])),
        '(' if head.trim_start() == "Some(" && inner.len() == 1 && fits => Some((end, vec![one])),
        '[' if inner.iter().all(|line| line.ends_with(',')) => {
            // One element alone may be longer than a list of several.
            if fits && (inner.len() == 1 || content.chars().count() <= LIST_WIDTH) {
                return Some((end, vec![one]));
            }
            // A short list that has no room beside its name goes below it.
            if content.chars().count() <= LIST_WIDTH
                && let Some((name, list)) = head.rsplit_once(" = ")
            {
                let list = format!("{}{list}{content}{tail}", " ".repeat(depth + 4));
                return (list.chars().count() <= MAX_WIDTH).then(|| (end, vec![format!("{name} ="), list]));
            }
            // The comma of each line is not the element's.
            let short = inner.iter().all(|line| line.chars().count() <= SHORT_ELEMENT + 1);
            let filled = short.then(|| fill(&inner, depth + 4))?;
            (filled.len() < inner.len()).then(|| {
                let mut all = vec![head.clone()];
                all.extend(filled);
                all.push(lines[end].clone());
                (end, all)
            })
        }
        '{' if head.ends_with("=> {") && tail == "}" && inner.len() == 1 && !inner[0].ends_with([';', '{', '}']) => {
            let one = format!("{}{},", head.strip_suffix('{')?, inner[0]);
            (one.chars().count() <= MAX_WIDTH).then(|| (end, vec![one]))
        }
        _ => None,
    }
}

/// A list whose only element has several lines: both brackets share their lines, as rustfmt has it.
fn hug(lines: &[String], depth: usize) -> Option<Vec<String>> {
    let (last, inner) = lines.split_last()?;
    let (head, inner) = inner.split_first()?;
    let (first, rest) = inner.split_first()?;
    let (close, body) = rest.split_last()?;
    let one = first.ends_with('{') && close.trim_start() == "},";
    if !one || indent(first) != depth + 4 || body.iter().any(|line| indent(line) == depth + 4 && line.ends_with('{')) {
        return None;
    }
    let mut hugged = vec![format!("{head}{}", first.trim_start())];
    let mut raw_until = 0;
    for (index, line) in body.iter().enumerate() {
        if index < raw_until {
            hugged.push(line.clone());
            continue;
        }
        hugged.push(line.strip_prefix("    ").unwrap_or(line).to_owned());
        let end = raw_string_end(body, index);
        if end > index {
            raw_until = end + 1;
        }
    }
    hugged.push(format!("{}}}{}", " ".repeat(depth), last.trim_start()));
    Some(hugged)
}

/// A match arm with a block around `Some` of a text that is too long for one line: rustfmt has no block there.
fn unblock(lines: &[String]) -> Option<Vec<String>> {
    let [head, some, text, close, tail] = lines else {
        return None;
    };
    let arm = head.strip_suffix("=> {")?;
    let texts = (some.trim_start(), close.trim_start(), tail.trim_start());
    let one = format!("{}{}", some, text.trim()).chars().count();
    // In place of the comma at the end comes the bracket.
    if texts != ("Some(", ")", "}") || one <= MAX_WIDTH {
        return None;
    }
    let text = text.strip_prefix("    ")?.to_owned();
    Some(vec![
        format!("{arm}=> Some("),
        text,
        format!("{}),", " ".repeat(indent(head))),
    ])
}

/// Words, as many on each line as fit.
fn fill(words: &[&str], indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= MAX_WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{}{word}", " ".repeat(indent))),
        }
    }
    lines
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
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
    let lines = lines.iter().map(|line| {
        if line.is_empty() {
            String::new()
        } else {
            format!(" {line}")
        }
    });
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
    let mut safe: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
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
        && !text
            .chars()
            .any(|c| c == '\r' || (c.is_control() && c != '\n' && c != '\t'));
    if !raw {
        return Literal::string(text).into_token_stream();
    }
    let mut hashes = String::new();
    while text.contains(&format!("\"{hashes}")) {
        hashes.push('#');
    }
    format!("r{hashes}\"{text}\"{hashes}")
        .parse()
        .expect("enough hashes end a raw string")
}

/// A list of texts: `&["a", "b"]`.
pub(super) fn texts<T: AsRef<str>>(list: impl IntoIterator<Item = T>) -> TokenStream {
    let list = list.into_iter().map(|item| text(item.as_ref()));
    quote!(&[#(#list),*])
}

/// The arms of a `match` with equal results joined, in order of their first pattern: Clippy wants them so, and readers
/// too. The patterns bind nothing.
pub(super) fn arms(arms: impl IntoIterator<Item = (TokenStream, TokenStream)>) -> TokenStream {
    arms_by(
        arms.into_iter()
            .map(|(pattern, result)| (result.to_string(), pattern, result)),
    )
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
    joined
        .into_iter()
        .map(|(_, patterns, result)| quote!(#(#patterns)|* => #result,))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value_of(literal: &TokenStream) -> String {
        syn::parse2::<syn::LitStr>(literal.clone()).unwrap().value()
    }

    #[test]
    fn raw_strings_are_left_as_they_are() {
        let json = "{\n  \"a\": [\n    1,\n  ]\n}";
        let literal = text(json);
        let mut file = RustFile::new("specs/");
        file.push(quote!(pub static A: S = S { a: #literal, b: &["x", "y"] };));
        let printed = file.finish();
        assert!(printed.contains(json), "{printed}");
        assert!(printed.contains("b: &[\"x\", \"y\"],"), "{printed}");
    }

    #[test]
    fn a_long_text_in_an_arm_stands_on_as_few_lines_as_rustfmt_gives_it() {
        for (length, lines) in [(60, 1), (89, 1), (90, 3), (100, 3), (101, 3), (130, 3)] {
            let text = "x".repeat(length);
            let mut file = RustFile::new("specs/");
            file.push(
                quote!(fn f(&self) -> Option<&str> { match self { Self::A(_) => Some(#text), Self::B => None } }),
            );
            let printed = file.finish();
            let arm = printed.lines().skip_while(|line| !line.contains("A(_)"));
            assert_eq!(
                arm.take_while(|line| !line.contains("Self::B")).count(),
                lines,
                "{printed}"
            );
        }
    }

    #[test]
    fn prose_is_escaped_outside_code_only() {
        assert_eq!(prose("see [a] and `[b] <c>` <d>"), r"see \[a\] and `[b] <c>` \<d\>");
    }

    #[test]
    fn long_docs_are_wrapped_and_lists_stay_lists() {
        let lines = wrapped(&format!("- {}\n\nend", "word ".repeat(40).trim()));
        assert!(lines.iter().all(|line| line.len() <= DOC_WIDTH));
        assert!(lines[0].starts_with("- word") && lines[1].starts_with("  word"));
        assert_eq!(&lines[lines.len() - 2..], ["", "end"]);
    }

    proptest! {
        #[test]
        fn every_text_survives_as_a_literal_and_in_a_file(value in r"(?:[ -~]|[\n\r\tλ]|\[\n|\n\]){0,60}") {
            let literal = text(&value);
            prop_assert_eq!(value_of(&literal), value.clone());
            let mut file = RustFile::new("specs/");
            file.push(quote!(pub static A: &[&str] = &[#literal, "z"];));
            let file = syn::parse_file(&file.finish()).unwrap();
            let Some(syn::Item::Static(item)) = file.items.into_iter().next() else { panic!("no static") };
            let syn::Expr::Reference(list) = *item.expr else { panic!("no reference") };
            let syn::Expr::Array(list) = *list.expr else { panic!("no list") };
            let first = list.elems[0].to_token_stream();
            prop_assert_eq!(value_of(&first), value);
        }

        #[test]
        fn every_name_becomes_an_identifier(name in "\\PC{0,20}") {
            ident(&name);
        }
    }
}

//! What a call is asked for, and what may be remembered of it.
//!
//! Answers for filling in a tool's templates from its input. Leaves out what rules say about the result.
//!
//! A template is `Tool` or `Tool(content)` with fields in braces: `{path}`, or `{target.path}` for one inside another,
//! `{files.0}` for an item. A text stands for itself, numbers and flags as in JSON, objects and lists as JSON without
//! blanks; what is missing or `null` is nothing.

use std::fmt;

use serde_json::Value;

use super::glob::escape_into;
use super::rule::{Rule, shown};
use crate::registry::Naming;

/// What is asked for: a tool and what this call of it is about.
///
/// It reads as the rule that means this call alone.
///
/// ```
/// use devloop_core::permission::{Rule, Signature};
/// use serde_json::json;
///
/// let signature = Signature::fill("Bash({command})", &json!({"command": "rm *"})).unwrap();
/// assert_eq!((signature.tool(), signature.content()), ("Bash", Some("rm *")));
/// assert_eq!(signature.to_string(), r"Bash(rm \*)");
/// assert!(Rule::parse(&signature.to_string()).is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    tool: String,
    pub(super) content: Option<String>,
}

impl Signature {
    /// Fills in a template.
    ///
    /// # Errors
    /// The template is wrong.
    pub fn fill(template: &str, input: &Value) -> Result<Self, TemplateError> {
        Self::fill_with(template, |path| value(input, path))
    }

    /// Fills in a template with what stands for its fields.
    pub(super) fn fill_with(template: &str, value: impl Fn(&str) -> String) -> Result<Self, TemplateError> {
        let (tool, content) = parts(template)?;
        let Some(content) = content else {
            return Ok(Self::bare(tool));
        };
        let mut filled = String::new();
        for part in fields(template, content) {
            match part? {
                // A literal `*` or parenthesis of a signature is the character.
                Part::Literal(text) => filled.push_str(text),
                Part::Field(path) => filled.push_str(&value(path)),
            }
        }
        Ok(Self {
            tool: tool.to_owned(),
            content: Some(filled),
        })
    }

    /// A tool whose calls are not told apart.
    pub fn bare(tool: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            content: None,
        }
    }

    /// The tool's name in rules.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Its beginning, for people.
    pub(super) fn excerpt(&self) -> String {
        const MOST: usize = 200;
        let content = self.content.as_deref().map(|content| {
            let end = content
                .char_indices()
                .nth(MOST + 1)
                .map_or(content.len(), |(end, _)| end);
            content[..end].to_owned()
        });
        let tool = self.tool.clone();
        shown(&Self { tool, content }.to_string()).into_owned()
    }

    /// What the call is about, as the input has it.
    pub fn content(&self) -> Option<&str> {
        self.content.as_deref()
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool)?;
        let Some(content) = &self.content else { return Ok(()) };
        let mut escaped = String::with_capacity(content.len());
        escape_into(content, &mut escaped);
        write!(f, "({escaped})")
    }
}

/// The rule that may be remembered for a call; `None` when there is none: the template is empty or wrong, a field of it
/// is missing or empty, so that the rule would mean much more than was asked for, or it does not mean the call at all.
pub fn rule_of(template: &str, input: &Value) -> Option<Rule> {
    let (tool, content) = parts(template).ok()?;
    let Some(content) = content else {
        return Rule::parse(tool).ok();
    };
    let mut filled = format!("{tool}(");
    for part in fields(template, content) {
        match part.ok()? {
            Part::Literal(text) => filled.push_str(text),
            Part::Field(path) => {
                let value = value(input, path);
                if value.trim().is_empty() {
                    return None;
                }
                escape_into(&value, &mut filled);
            }
        }
    }
    filled.push(')');
    Rule::parse(&filled).ok()
}

/// Whether both templates of a tool can be filled in, for those who register tools. An empty rule is right.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(naming: &Naming) -> Result<(), TemplateError> {
    let rule = Some(&naming.rule).filter(|rule| !rule.is_empty());
    for template in std::iter::once(&naming.signature).chain(rule) {
        let (_, content) = parts(template)?;
        for part in fields(template, content.unwrap_or_default()) {
            part?;
        }
    }
    Ok(())
}

/// A template that can't be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    template: String,
    problem: &'static str,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the permission template `{}`: {}", self.template, self.problem)
    }
}

impl std::error::Error for TemplateError {}

enum Part<'t> {
    Literal(&'t str),
    Field(&'t str),
}

fn wrong(template: &str, problem: &'static str) -> TemplateError {
    TemplateError {
        template: template.to_owned(),
        problem,
    }
}

fn parts(template: &str) -> Result<(&str, Option<&str>), TemplateError> {
    let (tool, content) = match template.split_once('(') {
        None => (template, None),
        Some((tool, rest)) => match rest.strip_suffix(')') {
            Some("") => {
                return Err(wrong(
                    template,
                    "there is nothing in the parentheses; write `Tool`, or `Tool({field})`",
                ));
            }
            Some(content) => (tool, Some(content)),
            None => return Err(wrong(template, "it must end with `)`: write `Tool({field})`")),
        },
    };
    match tool {
        "" => Err(wrong(template, "it has no name; write `Tool` or `Tool({field})`")),
        _ if tool.contains(['{', '}', '*', ')']) => Err(wrong(
            template,
            "a name has no fields, stars or parentheses; fields stand between the parentheses behind it",
        )),
        _ => Ok((tool, content)),
    }
}

fn fields<'t>(template: &'t str, content: &'t str) -> impl Iterator<Item = Result<Part<'t>, TemplateError>> {
    let mut rest = content;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let problem = "a brace without its partner; write a field as `{name}`";
        if first == '{' {
            let Some((name, after)) = rest[1..].split_once('}') else {
                rest = "";
                return Some(Err(wrong(template, problem)));
            };
            rest = after;
            return Some(if name.is_empty() || name.contains('{') {
                Err(wrong(template, problem))
            } else {
                Ok(Part::Field(name))
            });
        }
        let end = rest.find(['{', '}']).unwrap_or(rest.len());
        if end == 0 {
            rest = "";
            return Some(Err(wrong(template, problem)));
        }
        let (literal, after) = rest.split_at(end);
        rest = after;
        Some(Ok(Part::Literal(literal)))
    })
}

/// What stands for a field of a template.
pub(super) fn value(input: &Value, path: &str) -> String {
    // A field whose own name has a dot comes first.
    let found = input.get(path).or_else(|| {
        path.split('.').try_fold(input, |here, step| match here {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        })
    });
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn shown(template: &str, input: &Value) -> String {
        Signature::fill(template, input).unwrap().to_string()
    }

    #[test]
    fn values_of_every_type_are_filled_in() {
        let input = json!({
            "text": "a", "none": null, "n": 1.5, "yes": true, "list": ["a", {"b": 1}], "deep": {"er": {"x": "y"}},
            "a.b": "dotted", "line": "a\nb\u{202E}c"
        });
        for (template, expected) in [
            ("T", "T"),
            ("T({text})", "T(a)"),
            ("T({text}-{text})", "T(a-a)"),
            ("T({missing})", "T()"),
            ("T({none}|{n}|{yes})", "T(|1.5|true)"),
            ("T({list})", r#"T(["a",{"b":1}])"#),
            ("T({list.1.b})", "T(1)"),
            ("T({list.9})", "T()"),
            ("T({deep.er.x})", "T(y)"),
            ("T({deep})", r#"T({"er":{"x":"y"}})"#),
            ("T({a.b})", "T(dotted)"),
            ("T({line})", r"T(a\u{a}b\u{202e}c)"),
            ("T(*)", r"T(\*)"),
        ] {
            assert_eq!(shown(template, &input), expected, "{template}");
        }
        let huge = json!({"text": "x".repeat(1 << 20)});
        assert_eq!(
            Signature::fill("T({text})", &huge).unwrap().content().unwrap().len(),
            1 << 20
        );
        assert!(rule_of("T({text})", &huge).is_none());
    }

    #[test]
    fn wrong_templates_say_what_to_write() {
        for (template, expected) in [
            ("", "it has no name"),
            ("(x)", "it has no name"),
            ("T()", "nothing in the parentheses"),
            ("T({a}", "must end with `)`"),
            ("T({a}) ", "must end with `)`"),
            ("T({a)", "without its partner"),
            ("T(a})", "without its partner"),
            ("T({})", "without its partner"),
            ("T({a{b})", "without its partner"),
            ("T{a}", "a name has no fields"),
            ("T*", "a name has no fields"),
        ] {
            let naming = |signature: &str, rule: &str| Naming {
                signature: signature.to_owned().into(),
                rule: rule.to_owned().into(),
            };
            let error = check(&naming(template, "T")).unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains(template),
                "{template:?}: {error}"
            );
            assert_eq!(check(&naming("T", template)).is_err(), !template.is_empty());
            assert!(rule_of(template, &json!({"a": "x"})).is_none());
        }
    }

    #[test]
    fn a_rule_to_remember_is_never_broader_than_its_template() {
        let input = json!({"dir": "a*(b", "none": null, "blank": "  ", "n": 3});
        let rule = |template: &str| rule_of(template, &input).map(|rule| rule.to_string());
        assert_eq!(rule("T({dir}/*)").as_deref(), Some(r"T(a\*\(b/*)"));
        assert_eq!(rule("T({n}:*)").as_deref(), Some("T(3:*)"));
        assert_eq!(rule("T").as_deref(), Some("T"));
        assert_eq!(rule("T(*)").as_deref(), Some("T(*)"));
        for empty in ["", "T({none}*)", "T({missing}*)", "T({blank}*)"] {
            assert_eq!(rule(empty), None, "{empty}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn a_signature_reads_as_the_rule_for_itself_alone(text in ".+", other in ".*") {
            let signature = Signature::fill("T({a})", &json!({"a": text.clone()})).unwrap();
            prop_assert!(Rule::parse(&signature.to_string()).is_ok());
            let rule = rule_of("T({a})", &json!({"a": text.clone()}));
            prop_assert_eq!(rule.is_none(), text.trim().is_empty());
            let same = Signature::fill("T({a})", &json!({"a": other.clone()})).unwrap();
            prop_assert_eq!(signature == same, text == other);
        }
    }
}

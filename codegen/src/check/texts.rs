//! Texts: that they are there, their form and their length.
//!
//! The descriptions of fields are judged with the schemas that they stand in.

use indexmap::IndexMap;

use crate::model::Translation;
use crate::pointer::child;
use crate::report::Report;
use crate::resolve;
use crate::specs::{Doc, Specs, ToolFile};

/// Clients cut a description here.
const LONGEST_DESCRIPTION: usize = 2_048;

pub(super) fn check(specs: &Specs, report: &mut Report) {
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let spec = &tool.file.spec;
        sentence(doc, "/summary", &spec.summary, report);
        for (index, face) in spec.tools.iter().enumerate() {
            filled(doc, &format!("/tools/{index}/title"), &face.title, "a title", report);
            if let Some(summary) = &face.summary {
                sentence(doc, &format!("/tools/{index}/summary"), summary, report);
            }
            if let Some(details) = &face.details {
                filled(doc, &format!("/tools/{index}/details"), details, "details", report);
            }
            for (number, example) in face.examples.iter().enumerate() {
                let pointer = format!("/tools/{index}/examples/{number}/title");
                filled(doc, &pointer, &example.title, "a title", report);
            }
        }
        if let Some(details) = &spec.details {
            filled(doc, "/details", details, "details", report);
        }
        for (key, lines) in [("notes", &spec.notes), ("cautions", &spec.cautions)] {
            for (index, line) in lines.iter().enumerate() {
                filled(doc, &format!("/{key}/{index}"), line, "a sentence", report);
            }
        }
        for (index, example) in spec.examples.iter().enumerate() {
            filled(
                doc,
                &format!("/examples/{index}/title"),
                &example.title,
                "a title",
                report,
            );
        }
        length(specs, tool, report);
        translations(doc, &spec.i18n, report);
    }
    for agent in &specs.agents {
        let doc = agent.file.doc();
        let spec = &agent.file.spec;
        filled(doc, "/title", &spec.title, "a title", report);
        sentence(doc, "/summary", &spec.summary, report);
        filled(doc, "/type", &spec.kind, "a type", report);
        filled(doc, "/devloop/loop", &spec.place.level, "a level such as `L3`", report);
        filled(doc, "/cli/model", &spec.cli.model, "a model", report);
        filled(
            doc,
            "/cli/system_prompt_file",
            &spec.cli.system_prompt_file,
            "a path",
            report,
        );
        filled(doc, "/sandbox/cwd", &spec.sandbox.cwd, "a path", report);
        translations(doc, &spec.i18n, report);
    }
    for (name, event) in &specs.events.spec.events {
        sentence(
            specs.events.doc(),
            &child(&child("/events", name), "summary"),
            &event.summary,
            report,
        );
    }
}

fn filled(doc: Doc<'_>, pointer: &str, text: &str, what: &str, report: &mut Report) {
    if text.trim().is_empty() {
        report.value(
            doc,
            pointer,
            format!("the text is empty, {what} is expected"),
            "write it, or leave an optional key out".to_owned(),
        );
    }
}

/// One sentence in one line that ends with a full stop.
fn sentence(doc: Doc<'_>, pointer: &str, text: &str, report: &mut Report) {
    let text = text.trim();
    if text.is_empty() {
        filled(doc, pointer, text, "one sentence", report);
    } else if !text.ends_with(['.', '。']) {
        report.value(
            doc,
            pointer,
            "the sentence does not end with a full stop",
            "end it with `.`".to_owned(),
        );
    } else if text.contains('\n') || sentences(text) > 1 {
        let help = "keep the first sentence here and put the rest into `details`".to_owned();
        report.value(doc, pointer, "one sentence is expected, these are several", help);
    }
}

/// Counts sentences: a full stop, a space and a capital letter begin another one. `e.g. Node` reads as two; write it
/// otherwise.
fn sentences(text: &str) -> usize {
    let chars: Vec<char> = text.chars().collect();
    let latin = chars
        .windows(3)
        .filter(|w| matches!(w[0], '.' | '!' | '?') && w[1] == ' ' && w[2].is_uppercase())
        .count();
    let wide = chars
        .windows(2)
        .filter(|w| matches!(w[0], '。' | '!' | '?') && !w[1].is_whitespace())
        .count();
    1 + latin + wide
}

/// The whole text that a model reads, once for each tool, but told once when all of it comes from the handler.
fn length(specs: &Specs, tool: &ToolFile, report: &mut Report) {
    let doc = tool.file.doc();
    let mut told_of_handler = false;
    for (index, face) in resolve::faces_of(tool, &specs.types.spec).iter().enumerate() {
        let count = face.description.chars().count();
        if count <= LONGEST_DESCRIPTION {
            continue;
        }
        let own = tool.file.spec.tools.get(index).filter(|face| face.details.is_some());
        let pointer = match own {
            Some(_) => format!("/tools/{index}/details"),
            None if std::mem::replace(&mut told_of_handler, true) => continue,
            None if tool.file.spec.details.is_some() => "/details".to_owned(),
            None => "/summary".to_owned(),
        };
        let message = format!(
            "the description of `{}` has {count} characters, clients cut it at {LONGEST_DESCRIPTION}",
            face.name
        );
        let help = "shorten `details`, `notes` or `cautions`; all of them and the summary count".to_owned();
        report.key(doc, &pointer, message, help);
    }
}

fn translations(doc: Doc<'_>, i18n: &IndexMap<String, Translation>, report: &mut Report) {
    for (tag, translation) in i18n {
        let pointer = child("/i18n", tag);
        if !is_language_tag(tag) {
            let help =
                "write a language, a script when it matters, and a region: `de`, `zh-CN`, `zh-Hant-TW`".to_owned();
            report.key(doc, &pointer, format!("`{tag}` is no language tag"), help);
        } else if tag == "en" || tag.starts_with("en-") {
            let help = "the keys of the spec itself are in English".to_owned();
            report.key(doc, &pointer, "English needs no translation", help);
        }
        filled(doc, &child(&pointer, "title"), &translation.title, "a title", report);
        filled(
            doc,
            &child(&pointer, "summary"),
            &translation.summary,
            "one sentence",
            report,
        );
    }
}

/// The form of BCP 47 that locales use: language, script, region.
fn is_language_tag(tag: &str) -> bool {
    let mut parts = tag.split('-').peekable();
    let is_language = parts
        .next()
        .is_some_and(|part| matches!(part.len(), 2 | 3) && part.chars().all(|c| c.is_ascii_lowercase()));
    let is_script = |part: &&str| {
        part.len() == 4
            && part.starts_with(|c: char| c.is_ascii_uppercase())
            && part[1..].chars().all(|c| c.is_ascii_lowercase())
    };
    let is_region = |part: &&str| {
        (part.len() == 2 && part.chars().all(|c| c.is_ascii_uppercase()))
            || (part.len() == 3 && part.chars().all(|c| c.is_ascii_digit()))
    };
    _ = parts.next_if(|part| part.is_ascii() && is_script(part));
    _ = parts.next_if(is_region);
    is_language && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_tags() {
        for tag in ["de", "zh-CN", "zh-Hant-TW", "es-419", "yue"] {
            assert!(is_language_tag(tag), "{tag}");
        }
        for tag in ["", "DE", "zh-cn", "zh_CN", "zh-CN-x", "chinese", "zh-", "é-CN"] {
            assert!(!is_language_tag(tag), "{tag}");
        }
    }

    #[test]
    fn sentences_are_counted() {
        assert_eq!(sentences("Reads `a.b` and v1.2 things."), 1);
        assert_eq!(sentences("Reads it. Writes it."), 2);
        assert_eq!(sentences("读。写。"), 2);
    }
}

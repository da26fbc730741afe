//! The tree, out of the parser's events.
//!
//! Answers for what a document may have in it and for what a scalar without quotes stands for. Leaves out the words of
//! the faults.

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span};
use serde_json::{Number, Value};

use super::faults::{Fault, alias, anchor, infinite, syntax_fault};
use super::{Entry, Node, NodeKind, Place};

/// How deep maps and lists may stand in each other.
pub(super) const DEEPEST: usize = 32;
/// How many values a file may have.
pub(super) const MOST_VALUES: usize = 100_000;

/// Reads a text whose lines end in `\n` alone.
pub(super) fn read(text: &str) -> Result<Node, Fault> {
    let options = granit_parser::options! {
        strict_indentation: true,
        disallow_directives: true,
        emit_comments: false,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        // The reader's own limit is lower and says where.
        flow_nesting_limit: 255,
        block_nesting_limit: 255,
    };
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        text,
        values: 0,
    };
    reader.document()
}

/// Builds the tree out of the parser's events.
struct Reader<'t> {
    events: Parser<'t, granit_parser::StrInput<'t>>,
    text: &'t str,
    values: usize,
}

impl<'t> Reader<'t> {
    fn document(&mut self) -> Result<Node, Fault> {
        let mut root = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(Fault::new(
                        place(span.start),
                        "a second document begins here, a spec is one",
                        "remove the `---`",
                    ));
                }
                Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => root = Some(self.value(event, span, 1)?),
            }
        }
        // A file of comments alone has no value at all.
        Ok(root.unwrap_or(Node {
            place: Place { line: 1, column: 1 },
            kind: NodeKind::Scalar(Value::Null),
        }))
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Fault> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(syntax_fault(error.kind(), place(*error.marker()), self.text)),
        }
    }

    /// The value that an event begins.
    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Fault> {
        let here = place(span.start);
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(Fault::new(here, "too many values", "a file may have 100,000"));
        }
        if depth > DEEPEST {
            return Err(Fault::new(here, "nested too deeply", "32 levels are allowed"));
        }
        if let Some(tag) = span.tag_span() {
            let message = format!("a tag (`{}`) is not allowed", tag.slice(self.text).unwrap_or("!"));
            let help = "write the value alone; a text that begins with `!` needs quotes";
            return Err(Fault::new(place(tag.start), message, help));
        }
        if let Event::Scalar(_, _, 1.., _) | Event::SequenceStart(_, 1.., _) | Event::MappingStart(_, 1.., _) = event {
            // The parser says where an anchor stands after what it stands at.
            let at = self.next()?.map_or(here, |(_, span)| place(span.start));
            return Err(anchor(at));
        }
        let kind = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => NodeKind::Scalar(plain(&text, here)?),
            Event::Scalar(text, ..) => NodeKind::Scalar(Value::String(text.into_owned())),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                while let Some((event, span)) = self.next()? {
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    items.push(self.value(event, span, depth + 1)?);
                }
                NodeKind::List(items)
            }
            Event::MappingStart(..) => {
                let mut entries = Vec::new();
                while let Some((event, span)) = self.next()? {
                    if matches!(event, Event::MappingEnd) {
                        break;
                    }
                    entries.push(self.entry(event, span, depth + 1)?);
                }
                NodeKind::Map(entries)
            }
            Event::Alias(..) | Event::UnresolvedAlias(..) => return Err(alias(here, self.text)),
            // Whatever else comes belongs to no value; the parser does not send it here.
            _ => NodeKind::Scalar(Value::Null),
        };
        Ok(Node { place: here, kind })
    }

    fn entry(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Entry, Fault> {
        let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
        let written = match &event {
            Event::Scalar(text, ..) => Some(text.clone().into_owned()),
            _ => None,
        };
        let node = self.value(event, span, depth)?;
        let key = match (written, &node.kind) {
            (_, _) if is_merge => {
                let help = "write the keys out";
                return Err(Fault::new(node.place, "a merge key (`<<`) is not allowed", help));
            }
            (Some(key), NodeKind::Scalar(kind)) if !kind.is_null() => key,
            _ => return Err(Fault::new(node.place, "a key must be a text", "write `key: value`")),
        };
        let value = match self.next()? {
            Some((event, span)) => self.value(event, span, depth)?,
            None => Node {
                place: node.place,
                kind: NodeKind::Scalar(Value::Null),
            },
        };
        Ok(Entry {
            key,
            key_place: node.place,
            value,
        })
    }
}

/// A scalar without quotes: what JSON writes alike, and nothing, stand for themselves; all else is a text. So `no`,
/// `True`, `010` and `0x10` are texts, whatever a version of YAML may say of them.
fn plain(text: &str, here: Place) -> Result<Value, Fault> {
    Ok(match text {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if is_number(text) => match text.parse::<Number>() {
            Ok(number) => Value::Number(number),
            Err(_) => return Err(infinite(here)),
        },
        _ if matches!(
            text.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str(),
            ".inf" | ".nan"
        ) =>
        {
            return Err(infinite(here));
        }
        _ => Value::String(text.to_owned()),
    })
}

/// The numbers of JSON.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (number, exponent) = text
        .split_once(['e', 'E'])
        .map_or((text, None), |(number, exponent)| (number, Some(exponent)));
    let (whole, fraction) = number
        .split_once('.')
        .map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

fn place(marker: Marker) -> Place {
    Place {
        line: marker.line() as u64,
        column: marker.col() as u64 + 1,
    }
}

//! Rules: which calls are meant, and who says so.
//!
//! Answers for reading a rule, with errors that name the place and what to write, and for whether it means a call. Leaves
//! out which list it stands in and which list wins.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

use super::glob::Wild;
use crate::registry::Text;

/// The longest rule in bytes.
pub const LONGEST_RULE: usize = 4_096;

/// What a rule says of the calls that it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum List {
    /// They run.
    Allow,
    /// A person is asked each time.
    Ask,
    /// They never run.
    Deny,
}

impl List {
    /// The word that settings use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// Who gave a rule or a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The product: tools that need no grant.
    BuiltIn,
    /// An agent's template: its grants.
    Template,
    /// The program that embeds the library, or a flag of the command line.
    Host,
    /// The user's settings.
    User,
    /// The project's settings. They come with the project, perhaps from somebody else, so they don't outweigh an `ask`
    /// of another source.
    Project,
}

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Who gave it.
    pub source: Source,
    /// The agent, the file with its line, the flag; may be empty.
    pub place: Text,
}

impl Origin {
    /// A rule of `source`, found at `place`.
    pub fn new(source: Source, place: impl Into<Text>) -> Self {
        Self {
            source,
            place: place.into(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.source {
            Source::BuiltIn => "the product",
            Source::Template => "the agent's template",
            Source::Host => "the host program",
            Source::User => "your settings",
            Source::Project => "the project's settings",
        })?;
        if self.place.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", self.place)
    }
}

/// A rule: `Tool`, or `Tool(content)`.
///
/// | written | means |
/// |---|---|
/// | `note_add`, `note_add(*)` | every call of the tool |
/// | `mcp__github__*` | every tool of the upstream server `github`; `mcp__github` and `github__*` as well |
/// | the same in `ask` and `deny` | every other way to that server as well: its resources, prompts and tasks |
/// | `mcp__my_docs__a_b` | in `ask` and `deny`: the tool `a.b` of the server `my docs`, written as clients do, with `_` for what a name can't have |
/// | `Bash(git status)` | this content alone |
/// | `Bash(git status*)` | contents that begin so; `*` is any run of characters, `/`, blanks and line ends included |
/// | `Bash(git *)`, `Bash(git:*)` | `git` and all that begins with `git `, but not `gitk`; `:*` also takes `git:…` |
/// | `github__create_issue(x)` | a tool of an upstream server tells no content: in `allow` no call, in `ask` and `deny` each |
/// | `mcp_resources_read(docs:file:///a/*)` | in `ask` and `deny` all spellings of such an address, in `allow` this one, without `..` |
/// | `Edit(src/**/*.ts)` | `/**/` is any number of directories, also none; so is `**/` at the beginning |
/// | `\*`, `\(`, `\)`, `\\`, `\u{a}` | the character itself; another `\` is itself |
///
/// A name may have `*`, too. Names and contents are case-sensitive. Parentheses inside a content that come in pairs need
/// no escape.
///
/// ```
/// use devloop_core::permission::Rule;
///
/// assert_eq!(Rule::parse(" Bash(git status*) ").unwrap().text(), "Bash(git status*)");
/// let error = Rule::parse("Bash(git status").unwrap_err().to_string();
/// assert!(error.starts_with("the rule `Bash(git status`, character 5: "), "{error}");
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    /// The name when it has no `*`; else its pattern.
    pub(super) name: Result<String, Wild>,
    /// `None` means every call.
    pub(super) content: Option<Wild>,
    /// The content without a `./` at its beginning, which rules that tighten also mean.
    pub(super) dotless: Option<Wild>,
    /// The content with addresses in their plain form, for rules that tighten.
    pub(super) plain: Option<Wild>,
}

impl Rule {
    /// Reads a rule. Blanks around it don't count.
    ///
    /// # Errors
    /// The first thing that is wrong, its place and what to write.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let rule = text.trim();
        let wrong = |at: usize, problem: RuleProblem| RuleError {
            rule: rule.to_owned(),
            at,
            leading: text.chars().take_while(|c| c.is_whitespace()).count(),
            problem,
        };
        if rule.is_empty() {
            return Err(wrong(0, RuleProblem::Empty));
        }
        if rule.len() > LONGEST_RULE {
            return Err(wrong(0, RuleProblem::TooLong { bytes: rule.len() }));
        }
        if let Some((at, character)) = rule.char_indices().find(|(_, c)| c.is_control()) {
            return Err(wrong(at, RuleProblem::Control { character }));
        }
        let (name, inside) = match rule.find('(') {
            Some(open) => (&rule[..open], Some((open, &rule[open + 1..]))),
            None => (rule, None),
        };
        if name.is_empty() {
            return Err(wrong(0, RuleProblem::NoName));
        }
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | ':' | '/' | '@');
        if let Some((at, character)) = name.char_indices().find(|(_, c)| !plain(*c)) {
            return Err(wrong(at, RuleProblem::Name { character }));
        }
        let written = match inside {
            None => None,
            Some((open, inside)) => Some(content(inside).map_err(|(at, problem)| wrong(open + at, problem))?),
        };
        let content = written.map(Wild::content).filter(|wild| !wild.is_everything());
        Ok(Self {
            name: if name.contains('*') {
                Err(Wild::name(name))
            } else {
                Ok(name.to_owned())
            },
            dotless: content.as_ref().and_then(Wild::without_dot),
            plain: written.filter(|_| content.is_some()).map(Wild::address),
            content,
            text: rule.to_owned(),
        })
    }

    /// The rule that means every call of every tool: `*`.
    pub fn every() -> Self {
        Self {
            text: "*".to_owned(),
            name: Err(Wild::name("*")),
            content: None,
            dotless: None,
            plain: None,
        }
    }

    /// The rule that means every call of the tool of this name, whatever characters it has.
    pub fn tool(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            text: name.clone(),
            name: Ok(name),
            content: None,
            dotless: None,
            plain: None,
        }
    }

    /// The rule as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name, when it has no `*`.
    pub(super) fn literal_name(&self) -> Option<&str> {
        self.name.as_deref().ok()
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Rule {}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    rule: String,
    /// In bytes of the rule without the blanks around it.
    at: usize,
    leading: usize,
    problem: RuleProblem,
}

impl RuleError {
    /// Where it is wrong, in characters of the text as it was given; the first is 0.
    pub fn character(&self) -> usize {
        self.leading + self.rule[..self.at].chars().count()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum RuleProblem {
    Empty,
    TooLong { bytes: usize },
    Control { character: char },
    NoName,
    Name { character: char },
    Unclosed,
    NoContent,
    After,
    Unbalanced { character: char },
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let visible = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let shown: String = self.rule.chars().take(80).map(visible).collect();
        let cut = if self.rule.chars().nth(80).is_some() { "…" } else { "" };
        write!(f, "the rule `{shown}{cut}`, character {}: ", self.character() + 1)?;
        match &self.problem {
            RuleProblem::Empty => f.write_str("it is empty; write `Tool` or `Tool(content)`"),
            RuleProblem::TooLong { bytes } => {
                write!(f, "it has {bytes} bytes, at most {LONGEST_RULE} are allowed; use `*`")
            }
            RuleProblem::Control { character } => {
                let code = u32::from(*character);
                write!(
                    f,
                    "it has the control character U+{code:04X}; write it as `\\u{{{code:x}}}`"
                )
            }
            RuleProblem::NoName => {
                f.write_str("there is no name before the `(`; write `Tool(content)`, or `*` for all tools")
            }
            RuleProblem::Name { character } => write!(
                f,
                "a name can't have {character:?}; write one rule for each tool, and what a call is about in parentheses: `Bash(git status)`; in the name of a server or its tool write `_` for it"
            ),
            RuleProblem::Unclosed => f.write_str("this `(` is not closed; end the rule with `)`"),
            RuleProblem::NoContent => {
                f.write_str("there is nothing between the parentheses; write `Tool` for all its calls")
            }
            RuleProblem::After => f.write_str(
                "there is text behind the last `)`; a rule ends with it, and each rule is a text of its own",
            ),
            RuleProblem::Unbalanced { character } => {
                write!(
                    f,
                    "this `{character}` has no partner; write `\\{character}` for the character itself"
                )
            }
        }
    }
}

impl std::error::Error for RuleError {}

/// What stands between the parentheses of `inside`, which begins behind the first one. Places are counted from that one.
fn content(inside: &str) -> Result<&str, (usize, RuleProblem)> {
    let mut open = Vec::new();
    let mut escaped = false;
    let mut end = None;
    for (at, c) in inside.char_indices() {
        if let Some(end) = end {
            // Between here and there was the partner of the first one; a later `)` makes it a mistake in pairs.
            return Err(if inside[end..].contains(')') {
                (end, RuleProblem::Unbalanced { character: ')' })
            } else {
                (at + 1, RuleProblem::After)
            });
        }
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => open.push(at + 1),
            ')' if open.pop().is_none() => end = Some(at + 1),
            _ => {}
        }
    }
    match (end, open.first()) {
        (Some(1), _) => Err((0, RuleProblem::NoContent)),
        (Some(end), _) => Ok(&inside[..end - 1]),
        (None, Some(at)) => Err((*at, RuleProblem::Unbalanced { character: '(' })),
        (None, None) => Err((0, RuleProblem::Unclosed)),
    }
}

/// The beginning of a text, for people.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((cut, _)) => Cow::Owned(format!("{}…", &text[..cut])),
        None => Cow::Borrowed(text),
    }
}

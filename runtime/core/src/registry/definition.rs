//! One description of a tool, wherever it comes from.
//!
//! Answers for the record that admission, the catalogue and every projection work on: from a spec ([`Tool`]), from an
//! upstream server ([`crate::catalogue::Offered`]) or from a host program ([`super::ToolBuilder`]). Leaves out what carries a call
//! out, and the forms that providers read.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use devloop_contract::Tool;
use devloop_contract::projection::in_2020_12;
use devloop_contract::tool::{Effects, Exposure, FailureSpec, Kind, Parallelism, Rule};
use serde_json::{Map, Value};

/// A text that is either part of the program or owned.
pub type Text = Cow<'static, str>;

/// Whose a tool is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Declared by a spec.
    BuiltIn,
    /// Registered by the program that embeds the library.
    Host,
    /// Offered by the upstream server of this name.
    Server(Text),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::Host => f.write_str("registered by the host"),
            Self::Server(name) => write!(f, "offered by the server `{name}`"),
        }
    }
}

/// Whether what a tool says about itself may be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Its author is the product's or the host's.
    Trusted,
    /// It came over the wire: a claim such as `read_only` is the server's own and nobody has checked it.
    Untrusted,
}

/// Which schemas admission takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The portable subset alone; another keyword makes the tool wrong.
    Portable,
    /// Any JSON Schema. What lies outside the subset is judged by the validator and not normalised.
    Open,
}

/// A JSON Schema of 2020-12, as text that is read once or as a value.
#[derive(Clone, Debug)]
pub struct Schema {
    text: Option<Text>,
    value: OnceLock<Result<Value, String>>,
}

impl Schema {
    /// A schema as JSON text, which is read when it is first needed.
    pub const fn of_text(text: &'static str) -> Self {
        Self {
            text: Some(Cow::Borrowed(text)),
            value: OnceLock::new(),
        }
    }

    /// The schema.
    ///
    /// # Errors
    /// A text that is no JSON object, or a schema of an older draft that can't be said in 2020-12.
    pub fn value(&self) -> Result<&Value, &str> {
        let read = || {
            let text = self.text.as_deref().unwrap_or_default();
            match serde_json::from_str(text) {
                Ok(value @ Value::Object(_)) => Ok(value),
                Ok(_) => Err("must be a JSON object".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        };
        self.value.get_or_init(read).as_ref().map_err(String::as_str)
    }

    /// Whether it was made from this text.
    fn is_text(&self, text: &str) -> bool {
        self.text
            .as_deref()
            .is_some_and(|ours| std::ptr::eq(ours, text) || ours == text)
    }
}

/// A schema of whatever draft, which is [translated](in_2020_12).
impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        let value = match value {
            value @ Value::Object(_) => in_2020_12(&value).map_err(|reason| reason.to_string()),
            other => Err(format!("must be a JSON object, got {other}")),
        };
        Self {
            text: None,
            value: value.into(),
        }
    }
}

/// How permissions name a call, as templates over input fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// What is asked for: `Tool` or `Tool(content)`.
    pub signature: Text,
    /// What may be remembered; empty forbids remembering.
    pub rule: Text,
}

/// One example call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// What it shows.
    pub title: Text,
    /// The input, as JSON text.
    pub input: Text,
    /// The answer, as JSON text; empty when there is none.
    pub output: Text,
}

/// What a client may assume about a call. All four are always said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an annotation of the protocol")]
pub struct Hints {
    /// Free of side effects.
    pub read_only: bool,
    /// May remove or replace what cannot be had back.
    pub destructive: bool,
    /// A repeated call changes nothing more.
    pub idempotent: bool,
    /// Reaches beyond the project and this machine.
    pub open_world: bool,
}

/// Everything that is said about one tool.
///
/// Made by [`From<&'static Tool>`](#impl-From<%26Tool>-for-Definition), by [`super::ToolBuilder`] and by
/// [`crate::catalogue::Offered`]. What is changed afterwards is judged when it is
/// [registered](crate::catalogue::Catalogue::register): a host's tool as the builder does, and a spec's tool keeps its names
/// and schemas.
#[doc(alias = "ToolDefinition")]
#[doc(alias = "FunctionDeclaration")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Definition {
    /// The name that agents call, unique over all names and aliases.
    pub name: Text,
    /// Other names of the same tool.
    pub aliases: Vec<Text>,
    /// The human name.
    pub title: Text,
    /// Whose it is.
    pub owner: Owner,
    /// Whether its claims may be relied on.
    pub trust: Trust,
    /// Where it is declared: the spec file, `the host program`, or the server's own name of the tool.
    pub source: Text,
    /// The first sentence of the description.
    pub summary: Text,
    /// What follows the summary.
    pub details: Text,
    /// What a caller should know.
    pub notes: Vec<Text>,
    /// What a caller should beware of.
    pub cautions: Vec<Text>,
    /// The model-facing text: summary, details, rules, notes, cautions.
    pub description: Text,
    /// The permission class.
    pub kind: Kind,
    /// What clients may assume.
    pub hints: Hints,
    /// Whether calls of one session may overlap.
    pub parallelism: Parallelism,
    /// May run beside itself on the same path.
    pub concurrency_safe: bool,
    /// May be replayed automatically after a transient failure.
    pub retry_safe: bool,
    /// Ask providers for strict arguments.
    pub strict: bool,
    /// Shown at once, or after a search.
    pub exposure: Exposure,
    /// Catalogue data.
    pub category: Text,
    /// Catalogue data.
    pub tags: Vec<Text>,
    /// The tool's own semantic version.
    pub version: Text,
    /// How permissions name a call.
    pub permission: Naming,
    /// JSON Pointers of the input fields that name files the call acts on.
    pub affected_paths: Vec<Text>,
    /// JSON Pointers of the input fields that hold project-relative paths.
    pub path_fields: Vec<Text>,
    /// The longest that a call may take.
    pub timeout: Duration,
    /// How many characters of a result a client should show its model, when the tool says so.
    pub largest_result: Option<u64>,
    /// JSON Schema of the input.
    pub input_schema: Schema,
    /// JSON Schema of a success, when the tool has one.
    pub output_schema: Option<Schema>,
    /// Which schemas admission takes.
    pub dialect: Dialect,
    /// Input that the face fixes, merged after validation.
    pub bind: Text,
    /// What the schema cannot say.
    pub rules: Cow<'static, [Rule]>,
    /// What a call touches.
    pub effects: Effects,
    /// The expected failures of its own.
    pub failures: Cow<'static, [FailureSpec]>,
    /// The shared failures that it can have.
    pub common_failures: Vec<Text>,
    /// Example calls.
    pub examples: Vec<Example>,
    /// Annotations as an upstream server sent them.
    pub annotations: Option<Map<String, Value>>,
    built_in: Option<&'static Tool>,
}

/// A tool that touches nothing that the sandbox knows of.
const NO_EFFECTS: Effects = Effects {
    reads: &[],
    writes: &[],
    events: &[],
    host: &[],
};

impl Definition {
    /// A definition that claims nothing: what is not said is what is safest.
    pub(crate) fn bare(name: Text, owner: Owner, trust: Trust, source: Text) -> Self {
        Self {
            aliases: Vec::new(),
            title: name.clone(),
            owner,
            trust,
            source,
            summary: Text::default(),
            details: Text::default(),
            notes: Vec::new(),
            cautions: Vec::new(),
            description: Text::default(),
            kind: Kind::Execute,
            hints: Hints {
                read_only: false,
                destructive: true,
                idempotent: false,
                open_world: true,
            },
            parallelism: Parallelism::Exclusive,
            concurrency_safe: false,
            retry_safe: false,
            strict: false,
            exposure: Exposure::Always,
            category: Text::default(),
            tags: Vec::new(),
            version: Cow::Borrowed("1.0.0"),
            permission: Naming {
                signature: name.clone(),
                rule: name.clone(),
            },
            affected_paths: Vec::new(),
            path_fields: Vec::new(),
            timeout: Duration::from_secs(30),
            largest_result: None,
            input_schema: Schema::of_text(
                r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#,
            ),
            output_schema: None,
            dialect: Dialect::Open,
            bind: Text::default(),
            rules: Cow::Borrowed(&[]),
            effects: NO_EFFECTS,
            failures: Cow::Borrowed(&[]),
            common_failures: Vec::new(),
            examples: Vec::new(),
            annotations: None,
            built_in: None,
            name,
        }
    }

    /// The tool of the spec, when there is one: what typed input is parsed by.
    pub fn built_in(&self) -> Option<&'static Tool> {
        self.built_in
    }

    /// Why the tool is not whose it says it is: a spec's tool has the names and schemas of its spec, and no other is one.
    pub(crate) fn misclaimed(&self) -> Option<String> {
        match (&self.owner, self.built_in) {
            (Owner::BuiltIn, None) => Some(
                "its owner says that a spec declares it, and none does: a host's tool has the owner `Host`".to_owned(),
            ),
            (Owner::BuiltIn, Some(tool)) if !self.is_of(tool) => Some(
                "its names or schemas are no longer those of its spec: declare a tool of your own instead".to_owned(),
            ),
            (Owner::Host | Owner::Server(_), Some(tool)) => {
                Some(format!("{} declares it: its owner stays `BuiltIn`", tool.spec))
            }
            (Owner::BuiltIn, Some(_)) | (Owner::Host | Owner::Server(_), None) => None,
        }
    }

    /// Whether everything that admission reads is as the spec has it.
    fn is_of(&self, tool: &'static Tool) -> bool {
        let same = |ours: &[Text], theirs: &[&str]| ours.iter().map(|text| &**text).eq(theirs.iter().copied());
        self.name == tool.name
            && same(&self.aliases, tool.aliases)
            && self.input_schema.is_text(tool.input_schema)
            && self
                .output_schema
                .as_ref()
                .is_some_and(|schema| schema.is_text(tool.output_schema))
            && self.dialect == Dialect::Portable
            && self.bind == tool.bind
            && *self.rules == *tool.rules
            && same(&self.path_fields, tool.path_fields)
            && same(&self.affected_paths, tool.affected_paths)
    }

    /// The name and the aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.aliases.iter().map(|alias| &**alias))
    }

    /// Who it is, for error texts: `` `echo` (registered by the host) ``.
    pub fn who(&self) -> String {
        match &self.owner {
            Owner::BuiltIn => format!("`{}` ({})", self.name, self.source),
            Owner::Host => format!("`{}` (registered by the host)", self.name),
            Owner::Server(server) => format!("`{}` (`{}` of the server `{server}`)", self.name, self.source),
        }
    }
}

impl From<&'static Tool> for Definition {
    fn from(tool: &'static Tool) -> Self {
        let texts = |list: &[&'static str]| list.iter().map(|text| Cow::Borrowed(*text)).collect();
        Self {
            name: tool.name.into(),
            aliases: texts(tool.aliases),
            title: tool.title.into(),
            owner: Owner::BuiltIn,
            trust: Trust::Trusted,
            source: tool.spec.into(),
            summary: tool.summary.into(),
            details: tool.details.into(),
            notes: texts(tool.notes),
            cautions: texts(tool.cautions),
            description: tool.description.into(),
            kind: tool.kind,
            hints: Hints {
                read_only: tool.read_only_hint(),
                destructive: tool.destructive,
                idempotent: tool.idempotent,
                open_world: tool.open_world,
            },
            parallelism: tool.parallelism,
            concurrency_safe: tool.concurrency_safe,
            retry_safe: tool.retry_safe,
            strict: tool.strict,
            exposure: tool.exposure,
            category: tool.category.into(),
            tags: texts(tool.tags),
            version: tool.version.into(),
            permission: Naming {
                signature: tool.permission.signature.into(),
                rule: tool.permission.rule.into(),
            },
            affected_paths: texts(tool.affected_paths),
            path_fields: texts(tool.path_fields),
            timeout: tool.timeout,
            largest_result: None,
            input_schema: Schema::of_text(tool.input_schema),
            output_schema: Some(Schema::of_text(tool.output_schema)),
            dialect: Dialect::Portable,
            bind: tool.bind.into(),
            rules: tool.rules.into(),
            effects: tool.effects,
            failures: tool.failures.into(),
            common_failures: texts(tool.common_failures),
            examples: tool
                .examples
                .iter()
                .map(|example| Example {
                    title: example.title.into(),
                    input: example.input.into(),
                    output: example.output.into(),
                })
                .collect(),
            annotations: None,
            built_in: Some(tool),
        }
    }
}

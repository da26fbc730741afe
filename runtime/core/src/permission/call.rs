//! One call as permission sees it.
//!
//! Answers for the names by which rules know a tool, for what the call is about, and for the paths that it names. Leaves
//! out what rules say.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use devloop_contract::Tool;
use devloop_contract::tool::Kind;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

use super::address;
use super::glob::Wild;
use super::names::Names;
use super::rule::Rule;
use super::sensitive::sensitive;
use super::signature::{Signature, rule_of, value};
use crate::registry::{Definition, Invocation, Trust};

/// What separates the commands of a shell's line, or makes one out of a text.
const OPERATORS: [char; 10] = [';', '&', '|', '\n', '\r', '`', '(', ')', '<', '>'];

/// A longer content, or one with more commands, is not looked into: it is asked for as if it could be anything.
const LONGEST_CONTENT: usize = 64 * 1024;
const MOST_COMMANDS: usize = 1_000;

/// Fields of an untrusted tool whose texts are looked at as paths: those with one of these in their name.
const PATHLIKE: [&str; 8] = ["path", "file", "dir", "folder", "source", "dest", "target", "uri"];

/// How many paths of a call are followed to the files that they lead to. A call that names more is denied.
pub(super) const MOST_FOLLOWED: usize = 10_000;

/// How deep an untrusted tool's input is searched for paths; JSON that comes as text is no deeper.
const DEEPEST: usize = 128;

/// A call that permission is asked for.
#[derive(Clone, Debug)]
pub struct Call {
    kind: Kind,
    trust: Trust,
    signature: Signature,
    remember: Option<Rule>,
    /// By which rules know the tool.
    names: Names,
    /// Of a tool of the registry that goes on to an upstream server: the names that it would have there.
    reached: Option<Names>,
    affected: Vec<String>,
    /// Paths that an untrusted tool seems to be given.
    suspected: Vec<String>,
    /// Paths of both that lead to a file of another name, with that name.
    links: Vec<(String, String)>,
    /// Whether there were more of them than are followed.
    names_too_many: bool,
    /// Whether it starts programs by a text that a shell would read as more than one command.
    is_compound: bool,
    /// The commands of such a text, roughly: quotes are not heeded.
    commands: Vec<String>,
    /// The content, and those commands, as they could be written as well.
    spelled: Vec<String>,
    /// The content with each reading of the addresses in it, in plain form.
    addresses: Vec<String>,
    /// Whether an address in it takes back a part of itself.
    wanders: bool,
}

impl Call {
    /// The call of an invocation.
    pub fn of(invocation: &Invocation) -> Self {
        Self::new(invocation.definition(), invocation.input(), invocation.affected_paths())
    }

    /// The call of a tool with an input as built, and the paths that it says it acts on.
    pub fn new(tool: &Definition, input: &Value, affected: &[String]) -> Self {
        // A template that can't be filled in names the tool alone, and nothing is remembered.
        let signature = match tool.trust {
            Trust::Trusted => Signature::fill(&tool.permission.signature, input),
            Trust::Untrusted => Ok(Signature::bare(&*tool.name)),
        };
        let remember = match (&signature, tool.trust) {
            (Err(_), _) => None,
            (Ok(_), Trust::Trusted) => rule_of(&tool.permission.rule, input),
            // It can't speak for other tools, only say that it is not to be remembered.
            (Ok(_), Trust::Untrusted) => (!tool.permission.rule.is_empty()).then(|| Rule::tool(&*tool.name)),
        };
        let signature = signature.unwrap_or_else(|_| Signature::bare(&*tool.name));
        let names = Names::of(tool, signature.tool());
        // The registry's own tools that go on to a server name it in their input.
        let text = |field: &str| input.get(field).and_then(Value::as_str);
        let server = text("server").filter(|_| tool.built_in().is_some_and(Tool::is_of_catalog));
        let reached = server.map(|server| Names::of_would_be(server, &tool.name));
        let mut suspected = Vec::new();
        if tool.trust == Trust::Untrusted {
            suspect(input, Named::Otherwise, DEEPEST, &mut suspected);
        }
        // What a server is asked for is looked at as a path would be.
        if let Some(uri) = text("uri").filter(|_| reached.is_some()) {
            let path = path_in(uri);
            // One that is seen as it is written is not told in other words as well.
            let hidden = || {
                address::readings(uri)
                    .into_iter()
                    .find(|path| sensitive(path).is_some())
            };
            let hidden = if sensitive(&path).is_some() { None } else { hidden() };
            suspected.push(path);
            suspected.extend(hidden);
        }
        let is_compound =
            tool.kind == Kind::Execute && signature.content().is_some_and(|content| content.contains(OPERATORS));
        let mut call = Self {
            kind: tool.kind,
            trust: tool.trust,
            signature,
            remember: None,
            names,
            reached,
            affected: affected.to_vec(),
            suspected,
            links: Vec::new(),
            names_too_many: false,
            is_compound,
            commands: Vec::new(),
            spelled: Vec::new(),
            addresses: Vec::new(),
            wanders: false,
        };
        if is_compound {
            call.commands = commands(call.content().unwrap_or_default());
        }
        call.spelled = call.spelled_otherwise();
        if call.is_judged() && call.content().is_some() {
            // Whatever a server is asked for is an address to it.
            let is_address =
                |field: &str, text: &str| (call.reached.is_some() && field == "uri") || address::is_one(text);
            let template = &*tool.permission.signature;
            let (addresses, wanders) = addresses(template, input, is_address);
            (call.addresses, call.wanders) = (addresses, wanders);
        }
        // What doesn't mean this very call would be remembered in vain, or for others.
        call.remember = remember.filter(|rule| rule.loosens(&call));
        call
    }

    /// The call as a client knows it that has our tools under the name of this server: `mcp__<server>__<tool>`. Only rules
    /// that hold back know it so.
    #[must_use]
    pub fn served_by(mut self, server: &str) -> Self {
        self.names.served_by(server);
        if let Some(reached) = &mut self.reached {
            reached.served_by(server);
        }
        self
    }

    /// The call with the files that its paths lead to: `real` says under which other name a path is known, from the project
    /// directory down or absolute. Sensitive files are looked for among these as well. Asked once for each path, and not
    /// at all when the call names none.
    #[must_use]
    pub fn followed(mut self, real: impl Fn(&str) -> Option<String>) -> Self {
        let paths: BTreeSet<&String> = self.affected.iter().chain(&self.suspected).collect();
        self.names_too_many = paths.len() > MOST_FOLLOWED;
        if !self.names_too_many {
            let links = paths.into_iter().filter_map(|path| Some((path.clone(), real(path)?)));
            self.links = links.collect();
        }
        self
    }

    /// The content as it could be written as well, for rules that hold back: a path without its detours, a command with
    /// single blanks and a bare first word.
    fn spelled_otherwise(&self) -> Vec<String> {
        let Some(content) = self.content().filter(|_| self.is_judged()) else {
            return Vec::new();
        };
        let mut spelled = Vec::new();
        if self.kind == Kind::Execute {
            let all = std::iter::once(content).chain(self.commands.iter().map(String::as_str));
            spelled.extend(all.map(plain_command));
        } else {
            spelled.push(plain_path(content));
        }
        spelled.retain(|other| other != content);
        spelled
    }

    /// The tool's permission class.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the tool's claims may be relied on.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// What is asked for.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The rule that may be remembered for it.
    pub fn remember(&self) -> Option<&Rule> {
        self.remember.as_ref()
    }

    /// The paths that it says it acts on.
    pub fn affected_paths(&self) -> &[String] {
        &self.affected
    }

    /// The paths that an untrusted tool seems to be given: it declares none.
    pub fn suspected_paths(&self) -> &[String] {
        &self.suspected
    }

    /// The paths that lead to a file of another name, with that name.
    pub(super) fn links(&self) -> &[(String, String)] {
        &self.links
    }

    /// Whether it names more paths than are followed.
    pub(super) fn names_too_many(&self) -> bool {
        self.names_too_many
    }

    /// Whether an address in its content takes back a part of itself.
    pub(super) fn wanders(&self) -> bool {
        self.wanders
    }

    /// The names for all rules.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.sure()
    }

    /// The names for rules that hold back.
    pub(super) fn all_names(&self) -> impl Iterator<Item = &str> {
        self.names.all().chain(self.reached_names())
    }

    /// Those by which such a rule means the server that the call goes on to.
    fn reached_names(&self) -> impl Iterator<Item = &str> {
        self.reached.iter().flat_map(Names::all)
    }

    pub(super) fn content(&self) -> Option<&str> {
        self.signature.content()
    }

    pub(super) fn is_compound(&self) -> bool {
        self.is_compound
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().chain(&self.spelled).map(String::as_str)
    }

    /// Whether the content is small enough to be held against patterns.
    pub(super) fn is_judged(&self) -> bool {
        self.content().is_none_or(|content| content.len() <= LONGEST_CONTENT) && self.commands.len() <= MOST_COMMANDS
    }
}

/// A path without empty and `.` parts, composed.
fn plain_path(path: &str) -> String {
    let root = if path.starts_with('/') { "/" } else { "" };
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let plain: String = parts.join("/").nfc().collect();
    format!("{root}{plain}")
}

/// A command with single blanks between its words, without what is set before it, its first word without quotes.
fn plain_command(command: &str) -> String {
    let sets = |word: &str| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let mut words = command.split_whitespace().skip_while(|word| sets(word));
    let first: String = words.next().unwrap_or_default().replace(['"', '\'', '\\'], "");
    std::iter::once(first.as_str())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The content of a template with each reading of the addresses that stand in its fields, and whether one of these takes
/// back a part of itself.
fn addresses(template: &str, input: &Value, is_address: impl Fn(&str, &str) -> bool) -> (Vec<String>, bool) {
    let found = RefCell::new(Vec::new());
    // Fields are read once, to know how many readings there are.
    let read = |field: &str| {
        let text = value(input, field);
        let readings = if is_address(field, &text) {
            address::readings(&text)
        } else {
            Vec::new()
        };
        let wanders = !readings.is_empty() && address::wanders(&text);
        found.borrow_mut().push((address::fold(&text), readings, wanders));
        text
    };
    if Signature::fill_with(template, read).is_err() {
        return (Vec::new(), false);
    }
    let found = found.into_inner();
    let many = found.iter().map(|(_, readings, _)| readings.len()).max().unwrap_or(0);
    let mut contents: Vec<String> = Vec::new();
    for number in 0..many {
        let fields = Cell::new(0);
        let reading = |_: &str| {
            let (folded, readings, _) = &found[fields.replace(fields.get() + 1)];
            readings.get(number).or(readings.last()).unwrap_or(folded).clone()
        };
        if let Ok(filled) = Signature::fill_with(template, reading)
            && let Some(content) = filled.content
        {
            let content = address::fold(&content);
            contents.push(address::plain(&content));
            contents.push(content);
        }
    }
    contents.sort_unstable();
    contents.dedup();
    (contents, found.iter().any(|(_, _, wanders)| *wanders))
}

/// One more than are looked at, at most.
fn commands(content: &str) -> Vec<String> {
    let blank = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | '$' | '!' | '"' | '\'');
    content
        .split(OPERATORS)
        .map(|command| command.trim_start_matches(blank).trim_end())
        .filter(|command| !command.is_empty())
        .take(MOST_COMMANDS + 1)
        .map(str::to_owned)
        .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    LikeAPath,
    Otherwise,
}

/// What a rule that holds a call back heeds of its own content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heed {
    /// All of it.
    Content,
    /// Nothing: the tool tells no content.
    EachCall,
    /// Nothing: it means the tools of a server, and these tell none.
    EachCallToServer,
}

/// What rules say of a call.
impl Rule {
    /// Whether it lets the call pass. A `*` in a content never covers a shell's operators in what a program-starting
    /// tool is asked for: `Bash(git *)` is no word about `git log; rm -r x`. Nor does it cover an address with `..`, which
    /// need not lie where it seems to.
    pub fn loosens(&self, call: &Call) -> bool {
        if !self.names_one_of(call.names()) {
            return false;
        }
        let Some(wild) = &self.content else { return true };
        match call.content() {
            Some(content) => {
                let is_clear = wild.is_exact() || !(call.is_compound() || call.wanders);
                call.is_judged() && is_clear && wild.matches(content)
            }
            None => false,
        }
    }

    /// Whether it holds the call back. In doubt it does: it knows the tool by more names, it means each part of a command
    /// line, each reading of an address, a content that the tool does not tell, and one of more than 64 KiB or 1,000
    /// commands. What it says of all
    /// tools of an upstream server it says of every way to that server.
    pub fn tightens(&self, call: &Call) -> bool {
        // What a server's tool is called about is told by none of them, so that any content means them all.
        if self.names_one_of(call.reached_names()) {
            return true;
        }
        if !self.names_one_of(call.names.all()) {
            return false;
        }
        let Some(wild) = &self.content else { return true };
        let Some(content) = call.content() else { return true };
        let means = |text: &str| wild.matches(text) || self.dotless.as_ref().is_some_and(|wild| wild.matches(text));
        let means_address = |plain: &Wild| call.addresses.iter().any(|address| plain.matches(address));
        !call.is_judged()
            || means(content)
            || call.commands().any(means)
            || self.plain.as_ref().is_some_and(means_address)
    }

    /// What such a rule, which holds the call back, heeds of its own content.
    pub(super) fn heeds_content(&self, call: &Call) -> Heed {
        if self.content.is_none() {
            Heed::Content
        } else if self.names_one_of(call.reached_names()) {
            Heed::EachCallToServer
        } else if call.content().is_none() {
            Heed::EachCall
        } else {
            Heed::Content
        }
    }

    /// Whether it speaks of the call and would let it pass, if it were told what the call is about, or what that address
    /// means that the call has.
    pub(super) fn would_loosen(&self, call: &Call) -> bool {
        let Some(wild) = &self.content else { return false };
        let fits = || {
            call.content()
                .is_none_or(|content| call.wanders() && wild.matches(content))
        };
        self.names_one_of(call.names()) && fits()
    }

    /// Whether it has a content, and so means some calls of a tool only. A `(*)` is none.
    pub fn has_content(&self) -> bool {
        self.content.is_some()
    }

    /// Whether its name is, or matches, one of these.
    pub(super) fn names_one_of<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> bool {
        match &self.name {
            Ok(literal) => names.any(|name| name == literal),
            Err(wild) => names.any(|name| wild.matches(name)),
        }
    }
}

/// Whether a text could be a path, whatever the field is called.
fn looks_like_a_path(text: &str) -> bool {
    const LONGEST: usize = 1_024;
    let begins = || {
        ["/", "./", "../", "~", "file:"]
            .iter()
            .any(|start| text.starts_with(start))
    };
    // A sentence has blanks; a path has some too, and then says by its beginning that it is one.
    text.len() <= LONGEST && text.contains(['/', '\\', '~']) && (!text.contains(char::is_whitespace) || begins())
}

/// The path in a text: of a `file:` address without what follows it, and with its escapes read.
fn path_in(text: &str) -> String {
    let Some(address) = text
        .get(..5)
        .filter(|scheme| scheme.eq_ignore_ascii_case("file:"))
        .map(|_| &text[5..])
    else {
        return text.to_owned();
    };
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, more @ ..] = rest {
        let escaped = match more {
            [high, low, ..] if *first == b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low)
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn suspect(value: &Value, named: Named, deeper: usize, found: &mut Vec<String>) {
    match value {
        Value::String(text) if named == Named::LikeAPath || looks_like_a_path(text) => found.push(path_in(text)),
        Value::Array(items) if deeper > 0 => {
            for item in items {
                suspect(item, named, deeper - 1, found);
            }
        }
        Value::Object(fields) if deeper > 0 => {
            for (name, value) in fields {
                let name = name.to_ascii_lowercase();
                let like = named == Named::LikeAPath || PATHLIKE.iter().any(|word| name.contains(word));
                suspect(
                    value,
                    if like { Named::LikeAPath } else { Named::Otherwise },
                    deeper - 1,
                    found,
                );
            }
        }
        _ => {}
    }
}

//! Which servers there are: Claude Code's `mcpServers` JSON.
//!
//! Answers for reading it, for `${VAR}` and `${VAR:-otherwise}` in commands, arguments, environments, addresses and
//! headers (the places and the two forms that <https://code.claude.com/docs/en/mcp> names), and for keeping out of texts
//! what must not be told. Everything that is wrong is told at once; keys that nobody knows are warnings, as each client
//! has some of its own. Leaves out connecting.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use devloop_core::secrets::find_secrets;
use devloop_core::text::nearest;
use serde_json::{Map, Value};

use crate::json::{self, kind};

/// The largest file that is read.
const FILE_BYTES: u64 = 1 << 20;
/// So many keys that stand twice are told.
const MOST_DUPLICATES: usize = 20;
/// The longest name of a server.
const NAME_CHARS: usize = 128;
/// A shorter value is no secret, and hiding it would hide half of a text.
const SECRET_CHARS: usize = 6;

/// What a configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpConfig {
    /// The servers by name.
    pub servers: BTreeMap<String, ServerConfig>,
    /// What was not understood and does no harm.
    pub warnings: Vec<String>,
}

/// How one server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// By which way.
    pub way: Way,
    /// Values that are told to nobody.
    hidden: Vec<Hidden>,
}

/// The way to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A program of this machine, over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<Hidden>,
        /// What is added to its environment.
        env: BTreeMap<String, Hidden>,
    },
    /// An address of streamable HTTP.
    Http {
        /// The address.
        url: Hidden,
        /// Sent with every request.
        headers: BTreeMap<String, Hidden>,
    },
    /// An address of the transport that streamable HTTP has replaced.
    Sse,
}

impl Way {
    /// `stdio`, `http` or `sse`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
            Self::Sse => "sse",
        }
    }
}

/// A text that may have a secret in it: it is shown to nobody by accident.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl ServerConfig {
    /// A program of this machine, for hosts that have no file.
    pub fn stdio(command: impl Into<String>, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            way: Way::Stdio {
                command: command.into(),
                args: args.into_iter().map(Hidden::new).collect(),
                env: BTreeMap::new(),
            },
            hidden: Vec::new(),
        }
    }

    /// A text of the server or about it without what must not be told: values of headers, of variables whose name says
    /// that they are secret, and whatever looks like a key.
    pub fn redacted(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for hidden in &self.hidden {
            if text.contains(&hidden.0) {
                text = text.replace(&hidden.0, "[hidden]");
            }
        }
        for secret in find_secrets(&text).into_iter().rev() {
            text.replace_range(secret.range, "[hidden]");
        }
        text
    }
}

/// Why a configuration can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Which file.
    pub origin: String,
    /// Each with its place. Never empty.
    pub problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} can't be used", self.origin)?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

impl Error for ConfigError {}

impl McpConfig {
    /// Reads a file, with the variables of this process.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let origin = path.display().to_string();
        let wrong = |problem: String| ConfigError {
            origin: origin.clone(),
            problems: vec![problem],
        };
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        // It may be a pipe of a shell, of which nobody knows how much comes.
        let mut text = Vec::new();
        file.take(FILE_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|error| wrong(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES {
            return Err(wrong(format!(
                "it has more than {FILE_BYTES} bytes, and no more are read"
            )));
        }
        Self::parse(&origin, &text, |name| std::env::var(name).ok())
    }

    /// Reads a text; `origin` is where it came from, `variable` gives the value of a variable.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(origin: &str, text: &[u8], variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut reading = Reading {
            variable: &variable,
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        let servers = reading.file(text);
        if reading.problems.is_empty() {
            Ok(Self {
                servers,
                warnings: reading.warnings,
            })
        } else {
            Err(ConfigError {
                origin: origin.to_owned(),
                problems: reading.problems,
            })
        }
    }
}

struct Reading<'v> {
    variable: &'v dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

const STDIO_KEYS: [&str; 4] = ["type", "command", "args", "env"];
const HTTP_KEYS: [&str; 3] = ["type", "url", "headers"];
/// What the names of headers may have beside letters and digits.
const OF_TOKEN: &str = "!#$%&'*+-.^_`|~";
/// Headers that the protocol sets by itself, and whose other values would break it.
const OWN_HEADERS: [&str; 6] = [
    "Accept",
    "Content-Length",
    "Content-Type",
    "Last-Event-Id",
    "Mcp-Session-Id",
    "Transfer-Encoding",
];
const TYPES: [&str; 4] = ["stdio", "http", "streamable-http", "sse"];

impl Reading<'_> {
    fn file(&mut self, text: &[u8]) -> BTreeMap<String, ServerConfig> {
        // Some editors begin every file with a byte order mark.
        let text = text.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(text);
        let (value, duplicates) = match json::parse_finding(text, MOST_DUPLICATES) {
            Ok(read) => read,
            Err(error) => {
                self.problems.push(format!("it is no JSON: {error}"));
                return BTreeMap::new();
            }
        };
        self.problems.extend(duplicates.iter().map(ToString::to_string));
        let Value::Object(root) = value else {
            self.problems
                .push(format!("it must be a JSON object, found {}", kind(&value)));
            return BTreeMap::new();
        };
        for key in root.keys().filter(|key| *key != "mcpServers") {
            self.unknown("", key, &["mcpServers"]);
        }
        let servers = match root.get("mcpServers") {
            Some(Value::Object(servers)) => servers,
            Some(other) => {
                self.problems
                    .push(format!("mcpServers: must be an object, found {}", kind(other)));
                return BTreeMap::new();
            }
            None => {
                self.problems
                    .push("`mcpServers` is missing: an object with one entry for each server".to_owned());
                return BTreeMap::new();
            }
        };
        let mut read = BTreeMap::new();
        for (name, server) in servers {
            let place = format!("mcpServers.{}", name.escape_debug());
            if name.is_empty() || name.chars().count() > NAME_CHARS || name.chars().any(char::is_control) {
                self.problems.push(format!(
                    "{place}: the name must have 1 to {NAME_CHARS} characters without control characters"
                ));
            }
            match server {
                Value::Object(server) => {
                    if let Some(server) = self.server(&place, server) {
                        read.insert(name.clone(), server);
                    }
                }
                other => self
                    .problems
                    .push(format!("{place}: must be an object, found {}", kind(other))),
            }
        }
        read
    }

    fn server(&mut self, place: &str, server: &Map<String, Value>) -> Option<ServerConfig> {
        let (mut named, mut known) = (None, true);
        match server.get("type") {
            None => {}
            Some(Value::String(name)) if TYPES.contains(&name.as_str()) => named = Some(name.as_str()),
            Some(other) => {
                self.problems.push(format!(
                    "{place}.type: expected one of {}, found {}",
                    TYPES.join(", "),
                    shown(other)
                ));
                known = false;
            }
        }
        match (named, server.contains_key("command"), server.contains_key("url")) {
            (Some("stdio"), _, _) | (None, true, false) => self.stdio(place, server),
            (Some("sse"), _, _) => Some(ServerConfig {
                way: Way::Sse,
                hidden: Vec::new(),
            }),
            (Some(_), _, _) | (None, false, true) => self.http(place, server),
            (None, true, true) => {
                if known {
                    self.problems.push(format!(
                        "{place}: has both `command` and `url`; say which counts with `type`"
                    ));
                }
                // Whichever counts, it had better be right.
                let warnings = self.warnings.len();
                self.stdio(place, server);
                self.http(place, server);
                self.warnings.truncate(warnings);
                None
            }
            (None, false, false) => {
                if known {
                    let meant = meant(server, &["command", "url"]);
                    self.problems.push(format!(
                        "{place}: needs `command` (a program) or `url` (an address){meant}"
                    ));
                }
                None
            }
        }
        .filter(|_| known)
    }

    fn stdio(&mut self, place: &str, server: &Map<String, Value>) -> Option<ServerConfig> {
        let mut hidden = Vec::new();
        self.keys(place, server, &STDIO_KEYS);
        let command = self.text(place, "command", server, &mut hidden);
        let args = self.texts(&format!("{place}.args"), server.get("args"), &mut hidden);
        let env = self.table(&format!("{place}.env"), server.get("env"), is_telling, &mut hidden);
        let fits = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
        for name in env.keys().filter(|name| !fits(name)) {
            self.problems
                .push(format!("{place}.env: {name:?} can't be the name of a variable"));
        }
        let command = command?;
        if command.reveal().is_empty() {
            self.problems.push(format!("{place}.command: must not be empty"));
        }
        let way = Way::Stdio {
            command: command.0,
            args,
            env,
        };
        Some(ServerConfig { way, hidden })
    }

    fn http(&mut self, place: &str, server: &Map<String, Value>) -> Option<ServerConfig> {
        let mut hidden = Vec::new();
        self.keys(place, server, &HTTP_KEYS);
        let url = self.text(place, "url", server, &mut hidden);
        let headers = self.table(
            &format!("{place}.headers"),
            server.get("headers"),
            |_| true,
            &mut hidden,
        );
        self.headers(&format!("{place}.headers"), &headers);
        let url = url?;
        self.address(&format!("{place}.url"), &url);
        if let Some((_, query)) = url.0.split_once('?') {
            hide(&mut hidden, query);
        }
        let host = url.0.split_once("://").map_or("", |(_, rest)| rest);
        if let Some((user, _)) = host.split(['/', '?']).next().unwrap_or_default().rsplit_once('@') {
            hide(&mut hidden, user);
        }
        let way = Way::Http { url, headers };
        Some(ServerConfig { way, hidden })
    }

    /// What HTTP says of headers (RFC 9110, 5.1 and 5.5), so that it is not found out at the first request.
    fn headers(&mut self, place: &str, headers: &BTreeMap<String, Hidden>) {
        let mut seen = BTreeMap::new();
        for (name, value) in headers {
            let place = format!("{place}.{}", name.escape_debug());
            if name.is_empty() || !name.bytes().all(is_of_token) {
                self.problems.push(format!(
                    "{place}: can't be the name of a header, which has letters, digits and any of {OF_TOKEN}"
                ));
            }
            if OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
                self.problems
                    .push(format!("{place}: the protocol itself sets this header; leave it out"));
            }
            if let Some(other) = seen.insert(name.to_ascii_lowercase(), name) {
                self.problems
                    .push(format!("{place}: is the same header as `{}`", other.escape_debug()));
            }
            if value.0.chars().any(|c| c != '\t' && c.is_control()) {
                self.problems.push(format!(
                    "{place}: its value has control characters, such as the end of a line"
                ));
            }
        }
    }

    fn address(&mut self, place: &str, url: &Hidden) {
        let Some(rest) = url.0.strip_prefix("http://").or_else(|| url.0.strip_prefix("https://")) else {
            return self
                .problems
                .push(format!("{place}: must begin with http:// or https://"));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (name, port) = match host.rsplit_once(':') {
            // The colons of an address of IPv6 stand in brackets.
            Some((name, port)) if !port.contains(']') => (name, Some(port)),
            _ => (host, None),
        };
        if name.is_empty() {
            self.problems.push(format!("{place}: has no host after `//`"));
        }
        if port.is_some_and(|port| port.parse::<u16>().is_err()) {
            self.problems.push(format!(
                "{place}: what follows the last `:` of its host must be a port, 0 to 65535"
            ));
        }
        if url.0.chars().any(|c| c.is_whitespace() || c.is_control()) {
            self.problems.push(format!(
                "{place}: must have no blanks and no control characters; write them as %20 and the like"
            ));
        }
    }

    fn keys(&mut self, place: &str, server: &Map<String, Value>, known: &[&str]) {
        for key in server.keys().filter(|key| !known.contains(&key.as_str())) {
            self.unknown(place, key, known);
        }
    }

    fn unknown(&mut self, place: &str, key: &str, known: &[&str]) {
        let dot = if place.is_empty() { "" } else { "." };
        let mut warning = format!("{place}{dot}{}: unknown key, ignored", key.escape_debug());
        if let Some(near) = nearest(key, known.iter().copied(), 1).first() {
            warning = format!("{warning}; did you mean `{near}`?");
        }
        self.warnings.push(warning);
    }

    fn text(
        &mut self,
        place: &str,
        key: &str,
        server: &Map<String, Value>,
        hidden: &mut Vec<Hidden>,
    ) -> Option<Hidden> {
        match server.get(key) {
            Some(Value::String(text)) => self.expanded(&format!("{place}.{key}"), text, hidden),
            Some(other) => {
                let found = kind(other);
                self.problems
                    .push(format!("{place}.{key}: must be a string, found {found}"));
                None
            }
            None => {
                let meant = meant(server, &[key]);
                self.problems.push(format!("{place}: `{key}` is missing{meant}"));
                None
            }
        }
    }

    fn texts(&mut self, place: &str, value: Option<&Value>, hidden: &mut Vec<Hidden>) -> Vec<Hidden> {
        let values = match value {
            None => return Vec::new(),
            Some(Value::Array(values)) => values,
            Some(other) => {
                let found = kind(other);
                self.problems
                    .push(format!("{place}: must be an array of strings, found {found}"));
                return Vec::new();
            }
        };
        let mut texts = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let place = format!("{place}[{index}]");
            match value {
                Value::String(text) => texts.extend(self.expanded(&place, text, hidden)),
                other => self
                    .problems
                    .push(format!("{place}: must be a string, found {}", kind(other))),
            }
        }
        texts
    }

    fn table(
        &mut self,
        place: &str,
        value: Option<&Value>,
        hides: impl Fn(&str) -> bool,
        hidden: &mut Vec<Hidden>,
    ) -> BTreeMap<String, Hidden> {
        let values = match value {
            None => return BTreeMap::new(),
            Some(Value::Object(values)) => values,
            Some(other) => {
                let found = kind(other);
                self.problems
                    .push(format!("{place}: must be an object with strings, found {found}"));
                return BTreeMap::new();
            }
        };
        let mut table = BTreeMap::new();
        for (name, value) in values {
            let place = format!("{place}.{}", name.escape_debug());
            let Value::String(text) = value else {
                self.problems
                    .push(format!("{place}: must be a string, found {}", kind(value)));
                continue;
            };
            if let Some(text) = self.expanded(&place, text, hidden) {
                if hides(name) {
                    hide(hidden, &text.0);
                    // `Bearer …`: the word alone would be found in harmless places, the rest alone is the secret.
                    if let Some((_, rest)) = text.0.split_once(' ') {
                        hide(hidden, rest);
                    }
                }
                table.insert(name.clone(), text);
            }
        }
        table
    }

    /// `${VAR}` is replaced by its value, `${VAR:-otherwise}` by the other text when there is none; every other `$`
    /// stands for itself.
    fn expanded(&mut self, place: &str, text: &str, hidden: &mut Vec<Hidden>) -> Option<Hidden> {
        let mut whole = String::with_capacity(text.len());
        let mut rest = text;
        let mut complete = true;
        while let Some(start) = rest.find("${") {
            whole.push_str(&rest[..start]);
            let inside = &rest[start + 2..];
            let Some(end) = inside.find('}') else {
                self.problems.push(format!("{place}: `${{` has no `}}`"));
                return None;
            };
            let (name, otherwise) = match inside[..end].split_once(":-") {
                Some((name, otherwise)) => (name, Some(otherwise)),
                None => (&inside[..end], None),
            };
            rest = &inside[end + 1..];
            if !is_variable(name) {
                self.problems.push(format!(
                    "{place}: `{}` is no name of a variable; write ${{NAME}} or ${{NAME:-otherwise}}",
                    name.escape_debug()
                ));
                complete = false;
                continue;
            }
            match ((self.variable)(name), otherwise) {
                (Some(value), _) => {
                    if is_telling(name) {
                        hide(hidden, &value);
                    }
                    whole.push_str(&value);
                }
                (None, Some(otherwise)) => whole.push_str(otherwise),
                (None, None) => {
                    self.problems.push(format!(
                        "{place}: the variable {name} is not set; set it, or write ${{{name}:-otherwise}}"
                    ));
                    complete = false;
                }
            }
        }
        whole.push_str(rest);
        if whole.contains('\0') {
            self.problems.push(format!("{place}: must not have a NUL character"));
            return None;
        }
        complete.then_some(Hidden(whole))
    }
}

/// Which key of a server may be meant for one that is missing; what else it has is told as a warning only when it can be
/// used.
fn meant(server: &Map<String, Value>, missing: &[&str]) -> String {
    let unknown = server
        .keys()
        .filter(|key| !STDIO_KEYS.contains(&key.as_str()) && !HTTP_KEYS.contains(&key.as_str()));
    let mut meant = unknown.filter_map(|key| Some((key, *nearest(key, missing.iter().copied(), 1).first()?)));
    meant.next().map_or_else(String::new, |(key, missing)| {
        format!("; is `{}` meant to be `{missing}`?", key.escape_debug())
    })
}

fn hide(hidden: &mut Vec<Hidden>, value: &str) {
    let value = value.trim();
    if value.chars().count() >= SECRET_CHARS && !hidden.iter().any(|known| known.0 == value) {
        hidden.push(Hidden(value.to_owned()));
        // The longest first: one secret may be a part of another.
        hidden.sort_by_key(|known| std::cmp::Reverse(known.0.len()));
    }
}

/// Whether a name says that its value must not be told.
fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CRED", "COOKIE", "DSN"]
        .iter()
        .any(|word| name.contains(word))
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || OF_TOKEN.as_bytes().contains(&byte)
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        other => kind(other).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parse(text: &str) -> Result<McpConfig, ConfigError> {
        McpConfig::parse("mcp.json", text.as_bytes(), |name| match name {
            "HOME" => Some("/home/one".to_owned()),
            "API_TOKEN" => Some("abcdef-123".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn both_ways_with_variables() {
        let config = parse(
            r#"{"mcpServers": {
                "fs": {"command": "${HOME}/fs", "args": ["${NONE:-/tmp}", "$HOME", "a${EMPTY}b"], "env": {"API_KEY": "k${API_TOKEN}"}},
                "web": {"type": "http", "url": "https://${HOST:-example.com}/mcp", "headers": {"Authorization": "Bearer ${API_TOKEN}"}},
                "old": {"type": "sse", "url": "https://example.com/sse"}
            }}"#,
        )
        .expect("it fits");
        let Way::Stdio { command, args, env } = &config.servers["fs"].way else {
            panic!()
        };
        assert_eq!(command, "/home/one/fs");
        let args: Vec<_> = args.iter().map(Hidden::reveal).collect();
        assert_eq!(args, ["/tmp", "$HOME", "ab"]);
        assert_eq!(env["API_KEY"].reveal(), "kabcdef-123");
        let Way::Http { url, headers } = &config.servers["web"].way else {
            panic!()
        };
        assert_eq!(url.reveal(), "https://example.com/mcp");
        assert_eq!(headers["Authorization"].reveal(), "Bearer abcdef-123");
        assert_eq!(config.servers["old"].way, Way::Sse);
        assert_eq!(config.warnings, [""; 0]);
    }

    #[test]
    fn everything_wrong_is_told_at_once_with_its_place() {
        let error = parse(
            r#"{"mcpServers": {
                "a": {"command": "x", "args": ["${UNSET}", 3], "env": {"B": "${1X}", "C": "${"}},
                "b": {"type": "pipe"},
                "c": {},
                "d": {"command": "x", "url": "https://x"},
                "e": {"url": "ftp://x"},
                "f": [],
                "g": {"type": "http", "url": 1}
            }}"#,
        )
        .expect_err("it does not fit");
        assert_eq!(
            error.problems,
            [
                "mcpServers.a.args[0]: the variable UNSET is not set; set it, or write ${UNSET:-otherwise}",
                "mcpServers.a.args[1]: must be a string, found a number",
                "mcpServers.a.env.B: `1X` is no name of a variable; write ${NAME} or ${NAME:-otherwise}",
                "mcpServers.a.env.C: `${` has no `}`",
                "mcpServers.b.type: expected one of stdio, http, streamable-http, sse, found \"pipe\"",
                "mcpServers.c: needs `command` (a program) or `url` (an address)",
                "mcpServers.d: has both `command` and `url`; say which counts with `type`",
                "mcpServers.e.url: must begin with http:// or https://",
                "mcpServers.f: must be an object, found an array",
                "mcpServers.g.url: must be a string, found a number",
            ]
        );
        assert!(error.to_string().starts_with("mcp.json can't be used\n- mcpServers.a"));
    }

    #[test]
    fn nothing_hides_what_else_is_wrong_with_a_server() {
        let error = parse(
            r#"{"mcpServers": {
                "a": {"command": 5, "args": "x", "env": {"A": 1, "B=": "x", "=": "y"}},
                "b": {"url": 5, "headers": {"bad name": "x", "": "y", "X-Line": "a\nb", "accept": "*/*", "x-a": "1", "X-A": "2"}},
                "c": {"url": "http://"},
                "d": {"url": "https://me@x:99999/?q"},
                "e": {"url": "http://x/a b"},
                "f": {"url": "http://[::1]:80/mcp", "headers": {"X-Tab": "a\tä", "X-Empty": ""}}
            }}"#,
        )
        .expect_err("it does not fit");
        assert_eq!(
            error.problems,
            [
                "mcpServers.a.command: must be a string, found a number",
                "mcpServers.a.args: must be an array of strings, found a string",
                "mcpServers.a.env.A: must be a string, found a number",
                "mcpServers.a.env: \"=\" can't be the name of a variable",
                "mcpServers.a.env: \"B=\" can't be the name of a variable",
                "mcpServers.b.url: must be a string, found a number",
                "mcpServers.b.headers.: can't be the name of a header, which has letters, digits and any of !#$%&'*+-.^_`|~",
                "mcpServers.b.headers.X-Line: its value has control characters, such as the end of a line",
                "mcpServers.b.headers.accept: the protocol itself sets this header; leave it out",
                "mcpServers.b.headers.bad name: can't be the name of a header, which has letters, digits and any of !#$%&'*+-.^_`|~",
                "mcpServers.b.headers.x-a: is the same header as `X-A`",
                "mcpServers.c.url: has no host after `//`",
                "mcpServers.d.url: what follows the last `:` of its host must be a port, 0 to 65535",
                "mcpServers.e.url: must have no blanks and no control characters; write them as %20 and the like",
            ]
        );
    }

    #[test]
    fn a_wrong_type_or_key_hides_nothing_else() {
        let error = parse(
            r#"{"mcpServers": {
                "a": {"type": "pipe", "command": 5, "env": {"A": 1}},
                "b": {"type": 7, "url": "x"},
                "c": {"command": "", "url": "x", "args": [1], "arg": []},
                "d": {"comand": "x"},
                "e": {"type": "http", "uri": "https://x", "command": "x"},
                "f": {"command": "x", "command": "y", "args": [], "args": []},
                "g": {"type": "pipe"},
                "g": {"type": "stdio", "note": 1}
            }}"#,
        )
        .expect_err("it does not fit");
        assert_eq!(
            error.problems,
            [
                "duplicate key \"command\" in mcpServers.f: every key may be given once",
                "duplicate key \"args\" in mcpServers.f: every key may be given once",
                "duplicate key \"g\" in mcpServers: every key may be given once",
                "mcpServers.a.type: expected one of stdio, http, streamable-http, sse, found \"pipe\"",
                "mcpServers.a.command: must be a string, found a number",
                "mcpServers.a.env.A: must be a string, found a number",
                "mcpServers.b.type: expected one of stdio, http, streamable-http, sse, found a number",
                "mcpServers.b.url: must begin with http:// or https://",
                "mcpServers.c: has both `command` and `url`; say which counts with `type`",
                "mcpServers.c.args[0]: must be a string, found a number",
                "mcpServers.c.command: must not be empty",
                "mcpServers.c.url: must begin with http:// or https://",
                "mcpServers.d: needs `command` (a program) or `url` (an address); is `comand` meant to be `command`?",
                "mcpServers.e: `url` is missing; is `uri` meant to be `url`?",
                "mcpServers.g: `command` is missing",
            ]
        );
    }

    #[test]
    fn what_is_no_configuration_says_so() {
        let problem = |text| parse(text).expect_err("it does not fit").problems.join("|");
        assert!(problem("{").starts_with("it is no JSON"));
        assert_eq!(problem("[]"), "it must be a JSON object, found an array");
        assert_eq!(
            problem(r#"{"mcpServers": 1}"#),
            "mcpServers: must be an object, found a number"
        );
        assert!(problem("{}").starts_with("`mcpServers` is missing"));
        let twice = r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#;
        assert!(
            problem(twice).starts_with("duplicate key \"a\" in mcpServers"),
            "{}",
            problem(twice)
        );
    }

    #[test]
    fn unknown_keys_are_warnings() {
        let config = parse(r#"{"inputs": [], "mcpServers": {"a": {"command": "x", "arg": [], "cwd": "/"}}}"#);
        assert_eq!(
            config.expect("it fits").warnings,
            [
                "inputs: unknown key, ignored",
                "mcpServers.a.arg: unknown key, ignored; did you mean `args`?",
                "mcpServers.a.cwd: unknown key, ignored",
            ]
        );
    }

    #[test]
    fn secrets_are_shown_nowhere() {
        let config = parse(
            r#"{"mcpServers": {
                "a": {"command": "x", "args": ["--token=${API_TOKEN}"], "env": {"DB_PASSWORD": "hunter2hunter2", "MODE": "production"}},
                "b": {"url": "https://x/${API_TOKEN}", "headers": {"X-Any": "Bearer opaque-value"}}
            }}"#,
        )
        .expect("it fits");
        let debug = format!("{config:?}");
        for secret in ["abcdef-123", "hunter2hunter2", "opaque-value"] {
            assert!(!debug.contains(secret), "{debug}");
        }
        let said = config.servers["a"].redacted("production: abcdef-123 and hunter2hunter2 failed");
        assert_eq!(said, "production: [hidden] and [hidden] failed");
        let said = config.servers["b"].redacted("GET https://x/abcdef-123: opaque-value refused");
        assert_eq!(said, "GET https://x/[hidden]: [hidden] refused");
        let config = parse(r#"{"mcpServers": {"a": {"url": "https://me:pass@x/mcp?key=12345678#a"}}}"#);
        let said = config.expect("it fits").servers["a"].redacted("no https://me:pass@x/mcp?key=12345678#a");
        assert_eq!(said, "no https://[hidden]@x/mcp?[hidden]");
    }

    #[test]
    fn a_name_has_128_characters_a_secret_six_and_a_file_a_mebibyte() {
        let named = |length: usize| {
            parse(&format!(
                r#"{{"mcpServers": {{"{}": {{"command": "x"}}}}}}"#,
                "é".repeat(length)
            ))
        };
        assert!(named(128).is_ok());
        let error = named(129).unwrap_err().to_string();
        assert!(error.contains("1 to 128 characters"), "{error}");
        let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"A_TOKEN": "abcdef", "B_TOKEN": "vwxyz"}}}}"#;
        let said = parse(text).unwrap().servers["a"].redacted("abcdef vwxyz");
        assert_eq!(said, "[hidden] vwxyz", "a shorter one would hide words of others");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("mcp.json");
        let text = r#"{"mcpServers": {"a": {"command": "x"}}}"#;
        let blanks = |bytes: usize| fs::write(&file, format!("{text}{}", " ".repeat(bytes - text.len()))).unwrap();
        blanks(1_048_576);
        assert!(McpConfig::read(&file).is_ok());
        blanks(1_048_577);
        let error = McpConfig::read(&file).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        // Neither an end nor a size.
        let error = McpConfig::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        let error = McpConfig::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("s a directory"), "{error}");
    }
}

//! Addresses, and how else they could be written.
//!
//! Answers for what a server could make of an address, so that a rule that holds back one spelling holds back the others.
//! Leaves out what rules say, and what names a host has beside its own.
//!
//! Servers read addresses in many ways: as texts, by one standard or the other, or as paths behind what looks like a
//! scheme. So one address has several readings, and where it is not sure that two are the same they are taken for it:
//! letters are compared without regard to case and in their common form, escapes are read as often as there are any, and
//! `\` separates as `/` does.

use unicode_normalization::UnicodeNormalization as _;

use crate::text::is_invisible;

/// Stands for a `*` of a pattern. No language has the character.
pub(super) const STAR: char = '\u{F0000}';

/// Schemes that are addresses with one slash, or none, as well.
const LENIENT: [&str; 6] = ["file", "http", "https", "ws", "wss", "ftp"];

/// A text that reads like an address: it has a scheme, and `/` after it where the scheme is not a well-known one.
pub(super) fn is_one(text: &str) -> bool {
    const BEGINNING: usize = 200;
    let beginning: String = text.chars().take(BEGINNING).collect();
    // Most texts are none, and this is asked of each.
    if !beginning.contains([':', '\u{FF1A}', '\u{FE55}', '\u{FE13}', '%']) {
        return false;
    }
    let folded = fold(&beginning);
    let (scheme, rest) = parted(&folded);
    !scheme.is_empty() && (rest.starts_with('/') || LENIENT.contains(&scheme.trim_end_matches(':')))
}

/// What a server could take an address for, each in the form of [`plain`].
pub(super) fn readings(address: &str) -> Vec<String> {
    let mut readings = Vec::new();
    let mut add = |reading: String| {
        if !readings.contains(&reading) {
            readings.push(reading);
        }
    };
    let before = |ends: &[char]| address.split(ends).next().unwrap_or_default();
    // Nobody sends a fragment, and a query is not always looked at.
    for address in [address, before(&['#']), before(&['?', '#'])] {
        let folded = fold(address);
        let (scheme, rest) = parted(&folded);
        let path = rest.trim_start_matches('/');
        let (authority, below) = path.split_once('/').unwrap_or((path, ""));
        // The first name can be a host, which `..` never leaves, or that of a directory.
        let host = host(authority, scheme);
        let mut ways = vec![components(path, Vec::new(), Floor::Root)];
        if !host.is_empty() {
            ways.push(components(below, vec![host.as_str()], Floor::Host));
        }
        if rest.starts_with("//") {
            ways.push(components(below, Vec::new(), Floor::Root));
        }
        let is_directory = path
            .rsplit('/')
            .next()
            .is_some_and(|last| Component::of(last) != Component::Name(last.trim()));
        for way in ways {
            let path = way.join("/");
            let end = if is_directory && !path.is_empty() { "/" } else { "" };
            for end in ["", end] {
                add(format!("{scheme}/{path}{end}"));
                if !rest.starts_with('/') {
                    add(format!("{scheme}{path}{end}"));
                }
                // Without a scheme it is a path, and a file's address is one.
                match scheme {
                    "file:" => add(format!("/{path}{end}")),
                    "" => add(format!("file:/{path}{end}")),
                    _ => {}
                }
            }
        }
    }
    readings
}

/// A text that may have an address in it, behind other words, in the one form in which rules are compared.
pub(super) fn plain(text: &str) -> String {
    let folded = fold(text);
    let Some(colon) = folded.find(":/") else {
        let root = if folded.starts_with('/') { "/" } else { "" };
        return format!("{root}{}", components(&folded, Vec::new(), Floor::Root).join("/"));
    };
    let (head, rest) = folded.split_at(colon + 1);
    let path = rest.trim_start_matches('/');
    let scheme = head[..colon]
        .rsplit(|c: char| !is_of_scheme(c))
        .next()
        .unwrap_or_default();
    let components = if rest.len() - path.len() == 2 {
        let (authority, below) = path.split_once('/').unwrap_or((path, ""));
        match host(authority, scheme) {
            host if host == "localhost" && scheme == "file" => components(below, Vec::new(), Floor::Root).join("/"),
            host => components(below, vec![host.as_str()], Floor::Host).join("/"),
        }
    } else {
        components(path, Vec::new(), Floor::Root).join("/")
    };
    format!("{head}/{components}")
}

/// Whether an address takes back a part of itself, so that it need not lie below where it seems to.
pub(super) fn wanders(address: &str) -> bool {
    fold(address)
        .split(['/', '?', '#', ';', '&', '='])
        .any(|part| Component::of(part) == Component::Parent)
}

/// Letters in their common form and in lower case, escapes read, nothing that cannot be seen, `/` alone.
pub(super) fn fold(text: &str) -> String {
    let mut folded = text.to_owned();
    // What is read may be another form of a `%`, but no server reads so on and on.
    for _ in 0..4 {
        let common: String = unescaped(&folded)
            .nfkc()
            .filter(|c| !c.is_control() && !is_invisible(*c))
            .collect();
        let common: String = common
            .to_lowercase()
            .nfkc()
            .map(|c| if c == '\\' { '/' } else { c })
            .collect();
        if common == folded {
            break;
        }
        folded = common;
    }
    folded.trim().to_owned()
}

/// The text with its `%41` read, those too that only come about by that.
fn unescaped(text: &str) -> String {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        bytes.push(byte);
        while let [.., b'%', high, low] = bytes.as_slice()
            && let Some((high, low)) = digit(*high).zip(digit(*low))
        {
            bytes.truncate(bytes.len() - 3);
            bytes.push(high * 16 + low);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

const fn is_of_scheme(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')
}

/// The scheme with its `:`, which may be missing, and what follows. A single letter is a drive.
fn parted(address: &str) -> (&str, &str) {
    let is_scheme = |scheme: &str| {
        scheme.len() > 1 && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_of_scheme)
    };
    let (scheme, rest) = match address.find(':') {
        Some(colon) if is_scheme(&address[..colon]) => address.split_at(colon + 1),
        _ => ("", address),
    };
    (scheme, rest.trim_start())
}

/// The host, without who asks it, without a port that needs no word, and without a last dot.
fn host(authority: &str, scheme: &str) -> String {
    let host = authority.rsplit('@').next().unwrap_or_default();
    let usual = match scheme.trim_end_matches(':') {
        "http" | "ws" => "80",
        "https" | "wss" => "443",
        "ftp" => "21",
        _ => "",
    };
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
            (host, port.trim_start_matches('0'))
        }
        _ => (host, ""),
    };
    let host = host.trim_end_matches('.');
    if port.is_empty() || port == usual {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    }
}

/// How far `..` leads up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Floor {
    Root,
    /// The first component stays.
    Host,
}

#[derive(PartialEq, Eq)]
enum Component<'a> {
    Here,
    Parent,
    Name(&'a str),
}

impl<'a> Component<'a> {
    /// Some systems drop blanks and dots at an end.
    fn of(text: &'a str) -> Self {
        let text = text.trim();
        match text.trim_end_matches([' ', '.']) {
            "" if text.starts_with("..") => Self::Parent,
            "" => Self::Here,
            name => Self::Name(name),
        }
    }
}

/// The components of a path, behind those that are there already.
fn components<'a>(path: &'a str, mut found: Vec<&'a str>, floor: Floor) -> Vec<&'a str> {
    for component in path.split('/') {
        match Component::of(component) {
            Component::Here => {}
            Component::Name(name) => found.push(name),
            // What a `*` stands for may have `/`.
            Component::Parent if found.last().is_some_and(|last| last.contains(STAR)) => found.push(".."),
            Component::Parent if floor == Floor::Host && found.len() == 1 => {}
            Component::Parent => {
                found.pop();
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::permission::tests::own_of_a_server;
    use crate::permission::{Call, Rule};
    use crate::registry::{Definition, Naming, ToolBuilder};

    static READ: LazyLock<&Definition> =
        LazyLock::new(|| own_of_a_server("mcp_resources_read", "mcp_resources_read({server}:{uri})"));

    fn read(server: &str, uri: &str) -> Call {
        Call::new(&READ, &json!({ "server": server, "uri": uri }), &[])
    }

    fn denies(rule: &str, uri: &str) -> bool {
        let rule = Rule::parse(&format!("mcp_resources_read({rule})")).unwrap();
        rule.tightens(&read("my srv", uri))
    }

    const SECRETS: [&str; 34] = [
        "file:///srv/secret/a",
        "FILE:///srv/secret/a",
        "file:/srv/secret/a",
        "file:srv/secret/a",
        "file:////srv/secret/a",
        "file://localhost/srv/secret/a",
        "file://LOCALHOST/srv/secret/a",
        "file://127.0.0.1/srv/secret/a",
        "file://who@else.where:80/srv/secret/a",
        "file:///srv/%73ecret/a",
        "file:///srv/%2573ecret/a",
        "file:///srv/secret%2Fa",
        "file:%2F%2F%2Fsrv/secret/a",
        "file:///srv/./secret/a",
        "file:///srv/%2E/secret/a",
        "file:///srv//secret/a",
        "file:///srv/x/../secret/a",
        "file:///srv/x/%2e%2e/secret/a",
        "file:///srv/x%2f..%2fsecret/a",
        "file:///../../srv/secret/a",
        "file:///srv/secret/a?x",
        "file:///srv/secret/a#x",
        "file:///srv/secret/x/../a/",
        "file:///srv/secret/",
        "file:///srv/SECRET/a",
        "file:///srv/secret /a",
        "file:///srv/secret./a",
        "file:\\\\\\srv\\secret\\a",
        "file:///srv\\secret\\a",
        "file:///srv/se\tcret/a",
        "file:///srv/se\u{200B}cret/a",
        "file:///srv/\u{FF53}ecret/a",
        " file:///srv/secret/a",
        "/srv/secret/a",
    ];

    #[test]
    fn a_deny_rule_means_an_address_however_it_is_written() {
        for rule in [
            "my srv:file:///srv/secret/*",
            "*:file:///srv/secret/*",
            "my srv:FILE:/srv/x/../secret/**",
            "my srv:file://localhost/srv/%73ecret/*",
            "my srv:/srv/secret/*",
        ] {
            for uri in SECRETS {
                assert!(denies(rule, uri), "{rule} {uri:?}");
            }
            for uri in [
                "file:///srv/public/a",
                "file:///srv/secrets/a",
                "file:///x/secret/a",
                "docs://srv/secret/a",
                "file:///srv",
            ] {
                assert!(!denies(rule, uri), "{rule} {uri:?}");
            }
        }
        // One that seems to lie in what is denied is denied as well.
        assert!(denies("my srv:file:///srv/secret/*", "file:///srv/secret/../public"));
        for uri in ["FILE:/x", "file:x", "/x", "File://h/x"] {
            assert!(denies("my srv:file:*", uri), "{uri}");
        }
        assert!(!denies("my srv:file:*", "docs://x") && !denies("other:file:*", "file:///x"));
        for uri in [
            "https://a.b/x",
            "HTTPS://A.B/x",
            "https://a.b:443/x",
            "https://me:pw@a.b:0443/x",
            "https://a.b./x",
            "https:a.b/x",
            "https:/a.b/x",
            "https://a.b/y/../x",
            "https://a.b/../x",
            "https://a.b/x?y#z",
        ] {
            for rule in [
                "my srv:https://a.b/*",
                "my srv:https://a.b/x",
                "my srv:HTTPS://A.b:443/x",
                "my srv:https://*/x",
            ] {
                assert!(denies(rule, uri), "{rule} {uri}");
            }
        }
        assert!(
            denies("my srv:https://a.b:8443/x", "https://A.B:8443/x")
                && !denies("my srv:https://a.b/x", "https://a.b:8443/x")
        );
        assert!(
            denies("my srv:docs://pages/secret/*", "docs://pages/x/../secret/1")
                && denies("my srv:docs://pages/1", "docs:///pages/1")
        );
        assert!(denies("my srv:urn:isbn:1*", "URN:isbn:%31"));
    }

    #[test]
    fn addresses_that_a_hosts_tool_is_given_are_held_back_in_the_same_way() {
        let naming = Naming {
            signature: "Fetch({url})".into(),
            rule: "Fetch({url})".into(),
        };
        let schema = json!({"type": "object", "properties": {"url": {"type": "string"}}});
        let tool = ToolBuilder::new("fetch")
            .summary("Fetches.")
            .input_schema(schema)
            .permission(naming)
            .build()
            .unwrap();
        let denies = |rule: &str, url: &str| {
            Rule::parse(rule)
                .unwrap()
                .tightens(&Call::new(&tool, &json!({ "url": url }), &[]))
        };
        for url in ["https://a.b/x/1", "HTTPS://a.b:443/y/../x/1", "https:\\\\a.b\\x\\1"] {
            assert!(denies("Fetch(https://a.b/x/*)", url), "{url}");
        }
        // Words are no addresses.
        assert!(!denies("Fetch(note*)", "Note: x") && denies("Fetch(Note*)", "Note: x"));
    }

    #[test]
    fn an_allow_rule_heeds_the_plain_form_alone() {
        let allows = |uri: &str| {
            let rule = Rule::parse("mcp_resources_read(my srv:file:///srv/public/*)").unwrap();
            rule.loosens(&read("my srv", uri))
        };
        assert!(allows("file:///srv/public/a") && allows("file:///srv/public/a%20b?x=..y"));
        for uri in [
            "FILE:///srv/public/a",
            "file:/srv/public/a",
            "file:///srv/public/../secret",
            "file:///srv/public/%2e%2E/secret",
            "file:///srv/public/x%2f..%2F../secret",
            "file:///srv/public/..\\secret",
            "file:///srv/public/%252e./secret",
        ] {
            assert!(!allows(uri), "{uri}");
        }
        let whole = Rule::parse("mcp_resources_read(my srv:file:///a/../b)").unwrap();
        assert!(
            whole.loosens(&read("my srv", "file:///a/../b")),
            "what is written out is meant"
        );
    }

    /// One way to write the same file's address in another way.
    fn rewritten(address: &str, way: u8, at: usize) -> String {
        let path = address.trim_start_matches(|c| c != ':').trim_start_matches([':', '/']);
        let slashes: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
        let within = |more: &str| match slashes.get(at % slashes.len().max(1)) {
            Some(slash) => format!("file:///{}{more}{}", &path[..*slash], &path[*slash..]),
            None => address.to_owned(),
        };
        match way {
            0 => format!("FiLe:///{path}"),
            1 => format!("file:/{path}"),
            2 => format!("file://localhost/{path}"),
            3 => within("/."),
            4 => within("/"),
            5 => within("/x/.."),
            6 => address.replace('/', "\\"),
            7 => format!("{address}?q"),
            _ => {
                let letters: Vec<(usize, char)> =
                    path.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric()).collect();
                match letters.get(at % letters.len().max(1)) {
                    Some((place, c)) => {
                        format!(
                            "file:///{}%{:02X}{}",
                            &path[..*place],
                            u32::from(*c),
                            &path[place + 1..]
                        )
                    }
                    None => address.to_owned(),
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DEVLOOP_LONG").is_some() { 50_000 } else { 400 }))]
        #[test]
        fn a_denied_address_is_denied_in_every_spelling(
            below in "[a-z]{1,3}(/[a-z]{1,3}){0,2}",
            ways in prop::collection::vec((0..9_u8, any::<usize>()), 0..5),
            way in 0..9_u8,
            at in any::<usize>(),
        ) {
            let address = ways.into_iter().fold(format!("file:///srv/secret/{below}"), |address, (way, at)| {
                // A host and a query are no part of the path that the others write anew.
                rewritten(&address, if matches!(way, 2 | 7) { 0 } else { way }, at)
            });
            let address = rewritten(&address, way, at);
            prop_assert!(denies("my srv:file:///srv/secret/*", &address), "{}", address);
            prop_assert!(!denies("my srv:file:///srv/public/*", &address), "{}", address);
        }

        #[test]
        fn any_text_is_read_and_what_a_rule_denies_as_written_stays_denied(uri in any::<String>(), other in ".{0,12}") {
            let escaped = read("my srv", &uri).signature().to_string();
            let rule = Rule::parse(&escaped).unwrap();
            prop_assert!(rule.tightens(&read("my srv", &uri)));
            let _ = (readings(&other), plain(&other), wanders(&other));
        }
    }
}

//! The names by which rules know a tool, and by which they know an upstream server.
//!
//! Answers for every spelling: as the tool is served, as its server calls it, as clients write both. Leaves out what rules
//! say. Whoever asks whether a rule means a whole server asks about a tool that the server could have, so that no rule
//! means all tools of a server and not the server.

use unicode_normalization::UnicodeNormalization as _;

use crate::catalogue::names::{prefix, served};
use crate::registry::{Definition, Owner, Text};

/// The name under which clients usually have this server; rules know it without being told.
const SERVED_AS: &str = "devloop";

/// The names of a tool.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// By which every rule knows it.
    sure: Vec<Text>,
    /// By which rules that hold back know it as well: names that another tool could have, too.
    other: Vec<Text>,
    /// Those that a client writes behind the name under which it has us: `mcp__devloop__<name>`.
    served: Vec<Text>,
}

impl Names {
    /// Those of a tool; `asked_as` is its name in what is asked for.
    pub(super) fn of(tool: &Definition, asked_as: &str) -> Self {
        let mut names = match &tool.owner {
            Owner::Server(server) => Self::of_server(server, &tool.source, &tool.name),
            Owner::BuiltIn | Owner::Host => Self::default(),
        };
        for name in tool.names().chain([asked_as]) {
            names.add(Sure::Yes, name.to_owned().into());
            names.serve(name.to_owned().into());
        }
        names.served_by(SERVED_AS);
        names
    }

    /// Those that a server's tool would have that is called so, for rules that hold back.
    pub(super) fn of_would_be(server: &str, tool: &str) -> Self {
        let mut names = Self::of_server(server, tool, &served(server, tool));
        names.served_by(SERVED_AS);
        names
    }

    /// Adds what a client calls it that has our tools under the name of this server.
    pub(super) fn served_by(&mut self, server: &str) {
        for server in [server.to_owned(), spelled(server)] {
            let names: Vec<Text> = self
                .served
                .iter()
                .map(|name| format!("mcp__{server}__{name}").into())
                .collect();
            for name in names.into_iter().chain([format!("mcp__{server}").into()]) {
                self.add(Sure::No, name);
            }
        }
    }

    /// Those for all rules.
    pub(super) fn sure(&self) -> impl Iterator<Item = &str> {
        self.sure.iter().map(|name| &**name)
    }

    /// All of them, for rules that hold back.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.sure.iter().chain(&self.other).map(|name| &**name)
    }

    /// Those that a tool has because it is a server's; it is served as `name`.
    fn of_server(server: &str, tool: &str, name: &str) -> Self {
        let mut names = Self::default();
        let begins = prefix(server);
        for name in [
            name.to_owned(),
            format!("mcp__{name}"),
            format!("mcp__{}", begins.trim_end_matches("__")),
        ] {
            names.add(Sure::Yes, name.into());
        }
        names.serve(name.to_owned().into());
        // The server's own names, as people know them, where they part in one place alone: `a__b` with a tool `c`
        // would read like `a` with `b__c`.
        let parts_once = |text: &str| !text.contains("__") && !text.starts_with('_') && !text.ends_with('_');
        let clear = if parts_once(server) && parts_once(tool) {
            Sure::Yes
        } else {
            Sure::No
        };
        let own = format!("{server}__{tool}");
        // Others have no `a.b` and no blanks, so that two tools can meet in one name as clients write it, and a person
        // does not see of how many characters a letter is made.
        let spellings = [
            (clear, own.clone()),
            (Sure::No, spelled(&own)),
            (Sure::No, own.nfc().collect()),
        ];
        for (sure, own) in spellings {
            names.add(sure, format!("mcp__{own}").into());
            names.serve(own.clone().into());
            names.add(sure, own.into());
        }
        let alone = format!("mcp__{server}");
        names.add(clear, alone.clone().into());
        names.add(Sure::No, spelled(&alone).into());
        names.add(Sure::No, alone.nfc().collect::<String>().into());
        names
    }

    fn add(&mut self, sure: Sure, name: Text) {
        if self.sure.contains(&name) {
            return;
        }
        match sure {
            Sure::Yes => self.sure.push(name),
            Sure::No if self.other.contains(&name) => {}
            Sure::No => self.other.push(name),
        }
    }

    fn serve(&mut self, name: Text) {
        if !self.served.contains(&name) {
            self.served.push(name);
        }
    }
}

/// Whether no other tool has a name.
#[derive(Clone, Copy)]
enum Sure {
    Yes,
    No,
}

/// A name as Claude Code writes it: `_` for every character that its names can't have.
fn spelled(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use devloop_contract::tool::Kind;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::permission::tests::{foreign, own_of_a_server};
    use crate::permission::{Call, Rule};

    /// The registry's own tools that go on to a server.
    static OWN: LazyLock<Vec<&'static Definition>> = LazyLock::new(|| {
        let tools = [
            ("mcp_resources_read", "mcp_resources_read({server}:{uri})"),
            ("mcp_prompt_get", "mcp_prompt_get({server}:{name})"),
            ("mcp_resources_list", "mcp_resources_list"),
            ("mcp_task_cancel", "mcp_task_cancel"),
        ];
        tools.map(|(name, signature)| own_of_a_server(name, signature)).into()
    });

    fn to(own: &Definition, server: &str) -> Call {
        let input = json!({ "server": server, "uri": "x://1", "name": "n", "task_id": "t" });
        Call::new(own, &input, &[]).served_by("shop")
    }

    /// The rules that mean all tools of a server, in each spelling of its name.
    fn of_all(server: &str) -> Vec<Rule> {
        let segment = prefix(server);
        let names = [
            server.to_owned(),
            spelled(server),
            segment.trim_end_matches("__").to_owned(),
        ];
        let written = names
            .iter()
            .filter(|name| name.trim() == name.as_str() && !name.contains('('));
        let forms = written.flat_map(|name| {
            let cut: String = name.chars().take(name.chars().count().div_ceil(2)).collect();
            [
                format!("{name}__*"),
                format!("mcp__{name}"),
                format!("mcp__{name}__*"),
                format!("mcp__{name}__*(x)"),
                format!("mcp__{name}*"),
                format!("mcp__{cut}*"),
                format!("mcp__devloop__{name}__*"),
                format!("mcp__shop__{name}__*"),
                format!("mcp__*__{name}__*"),
            ]
        });
        // A person can write no blank, and after a `(` there is a content.
        forms.filter_map(|text| Rule::parse(&text).ok()).collect()
    }

    #[test]
    fn a_server_that_is_denied_in_any_spelling_is_denied_to_the_registrys_own_tools() {
        for server in [
            "two",
            "my.srv",
            "my docs",
            "a-very-long-name-of-a-server",
            "größe",
            "a__b",
            "mcp",
            "_x_",
            "cafe\u{301}",
        ] {
            let rules = of_all(server);
            assert!(rules.len() >= 18, "{server}");
            let tool = Call::new(&foreign(server, "big", Kind::ReadOnly), &json!({}), &[]).served_by("shop");
            for rule in rules {
                assert!(rule.tightens(&tool), "{rule} is of the tools of {server:?}");
                for own in &*OWN {
                    assert!(
                        rule.tightens(&to(own, server)),
                        "{rule} is of {server:?}, by {}",
                        own.name
                    );
                }
            }
        }
        let read = |server: &str| to(OWN[0], server);
        for text in [
            "two__big",
            "mcp__two__big",
            "mcp__two__b*",
            "mcp__devloop__two__big",
            "tw__*",
            "mcp__tw",
        ] {
            assert!(!Rule::parse(text).unwrap().tightens(&read("two")), "{text}");
        }
        // Nothing of all that lets a call pass.
        for text in ["two__*", "mcp__two", "mcp__devloop__two__*"] {
            assert!(!Rule::parse(text).unwrap().loosens(&read("two")), "{text}");
        }
        // What its own content says goes on to mean this call alone.
        let own = Rule::parse("mcp_resources_read(two:x://2)").unwrap();
        assert!(!own.tightens(&read("two")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("DEVLOOP_LONG").is_some() { 5_000 } else { 200 }))]
        #[test]
        fn a_rule_means_a_server_to_all_or_to_none(
            server in r"[a-c._ -]{1,8}|[a-zA-Z0-9.@/:_ é日-]{1,40}|[^\p{C}]{1,12}",
            tool in r"[a-z][a-z0-9_.-]{2,30}",
        ) {
            let called = Call::new(&foreign(&server, &tool, Kind::ReadOnly), &json!({}), &[]).served_by("shop");
            let ways: Vec<Call> = OWN.iter().map(|own| to(own, &server)).collect();
            for rule in of_all(&server) {
                prop_assert!(rule.tightens(&called), "{} {:?}", rule, server);
                prop_assert!(ways.iter().all(|way| rule.tightens(way)), "{} {:?}", rule, server);
            }
            // One of its tools alone is not the server.
            prop_assume!(OWN.iter().all(|own| own.name != tool));
            let alone = called.all_names().filter(|name| name.ends_with(&tool) && **name != tool);
            for rule in alone.map(Rule::tool) {
                prop_assert!(rule.tightens(&called));
                prop_assert!(!ways.iter().any(|way| rule.tightens(way)), "{} {:?}", rule, server);
            }
        }
    }
}

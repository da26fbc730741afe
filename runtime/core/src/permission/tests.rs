//! Tests of decisions: all of them against a model, and what operators write.

use std::sync::Arc;

use devloop_contract::tool::Kind;
use serde_json::{Value, json};

use super::*;
use crate::catalogue::{Catalogue, Offered};
use crate::registry::{Definition, Naming, ToolBuilder};

fn rule(text: &str) -> Rule {
    Rule::parse(text).unwrap()
}

fn origin(source: Source) -> Origin {
    Origin::new(source, "here")
}

/// A host's tool that is asked for as `Do(<what>)`.
fn own(kind: Kind) -> Arc<Definition> {
    let naming = Naming {
        signature: "Do({what})".into(),
        rule: "Do({what}*)".into(),
    };
    let tool = ToolBuilder::new("do_it").summary("Does it.").kind(kind);
    let tool = tool.input_schema(json!({"type": "object", "properties": {"what": {"type": "string"}}}));
    Arc::new(tool.permission(naming).build().unwrap())
}

/// A tool of an upstream server.
pub(super) fn foreign(server: &str, name: &str, kind: Kind) -> Arc<Definition> {
    let catalogue: Catalogue<()> = Catalogue::new(|_| Ok(()));
    let offered = Offered {
        name: name.to_owned(),
        title: None,
        description: None,
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: json!({"readOnlyHint": kind == Kind::ReadOnly}).as_object().cloned(),
        meta: None,
    };
    catalogue.replace_dynamic(server, vec![offered], |_| ()).unwrap();
    let tool = catalogue.all().into_iter().next().unwrap();
    let mut tool = tool.definition().as_ref().clone();
    tool.kind = kind;
    Arc::new(tool)
}

/// One of the registry's own tools that go on to a server.
pub(super) fn own_of_a_server(name: &'static str, signature: &'static str) -> &'static Definition {
    let permission = devloop_contract::tool::Permission { signature, rule: "" };
    let group = devloop_contract::tool::CATALOG;
    let tool = devloop_contract::Tool {
        group,
        permission,
        ..crate::registry::fixture::tool(name)
    };
    Box::leak(Box::new(Definition::from(&*Box::leak(Box::new(tool)))))
}

fn asked(tool: &Definition, what: &str) -> Call {
    Call::new(tool, &json!({ "what": what }), &[])
}

fn decided(policy: &Policy, call: &Call) -> Decision {
    policy.decide(call, &Memory::default())
}

/// One row of the table of all decisions.
#[derive(Clone, Debug)]
struct Row {
    mode: Mode,
    kind: Kind,
    trust: Trust,
    deny: &'static [Source],
    allow: &'static [Source],
    ask: &'static [Source],
    remembered: bool,
    path: Option<&'static str>,
}

impl Row {
    /// The rules as sentences, one after the other.
    fn model(&self) -> Verdict {
        let level = match self.path {
            Some("id_rsa") => Some(Level::High),
            Some(".npmrc") => Some(Level::Medium),
            _ => None,
        };
        if !self.deny.is_empty() || self.path == Some("../x") || level == Some(Level::High) {
            return Verdict::Deny;
        }
        if self.mode == Mode::Bypass {
            return Verdict::Allow;
        }
        if self.mode == Mode::Plan && self.kind != Kind::ReadOnly {
            return Verdict::Deny;
        }
        let by_mode = self.mode == Mode::AutoEdit && self.kind != Kind::Execute && self.trust == Trust::Trusted;
        let asked_by_others = self.ask.iter().any(|source| *source != Source::Project);
        let projects_alone = self.allow.iter().all(|source| *source == Source::Project);
        let by_rule = !(self.allow.is_empty() || projects_alone && asked_by_others);
        let by_memory = self.remembered && self.ask.is_empty();
        if level != Some(Level::Medium) && (by_mode || by_rule || by_memory) {
            Verdict::Allow
        } else {
            Verdict::Ask
        }
    }
}

#[test]
fn every_decision_is_the_models() {
    const NONE: &[Source] = &[];
    const SOURCES: [&[Source]; 6] = [
        NONE,
        &[Source::Template],
        &[Source::Host],
        &[Source::User],
        &[Source::Project],
        &[Source::Project, Source::User],
    ];
    let paths = [
        None,
        Some("src/a"),
        Some("a.db"),
        Some(".npmrc"),
        Some("id_rsa"),
        Some("../x"),
    ];
    let mut rows = 0_usize;
    let mut seen = [0_usize; 3];
    for trust in [Trust::Trusted, Trust::Untrusted] {
        for kind in [Kind::ReadOnly, Kind::Write, Kind::Execute] {
            let tool = match trust {
                Trust::Trusted => own(kind),
                Trust::Untrusted => foreign("server", "tool", kind),
            };
            let named = rule(&tool.name);
            for path in paths {
                let affected: Vec<String> = path.into_iter().map(str::to_owned).collect();
                let call = Call::new(&tool, &json!({"what": "x"}), &affected);
                for mode in Mode::ALL {
                    for deny in [NONE, &[Source::Template], &[Source::User], &[Source::Project]] {
                        for allow in SOURCES {
                            for ask in SOURCES {
                                let mut policy = Policy::new(mode);
                                for (list, sources) in [(List::Deny, deny), (List::Allow, allow), (List::Ask, ask)] {
                                    for source in sources {
                                        policy.add(list, named.clone(), origin(*source));
                                        policy.add(list, rule("other(x)"), origin(*source));
                                    }
                                }
                                for remembered in [false, true] {
                                    let mut memory = Memory::default();
                                    if remembered {
                                        memory.remember(named.clone());
                                    }
                                    let row = Row {
                                        mode,
                                        kind,
                                        trust,
                                        deny,
                                        allow,
                                        ask,
                                        remembered,
                                        path,
                                    };
                                    let decision = policy.decide(&call, &memory);
                                    assert_eq!(decision.verdict, row.model(), "{row:?}\n{decision:?}");
                                    let asks_by_default =
                                        decision.verdict == Verdict::Ask && decision.basis == Basis::Default;
                                    let may_remember = asks_by_default && path != Some(".npmrc");
                                    assert_eq!(decision.remember.is_some(), may_remember, "{row:?}\n{decision:?}");
                                    assert_eq!(
                                        decision.sensitive.len(),
                                        usize::from(matches!(path, Some("a.db" | ".npmrc" | "id_rsa")))
                                    );
                                    rows += 1;
                                    seen[decision.verdict as usize] += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    assert_eq!(rows, 2 * 3 * 6 * 4 * 4 * 6 * 6 * 2);
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
}

#[test]
fn a_remembered_answer_is_what_makes_the_next_call_pass() {
    let tool = own(Kind::Write);
    let policy = Policy::new(Mode::Default);
    let mut memory = Memory::default();
    let first = policy.decide(&asked(&tool, "a*"), &memory);
    memory.remember(first.remember.unwrap());
    assert_eq!(memory.rules().next().unwrap().text(), r"Do(a\**)");
    for (what, verdict) in [("a*", Verdict::Allow), ("a*b", Verdict::Allow), ("ab", Verdict::Ask)] {
        let decision = policy.decide(&asked(&tool, what), &memory);
        assert_eq!(decision.verdict, verdict, "{decision}");
    }
    assert_eq!(memory.forget(r"Do(a\**)"), Forgotten::Known);
    assert_eq!(memory.forget(r"Do(a\**)"), Forgotten::Unknown);
    assert_eq!(policy.decide(&asked(&tool, "a*"), &memory).verdict, Verdict::Ask);
}

#[test]
fn memory_is_bounded_and_forgets_the_oldest() {
    assert_eq!((MOST_REMEMBERED, LONGEST_RULE), (256, 4_096), "as documented");
    let mut memory = Memory::default();
    for n in 0..=MOST_REMEMBERED {
        memory.remember(rule(&format!("T({n})")));
    }
    memory.remember(rule("T(5)"));
    assert_eq!(memory.rules().len(), MOST_REMEMBERED);
    assert_eq!(memory.rules().next().unwrap().text(), "T(1)");
    assert_eq!(memory.rules().last().unwrap().text(), "T(5)");
    memory.clear();
    assert_eq!(memory.rules().len(), 0);
}

#[test]
fn an_empty_rule_or_an_empty_field_forbids_remembering() {
    let with = |rule: &'static str, input: Value| {
        let naming = Naming {
            signature: "Do({what})".into(),
            rule: rule.into(),
        };
        let tool = ToolBuilder::new("do_it").summary("Does it.").permission(naming);
        let text = json!({"type": "string"});
        let tool = tool.input_schema(json!({"type": "object", "properties": {"what": text, "dir": text}}));
        let call = Call::new(&tool.build().unwrap(), &input, &[]);
        decided(&Policy::default(), &call).remember.map(|rule| rule.to_string())
    };
    assert_eq!(with("", json!({"what": "a"})), None);
    assert_eq!(with("Do({dir}*)", json!({"what": "a"})), None);
    // It would not mean the call that was asked for.
    assert_eq!(with("Do(b*)", json!({"what": "a"})), None);
    assert_eq!(with("Other(*)", json!({"what": "a"})), None);
    assert_eq!(with("Do", json!({"what": "a"})).as_deref(), Some("Do"));
    assert_eq!(with("do_it", json!({"what": "a"})).as_deref(), Some("do_it"));
}

#[test]
fn a_template_that_is_wrong_names_the_tool_alone() {
    let naming = Naming {
        signature: "Do({what".into(),
        rule: "Do".into(),
    };
    let refused = ToolBuilder::new("do_it").summary("Does it.").permission(naming.clone());
    let problems = refused.build().unwrap_err().to_string();
    assert!(problems.contains("must end with `)`"), "{problems}");
    let mut tool = own(Kind::Write).as_ref().clone();
    tool.permission = naming;
    let call = asked(&tool, "x");
    assert_eq!(
        (call.signature().to_string().as_str(), call.remember()),
        ("do_it", None)
    );
}

#[test]
fn hooks_tighten_and_never_loosen() {
    for first in Verdict::ALL {
        for second in Verdict::ALL {
            let both = first.tightened(second);
            assert_eq!(both, second.tightened(first));
            assert!(both >= first && both >= second && (both == first || both == second));
            for third in Verdict::ALL {
                assert_eq!(both.tightened(third), first.tightened(second.tightened(third)));
            }

            let mode = [Mode::Bypass, Mode::Default, Mode::Plan][first as usize];
            let before = decided(&Policy::new(mode), &asked(&own(Kind::Write), "x"));
            assert_eq!(before.verdict, first);
            let after = before.clone().tightened(second, "lint", "it is late");
            assert_eq!(after.verdict, both);
            if second > first {
                assert_eq!(after.basis, Basis::Hook { name: "lint".into() });
                assert!(after.reason.contains("the hook `lint` says so: it is late") && after.remember.is_none());
            } else if (first, second) == (Verdict::Ask, Verdict::Ask) {
                assert_eq!(after.basis, before.basis);
                assert!(after.reason.ends_with("; the hook `lint` asks, too: it is late") && after.remember.is_none());
                assert_eq!(
                    after.clone().tightened(second, "lint", "it is late"),
                    after,
                    "said once"
                );
            } else {
                assert_eq!(after, before);
            }
        }
    }
}

#[test]
fn a_project_cannot_loosen_what_its_user_wants_to_be_asked() {
    let call = asked(&own(Kind::Write), "x");
    let with = |allow: Source, ask: Source| {
        let policy = Policy::new(Mode::Default)
            .with(List::Allow, rule("Do"), origin(allow))
            .with(List::Ask, rule("Do"), origin(ask));
        decided(&policy, &call).verdict
    };
    assert_eq!(with(Source::Project, Source::User), Verdict::Ask);
    assert_eq!(with(Source::Project, Source::Host), Verdict::Ask);
    assert_eq!(with(Source::Project, Source::Project), Verdict::Allow);
    assert_eq!(with(Source::User, Source::Project), Verdict::Allow);
    assert_eq!(with(Source::User, Source::User), Verdict::Allow);
}

#[test]
fn grants_are_allow_rules_of_the_template() {
    let mut policy = Policy::new(Mode::Default);
    policy.grant("pm", ["do_it"]);
    let decision = decided(&policy, &asked(&own(Kind::Execute), "a; b"));
    assert_eq!(decision.verdict, Verdict::Allow);
    assert_eq!(
        decision.to_string(),
        r"`Do(a; b)` is allowed by the allow rule `do_it` of the agent's template (pm)"
    );
}

#[test]
fn a_content_too_large_to_look_into_is_held_back_by_every_rule_and_passed_by_none() {
    let tool = own(Kind::Execute);
    let many = "b; ".repeat(1_001);
    for what in ["a".repeat(64 * 1024 + 1), many] {
        let call = asked(&tool, &what);
        for text in ["Do(a*)", "Do(b*)", "Do(x)"] {
            assert!(!rule(text).loosens(&call) && rule(text).tightens(&call), "{text}");
        }
        assert!(rule("Do").loosens(&call) && !rule("Other(x)").tightens(&call));
    }
    let fits = asked(&tool, &"a".repeat(64 * 1024));
    assert!(rule("Do(a*)").loosens(&fits) && !rule("Do(x)").tightens(&fits));
    assert!(!rule("Do(x)").tightens(&asked(&tool, &"b; ".repeat(1_000))));
}

/// Rules as people write them for Claude Code, and what they mean here.
#[test]
fn pasted_rules_mean_what_their_authors_expect() {
    let shell = |command: &str| {
        let naming = Naming {
            signature: "Bash({command})".into(),
            rule: "Bash".into(),
        };
        let tool = ToolBuilder::new("bash")
            .summary("Runs it.")
            .input_schema(json!({"type": "object", "properties": {"command": {"type": "string"}}}))
            .kind(Kind::Execute)
            .permission(naming);
        Call::new(&tool.build().unwrap(), &json!({ "command": command }), &[])
    };
    for (text, yes, no) in [
        ("Bash", &["x", "a; b"][..], &[][..]),
        ("Bash(*)", &["x", "a; b"], &[]),
        (
            "Bash(npm run build)",
            &["npm run build"],
            &["npm run build --x", "npm run"],
        ),
        (
            "Bash(npm run test:*)",
            &["npm run test", "npm run test -- x", "npm run test:unit"],
            &["npm run tests"],
        ),
        ("Bash(ls *)", &["ls", "ls -la"], &["lsof"]),
        ("Bash(ls*)", &["ls", "lsof"], &["l"]),
        (
            "Bash(git * main)",
            &["git push origin main"],
            &["git push origin main2"],
        ),
        (
            "Bash(git log*)",
            &["git log"],
            &[
                "git log; rm x",
                "git log && rm x",
                "git log\nrm x",
                "git log $(rm x)",
                "git log > x",
                "git log `rm`",
            ],
        ),
        ("Bash(a; b)", &["a; b"], &["a; c"]),
    ] {
        for command in yes {
            assert!(rule(text).loosens(&shell(command)), "{text} should allow {command:?}");
            assert!(rule(text).tightens(&shell(command)), "{text} should deny {command:?}");
        }
        for command in no {
            assert!(
                !rule(text).loosens(&shell(command)),
                "{text} should not allow {command:?}"
            );
        }
    }
    for command in [
        "rm x",
        "git log; rm x",
        "a && rm x",
        "a\n rm x",
        "a $(rm x)",
        "a | { rm x; }",
        "`rm x`",
        "a & rm x",
    ] {
        assert!(rule("Bash(rm *)").tightens(&shell(command)), "{command:?}");
    }
    assert!(!rule("Bash(rm *)").tightens(&shell("git rm x")));
    // `./` in a rule that holds back also means a path without.
    let edit = |path: &str| {
        let naming = Naming {
            signature: "Edit({path})".into(),
            rule: "Edit".into(),
        };
        let tool = ToolBuilder::new("edit")
            .summary("Edits.")
            .input_schema(json!({"type": "object", "properties": {"path": {"type": "string"}}}))
            .kind(Kind::Write)
            .permission(naming);
        Call::new(&tool.build().unwrap(), &json!({ "path": path }), &[])
    };
    assert!(rule("Edit(./.env)").tightens(&edit(".env")) && rule("Edit(./.env)").tightens(&edit("./.env")));
    assert!(!rule("Edit(./.env)").loosens(&edit(".env")));
    assert!(rule("Edit(src/**/*.ts)").loosens(&edit("src/a.ts")) && rule("Edit(src/**)").loosens(&edit("src/a/b;c")));
}

#[test]
fn a_server_s_tools_are_known_by_all_their_names() {
    let github = foreign("github", "create_issue", Kind::Execute);
    let call = asked(&github, "x");
    for text in [
        "github__create_issue",
        "mcp__github__create_issue",
        "mcp__github__*",
        "mcp__github",
        "github__*",
        "mcp__github__create_*",
        "*__create_issue",
        "*",
        "mcp__github__create_issue(*)",
    ] {
        assert!(rule(text).loosens(&call) && rule(text).tightens(&call), "{text}");
    }
    for text in [
        "mcp__git__*",
        "mcp__git",
        "mcp__githu",
        "create_issue",
        "mcp__github__create",
        "MCP__github",
    ] {
        assert!(!rule(text).loosens(&call) && !rule(text).tightens(&call), "{text}");
    }
    assert!(rule("mcp__devloop__github__create_issue").tightens(&call));
    assert!(!rule("mcp__devloop__github__create_issue").loosens(&call));

    // A name too long to be served as it is; people write the server's own.
    let long = asked(&foreign("github", "search_repositories_by_topic", Kind::Execute), "x");
    assert!(rule("mcp__github__search_repositories_by_topic").loosens(&long));
    // What could be another server's tool loosens nothing.
    let odd = asked(&foreign("a", "b__c", Kind::Execute), "x");
    assert!(!rule("mcp__a__b__c").loosens(&odd) && rule("mcp__a__b__c").tightens(&odd));
    assert!(!rule("mcp__a__b__*").loosens(&odd));
}

#[test]
fn an_untrusted_tool_cannot_speak_for_another() {
    let mut tool = foreign("server", "tool", Kind::ReadOnly).as_ref().clone();
    tool.permission = Naming {
        signature: "Bash({what})".into(),
        rule: "Bash(*)".into(),
    };
    let call = asked(&tool, "x");
    assert_eq!(call.signature().to_string(), "server__tool");
    assert_eq!(call.remember().unwrap().text(), "server__tool");
    assert!(!rule("Bash").loosens(&call));
}

#[test]
fn a_deny_rule_with_a_content_holds_a_tool_back_that_tells_none() {
    let call = asked(&foreign("server", "tool", Kind::Execute), "x");
    let with = |list| {
        decided(
            &Policy::new(Mode::Default).with(list, rule("server__tool(y*)"), origin(Source::User)),
            &call,
        )
    };
    assert_eq!(with(List::Deny).verdict, Verdict::Deny);
    assert!(matches!(with(List::Ask).basis, Basis::Rule { list: List::Ask, .. }));
    assert_eq!(with(List::Allow).basis, Basis::Default);
    // Each says that the content is not heeded, and by whom.
    let not_told = "rules are not told what its calls are about";
    assert!(with(List::Deny).reason.ends_with(&format!(
        "; {not_told}, so that deny rules with a content mean each of them"
    )));
    assert!(with(List::Ask).reason.ends_with(&format!(
        "; {not_told}, so that ask rules with a content mean each of them"
    )));
    let reason = with(List::Allow).reason;
    let end = format!(
        "; the allow rule `server__tool(y*)` of your settings (here) does not count: {not_told}, so that one with a content allows none"
    );
    assert!(reason.ends_with(&end), "{reason}");
    // Where there is nothing to be said nothing is.
    for text in ["server__tool", "server__tool(*)"] {
        let policy = Policy::new(Mode::Default).with(List::Deny, rule(text), origin(Source::User));
        assert!(decided(&policy, &call).reason.ends_with("(here)"));
    }
    for text in ["other__tool(y*)", "Do(y*)"] {
        let policy = Policy::new(Mode::Default).with(List::Allow, rule(text), origin(Source::User));
        assert!(
            decided(&policy, &call).reason.ends_with("no rule speaks of it"),
            "{text}"
        );
    }
    let policy = Policy::new(Mode::Default).with(List::Deny, rule("Do(x*)"), origin(Source::User));
    assert!(
        decided(&policy, &asked(&own(Kind::Write), "x"))
            .reason
            .ends_with("(here)")
    );

    let read = own_of_a_server("mcp_resources_read", "mcp_resources_read({server}:{uri})");
    let read = |uri: &str| Call::new(read, &json!({ "server": "docs", "uri": uri }), &[]);
    let policy = Policy::new(Mode::Default).with(List::Deny, rule("docs__*(y*)"), origin(Source::User));
    let reason = decided(&policy, &read("x://y")).reason;
    assert!(reason.ends_with("rules are not told what calls of a server's tools are about, so that deny rules with a content mean each of them"), "{reason}");
    let allow = rule("mcp_resources_read(docs:x://a/*)");
    let policy = Policy::new(Mode::Default).with(List::Allow, allow, origin(Source::User));
    let reason = decided(&policy, &read("x://a/../b")).reason;
    assert!(
        reason.ends_with("does not count: a `*` does not cover an address with `..`"),
        "{reason}"
    );
}

#[test]
fn sensitive_files_are_seen_through_links_and_paths_are_followed_once_each() {
    let tool = foreign("fs", "read", Kind::ReadOnly);
    let followed = |input: Value, affected: &[String]| {
        let asked = std::cell::RefCell::new(Vec::new());
        let call = Call::new(&tool, &input, affected).followed(|path| {
            asked.borrow_mut().push(path.to_owned());
            (path == "k").then(|| "keys/id_rsa".to_owned())
        });
        (decided(&Policy::new(Mode::Bypass), &call), asked.into_inner())
    };
    let (decision, asked) = followed(
        json!({ "path": "k", "paths": ["k", "a", "k"] }),
        &["k".to_owned(), "b".to_owned()],
    );
    assert_eq!(decision.verdict, Verdict::Deny);
    assert_eq!(
        decision.reason,
        "`fs__read` is denied: \"k\" leads to \"keys/id_rsa\", which is sensitive (high): `**/id_rsa`, private keys"
    );
    assert_eq!(
        serde_json::to_value(&decision.sensitive).unwrap()[0]["leads_to"],
        "keys/id_rsa"
    );
    assert_eq!(asked, ["a", "b", "k"]);
    let (decision, asked) = followed(json!({ "text": "k", "number": 1 }), &[]);
    assert_eq!((decision.verdict, asked.len()), (Verdict::Allow, 0));
    // More than are followed could lead anywhere.
    let many = |paths: usize| json!({ "paths": (0..paths).map(|number| format!("p{number}")).collect::<Vec<_>>() });
    let (decision, asked) = followed(many(10_000), &[]);
    assert_eq!((decision.verdict, asked.len()), (Verdict::Allow, 10_000));
    let (decision, asked) = followed(many(10_001), &[]);
    assert_eq!((decision.basis, asked.len()), (Basis::TooManyPaths, 0));
    assert_eq!(decision.verdict, Verdict::Deny);
}

#[test]
fn an_untrusted_tools_input_is_searched_for_paths_as_deep_and_in_texts_as_long_as_documented() {
    let tool = foreign("fs", "read", Kind::ReadOnly);
    let found = |input: Value| Call::new(&tool, &input, &[]).suspected_paths().len();
    let nested = |levels: usize| (0..levels).fold(json!("a/b"), |inner, _| json!([inner]));
    assert_eq!((found(nested(128)), found(nested(129))), (1, 0));
    let text = |bytes: usize| json!({ "text": format!("/{}", "a".repeat(bytes - 1)) });
    assert_eq!((found(text(1_024)), found(text(1_025))), (1, 0));
    // A field that is called like one holds a path however long it is.
    let path = json!({ "path": "a".repeat(2_000) });
    assert_eq!(found(path), 1);
}

#[test]
fn people_are_shown_the_first_200_characters_of_a_call() {
    let tool = own(Kind::Execute);
    let shown = |length: usize| decided(&Policy::new(Mode::Default), &asked(&tool, &"é".repeat(length))).signature;
    // With `Do(` and `)`.
    assert_eq!(shown(196), format!("Do({})", "é".repeat(196)));
    assert_eq!(shown(197), format!("Do({}…", "é".repeat(197)));
    assert_eq!(shown(100_000), format!("Do({}…", "é".repeat(197)));
}

#[test]
fn sensitive_files_are_found_in_what_an_untrusted_tool_is_given() {
    let tool = foreign("fs", "read", Kind::ReadOnly);
    let verdict = |mode: Mode, input: Value| decided(&Policy::new(mode), &Call::new(&tool, &input, &[])).verdict;
    for input in [
        json!({"path": "/home/x/.ssh/id_rsa"}),
        json!({"Paths": ["a", "x/.aws/credentials"]}),
        json!({"edits": [{"filePath": "a.pem"}]}),
        json!({"source": {"any": [["file:///root/.kube/config"]]}}),
    ] {
        assert_eq!(verdict(Mode::Bypass, input.clone()), Verdict::Deny, "{input}");
    }
    // It may lie anywhere: the server has its own directories.
    assert_eq!(verdict(Mode::Bypass, json!({"path": "/tmp/../x"})), Verdict::Allow);
    assert_eq!(
        verdict(Mode::Bypass, json!({"text": ".ssh/id_rsa is a path"})),
        Verdict::Allow
    );
    assert_eq!(verdict(Mode::Bypass, json!({"path": ".env"})), Verdict::Allow);
    assert_eq!(verdict(Mode::Default, json!({"path": ".env"})), Verdict::Ask);
}

#[test]
fn wrong_rules_are_told_with_their_place_and_what_to_write() {
    for (text, character, expected) in [
        ("", 0, "write `Tool`"),
        ("   ", 3, "write `Tool`"),
        ("(git status)", 0, "no name before the `(`"),
        ("Bash git status", 4, "can't have ' '"),
        ("  Bash git", 6, "can't have ' '"),
        ("Bash, Read", 4, "one rule for each tool"),
        ("Bash)", 4, "can't have ')'"),
        ("Bash(", 4, "is not closed"),
        ("Bash(git", 4, "is not closed"),
        ("Bash(git \\)", 4, "is not closed"),
        ("Bash()", 4, "write `Tool` for all its calls"),
        ("Bash(a) b", 7, "behind the last `)`"),
        ("Bash(a), Read(b)", 6, "no partner"),
        ("Bash(echo :))", 11, "write `\\)`"),
        ("Bash((a)", 4, "is not closed"),
        ("Bash((a", 5, "write `\\(`"),
        ("Bash(a\nb)", 6, "write it as `\\u{a}`"),
        ("é(\u{7})", 2, "U+0007"),
    ] {
        let error = Rule::parse(text).unwrap_err();
        assert!(error.to_string().contains(expected), "{text:?}: {error}");
        assert_eq!(error.character(), character, "{text:?}: {error}");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }
    assert!(Rule::parse(&"x".repeat(LONGEST_RULE)).is_ok());
    let long = Rule::parse(&"x".repeat(LONGEST_RULE + 1)).unwrap_err().to_string();
    assert!(long.contains("4097 bytes") && long.len() < 300, "{long}");
    assert_eq!(rule("Bash(echo (a) \\( b)").text(), "Bash(echo (a) \\( b)");
}

#[test]
fn a_decision_says_why_to_people_and_to_programs() {
    let call = |what: &str| asked(&own(Kind::Write), what);
    let policy = Policy::new(Mode::Default).with(
        List::Deny,
        rule("Do(rm*)"),
        Origin::new(Source::Project, "devloop.toml:4"),
    );
    let decision = decided(&policy, &call("rm\n-r"));
    assert_eq!(
        decision.reason,
        r"`Do(rm\u{a}-r)` is denied by the deny rule `Do(rm*)` of the project's settings (devloop.toml:4)"
    );
    assert_eq!(
        serde_json::to_value(&decision).unwrap(),
        json!({
            "verdict": "deny",
            "basis": {
                "by": "rule", "list": "deny", "rule": "Do(rm*)",
                "origin": {"source": "project", "place": "devloop.toml:4"},
            },
            "reason": decision.reason,
            "signature": r"Do(rm\u{a}-r)",
        })
    );
    let affected = ["../x".to_owned()];
    let told = |mode: Mode, paths: &[String]| {
        decided(
            &Policy::new(mode),
            &Call::new(&own(Kind::Write), &json!({"what": "x"}), paths),
        )
        .reason
    };
    assert_eq!(
        told(Mode::Bypass, &affected),
        "`Do(x)` is denied: the path \"../x\" may lead out of the project: it has a `..` component; write a path from the \
         project directory down, with `/`"
    );
    assert_eq!(
        told(Mode::Plan, &[]),
        "`Do(x)` is denied: the mode is `plan`, in which nothing is changed"
    );
    assert_eq!(
        told(Mode::Default, &[]),
        "`Do(x)` needs a person's permission: no rule speaks of it"
    );
    assert_eq!(
        told(Mode::Bypass, &["k/a.pem".to_owned()]),
        "`Do(x)` is denied: \"k/a.pem\" is sensitive (high): `**/*.pem`, private keys"
    );
    assert!(decided(&policy, &call(&"x".repeat(10_000))).reason.len() < 400);
}

#[test]
fn rules_that_mean_no_tool_are_told() {
    let tools = [own(Kind::Write), foreign("github", "create_issue", Kind::Execute)];
    let mut policy = Policy::default();
    for text in [
        "Do(x*)",
        "do_it",
        "mcp__github",
        "mcp__devloop__do_it",
        "Bash(x)",
        "mcp__git__*",
    ] {
        policy.add(List::Allow, rule(text), origin(Source::User));
        policy.add(List::Deny, rule(text), origin(Source::User));
    }
    let idle: Vec<String> = policy
        .idle(tools.iter().map(|tool| &**tool))
        .map(|(list, rule, _)| format!("{} {rule}", list.as_str()))
        .collect();
    assert_eq!(
        idle,
        [
            "allow mcp__devloop__do_it",
            "allow Bash(x)",
            "allow mcp__git__*",
            "deny Bash(x)",
            "deny mcp__git__*"
        ]
    );
}

#[test]
fn what_an_idle_rule_could_have_meant_is_told() {
    let tools = [own(Kind::Write), foreign("github", "create_issue", Kind::Execute)];
    let meant = |list, text: &str| Policy::meant(list, &rule(text), tools.iter().map(|tool| &**tool));
    for (text, name) in [
        ("DO_IT", "do_it"),
        ("do_itt", "do_it"),
        ("mcp__github__create_isue", "mcp__github__create_issue"),
        ("GitHub__*", "github__*"),
        ("MCP__GitHub__*(x)", "mcp__github__*(x)"),
    ] {
        assert_eq!(meant(List::Deny, text).as_deref(), Some(name), "{text}");
    }
    assert_eq!(meant(List::Allow, "mcp__devloop__do_it").as_deref(), Some("do_it"));
    for text in ["gitlab__*", "something_else_entirely", "Zebra*"] {
        assert_eq!(meant(List::Deny, text), None, "{text}");
    }
}

#[test]
fn a_rule_that_holds_back_knows_a_servers_tool_by_every_spelling_of_its_name() {
    for (server, source, names) in [
        ("docs", "we ird", vec!["mcp__docs__we_ird", "docs__we_ird"]),
        ("docs", "b__c", vec!["mcp__docs__b__c", "docs__b__c"]),
        (
            "docs",
            "a.b",
            vec!["mcp__docs__a.b", "docs__a.b", "mcp__docs__a_b", "docs__a_b"],
        ),
        (
            "my docs",
            "x",
            vec!["mcp__my_docs", "mcp__my_docs__x", "my_docs__x", "mcp__my_docs__*"],
        ),
        (
            "docs",
            "größe",
            vec!["mcp__docs__größe", "docs__größe", "mcp__docs__gr__e"],
        ),
    ] {
        let tool = foreign(server, source, Kind::Execute);
        for name in names {
            for list in [List::Deny, List::Ask] {
                let policy = Policy::new(Mode::Bypass).with(list, rule(name), origin(Source::User));
                let call = Call::new(&tool, &json!({}), &[]);
                let held = policy.rules(list).next().unwrap().0.tightens(&call);
                assert!(held, "{list:?} {name} of {server:?} {source:?}");
                assert_eq!(policy.idle([&*tool]).count(), 0, "{name}");
            }
            let policy = Policy::new(Mode::Bypass).with(List::Deny, rule(name), origin(Source::User));
            let decision = decided(&policy, &Call::new(&tool, &json!({}), &[]));
            assert_eq!(decision.verdict, Verdict::Deny, "{name}");
        }
    }
    // What only clients write so could be another tool as well, so that it lets nothing pass.
    let call = Call::new(&foreign("docs", "a.b", Kind::Execute), &json!({}), &[]);
    assert!(!rule("docs__a_b").loosens(&call) && rule("docs__a.b").loosens(&call));
}

#[test]
fn modes_have_words_and_an_order() {
    for mode in Mode::ALL {
        assert_eq!(Mode::parse(mode.as_str()), Some(mode));
        assert_eq!(mode.stricter(Mode::Plan), Mode::Plan);
        assert_eq!(mode.stricter(Mode::Bypass), mode);
    }
    assert_eq!(Mode::parse("acceptEdits"), None);
}

proptest::proptest! {
    /// What the generator lets into a template can be read here.
    #[test]
    fn every_rule_that_specs_may_have_is_one(text in r"[a-zA-Z_*-]{1,4}(\([a-z ()\\\\*é]{0,12}\))?") {
        if devloop_contract::agent::is_rule(&text) {
            proptest::prop_assert!(Rule::parse(&text).is_ok(), "{}", text);
        }
    }
}

#[test]
fn a_deny_rule_means_a_path_however_it_is_written_and_a_command_however_it_is_spaced() {
    let tool = |name: &'static str, kind: Kind| {
        let schema = serde_json::json!({
            "type": "object", "properties": { "it": { "type": "string" } }, "required": ["it"],
            "additionalProperties": false,
        });
        let naming = crate::registry::Naming {
            signature: format!("{name}({{it}})").into(),
            rule: "".into(),
        };
        let tool = crate::registry::ToolBuilder::new(name).summary("Acts.").kind(kind);
        tool.permission(naming).input_schema(schema).build().unwrap()
    };
    let (edit, bash) = (tool("Edit", Kind::Write), tool("Bash", Kind::Execute));
    let denied = |tool: &crate::registry::Definition, rule: &str, it: &str| {
        Rule::parse(rule)
            .unwrap()
            .tightens(&Call::new(tool, &serde_json::json!({ "it": it }), &[]))
    };
    for path in ["secret/x", "./secret/x", ".//secret/x", "secret//x", "secret/./x"] {
        assert!(denied(&edit, "Edit(secret/**)", path), "{path}");
    }
    assert!(denied(&edit, "Edit(a.txt)", "a.txt/"));
    assert!(denied(&edit, "Edit(é)", "e\u{301}"));
    assert!(!denied(&edit, "Edit(secret/**)", "other/secret/x"));
    for command in [
        "rm x",
        "rm\tx",
        "'rm' x",
        "\"rm\" x",
        "\\rm x",
        "A=1 rm x",
        "ls; 'rm'  x",
    ] {
        assert!(denied(&bash, "Bash(rm *)", command), "{command}");
    }
    assert!(!denied(&bash, "Bash(rm *)", "ls rm"));
}

#[test]
fn what_an_untrusted_tool_is_given_is_looked_at_whatever_the_field_is_called() {
    let offered = serde_json::json!({ "name": "fetch", "inputSchema": { "type": "object" } });
    let catalogue = crate::catalogue::Catalogue::new(|_| Ok(()));
    let offered = vec![serde_json::from_value(offered).unwrap()];
    catalogue.replace_dynamic("web", offered, |_| ()).unwrap();
    let entry = catalogue.get("web__fetch").unwrap();
    for text in [
        "file:///root/.ssh/id_rsa",
        "file:///root/%2essh/id_rsa?x#y",
        "/root/.ssh/id_rsa",
        "~/.ssh/id_rsa",
    ] {
        let input = serde_json::json!({ "location": [text] });
        let call = Call::new(entry.definition(), &input, &[]);
        let decision = Policy::new(Mode::Bypass).decide(&call, &Memory::default());
        assert_eq!(decision.verdict, Verdict::Deny, "{text}");
    }
}

//! Rules of hosts, settings and templates, and the mode.

use super::*;

#[test]
fn a_deny_rule_wins_in_every_mode_and_plan_hides_and_denies_what_changes_something() {
    let fixture = Fixture::new();
    for mode in Mode::ALL {
        let session = fixture.session(Kind::ReadOnly, |builder| {
            builder
                .mode(mode)
                .rule(List::Allow, rule("echo"), "test")
                .rule(List::Deny, rule("echo(secret*)"), "test")
        });
        assert_eq!(code(&fixture.echo(&session, "secrets")), "permission_denied", "{mode}");
        assert!(
            matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)),
            "{mode}"
        );
    }
    let session = fixture.session(Kind::Write, |builder| {
        builder.mode(Mode::Plan).rule(List::Allow, rule("echo"), "test")
    });
    assert_eq!(code(&fixture.echo(&session, "hello")), "permission_denied");
    let is_listed = |session: &Session| session.tools(Listing::Every).iter().any(|tool| tool.name == "echo");
    assert!(!is_listed(&session));
    let (before, changes) = (session.revision(), session.changes().unwrap());
    session.set_mode(Mode::Default);
    assert!(is_listed(&session));
    assert!(session.revision() > before);
    let mut changes = changes;
    let stop = tokio_util::sync::CancellationToken::new();
    assert!(fixture.runtime.block_on(changes.settled(&stop)), "faces are told");
    assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)));
}

#[test]
fn a_denied_server_is_not_reached_through_the_registrys_own_tools() {
    let fixture = Fixture::new();
    let hashed = |server: &str| devloop_core::catalogue::names::prefix(server);
    for (server, denied) in [
        ("docs", "mcp__docs".to_owned()),
        ("docs", "mcp__docs__*".to_owned()),
        ("docs", "docs__*".to_owned()),
        ("docs", "mcp__devloop__docs__*".to_owned()),
        ("my.srv", "my.srv__*".to_owned()),
        ("my.srv", "mcp__my_srv".to_owned()),
        ("my.srv", "my_srv__*".to_owned()),
        ("my.srv", "mcp__my_srv__*".to_owned()),
        ("my.srv", format!("{}*", hashed("my.srv"))),
        ("my.srv", format!("mcp__{}*", hashed("my.srv"))),
        ("my.srv", format!("mcp__devloop__{}*", hashed("my.srv"))),
    ] {
        let session = fixture.session(Kind::ReadOnly, |builder| {
            builder.rule(List::Deny, rule(&denied), "test")
        });
        let asked = |tool: &str, server: &str, more: &[(&str, &str)]| {
            let mut input = object(json!({ "server": server }));
            input.extend(more.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
            let outcome = fixture.call(&session, tool, Value::Object(input));
            code(&outcome).to_owned()
        };
        for (tool, more) in [
            ("mcp_resources_read", &[("uri", "docs://pages/1")][..]),
            ("mcp_resources_list", &[]),
            ("mcp_prompts_list", &[]),
            ("mcp_prompt_get", &[("name", "a")]),
            ("mcp_task_get", &[("task_id", "a")]),
            ("mcp_task_cancel", &[("task_id", "a")]),
            ("mcp_task_list", &[]),
        ] {
            assert_eq!(asked(tool, server, more), "permission_denied", "{denied} {tool}");
            assert_eq!(asked(tool, "other", more), "unknown_server", "{denied} {tool}");
        }
    }
    // What it is asked for is looked at like a path.
    let session = fixture.session(Kind::ReadOnly, |builder| builder.mode(Mode::Bypass));
    let input = json!({ "server": "files", "uri": "file:///root/.ssh/id_rsa" });
    let outcome = fixture.call(&session, "mcp_resources_read", input);
    assert_eq!(code(&outcome), "permission_denied", "{outcome:?}");
}

#[test]
fn a_rule_holds_a_tool_back_by_the_name_under_which_clients_have_this_server() {
    let config = devloop_runtime::config::Config {
        server_name: "shop".to_owned(),
        ..devloop_runtime::config::Config::default()
    };
    let project = TestProject::with(config, |project| project);
    let session = builder(&project)
        .rule(List::Deny, rule("mcp__shop__write_todolist"), "test")
        .build()
        .unwrap();
    let explained = session
        .explain("write_todolist", object(json!({ "items": [] })))
        .unwrap();
    assert_eq!(explained.decision.verdict, Verdict::Deny);
}

#[test]
fn an_explanation_says_what_would_be_and_runs_nothing() {
    let fixture = Fixture::new();
    let session = fixture.session(Kind::Execute, |builder| {
        builder.hook(Says::before("guard", Before::Deny(String::new())))
    });
    let explanation = session.explain("echo", object(json!({ "text": "hello" }))).unwrap();
    assert_eq!(explanation.decision.verdict, Verdict::Ask);
    assert_eq!(explanation.hooks, ["guard"]);
    assert!(explanation.sandbox.is_none());
    assert_eq!(explanation.turn.kind, "execute");
    let own = session
        .explain("write_todolist", object(json!({ "items": [] })))
        .unwrap();
    assert_eq!(own.decision.verdict, Verdict::Allow);
    assert!(own.decision.reason.contains("template"), "{}", own.decision.reason);
    let touches = own.sandbox.unwrap();
    assert!(touches.writes.iter().any(|path| path.contains("pm")), "{touches:?}");
    assert!(matches!(
        *session.explain("ehco", Map::new()).unwrap_err(),
        CallOutcome::UnknownTool { .. }
    ));
    assert!(matches!(
        *session.explain("echo", Map::new()).unwrap_err(),
        CallOutcome::Invalid(_)
    ));
    assert_eq!(fixture.ran(), 0);
}

/// The PM under another policy.
fn pm_with(policy: devloop_contract::agent::Policy) -> &'static devloop_contract::Agent {
    let agent = devloop_contract::Agent {
        policy,
        ..AgentId::Pm.agent().clone()
    };
    Box::leak(Box::new(agent))
}

const SAYS_NOTHING: devloop_contract::agent::Policy = devloop_contract::agent::Policy {
    mode: "",
    allow: &[],
    ask: &[],
    deny: &[],
    hooks: &[],
};

const NOT_ME: [devloop_contract::agent::Hook; 1] = [devloop_contract::agent::Hook {
    event: "pre_tool_use",
    calls: "*",
    command: &["sh", "-c", "echo not me >&2; exit 2"],
    timeout: Duration::from_secs(20),
}];

#[test]
fn a_templates_policy_counts_and_its_mode_is_never_loosened() {
    let fixture = Fixture::new();
    let session = |policy, adjust: &dyn Fn(SessionBuilder) -> SessionBuilder| {
        let catalogue = empty_catalogue();
        let (tool, runner) = echo(Kind::Execute, &fixture.calls);
        catalogue.register(tool.build().unwrap(), runner).unwrap();
        let agent = pm_with(policy);
        let identity = identify(agent, fixture.project.path(), Given::default(), None).unwrap();
        let builder = Session::builder(Arc::clone(fixture.project.project()), agent, identity);
        adjust(builder.tools(&catalogue)).build()
    };
    let plain = |policy| session(policy, &|builder| builder).unwrap();
    let allows = plain(devloop_contract::agent::Policy {
        allow: &["echo(hello)"],
        deny: &["echo(no*)"],
        ..SAYS_NOTHING
    });
    assert!(matches!(fixture.echo(&allows, "hello"), CallOutcome::Success(_)));
    assert!(reason(&fixture.echo(&allows, "no")).contains("template"));
    assert_eq!(
        code(&fixture.echo(&allows, "other")),
        "permission_denied",
        "asked, and nobody is there"
    );
    let hooked = plain(devloop_contract::agent::Policy {
        allow: &["echo"],
        hooks: &NOT_ME,
        ..SAYS_NOTHING
    });
    assert!(reason(&fixture.echo(&hooked, "hello")).contains("not me"));
    for (mode, given, expected) in [
        ("plan", Mode::Bypass, Mode::Plan),
        ("auto_edit", Mode::Bypass, Mode::AutoEdit),
        ("auto_edit", Mode::Default, Mode::Default),
        ("", Mode::Bypass, Mode::Bypass),
    ] {
        let policy = devloop_contract::agent::Policy { mode, ..SAYS_NOTHING };
        let session = session(policy, &|builder| builder.mode(given)).unwrap();
        assert_eq!(session.mode(), expected, "{mode} {given}");
        session.set_mode(given);
        assert_eq!(session.mode(), expected, "{mode} {given}, later");
    }
    let wrong = session(
        devloop_contract::agent::Policy {
            deny: &["echo("],
            ..SAYS_NOTHING
        },
        &|builder| builder,
    );
    let error = wrong.unwrap_err().to_string();
    assert!(error.contains("the policy of the template devloop-pm"), "{error}");
}

#[test]
fn the_policies_of_all_templates_can_be_read() {
    let project = TestProject::new();
    for agent in AgentId::ALL {
        project.session(*agent);
    }
}

//! Which tools a session has, shows and finds.

use super::*;

#[test]
fn lists_leave_tools_out_whatever_the_rules_say() {
    let fixture = Fixture::new();
    let only = fixture.session(Kind::ReadOnly, |builder| {
        builder
            .mode(Mode::Bypass)
            .only([rule("write_*"), rule("echo")])
            .without([rule("ec*")])
    });
    let names: Vec<_> = only
        .tools(Listing::Every)
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(names, ["write_todolist"]);
    let outcome = fixture.echo(&only, "hello");
    assert_eq!(code(&outcome), "tool_left_out");
    assert!(
        reason(&outcome).contains("this session is without `ec*`"),
        "{outcome:?}"
    );
    let outcome = fixture.call(&only, "record_memory", json!({}));
    assert!(reason(&outcome).contains("not among the tools"), "{outcome:?}");
    assert!(matches!(
        fixture.call(&only, "write_todolist", json!({ "items": [] })),
        CallOutcome::Success(_)
    ));
}

#[test]
fn a_hosts_tool_may_not_have_the_name_of_a_granted_one() {
    let project = TestProject::new();
    let catalogue = empty_catalogue();
    let tool = ToolBuilder::new("write_todolist")
        .summary("Takes its place.")
        .build()
        .unwrap();
    catalogue
        .register(tool, Runner::of(|_| async { Ok(json!({})) }))
        .unwrap();
    let error = builder(&project).tools(&catalogue).build().unwrap_err().to_string();
    assert!(
        error.contains("registered by the host") && error.contains("write_todolist.yaml"),
        "{error}"
    );
}

#[test]
fn a_deferred_tool_is_found_shown_and_told_of_and_runs_without_all_that() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let (tool, runner) = echo(Kind::ReadOnly, &fixture.calls);
    let tool = tool.exposure(Exposure::Deferred).build().unwrap();
    catalogue.register(tool, runner).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .build()
        .unwrap();
    let shown = || session.tools(Listing::Shown).iter().any(|tool| tool.name == "echo");
    assert!(!shown());
    assert!(
        session.instructions().contains("<available-deferred-tools>\necho\n"),
        "{}",
        session.instructions()
    );
    assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)));
    let changes = session.catalogue().subscribe();
    let CallOutcome::Success(found) = fixture.call(&session, "tool_search", json!({ "query": "select:echo,ehco" }))
    else {
        panic!("a search succeeds");
    };
    assert_eq!(found["loaded"], json!(["echo"]));
    assert_eq!(found["tools"][0]["input_schema"]["required"], json!(["text"]));
    assert_eq!(found["unknown"], json!([{ "name": "ehco", "nearest": ["echo"] }]));
    assert!(shown());
    assert_eq!(*changes.try_recv().unwrap().loaded, ["echo"]);
}

#[test]
fn what_lists_leave_out_is_not_found_either() {
    let fixture = Fixture::new();
    let session_of = |kind: Kind, adjust: &dyn Fn(SessionBuilder) -> SessionBuilder| {
        let catalogue = empty_catalogue();
        let (tool, runner) = echo(kind, &fixture.calls);
        let tool = tool.exposure(Exposure::Deferred).build().unwrap();
        catalogue.register(tool, runner).unwrap();
        adjust(builder(&fixture.project).tools(&catalogue)).build().unwrap()
    };
    let session = |adjust: &dyn Fn(SessionBuilder) -> SessionBuilder| session_of(Kind::ReadOnly, adjust);
    let without = session(&|builder| builder.without([rule("echo")]));
    let CallOutcome::Success(found) = fixture.call(&without, "tool_search", json!({ "query": "echo again" })) else {
        panic!("a search succeeds");
    };
    assert_eq!((&found["tools"], &found["loaded"]), (&json!([]), &json!([])));
    assert!(!without.instructions().contains("\necho\n"));
    let CallOutcome::UnknownTool { nearest, .. } = fixture.call(&without, "ehco", json!({})) else {
        panic!("there is no such tool");
    };
    assert_eq!(nearest, [] as [&str; 0]);
    // Without a search all that is permitted is shown.
    let alone = session(&|builder| builder.only([rule("echo")]));
    let shown: Vec<_> = alone
        .tools(Listing::Shown)
        .iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(shown, ["echo"]);
    // The tool that searches names what there is, and the phase counts.
    let plain = session_of(Kind::Execute, &|builder| builder);
    let search = || {
        let tools = plain.tools(Listing::Shown);
        tools
            .iter()
            .find(|tool| tool.name == "tool_search")
            .unwrap()
            .description
            .to_string()
    };
    assert!(search().contains("<available-deferred-tools>\necho\n"), "{}", search());
    // Without upstream servers nothing reaches them.
    assert!(!search().contains("mcp_task_cancel"));
    plain.set_mode(Mode::Plan);
    assert!(!search().contains("echo") && !plain.instructions().contains("echo"));
}

#[test]
fn of_many_deferred_tools_the_search_names_as_many_as_8192_characters_hold_and_counts_the_others() {
    let described = |names: &[String]| {
        let fixture = Fixture::new();
        let catalogue = empty_catalogue();
        let tools = names.iter().map(|name| {
            let tool = ToolBuilder::new(name.clone()).summary("Is one of many.");
            let runner = Runner::of(|_| async { Ok(json!({})) });
            (tool.exposure(Exposure::Deferred).build().unwrap(), runner)
        });
        catalogue.register_all(tools).unwrap();
        let session = builder(&fixture.project).tools(&catalogue).build().unwrap();
        let tools = session.tools(Listing::Shown);
        let search = tools.iter().find(|tool| tool.name == "tool_search").unwrap();
        let (_, listing) = search.description.split_once("<available-deferred-tools>\n").unwrap();
        listing.strip_suffix("</available-deferred-tools>").unwrap().to_owned()
    };
    // Each with its line end has 50 characters; there are 27 before them and 27 behind.
    let mut names: Vec<String> = (0..162).map(|n| format!("t{n:048}")).collect();
    let lines = |names: &[String]| {
        names
            .iter()
            .map(|name| format!("{name}\n"))
            .collect::<Vec<_>>()
            .concat()
    };
    assert_eq!(described(&names), lines(&names));
    // The last name has room, what ends the listing has none.
    names.push(format!("u{:048}", 0));
    assert_eq!(described(&names), lines(&names));
    names.push(format!("v{:048}", 0));
    names.push(format!("w{:048}", 0));
    assert_eq!(described(&names), format!("{}… and 2 more\n", lines(&names[..163])));
}

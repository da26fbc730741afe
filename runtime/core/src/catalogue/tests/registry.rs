//! Registering, finding, listing, searching, forking, telling.

use std::sync::Arc;

use devloop_contract::Tool;
use devloop_contract::tool::Kind;
use serde_json::{Value, json};

use crate::catalogue::testing::{catalogue, deferred, host, names, offered, texts, tool_search};
use crate::catalogue::{Catalogue, Cause, Maximum, Phase};
use crate::registry::{Definition, Owner, Schema, fixture};

static ECHO: Tool = Tool {
    aliases: &["say"],
    tags: &["text", "loud"],
    category: "words",
    ..fixture::tool("echo")
};

#[test]
fn registering_a_taken_name_names_both_owners_in_either_order() {
    let built_in_first = catalogue();
    built_in_first.register(&ECHO, ()).unwrap();
    let error = built_in_first.register(host("echo").build().unwrap(), ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tool name `echo` has two owners: `echo` (specs/tools/test/fixture.yaml) and `echo` (registered by the host); \
         rename one of them"
    );
    let built_in_last = catalogue();
    built_in_last.register(host("echo").build().unwrap(), ()).unwrap();
    let error = built_in_last.register(&ECHO, ()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`echo` (registered by the host) and `echo` (specs/")
    );
    assert_eq!(names(&built_in_last.all()), ["echo"], "listed once");
}

#[test]
fn aliases_are_names_too() {
    let catalogue = catalogue();
    catalogue.register(&ECHO, ()).unwrap();
    for taken in [
        host("say").build().unwrap(),
        host("other").alias("echo").build().unwrap(),
        host("other").alias("say").build().unwrap(),
    ] {
        let error = catalogue.register(taken, ()).unwrap_err();
        assert_eq!(error.conflicts.len(), 1, "{error}");
    }
    assert_eq!(catalogue.stats().tools, 1);
}

#[test]
fn a_dynamic_tool_never_shadows_a_built_in_nor_the_other_way_round() {
    static SEAM: Tool = fixture::tool("git__status");
    let first = catalogue();
    first.register(&SEAM, ()).unwrap();
    let refused = first.replace_dynamic("git", vec![offered("status"), offered("log")], |_| ());
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("`git__status` (specs/tools/test/fixture.yaml)"), "{text}");
    assert!(text.contains("`git__status` (`status` of the server `git`)"), "{text}");
    assert_eq!(names(&first.all()), ["git__status"]);
    let last = catalogue();
    last.replace_dynamic("git", vec![offered("status")], |_| ()).unwrap();
    let error = last.register(&SEAM, ()).unwrap_err();
    assert!(error.to_string().contains("`status` of the server `git`"), "{error}");
}

#[test]
fn register_all_adds_all_or_none_and_reports_every_error() {
    let catalogue = catalogue();
    catalogue.register(&ECHO, ()).unwrap();
    let batch = || ["a", "echo", "b", "a", "say"].map(|name| (host(name).build().unwrap(), ()));
    let error = catalogue.register_all(batch()).unwrap_err();
    let named: Vec<&str> = error.conflicts.iter().map(|conflict| &*conflict.name).collect();
    assert_eq!(named, ["echo", "a", "say"]);
    assert_eq!(names(&catalogue.all()), ["echo"]);
    assert_eq!(catalogue.snapshot().revision(), 1, "nothing has changed");
    catalogue
        .register_all(["a", "b"].map(|name| (host(name).build().unwrap(), ())))
        .unwrap();
    assert_eq!(names(&catalogue.all()), ["a", "b", "echo"]);
    assert_eq!(catalogue.snapshot().revision(), 2, "one change");
    catalogue.register_all([]).unwrap();
    assert_eq!(catalogue.snapshot().revision(), 2);
}

#[test]
fn a_servers_tool_is_not_registered_by_hand() {
    let here = catalogue();
    here.replace_dynamic("git", vec![offered("log")], |_| ()).unwrap();
    let tool = (**here.get("git__log").unwrap().definition()).clone();
    let error = catalogue().register(tool, ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`git__log` (`log` of the server `git`) belongs to a server, whose tools are replaced as a whole"
    );
}

/// The fields of a definition are anybody's, so that it is judged when it comes and not when it was built.
#[test]
fn registering_says_everything_that_is_wrong_with_a_definition() {
    let catalogue = catalogue();
    let schema = |schema: Value| Schema::from(schema);
    let mut misnamed = host("fine").build().unwrap();
    misnamed.name = "not a name \u{202e}\n".into();
    misnamed.input_schema = schema(json!({"type": "object", "properties": {"a": {"type": "strnig"}}}));
    misnamed.output_schema = Some(schema(
        json!({"type": "object", "properties": {"a": {"type": "strnig"}}}),
    ));
    misnamed.version = "1".into();
    let mut listing = host("listing").build().unwrap();
    listing.output_schema = Some(schema(json!({"type": "array"})));
    let mut misled = host("misled").build().unwrap();
    misled.affected_paths = vec!["/nowhere".into()];
    let twice = host("misled").build().unwrap();
    let tools = [misnamed, listing, misled, twice, host("right").build().unwrap()];
    let error = catalogue.register_all(tools.map(|tool| (tool, ()))).unwrap_err();
    let told = error.to_string();
    for part in [
        r#"the name "not a name \u{202e}\n": must begin with a letter"#,
        "\n- the version `1` is not",
        "\n- input_schema: ",
        "\n- output_schema: ",
        "the output schema: the root must have the type `object`, found \"array\"",
        "the affected path `/nowhere` leads to no text",
        "the tool name `misled` has two owners",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains('\u{202e}'), "{told}");
    assert_eq!((error.unfit.len(), error.conflicts.len()), (3, 1), "{told}");
    assert!(catalogue.all().is_empty());
    assert_eq!(catalogue.snapshot().revision(), 0);
}

#[test]
fn nobody_claims_to_be_a_spec() {
    let refused = |tool: Definition| {
        let error = catalogue().register(tool, ()).unwrap_err();
        assert!(error.conflicts.is_empty() && error.foreign.is_empty(), "{error}");
        error.unfit[0].problems[0].clone()
    };
    let mut claims = host("mine").build().unwrap();
    claims.owner = Owner::BuiltIn;
    assert!(refused(claims).contains("none does"));
    let of_spec = || Definition::from(&ECHO);
    let mut renamed = of_spec();
    renamed.name = "mine".into();
    assert!(refused(renamed).contains("no longer those of its spec"));
    let mut reshaped = of_spec();
    reshaped.input_schema = Schema::from(json!({"type": "object"}));
    assert!(refused(reshaped).contains("no longer those of its spec"));
    let mut disowned = of_spec();
    disowned.owner = Owner::Host;
    assert!(refused(disowned).contains("its owner stays `BuiltIn`"));
    let mut slower = of_spec();
    slower.timeout *= 2;
    catalogue().register(slower, ()).unwrap();
}

/// What listens may do anything, the catalogue's own calls among it.
#[test]
fn a_waker_may_come_back_to_the_catalogue() {
    use std::pin::pin;
    use std::task::{Context, Wake, Waker};

    struct Registers(Arc<Catalogue>);
    impl Wake for Registers {
        fn wake(self: Arc<Self>) {
            assert!(self.0.has("first"), "what is told is there");
            drop(self.0.subscribe());
            self.0.register(host("second").build().unwrap(), ()).unwrap();
        }
    }
    let catalogue = Arc::new(catalogue());
    let listener = catalogue.subscribe();
    let waker = Waker::from(Arc::new(Registers(Arc::clone(&catalogue))));
    let mut next = pin!(listener.recv());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    catalogue.register(host("first").build().unwrap(), ()).unwrap();
    assert_eq!(names(&catalogue.all()), ["first", "second"]);
    let told = [(); 2].map(|()| listener.try_recv().unwrap().added[0].clone());
    assert_eq!(told, ["first", "second"]);
}

/// A runner is a host's own code, its end too.
#[test]
fn a_runner_that_goes_may_look_at_the_catalogue() {
    struct Looks(std::sync::Weak<Catalogue<Looks>>);
    impl Drop for Looks {
        fn drop(&mut self) {
            if let Some(catalogue) = self.0.upgrade() {
                catalogue.stats();
            }
        }
    }
    let catalogue = Arc::new(Catalogue::<Looks>::new(|_| Ok(())));
    let runner = || Looks(Arc::downgrade(&catalogue));
    for list in [vec![offered("a"), offered("b")], vec![offered("a")], vec![offered("a")]] {
        catalogue.replace_dynamic("git", list, |_| runner()).unwrap();
    }
    catalogue.remove_dynamic("git");
    assert!(catalogue.all().is_empty());
}

#[test]
fn listening_ends_with_the_catalogue() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    let catalogue = catalogue();
    let listener = catalogue.subscribe();
    catalogue.register(host("first").build().unwrap(), ()).unwrap();
    drop(catalogue);
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(pin!(listener.recv()).poll(&mut context), Poll::Ready(Some(_))));
    assert!(matches!(pin!(listener.recv()).poll(&mut context), Poll::Ready(None)));
}

#[test]
fn unregistering_frees_every_name_and_knows_no_alias() {
    let catalogue = catalogue();
    catalogue.register(&ECHO, ()).unwrap();
    assert!(catalogue.unregister("say").is_none());
    assert!(catalogue.unregister("nothing").is_none());
    assert_eq!(catalogue.unregister("echo").unwrap().name(), "echo");
    assert!(!catalogue.has("echo") && !catalogue.has("say"));
    assert_eq!(catalogue.stats().names, 0);
    catalogue.register(&ECHO, ()).unwrap();
}

#[test]
fn a_tool_is_found_by_name_and_alias() {
    let catalogue: Catalogue<u8> = Catalogue::new(|_| Ok(()));
    catalogue.register(&ECHO, 7).unwrap();
    for name in ["echo", "say"] {
        assert!(catalogue.has(name));
        let entry = catalogue.get(name).unwrap();
        assert_eq!((entry.name(), *entry.runner()), ("echo", 7));
        assert!(std::ptr::eq(entry.definition().built_in().unwrap(), &raw const ECHO));
    }
    assert!(catalogue.get("Echo").is_none() && !catalogue.has(""));
    assert_eq!(catalogue.snapshot().nearest("ecko"), ["echo"]);
}

#[test]
fn lists_are_in_the_order_of_names_whatever_came_first() {
    let order = |shuffled: [&str; 3]| {
        let catalogue = catalogue();
        for name in shuffled {
            let tool = host(name).category("k").tag("t").tag(name.to_owned()).build().unwrap();
            catalogue.register(tool, ()).unwrap();
        }
        catalogue.register(&ECHO, ()).unwrap();
        catalogue
            .replace_dynamic("z", vec![offered("b"), offered("a")], |_| ())
            .unwrap();
        catalogue.replace_dynamic("a", vec![offered("b")], |_| ()).unwrap();
        let of = |list: Vec<Arc<_>>| names(&list).join(" ");
        [
            of(catalogue.all()),
            of(catalogue.builtin()),
            of(catalogue.dynamic()),
            of(catalogue.by_category("k")),
            of(catalogue.by_tag("t")),
            of(catalogue.declarations(Phase::Act)),
            texts(&catalogue.categories()).join(" "),
            texts(&catalogue.tags()).join(" "),
            of(catalogue.by_tag("none")),
        ]
    };
    let expected = [
        "a__b echo x y z z__a z__b",
        "echo",
        "a__b z__a z__b",
        "x y z",
        "x y z",
        "a__b echo x y z z__a z__b",
        "a k words z",
        "loud t text x y z",
        "",
    ];
    assert_eq!(order(["x", "y", "z"]), expected);
    assert_eq!(order(["z", "x", "y"]), expected);
}

#[test]
fn stats_count_everything_once() {
    let catalogue = catalogue();
    catalogue
        .register_all([(tool_search(), ()), (deferred("d", Kind::Write), ())])
        .unwrap();
    catalogue.register(&ECHO, ()).unwrap();
    let bad = crate::catalogue::testing::with_schema("bad", json!({"type": "string"}));
    catalogue
        .replace_dynamic("git", vec![offered("log"), bad], |_| ())
        .unwrap();
    catalogue.tool_search("select:d", Maximum::default(), Phase::Act);
    let stats = catalogue.stats();
    assert_eq!(
        (
            stats.tools,
            stats.names,
            stats.built_in,
            stats.host,
            stats.servers["git"]
        ),
        (4, 5, 1, 2, 1)
    );
    assert_eq!((stats.read_only, stats.write, stats.execute), (2, 1, 1));
    assert_eq!((stats.deferred, stats.loaded, stats.quarantined), (2, 1, 1));
    assert_eq!(stats.revision, catalogue.snapshot().revision());
}

fn searched() -> Catalogue {
    let catalogue = catalogue();
    let schema = json!({"type": "object", "properties": {
        "branch": {"type": "string", "description": "Where the commits are."},
        "paths": {"type": "array", "items": {"type": "object", "properties": {
            "glob": {"type": "string", "description": "A wildcard."}}}}}});
    let tools = [
        host("list_commits")
            .summary("Lists what was committed.")
            .input_schema(schema),
        host("createIssue").title("Create an issue").summary("Opens one."),
        host("weather").tag("forecast").category("outside"),
        host("zeit").title("写待办清单").summary("Sagt die Uhrzeit."),
        host("b_same").summary("Turns it over."),
        host("a_same").summary("Turns it over."),
    ];
    catalogue
        .register_all(tools.map(|tool| (tool.build().unwrap(), ())))
        .unwrap();
    catalogue
}

#[test]
fn a_search_looks_for_words_everywhere_and_not_for_one_piece_of_text() {
    let catalogue = searched();
    for (query, first) in [
        ("commits list", "list_commits"),
        ("issue", "createIssue"),
        ("ISSUES create", "createIssue"),
        ("opens", "createIssue"),
        ("forecast", "weather"),
        ("outside", "weather"),
        ("branch", "list_commits"),
        ("glob", "list_commits"),
        ("wildcard", "list_commits"),
        ("uhr", "zeit"),
        ("待办", "zeit"),
        ("清单", "zeit"),
        ("清", "zeit"),
        ("单", "zeit"),
        ("待办清单", "zeit"),
    ] {
        assert_eq!(names(&catalogue.search(query)).first(), Some(&first), "{query}");
    }
    for nothing in ["", "  ", "…", "zzz", "办理", "ommit"] {
        assert_eq!(names(&catalogue.search(nothing)), [""; 0], "{nothing}");
    }
}

#[test]
fn a_search_puts_the_best_first_and_equals_by_name() {
    let catalogue = searched();
    assert_eq!(names(&catalogue.search("turns over")), ["a_same", "b_same"]);
    assert_eq!(
        names(&catalogue.search("b_same")),
        ["b_same", "a_same"],
        "a whole name is best"
    );
    let more = host("other").summary("Knows the weather.").build().unwrap();
    catalogue.register(more, ()).unwrap();
    assert_eq!(
        names(&catalogue.search("weather")),
        ["weather", "other"],
        "a name counts more than a text"
    );
}

#[test]
fn a_snapshot_stays_as_it_is() {
    let catalogue = catalogue();
    catalogue.register(&ECHO, ()).unwrap();
    let before = catalogue.snapshot();
    catalogue.register(host("b").build().unwrap(), ()).unwrap();
    catalogue.unregister("echo");
    assert_eq!((names(before.all()), before.revision()), (vec!["echo"], 1));
    assert!(before.has("say"));
    let now = catalogue.snapshot();
    assert_eq!((names(now.all()), now.revision()), (vec!["b"], 3));
}

#[test]
fn a_fork_shares_tools_and_nothing_else() {
    let parent = catalogue();
    parent
        .register_all([(tool_search(), ()), (deferred("d", Kind::ReadOnly), ())])
        .unwrap();
    parent.tool_search("select:d", Maximum::default(), Phase::Act);
    let told = parent.subscribe();
    let child = parent.fork();
    assert!(Arc::ptr_eq(&parent.get("d").unwrap(), &child.get("d").unwrap()));
    assert!(!child.snapshot().is_loaded("d"), "the loaded state is not copied");
    assert_eq!(
        child.drain_catalog().items.len(),
        0,
        "undelivered changes are not copied"
    );
    child.register(&ECHO, ()).unwrap();
    parent.unregister("d");
    assert!(child.has("d") && !parent.has("echo"), "each has its own index");
    assert_eq!(child.drain_catalog().items.len(), 1);
    assert_eq!(parent.drain_catalog().items.len(), 3);
    assert_eq!(told.try_recv().unwrap().cause, Cause::Unregistered);
    assert!(told.try_recv().is_none(), "who listens to one does not hear the other");
}

#[test]
fn a_listener_hears_every_change_in_order() {
    let catalogue = catalogue();
    let listener = catalogue.subscribe();
    catalogue.register(tool_search(), ()).unwrap();
    catalogue
        .replace_dynamic("git", vec![offered("b"), offered("a")], |_| ())
        .unwrap();
    catalogue
        .replace_dynamic("git", vec![offered("a"), offered("b")], |_| ())
        .unwrap();
    catalogue.tool_search("select:git__b,git__a", Maximum::default(), Phase::Act);
    catalogue.remove_dynamic("git");
    catalogue.remove_dynamic("git");
    let heard: Vec<_> = std::iter::from_fn(|| listener.try_recv()).collect();
    let server = || "git".into();
    let causes: Vec<_> = heard.iter().map(|change| change.cause.clone()).collect();
    assert_eq!(
        causes,
        [
            Cause::Registered,
            Cause::Replaced { server: server() },
            Cause::Loaded,
            Cause::Removed { server: server() },
        ],
        "what changes nothing is not told"
    );
    assert_eq!(texts(&heard[1].added), ["git__a", "git__b"]);
    assert_eq!(texts(&heard[2].loaded), ["git__a", "git__b"]);
    assert_eq!(texts(&heard[3].removed), ["git__a", "git__b"]);
    let revisions: Vec<u64> = heard.iter().map(|change| change.revision).collect();
    assert_eq!(revisions, [1, 2, 3, 4]);
    assert_eq!(
        catalogue.drain_catalog().items,
        heard.iter().map(|c| (**c).clone()).collect::<Vec<_>>()
    );
}

#[test]
fn changes_from_many_threads_leave_one_order() {
    let catalogue = catalogue();
    let listener = catalogue.subscribe();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let catalogue = &catalogue;
            scope.spawn(move || {
                let server = format!("s{thread}");
                for round in 0..10 {
                    let list = (0..=round % 3).map(|n| offered(&format!("t{n}"))).collect();
                    catalogue.replace_dynamic(&server, list, |_| ()).unwrap();
                    assert!(
                        catalogue
                            .declarations(Phase::Act)
                            .windows(2)
                            .all(|w| w[0].name() < w[1].name())
                    );
                }
            });
        }
    });
    let mut known = std::collections::BTreeSet::new();
    let mut revision = 0;
    while let Some(change) = listener.try_recv() {
        revision += 1;
        assert_eq!(change.revision, revision);
        for name in &change.removed {
            assert!(known.remove(name));
        }
        for name in &change.added {
            assert!(known.insert(name.clone()));
        }
    }
    let all = catalogue.all();
    assert_eq!(names(&all), known.iter().map(|name| &**name).collect::<Vec<_>>());
}

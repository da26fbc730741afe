//! What becomes of a call that was let through.

use super::*;

#[test]
fn a_closed_session_takes_no_calls() {
    let fixture = Fixture::new();
    let session = fixture.session(Kind::ReadOnly, |builder| builder.mode(Mode::Bypass));
    assert!(matches!(fixture.echo(&session, "hello"), CallOutcome::Success(_)));
    session.close();
    assert_eq!(code(&fixture.echo(&session, "hello")), "session_closed");
    assert_eq!(fixture.ran(), 1);
}

#[test]
fn a_hosts_tool_that_panics_or_fails_is_told_like_any_other() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let tool = |name: &'static str| ToolBuilder::new(name).summary("Breaks.").build().unwrap();
    catalogue
        .register(tool("breaks"), Runner::of(|_| async { panic!("with a word") }))
        .unwrap();
    let fails = Runner::of(|_| async { Err(RunnerError::expected("no_luck", "There was none.", None)) });
    catalogue.register(tool("fails"), fails).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .build()
        .unwrap();
    let CallOutcome::Internal { chain, .. } = fixture.call(&session, "breaks", json!({})) else {
        panic!("a panic is an internal error");
    };
    assert!(chain.contains("with a word"), "{chain}");
    assert_eq!(fixture.project.escalations().len(), 1);
    assert_eq!(code(&fixture.call(&session, "fails", json!({}))), "no_luck");
}

#[test]
fn an_answer_that_breaks_the_declared_output_is_internal() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let tool = ToolBuilder::new("count")
        .summary("Counts.")
        .output_schema(json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] }))
        .build()
        .unwrap();
    let wrong = Runner::of(|_| async { Ok(json!({ "n": "one" })) });
    catalogue.register(tool, wrong).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .build()
        .unwrap();
    let CallOutcome::Internal { chain, .. } = fixture.call(&session, "count", json!({})) else {
        panic!("a wrong answer is the tool's fault");
    };
    assert!(chain.contains("breaks the output schema"), "{chain}");
}

#[test]
fn what_passes_by_itself_is_tried_again_and_counted_in_the_result() {
    let fixture = Fixture::new();
    let catalogue = empty_catalogue();
    let tool = ToolBuilder::new("flaky")
        .summary("Works the third time.")
        .concurrency_safe()
        .retry_safe()
        .build()
        .unwrap();
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let runner = Runner::of(move |_| {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            if number < 2 {
                let busy = std::io::Error::from_raw_os_error(11);
                return Err(devloop_contract::InternalError::new("the file was busy", busy).into());
            }
            Ok(json!({ "try": number }))
        }
    });
    catalogue.register(tool, runner).unwrap();
    let session = builder(&fixture.project)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .build()
        .unwrap();
    let carried = fixture
        .runtime
        .block_on(async { session.carry_out(CallRequest::new("flaky", Map::new(), "test:1")).await });
    assert_eq!(carried.outcome, CallOutcome::Success(json!({ "try": 2 })));
    assert_eq!(carried.retries, 2);
    assert_eq!(carried.decision.unwrap().verdict, Verdict::Allow);
}

#[test]
fn calls_on_one_file_follow_each_other_whatever_name_they_give_it() {
    let fixture = Fixture::new();
    fixture.project.put("real.txt", "x");
    std::os::unix::fs::symlink("real.txt", fixture.project.path().join("link.txt")).unwrap();
    let [inside, most, expected] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let session = || {
        let catalogue = empty_catalogue();
        let tool = ToolBuilder::new("edit")
            .summary("Edits a file.")
            .kind(Kind::Write)
            .affected_path("/path")
            .input_schema(json!({
                "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"],
                "additionalProperties": false,
            }))
            .build()
            .unwrap();
        let counts = [&inside, &most, &expected].map(Arc::clone);
        let runner = Runner::of(move |_| {
            let [inside, most, expected] = counts.clone();
            async move {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(50)).await;
                let met = async {
                    while most.load(Ordering::SeqCst) < expected.load(Ordering::SeqCst) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                // Threads may be slow to begin.
                let _ = tokio::time::timeout(Duration::from_secs(20), met).await;
                inside.fetch_sub(1, Ordering::SeqCst);
                Ok(json!({}))
            }
        });
        catalogue.register(tool, runner).unwrap();
        builder(&fixture.project)
            .tools(&catalogue)
            .mode(Mode::Bypass)
            .build()
            .unwrap()
    };
    let (one, two) = (session(), session());
    let check = |first: &str, second: &str, at_once: usize| {
        most.store(0, Ordering::SeqCst);
        expected.store(at_once, Ordering::SeqCst);
        let call = |session: &Session, path: &str| {
            session.submit(CallRequest::new(
                "edit",
                object(json!({ "path": path })),
                format!("test:{path}"),
            ))
        };
        let outcomes = fixture
            .runtime
            .block_on(async { tokio::join!(call(&one, first), call(&two, second)) });
        assert!(
            matches!(outcomes, (CallOutcome::Success(_), CallOutcome::Success(_))),
            "{outcomes:?}"
        );
        assert_eq!(most.load(Ordering::SeqCst), at_once, "{first} and {second}");
    };
    check("real.txt", "real.txt", 1);
    // A link is the file that it leads to.
    check("real.txt", "link.txt", 1);
    check("real.txt", "other.txt", 2);
}

#[test]
fn a_projects_own_executor_runs_and_remembers_the_calls_of_its_sessions() {
    let executor = devloop_runtime::execution::Executor::default();
    let seen = executor.clone();
    let config = devloop_runtime::config::Config::default();
    let project = TestProject::with(config, |project| project.with_executor(executor));
    let session = project.session(AgentId::Pm);
    session.call("write_todolist", json!({ "items": [] }));
    let records = seen.records();
    assert_eq!(records.len(), 1);
    assert_eq!(&*records[0].tool, "write_todolist");
    assert_eq!(seen.totals(), (1, 0));
}

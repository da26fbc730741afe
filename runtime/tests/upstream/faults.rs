//! What goes wrong: every fault of a server, what is expected, what is observed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use devloop_core::catalogue::{Catalogue, ConnectionState};
use devloop_core::connection::Rules;
use devloop_core::registry::fixture;
use devloop_runtime::contract::Tool;
use devloop_runtime::upstream::{CallError, CallOptions, Options};
use serde_json::json;

use crate::rig::{dead, fake, options, pid, run, start, start_with, until};

fn lost(state: &ConnectionState) -> bool {
    matches!(state, ConnectionState::Lost { .. })
}

fn failed(state: &ConnectionState) -> bool {
    matches!(state, ConnectionState::Failed { .. })
}

#[test]
fn a_hang_at_the_start_costs_the_others_nothing_and_is_given_up() {
    run(async {
        let rules = Rules {
            connect: Duration::from_millis(400),
            attempts: 2,
            ..options().rules
        };
        let options = Options { rules, ..options() };
        // The good one needs a longer time to start than the bad one is given, when the machine is busy.
        let rig = start(&[("bad", fake(&["hang"]))], &options);
        let good = start(&[("good", fake(&[]))], &crate::rig::options());
        let answer = good.call("good", "echo", json!({})).await;
        assert!(answer.is_ok(), "{answer:?}");
        let state = rig.changed(failed).await;
        let ConnectionState::Failed { reason } = state else {
            panic!()
        };
        assert_eq!(reason, "it did not answer within 0.4 s");
        let down = rig.call("bad", "echo", json!({})).await.expect_err("it is given up");
        let text = down.to_string();
        assert!(
            text.contains("can't be reached (it did not answer within 0.4 s); nothing was sent"),
            "{text}"
        );
        rig.upstreams.close().await;
        good.upstreams.close().await;
    });
}

#[test]
fn a_program_that_stands_still_is_asked_and_lost() {
    run(async {
        let mut options = options();
        options.rules.silence = Some(Duration::from_millis(100));
        options.rules.pong = Duration::from_millis(200);
        let rig = start(&[("s", fake(&[]))], &options);
        let before = pid(&rig.structured("s", "pid").await);
        let stopped = std::process::Command::new("kill")
            .args(["-STOP", &before.to_string()])
            .status();
        assert!(stopped.expect("it runs").success());
        let lost = rig.changed(|state| matches!(state, ConnectionState::Lost { .. })).await;
        let ConnectionState::Lost { reason } = lost else {
            panic!("{lost:?}")
        };
        assert!(reason.contains("did not answer a ping"), "{reason}");
        assert_ne!(pid(&rig.structured("s", "pid").await), before);
        dead(before).await;
        rig.upstreams.close().await;
    });
}

#[test]
fn three_seconds_of_silence_are_no_fault() {
    run(async {
        let rig = start(&[("slow", fake(&["slow", "3"])), ("quick", fake(&[]))], &options());
        rig.call("quick", "echo", json!({}))
            .await
            .expect("the other one does not wait");
        rig.call("slow", "echo", json!({})).await.expect("it comes");
        rig.call("slow", "sleep", json!({"seconds": 3}))
            .await
            .expect("in a call, too");
        let states: Vec<_> = rig.catalogue.drain_connection().items;
        assert!(!states.iter().any(|change| lost(&change.state)), "{states:?}");
        rig.upstreams.close().await;
    });
}

#[test]
fn an_exit_during_a_call_is_told_and_the_server_comes_back() {
    run(async {
        let mut server = fake(&[]);
        server["env"] = json!({"FAKE_TOKEN": "open-sesame"});
        let rig = start(&[("s", server), ("other", fake(&[]))], &options());
        rig.settled().await;
        let before = pid(&rig.structured("s", "pid").await);
        let waiting = rig.call("other", "sleep", json!({"seconds": 1}));
        let (error, other) = tokio::join!(rig.call("s", "exit", json!({"status": 1})), waiting);
        let CallError::Lost { reason, .. } = error.expect_err("it is gone") else {
            panic!()
        };
        assert_eq!(
            reason,
            "it ended with exit status: 1; its last words: about to end: token [hidden]"
        );
        assert!(other.is_ok(), "the others go on");
        let after = pid(&rig.structured("s", "pid").await);
        assert_ne!(before, after);
        assert!(rig.catalogue.has("s__echo"));
        let log = rig.logged("about to end").await;
        assert!(!log.data.to_string().contains("sesame"), "{log:?}");
        rig.upstreams.close().await;
    });
}

#[test]
fn a_kill_during_a_call_is_told_and_leaves_no_orphan() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        let child = pid(&rig.structured("s", "spawn").await);
        let leader = pid(&rig.structured("s", "pid").await);
        let call = rig.call("s", "sleep", json!({"seconds": 60}));
        let kill = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let leader = rustix::process::Pid::from_raw(leader).expect("a process id");
            rustix::process::kill_process(leader, rustix::process::Signal::KILL).expect("SIGKILL");
        };
        let (outcome, ()) = tokio::join!(call, kill);
        let error = outcome.expect_err("it is gone").to_string();
        assert!(
            error.contains("went away during the call (it ended with signal: 9 (SIGKILL))"),
            "{error}"
        );
        crate::rig::dead(child).await;
        assert_ne!(pid(&rig.structured("s", "pid").await), leader);
        rig.upstreams.close().await;
    });
}

#[test]
fn a_server_that_breaks_at_the_first_word_of_the_newer_era_is_spoken_to_in_the_older_one() {
    run(async {
        for mode in ["older-ends", "older-null", "older-other-id"] {
            let logs = tempfile::tempdir().expect("a directory");
            let log = logs.path().join("log");
            let mut server = fake(&[mode]);
            server["env"] = json!({ "FAKE_LOG": log });
            let rules = Rules {
                attempts: 1,
                ..options().rules
            };
            let rig = start(&[("s", server)], &Options { rules, ..options() });
            rig.settled().await;
            assert_eq!(rig.status("s").state, ConnectionState::Connected, "{mode}");
            // Once known, it is not asked again.
            let before = pid(&rig.structured("s", "pid").await);
            let _ = rig.call("s", "exit", json!({})).await;
            assert_ne!(pid(&rig.structured("s", "pid").await), before, "{mode}");
            let said = std::fs::read_to_string(&log).expect("a log");
            let said: Vec<&str> = said.lines().filter(|line| *line != "sleep").collect();
            assert_eq!(said, ["discover", "initialize", "initialize"], "{mode}");
            rig.upstreams.close().await;
        }
    });
}

#[test]
fn an_exit_at_the_start_is_told_with_its_last_words_and_given_up() {
    run(async {
        let rules = Rules {
            attempts: 3,
            ..options().rules
        };
        let rig = start(&[("s", fake(&["exit-at-start"]))], &Options { rules, ..options() });
        let ConnectionState::Failed { reason } = rig.changed(failed).await else {
            panic!()
        };
        assert_eq!(
            reason,
            "it ended with exit status: 3; its last words: cannot find my configuration"
        );
        rig.upstreams.close().await;
    });
}

#[test]
fn what_can_not_be_started_or_refuses_says_why() {
    run(async {
        let missing = json!({"command": "/no/such/program"});
        let rules = Rules {
            attempts: 1,
            ..options().rules
        };
        let servers = [
            ("missing", missing),
            ("refuses", fake(&["refuses"])),
            ("old", json!({"type": "sse", "url": "x"})),
        ];
        let rig = start(&servers, &Options { rules, ..options() });
        rig.settled().await;
        let reason = |server| match rig.status(server).state {
            ConnectionState::Failed { reason } => reason,
            other => panic!("{server}: {other:?}"),
        };
        assert_eq!(
            reason("missing"),
            "`/no/such/program` can't be started: No such file or directory (os error 2)"
        );
        assert_eq!(reason("refuses"), "it refused the handshake: not today (-32000)");
        assert!(reason("old").contains("replaced by streamable HTTP"));
        rig.upstreams.close().await;
    });
}

#[test]
fn a_line_of_ten_megabytes_comes_through_whole() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        let result = rig.call("s", "big", json!({"bytes": 10 << 20})).await.expect("it fits");
        assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(10 << 20));
        // The same as noise, and longer than what is kept.
        rig.call("s", "noise", json!({"line": 20 << 20}))
            .await
            .expect("it goes on");
        rig.logged("a line of 20971520 bytes without an id").await;
        rig.upstreams.close().await;
    });
}

#[test]
fn a_result_of_two_hundred_megabytes_is_an_error_in_bounded_memory() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        rig.settled().await;
        let before = peak_memory();
        let error = rig
            .call("s", "big", json!({"bytes": 200 << 20}))
            .await
            .expect_err("it is too large");
        let CallError::TooLarge {
            bytes, limit, result, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert!(*bytes > 200 << 20 && *limit == 16 << 20 && result.is_none(), "{error}");
        let grown = peak_memory().saturating_sub(before);
        // Other tests run in this process; a line of 16 MiB and a result of 10 MiB are theirs.
        assert!(grown < 160 << 10, "{grown} KiB");
        rig.call("s", "echo", json!({})).await.expect("it goes on");
        rig.upstreams.close().await;
    });
}

#[test]
fn a_result_beyond_the_limit_of_its_call_is_given_to_be_kept_elsewhere() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        let options = CallOptions {
            max_result_bytes: Some(1_000),
            ..CallOptions::default()
        };
        let error = rig
            .call_with("s", "big", json!({"bytes": 5_000}), options)
            .await
            .expect_err("too large");
        let CallError::TooLarge {
            bytes,
            limit: 1_000,
            result: Some(result),
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert!(bytes > 5_000 && result["content"][0]["text"].as_str().map(str::len) == Some(5_000));
        rig.upstreams.close().await;
    });
}

#[test]
fn garbage_on_standard_output_is_logged_and_passed_over() {
    run(async {
        let rig = start(&[("s", fake(&["garbage"]))], &options());
        rig.call("s", "echo", json!({})).await.expect("it answers");
        let line = rig.logged("Welcome to the server!").await;
        assert_eq!((&*line.level, line.logger.as_deref()), ("warning", Some("stdout")));
        rig.upstreams.close().await;
    });
}

#[test]
fn a_list_of_1_001_tools_is_refused_and_one_of_1_000_is_taken() {
    run(async {
        let rig = start(
            &[("many", fake(&["many", "1001"])), ("most", fake(&["many", "1000"]))],
            &options(),
        );
        rig.settled().await;
        assert_eq!(rig.status("most").tools, 1_000);
        let many = rig.status("many");
        let refused = many.refused.expect("it is refused");
        assert!(
            refused.contains("it has 1001 tools; at most 1000 are taken"),
            "{refused}"
        );
        assert_eq!((many.state, rig.names().len()), (ConnectionState::Connected, 1_000));
        rig.upstreams.close().await;
    });
}

#[test]
fn a_version_of_the_protocol_that_nobody_knows_is_refused_at_once() {
    run(async {
        let rig = start(&[("s", fake(&["ancient"])), ("good", fake(&[]))], &options());
        rig.settled().await;
        let ConnectionState::Failed { reason } = rig.status("s").state else {
            panic!("{:?}", rig.status("s"))
        };
        assert!(
            reason.contains("version `1999-01-01`") && reason.contains("2025-11-25"),
            "{reason}"
        );
        assert_eq!(rig.status("good").state, ConnectionState::Connected);
        rig.upstreams.close().await;
    });
}

#[test]
fn a_list_that_is_too_large_or_has_a_name_twice_is_refused() {
    run(async {
        let rig = start(
            &[("large", fake(&["large"])), ("twice", fake(&["duplicate"]))],
            &options(),
        );
        rig.settled().await;
        let reason = |server| rig.status(server).refused.expect("it is refused");
        assert!(
            reason("large").contains("at most 4194304 are taken"),
            "{}",
            reason("large")
        );
        // In one line, as it stands in tables.
        assert_eq!(
            reason("twice"),
            "the tools of the server `twice` are refused: the name `echo` stands twice"
        );
        assert_eq!(rig.names(), [""; 0]);
        rig.upstreams.close().await;
    });
}

#[test]
fn a_clash_with_a_built_in_refuses_the_list_and_the_built_in_stays() {
    run(async {
        let catalogue = Arc::new(Catalogue::new(|_| Ok(())));
        // No builder lets this name pass; a program's own registry may.
        let tool: &'static Tool = Box::leak(Box::new(fixture::tool("s__echo")));
        catalogue.register(tool, "ours".to_owned()).expect("it is new");
        let rig = start_with(&[("s", fake(&[]))], &options(), catalogue);
        rig.settled().await;
        let refused = rig.status("s").refused.expect("it is refused");
        assert!(refused.contains("s__echo"), "{refused}");
        assert_eq!(rig.names(), ["s__echo"]);
        assert_eq!(rig.catalogue.get("s__echo").expect("it stays").runner(), "ours");
        rig.logged("s__echo").await;
        rig.upstreams.close().await;
    });
}

#[test]
fn single_bad_tools_are_set_aside_with_a_reason_and_the_rest_is_served() {
    run(async {
        let rig = start(&[("s", fake(&["bad-tools"]))], &options());
        rig.settled().await;
        assert_eq!((rig.status("s").tools, rig.status("s").quarantined), (10, 8));
        let aside = &rig.catalogue.quarantined()["s"];
        let reasons: Vec<String> = aside.iter().map(ToString::to_string).collect();
        for part in [
            "`rooted`: its input schema: `oneOf` at the root",
            "its name has 300 characters",
            "its name has control characters",
            "`schemaless`: its input schema: the schema must be an object",
            "`wordy`: its description has 20000 bytes",
            "`huge`: its input schema has",
        ] {
            assert!(
                reasons.iter().any(|reason| reason.contains(part)),
                "{part}: {reasons:#?}"
            );
        }
        rig.logged("2 tools without a name").await;
        rig.call("s", "echo", json!({})).await.expect("it is served");
        rig.upstreams.close().await;
    });
}

#[test]
fn a_list_that_does_not_come_is_asked_for_again_or_costs_the_connection() {
    run(async {
        let rules = Rules {
            connect: Duration::from_secs(2),
            attempts: 1,
            ..options().rules
        };
        let servers = [
            ("fails", fake(&["list-fails"])),
            ("hangs", fake(&["list-hangs"])),
            ("turns", fake(&["endless-pages"])),
        ];
        let rig = start(&servers, &Options { rules, ..options() });
        rig.settled().await;
        let refused = rig.status("fails").refused.expect("it says so");
        assert!(refused.contains("no list today"), "{refused}");
        assert_eq!(
            rig.status("turns").refused.as_deref(),
            Some("its pages of tools lead back to themselves")
        );
        let ConnectionState::Failed { reason } = rig.status("hangs").state else {
            panic!()
        };
        assert_eq!(reason, "it did not list its tools within 2 s");
        until("it is asked again", || {
            (rig.catalogue
                .drain_log()
                .items
                .iter()
                .filter(|line| line.data.to_string().contains("no list today"))
                .count()
                > 0)
            .then_some(())
        })
        .await;
        let seen = rig.structured("fails", "pid").await;
        assert!(seen["lists"].as_u64() >= Some(1), "{seen}");
        rig.upstreams.close().await;
    });
}

#[test]
fn a_storm_of_changes_is_a_few_fetches_and_the_last_list_stands() {
    run(async {
        let rig = start(&[("s", fake(&["storm"]))], &options());
        let began = Instant::now();
        until("the last change", || rig.catalogue.has("s__change_2000").then_some(())).await;
        let took = began.elapsed();
        assert_eq!(
            rig.names().iter().filter(|name| name.contains("change_")).count(),
            1,
            "replaced as a whole"
        );
        let seen = rig.structured("s", "pid").await;
        let lists = seen["lists"].as_u64().expect("a count");
        // Three pages each; at most one fetch in a quarter of a second, and one at the end.
        let most = 3 * (u64::try_from(took.as_millis()).expect("short") / 250 + 3);
        assert!(lists <= most, "{lists} pages in {took:?} for 2,000 changes");
        rig.upstreams.close().await;
    });
}

/// In KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

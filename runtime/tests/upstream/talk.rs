//! What goes well.

use std::process::{Command, Stdio};
use std::time::Duration;

use devloop_core::catalogue::{ConnectionState, ContentList};
use devloop_core::registry::Owner;
use devloop_runtime::upstream::{CallError, CallOptions};
use serde_json::json;
use tokio::sync::mpsc;

use crate::alive::is_alive;
use crate::rig::{LONG, dead, fake, options, pid, run, start, until};

#[test]
fn two_servers_are_merged_called_and_closed() {
    run(async {
        let rig = start(&[("one", fake(&[])), ("two", fake(&[]))], &options());
        rig.settled().await;
        assert_eq!(rig.names().len(), 20, "all pages of both");
        let entry = rig.catalogue.get("one__echo").expect("it is there");
        assert_eq!(entry.definition().owner, Owner::Server("one".into()));
        assert_eq!(entry.runner(), "one/echo");
        let status = rig.status("one");
        assert_eq!((status.state, status.tools), (ConnectionState::Connected, 10));
        assert_eq!(status.implementation, Some(("fake".to_owned(), "1.2.3".to_owned())));
        assert_eq!(
            rig.upstreams.instructions("two").expect("known").as_deref(),
            Some("Use it well.")
        );
        assert_eq!(rig.catalogue.drain_instructions().items.len(), 2);

        let result = rig
            .call("two", "echo", json!({"a": [1, "é"]}))
            .await
            .expect("it answers");
        assert_eq!(result["structuredContent"], json!({"echo": {"a": [1, "é"]}}));
        assert_eq!(result["content"][0]["text"], r#"{"a": [1, "\u00e9"]}"#);
        let failed = rig.call("two", "fail", json!({})).await.expect("a result that says so");
        assert_eq!(failed["isError"], true);
        let refused = rig
            .call("two", "fail", json!({"protocol": true}))
            .await
            .expect_err("refused");
        let CallError::Refused {
            code, message, data, ..
        } = refused
        else {
            panic!("{refused}")
        };
        assert_eq!(
            (code, message.as_str(), data),
            (-32602, "wrong arguments", Some(json!({"field": "a"})))
        );
        let unknown = rig.call("tow", "echo", json!({})).await.expect_err("unknown");
        assert_eq!(
            unknown.to_string(),
            "there is no upstream server `tow`; the nearest are two"
        );

        let pids = [rig.structured("one", "pid").await, rig.structured("two", "pid").await];
        rig.upstreams.close().await;
        assert_eq!(rig.names(), [""; 0]);
        for one in &pids {
            assert!(!is_alive(pid(one)), "closed means ended");
        }
        let closed = rig.call("one", "echo", json!({})).await.expect_err("closed");
        assert_eq!(closed.code(), "server_down");
    });
}

#[test]
fn resources_prompts_and_tasks_are_reached() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        let (up, now) = (&rig.upstreams, CallOptions::default);
        assert_eq!(
            up.resources_list("s", None, now()).await.expect("ok")["resources"][0]["name"],
            "a"
        );
        let templates = up.resource_templates_list("s", None, now()).await.expect("ok");
        assert_eq!(templates["resourceTemplates"], json!([]));
        let read = up.resource_read("s", "file:///a", now()).await.expect("ok");
        assert_eq!(read["contents"][0]["text"], "contents");
        assert_eq!(
            up.prompts_list("s", None, now()).await.expect("ok")["prompts"][0]["name"],
            "p"
        );
        let arguments = serde_json::from_str(r#"{"x": "y"}"#).expect("JSON");
        let prompt = up.prompt_get("s", "p", arguments, now()).await.expect("ok");
        assert_eq!(prompt["messages"][0]["content"]["text"], r#"{"x": "y"}"#);
        assert_eq!(
            up.task_list("s", None, now()).await.expect("ok")["tasks"][0]["taskId"],
            "t1"
        );
        assert_eq!(up.task_get("s", "t1", now()).await.expect("ok")["status"], "working");
        assert_eq!(
            up.task_cancel("s", "t1", now()).await.expect("ok")["status"],
            "cancelled"
        );
        let refused = up
            .resource_subscribe("s", "file:///a", now())
            .await
            .expect_err("it has none");
        assert_eq!(refused.code(), "server_error");
        rig.upstreams.close().await;
    });
}

#[test]
fn what_a_server_says_fills_the_queues() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        rig.settled().await;
        rig.call("s", "noise", json!({})).await.expect("it answers");
        let resources = rig.catalogue.drain_resource().items;
        assert_eq!(
            (resources.len(), resources[0].revision, resources[0].uri.as_str()),
            (1, 2, "file:///a")
        );
        let lists: Vec<ContentList> = rig
            .catalogue
            .drain_content()
            .items
            .into_iter()
            .map(|one| one.list)
            .collect();
        assert_eq!(
            lists,
            [ContentList::Resources, ContentList::Templates, ContentList::Prompts]
        );
        let tasks = rig.catalogue.drain_task().items;
        assert_eq!(
            (tasks[0].task.as_str(), &*tasks[0].status, tasks[0].message.as_deref()),
            ("t1", "working", Some("at it"))
        );
        let states: Vec<_> = rig
            .catalogue
            .drain_connection()
            .items
            .into_iter()
            .map(|one| one.state)
            .collect();
        assert_eq!(states, [ConnectionState::Connecting, ConnectionState::Connected]);
        let mut lines = rig.catalogue.drain_log().items;
        until("standard error", || {
            lines.extend(rig.catalogue.drain_log().items);
            lines
                .iter()
                .any(|line| line.logger.as_deref() == Some("stderr"))
                .then_some(())
        })
        .await;
        let line = |part: &str| {
            let found = lines.iter().find(|line| line.data.to_string().contains(part));
            found.map(|line| (line.level.to_string(), line.logger.clone().unwrap_or_default()))
        };
        assert_eq!(
            line("a word on standard error"),
            Some(("info".to_owned(), "stderr".to_owned()))
        );
        assert_eq!(line(r#"{"a":1}"#), Some(("warning".to_owned(), "noise".to_owned())));
        for garbage in ["this is no frame", "[1, 2", r#"{\"jsonrpc\":\"2.0\"}"#, "yyyyyyyyyy"] {
            assert_eq!(
                line(garbage),
                Some(("warning".to_owned(), "stdout".to_owned())),
                "{garbage}"
            );
        }
        rig.upstreams.close().await;
    });
}

#[test]
fn progress_rises_and_comes_before_the_answer() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        let (send, mut steps) = mpsc::unbounded_channel();
        let options = CallOptions {
            progress: Some(send),
            ..CallOptions::default()
        };
        rig.call_with("s", "steps", json!({}), options)
            .await
            .expect("it answers");
        let mut seen = Vec::new();
        while let Ok(step) = steps.try_recv() {
            seen.push((step.done, step.message.unwrap_or_default()));
        }
        assert_eq!(
            seen,
            [
                (1.0, "step 1".to_owned()),
                (2.0, "step 2".to_owned()),
                (3.0, "step 3".to_owned())
            ]
        );
        rig.upstreams.close().await;
    });
}

#[test]
fn a_server_is_told_that_nobody_waits_any_more() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        rig.settled().await;
        let cancelled = |count| {
            let rig = &rig;
            async move {
                for _ in 0..2_000 {
                    let seen = rig.structured("s", "pid").await;
                    if seen["cancelled"].as_object().expect("an object").len() == count {
                        return seen;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                panic!("the server was not told");
            }
        };
        // By a token.
        let options = CallOptions::default();
        let cancel = options.cancel.clone();
        let call = rig.call_with("s", "sleep", json!({"seconds": 60}), options);
        let (outcome, ()) = tokio::join!(call, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cancel.cancel();
        });
        assert_eq!(outcome, Err(CallError::Cancelled));
        cancelled(1).await;
        // By the time limit.
        let options = CallOptions {
            timeout: Duration::from_secs(1),
            ..CallOptions::default()
        };
        let outcome = rig.call_with("s", "sleep", json!({"seconds": 60}), options).await;
        assert_eq!(outcome.expect_err("too long").code(), "tool_timeout");
        cancelled(2).await;
        // By going away.
        let call = rig.call("s", "sleep", json!({"seconds": 60}));
        assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
        cancelled(3).await;
        rig.upstreams.close().await;
    });
}

#[test]
fn a_program_gets_its_own_variables_and_a_safe_base_and_nothing_else() {
    run(async {
        let mut server = fake(&[]);
        server["env"] = json!({"API_KEY": "sesame-open", "HOME": "/nowhere"});
        let rig = start(&[("s", server)], &options());
        let env = rig.structured("s", "env").await;
        assert_eq!(
            (env["API_KEY"].as_str(), env["HOME"].as_str()),
            (Some("sesame-open"), Some("/nowhere"))
        );
        assert!(env["PATH"].is_string());
        let base = [
            "HOME",
            "LANG",
            "LC_ALL",
            "LC_CTYPE",
            "LC_MESSAGES",
            "LOGNAME",
            "NO_COLOR",
            "PATH",
            "SHELL",
            "SSL_CERT_DIR",
            "SSL_CERT_FILE",
            "TERM",
            "TMPDIR",
            "TZ",
            "USER",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "API_KEY",
        ];
        // A shell on the way to Python may set these of its own.
        let shell = |name: &str| matches!(name, "PWD" | "OLDPWD" | "SHLVL" | "_") || name.contains("PYENV");
        let foreign = |name: &str| !base.contains(&name) && !shell(name) && std::env::var_os(name).is_some();
        let env = env.as_object().expect("an object");
        let more: Vec<&String> = env.keys().filter(|name| foreign(name)).collect();
        assert!(more.is_empty(), "{more:?}");
        rig.upstreams.close().await;
    });
}

#[test]
fn closing_ends_the_whole_group_even_of_a_stubborn_program() {
    run(async {
        let rig = start(&[("s", fake(&["stubborn"]))], &options());
        let child = pid(&rig.structured("s", "spawn").await);
        let leader = pid(&rig.structured("s", "pid").await);
        assert!(is_alive(child) && is_alive(leader));
        rig.upstreams.close().await;
        dead(leader).await;
        dead(child).await;
    });
}

#[test]
fn dropping_ends_the_whole_group_too() {
    run(async {
        let rig = start(&[("s", fake(&["stubborn"]))], &options());
        let child = pid(&rig.structured("s", "spawn").await);
        drop(rig.upstreams);
        dead(child).await;
    });
}

// The system's files about processes are Linux's.
#[cfg(target_os = "linux")]
#[test]
fn a_program_starts_under_the_eyes_of_the_process_that_would_end_it() {
    run(async {
        let rig = start(&[("s", fake(&[]))], &options());
        let program = pid(&rig.structured("s", "pid").await);
        let program = rustix::process::Pid::from_raw(program);
        let leader = rustix::process::getpgid(program).expect("it runs").as_raw_pid();
        let leader = std::fs::read_to_string(format!("/proc/{leader}/cmdline")).expect("it runs");
        assert!(leader.contains("devloop-guard"), "the group is led by {leader}");
        rig.upstreams.close().await;
    });
}

/// Not a test of its own: it is started by the next one, and killed.
#[test]
#[ignore = "started by another test"]
fn a_host_that_will_be_killed() {
    let Some(file) = std::env::var_os("DEVLOOP_TEST_FILE") else {
        return;
    };
    run(async {
        let rig = start(&[("s", fake(&["stubborn"]))], &options());
        let leader = pid(&rig.structured("s", "pid").await);
        let child = pid(&rig.structured("s", "spawn").await);
        std::fs::write(file, format!("{leader} {child}")).expect("it writes");
        tokio::time::sleep(LONG).await;
    });
}

#[test]
fn no_orphan_is_left_when_the_host_is_killed() {
    run(async {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("pids");
        let mut host = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "talk::a_host_that_will_be_killed"])
            .env("DEVLOOP_TEST_FILE", &file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        let pids = until("the host", || {
            let text = std::fs::read_to_string(&file).ok()?;
            let pids: Vec<i32> = text.split(' ').filter_map(|pid| pid.parse().ok()).collect();
            (pids.len() == 2).then_some(pids)
        })
        .await;
        assert!(pids.iter().all(|pid| is_alive(*pid)));
        host.kill().expect("SIGKILL");
        host.wait().expect("it ends");
        for pid in pids {
            dead(pid).await;
        }
    });
}

#[test]
fn a_resource_that_is_subscribed_to_tells_its_changes() {
    run(async {
        let rig = start(&[("s", fake(&["subscribes"]))], &options());
        rig.settled().await;
        let subscribed = rig
            .upstreams
            .resource_subscribe("s", "file:///b", CallOptions::default());
        assert_eq!(subscribed.await, Ok(json!({})));
        let uri = until("the change of the resource", || {
            let mut changes = rig.catalogue.drain_resource().items;
            changes.pop().map(|change| change.uri)
        });
        assert_eq!(uri.await, "file:///b");
        let taken_back = rig
            .upstreams
            .resource_unsubscribe("s", "file:///b", CallOptions::default());
        assert_eq!(taken_back.await, Ok(json!({})));
        rig.upstreams.close().await;
    });
}

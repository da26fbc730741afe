//! The MCP face over in-memory pipes: raw frames in, raw frames out.

#[expect(unreachable_pub, reason = "shared with another test")]
mod mcp_client;
#[expect(unreachable_pub, reason = "shared with an example and another test")]
mod mcp_fake;

use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::Duration;

use devloop_runtime::mcp::{ExitReason, ServeOptions};
use mcp_client::{GUARD, Wire, call, cancelled, error_of, text_of};
use mcp_fake::Fake;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

/// A client of the fake service.
struct Client {
    wire: Wire,
    fake: Fake,
}

impl Deref for Client {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

impl Client {
    fn start(options: ServeOptions) -> Self {
        let fake = Fake::default();
        Self {
            wire: Wire::start(fake.clone(), options),
            fake,
        }
    }

    async fn open() -> Self {
        Self::open_with(ServeOptions::default()).await
    }

    async fn open_with(options: ServeOptions) -> Self {
        let mut client = Self::start(options);
        client.greet(&initialize("2025-06-18")).await;
        client
    }

    /// Waits until so many calls have begun.
    async fn begun(&self, count: usize) {
        let begun = async {
            while self.fake.begun.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(GUARD, begun).await.expect("the call begins");
    }

    async fn ended(self) -> (ExitReason, Vec<Value>) {
        self.wire.ended().await
    }
}

fn initialize(version: &str) -> Value {
    mcp_client::initialize(version, "test", &json!({}))
}

fn modern(id: u64, method: &str, params: Value) -> Value {
    mcp_client::modern(id, method, params, &json!({}))
}

/// Sends each frame and expects its refusal: the frame, the id, the code, a part of the message.
async fn refused(client: &mut Client, frames: &[(&[u8], Value, i64, &str)]) {
    for (frame, id, code, part) in frames {
        let shown = String::from_utf8_lossy(frame);
        client.send_bytes(&[*frame, b"\n"].concat()).await;
        let answer = client.next().await;
        assert_eq!(answer.get("id"), Some(id), "{shown}: {answer}");
        let (found, message) = error_of(&answer);
        assert_eq!(found, *code, "{shown}: {answer}");
        assert!(message.contains(part), "{shown}: {answer}");
    }
    client.nothing_but_a_ping().await;
}

#[tokio::test]
async fn what_is_not_json_is_answered_to_its_id() {
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"echo","arguments":{{"a":{}1{}}}}}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let frames: &[(&[u8], Value, i64, &str)] = &[
        (b"{oops", Value::Null, -32700, "not JSON"),
        (
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/list""#,
            json!(1),
            -32700,
            "not JSON",
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"\xff\"}",
            json!(2),
            -32700,
            "not JSON",
        ),
        (
            b"{\"id\":2,\"\xff\":1,\"method\":\"ping\"}",
            json!(2),
            -32700,
            "not JSON",
        ),
        (
            br#"{"method":"tools/call","params":{"arguments":{"text":"\ud800"}},"jsonrpc":"2.0","id":3}"#,
            json!(3),
            -32700,
            "must come in pairs",
        ),
        (
            br#"{"method":"x","params":"\ud83dx","id":"s"}"#,
            json!("s"),
            -32700,
            "must come in pairs",
        ),
        (
            br#"{"jsonrpc":"2.0","id":"\ud83d","method":"ping"}"#,
            Value::Null,
            -32700,
            "must come in pairs",
        ),
        (deep.as_bytes(), json!(4), -32700, "recursion"),
        (
            br#"{"jsonrpc":"2.0","id":5,"method":"ping"} x"#,
            json!(5),
            -32700,
            "not JSON",
        ),
    ];
    refused(&mut Client::open().await, frames).await;
}

#[tokio::test]
async fn json_that_is_no_request_is_answered() {
    let frames: &[(&[u8], Value, i64, &str)] = &[
        (b"5", Value::Null, -32600, "a number"),
        (b"\"hello\"", Value::Null, -32600, "a string"),
        (b"[]", Value::Null, -32600, "batches"),
        (b"[1,{}]", Value::Null, -32600, "batches"),
        (br#"{"jsonrpc":"2.0","id":5}"#, json!(5), -32600, "`method`"),
        (b"{}", Value::Null, -32600, "`method`"),
        (br#"{"jsonrpc":"2.0","id":6,"method":7}"#, json!(6), -32600, "`method`"),
        (br#"{"id":7,"method":"ping"}"#, json!(7), -32600, "`jsonrpc`"),
        (
            br#"{"jsonrpc":"1.0","id":8,"method":"ping"}"#,
            json!(8),
            -32600,
            "`jsonrpc`",
        ),
        (
            br#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            Value::Null,
            -32600,
            "`id`",
        ),
        (
            br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            Value::Null,
            -32600,
            "`id`",
        ),
        (
            br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            json!(1.5),
            -32600,
            "`id`",
        ),
        (
            br#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"ping"}"#,
            json!(u64::MAX),
            -32600,
            "`id`",
        ),
    ];
    refused(&mut Client::open().await, frames).await;
}

#[tokio::test]
async fn wrong_parameters_and_methods_are_answered() {
    let frames: &[(&[u8], Value, i64, &str)] = &[
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}"#, json!(1), -32602, "`params`"),
        (br#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{}}"#, json!(2), -32602, "`params.name`"),
        (br#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#, json!(3), -32602, "`params.name`"),
        (
            br#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":"{}"}}"#,
            json!(4),
            -32602,
            "`params.arguments` must be an object, found a string",
        ),
        (
            br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":[]}}"#,
            json!(5),
            -32602,
            "found an array",
        ),
        (
            br#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"echo","arguments":{"a":[{"b":1,"b":2}]}}}"#,
            json!(6),
            -32602,
            r#"duplicate key "b" in params.arguments.a[0]"#,
        ),
        (
            br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","name":"big"}}"#,
            json!(7),
            -32602,
            r#"duplicate key "name" in params"#,
        ),
        (
            br#"{"jsonrpc":"2.0","id":8,"method":"ping","method":"tools/list"}"#,
            json!(8),
            -32602,
            r#"duplicate key "method" in the outermost object"#,
        ),
        (br#"{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":5}}"#, json!(9), -32602, "`params.cursor`"),
        (br#"{"jsonrpc":"2.0","id":10,"method":"tools/list","params":{"_meta":5}}"#, json!(10), -32602, "`params._meta`"),
        (br#"{"jsonrpc":"2.0","id":11,"method":"no/such"}"#, json!(11), -32601, "no method \"no/such\" here; this server answers initialize"),
        (br#"{"jsonrpc":"2.0","id":12,"method":"logging/setLevel"}"#, json!(12), -32601, "no method \"logging/setLevel\""),
        (br#"{"jsonrpc":"2.0","id":13,"method":"resources/read","params":{}}"#, json!(13), -32602, "`params.uri` is missing: it must be a string"),
        (br#"{"jsonrpc":"2.0","id":14,"method":"prompts/get"}"#, json!(14), -32602, "`params.name` is missing: it must be a string"),
        (
            br#"{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":"echo","inputResponses":[]}}"#,
            json!(15),
            -32602,
            "`params.inputResponses` must be an object, found an array",
        ),
        (
            br#"{"jsonrpc":"2.0","id":16,"method":"tools/call","params":{"name":"echo","requestState":1}}"#,
            json!(16),
            -32602,
            "`params.requestState` must be a string, found a number",
        ),
    ];
    refused(&mut Client::open().await, frames).await;
}

#[tokio::test]
async fn an_opening_that_does_not_fit_names_the_field() {
    let info = json!({"name": "test", "version": "1"});
    for (params, part) in [
        (json!({}), "`params.protocolVersion` is missing: it must be a string"),
        (
            json!({"protocolVersion": 5, "capabilities": {}, "clientInfo": info}),
            "`params.protocolVersion` must be a string, found a number",
        ),
        (
            json!({"protocolVersion": "2025-06-18", "clientInfo": info}),
            "`params.capabilities` is missing: it must be an object",
        ),
        (
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": []}),
            "`params.clientInfo` must be an object, found an array",
        ),
        (
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}}),
            "`params.clientInfo.version` is missing: it must be a string",
        ),
    ] {
        let mut client = Client::start(ServeOptions::default());
        client
            .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
            .await;
        assert_eq!(error_of(&client.next().await), (-32602, part));
        client.nothing_but_a_ping().await;
    }
}

#[tokio::test]
async fn a_line_beyond_the_limit_is_skipped_and_answered() {
    let mut client = Client::open().await;
    let long = "x".repeat(17 * 1024 * 1024);
    for frame in [
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"{long}\"}}}}\n"),
        format!("{{\"method\":\"tools/call\",\"params\":{{\"name\":\"{long}\"}},\"jsonrpc\":\"2.0\",\"id\":1}}\n"),
    ] {
        client.send_bytes(frame.as_bytes()).await;
        let answer = client.next().await;
        assert_eq!((&answer["id"], error_of(&answer).0), (&json!(1), -32700), "{answer}");
    }
    client.nothing_but_a_ping().await;
}

#[tokio::test]
async fn every_id_in_a_batch_is_answered() {
    let mut client = Client::open().await;
    let notification = json!({"jsonrpc": "2.0", "method": "x"});
    client
        .send(&json!([
            call(1, "echo", json!({})),
            notification,
            call(2, "echo", json!({})),
            3
        ]))
        .await;
    for id in [1, 2] {
        let answer = client.next().await;
        assert_eq!((&answer["id"], error_of(&answer).0), (&json!(id), -32600));
    }
    client.nothing_but_a_ping().await;
}

#[tokio::test]
async fn what_needs_no_answer_gets_none() {
    let mut client = Client::open().await;
    for frame in [
        "",
        "\r",
        "   ",
        r#"{"jsonrpc":"2.0","method":"notifications/none-such","params":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","method":"$/lsp"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":5}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"a":1,"a":2}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":9,"error":{"code":1,"message":"x"}}"#,
    ] {
        client.send_bytes(format!("{frame}\n").as_bytes()).await;
    }
    client.nothing_but_a_ping().await;
}

#[tokio::test]
async fn carriage_returns_byte_order_marks_and_pieces_are_tolerated() {
    let mut client = Client::open().await;
    client
        .send_bytes(b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":7.0,\"method\":\"ping\"}\r\n")
        .await;
    assert_eq!(client.next().await["id"], json!(7));
    for byte in b"{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\n" {
        client.send_bytes(&[*byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.next().await["id"], json!(8));
}

#[tokio::test]
async fn arguments_may_be_left_out() {
    let mut client = Client::open().await;
    for params in [
        json!({"name": "echo"}),
        json!({"name": "echo", "arguments": null, "_meta": null}),
    ] {
        client
            .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
            .await;
        assert_eq!(
            client.next().await["result"]["structuredContent"],
            json!({"ok": true, "echo": {}})
        );
    }
}

#[tokio::test]
async fn a_second_request_with_an_id_in_flight_is_refused_and_the_first_still_answers() {
    let mut client = Client::open().await;
    client.call(1, "meet", json!({})).await;
    client.begun(1).await;
    client.call(1, "echo", json!({})).await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], error_of(&answer).0), (&json!(1), -32600));
    assert!(error_of(&answer).1.contains("id 1 is already in flight"), "{answer}");
    // Calls run at the same time, or these two would never meet.
    client.call(2, "meet", json!({})).await;
    let mut ids = [client.next().await, client.next().await].map(|answer| answer["id"].as_u64().expect("an id"));
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    // Once answered, the id is free.
    client.call(1, "echo", json!({})).await;
    assert_eq!(client.next().await["result"]["isError"], json!(false));
}

#[tokio::test]
async fn a_number_and_a_string_are_different_ids() {
    let mut client = Client::open().await;
    client.call(1, "meet", json!({})).await;
    client.begun(1).await;
    let mut other = call(0, "meet", json!({}));
    other["id"] = json!("1");
    client.send(&other).await;
    let ids = [client.next().await, client.next().await].map(|answer| answer["id"].clone());
    assert!(ids.contains(&json!(1)) && ids.contains(&json!("1")), "{ids:?}");
}

#[tokio::test]
async fn a_cancelled_call_stops_and_is_not_answered() {
    let mut client = Client::open().await;
    client.call(1, "sleep", json!({})).await;
    client.begun(1).await;
    client.send(&cancelled(1)).await;
    client.nothing_but_a_ping().await;
    let stopped = async {
        while client.fake.cancelled.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(GUARD, stopped).await.expect("the call stops");
    // Once it has stopped, its id is free, and what it returned is gone.
    client.nothing_but_a_ping().await;
    client.call(1, "echo", json!({})).await;
    assert_eq!(
        client.next().await["result"]["structuredContent"],
        json!({"ok": true, "echo": {}})
    );
}

#[tokio::test]
async fn the_id_of_a_cancelled_call_is_taken_until_the_call_has_stopped() {
    let mut client = Client::open().await;
    client.call(1, "stubborn", json!({})).await;
    client.begun(1).await;
    client.send(&cancelled(1)).await;
    client.call(1, "echo", json!({})).await;
    let answer = client.next().await;
    assert!(error_of(&answer).1.contains("still stopping"), "{answer}");
}

#[tokio::test]
async fn progress_only_grows_and_comes_before_the_answer() {
    let mut client = Client::open().await;
    let mut frame = call(1, "progress", json!({}));
    frame["params"]["_meta"] = json!({"progressToken": "t"});
    client.send(&frame).await;
    let mut seen = Vec::new();
    let answer = loop {
        let frame = client.next().await;
        if frame["method"] != json!("notifications/progress") {
            break frame;
        }
        assert_eq!(frame["params"]["progressToken"], json!("t"));
        assert_eq!(frame["params"]["total"], json!(3.0));
        seen.push((frame["params"]["progress"].clone(), frame["params"]["message"].clone()));
    };
    let expected = [(1.0, "step 1"), (2.0, "step 2"), (3.0, "step 3")].map(|(done, text)| (json!(done), json!(text)));
    assert_eq!(seen, expected);
    assert_eq!(answer["result"]["structuredContent"]["asked"], json!(true));
    // Without a token there is none.
    client.call(2, "progress", json!({})).await;
    assert_eq!(
        client.next().await["result"]["structuredContent"]["asked"],
        json!(false)
    );
}

#[tokio::test]
async fn a_call_that_says_nothing_for_long_gives_signs_of_life_until_it_ends() {
    let silence = Duration::from_millis(20);
    let mut client = Client::open_with(ServeOptions {
        silence,
        ..ServeOptions::default()
    })
    .await;
    let mut frame = call(1, "lull", json!({}));
    frame["params"]["_meta"] = json!({"progressToken": "t"});
    client.send(&frame).await;
    let mut steps = Vec::new();
    let mut next = async |client: &mut Client| {
        let frame = client.next().await;
        if frame["method"] != json!("notifications/progress") {
            return Some(frame);
        }
        assert_eq!(frame["params"]["progressToken"], json!("t"));
        let message = frame["params"]["message"].as_str().expect("a message").to_owned();
        steps.push((frame["params"]["progress"].as_f64().expect("a number"), message));
        None
    };
    // Silent, one step, and silent again when nobody is left who could report.
    for _ in 0..3 {
        assert_eq!(next(&mut client).await, None);
    }
    client.fake.go_on.add_permits(1);
    for _ in 0..6 {
        assert_eq!(next(&mut client).await, None);
    }
    client.fake.go_on.add_permits(1);
    let answer = loop {
        if let Some(answer) = next(&mut client).await {
            break answer;
        }
    };
    assert_eq!(answer["result"]["structuredContent"]["ok"], json!(true));
    let (life, own): (Vec<_>, Vec<_>) = steps
        .iter()
        .partition(|(_, text)| text.starts_with("still at work after "));
    assert!(life.len() >= 8, "{steps:?}");
    assert_eq!(own.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["half"]);
    assert!(steps.is_sorted_by(|one, next| one.0 < next.0), "{steps:?}");
    // Nothing follows the answer.
    tokio::time::sleep(3 * silence).await;
    client.nothing_but_a_ping().await;
    // Who did not ask is told nothing.
    client.call(2, "lull", json!({})).await;
    tokio::time::sleep(3 * silence).await;
    client.fake.go_on.add_permits(2);
    assert_eq!(client.next().await["id"], 2);
}

#[tokio::test]
async fn a_success_is_structured_and_the_same_as_text() {
    let mut client = Client::open().await;
    client.call(1, "echo", json!({"text": "héllo\n", "n": 1.5})).await;
    let answer = client.next().await;
    let structured = json!({"ok": true, "echo": {"text": "héllo\n", "n": 1.5}});
    assert_eq!(answer["result"]["structuredContent"], structured);
    assert_eq!(
        serde_json::from_str::<Value>(text_of(&answer)).expect("JSON"),
        structured
    );
    assert_eq!(answer["result"]["isError"], json!(false));
    assert_eq!(answer["result"].get("resultType"), None);
}

#[tokio::test]
async fn failures_are_results_with_everything_in_the_text() {
    let mut client = Client::open().await;
    let expected = r#"{"ok":false,"code":"no_list","reason":"there is no list","hint":"Write one first.","details":{"looked":"here"}}"#;
    for (how, parts) in [
        ("expected", &[expected][..]),
        ("invalid", &["items[3].id (/items/3/id): no such id"]),
        (
            "sandbox",
            &["Sandbox violation:pm tried to write units/x\npm may write prd/**."],
        ),
        (
            "internal",
            &[
                "internal error: the list cannot be read: no space\n",
                "e-1",
                "reported",
                "Do not retry blindly",
            ],
        ),
        ("cancelled", &["cancelled"]),
    ] {
        client.call(1, "fail", json!({"how": how})).await;
        let answer = client.next().await;
        assert_eq!(answer["result"]["isError"], json!(true), "{answer}");
        assert_eq!(answer["result"].get("structuredContent"), None, "{answer}");
        for part in parts {
            assert!(text_of(&answer).contains(part), "{how}: {answer}");
        }
    }
    client.call(1, "fail", json!({"how": "expected"})).await;
    assert_eq!(text_of(&client.next().await), expected);
    client.call(1, "fail", json!({"how": "long"})).await;
    assert_eq!(text_of(&client.next().await).chars().count(), 4_000);
}

#[tokio::test]
async fn a_panic_is_an_internal_error() {
    let mut client = Client::open().await;
    client.call(1, "panic", json!({})).await;
    let answer = client.next().await;
    assert!(
        text_of(&answer).starts_with("internal error: the call broke off: it panicked: as asked\n"),
        "{answer}"
    );
    client.nothing_but_a_ping().await;
}

#[tokio::test]
async fn an_unknown_tool_is_refused_with_the_nearest_names() {
    let mut client = Client::open().await;
    client.call(1, "eccho", json!({})).await;
    let answer = client.next().await;
    assert_eq!(
        error_of(&answer),
        (-32602, r#"unknown tool "eccho": did you mean echo?"#)
    );
    assert_eq!(answer["error"]["data"], json!({"name": "eccho", "nearest": ["echo"]}));
}

#[tokio::test]
async fn a_big_result_comes_whole() {
    let mut client = Client::open().await;
    client.call(1, "big", json!({"size": 4 << 20})).await;
    let answer = client.next().await;
    assert_eq!(
        answer["result"]["structuredContent"]["text"].as_str().map(str::len),
        Some(4 << 20)
    );
}

#[tokio::test]
async fn the_call_is_named_by_the_client_or_by_process_and_id() {
    let mut client = Client::open().await;
    let mut frame = call(1, "who", json!({}));
    frame["params"]["_meta"] = json!({"claudecode/toolUseId": "toolu_1"});
    client.send(&frame).await;
    assert_eq!(
        client.next().await["result"]["structuredContent"]["tool_use_id"],
        json!("toolu_1")
    );
    let mut names = Vec::new();
    for id in [json!(5), json!("5")] {
        frame["id"] = id;
        frame["params"]["_meta"] = json!({"claudecode/toolUseId": ""});
        client.send(&frame).await;
        let answer = client.next().await;
        names.push(
            answer["result"]["structuredContent"]["tool_use_id"]
                .as_str()
                .expect("a name")
                .to_owned(),
        );
    }
    assert!(names[0].ends_with(":5") && names[1].ends_with(":\"5\""), "{names:?}");
    assert_eq!(names[0].len(), 36 + 2);
}

#[tokio::test]
async fn the_list_says_everything_about_a_tool() {
    let mut client = Client::open().await;
    client
        .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
        .await;
    let answer = client.next().await;
    assert_eq!(answer["result"].get("nextCursor"), None);
    let tools = answer["result"]["tools"].as_array().expect("a list");
    let names: Vec<_> = tools
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        names,
        [
            "big", "echo", "fail", "lull", "meet", "panic", "progress", "sleep", "stubborn", "who"
        ]
    );
    let text = json!({"type": "string", "description": "What to say."});
    let ok = json!({"type": "boolean", "description": "Always true."});
    let echo = json!({
        "name": "echo",
        "title": "Echo",
        "description": "Answers with its arguments.",
        "inputSchema":
            {"type": "object", "properties": {"text": text}, "required": [], "additionalProperties": false},
        "outputSchema": {"type": "object", "properties": {"ok": ok}, "required": ["ok"]},
        "annotations": {
            "title": "Echo",
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
        "_meta": {"anthropic/alwaysLoad": true, "anthropic/searchHint": "say again"},
    });
    assert_eq!(tools[1], echo);
    assert_eq!(tools[0]["annotations"]["readOnlyHint"], json!(false));
    assert_eq!(tools[0]["annotations"]["destructiveHint"], json!(true));
    assert_eq!(tools[0].get("_meta"), None);
}

#[tokio::test]
async fn the_list_comes_in_pages_and_a_foreign_cursor_is_refused() {
    let options = ServeOptions {
        page_size: 4,
        ..ServeOptions::default()
    };
    let mut client = Client::open_with(options).await;
    let (mut names, mut params, mut cursors) = (Vec::new(), json!({}), Vec::new());
    loop {
        client
            .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}))
            .await;
        let answer = client.next().await;
        let tools = answer["result"]["tools"].as_array().expect("a list");
        names.extend(
            tools
                .iter()
                .map(|tool| tool["name"].as_str().expect("a name").to_owned()),
        );
        let Some(cursor) = answer["result"].get("nextCursor") else {
            break;
        };
        cursors.push(cursor.as_str().expect("a string").to_owned());
        params = json!({"cursor": cursor});
    }
    assert_eq!((names.len(), cursors.len()), (10, 2));
    assert!(names.is_sorted());
    let list = &cursors[0][..16];
    let made_up = ["", "0", "é", "xxxxxxxxxxxxxxxx4", list].map(str::to_owned);
    for bad in made_up
        .into_iter()
        .chain(["0", "5", "fff", "+4", "c"].map(|start| format!("{list}{start}")))
    {
        client
            .send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": bad}}))
            .await;
        let answer = client.next().await;
        assert_eq!(error_of(&answer).0, -32602, "{bad}: {answer}");
        assert!(error_of(&answer).1.starts_with("unknown cursor"), "{answer}");
    }
}

#[tokio::test]
async fn a_list_of_one_page_refuses_every_cursor() {
    let mut client = Client::open_with(ServeOptions::default()).await;
    for (method, list) in [
        ("tools/list", "tools"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        for params in [
            json!({}),
            json!({"cursor": ""}),
            json!({"cursor": "x"}),
            json!({"cursor": 5}),
        ] {
            client
                .send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
                .await;
            let answer = client.next().await;
            let Some(cursor) = params.get("cursor") else {
                assert!(answer["result"][list].is_array(), "{answer}");
                assert_eq!(answer["result"].get("nextCursor"), None, "{answer}");
                continue;
            };
            let (code, message) = error_of(&answer);
            assert_eq!(code, -32602, "{method} {params}: {answer}");
            let expected = if cursor.is_string() {
                "unknown cursor"
            } else {
                "`params.cursor`"
            };
            assert!(message.contains(expected), "{answer}");
        }
    }
}

#[tokio::test]
async fn every_version_with_a_handshake_is_spoken() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::start(ServeOptions::default());
        client.send(&initialize(version)).await;
        let result = &client.next().await["result"];
        assert_eq!(result["protocolVersion"], json!(version));
        let info = json!({"name": "devloop", "title": "devloop tool registry", "version": env!("CARGO_PKG_VERSION")});
        assert_eq!(result["serverInfo"], info);
        assert_eq!(result["instructions"], json!("A service for tests."));
        let capabilities = json!({"tools": {"listChanged": true}, "resources": {"listChanged": true}, "prompts": {}});
        assert_eq!(result["capabilities"], capabilities);
    }
    let mut client = Client::start(ServeOptions::default());
    client.send(&initialize("1999-01-01")).await;
    assert_eq!(client.next().await["result"]["protocolVersion"], json!("2025-11-25"));
}

#[tokio::test]
async fn the_era_without_a_handshake_is_spoken() {
    let mut client = Client::start(ServeOptions::default());
    client.send(&modern(1, "server/discover", json!({}))).await;
    let answer = client.next().await;
    let versions = answer["result"]["supportedVersions"].as_array().expect("versions");
    assert!(
        versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2024-11-05")),
        "{answer}"
    );
    assert_eq!(answer["result"]["instructions"], json!("A service for tests."));
    client.send(&modern(2, "tools/list", json!({}))).await;
    assert_eq!(
        client.next().await["result"]["tools"].as_array().map(Vec::len),
        Some(10)
    );
    client
        .send(&modern(
            3,
            "tools/call",
            json!({"name": "echo", "arguments": {"text": "x"}}),
        ))
        .await;
    let answer = client.next().await;
    assert_eq!(
        answer["result"]["structuredContent"],
        json!({"ok": true, "echo": {"text": "x"}})
    );
    assert_eq!(answer["result"]["resultType"], json!("complete"));
    // In this era every request carries its own metadata.
    client.call(4, "echo", json!({})).await;
    assert_eq!(error_of(&client.next().await).0, -32602);
    let mut unknown = modern(5, "tools/list", json!({}));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    client.send(&unknown).await;
    assert_eq!(error_of(&client.next().await).0, -32022);
}

#[tokio::test]
async fn a_probe_may_be_followed_by_a_handshake() {
    let mut client = Client::start(ServeOptions::default());
    client.send(&modern(1, "server/discover", json!({}))).await;
    assert!(client.next().await["result"].is_object());
    client.send(&initialize("2025-06-18")).await;
    assert_eq!(client.next().await["result"]["protocolVersion"], json!("2025-06-18"));
    client.call(2, "echo", json!({})).await;
    assert_eq!(client.next().await["result"]["isError"], json!(false));
}

#[tokio::test]
async fn nothing_before_the_opening_ends_the_server() {
    let mut client = Client::start(ServeOptions::default());
    for frame in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        cancelled(1),
        json!({"jsonrpc": "2.0", "id": 9, "result": {}}),
    ] {
        client.send(&frame).await;
    }
    client.call(1, "echo", json!({})).await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], error_of(&answer).0), (&json!(1), -32602));
    assert!(error_of(&answer).1.contains("initialize"), "{answer}");
    client
        .send(&json!({"jsonrpc": "2.0", "id": 2, "method": "server/discover"}))
        .await;
    assert_eq!(error_of(&client.next().await).0, -32602);
    client
        .send(&json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}}))
        .await;
    assert_eq!(error_of(&client.next().await).0, -32602);
    let mut unknown = modern(4, "tools/list", json!({}));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2999-01-01");
    client.send(&unknown).await;
    assert_eq!(error_of(&client.next().await).0, -32022);
    client.nothing_but_a_ping().await;
    client.send(&initialize("2025-06-18")).await;
    assert!(client.next().await["result"].is_object());
}

#[tokio::test]
async fn an_immediate_end_of_input_ends_the_server() {
    let mut client = Client::start(ServeOptions::default());
    client.end_input().await;
    let (reason, rest) = client.ended().await;
    assert_eq!((reason.exit_code(), reason, rest), (0, ExitReason::InputEnded, vec![]));
}

#[tokio::test]
async fn what_came_before_the_end_of_input_is_answered() {
    let mut client = Client::open().await;
    let mut frames = String::new();
    for id in 0..500 {
        writeln!(frames, "{}", call(id, "echo", json!({"id": id}))).expect("a string takes all");
    }
    // The last line lacks its newline.
    client.send_bytes(frames.trim_end().as_bytes()).await;
    client.end_input().await;
    let (reason, mut rest) = client.ended().await;
    assert_eq!(reason, ExitReason::InputEnded);
    rest.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(rest.len(), 500);
    for (id, answer) in rest.iter().enumerate() {
        assert_eq!(answer["result"]["structuredContent"]["echo"], json!({"id": id}));
    }
}

#[tokio::test]
async fn a_client_that_reads_slowly_after_the_end_of_input_gets_everything() {
    let options = ServeOptions {
        flush_grace: Duration::from_secs(4),
        ..ServeOptions::default()
    };
    let mut client = Client::open_with(options).await;
    for id in 0..4 {
        client.call(id, "big", json!({"size": 1 << 20})).await;
    }
    client.end_input().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    for _ in 0..4 {
        let answer = client.next().await;
        assert_eq!(
            answer["result"]["structuredContent"]["text"].as_str().map(str::len),
            Some(1 << 20)
        );
    }
    assert_eq!(client.ended().await, (ExitReason::InputEnded, vec![]));
}

#[tokio::test]
async fn the_end_of_input_cancels_what_does_not_finish() {
    let mut client = Client::open().await;
    client.call(1, "sleep", json!({})).await;
    client.begun(1).await;
    client.end_input().await;
    let saw_it = client.fake.cancelled.clone();
    let (reason, rest) = client.ended().await;
    assert_eq!((reason, saw_it.load(Ordering::SeqCst)), (ExitReason::InputEnded, 1));
    assert_eq!(rest.len(), 1);
    assert!(text_of(&rest[0]).contains("cancelled"));
}

#[tokio::test]
async fn a_call_that_ignores_its_cancellation_does_not_hold_the_server() {
    let mut client = Client::open().await;
    client.call(1, "stubborn", json!({})).await;
    client.begun(1).await;
    client.end_input().await;
    assert_eq!(client.ended().await, (ExitReason::InputEnded, vec![]));
}

#[tokio::test]
async fn a_client_that_is_gone_ends_the_server() {
    let mut client = Client::open().await;
    client.call(1, "sleep", json!({})).await;
    client.call(2, "big", json!({"size": 1 << 20})).await;
    let Wire {
        writer, lines, serving, ..
    } = client.wire;
    drop((lines, writer));
    let reason = timeout(GUARD, serving)
        .await
        .expect("the server ends")
        .expect("no panic");
    assert_eq!(reason.exit_code(), 0);
}

#[tokio::test]
async fn calls_that_do_not_wait_are_all_carried_out_however_many_come_at_once() {
    let mut client = Client::open().await;
    let count = 3_000;
    let mut writer = client.writer.take().expect("open");
    let sending = tokio::spawn(async move {
        for id in 0..count {
            let frame = format!("{}\n", call(id, "echo", json!({})));
            writer.write_all(frame.as_bytes()).await.expect("the server reads");
        }
        writer
    });
    let mut ids = Vec::new();
    for _ in 0..count {
        let answer = client.next().await;
        assert_eq!(answer["result"]["structuredContent"]["ok"], true, "{answer}");
        ids.push(answer["id"].as_u64().expect("an id"));
    }
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..count));
    drop(sending.await.expect("no panic"));
}

/// A service may let any number of calls wait; a connection does not.
#[tokio::test]
async fn a_connection_lets_only_so_many_calls_wait_and_holds_nothing_else_up() {
    let most = ServeOptions::default().waiting;
    let mut client = Client::open().await;
    let count = u64::try_from(most).expect("a number");
    for id in 0..count {
        client.call(id, "sleep", json!({})).await;
    }
    client.begun(most).await;
    client.call(count, "echo", json!({})).await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let body: Value = serde_json::from_str(text_of(&answer)).expect("JSON");
    assert_eq!(
        (&body["code"], &body["reason"]),
        (
            &json!("tool_busy"),
            &json!(format!(
                "{most} calls wait on this connection already; nothing was done"
            ))
        )
    );
    client.nothing_but_a_ping().await;
    client
        .send(&json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"}))
        .await;
    assert!(client.next().await["result"]["tools"].is_array());
    client.send(&cancelled(7)).await;
    client.call(count, "echo", json!({})).await;
    assert_eq!(client.next().await["result"]["structuredContent"]["ok"], true);
    assert_eq!(client.fake.cancelled.load(Ordering::SeqCst), 1);
}

/// What a request counts with among those that wait: its frame, and 128 bytes for each JSON value in it.
fn counted(frame: &Value) -> usize {
    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values).sum(),
            Value::Object(entries) => entries.values().map(values).sum(),
            _ => 0,
        }
    }
    frame.to_string().len() + 128 * values(frame)
}

/// The reason of a call that was told that there is no room for it.
#[track_caller]
fn no_room(answer: &Value) -> String {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let body: Value = serde_json::from_str(text_of(answer)).expect("JSON");
    assert_eq!(
        (&body["code"], &body["hint"]),
        (&json!("tool_busy"), &json!("Call again when they have been answered."))
    );
    body["reason"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_connection_lets_calls_wait_with_only_so_many_bytes() {
    assert_eq!(ServeOptions::default().waiting_bytes, 64 * 1024 * 1024);
    let sleep = |id: u64, length: usize| call(id, "sleep", json!({"text": "x".repeat(length)}));
    let bound = counted(&sleep(1, 500_000)) + counted(&sleep(2, 300_000));
    let mut client = Client::open_with(ServeOptions {
        waiting_bytes: bound,
        ..ServeOptions::default()
    })
    .await;
    client.send(&sleep(1, 500_000)).await;
    client.begun(1).await;
    client.send(&sleep(2, 300_001)).await;
    let expected = |calls| {
        format!("{calls} on this connection already, and with this one they would take more than {bound} bytes")
    };
    let reason = no_room(&client.next().await);
    assert_eq!(reason, format!("{}; nothing was done", expected("1 call waits")));
    client.send(&sleep(2, 300_000)).await;
    client.begun(2).await;
    client.call(3, "echo", json!({})).await;
    let reason = no_room(&client.next().await);
    assert!(reason.starts_with(&expected("2 calls wait")), "{reason}");
    assert_eq!(client.fake.begun.load(Ordering::SeqCst), 2);
    // What is no call has room of its own.
    client.nothing_but_a_ping().await;
    client
        .send(&json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"}))
        .await;
    assert!(client.next().await["result"]["tools"].is_array());
    client.send(&cancelled(2)).await;
    client.call(3, "echo", json!({})).await;
    assert_eq!(client.next().await["result"]["structuredContent"]["ok"], true);
    // Many small values take more than their text.
    client.call(4, "echo", json!({ "numbers": vec![1; 100_000] })).await;
    no_room(&client.next().await);
}

#[tokio::test]
async fn a_call_that_waits_alone_may_have_more_bytes_than_may_wait() {
    let mut client = Client::open_with(ServeOptions {
        waiting_bytes: 0,
        ..ServeOptions::default()
    })
    .await;
    client.call(1, "sleep", json!({"text": "x".repeat(1 << 20)})).await;
    client.begun(1).await;
    client.call(2, "echo", json!({})).await;
    assert!(no_room(&client.next().await).starts_with("1 call waits on this connection already, and"));
    client.send(&cancelled(1)).await;
    client.call(2, "echo", json!({})).await;
    assert_eq!(client.next().await["result"]["structuredContent"]["ok"], true);
}

/// What waits without an answer is bounded for requests that are no calls, too.
#[tokio::test]
async fn a_connection_lets_only_so_many_listeners_wait() {
    let options = ServeOptions {
        waiting: 2,
        ..ServeOptions::default()
    };
    let mut client = Client::start(options);
    let listen = |id: u64| modern(id, "subscriptions/listen", json!({"notifications": {}}));
    for id in 0..2 {
        client.send(&listen(id)).await;
        let told = client.next().await;
        assert_eq!(told["method"], "notifications/subscriptions/acknowledged", "{told}");
    }
    client.send(&listen(2)).await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], error_of(&answer).0), (&json!(2), -32000));
    client
        .send(&modern(3, "tools/call", json!({"name": "echo", "arguments": {}})))
        .await;
    assert_eq!(client.next().await["result"]["structuredContent"]["ok"], true);
}

/// Nothing is taken in while answers are not read; nothing is lost by that.
#[tokio::test]
async fn a_client_that_does_not_read_is_held_up_and_then_gets_everything() {
    let mut client = Client::open().await;
    let count = 5_000;
    let mut writer = client.writer.take().expect("open");
    let sending = tokio::spawn(async move {
        for id in 0..count {
            let frame = format!("{}\n", call(id, "big", json!({"size": 5 * 1024})));
            writer.write_all(frame.as_bytes()).await.expect("the server reads");
        }
        writer
    });
    let begun = || client.fake.begun.load(Ordering::SeqCst);
    let mut last = usize::MAX;
    while last != begun() {
        last = begun();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Each answer has the text twice, and 32 MiB may wait to be read.
    assert!((1..3_600).contains(&last), "{last} calls were carried out and not read");
    let mut ids = Vec::new();
    for _ in 0..count {
        let line = timeout(GUARD, client.lines.next_line()).await.expect("in time");
        let line = line.expect("readable").expect("a line");
        assert!(line.contains(r#""isError":false"#), "{line:.200}");
        let (_, id) = line.split_once(r#""id":"#).expect("an id");
        let end = id.find([',', '}']).expect("an end");
        ids.push(id[..end].parse::<u64>().expect("a number"));
    }
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..count));
    drop(sending.await.expect("no panic"));
}

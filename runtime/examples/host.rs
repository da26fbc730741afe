//! A host program: tools of its own beside those of an agent, calls while a model still speaks, and what changed meanwhile.
//!
//! `cargo run -p devloop-runtime --example host` needs no network, works in a temporary directory, and prints:
//!
//! ```text
//! offered: order, price, tool_search, write_todolist
//! asked:   order(tea) of {"item":"tea"}
//! toolu_1: {"cents":420}
//! toolu_2: {"ok":true,"total":1,"path":"agent-state/pm-todo.json","current":"step-001","ready":["step-001"],"version":1}
//! toolu_3: {"ordered":"tea"}
//! toolu_4: {"ok":false,"code":"permission_denied","reason":"`order(gold)` is denied by the deny rule `order(gold*)` of the host program (the shop). Nothing was done.","hint":"Go on without it."}
//! loaded:  ["refund"]
//! session: added refund
//! session: loaded refund
//! the host's registry has no refund
//! ```

use std::error::Error;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use devloop_runtime::AgentId;
use devloop_runtime::call::{Approval, Approver, Ask, Boxed, CallRequest, Listing, ToolService};
use devloop_runtime::catalogue::Catalogue;
use devloop_runtime::contract::tool::{Exposure, Kind};
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::permission::{List, Rule};
use devloop_runtime::project::Project;
use devloop_runtime::registry::{Naming, ToolBuilder};
use devloop_runtime::session::{Runner, RunnerCall, RunnerError, Session, empty_catalogue};
use serde_json::{Map, Value, json};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(Project::open(dir.path())?, &mut io::stdout()))
}

/// Everything that a host does; it says on `out` what came of it.
pub(crate) async fn run(project: Project, out: &mut impl Write) -> Result<(), Failure> {
    // The registry of the process. Every session forks it: the tools are shared, what a session loads or registers is its own.
    let tools = shop()?;
    let agent = AgentId::Pm.agent();
    let identity = identify(agent, project.path(), Given::default(), None)?;
    let person = Arc::new(Person::default());
    let session = Session::builder(Arc::new(project), agent, identity)
        .tools(&tools)
        // The host's own, and two of those that the agent has anyway.
        .only(rules(&["price", "order", "refund", "tool_search", "write_todolist"])?)
        .rule(List::Allow, Rule::parse("price")?, "the shop")
        .rule(List::Deny, Rule::parse("order(gold*)")?, "the shop")
        // Where no rule speaks, somebody is asked.
        .approver(Arc::clone(&person) as Arc<dyn Approver>)
        .build()?;
    // What the queue has so far are the tools that the session began with.
    session.catalogue().drain_catalog();

    // What a model is shown; `devloop_runtime::registry::projection` has it in the form of each provider.
    let shown = session.tools(Listing::Shown);
    let names: Vec<&str> = shown.iter().map(|tool| &*tool.name).collect();
    writeln!(out, "offered: {}", names.join(", "))?;

    // The model speaks: each call is submitted as it comes. `price` begins at once, since it can do no harm if the answer
    // is thrown away; the others begin at the end. Outcomes come in the order of the calls.
    let mut calls = session.streaming();
    calls.submit(request("toolu_1", "price", json!({ "item": "tea" })))?;
    let list = json!({ "items": [{ "id": "step-001", "description": "Order tea" }] });
    calls.submit(request("toolu_2", "write_todolist", list))?;
    calls.submit(request("toolu_3", "order", json!({ "item": "tea" })))?;
    calls.submit(request("toolu_4", "order", json!({ "item": "gold" })))?;
    calls.end();
    let mut outcomes = Vec::new();
    while let Some((id, outcome)) = calls.next().await {
        let mut outcome = outcome.to_json();
        // Why in full, for programs; the reason has it for people.
        if let Some(object) = outcome.as_object_mut() {
            object.remove("details");
        }
        outcomes.push(format!("{id}: {outcome}"));
    }
    for ask in person.asked() {
        writeln!(out, "asked:   {} of {}", ask.signature, ask.input)?;
    }
    for outcome in outcomes {
        writeln!(out, "{outcome}")?;
    }

    // A tool of this session alone. It is deferred: shown once the model has searched for it.
    let refund = ToolBuilder::new("refund")
        .summary("Gives the money for an item back.")
        .kind(Kind::Write)
        .exposure(Exposure::Deferred)
        .input_schema(item());
    let refunded = Runner::of(|call: RunnerCall| async move { Ok(json!({ "refunded": call.input["item"] })) });
    session.catalogue().register(refund.build()?, refunded)?;
    let search = request("toolu_5", "tool_search", json!({ "query": "give money back" }));
    let found = session.call(search).await.to_json();
    writeln!(out, "loaded:  {}", found["loaded"])?;

    // What changed since the last look; the MCP face tells its client the same by itself.
    for change in session.catalogue().drain_catalog().items {
        for (word, names) in [("added", &change.added), ("loaded", &change.loaded)] {
            if !names.is_empty() {
                writeln!(out, "session: {word} {}", names.join(", "))?;
            }
        }
    }
    if !tools.has("refund") {
        writeln!(out, "the host's registry has no refund")?;
    }
    session.close();
    Ok(())
}

/// The host's own tools.
fn shop() -> Result<Catalogue<Runner>, Failure> {
    let tools = empty_catalogue();
    let price = ToolBuilder::new("price")
        .summary("Says what an item costs.")
        .kind(Kind::ReadOnly)
        .concurrency_safe()
        .retry_safe()
        .input_schema(item())
        .output_schema(json!({
            "type": "object",
            "properties": { "cents": { "type": "integer", "minimum": 0 } },
            "required": ["cents"],
        }))
        .example_with_output("The price of tea", json!({ "item": "tea" }), json!({ "cents": 420 }));
    let priced = Runner::of(|call: RunnerCall| async move {
        // The input was built: it fits the schema.
        match call.input["item"].as_str() {
            Some("tea") => Ok(json!({ "cents": 420 })),
            _ => Err(RunnerError::expected("no_such_item", "The shop has tea only.", None)),
        }
    });
    let order = ToolBuilder::new("order")
        .summary("Orders an item.")
        .kind(Kind::Write)
        // Rules are about this text, and what a person allows for the session is remembered under it.
        .permission(Naming {
            signature: "order({item})".into(),
            rule: "order({item})".into(),
        })
        .input_schema(item());
    let ordered = Runner::of(|call: RunnerCall| async move { Ok(json!({ "ordered": call.input["item"] })) });
    // All of them or none.
    tools.register_all([(price.build()?, priced), (order.build()?, ordered)])?;
    Ok(tools)
}

fn item() -> Value {
    json!({
        "type": "object",
        "properties": { "item": { "type": "string", "description": "The name of the item." } },
        "required": ["item"],
        "additionalProperties": false,
    })
}

fn rules(texts: &[&str]) -> Result<Vec<Rule>, Failure> {
    texts.iter().map(|text| Ok(Rule::parse(text)?)).collect()
}

/// A call as a model said it; the id must be another for each.
fn request(id: &str, tool: &str, arguments: Value) -> CallRequest {
    let arguments = match arguments {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    CallRequest::new(tool, arguments, id)
}

/// Somebody who says yes to everything, once; a real host has a window for it.
#[derive(Debug, Default)]
struct Person {
    asked: Mutex<Vec<Ask>>,
}

impl Person {
    fn asked(&self) -> Vec<Ask> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Approver for Person {
    fn approve(&self, ask: Ask) -> Boxed<'_, Approval> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(ask);
        Box::pin(async { Approval::Once })
    }
}

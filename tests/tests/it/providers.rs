//! Every tool of the product in the form of every provider, against the providers' rules.

use devloop_core::registry::providers::{anthropic_faults, gemini_faults, mcp_faults, openai_faults};
use devloop_core::registry::{Definition, projection};
use devloop_generated::all_tools;

#[test]
fn every_tool_is_declared_as_each_provider_wants_it() {
    for tool in all_tools() {
        let tool = Definition::from(tool);
        let strict = projection::openai_strict(&tool).unwrap().value;
        let faults = [
            mcp_faults(&projection::mcp(&tool).unwrap()),
            anthropic_faults(&projection::anthropic(&tool).unwrap()),
            openai_faults(&projection::openai(&tool).unwrap().value),
            openai_faults(&strict),
            gemini_faults(&projection::gemini(&tool).unwrap().value),
        ];
        assert!(faults.iter().all(Vec::is_empty), "{}: {faults:?}", tool.name);
        assert_eq!(strict["function"]["strict"], true, "{} fits strict mode", tool.name);
    }
}

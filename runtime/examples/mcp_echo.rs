//! The MCP face over a service of trivial tools: what a measurement of the face itself starts.

#[expect(unreachable_pub, reason = "shared with tests")]
#[path = "../tests/mcp_fake/mod.rs"]
mod fake;

use devloop_runtime::mcp::{ServeOptions, serve};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let code = match runtime {
        Ok(runtime) => runtime
            .block_on(serve(fake::Fake::default(), ServeOptions::default()))
            .exit_code(),
        Err(_) => 1,
    };
    std::process::exit(code);
}

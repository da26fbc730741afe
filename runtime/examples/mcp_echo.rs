//! The MCP face over a service of trivial tools: what a measurement of the face itself starts.

#[expect(unreachable_pub, reason = "shared with tests")]
#[path = "../tests/mcp_fake/mod.rs"]
mod fake;

use devloop_runtime::mcp::{ServeOptions, serve};

fn main() {
    let mut runtime = match std::env::args().nth(1).as_deref() {
        Some("--multi-thread") => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let code = match runtime.enable_all().build() {
        Ok(runtime) => runtime
            .block_on(serve(fake::Fake::default(), ServeOptions::default()))
            .exit_code(),
        Err(_) => 1,
    };
    std::process::exit(code);
}

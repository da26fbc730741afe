//! The `devloop` program.

fn main() {
    // Not a plain return: a thread that still reads standard input must not keep the process alive.
    std::process::exit(devloop_runtime::cli::main() as i32)
}

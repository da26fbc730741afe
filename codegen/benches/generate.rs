//! How long it takes to load specs and to generate from them: the cost of every change of a spec.
//!
//! The specs are copies of `write_todolist`. Meant to stay below 150 ms for 36 and 1.5 s for 300.

use std::fs;
use std::path::Path;

use devloop_codegen::{generate, load};
use tempfile::TempDir;

fn main() {
    divan::main();
}

/// A spec folder with that many handlers, all granted to nobody.
fn specs(handlers: usize) -> TempDir {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
    let dir = TempDir::new().expect("a temporary folder");
    let group = dir.path().join("tools/copies");
    fs::create_dir_all(&group)
        .and_then(|()| fs::create_dir(dir.path().join("agents")))
        .expect("folders");
    for name in ["types.yaml", "events.yaml"] {
        fs::copy(own.join(name), dir.path().join(name)).expect("a copy");
    }
    let text = fs::read_to_string(own.join("tools/persistence/write_todolist.yaml")).expect("the spec");
    for index in 0..handlers {
        let name = format!("write_todolist_{index}");
        fs::write(
            group.join(format!("{name}.yaml")),
            text.replace("write_todolist", &name),
        )
        .expect("a copy");
    }
    dir
}

#[divan::bench(args = [36, 300], sample_count = 10)]
fn load_and_generate(bencher: divan::Bencher<'_, '_>, handlers: usize) {
    let dir = specs(handlers);
    bencher.bench(|| {
        let specs = load(dir.path()).unwrap_or_else(|errors| panic!("{errors}"));
        generate(&specs).unwrap_or_else(|errors| panic!("{errors}"))
    });
}

#[divan::bench(args = [36, 300], sample_count = 10)]
fn generate_only(bencher: divan::Bencher<'_, '_>, handlers: usize) {
    let dir = specs(handlers);
    let specs = load(dir.path()).unwrap_or_else(|errors| panic!("{errors}"));
    bencher.bench(|| generate(&specs).unwrap_or_else(|errors| panic!("{errors}")));
}

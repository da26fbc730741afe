//! Writes the Rust that the specs mean into `OUT_DIR`; in a packaged crate, which has no specs, the committed copy of it.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Read when the script runs, not when it is compiled: a checkout may have moved together with its target folder.
    let package = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let (package, out) = (Path::new(&package), Path::new(&out));
    println!("cargo::rerun-if-changed=build.rs");
    let specs = package.join("../specs");
    if !specs.is_dir() {
        println!("cargo::rerun-if-changed=snapshot");
        return copy(&package.join("snapshot"), out);
    }
    println!("cargo::rerun-if-changed=../specs");
    match devloop_codegen::load(&specs).and_then(|specs| devloop_codegen::generate(&specs)) {
        Ok(files) => {
            for (path, text) in &files {
                if let Some(path) = path.strip_prefix(devloop_codegen::SNAPSHOT) {
                    write_if_changed(&out.join(path), text.as_bytes())?;
                }
            }
        }
        Err(errors) => {
            for line in errors
                .iter()
                .flat_map(|error| error.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
            {
                println!("cargo::error={}", line.trim());
            }
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let (path, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            write_if_changed(&target, &fs::read(&path)?)?;
        }
    }
    Ok(())
}

fn write_if_changed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, bytes)
}

use devloop_core::memory::*;
use std::time::Instant;
fn main() {
    let lines: Vec<serde_json::Value> = std::fs::read_to_string("/work/wt/memory/runtime/core/tests/memory_pairs.jsonl").unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let texts: Vec<(String, String)> = lines.iter().flat_map(|v| ["one", "other"].map(|k| (v[k][0].as_str().unwrap().to_owned(), v[k][1].as_str().unwrap().to_owned()))).take(500).collect();
    let t = Instant::now();
    let x = Reading::new("warm", "up 中文");
    println!("lexicon {:?}", t.elapsed());
    let bytes: usize = texts.iter().map(|t| t.0.len() + t.1.len()).sum();
    for factor in [1, 8] {
        let texts: Vec<(String, String)> = texts.iter().enumerate().map(|(i, t)| (t.0.clone(), (0..factor).map(|k| texts[(i * 7 + k * 13) % 500].1.clone() + " ").collect())).collect();
        let bytes: usize = texts.iter().map(|t| t.0.len() + t.1.len()).sum();
        let t = Instant::now();
        let r: Vec<Reading> = texts.iter().map(|t| Reading::new(&t.0, &t.1)).collect();
        println!("{bytes} bytes read in {:?}", t.elapsed());
        let t = Instant::now();
        let n: f32 = r.iter().map(|one| one.compare(&r[17]).score).sum();
        println!("compared in {:?} {n}", t.elapsed());
        let t = Instant::now();
        let n: usize = texts.iter().map(|t| exact_digest(&t.0, &t.1).len()).sum();
        println!("digested in {:?} {n}", t.elapsed());
    }
    drop(x); let _ = bytes;
}

//! tuning
use devloop_core::memory::{Reading, Verdict, exact_digest};
use serde_json::Value;

#[test]
fn dump() {
    let mut tally = [[0u32; 4]; 2];
    for (n, line) in include_str!("memory_pairs.jsonl").lines().enumerate() {
        let v: Value = serde_json::from_str(line).unwrap();
        let t = |k: &str, i: usize| v[k][i].as_str().unwrap().to_owned();
        let (a, b) = ((t("one", 0), t("one", 1)), (t("other", 0), t("other", 1)));
        let exact = exact_digest(&a.0, &a.1) == exact_digest(&b.0, &b.1);
        let (ra, rb) = (Reading::new(&a.0, &a.1), Reading::new(&b.0, &b.1));
        let l = ra.compare(&rb);
        assert_eq!(l, rb.compare(&ra));
        let said = exact || l.verdict == Verdict::Same;
        let is = v["same"] == true;
        let held = usize::from(v["held"] == true);
        tally[held][match (is, said) { (true, true) => 0, (true, false) => 1, (false, true) => 2, (false, false) => 3 }] += 1;
        if held == 0 && is != said { println!("{n} {} {l:?} {line}", if is { "MISSED" } else { "FALSE" }); }
    }
    for (name, [tp, fn_, fp, tn]) in ["tune", "held"].iter().zip(tally) {
        println!("{name}: tp={tp} fn={fn_} fp={fp} tn={tn} precision={:.3} recall={:.3}", f64::from(tp) / f64::from(tp + fp), f64::from(tp) / f64::from(tp + fn_));
    }
}

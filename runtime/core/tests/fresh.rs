use devloop_core::memory::{Reading, Verdict, exact_digest};
#[test]
fn fresh() {
    let (mut tp, mut f_n, mut fp, mut tn) = (0, 0, 0, 0);
    for line in std::fs::read_to_string("/tmp/mem/fresh.txt").unwrap().lines() {
        let p: Vec<&str> = line.split('¦').collect();
        let (a, b) = ((p[2], p[3]), (p[4], p[5]));
        let exact = exact_digest(a.0, a.1) == exact_digest(b.0, b.1);
        let l = Reading::new(a.0, a.1).compare(&Reading::new(b.0, b.1));
        let said = exact || l.verdict == Verdict::Same;
        let is = p[0] == "1";
        match (is, said) { (true, true) => tp += 1, (true, false) => f_n += 1, (false, true) => fp += 1, _ => tn += 1 }
        if is != said { println!("{} {l:?} {line}", if is { "MISSED" } else { "FALSE" }); }
    }
    println!("fresh tp={tp} fn={f_n} fp={fp} tn={tn}");
}

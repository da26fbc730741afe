//! What the way of a call to its turn costs, and how fairly many sessions are served.
//!
//! `cargo bench --package devloop-tests --bench execution`
//!
//! Fairness: 64 sessions keep four calls waiting each, of all kinds, for a second. Work is a sleep, so that places are
//! what is short, not processors. The peer is one semaphore with as many permits for each kind, which knows no sessions,
//! with a permit of all before it; both take turns, several times.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use devloop_contract::tool::{Kind, Parallelism};
use devloop_core::execution::flow::Flow;
use devloop_core::execution::scheduler::Limits;
use devloop_core::execution::{CallId, SessionId};
use devloop_runtime::execution::{Ended, Executor, Facts, work};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

const SESSIONS: usize = 64;
const PENDING: usize = 4;
const ROUND: Duration = Duration::from_secs(1);
const WORK: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(30);

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn main() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let verdict = |reached: bool| if reached { "reached" } else { "MISSED" };
    let machine = machine();
    println!("machine, gate to end, with a path         {machine:>10.2?}");
    for (name, facts) in [
        ("executor, shared", facts(Kind::ReadOnly).shared()),
        (
            "executor, exclusive, with a path",
            facts(Kind::Write).on([PathBuf::from("/p/a")]),
        ),
    ] {
        let (admitted, whole) = one_call(&runtime, &facts);
        println!("{name:<36} submit to begin {admitted:>10.2?}   whole {whole:>10.2?}");
        println!("{:<36} 20 µs {}", "", verdict(admitted <= Duration::from_micros(20)));
    }
    let (mut fair, mut unfair) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        fair.push(runtime.block_on(fairly()));
        unfair.push(runtime.block_on(unfairly()));
    }
    let best = |rounds: &[Served]| rounds.iter().map(|served| served.calls).max().unwrap_or(0);
    let ratio = per_second(best(&fair)) / per_second(best(&unfair));
    println!(
        "64 sessions × 4, fair scheduler {:.0}/s, unfair semaphore {:.0}/s: {ratio:.2}; .9 {}",
        per_second(best(&fair)),
        per_second(best(&unfair)),
        verdict(ratio >= 0.9)
    );
    for (name, rounds) in [("fair", &fair), ("unfair", &unfair)] {
        let worst = rounds.iter().map(Served::worst).fold(0.0, f64::max);
        let each = || rounds.iter().flat_map(|served| &served.each);
        let (least, most) = (each().min().unwrap_or(&0), each().max().unwrap_or(&0));
        println!("{name:<8} longest wait {worst:.2} × the fair share; calls of a session {least} to {most}");
        if name == "fair" {
            println!("{:<8} 4 × {}", "", verdict(worst <= 4.0));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count for people")]
fn per_second(calls: u64) -> f64 {
    calls as f64 / ROUND.as_secs_f64()
}

fn facts(kind: Kind) -> Facts {
    Facts::new("bench", kind, LONG)
}

fn machine() -> Duration {
    let (mut flow, mut commands) = (Flow::new(Limits::default()).expect("they make sense"), Vec::new());
    let count = 100_000_u32;
    let start = Instant::now();
    for n in 0..u64::from(count) {
        let (call, now) = (CallId(n), start.elapsed());
        flow.submit(call, SessionId(n % 7), Parallelism::Exclusive, LONG, now, &mut commands);
        flow.ready(call, Kind::Write, [PathBuf::from("/p/a")], now, &mut commands);
        flow.leave(call, now, &mut commands);
        assert_eq!(commands.len(), 2);
        commands.clear();
    }
    start.elapsed() / count
}

/// The medians from the submission of a lone call to its beginning, and to its end.
fn one_call(runtime: &Runtime, facts: &Facts) -> (Duration, Duration) {
    let lane = Executor::default().lane();
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    runtime.block_on(async {
        for _ in 0..20_000 {
            let start = Instant::now();
            let work = work(move |_| async move { Ok::<_, Infallible>(start.elapsed()) });
            let call = lane.submit(facts.clone(), tokio_util::sync::CancellationToken::new(), work);
            let Ended::Answered(Ok(begun)) = call.report().await.ended else {
                panic!("it does nothing")
            };
            begins.push(begun);
            ends.push(start.elapsed());
        }
    });
    (median(&mut begins), median(&mut ends))
}

fn median(durations: &mut [Duration]) -> Duration {
    durations.sort_unstable();
    durations[durations.len() / 2]
}

/// One round.
struct Served {
    calls: u64,
    /// By session.
    each: Vec<u64>,
    /// The longest wait of a call of each kind, and how many calls of the kind there were.
    waits: [(Duration, u64); 3],
}

impl Served {
    /// The longest wait, in fair shares: as long as it takes to serve every call of the kind that waits once.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    fn worst(&self) -> f64 {
        let shares = self.waits.iter().enumerate().map(|(kind, (longest, calls))| {
            let waiting = (0..SESSIONS).flat_map(|session| (0..PENDING).map(move |n| kind_of(session, n)));
            let waiting = waiting.filter(|other| *other as usize == KINDS[kind] as usize).count();
            let share = ROUND.as_secs_f64() * waiting as f64 / *calls as f64;
            longest.as_secs_f64() / share
        });
        shares.fold(0.0, f64::max)
    }
}

const KINDS: [Kind; 3] = [Kind::ReadOnly, Kind::Write, Kind::Execute];

/// What the n-th of the calls is that a session keeps waiting: most read.
fn kind_of(session: usize, n: usize) -> Kind {
    match (session + n) % 8 {
        0 => Kind::Execute,
        1 | 2 => Kind::Write,
        _ => Kind::ReadOnly,
    }
}

/// Every session keeps its calls waiting until the round is over.
async fn round<F, R>(run: F) -> Served
where
    F: Fn(usize, Kind) -> R + Send + Sync + 'static,
    R: Future<Output = Duration> + Send,
{
    let (run, over) = (Arc::new(run), Arc::new(AtomicBool::new(false)));
    let each: Arc<Vec<AtomicU64>> = Arc::new((0..SESSIONS).map(|_| AtomicU64::new(0)).collect());
    let waits = Arc::new(Mutex::new([(Duration::ZERO, 0_u64); 3]));
    let mut tasks = Vec::new();
    for n in 0..SESSIONS * PENDING {
        let (run, over, each, waits) = (
            Arc::clone(&run),
            Arc::clone(&over),
            Arc::clone(&each),
            Arc::clone(&waits),
        );
        tasks.push(tokio::spawn(async move {
            let (session, kind) = (n % SESSIONS, kind_of(n % SESSIONS, n / SESSIONS));
            while !over.load(Ordering::Relaxed) {
                let waited = run(session, kind).await;
                each[session].fetch_add(1, Ordering::Relaxed);
                let slot = &mut waits.lock().expect("no panic")[kind as usize];
                *slot = (slot.0.max(waited), slot.1 + 1);
            }
        }));
    }
    tokio::time::sleep(ROUND).await;
    // What is counted later was submitted before.
    let calls = each.iter().map(|calls| calls.load(Ordering::Relaxed)).sum();
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no panic");
    }
    let waits = *waits.lock().expect("no panic");
    Served {
        calls,
        each: each.iter().map(|calls| calls.load(Ordering::Relaxed)).collect(),
        waits,
    }
}

async fn fairly() -> Served {
    let executor = Executor::default();
    let lanes: Vec<_> = (0..SESSIONS).map(|_| executor.lane()).collect();
    round(move |session, kind| {
        let start = Instant::now();
        let work = work(move |_| async move {
            let waited = start.elapsed();
            tokio::time::sleep(WORK).await;
            Ok::<_, Infallible>(waited)
        });
        let call = lanes[session].submit(facts(kind).shared(), tokio_util::sync::CancellationToken::new(), work);
        async move {
            match call.report().await.ended {
                Ended::Answered(Ok(waited)) => waited,
                other => panic!("{other:?}"),
            }
        }
    })
    .await
}

async fn unfairly() -> Served {
    let limits = Limits::default().in_flight;
    let all = Arc::new(Semaphore::new(limits.total));
    let kinds = [limits.read_only, limits.write, limits.execute].map(|permits| Arc::new(Semaphore::new(permits)));
    round(move |_session, kind| {
        let (all, own) = (Arc::clone(&all), Arc::clone(&kinds[kind as usize]));
        async move {
            let start = Instant::now();
            let call = tokio::spawn(async move {
                let _own = own.acquire().await.expect("open");
                let _all = all.acquire().await.expect("open");
                let waited = start.elapsed();
                tokio::time::sleep(WORK).await;
                waited
            });
            call.await.expect("no panic")
        }
    })
    .await
}

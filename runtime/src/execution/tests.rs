//! The executor with real threads and tasks: what the machines cannot show without them.

use std::convert::Infallible;
use std::fs;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;

use devloop_contract::tool::{Kind, Parallelism};
use devloop_core::execution::gate::Full;
use devloop_core::execution::retry::Replay;
use devloop_core::execution::scheduler::{Limits, Refused, Room};
use devloop_core::execution::turn;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::*;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(30);

fn alone(timeout: Duration) -> Facts {
    Facts::new("alone", Kind::Write, timeout)
}

fn beside() -> Facts {
    Facts::new("beside", Kind::ReadOnly, LONG).shared()
}

fn fine<T: Send + 'static, R: Future<Output = T> + Send + 'static>(
    mut function: impl FnMut() -> R + Send + 'static,
) -> impl Work<Answer = Result<T, Infallible>> {
    work(move |_| {
        let running = function();
        async move { Ok(running.await) }
    })
}

/// Work that holds its thread until it is let go; on a desk that is allowed.
fn blocks() -> (mpsc::Sender<()>, impl Work<Answer = Result<&'static str, Infallible>>) {
    let (release, released) = mpsc::channel::<()>();
    let mut released = Some(released);
    let work = fine(move || {
        let released = released.take().unwrap();
        async move {
            released.recv().unwrap();
            "blocked"
        }
    });
    (release, work)
}

/// Work that waits until it is let go.
fn waits(gate: &Arc<Semaphore>) -> impl Work<Answer = Result<&'static str, Infallible>> {
    let gate = Arc::clone(gate);
    fine(move || {
        let gate = Arc::clone(&gate);
        async move {
            gate.acquire().await.unwrap().forget();
            "waited"
        }
    })
}

fn counts(counter: &Arc<AtomicUsize>) -> impl Work<Answer = Result<usize, Infallible>> {
    let counter = Arc::clone(counter);
    fine(move || {
        let counter = Arc::clone(&counter);
        async move { counter.fetch_add(1, Ordering::SeqCst) }
    })
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn last(executor: &Executor) -> Record {
    executor.records().pop().expect("a call has ended")
}

#[tokio::test]
async fn executor_exclusive_calls_run_alone_and_in_the_order_of_their_submission() {
    let lane = Executor::default().lane();
    let (seen, running) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let calls: Vec<_> = (0..60)
        .map(|n| {
            let (seen, running) = (Arc::clone(&seen), Arc::clone(&running));
            let call = lane.submit(
                alone(LONG),
                CancellationToken::new(),
                fine(move || {
                    let (seen, running) = (Arc::clone(&seen), Arc::clone(&running));
                    async move {
                        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "another one runs");
                        tokio::task::yield_now().await;
                        seen.lock().unwrap().push(n);
                        running.fetch_sub(1, Ordering::SeqCst);
                    }
                }),
            );
            // Whoever waits first makes no difference.
            tokio::spawn(call.report())
        })
        .collect();
    for call in calls.into_iter().rev() {
        assert!(matches!(call.await.unwrap().ended, Ended::Answered(Ok(()))));
    }
    assert_eq!(*seen.lock().unwrap(), (0..60).collect::<Vec<_>>());
    assert_eq!(lane.executor().load(), (0, 0));
}

#[tokio::test]
async fn executor_shared_calls_run_beside_each_other() {
    let lane = Executor::default().lane();
    let barrier = Arc::new(tokio::sync::Barrier::new(2));
    let call = || {
        let barrier = Arc::clone(&barrier);
        let work = fine(move || {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
            }
        });
        lane.submit(beside(), CancellationToken::new(), work)
    };
    let (first, second) = (call(), call());
    let (first, second) = tokio::join!(first.report(), second.report());
    assert!(matches!(
        (first.ended, second.ended),
        (Ended::Answered(_), Ended::Answered(_))
    ));
}

#[tokio::test]
async fn executor_a_turn_that_does_not_come_is_given_up_and_never_begins() {
    let lane = Executor::default().lane();
    let (release, holding) = blocks();
    let holding = lane.submit(alone(LONG), CancellationToken::new(), holding);
    let begun = Arc::new(AtomicUsize::new(0));
    let given_up = lane.submit(alone(SHORT), CancellationToken::new(), counts(&begun));
    assert!(matches!(
        given_up.report().await.ended,
        Ended::Refused(Busy::TooLate(Stage::Gate))
    ));
    assert_eq!(last(lane.executor()).ending, Ending::Refused);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let cancelled = lane.submit(alone(LONG), cancel, counts(&begun));
    assert!(matches!(cancelled.report().await.ended, Ended::Cancelled));
    release.send(()).unwrap();
    assert!(matches!(holding.report().await.ended, Ended::Answered(Ok("blocked"))));
    let next = lane.submit(alone(LONG), CancellationToken::new(), counts(&begun));
    assert!(
        matches!(next.report().await.ended, Ended::Answered(Ok(0))),
        "the others never began"
    );
}

#[tokio::test]
async fn executor_the_66th_call_of_a_session_is_refused_at_once() {
    let lane = Executor::default().lane();
    let (release, holding) = blocks();
    let mut calls = vec![tokio::spawn(
        lane.submit(alone(LONG), CancellationToken::new(), holding).report(),
    )];
    for _ in 0..64 {
        let call = lane.submit(alone(LONG), CancellationToken::new(), fine(|| async { "" }));
        calls.push(tokio::spawn(call.report()));
    }
    let refused = lane.submit(alone(LONG), CancellationToken::new(), fine(|| async {}));
    let Ended::Refused(busy) = refused.report().await.ended else {
        panic!()
    };
    assert_eq!(busy, Busy::Gate(Full { limit: 64 }));
    release.send(()).unwrap();
    for call in calls {
        assert!(matches!(call.await.unwrap().ended, Ended::Answered(_)));
    }
}

#[tokio::test]
async fn executor_work_that_takes_too_long_is_told_and_may_still_answer() {
    let (lane, cancel) = (Executor::default().lane(), CancellationToken::new());
    let told = cancel.clone();
    let work = fine(move || {
        let told = told.clone();
        async move {
            told.cancelled().await;
            "stopped"
        }
    });
    let ended = lane.submit(alone(SHORT), cancel, work).report().await.ended;
    assert!(
        matches!(ended, Ended::TimedOut(Late::Answered(Ok("stopped")))),
        "{ended:?}"
    );
}

#[tokio::test]
async fn executor_work_that_does_not_stop_goes_on_keeps_its_turn_and_can_be_waited_for() {
    let lane = Executor::default().lane();
    let (release, work) = blocks();
    let ended = lane
        .submit(alone(SHORT), CancellationToken::new(), work)
        .report()
        .await
        .ended;
    let Ended::TimedOut(slow @ Late::Running(_)) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(last(lane.executor()).ending, Ending::TimedOut);
    let behind = lane.submit(alone(SHORT), CancellationToken::new(), fine(|| async {}));
    assert!(matches!(behind.report().await.ended, Ended::Refused(_)));
    release.send(()).unwrap();
    assert_eq!(slow.answer().await, Ok(Ok("blocked")));
    assert_eq!(lane.executor().totals(), (2, 2), "the end of each was told once");
}

#[tokio::test]
async fn executor_a_panic_is_an_end_and_the_next_call_runs() {
    let lane = Executor::default().lane();
    for facts in [alone(LONG), beside()] {
        let call = lane.submit(facts, CancellationToken::new(), fine(|| async { panic!("on purpose") }));
        let Ended::<Result<(), _>>::Panicked(panic) = call.report().await.ended else {
            panic!()
        };
        assert_eq!(panic.to_string(), "it panicked: on purpose");
        assert_eq!(last(lane.executor()).ending, Ending::Panicked);
    }
    let next = lane.submit(alone(LONG), CancellationToken::new(), fine(|| async { 7 }));
    assert!(matches!(next.report().await.ended, Ended::Answered(Ok(7))));
}

#[tokio::test]
async fn executor_a_call_that_is_dropped_before_it_begins_never_does_and_afterwards_goes_on() {
    let lane = Executor::default().lane();
    let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let running = lane.submit(alone(LONG), CancellationToken::new(), waits(&gate));
    until(|| lane.executor().load() == (1, 1)).await;
    drop(lane.submit(alone(LONG), CancellationToken::new(), counts(&begun)));
    drop(running);
    assert_eq!(lane.executor().load(), (1, 1), "what runs goes on");
    // Its thread goes on, too, when the session is gone.
    let executor = lane.executor().clone();
    drop(lane);
    gate.add_permits(1);
    until(|| executor.load() == (0, 0)).await;
    until(|| executor.records().len() == 2).await;
    let endings: Vec<_> = executor.records().iter().map(|record| record.ending).collect();
    assert_eq!(endings, [Ending::Cancelled, Ending::Succeeded]);
    assert_eq!(begun.load(Ordering::SeqCst), 0);
}

/// Two calls of different sessions on one file, by two names of it.
#[tokio::test]
async fn executor_calls_of_two_sessions_on_one_path_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("real.md"), "").unwrap();
    std::os::unix::fs::symlink("real.md", dir.path().join("link.md")).unwrap();
    let executor = Executor::default();
    let lanes = [executor.lane(), executor.lane(), executor.lane()];
    let gate = Arc::new(Semaphore::new(0));
    let facts = |name: &str| alone(LONG).on([real_path(&dir.path().join(name)).unwrap()]);
    let submit = |lane: usize, facts: Facts| lanes[lane].submit(facts, CancellationToken::new(), waits(&gate));
    let first = submit(0, facts("real.md"));
    until(|| executor.load() == (1, 1)).await;
    let cancel = CancellationToken::new();
    let cancelled = lanes[1].submit(facts("link.md"), cancel.clone(), waits(&gate));
    let late = Facts {
        patience: SHORT,
        ..facts("link.md")
    };
    let late = submit(2, late).report().await.ended;
    assert!(matches!(late, Ended::Refused(Busy::TooLate(Stage::Paths))), "{late:?}");
    cancel.cancel();
    assert!(matches!(cancelled.report().await.ended, Ended::Cancelled));
    // What may run beside itself takes no lock; another file is free.
    let safe = Facts {
        concurrency_safe: true,
        ..facts("link.md")
    };
    let beside = submit(1, safe);
    let other = submit(2, facts("other.md"));
    until(|| executor.load() == (3, 3)).await;
    gate.add_permits(3);
    for call in [first, beside, other] {
        assert!(matches!(call.report().await.ended, Ended::Answered(_)));
    }
}

#[test]
fn executor_real_path_takes_names_of_one_file_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    fs::create_dir(root.join("docs")).unwrap();
    std::os::unix::fs::symlink("docs", root.join("link")).unwrap();
    let real = |path: &str| real_path(&root.join(path)).unwrap();
    assert_eq!(real("link"), root.join("docs"));
    assert_eq!(real("link/new/file.md"), root.join("docs/new/file.md"));
    assert_eq!(real("docs/../link/x"), root.join("docs/x"));
    assert_eq!(real("none/../link"), root.join("link"));
    assert_eq!(real("none/./a/../b"), root.join("none/b"));
    assert!(real_path(Path::new("relative")).unwrap().is_absolute());
}

fn narrow() -> Settings {
    let one = Room {
        total: 1,
        read_only: 1,
        write: 1,
        execute: 1,
    };
    Settings {
        limits: Limits {
            in_flight: one,
            per_session: one,
            waiting: 2,
            waiting_per_session: 1,
            wait: Duration::from_millis(100),
        },
        pauses: vec![Duration::from_millis(1), Duration::from_secs(20)],
        ..Settings::default()
    }
}

#[tokio::test]
async fn executor_a_place_among_those_that_run_is_waited_for_and_given_up() {
    let executor = Executor::new(narrow()).unwrap();
    let (one, other) = (executor.lane(), executor.lane());
    let gate = Arc::new(Semaphore::new(0));
    let running = one.submit(beside(), CancellationToken::new(), waits(&gate));
    until(|| executor.load() == (1, 1)).await;
    let cancel = CancellationToken::new();
    let cancelled = other.submit(beside(), cancel.clone(), waits(&gate));
    let late = one.submit(beside(), CancellationToken::new(), waits(&gate));
    let full = one.submit(beside(), CancellationToken::new(), waits(&gate));
    let full = full.report().await.ended;
    assert!(
        matches!(full, Ended::Refused(Busy::Scheduler(Refused::SessionFull { limit: 1 }))),
        "{full:?}"
    );
    cancel.cancel();
    assert!(matches!(cancelled.report().await.ended, Ended::Cancelled));
    let late = late.report().await.ended;
    assert!(matches!(late, Ended::Refused(Busy::TooLate(Stage::Place))), "{late:?}");
    assert_eq!(executor.load(), (1, 1));
    gate.add_permits(1);
    assert!(matches!(running.report().await.ended, Ended::Answered(_)));
}

#[derive(Debug)]
struct Fails {
    left: usize,
    errno: i32,
    tries: Vec<usize>,
}

/// Fails as often as said, then succeeds with the numbers of its tries.
fn fails(left: usize, errno: i32) -> impl Work<Answer = Result<Vec<usize>, io::Error>> {
    let state = Arc::new(Mutex::new(Fails {
        left,
        errno,
        tries: Vec::new(),
    }));
    work(move |attempt: Try| {
        let state = Arc::clone(&state);
        async move {
            let mut state = state.lock().unwrap();
            state.tries.push(attempt.number);
            if state.left == 0 {
                return Ok(state.tries.clone());
            }
            state.left -= 1;
            Err(io::Error::other(io::Error::from_raw_os_error(state.errno)))
        }
    })
}

const EBUSY: i32 = 16;
const ENOENT: i32 = 2;

#[tokio::test]
async fn executor_tries_again_what_is_safe_and_transient_and_counts_it() {
    let executor = Executor::new(Settings {
        pauses: vec![Duration::from_millis(1); 2],
        ..narrow()
    })
    .unwrap();
    let lane = executor.lane();
    let run = |facts: Facts, work| lane.submit(facts, CancellationToken::new(), work).report();
    for facts in [alone(LONG), beside()] {
        let safe = facts.clone().retry_safe();
        let report = run(safe.clone(), fails(2, EBUSY)).await;
        assert_eq!(report.retries, 2);
        let Ended::Answered(Ok(tries)) = report.ended else {
            panic!()
        };
        assert_eq!(tries, [0, 1, 2]);
        assert_eq!(
            (last(&executor).retries, last(&executor).ending),
            (2, Ending::Succeeded)
        );
        let report = run(safe.clone(), fails(3, EBUSY)).await;
        assert!(matches!((report.ended, report.retries), (Ended::Answered(Err(_)), 2)));
        let report = run(safe, fails(1, ENOENT)).await;
        assert!(matches!((report.ended, report.retries), (Ended::Answered(Err(_)), 0)));
        let report = run(facts, fails(1, EBUSY)).await;
        assert!(matches!((report.ended, report.retries), (Ended::Answered(Err(_)), 0)));
        assert_eq!(last(&executor).ending, Ending::Failed);
    }
    assert_eq!(executor.figures()["alone"].retries, 4);
}

#[tokio::test]
async fn executor_a_pause_between_tries_can_be_cut_short_and_none_is_begun_that_takes_too_long() {
    let executor = Executor::new(narrow()).unwrap();
    let (lane, cancel) = (executor.lane(), CancellationToken::new());
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let busy = work(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Err::<(), _>(io::Error::other(io::Error::from_raw_os_error(EBUSY))) }
    });
    let call = lane.submit(beside().retry_safe(), cancel.clone(), busy);
    let call = tokio::spawn(call.report());
    until(|| tries.load(Ordering::SeqCst) == 2).await;
    cancel.cancel();
    let report = call.await.unwrap();
    assert!(
        matches!((report.ended, report.retries), (Ended::Answered(Err(_)), 1)),
        "in its second pause of 20 s"
    );
    // It would be over after 20 s of pause.
    let facts = Facts {
        timeout: Duration::from_secs(10),
        ..beside().retry_safe()
    };
    let report = lane
        .submit(facts, CancellationToken::new(), fails(9, EBUSY))
        .report()
        .await;
    assert!(matches!((report.ended, report.retries), (Ended::Answered(Err(_)), 1)));
}

/// Work whose preparing waits until it is let go.
struct Prepared {
    gate: Arc<Semaphore>,
    allowed: Result<(), &'static str>,
    ran: Arc<AtomicUsize>,
}

impl Work for Prepared {
    type Answer = Result<usize, &'static str>;

    async fn prepare(&mut self, facts: &mut Facts) -> Result<(), Self::Answer> {
        self.gate.acquire().await.unwrap().forget();
        assert_ne!(self.allowed, Err("panic"), "on purpose");
        facts.paths.push("/changed".into());
        self.allowed.map_err(Err)
    }

    async fn run(&mut self, _attempt: Try) -> Self::Answer {
        Ok(self.ran.fetch_add(1, Ordering::SeqCst))
    }

    fn judge(&self, answer: &Self::Answer) -> Verdict {
        if answer.is_ok() {
            Verdict::Success
        } else {
            Verdict::Failure
        }
    }
}

#[tokio::test]
async fn executor_preparing_may_take_long_be_refused_cancelled_or_panic() {
    let lane = Executor::default().lane();
    let (gate, ran) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let submit = |facts: Facts, cancel: &CancellationToken, allowed| {
        let work = Prepared {
            gate: Arc::clone(&gate),
            allowed,
            ran: Arc::clone(&ran),
        };
        tokio::spawn(lane.submit(facts, cancel.clone(), work).report())
    };
    let (never, cancel) = (CancellationToken::new(), CancellationToken::new());
    for shared in [false, true] {
        let facts = |timeout| {
            if shared {
                alone(timeout).shared()
            } else {
                alone(timeout)
            }
        };
        // Longer than it may wait, and longer than it may run.
        let long = submit(facts(SHORT), &never, Ok(()));
        tokio::time::sleep(3 * SHORT).await;
        gate.add_permits(1);
        assert!(matches!(long.await.unwrap().ended, Ended::Answered(Ok(_))));
        let refused = submit(facts(LONG), &never, Err("denied"));
        gate.add_permits(1);
        assert!(matches!(refused.await.unwrap().ended, Ended::Answered(Err("denied"))));
        assert_eq!(last(lane.executor()).ran, None, "it never began");
        let panics = submit(facts(LONG), &never, Err("panic"));
        gate.add_permits(1);
        assert!(matches!(panics.await.unwrap().ended, Ended::Panicked(_)));
    }
    let cancelled = submit(alone(LONG), &cancel, Ok(()));
    tokio::time::sleep(SHORT).await;
    cancel.cancel();
    assert!(matches!(cancelled.await.unwrap().ended, Ended::Cancelled));
    assert_eq!((lane.executor().load(), ran.load(Ordering::SeqCst)), ((0, 0), 2));
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn push(&self, what: &str, call: CallId) {
        self.0.lock().unwrap().push(format!("{what} {}", call.0));
    }
}

impl Observer for Heard {
    fn started(&self, call: &Started) {
        self.push("started", call.call);
    }

    fn completed(&self, record: &Record) {
        self.push("completed", record.call);
        panic!("an observer's panic is not the call's");
    }

    fn failed(&self, record: &Record) {
        self.push("failed", record.call);
    }
}

#[tokio::test]
async fn executor_an_observer_hears_of_each_call_once() {
    let heard = Arc::new(Heard::default());
    let executor = Executor::with_observer(Settings::default(), Arc::clone(&heard) as _).unwrap();
    let lane = executor.lane();
    let never = CancellationToken::new();
    let report = lane.submit(alone(LONG), never.clone(), fails(0, 0)).report().await;
    assert!(matches!(report.ended, Ended::Answered(Ok(_))));
    let report = lane.submit(beside(), never.clone(), fails(1, ENOENT)).report().await;
    assert!(matches!(report.ended, Ended::Answered(Err(_))));
    let cancel = CancellationToken::new();
    cancel.cancel();
    lane.submit(beside(), cancel, fails(0, 0)).report().await;
    assert_eq!(
        *heard.0.lock().unwrap(),
        ["started 1", "completed 1", "started 2", "failed 2", "failed 3"]
    );
    assert_eq!(executor.totals(), (3, 1));
}

#[test]
fn executor_settings_that_make_no_sense_are_named() {
    let said = |settings: Settings| Executor::new(settings).unwrap_err().to_string();
    assert_eq!(Settings::default().check(), Ok(()));
    assert_eq!(
        said(Settings {
            pending: 0,
            ..Settings::default()
        }),
        "`pending` is 0; expected 1 to 100000"
    );
    assert!(
        said(Settings {
            history: usize::MAX,
            ..Settings::default()
        })
        .starts_with("`history` is ")
    );
    assert_eq!(
        said(Settings {
            pauses: vec![Duration::from_mins(2)],
            ..Settings::default()
        }),
        "`pauses` is 120s; expected at most 60s each"
    );
    assert_eq!(
        said(Settings {
            pauses: vec![SHORT; 11],
            ..Settings::default()
        }),
        "`pauses` is 11 pauses; expected at most 10"
    );
    let limits = Limits {
        waiting: 0,
        ..Limits::default()
    };
    assert!(
        said(Settings {
            limits,
            ..Settings::default()
        })
        .starts_with("`waiting` is 0")
    );
}

/// Many calls of many sessions that succeed, fail, panic, take too long, are cancelled and dropped at any moment: each
/// ends once, and nothing is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executor_whatever_happens_each_call_ends_once_and_nothing_is_left() {
    let rounds = if std::env::var_os("DEVLOOP_LONG").is_some() {
        200
    } else {
        4
    };
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for _ in 0..rounds {
        let executor = Executor::new(Settings {
            history: 10_000,
            ..narrow()
        })
        .unwrap();
        let mut limits = narrow().limits;
        (limits.in_flight.total, limits.in_flight.read_only, limits.waiting) = (4, 3, 40);
        limits.waiting_per_session = 20;
        let wide = Executor::new(Settings {
            limits,
            history: 10_000,
            ..narrow()
        })
        .unwrap();
        let executor = if random(3) == 0 { executor } else { wide };
        let lanes: Vec<_> = (0..4).map(|_| executor.lane()).collect();
        let inside = Arc::new(Mutex::new(BTreeMap::<PathBuf, usize>::new()));
        let mut tasks = Vec::new();
        let mut submitted = 0;
        for _ in 0..100 {
            let mut facts = Facts::new("any", Kind::ReadOnly, Duration::from_millis(5 + random(100)));
            facts.patience = Duration::from_millis(random(200));
            if random(3) > 0 {
                facts = facts.shared();
            }
            if random(2) == 0 {
                facts.replay = Replay::Safe;
            }
            let path = PathBuf::from(format!("/p/{}", random(3)));
            facts.paths = vec![path.clone()];
            let cancel = CancellationToken::new();
            let (what, takes, told) = (random(8), random(4), cancel.clone());
            let inside = Arc::clone(&inside);
            let work = work(move |_| {
                let (inside, path, told) = (Arc::clone(&inside), path.clone(), told.clone());
                async move {
                    let count = |by: fn(usize) -> usize| {
                        let mut inside = inside.lock().unwrap_or_else(PoisonError::into_inner);
                        let count = inside.entry(path.clone()).or_default();
                        *count = by(*count);
                        *count
                    };
                    assert_eq!(count(|n| n + 1), 1, "two calls have one path");
                    tokio::time::sleep(Duration::from_millis(takes)).await;
                    if what == 7 {
                        told.cancelled().await;
                    }
                    count(|n| n - 1);
                    match what {
                        0 => panic!("on purpose"),
                        1 => Err(io::Error::from_raw_os_error(EBUSY)),
                        2 => Err(io::Error::from_raw_os_error(ENOENT)),
                        _ => Ok(()),
                    }
                }
            });
            let call = lanes[usize::try_from(random(4)).unwrap()].submit(facts, cancel.clone(), work);
            submitted += 1;
            let (fate, after) = (random(6), Duration::from_millis(random(30)));
            tasks.push(tokio::spawn(async move {
                match fate {
                    0 => {
                        tokio::time::sleep(after).await;
                        drop(call);
                        cancel.cancel();
                        None
                    }
                    1 => {
                        let call = tokio::spawn(call.report());
                        tokio::time::sleep(after).await;
                        cancel.cancel();
                        Some(call.await.unwrap())
                    }
                    _ => Some(call.report().await),
                }
            }));
        }
        for task in tasks {
            let Some(report) = task.await.unwrap() else { continue };
            if let Ended::Panicked(panic) = report.ended {
                assert_eq!(panic.to_string(), "it panicked: on purpose");
            }
        }
        until(|| executor.load() == (0, 0)).await;
        until(|| executor.records().len() == submitted).await;
        let mut calls: Vec<_> = executor.records().iter().map(|record| record.call).collect();
        calls.sort_unstable();
        calls.dedup();
        assert_eq!(calls.len(), submitted, "each once");
        assert!(executor.driver().cells.is_empty());
    }
}

const READ: turn::Facts = turn::Facts {
    kind: Kind::ReadOnly,
    parallelism: Parallelism::Shared,
    concurrency_safe: true,
    retry_safe: true,
};

const WRITE: turn::Facts = turn::Facts {
    kind: Kind::Write,
    ..READ
};

#[tokio::test]
async fn streaming_begins_early_what_is_harmless_and_yields_in_the_order_of_the_calls() {
    let mut calls = StreamingExecutor::new();
    let begun = Arc::new(Mutex::new(Vec::new()));
    for (id, facts) in [("a", READ), ("b", WRITE), ("c", READ)] {
        let begun = Arc::clone(&begun);
        let start = move |_| {
            begun.lock().unwrap().push(id);
            async move { id }
        };
        calls.submit(id, facts, start).unwrap();
    }
    assert_eq!(*begun.lock().unwrap(), ["a", "c"]);
    assert_eq!(calls.next().await, Some(("a".to_owned(), Ok("a"))));
    let nothing = tokio::time::timeout(SHORT, calls.next()).await;
    assert!(nothing.is_err(), "the third is done, and waits for the second");
    calls.end();
    assert_eq!(*begun.lock().unwrap(), ["a", "c", "b"]);
    assert_eq!(calls.next().await, Some(("b".to_owned(), Ok("b"))));
    assert_eq!(calls.next().await, Some(("c".to_owned(), Ok("c"))));
    assert_eq!(calls.next().await, None);
    assert_eq!(calls.submit("d", READ, |_| async { "d" }), Err(turn::Refused::Ended));
}

#[tokio::test]
async fn streaming_discard_tells_what_runs_drops_late_results_and_begins_anew() {
    let mut calls = StreamingExecutor::new();
    let (told, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (heard, late) = (Arc::clone(&told), Arc::clone(&ended));
    let start = |cancel: CancellationToken| async move {
        cancel.cancelled().await;
        heard.fetch_add(1, Ordering::SeqCst);
        late.add_permits(1);
        "late"
    };
    calls.submit("a", READ, start).unwrap();
    let never = Arc::clone(&told);
    calls
        .submit("b", WRITE, move |_| async move {
            never.fetch_add(10, Ordering::SeqCst);
            "never"
        })
        .unwrap();
    calls.discard();
    ended.acquire().await.unwrap().forget();
    calls.submit("a", READ, |_| async { "new" }).unwrap();
    calls.end();
    assert_eq!(calls.next().await, Some(("a".to_owned(), Ok("new"))));
    assert_eq!(calls.next().await, None);
    assert_eq!(told.load(Ordering::SeqCst), 1);
    // Dropped, it is discarded.
    let (calls, cancelled) = (StreamingExecutor::new(), CancellationToken::new());
    let seen = cancelled.clone();
    calls
        .submit("a", READ, |cancel: CancellationToken| async move {
            cancel.cancelled().await;
            seen.cancel();
        })
        .unwrap();
    drop(calls);
    cancelled.cancelled().await;
}

#[tokio::test]
async fn streaming_refuses_duplicates_and_the_65th_call_and_a_panic_is_a_result() {
    let mut calls = StreamingExecutor::new();
    calls.submit("0", READ, |_| async { panic!("on purpose") }).unwrap();
    assert_eq!(calls.submit("0", READ, |_| async {}), Err(turn::Refused::Duplicate));
    let panics = |_: CancellationToken| -> std::future::Ready<()> { panic!("before it begins") };
    calls.submit("1", READ, panics).unwrap();
    for id in 2..64 {
        calls.submit(id.to_string(), READ, |_| async {}).unwrap();
    }
    assert_eq!(calls.submit("64", READ, |_| async {}), Err(turn::Refused::TooMany));
    calls.end();
    let said = |result: Option<(String, Result<(), Panic>)>| result.unwrap().1.unwrap_err().to_string();
    assert_eq!(said(calls.next().await), "it panicked: on purpose");
    assert_eq!(said(calls.next().await), "it panicked: before it begins");
    assert_eq!(calls.next().await, Some(("2".to_owned(), Ok(()))));
}

/// Calls through a lane keep their order: they are submitted one after the other, also at the end of the answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streaming_through_a_lane_keeps_the_order_of_exclusive_calls() {
    let lane = Executor::default().lane();
    let mut calls = StreamingExecutor::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let exclusive = turn::Facts {
        parallelism: Parallelism::Exclusive,
        ..WRITE
    };
    for n in 0..50 {
        let (lane, seen) = (lane.clone(), Arc::clone(&seen));
        let start = move |cancel| {
            let work = fine(move || {
                let seen = Arc::clone(&seen);
                async move { seen.lock().unwrap().push(n) }
            });
            lane.submit(alone(LONG), cancel, work).report()
        };
        calls.submit(n.to_string(), exclusive, start).unwrap();
    }
    calls.end();
    let mut ids = Vec::new();
    while let Some((id, report)) = calls.next().await {
        assert!(matches!(report.unwrap().ended, Ended::Answered(Ok(()))));
        ids.push(id.parse::<i32>().unwrap());
    }
    assert_eq!(ids, (0..50).collect::<Vec<_>>());
    assert_eq!(*seen.lock().unwrap(), ids);
}

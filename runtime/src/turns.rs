//! When a call of a session runs, and on which thread.
//!
//! Answers for order (first come, first served; shared calls beside each other, an exclusive one alone), for the limit on
//! waiting and on running, and for a place where an exclusive call may block. Leaves out what a call does.
//!
//! Exclusive calls run on one thread of the session's own, the desk, and do their file work there. Nothing else of the
//! session runs meanwhile, so nothing is held up; and pipelined calls follow each other without two changes of thread
//! for each.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use devloop_contract::tool::Parallelism;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a call that ran out of time may take to stop before its answer no longer waits for it.
const GRACE: Duration = Duration::from_secs(2);

/// The turns of one session.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    gate: Arc<RwLock<()>>,
    desk: OnceLock<Option<Desk>>,
}

/// Where a call runs.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On the session's own thread, which may block.
    Desk(Handle),
    /// On the caller's runtime, which may not.
    Runtime,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Ended<T> {
    /// By itself.
    Done(T),
    /// In a panic.
    Panicked(JoinError),
    /// The caller cancelled before its turn: nothing was done.
    Cancelled,
    /// Its turn did not come in time: nothing was done.
    NoTurn,
    /// It took too long and was told to stop.
    TimedOut(Late<T>),
}

/// What becomes of work that took too long.
#[derive(Debug)]
pub(crate) enum Late<T> {
    /// It still answered within the grace.
    Answered(T),
    /// It broke off within the grace.
    Panicked(JoinError),
    /// It goes on; nobody waits for its answer any more.
    Running(JoinHandle<Option<T>>),
}

impl Turns {
    /// Where a call of this parallelism runs.
    pub(crate) fn place(&self, parallelism: Parallelism) -> Place {
        if parallelism == Parallelism::Shared {
            return Place::Runtime;
        }
        // Without a thread to spare it is slower, not wrong.
        let desk = self.desk.get_or_init(|| Desk::start().ok());
        desk.as_ref()
            .map_or(Place::Runtime, |desk| Place::Desk(desk.handle.clone()))
    }

    /// Runs `work` at `place` when it is its turn. It may wait as long as `limit` and then run as long. Work that has
    /// begun is never dropped half-way: it goes on, and keeps its turn, when its answer is no longer awaited.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        place: Place,
        parallelism: Parallelism,
        limit: Duration,
        cancel: CancellationToken,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Ended<T> {
        let claim = Arc::new(Claim::default());
        let job = {
            let (gate, claim) = (Arc::clone(&self.gate), Arc::clone(&claim));
            async move {
                let _turn = match parallelism {
                    Parallelism::Shared => Turn::Shared(gate.read_owned().await),
                    Parallelism::Exclusive => Turn::Exclusive(gate.write_owned().await),
                };
                if claim.start() { Some(work.await) } else { None }
            }
        };
        let mut task = match place {
            Place::Desk(handle) => handle.spawn(job),
            Place::Runtime => tokio::spawn(job),
        };
        let mut deadline = Instant::now() + limit;
        let mut cancelled = pin!(cancel.cancelled());
        let mut heard = false;
        loop {
            tokio::select! {
                biased;
                ended = &mut task => return match ended {
                    Ok(Some(answer)) => Ended::Done(answer),
                    Ok(None) => Ended::NoTurn,
                    Err(error) => Ended::Panicked(error),
                },
                // Work that has begun hears of it by its own token.
                () = &mut cancelled, if !heard => {
                    if claim.give_up() {
                        return Ended::Cancelled;
                    }
                    heard = true;
                }
                () = tokio::time::sleep_until(deadline) => {
                    if claim.give_up() {
                        return Ended::NoTurn;
                    }
                    let runs_until = claim.started_at() + limit;
                    if runs_until <= Instant::now() {
                        break;
                    }
                    deadline = runs_until;
                }
            }
        }
        cancel.cancel();
        Ended::TimedOut(match tokio::time::timeout(GRACE, &mut task).await {
            Ok(Ok(Some(answer))) => Late::Answered(answer),
            // Its claim was taken, so that it had begun.
            Ok(Ok(None)) => return Ended::NoTurn,
            Ok(Err(error)) => Late::Panicked(error),
            Err(_) => Late::Running(task),
        })
    }
}

/// A call's turn; held, not read.
enum Turn {
    Shared(#[expect(dead_code, reason = "held, not read")] OwnedRwLockReadGuard<()>),
    Exclusive(#[expect(dead_code, reason = "held, not read")] OwnedRwLockWriteGuard<()>),
}

/// Whether waiting work begins or is given up: exactly one of the two happens, whoever comes first.
#[derive(Debug, Default)]
struct Claim {
    state: AtomicU8,
    started_at: OnceLock<Instant>,
}

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Claim {
    fn start(&self) -> bool {
        // Before the state, so that whoever sees the state sees the time.
        let _ = self.started_at.set(Instant::now());
        self.state
            .compare_exchange(WAITING, STARTED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn give_up(&self) -> bool {
        self.state
            .compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn started_at(&self) -> Instant {
        self.started_at.get().copied().unwrap_or_else(Instant::now)
    }
}

/// A thread with a runtime of its own. It ends when this is dropped.
#[derive(Debug)]
struct Desk {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl Desk {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("devloop-desk".to_owned()).spawn(move || {
            // An error says that the other end is gone, which is the signal.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _stop: stop })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    async fn exclusive<T: Send + 'static>(
        turns: &Turns,
        limit: Duration,
        cancel: &CancellationToken,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Ended<T> {
        let place = turns.place(Parallelism::Exclusive);
        turns
            .run(place, Parallelism::Exclusive, limit, cancel.clone(), work)
            .await
    }

    /// Calls that are sent at once run in the order in which they were sent, one at a time, even when they wait inside.
    #[tokio::test]
    async fn exclusive_calls_run_alone_and_in_order() {
        let turns = Arc::new(Turns::default());
        let (seen, running) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let (turns, seen, running) = (Arc::clone(&turns), Arc::clone(&seen), Arc::clone(&running));
                tokio::spawn(async move {
                    let work = async move {
                        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "another one runs");
                        tokio::task::yield_now().await;
                        seen.lock().unwrap().push(n);
                        running.fetch_sub(1, Ordering::SeqCst);
                    };
                    exclusive(&turns, LONG, &CancellationToken::new(), work).await
                })
            })
            .collect();
        for call in calls {
            assert!(matches!(call.await.unwrap(), Ended::Done(())));
        }
        assert_eq!(*seen.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn shared_calls_run_beside_each_other() {
        let turns = Turns::default();
        let barrier = Arc::new(tokio::sync::Barrier::new(2));
        let call = || {
            let barrier = Arc::clone(&barrier);
            turns.run(
                Place::Runtime,
                Parallelism::Shared,
                LONG,
                CancellationToken::new(),
                async move {
                    barrier.wait().await;
                },
            )
        };
        let (first, second) = tokio::join!(call(), call());
        assert!(matches!((first, second), (Ended::Done(()), Ended::Done(()))));
    }

    #[tokio::test]
    async fn a_turn_that_does_not_come_is_given_up_and_never_begins() {
        let turns = Arc::new(Turns::default());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let holding = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                let work = async move { released.recv().unwrap() };
                exclusive(&turns, LONG, &CancellationToken::new(), work).await
            }
        });
        tokio::task::yield_now().await;
        let begun = Arc::new(AtomicUsize::new(0));
        let waiting = |limit, cancel: CancellationToken| {
            let (turns, begun) = (Arc::clone(&turns), Arc::clone(&begun));
            async move {
                let work = async move { begun.fetch_add(1, Ordering::SeqCst) };
                exclusive(&turns, limit, &cancel, work).await
            }
        };
        let short = Duration::from_millis(20);
        assert!(matches!(waiting(short, CancellationToken::new()).await, Ended::NoTurn));
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert!(matches!(waiting(LONG, cancel).await, Ended::Cancelled));
        release.send(()).unwrap();
        assert!(matches!(holding.await.unwrap(), Ended::Done(())));
        assert!(
            matches!(waiting(LONG, CancellationToken::new()).await, Ended::Done(0)),
            "the others never began"
        );
    }

    #[tokio::test]
    async fn work_that_takes_too_long_is_told_and_may_still_answer() {
        let (turns, cancel) = (Turns::default(), CancellationToken::new());
        let told = cancel.clone();
        let work = async move {
            told.cancelled().await;
            "stopped"
        };
        let ended = exclusive(&turns, Duration::from_millis(20), &cancel, work).await;
        assert!(matches!(ended, Ended::TimedOut(Late::Answered("stopped"))), "{ended:?}");
    }

    #[tokio::test]
    async fn work_that_does_not_stop_goes_on_and_can_be_waited_for() {
        let (turns, cancel) = (Turns::default(), CancellationToken::new());
        let (release, released) = std::sync::mpsc::channel::<()>();
        let work = async move {
            released.recv().unwrap();
            "late"
        };
        let ended = exclusive(&turns, Duration::from_millis(200), &cancel, work).await;
        let Ended::TimedOut(Late::Running(task)) = ended else {
            panic!("{ended:?}")
        };
        release.send(()).unwrap();
        assert_eq!(task.await.unwrap(), Some("late"));
    }

    #[tokio::test]
    async fn a_panic_is_an_answer_and_the_next_call_runs() {
        let (turns, cancel) = (Turns::default(), CancellationToken::new());
        let ended = exclusive(&turns, LONG, &cancel, async { panic!("on purpose") }).await;
        assert!(matches!(ended, Ended::<()>::Panicked(_)));
        assert!(matches!(
            exclusive(&turns, LONG, &cancel, async { 7 }).await,
            Ended::Done(7)
        ));
    }
}

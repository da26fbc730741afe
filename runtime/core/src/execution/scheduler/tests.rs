//! The scheduler against a model, its fairness, and its limits.

use proptest::prelude::*;

use super::*;
use crate::execution::testing::config;

const NEVER: Duration = Duration::MAX;

/// The model: the calls that run and those that wait, as plain lists, and who was served when as lists, too.
#[derive(Clone)]
struct Model {
    limits: Limits,
    running: Vec<Known>,
    waiting: Vec<Known>,
    /// Which session waits for which kind, in the order in which they came or were served.
    order: Vec<(SessionId, Kind)>,
    /// All sessions that have calls, the one that was served last at the end.
    served: Vec<SessionId>,
}

#[derive(Clone, Copy)]
struct Known {
    call: CallId,
    session: SessionId,
    kind: Kind,
    until: Duration,
}

impl Model {
    fn may_run(&self, new: &Known) -> bool {
        let count = |test: &dyn Fn(&Known) -> bool| self.running.iter().filter(|known| test(known)).count();
        let (all, own) = (&self.limits.in_flight, &self.limits.per_session);
        count(&|_| true) < all.total
            && count(&|known| known.kind == new.kind) < all.of(new.kind)
            && count(&|known| known.session == new.session) < own.total
            && count(&|known| known.session == new.session && known.kind == new.kind) < own.of(new.kind)
    }

    fn launch(&mut self) -> Vec<CallId> {
        let mut launched = Vec::new();
        loop {
            let first = |kind: Kind| {
                let mut order = self.order.iter().filter(|other| other.1 == kind);
                order.find_map(|&(session, kind)| {
                    let own = |known: &&Known| known.session == session && known.kind == kind;
                    self.waiting
                        .iter()
                        .find(own)
                        .filter(|known| self.may_run(known))
                        .copied()
                })
            };
            let found = [Kind::Execute, Kind::ReadOnly, Kind::Write]
                .into_iter()
                .filter_map(first);
            let Some(next) = found.min_by_key(|known| {
                let served = self.served.iter().position(|session| *session == known.session);
                (served, self.waiting.iter().position(|other| other.call == known.call))
            }) else {
                return launched;
            };
            self.waiting.retain(|known| known.call != next.call);
            self.running.push(next);
            launched.push(next.call);
            self.order.retain(|&other| other != (next.session, next.kind));
            self.order.push((next.session, next.kind));
            self.served.retain(|&other| other != next.session);
            self.served.push(next.session);
            self.forget_idle();
        }
    }

    fn forget_idle(&mut self) {
        let waits = |session, kind| {
            let mut waiting = self.waiting.iter();
            waiting.any(|known| (known.session, known.kind) == (session, kind))
        };
        self.order.retain(|&(session, kind)| waits(session, kind));
        let mut all = self.waiting.iter().chain(&self.running);
        self.served
            .retain(|session| all.clone().any(|known| known.session == *session));
        debug_assert!(all.all(|known| self.served.contains(&known.session)));
    }

    fn submit(&mut self, new: Known) -> Result<Vec<CallId>, Refused> {
        let before = self.clone();
        self.waiting.push(new);
        if !self.order.contains(&(new.session, new.kind)) {
            self.order.push((new.session, new.kind));
        }
        if !self.served.contains(&new.session) {
            self.served.push(new.session);
        }
        let launched = self.launch();
        let own = self.waiting.iter().filter(|known| known.session == new.session).count();
        let refused = if own > self.limits.waiting_per_session {
            Some(Refused::SessionFull {
                limit: self.limits.waiting_per_session,
            })
        } else if self.waiting.len() > self.limits.waiting {
            Some(Refused::Full {
                limit: self.limits.waiting,
            })
        } else {
            None
        };
        match refused {
            Some(refused) => {
                *self = before;
                Err(refused)
            }
            None => Ok(launched),
        }
    }

    fn leave(&mut self, call: CallId) -> (Left, Vec<CallId>) {
        let (waiting, running) = (self.waiting.len(), self.running.len());
        self.waiting.retain(|known| known.call != call);
        self.running.retain(|known| known.call != call);
        let left = if self.waiting.len() < waiting {
            Left::Waiting
        } else if self.running.len() < running {
            Left::Running
        } else {
            Left::Nowhere
        };
        self.forget_idle();
        (left, self.launch())
    }

    fn tick(&mut self, now: Duration) -> Vec<CallId> {
        let late = |known: &&Known| known.until <= now;
        let mut refused: Vec<_> = self.waiting.iter().filter(late).map(|known| known.call).collect();
        self.waiting.retain(|known| !late(&known));
        self.forget_idle();
        refused.sort_unstable();
        refused
    }
}

#[derive(Clone)]
struct Both {
    scheduler: Scheduler,
    model: Model,
    now: Duration,
}

impl Both {
    fn new(limits: Limits) -> Self {
        Self {
            scheduler: Scheduler::new(limits).unwrap(),
            model: Model {
                limits,
                running: Vec::new(),
                waiting: Vec::new(),
                order: Vec::new(),
                served: Vec::new(),
            },
            now: Duration::ZERO,
        }
    }

    fn submit(&mut self, call: CallId, session: SessionId, kind: Kind, patience: Duration) {
        let mut launched = Vec::new();
        let until = self.now.saturating_add(patience);
        let taken = self
            .scheduler
            .submit(call, session, kind, self.now, until, &mut launched);
        let expected = self.model.submit(Known {
            call,
            session,
            kind,
            until: until.min(self.now + self.model.limits.wait),
        });
        assert_eq!(taken.map(|()| launched), expected);
        self.check();
    }

    fn leave(&mut self, call: CallId) {
        let mut launched = Vec::new();
        let left = self.scheduler.leave(call, &mut launched);
        assert_eq!((left, launched), self.model.leave(call));
        self.check();
    }

    fn tick(&mut self, later: Duration) {
        self.now += later;
        let mut refused = Vec::new();
        self.scheduler.tick(self.now, &mut refused);
        assert_eq!(refused, self.model.tick(self.now));
        self.check();
    }

    fn check(&self) {
        let (scheduler, model) = (&self.scheduler, &self.model);
        assert_eq!(scheduler.running(), model.running.len());
        assert_eq!(scheduler.waiting(), model.waiting.len());
        // Nobody waits for whom there is room, so calls that end always lead on.
        assert!(model.waiting.iter().all(|known| !model.may_run(known)));
        for known in &model.waiting {
            assert_eq!(scheduler.waits_until(known.call), Some(known.until));
        }
        if model.running.is_empty() {
            assert!(
                scheduler.sessions.is_empty() && scheduler.rings.iter().all(VecDeque::is_empty),
                "nothing is left behind"
            );
        }
    }
}

fn small() -> Limits {
    Limits {
        in_flight: Room {
            total: 2,
            read_only: 2,
            write: 1,
            execute: 1,
        },
        per_session: Room {
            total: 1,
            read_only: 1,
            write: 1,
            execute: 1,
        },
        waiting: 2,
        waiting_per_session: 2,
        wait: Duration::from_secs(2),
    }
}

fn explore(both: &Both, comes: u64, nodes: &mut usize) {
    *nodes += 1;
    if comes < 4 {
        for session in [SessionId(0), SessionId(1)] {
            for kind in [Kind::ReadOnly, Kind::Write] {
                let mut both = both.clone();
                both.submit(CallId(comes), session, kind, Duration::from_secs(1 + comes % 3));
                explore(&both, comes + 1, nodes);
            }
        }
    }
    let (waiting, running) = (&both.model.waiting, &both.model.running);
    for known in waiting.iter().chain(running) {
        let mut both = both.clone();
        both.leave(known.call);
        explore(&both, comes, nodes);
    }
    if !waiting.is_empty() {
        let mut both = both.clone();
        both.tick(Duration::from_secs(1));
        explore(&both, comes, nodes);
    }
}

#[test]
fn scheduler_every_interleaving_of_four_calls_of_two_sessions() {
    let mut nodes = 0;
    explore(&Both::new(small()), 0, &mut nodes);
    assert!(nodes > 10_000, "{nodes}");
}

fn limits() -> impl Strategy<Value = Limits> {
    fn room(most: [usize; 4]) -> impl Strategy<Value = Room> {
        (1..=most[0]).prop_flat_map(move |total| {
            let part = |most: usize| 1..=most.min(total);
            (part(most[1]), part(most[2]), part(most[3])).prop_map(move |(read_only, write, execute)| Room {
                total,
                read_only,
                write,
                execute,
            })
        })
    }
    room([6; 4])
        .prop_flat_map(|all| {
            let own = room([all.total, all.read_only, all.write, all.execute]);
            (Just(all), own, 1_usize..10)
        })
        .prop_flat_map(|(in_flight, per_session, waiting)| {
            (1..=waiting, 1_u64..6).prop_map(move |(waiting_per_session, wait)| Limits {
                in_flight,
                per_session,
                waiting,
                waiting_per_session,
                wait: Duration::from_secs(wait),
            })
        })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(KINDS.to_vec())
}

#[test]
fn scheduler_random_operations_do_what_the_model_does() {
    let operation = (0..10, 0_u64..4, kind(), 0_u64..6, any::<prop::sample::Index>());
    proptest!(config(120), |(limits in limits(), operations in prop::collection::vec(operation, 1..120))| {
        let mut both = Both::new(limits);
        for (number, (what, session, kind, seconds, which)) in operations.into_iter().enumerate() {
            match what {
                0..=4 => {
                    let patience = if seconds == 5 { NEVER } else { Duration::from_secs(seconds) };
                    both.submit(CallId(number as u64), SessionId(session), kind, patience);
                }
                5..=8 => both.leave(CallId(which.index(number + 1) as u64)),
                _ => both.tick(Duration::from_secs(seconds)),
            }
        }
    });
}

/// However the other sessions press, a session that always has something waiting is served once in each round.
#[test]
fn scheduler_serves_the_sessions_in_turn() {
    let mut scheduler = Scheduler::new(Limits {
        in_flight: Room {
            total: 1,
            read_only: 1,
            write: 1,
            execute: 1,
        },
        per_session: Room {
            total: 1,
            read_only: 1,
            write: 1,
            execute: 1,
        },
        ..Limits::default()
    })
    .unwrap();
    let mut launched = Vec::new();
    // The first asks for 40 calls before the others come with four each; one is of a kind of its own.
    let calls = (0..40).map(|n| (n, 0)).chain((0..12).map(|n| (100 + n, 1 + n % 3)));
    for (call, session) in calls {
        let kind = if session == 3 { Kind::Execute } else { Kind::ReadOnly };
        scheduler
            .submit(
                CallId(call),
                SessionId(session),
                kind,
                Duration::ZERO,
                NEVER,
                &mut launched,
            )
            .unwrap();
    }
    let mut served = Vec::new();
    while let Some(call) = launched.pop() {
        served.push(if call.0 < 100 { 0 } else { 1 + call.0 % 100 % 3 });
        scheduler.leave(call, &mut launched);
    }
    assert_eq!(served[..17], [0, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
    assert_eq!(served.len(), 52);
}

/// A session that is served well in one kind must not lose its place in another.
#[test]
fn scheduler_starves_no_kind_of_a_session_that_is_served_in_another() {
    let mut scheduler = Scheduler::new(Limits {
        in_flight: Room {
            total: 3,
            read_only: 2,
            write: 1,
            execute: 1,
        },
        per_session: Room {
            total: 3,
            read_only: 2,
            write: 1,
            execute: 1,
        },
        ..Limits::default()
    })
    .unwrap();
    let mut launched = Vec::new();
    let mut submit = |scheduler: &mut Scheduler, call: u64, session: u64, kind: Kind| {
        scheduler
            .submit(
                CallId(call),
                SessionId(session),
                kind,
                Duration::ZERO,
                NEVER,
                &mut launched,
            )
            .unwrap();
        std::mem::take(&mut launched)
    };
    submit(&mut scheduler, 0, 0, Kind::Execute);
    submit(&mut scheduler, 1, 1, Kind::Execute);
    submit(&mut scheduler, 2, 2, Kind::Execute);
    submit(&mut scheduler, 3, 0, Kind::Execute);
    let mut order = Vec::new();
    let mut runs = 0;
    for round in 0..3 {
        // The session that waits for its execution reads all the while.
        let read = 100 + round;
        assert_eq!(submit(&mut scheduler, read, 1, Kind::ReadOnly), [CallId(read)]);
        let mut next = Vec::new();
        scheduler.leave(CallId(runs), &mut next);
        order.extend(next.iter().map(|call| call.0));
        runs = next[0].0;
        scheduler.leave(CallId(read), &mut next);
    }
    assert_eq!(order, [1, 2, 3]);
}

#[test]
fn scheduler_defaults_are_the_documented_ones() {
    for (sessions, kind, expected) in [
        (1, Kind::ReadOnly, 8),
        (1, Kind::Write, 4),
        (1, Kind::Execute, 2),
        (8, Kind::ReadOnly, 24),
        (8, Kind::Write, 8),
        (8, Kind::Execute, 3),
    ] {
        let mut scheduler = Scheduler::new(Limits::default()).unwrap();
        let mut launched = Vec::new();
        for call in 0..32 {
            let session = SessionId(call % sessions);
            scheduler
                .submit(CallId(call), session, kind, Duration::ZERO, NEVER, &mut launched)
                .unwrap();
        }
        assert_eq!(launched.len(), expected, "{sessions} {kind:?}");
    }
    for (sessions, expected) in [(1, 10), (8, 32)] {
        let mut scheduler = Scheduler::new(Limits::default()).unwrap();
        let mut launched = Vec::new();
        for call in 0..64 * sessions.min(4) {
            let kind = KINDS[usize::try_from(call / sessions).unwrap() % 3];
            let session = SessionId(call % sessions);
            scheduler
                .submit(CallId(call), session, kind, Duration::ZERO, NEVER, &mut launched)
                .unwrap();
        }
        assert_eq!(launched.len(), expected, "{sessions} sessions, all kinds");
    }
}

#[test]
fn scheduler_refuses_what_would_wait_beyond_64_of_a_session_or_256_of_all() {
    let mut scheduler = Scheduler::new(Limits::default()).unwrap();
    let mut launched = Vec::new();
    let mut submit = |call: u64, session: u64| {
        let (call, session) = (CallId(call), SessionId(session));
        scheduler.submit(call, session, Kind::Execute, Duration::ZERO, NEVER, &mut launched)
    };
    for call in 0..66 {
        submit(call, 0).unwrap();
    }
    let refused = submit(66, 0).unwrap_err();
    assert_eq!(refused, Refused::SessionFull { limit: 64 });
    assert_eq!(refused.to_string(), "64 calls of this session wait already to run");
    // One more runs, the third of all.
    for call in 100..100 + 1 + 256 - 64 {
        submit(call, 1 + call % 6).unwrap();
    }
    let refused = submit(500, 9).unwrap_err();
    assert_eq!(refused.to_string(), "256 calls wait already, over all sessions");
    let one = [Refused::Full { limit: 1 }, Refused::SessionFull { limit: 1 }].map(|refused| refused.to_string());
    assert_eq!(
        one,
        [
            "1 call waits already, over all sessions",
            "1 call of this session waits already to run"
        ]
    );
}

#[test]
fn scheduler_refuses_a_call_that_has_waited_180_seconds() {
    let mut scheduler = Scheduler::new(Limits::default()).unwrap();
    let (mut launched, mut refused) = (Vec::new(), Vec::new());
    for call in 0..3 {
        let now = Duration::from_secs(call);
        scheduler
            .submit(CallId(call), SessionId(0), Kind::Execute, now, NEVER, &mut launched)
            .unwrap();
    }
    scheduler.tick(Duration::from_secs(181), &mut refused);
    assert_eq!(refused, []);
    scheduler.tick(Duration::from_secs(182), &mut refused);
    assert_eq!(refused, [CallId(2)]);
    assert_eq!(scheduler.leave(CallId(2), &mut launched), Left::Nowhere);
    scheduler.leave(CallId(0), &mut launched);
    assert_eq!(launched, [CallId(0), CallId(1)], "it never runs");
}

#[test]
fn scheduler_limits_that_make_no_sense_are_named() {
    let said = |change: &dyn Fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        Scheduler::new(limits).unwrap_err().to_string()
    };
    assert_eq!(
        said(&|limits| limits.in_flight.total = 0),
        "`in_flight.total` is 0; expected 1 to 100000 (the most there may be)"
    );
    assert_eq!(
        said(&|limits| limits.in_flight.write = 33),
        "`in_flight.write` is 33; expected 1 to 32 (`in_flight.total`)"
    );
    assert_eq!(
        said(&|limits| limits.per_session.execute = 0),
        "`per_session.execute` is 0; expected 1 to 10 (`per_session.total`)"
    );
    assert_eq!(
        said(&|limits| limits.per_session.execute = 4),
        "`per_session.execute` is 4; expected 1 to 3 (`in_flight.execute`)"
    );
    assert_eq!(
        said(&|limits| limits.per_session.total = 33),
        "`per_session.total` is 33; expected 1 to 32 (`in_flight.total`)"
    );
    assert_eq!(
        said(&|limits| limits.waiting = usize::MAX),
        "`waiting` is 18446744073709551615; expected 1 to 100000 (the most there may be)"
    );
    assert_eq!(
        said(&|limits| limits.waiting_per_session = 257),
        "`waiting_per_session` is 257; expected 1 to 256 (`waiting`)"
    );
    for wait in [Duration::ZERO, Duration::MAX] {
        assert!(said(&|limits| limits.wait = wait).starts_with("`wait` is "));
    }
    let week = Duration::from_hours(7 * 24);
    let above = said(&|limits| limits.wait = week + Duration::from_nanos(1));
    assert!(above.starts_with("`wait` is "), "{above}");
    let most = Limits {
        wait: week,
        waiting: 100_000,
        waiting_per_session: 100_000,
        ..Limits::default()
    };
    assert_eq!(most.check(), Ok(()));
    let least = Room {
        total: 1,
        read_only: 1,
        write: 1,
        execute: 1,
    };
    let least = Limits {
        in_flight: least,
        per_session: least,
        waiting: 1,
        waiting_per_session: 1,
        wait: Duration::from_nanos(1),
    };
    assert_eq!(least.check(), Ok(()));
    assert_eq!(Limits::default().check(), Ok(()));
}

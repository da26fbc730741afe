//! The way of a call from its submission to its end: its session's gate, what prepares it (permission, hooks, approval),
//! the paths that it touches, and a place among those that run.
//!
//! Answers for how the three follow each other, for how long a call may wait in all, and that every call that waits is
//! launched or refused. Leaves out running it, and how the preparing goes.
//!
//! A call has its paths before it asks for a place: a place that waits for a path would be lost to others. It keeps all
//! three until it leaves, so that nothing of its session that wants to be alone begins before it is done.
//!
//! Beyond the gate a call counts as waiting until it runs, also while it is prepared. One that finds as many there as
//! may wait is refused before anybody is asked for his approval.
//!
//! Cost: without contention a handful of searches in maps of the calls and sessions there are; a tick looks at all calls.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use devloop_contract::tool::{Kind, Parallelism};

use super::gate::{self, Gate};
use super::path_locks::PathLocks;
use super::scheduler::{self, Limits, LimitsError, Scheduler};
use super::{CallId, SessionId};

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The call is past its gate: prepare it, then say that it is [ready](Flow::ready).
    Enter(CallId),
    /// Run the call, then say that it [leaves](Flow::leave).
    Launch(CallId),
    /// The call is not known any more; it never runs.
    Refuse(CallId, Busy),
}

/// Why a call is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Too many calls of its session wait for their turn.
    Gate(gate::Full),
    /// Too many calls wait to run.
    Scheduler(scheduler::Refused),
    /// It has waited as long as it may.
    TooLate(Stage),
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate(full) => full.fmt(f),
            Self::Scheduler(refused) => refused.fmt(f),
            Self::TooLate(Stage::Gate) => f.write_str("earlier calls of this session did not end in time"),
            Self::TooLate(Stage::Paths) => f.write_str("calls on the same files did not end in time"),
            Self::TooLate(_) => f.write_str("there was no place to run in time"),
        }
    }
}

impl std::error::Error for Busy {}

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It waits for its turn in its session.
    Gate,
    /// It is being prepared.
    Preparing,
    /// It waits for its paths.
    Paths,
    /// It waits for a place among those that run.
    Place,
    /// It runs.
    Running,
}

/// All calls of all sessions.
///
/// ```
/// use std::time::Duration;
///
/// use devloop_contract::tool::{Kind, Parallelism};
/// use devloop_core::execution::flow::{Command, Flow};
/// use devloop_core::execution::scheduler::Limits;
/// use devloop_core::execution::{CallId, SessionId};
///
/// let (mut flow, mut commands) = (Flow::new(Limits::default())?, Vec::new());
/// let (now, patience) = (Duration::ZERO, Duration::from_secs(30));
/// flow.submit(CallId(1), SessionId(1), Parallelism::Shared, patience, now, &mut commands);
/// assert_eq!(commands, [Command::Enter(CallId(1))]);
/// flow.ready(CallId(1), Kind::Write, ["/p/notes.md".into()], now, &mut commands);
/// assert_eq!(commands[1..], [Command::Launch(CallId(1))]);
/// flow.leave(CallId(1), now, &mut commands);
/// # Ok::<(), devloop_core::execution::scheduler::LimitsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flow {
    calls: BTreeMap<CallId, Call>,
    sessions: BTreeMap<SessionId, Session>,
    paths: PathLocks,
    places: Scheduler,
    pending: usize,
    /// How many calls are past their gates and do not run.
    inside: usize,
    /// Kept for its memory.
    ids: Vec<CallId>,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    session: SessionId,
    stage: Stage,
    kind: Kind,
    /// When it no longer waits; while it is prepared, how long it may still wait afterwards.
    until: Duration,
}

#[derive(Clone, Debug)]
struct Session {
    gate: Gate,
    inside: usize,
}

impl Flow {
    /// A flow without calls, with [`gate::PENDING`] calls before each gate.
    ///
    /// # Errors
    /// A limit that makes no sense; see [`Limits::check`].
    pub fn new(limits: Limits) -> Result<Self, LimitsError> {
        Self::with_pending(limits, gate::PENDING)
    }

    /// As [`new`](Self::new), with another number of calls before each gate.
    ///
    /// # Errors
    /// A limit that makes no sense; see [`Limits::check`].
    pub fn with_pending(limits: Limits, pending: usize) -> Result<Self, LimitsError> {
        Ok(Self {
            calls: BTreeMap::new(),
            sessions: BTreeMap::new(),
            paths: PathLocks::default(),
            places: Scheduler::new(limits)?,
            pending,
            inside: 0,
            ids: Vec::new(),
        })
    }

    /// A call comes. It waits no longer than `patience` in all; the time in which it is prepared does not count.
    pub fn submit(
        &mut self,
        call: CallId,
        session: SessionId,
        parallelism: Parallelism,
        patience: Duration,
        now: Duration,
        commands: &mut Vec<Command>,
    ) {
        debug_assert!(!self.calls.contains_key(&call), "{call:?} is known already");
        let known = Call {
            session,
            stage: Stage::Gate,
            // What it is, is only known when it is ready.
            kind: Kind::Execute,
            until: now.saturating_add(patience),
        };
        self.calls.insert(call, known);
        let mut entered = std::mem::take(&mut self.ids);
        let own = self.sessions.entry(session).or_insert_with(|| Session {
            gate: Gate::with_limit(self.pending),
            inside: 0,
        });
        match own.gate.submit(call, parallelism, &mut entered) {
            Ok(()) => self.enter(session, &mut entered, now, commands),
            Err(full) => {
                self.calls.remove(&call);
                commands.push(Command::Refuse(call, Busy::Gate(full)));
            }
        }
        entered.clear();
        self.ids = entered;
    }

    /// A call that entered is prepared, and wants to run with `paths` to itself: none when it takes no locks.
    pub fn ready(
        &mut self,
        call: CallId,
        kind: Kind,
        paths: impl IntoIterator<Item = PathBuf>,
        now: Duration,
        commands: &mut Vec<Command>,
    ) {
        let longest = self.places.limits().wait;
        let Some(known) = self.calls.get_mut(&call) else {
            return;
        };
        if known.stage != Stage::Preparing {
            return;
        }
        known.stage = Stage::Paths;
        known.kind = kind;
        known.until = now.saturating_add(known.until.min(longest));
        let mut paths = paths.into_iter().peekable();
        if paths.peek().is_none() {
            self.place(call, now, commands);
            return;
        }
        let mut granted = std::mem::take(&mut self.ids);
        self.paths.request(call, paths, &mut granted);
        // Nobody but this one: nothing was released.
        if granted.pop().is_some() {
            self.place(call, now, commands);
        }
        self.ids = granted;
    }

    /// A call is done, was cancelled or gives up, wherever it is; says where that was. Nothing when it is not known: it
    /// has left already, or was refused.
    pub fn leave(&mut self, call: CallId, now: Duration, commands: &mut Vec<Command>) -> Option<Stage> {
        let known = self.calls.remove(&call)?;
        self.forget(call, known, now, commands);
        Some(known.stage)
    }

    /// The time goes on: calls that have waited too long are refused.
    pub fn tick(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let late = |known: &Call| known.waits() && known.until <= now;
        let all = self.calls.iter();
        let late: Vec<(CallId, Call)> = all
            .filter(|(_, known)| late(known))
            .map(|(id, known)| (*id, *known))
            .collect();
        // First all of them, so that none takes the place of another.
        for (call, known) in &late {
            self.calls.remove(call);
            commands.push(Command::Refuse(*call, Busy::TooLate(known.stage)));
        }
        for (call, known) in late {
            self.forget(call, known, now, commands);
        }
    }

    /// How far a call is; nothing when it is not known.
    pub fn stage(&self, call: CallId) -> Option<Stage> {
        Some(self.calls.get(&call)?.stage)
    }

    /// Until when a call waits; nothing when it does not.
    pub fn waits_until(&self, call: CallId) -> Option<Duration> {
        let known = self.calls.get(&call)?;
        known.waits().then_some(known.until)
    }

    /// How many calls there are, wherever they are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// How many calls run.
    pub fn running(&self) -> usize {
        self.places.running()
    }

    /// Calls are past the gate of their session.
    fn enter(&mut self, session: SessionId, entered: &mut Vec<CallId>, now: Duration, commands: &mut Vec<Command>) {
        let Limits {
            waiting,
            waiting_per_session,
            ..
        } = *self.places.limits();
        let mut place = 0;
        // Whoever is refused here makes way for others.
        while let Some(&call) = entered.get(place) {
            place += 1;
            let Some(own) = self.sessions.get_mut(&session) else {
                return;
            };
            let full = if own.inside >= waiting_per_session {
                Some(scheduler::Refused::SessionFull {
                    limit: waiting_per_session,
                })
            } else if self.inside >= waiting {
                Some(scheduler::Refused::Full { limit: waiting })
            } else {
                None
            };
            // One that is gone already has left its place at the gate for a moment only.
            let known = self.calls.get_mut(&call);
            match (known, full) {
                (Some(known), None) => {
                    known.stage = Stage::Preparing;
                    known.until = known.until.saturating_sub(now);
                    own.inside += 1;
                    self.inside += 1;
                    commands.push(Command::Enter(call));
                }
                (Some(_), Some(full)) => {
                    own.gate.leave(call, entered);
                    self.calls.remove(&call);
                    commands.push(Command::Refuse(call, Busy::Scheduler(full)));
                }
                (None, _) => {}
            }
        }
        if self.sessions.get(&session).is_some_and(|own| own.gate.is_idle()) {
            self.sessions.remove(&session);
        }
    }

    /// A call has its paths and wants a place.
    fn place(&mut self, call: CallId, now: Duration, commands: &mut Vec<Command>) {
        let Some(known) = self.calls.get_mut(&call) else {
            return;
        };
        known.stage = Stage::Place;
        let (session, kind, until) = (known.session, known.kind, known.until);
        let mut launched = Vec::new();
        match self.places.submit(call, session, kind, now, until, &mut launched) {
            Ok(()) => self.launch(&launched, commands),
            // There are fewer that wait for a place than are past the gates, and those were counted.
            Err(full) => {
                if let Some(known) = self.calls.remove(&call) {
                    commands.push(Command::Refuse(call, Busy::Scheduler(full)));
                    self.forget(call, known, now, commands);
                }
            }
        }
    }

    fn launch(&mut self, launched: &[CallId], commands: &mut Vec<Command>) {
        for call in launched {
            let Some(known) = self.calls.get_mut(call) else {
                continue;
            };
            known.stage = Stage::Running;
            self.inside -= 1;
            if let Some(own) = self.sessions.get_mut(&known.session) {
                own.inside -= 1;
            }
            commands.push(Command::Launch(*call));
        }
    }

    /// Gives back all that a call has, which is not among the calls any more.
    fn forget(&mut self, call: CallId, known: Call, now: Duration, commands: &mut Vec<Command>) {
        let session = known.session;
        if matches!(known.stage, Stage::Preparing | Stage::Paths | Stage::Place) {
            self.inside -= 1;
            if let Some(own) = self.sessions.get_mut(&session) {
                own.inside -= 1;
            }
        }
        if matches!(known.stage, Stage::Place | Stage::Running) {
            let mut launched = Vec::new();
            self.places.leave(call, &mut launched);
            self.launch(&launched, commands);
        }
        if known.stage >= Stage::Paths {
            let mut granted = Vec::new();
            self.paths.release(call, &mut granted);
            for call in granted {
                self.place(call, now, commands);
            }
        }
        let mut entered = Vec::new();
        if let Some(own) = self.sessions.get_mut(&session) {
            own.gate.leave(call, &mut entered);
            self.enter(session, &mut entered, now, commands);
        }
    }
}

impl Call {
    fn waits(&self) -> bool {
        matches!(self.stage, Stage::Gate | Stage::Paths | Stage::Place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::execution::scheduler::Room;
    use crate::execution::testing::config;

    /// The model: all calls in the order in which they came, with what was told of them; and the rules, as questions to
    /// that list.
    #[derive(Clone)]
    struct Both {
        flow: Flow,
        limits: Limits,
        pending: usize,
        now: Duration,
        calls: Vec<Told>,
        /// Numbers the calls as they are ready.
        asked: usize,
    }

    #[derive(Clone, Debug)]
    struct Told {
        call: CallId,
        session: SessionId,
        parallelism: Parallelism,
        kind: Kind,
        paths: u8,
        /// When it asked for its paths.
        asked: usize,
        /// Nothing when it is gone.
        stage: Option<Stage>,
        /// When it no longer waits; while it is prepared, how long it still may.
        until: Duration,
    }

    #[derive(Clone, Copy, Debug)]
    struct New {
        session: u64,
        parallelism: Parallelism,
        kind: Kind,
        paths: u8,
        patience: Duration,
    }

    impl Both {
        fn new(limits: Limits, pending: usize) -> Self {
            Self {
                flow: Flow::with_pending(limits, pending).unwrap(),
                limits,
                pending,
                now: Duration::ZERO,
                calls: Vec::new(),
                asked: 0,
            }
        }

        fn submit(&mut self, new: New) {
            let call = CallId(self.calls.len() as u64);
            self.calls.push(Told {
                call,
                session: SessionId(new.session),
                parallelism: new.parallelism,
                kind: new.kind,
                paths: new.paths,
                asked: 0,
                stage: Some(Stage::Gate),
                until: self.now + new.patience,
            });
            let pending = self.count(|told| told.session.0 == new.session && told.stage == Some(Stage::Gate)) - 1;
            let mut commands = Vec::new();
            let session = SessionId(new.session);
            self.flow
                .submit(call, session, new.parallelism, new.patience, self.now, &mut commands);
            let refused = commands
                .iter()
                .any(|command| matches!(command, Command::Refuse(_, Busy::Gate(_))));
            assert!(!refused || pending == self.pending, "there was room before the gate");
            self.follow(commands);
        }

        fn ready(&mut self, place: usize) {
            let told = &mut self.calls[place];
            if told.stage == Some(Stage::Preparing) {
                // The commands say whether it is further.
                told.stage = Some(Stage::Paths);
                told.until = self.now + told.until.min(self.limits.wait);
                self.asked += 1;
                told.asked = self.asked;
            }
            let paths: Vec<PathBuf> = (0..8)
                .filter(|n| told.paths & (1 << n) != 0)
                .map(|n| format!("/p/{n}").into())
                .collect();
            let mut commands = Vec::new();
            self.flow.ready(told.call, told.kind, paths, self.now, &mut commands);
            self.follow(commands);
        }

        fn leave(&mut self, place: usize) {
            let was = self.calls[place].stage.take();
            let mut commands = Vec::new();
            let left = self.flow.leave(CallId(place as u64), self.now, &mut commands);
            // The model does not tell who waits for a path from who waits for a place.
            let alike = |stage| {
                if stage == Some(Stage::Place) {
                    Some(Stage::Paths)
                } else {
                    stage
                }
            };
            assert_eq!(alike(left), was);
            self.follow(commands);
        }

        fn tick(&mut self, later: Duration) {
            self.now += later;
            let mut commands = Vec::new();
            self.flow.tick(self.now, &mut commands);
            for told in &self.calls {
                let waits = matches!(told.stage, Some(Stage::Gate | Stage::Paths));
                let refused = |command: &Command| matches!(command, Command::Refuse(call, Busy::TooLate(_)) if *call == told.call);
                assert_eq!(
                    commands.iter().any(refused),
                    waits && told.until <= self.now,
                    "{told:?}"
                );
            }
            self.follow(commands);
        }

        fn follow(&mut self, commands: Vec<Command>) {
            for command in commands {
                let (call, from, to) = match command {
                    Command::Enter(call) => (call, Stage::Gate, Some(Stage::Preparing)),
                    Command::Launch(call) => (call, Stage::Paths, Some(Stage::Running)),
                    Command::Refuse(call, Busy::TooLate(Stage::Paths | Stage::Place)) => (call, Stage::Paths, None),
                    Command::Refuse(call, _) => (call, Stage::Gate, None),
                };
                let told = &mut self.calls[usize::try_from(call.0).unwrap()];
                assert_eq!(told.stage, Some(from), "{to:?} of {told:?}");
                told.stage = to;
                if to == Some(Stage::Preparing) {
                    told.until = told.until.saturating_sub(self.now);
                }
            }
            self.check();
        }

        fn count(&self, test: impl Fn(&Told) -> bool) -> usize {
            self.calls.iter().filter(|told| test(told)).count()
        }

        fn check(&self) {
            let there: Vec<_> = self.calls.iter().filter(|told| told.stage.is_some()).collect();
            assert_eq!(self.flow.len(), there.len());
            let past = |told: &Told| told.stage > Some(Stage::Gate);
            let inside = |told: &Told| matches!(told.stage, Some(Stage::Preparing | Stage::Paths));
            for told in &there {
                let own = || there.iter().filter(|other| other.session == told.session);
                let others_inside = || own().filter(|other| past(other) && other.call != told.call);
                let exclusive = told.parallelism == Parallelism::Exclusive;
                // Whoever is past the gate and wants to be alone is alone.
                assert!(!past(told) || !exclusive || others_inside().count() == 0, "{told:?}");
                // Whoever waits at the gate, waits for an earlier one that leaves him no room.
                if told.stage == Some(Stage::Gate) {
                    let mut before = own().filter(|other| other.call < told.call);
                    let in_the_way = |other: &&&Told| {
                        exclusive || other.parallelism == Parallelism::Exclusive || other.stage == Some(Stage::Gate)
                    };
                    assert!(before.any(|other| in_the_way(&other)), "{told:?} {there:?}");
                }
                // Whoever has asked for paths runs when no earlier one wants one of them, and there is a place.
                if matches!(told.stage, Some(Stage::Paths | Stage::Running)) {
                    let asked = |other: &&&Told| matches!(other.stage, Some(Stage::Paths | Stage::Running));
                    let earlier = |other: &&&Told| other.asked < told.asked && other.paths & told.paths != 0;
                    let blocked = there.iter().filter(asked).any(|other| earlier(&other));
                    if told.stage == Some(Stage::Running) {
                        assert!(!blocked, "{told:?} {there:?}");
                    } else {
                        assert!(blocked || !self.has_place(told), "{told:?} {there:?}");
                    }
                }
                assert!(own().filter(|other| inside(other)).count() <= self.limits.waiting_per_session);
                assert_eq!(
                    self.flow.waits_until(told.call).is_some(),
                    matches!(told.stage, Some(Stage::Gate | Stage::Paths))
                );
            }
            assert!(self.count(inside) <= self.limits.waiting);
            assert_eq!(self.flow.inside, self.count(inside));
            assert!(self.flow.running() <= self.limits.in_flight.total);
            // There is no deadlock: whoever waits, waits for one that runs or is prepared.
            let moves = |told: &Told| matches!(told.stage, Some(Stage::Preparing | Stage::Running));
            assert!(there.is_empty() || self.count(moves) > 0, "{there:?}");
            if there.is_empty() {
                assert!(self.flow.is_empty() && self.flow.sessions.is_empty() && self.flow.paths.is_empty());
                assert_eq!((self.flow.places.waiting(), self.flow.running()), (0, 0));
            }
        }

        fn has_place(&self, told: &Told) -> bool {
            let runs =
                |test: &dyn Fn(&Told) -> bool| self.count(|other| other.stage == Some(Stage::Running) && test(other));
            let fits = |room: &Room, own: bool| {
                let counts = |other: &Told| !own || other.session == told.session;
                let most = match told.kind {
                    Kind::ReadOnly => room.read_only,
                    Kind::Write => room.write,
                    Kind::Execute => room.execute,
                };
                runs(&counts) < room.total && runs(&|other| counts(other) && other.kind == told.kind) < most
            };
            fits(&self.limits.in_flight, false) && fits(&self.limits.per_session, true)
        }

        /// Whatever state this is, calls that run and end lead out of it.
        fn drain(mut self) {
            while let Some(place) = (0..self.calls.len())
                .find(|&place| matches!(self.calls[place].stage, Some(Stage::Preparing | Stage::Running)))
            {
                if self.calls[place].stage == Some(Stage::Preparing) {
                    self.ready(place);
                } else {
                    self.leave(place);
                }
            }
            assert!(self.flow.is_empty());
        }
    }

    fn narrow() -> Limits {
        Limits {
            in_flight: Room {
                total: 2,
                read_only: 2,
                write: 1,
                execute: 1,
            },
            per_session: Room {
                total: 2,
                read_only: 2,
                write: 1,
                execute: 1,
            },
            waiting: 3,
            waiting_per_session: 2,
            wait: Duration::from_secs(2),
        }
    }

    fn explore(both: &Both, news: &[New], most: usize, nodes: &mut usize) {
        *nodes += 1;
        let comes = both.calls.len();
        if comes < most {
            for new in news {
                let mut both = both.clone();
                both.submit(*new);
                explore(&both, news, most, nodes);
            }
        } else {
            both.clone().drain();
        }
        for place in 0..comes {
            let Some(stage) = both.calls[place].stage else {
                continue;
            };
            if stage == Stage::Preparing {
                let mut both = both.clone();
                both.ready(place);
                explore(&both, news, most, nodes);
            }
            // Once all are there: before that it is one more order of the same.
            if comes == most || stage == Stage::Running {
                let mut both = both.clone();
                both.leave(place);
                explore(&both, news, most, nodes);
            }
        }
        if comes == most && both.now < Duration::from_secs(2) {
            let mut both = both.clone();
            both.tick(Duration::from_secs(2));
            explore(&both, news, most, nodes);
        }
    }

    fn new(session: u64, parallelism: Parallelism, kind: Kind, paths: u8) -> New {
        New {
            session,
            parallelism,
            kind,
            paths,
            patience: Duration::from_secs(2),
        }
    }

    #[test]
    fn flow_every_interleaving_of_three_calls_of_two_sessions_on_two_paths() {
        use Parallelism::{Exclusive, Shared};
        let mut news = vec![
            (0, Shared, 0b01),
            (0, Exclusive, 0b01),
            (1, Shared, 0b01),
            (1, Shared, 0b11),
        ];
        if std::env::var_os("DEVLOOP_LONG").is_some() {
            news.extend([
                (0, Shared, 0b00),
                (0, Exclusive, 0b11),
                (0, Shared, 0b11),
                (1, Shared, 0b00),
            ]);
        }
        let news = news
            .into_iter()
            .map(|(session, parallelism, paths)| new(session, parallelism, Kind::Write, paths));
        let news: Vec<_> = news.collect();
        let mut nodes = 0;
        explore(&Both::new(narrow(), 1), &news, 3, &mut nodes);
        assert!(nodes > 10_000, "{nodes}");
    }

    #[test]
    fn flow_every_interleaving_of_four_calls() {
        let news = [
            new(0, Parallelism::Shared, Kind::ReadOnly, 0b01),
            new(0, Parallelism::Exclusive, Kind::Write, 0),
        ];
        let mut nodes = 0;
        explore(&Both::new(narrow(), 2), &news, 4, &mut nodes);
        assert!(nodes > 10_000, "{nodes}");
    }

    #[test]
    fn flow_random_operations_keep_all_rules() {
        let kind = prop::sample::select(vec![Kind::ReadOnly, Kind::Write, Kind::Execute]);
        let new =
            (0_u64..3, 0..4_u8, kind, any::<u8>(), 0_u64..5).prop_map(|(session, alone, kind, paths, seconds)| New {
                session,
                parallelism: if alone == 0 {
                    Parallelism::Exclusive
                } else {
                    Parallelism::Shared
                },
                kind,
                // Few paths for each call.
                paths: paths & paths.rotate_left(3) & 0b111,
                patience: Duration::from_secs(seconds),
            });
        let operation = (0..20, new, any::<prop::sample::Index>());
        let wide = Limits {
            in_flight: Room {
                total: 5,
                read_only: 4,
                write: 2,
                execute: 1,
            },
            per_session: Room {
                total: 3,
                read_only: 2,
                write: 2,
                execute: 1,
            },
            waiting: 8,
            waiting_per_session: 6,
            wait: Duration::from_secs(3),
        };
        proptest!(config(120), |(tight: bool, operations in prop::collection::vec(operation, 1..120))| {
            let mut both = if tight { Both::new(narrow(), 2) } else { Both::new(wide, 6) };
            for (what, new, which) in operations {
                // Those that came lately are the more likely ones to be there.
                let place = |both: &Both| both.calls.len() - 1 - which.index(both.calls.len().min(12));
                match what {
                    _ if both.calls.is_empty() => both.submit(new),
                    0..=7 => both.submit(new),
                    8..=12 => { let place = place(&both); both.ready(place) }
                    13..=18 => { let place = place(&both); both.leave(place) }
                    _ => both.tick(Duration::from_millis(500)),
                }
            }
            both.drain();
        });
    }

    #[test]
    fn flow_the_time_of_preparing_does_not_count_and_all_waiting_does() {
        let mut flow = Flow::new(Limits::default()).unwrap();
        let mut commands = Vec::new();
        let seconds = Duration::from_secs;
        let submit = |flow: &mut Flow, call, now, commands: &mut Vec<_>| {
            flow.submit(
                CallId(call),
                SessionId(0),
                Parallelism::Exclusive,
                seconds(10),
                seconds(now),
                commands,
            );
        };
        submit(&mut flow, 1, 0, &mut commands);
        submit(&mut flow, 2, 0, &mut commands);
        flow.leave(CallId(1), seconds(4), &mut commands);
        // Somebody thinks for an hour whether it may run.
        flow.tick(seconds(3_604), &mut commands);
        assert_eq!(commands, [Command::Enter(CallId(1)), Command::Enter(CallId(2))]);
        flow.submit(
            CallId(3),
            SessionId(1),
            Parallelism::Shared,
            seconds(99),
            seconds(3_604),
            &mut commands,
        );
        flow.ready(CallId(3), Kind::Write, ["/p".into()], seconds(3_604), &mut commands);
        commands.clear();
        flow.ready(CallId(2), Kind::Write, ["/p".into()], seconds(3_604), &mut commands);
        flow.tick(seconds(3_609), &mut commands);
        assert_eq!(commands, []);
        flow.tick(seconds(3_610), &mut commands);
        assert_eq!(commands, [Command::Refuse(CallId(2), Busy::TooLate(Stage::Paths))]);
        let Command::Refuse(_, busy) = commands[0] else {
            panic!()
        };
        assert_eq!(busy.to_string(), "calls on the same files did not end in time");
    }

    #[test]
    fn flow_refuses_a_call_beyond_the_gate_where_64_of_its_session_wait() {
        let mut flow = Flow::new(Limits::default()).unwrap();
        let mut commands = Vec::new();
        let now = Duration::ZERO;
        for call in 0..67 {
            flow.submit(
                CallId(call),
                SessionId(0),
                Parallelism::Shared,
                Duration::from_secs(1),
                now,
                &mut commands,
            );
            flow.ready(CallId(call), Kind::Execute, [], now, &mut commands);
        }
        let full = Busy::Scheduler(scheduler::Refused::SessionFull { limit: 64 });
        assert_eq!(commands.last(), Some(&Command::Refuse(CallId(66), full)));
        assert_eq!(flow.stage(CallId(66)), None);
        assert_eq!((flow.len(), flow.running()), (66, 2));
    }
}

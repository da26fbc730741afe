//! How many calls run at once, and whose turn is next.
//!
//! Answers for the limits, over all and for each session, and for fairness: free room goes to the sessions in turn, and
//! within a session to the call that has waited longest. Leaves out the order that a session's calls must keep (the
//! gate's), and what a call touches (the path locks').
//!
//! For each kind the sessions that wait stand in a ring: the first that has room of its own is next and then goes to the
//! end; one that is passed over keeps its place. Between kinds that both have room, the session goes first that was not
//! served for longest, and of one session the older call. So a session that is served well in one kind loses no place in
//! another, and nobody starves while calls end.
//!
//! Cost: to come and to leave are searches in a map and, for a call that waits, in its queue; a call that may run is
//! looked for among the sessions that wait, and only while there is room for a kind that waits.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use devloop_contract::tool::Kind;

use super::{CallId, SessionId};

/// How many calls may run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Of all kinds together.
    pub total: usize,
    /// That only read.
    pub read_only: usize,
    /// That change the project.
    pub write: usize,
    /// That start programs.
    pub execute: usize,
}

impl Room {
    fn of(&self, kind: Kind) -> usize {
        match kind {
            Kind::ReadOnly => self.read_only,
            Kind::Write => self.write,
            Kind::Execute => self.execute,
        }
    }
}

/// The limits of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls in flight over all sessions. Default: 32, of which 24 read, 8 write and 3 execute.
    pub in_flight: Room,
    /// Calls in flight for each session. Default: 10, of which 8 read, 4 write and 2 execute.
    pub per_session: Room,
    /// Calls that wait over all sessions. Default: 256.
    pub waiting: usize,
    /// Calls that wait for each session. Default: 64.
    pub waiting_per_session: usize,
    /// The longest that a call waits. Default: 180 s.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: Room {
                total: 32,
                read_only: 24,
                write: 8,
                execute: 3,
            },
            per_session: Room {
                total: 10,
                read_only: 8,
                write: 4,
                execute: 2,
            },
            waiting: 256,
            waiting_per_session: 64,
            wait: Duration::from_mins(3),
        }
    }
}

/// The most that a limit on a number of calls may be.
const MOST_CALLS: usize = 100_000;

/// The longest wait that may be set: a week is as good as for ever, and that is what must not be.
const LONGEST_WAIT: Duration = Duration::from_hours(168);

impl Limits {
    /// Judges the limits.
    ///
    /// # Errors
    /// The first setting that makes no sense: a room of none, in which a call would wait for ever; a part above the
    /// whole, or a session's above all sessions', which would say something that never holds; more than 100,000 calls;
    /// a wait of nothing, or of more than a week.
    pub fn check(&self) -> Result<(), LimitsError> {
        let rooms = [("in_flight", &self.in_flight), ("per_session", &self.per_session)];
        for (room_name, room) in rooms {
            let setting = |part: &str| format!("{room_name}.{part}");
            between(setting("total"), room.total, 1, MOST_CALLS, "the most there may be")?;
            let whole = format!("`{room_name}.total`");
            for (part, value) in parts(room) {
                between(setting(part), value, 1, room.total, &whole)?;
            }
        }
        let all = [("total", self.in_flight.total)]
            .into_iter()
            .chain(parts(&self.in_flight));
        let own = [("total", self.per_session.total)]
            .into_iter()
            .chain(parts(&self.per_session));
        for ((part, all), (_, own)) in all.zip(own) {
            let whole = format!("`in_flight.{part}`");
            between(format!("per_session.{part}"), own, 1, all, &whole)?;
        }
        between("waiting".into(), self.waiting, 1, MOST_CALLS, "the most there may be")?;
        between(
            "waiting_per_session".into(),
            self.waiting_per_session,
            1,
            self.waiting,
            "`waiting`",
        )?;
        if self.wait.is_zero() || self.wait > LONGEST_WAIT {
            return Err(LimitsError {
                setting: "wait".into(),
                found: format!("{:?}", self.wait),
                expected: format!("more than nothing and at most {LONGEST_WAIT:?}"),
            });
        }
        Ok(())
    }
}

fn parts(room: &Room) -> [(&'static str, usize); 3] {
    [
        ("read_only", room.read_only),
        ("write", room.write),
        ("execute", room.execute),
    ]
}

fn between(setting: String, found: usize, least: usize, most: usize, why: &str) -> Result<(), LimitsError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(LimitsError {
        setting,
        found: found.to_string(),
        expected: format!("{least} to {most} ({why})"),
    })
}

/// A limit that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsError {
    /// Which one.
    pub setting: String,
    /// What it is.
    pub found: String,
    /// What it may be.
    pub expected: String,
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}; expected {}", self.setting, self.found, self.expected)
    }
}

impl std::error::Error for LimitsError {}

/// Why a call is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many calls of all sessions wait as may.
    Full {
        /// How many.
        limit: usize,
    },
    /// As many calls of this session wait as may.
    SessionFull {
        /// How many.
        limit: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit: 1 } => f.write_str("1 call waits already, over all sessions"),
            Self::SessionFull { limit: 1 } => f.write_str("1 call of this session waits already to run"),
            Self::Full { limit } => write!(f, "{limit} calls wait already, over all sessions"),
            Self::SessionFull { limit } => write!(f, "{limit} calls of this session wait already to run"),
        }
    }
}

impl std::error::Error for Refused {}

/// Where a call was that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It waited, and never runs.
    Waiting,
    /// It ran.
    Running,
    /// Nowhere: it had left already, or never came.
    Nowhere,
}

/// Which calls run and which wait.
///
/// ```
/// use std::time::Duration;
///
/// use devloop_contract::tool::Kind;
/// use devloop_core::execution::scheduler::{Limits, Scheduler};
/// use devloop_core::execution::{CallId, SessionId};
///
/// let mut scheduler = Scheduler::new(Limits::default())?;
/// let (now, mut launched) = (Duration::ZERO, Vec::new());
/// for call in 1..=3 {
///     scheduler.submit(CallId(call), SessionId(1), Kind::Execute, now, Duration::MAX, &mut launched)?;
/// }
/// // At most two of a session start programs at once.
/// assert_eq!(launched, [CallId(1), CallId(2)]);
/// scheduler.leave(CallId(1), &mut launched);
/// assert_eq!(launched, [CallId(1), CallId(2), CallId(3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scheduler {
    limits: Limits,
    calls: BTreeMap<CallId, Call>,
    sessions: BTreeMap<SessionId, Session>,
    /// For each kind the sessions in which a call of it waits; the next in turn first.
    rings: [VecDeque<SessionId>; 3],
    waiting: Count,
    running: Count,
    /// Numbers what happens, so that it can be told which was earlier.
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    session: SessionId,
    kind: Kind,
    /// When it no longer waits; nothing when it runs.
    until: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
struct Session {
    /// By kind, so that a kind without room holds up no other. Each call with its number.
    queues: [VecDeque<(u64, CallId)>; 3],
    /// When a call of it was launched last, else when it came.
    served: u64,
    waiting: Count,
    running: Count,
}

/// How many calls of each kind.
#[derive(Clone, Copy, Debug, Default)]
struct Count([usize; 3]);

const KINDS: [Kind; 3] = [Kind::ReadOnly, Kind::Write, Kind::Execute];

fn index(kind: Kind) -> usize {
    match kind {
        Kind::ReadOnly => 0,
        Kind::Write => 1,
        Kind::Execute => 2,
    }
}

impl Count {
    fn total(self) -> usize {
        self.0.iter().sum()
    }

    fn add(&mut self, kind: Kind) {
        self.0[index(kind)] += 1;
    }

    fn remove(&mut self, kind: Kind) {
        self.0[index(kind)] -= 1;
    }

    fn leaves_room(self, kind: Kind, room: &Room) -> bool {
        self.total() < room.total && self.0[index(kind)] < room.of(kind)
    }
}

impl Scheduler {
    /// A scheduler without calls.
    ///
    /// # Errors
    /// A limit that makes no sense; see [`Limits::check`].
    pub fn new(limits: Limits) -> Result<Self, LimitsError> {
        limits.check()?;
        Ok(Self {
            limits,
            calls: BTreeMap::new(),
            sessions: BTreeMap::new(),
            rings: Default::default(),
            waiting: Count::default(),
            running: Count::default(),
            next: 0,
        })
    }

    /// A call comes; it waits until `until` or as long as the limits say, whatever is sooner. When it may run at once
    /// it is added to `launched`.
    ///
    /// # Errors
    /// It would have to wait, and as many wait as may: the scheduler is as it was.
    pub fn submit(
        &mut self,
        call: CallId,
        session: SessionId,
        kind: Kind,
        now: Duration,
        until: Duration,
        launched: &mut Vec<CallId>,
    ) -> Result<(), Refused> {
        debug_assert!(!self.calls.contains_key(&call), "{call:?} is known already");
        // Whoever waits and could run, runs already; so the newcomer overtakes nobody for whom there is room.
        let own = self.sessions.get(&session);
        let (own_waiting, own_running) = own.map_or_else(Default::default, |own| (own.waiting, own.running));
        if self.running.leaves_room(kind, &self.limits.in_flight)
            && own_running.leaves_room(kind, &self.limits.per_session)
        {
            self.calls.insert(
                call,
                Call {
                    session,
                    kind,
                    until: None,
                },
            );
            let served = self.number();
            let own = self.sessions.entry(session).or_default();
            own.running.add(kind);
            own.served = served;
            self.running.add(kind);
            launched.push(call);
            return Ok(());
        }
        if own_waiting.total() >= self.limits.waiting_per_session {
            return Err(Refused::SessionFull {
                limit: self.limits.waiting_per_session,
            });
        }
        if self.waiting.total() >= self.limits.waiting {
            return Err(Refused::Full {
                limit: self.limits.waiting,
            });
        }
        let until = Some(until.min(now.saturating_add(self.limits.wait)));
        self.calls.insert(call, Call { session, kind, until });
        let number = self.number();
        let own = self.sessions.entry(session).or_insert_with(|| Session {
            served: number,
            ..Session::default()
        });
        own.queues[index(kind)].push_back((number, call));
        own.waiting.add(kind);
        self.waiting.add(kind);
        if own_waiting.0[index(kind)] == 0 {
            self.rings[index(kind)].push_back(session);
        }
        Ok(())
    }

    /// A call is done, was cancelled or gives up, wherever it is. Those that may run now are added to `launched`.
    pub fn leave(&mut self, call: CallId, launched: &mut Vec<CallId>) -> Left {
        let Some(Call { session, kind, until }) = self.calls.remove(&call) else {
            return Left::Nowhere;
        };
        if until.is_some() {
            self.forget_waiting(call, session, kind);
            return Left::Waiting;
        }
        self.running.remove(kind);
        if let Some(own) = self.sessions.get_mut(&session) {
            own.running.remove(kind);
            self.drop_if_idle(session);
        }
        self.launch(launched);
        Left::Running
    }

    /// The time goes on. Calls that have waited too long are added to `refused`; they never run.
    pub fn tick(&mut self, now: Duration, refused: &mut Vec<CallId>) {
        let late = |call: &Call| call.until.is_some_and(|until| until <= now);
        let late: Vec<(CallId, Call)> = self
            .calls
            .iter()
            .filter(|(_, call)| late(call))
            .map(|(id, call)| (*id, *call))
            .collect();
        for (id, call) in late {
            self.calls.remove(&id);
            self.forget_waiting(id, call.session, call.kind);
            refused.push(id);
        }
    }

    /// Until when a call waits; nothing when it runs or is not known.
    pub fn waits_until(&self, call: CallId) -> Option<Duration> {
        self.calls.get(&call)?.until
    }

    /// How many calls wait.
    pub fn waiting(&self) -> usize {
        self.waiting.total()
    }

    /// How many calls run.
    pub fn running(&self) -> usize {
        self.running.total()
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn forget_waiting(&mut self, call: CallId, session: SessionId, kind: Kind) {
        self.waiting.remove(kind);
        let Some(own) = self.sessions.get_mut(&session) else {
            return;
        };
        own.queues[index(kind)].retain(|&(_, other)| other != call);
        own.waiting.remove(kind);
        if own.waiting.0[index(kind)] == 0 {
            self.rings[index(kind)].retain(|&other| other != session);
            self.drop_if_idle(session);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn drop_if_idle(&mut self, session: SessionId) {
        let idle = |own: &Session| own.waiting.total() == 0 && own.running.total() == 0;
        if self.sessions.get(&session).is_some_and(idle) {
            self.sessions.remove(&session);
        }
    }

    fn launch(&mut self, launched: &mut Vec<CallId>) {
        while let Some((place, kind)) = self.next_in_turn() {
            let served = self.number();
            let Some(session) = self.rings[index(kind)].remove(place) else {
                return;
            };
            let Some(own) = self.sessions.get_mut(&session) else {
                return;
            };
            let Some((_, call)) = own.queues[index(kind)].pop_front() else {
                return;
            };
            own.served = served;
            own.waiting.remove(kind);
            own.running.add(kind);
            self.waiting.remove(kind);
            self.running.add(kind);
            if own.waiting.0[index(kind)] > 0 {
                self.rings[index(kind)].push_back(session);
            }
            if let Some(call) = self.calls.get_mut(&call) {
                call.until = None;
            }
            launched.push(call);
        }
    }

    /// Where in the ring of which kind the session stands of which a call may run now.
    fn next_in_turn(&self) -> Option<(usize, Kind)> {
        let first = |kind: Kind| {
            let mut ring = self.rings[index(kind)].iter().enumerate();
            ring.find_map(|(place, session)| {
                let own = self.sessions.get(session)?;
                let (number, _) = own.queues[index(kind)].front()?;
                let fits = own.running.leaves_room(kind, &self.limits.per_session);
                fits.then_some((own.served, *number, place, kind))
            })
        };
        let roomy = |kind: &Kind| self.running.leaves_room(*kind, &self.limits.in_flight);
        let found = KINDS.into_iter().filter(roomy).filter_map(first);
        let next = found.min_by_key(|&(served, number, ..)| (served, number));
        next.map(|(_, _, place, kind)| (place, kind))
    }
}

#[cfg(test)]
mod tests;

//! The life of the connection to one upstream server.
//!
//! Answers for when a connection is made, made anew, asked for its tools, asked whether it still lives, and given up. It
//! is a state machine without clock, threads and input: it is told what happened and when, and says what to do. Leaves
//! out doing it.
//!
//! Every attempt has an [`Epoch`]; what is told of an earlier one than the running one changes nothing.
//!
//! ```
//! use std::time::Duration;
//!
//! use devloop_core::connection::{Command, Connection, Rules};
//!
//! let mut connection = Connection::new(Rules::default(), 7);
//! let mut commands = Vec::new();
//! connection.start(Duration::ZERO, &mut commands);
//! let Some(Command::Connect(epoch)) = commands.pop() else { panic!("it begins") };
//! connection.connected(epoch, Duration::from_millis(80), &mut commands);
//! assert_eq!(commands.last(), Some(&Command::List(epoch)));
//! ```

use std::time::Duration;

use crate::catalogue::ConnectionState;

/// Numbers the attempts to connect; of two, the higher one is the later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Until a server has answered the handshake, and until it has listed its tools.
    pub connect: Duration,
    /// Before the second attempt; doubled for each one after it.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// As many attempts in a row fail before the server is given up.
    pub attempts: u32,
    /// A connection that lasted so long was a good one: the count of attempts begins anew.
    pub lasting: Duration,
    /// After a change of the list, changes are gathered for so long before it is fetched.
    pub gather: Duration,
    /// Between two fetches of the list.
    pub gap: Duration,
    /// After so long without a word of the server it is asked whether it lives. `None` never asks.
    pub silence: Option<Duration>,
    /// The answer to that must come within.
    pub pong: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            attempts: 8,
            lasting: Duration::from_secs(10),
            gather: Duration::from_millis(50),
            gap: Duration::from_millis(250),
            silence: Some(Duration::from_mins(1)),
            pong: Duration::from_secs(20),
        }
    }
}

/// What must be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Connect, and tell [`Connection::connected`] or [`Connection::ended`].
    Connect(Epoch),
    /// Take down what this attempt has made, if anything.
    Drop(Epoch),
    /// Fetch the tools, and tell [`Connection::listed`].
    List(Epoch),
    /// Ask whether the server lives, and tell [`Connection::heard`] when it answers.
    Ping(Epoch),
    /// Tell others how the connection stands.
    Say(ConnectionState),
}

/// Whether another attempt can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hope {
    /// It may pass.
    Some,
    /// Not before something else has changed: there is no such program, the address is wrong.
    None,
}

/// How a fetch of the list went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The server answered, whatever was made of it.
    Answered,
    /// It did not; it is asked again.
    Failed,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Connection {
    rules: Rules,
    epoch: Epoch,
    /// Attempts in a row that came to nothing.
    failures: u32,
    /// Calls that wait for an answer.
    calls: usize,
    random: u64,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    New,
    Connecting { until: Duration },
    Up(Up),
    Waiting { earliest: Duration, until: Duration },
    Failed,
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Up {
    since: Duration,
    list: List,
    watch: Watch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    /// No change is known.
    Fresh {
        fetched: Duration,
    },
    Due {
        at: Duration,
    },
    Running {
        until: Duration,
        changed: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    Quiet { since: Duration },
    Asked { until: Duration },
}

impl Connection {
    /// A connection that was not begun. `seed` is what the pauses differ by between servers and processes.
    pub fn new(rules: Rules, seed: u64) -> Self {
        Self {
            rules,
            epoch: Epoch::default(),
            failures: 0,
            calls: 0,
            random: seed,
            state: State::New,
        }
    }

    /// Begins.
    pub fn start(&mut self, now: Duration, commands: &mut Vec<Command>) {
        if self.state == State::New {
            self.connect(now, commands);
        }
    }

    /// The handshake is done.
    pub fn connected(&mut self, epoch: Epoch, now: Duration, commands: &mut Vec<Command>) {
        if epoch != self.epoch || !matches!(self.state, State::Connecting { .. }) {
            return;
        }
        self.state = State::Up(Up {
            since: now,
            list: List::Running {
                until: now + self.rules.connect,
                changed: false,
            },
            watch: Watch::Quiet { since: now },
        });
        commands.push(Command::Say(ConnectionState::Connected));
        commands.push(Command::List(epoch));
    }

    /// The attempt or the connection has come to its end.
    pub fn ended(&mut self, epoch: Epoch, reason: &str, hope: Hope, now: Duration, commands: &mut Vec<Command>) {
        if epoch == self.epoch && matches!(self.state, State::Connecting { .. } | State::Up(_)) {
            self.lose(reason, hope, now, commands);
        }
    }

    /// The server says that its list has changed.
    pub fn list_changed(&mut self, epoch: Epoch, now: Duration) {
        let (gather, gap) = (self.rules.gather, self.rules.gap);
        let Some(up) = self.up(epoch) else { return };
        match &mut up.list {
            List::Fresh { fetched } => {
                let at = (now + gather).max(*fetched + gap);
                up.list = List::Due { at };
            }
            List::Due { .. } => {}
            List::Running { changed, .. } => *changed = true,
        }
    }

    /// A fetch of the list is done.
    pub fn listed(&mut self, epoch: Epoch, listing: Listing, now: Duration) {
        let (gap, pause) = (self.rules.gap, self.rules.longest_pause);
        let Some(up) = self.up(epoch) else { return };
        if let List::Running { changed, .. } = up.list {
            up.list = match listing {
                // What changed while it was read may be missing in what was read.
                _ if changed => List::Due { at: now + gap },
                Listing::Answered => List::Fresh { fetched: now },
                Listing::Failed => List::Due {
                    at: now + pause.max(gap),
                },
            };
        }
    }

    /// The server has said something.
    pub fn heard(&mut self, epoch: Epoch, now: Duration) {
        if let Some(up) = self.up(epoch) {
            up.watch = Watch::Quiet { since: now };
        }
    }

    /// A call goes to the server. Some servers do one thing at a time, so none is asked whether it lives while it works.
    pub fn call_begun(&mut self) {
        self.calls += 1;
    }

    /// A call is over.
    pub fn call_ended(&mut self, now: Duration) {
        self.calls = self.calls.saturating_sub(1);
        if let State::Up(up) = &mut self.state {
            up.watch = Watch::Quiet { since: now };
        }
    }

    /// Somebody wants the server: what waits for the next attempt does so no longer than it must, and a server that was
    /// given up gets another chance.
    pub fn wanted(&mut self, now: Duration, commands: &mut Vec<Command>) {
        match &mut self.state {
            State::Waiting { earliest, until } => {
                *until = (*until).min((*earliest).max(now));
                self.tick(now, commands);
            }
            State::Failed => {
                self.failures = 0;
                self.connect(now, commands);
            }
            _ => {}
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration, commands: &mut Vec<Command>) {
        let epoch = self.epoch;
        let busy = self.calls > 0;
        match &mut self.state {
            State::Connecting { until } if now >= *until => {
                let reason = format!("it did not answer within {}", shown(self.rules.connect));
                self.lose(&reason, Hope::Some, now, commands);
            }
            State::Waiting { until, .. } if now >= *until => self.connect(now, commands),
            State::Up(up) => {
                match up.list {
                    List::Running { until, .. } if now >= until => {
                        let reason = format!("it did not list its tools within {}", shown(self.rules.connect));
                        return self.lose(&reason, Hope::Some, now, commands);
                    }
                    List::Due { at } if now >= at => {
                        up.list = List::Running {
                            until: now + self.rules.connect,
                            changed: false,
                        };
                        commands.push(Command::List(epoch));
                    }
                    _ => {}
                }
                match (up.watch, self.rules.silence) {
                    (Watch::Asked { until }, _) if now >= until && !busy => {
                        let reason = format!("it did not answer a ping within {}", shown(self.rules.pong));
                        self.lose(&reason, Hope::Some, now, commands);
                    }
                    (Watch::Quiet { since }, Some(silence)) if now >= since + silence && !busy => {
                        up.watch = Watch::Asked {
                            until: now + self.rules.pong,
                        };
                        commands.push(Command::Ping(epoch));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Ends it for good.
    pub fn close(&mut self, commands: &mut Vec<Command>) {
        match self.state {
            State::Closed => return,
            State::Connecting { .. } | State::Up(_) => commands.push(Command::Drop(self.epoch)),
            _ => {}
        }
        self.state = State::Closed;
        commands.push(Command::Say(ConnectionState::Closed));
    }

    /// When [`tick`](Self::tick) must be called at the latest.
    pub fn deadline(&self) -> Option<Duration> {
        match &self.state {
            State::Connecting { until } | State::Waiting { until, .. } => Some(*until),
            State::Up(up) => {
                let list = match up.list {
                    List::Due { at } => Some(at),
                    List::Running { until, .. } => Some(until),
                    List::Fresh { .. } => None,
                };
                let watch = match (up.watch, self.rules.silence) {
                    // The end of a call sets it anew.
                    _ if self.calls > 0 => None,
                    (Watch::Asked { until }, _) => Some(until),
                    (Watch::Quiet { since }, Some(silence)) => Some(since + silence),
                    (Watch::Quiet { .. }, None) => None,
                };
                list.into_iter().chain(watch).min()
            }
            State::New | State::Failed | State::Closed => None,
        }
    }

    /// The running attempt, or the last one.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn up(&mut self, epoch: Epoch) -> Option<&mut Up> {
        match &mut self.state {
            State::Up(up) if epoch == self.epoch => Some(up),
            _ => None,
        }
    }

    fn connect(&mut self, now: Duration, commands: &mut Vec<Command>) {
        self.epoch.0 += 1;
        self.state = State::Connecting {
            until: now + self.rules.connect,
        };
        commands.push(Command::Say(ConnectionState::Connecting));
        commands.push(Command::Connect(self.epoch));
    }

    fn lose(&mut self, reason: &str, hope: Hope, now: Duration, commands: &mut Vec<Command>) {
        commands.push(Command::Drop(self.epoch));
        if let State::Up(up) = &self.state
            && now >= up.since + self.rules.lasting
        {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let reason = reason.to_owned();
        if hope == Hope::None || self.failures >= self.rules.attempts {
            self.state = State::Failed;
            commands.push(Command::Say(ConnectionState::Failed { reason }));
        } else {
            let pause = self.pause();
            self.state = State::Waiting {
                earliest: now + self.rules.first_pause / 2,
                until: now + pause,
            };
            commands.push(Command::Say(ConnectionState::Lost { reason }));
        }
    }

    /// Twice as long each time, and anything between half of that and the whole, so that servers that fell together do
    /// not come back together.
    fn pause(&mut self) -> Duration {
        let doublings = (self.failures - 1).min(16);
        let whole = self.rules.first_pause * 2_u32.pow(doublings);
        let half = whole.min(self.rules.longest_pause) / 2;
        // SplitMix64, https://prng.di.unimi.it/splitmix64.c
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let part = u32::try_from(mixed >> 48).unwrap_or_default();
        half + half * part / 0xffff
    }
}

fn shown(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests;

//! The life of a connection, by hand and against every order of events.

use proptest::prelude::*;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn begun(rules: Rules) -> (Connection, Vec<Command>) {
    let mut connection = Connection::new(rules, 1);
    let mut commands = Vec::new();
    connection.start(ms(0), &mut commands);
    (connection, commands)
}

fn up(rules: Rules) -> (Connection, Epoch) {
    let (mut connection, mut commands) = begun(rules);
    let epoch = connection.epoch();
    connection.connected(epoch, ms(0), &mut commands);
    connection.listed(epoch, Listing::Answered, ms(0));
    (connection, epoch)
}

fn connects(commands: &[Command]) -> usize {
    commands.iter().filter(|one| matches!(one, Command::Connect(_))).count()
}

#[test]
fn a_hang_at_the_start_is_given_up_in_time_and_tried_again_with_longer_pauses() {
    let rules = Rules {
        attempts: 4,
        ..Rules::default()
    };
    let (mut connection, mut commands) = begun(rules.clone());
    let mut pauses = Vec::new();
    loop {
        let until = connection.deadline().expect("it waits for the handshake");
        commands.clear();
        connection.tick(until, &mut commands);
        assert_eq!(commands[0], Command::Drop(connection.epoch()));
        match &commands[1] {
            Command::Say(ConnectionState::Lost { reason }) => assert_eq!(reason, "it did not answer within 30 s"),
            other => {
                assert!(
                    matches!(other, Command::Say(ConnectionState::Failed { .. })),
                    "{other:?}"
                );
                break;
            }
        }
        let next = connection.deadline().expect("it waits");
        pauses.push(next.saturating_sub(until));
        connection.tick(next.saturating_sub(ms(1)), &mut commands);
        assert_eq!(connects(&commands), 0);
        connection.tick(next, &mut commands);
        assert_eq!(connects(&commands), 1);
    }
    assert_eq!(connection.deadline(), None);
    assert_eq!(pauses.len(), 3);
    for (pause, whole) in pauses.into_iter().zip([500, 1_000, 2_000]) {
        assert!(pause >= ms(whole / 2) && pause <= ms(whole), "{pause:?} of {whole}");
    }
}

#[test]
fn pauses_differ_between_servers_and_have_an_end() {
    let pause = |seed| {
        let mut connection = Connection::new(Rules::default(), seed);
        connection.failures = 30;
        connection.pause()
    };
    let all: std::collections::BTreeSet<Duration> = (0..50).map(pause).collect();
    assert!(all.len() > 40, "{}", all.len());
    assert!(all.iter().all(|pause| *pause >= ms(15_000) && *pause <= ms(30_000)));
}

#[test]
fn a_storm_of_changes_is_one_fetch_at_a_time_and_the_last_change_is_not_lost() {
    let (mut connection, epoch) = up(Rules::default());
    let (mut fetches, mut running) = (0, None);
    // 1,000 a second for two seconds, then silence; a fetch takes 100 ms.
    for now in 1..4_000 {
        let now = ms(now);
        if now <= ms(2_000) {
            connection.list_changed(epoch, now);
        }
        if running.is_some_and(|since| now >= since + ms(100)) {
            running = None;
            connection.listed(epoch, Listing::Answered, now);
        }
        let mut commands = Vec::new();
        connection.tick(now, &mut commands);
        if commands.contains(&Command::List(epoch)) {
            assert_eq!(running, None, "two fetches at once");
            running = Some(now);
            fetches += 1;
            if now > ms(2_000) {
                assert!(now < ms(2_500), "{now:?}");
            }
        }
    }
    assert!((5..=8).contains(&fetches), "{fetches}");
    assert!(matches!(
        &connection.state,
        State::Up(Up {
            list: List::Fresh { .. },
            ..
        })
    ));
}

#[test]
fn a_silent_server_is_asked_and_lost_when_it_does_not_answer_but_not_while_it_works() {
    let (mut connection, epoch) = up(Rules::default());
    let mut commands = Vec::new();
    connection.tick(ms(59_999), &mut commands);
    assert_eq!(commands, []);
    connection.call_begun();
    connection.tick(ms(90_000), &mut commands);
    assert_eq!((commands.len(), connection.deadline()), (0, None));
    connection.call_ended(ms(100_000));
    connection.tick(ms(160_000), &mut commands);
    assert_eq!(commands, [Command::Ping(epoch)]);
    connection.heard(epoch, ms(161_000));
    commands.clear();
    connection.tick(ms(221_000), &mut commands);
    assert_eq!(commands, [Command::Ping(epoch)]);
    connection.tick(ms(241_000), &mut commands);
    let reason = "it did not answer a ping within 20 s".to_owned();
    assert_eq!(
        commands[1..],
        [Command::Drop(epoch), Command::Say(ConnectionState::Lost { reason })]
    );
}

#[test]
fn a_crash_loop_is_given_up_and_a_wish_tries_again() {
    let (mut connection, mut commands) = begun(Rules {
        attempts: 3,
        ..Rules::default()
    });
    let mut now = ms(0);
    while let Some(deadline) = connection.deadline() {
        now = now.max(deadline);
        if matches!(connection.state, State::Waiting { .. }) {
            connection.tick(now, &mut commands);
        }
        let epoch = connection.epoch();
        connection.connected(epoch, now, &mut commands);
        connection.ended(epoch, "exit status: 1", Hope::Some, now, &mut commands);
    }
    assert_eq!(connects(&commands), 3);
    let reason = "exit status: 1".to_owned();
    assert_eq!(commands.last(), Some(&Command::Say(ConnectionState::Failed { reason })));
    commands.clear();
    connection.wanted(now, &mut commands);
    assert_eq!(connects(&commands), 1);
}

#[test]
fn a_wish_shortens_a_pause_but_not_to_nothing() {
    let (mut connection, mut commands) = begun(Rules::default());
    for _ in 0..5 {
        let epoch = connection.epoch();
        connection.ended(epoch, "gone", Hope::Some, ms(1_000), &mut commands);
        connection.tick(connection.deadline().expect("waits"), &mut commands);
    }
    connection.ended(connection.epoch(), "gone", Hope::Some, ms(60_000), &mut commands);
    assert!(connection.deadline().expect("waits") >= ms(67_000));
    commands.clear();
    connection.wanted(ms(60_001), &mut commands);
    assert_eq!((commands.len(), connection.deadline()), (0, Some(ms(60_250))));
    connection.wanted(ms(60_300), &mut commands);
    assert_eq!(connects(&commands), 1);
}

#[test]
fn what_can_not_pass_is_given_up_at_once() {
    let (mut connection, mut commands) = begun(Rules::default());
    connection.ended(connection.epoch(), "no such program", Hope::None, ms(1), &mut commands);
    assert!(matches!(
        commands.last(),
        Some(Command::Say(ConnectionState::Failed { .. }))
    ));
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Pass(u64),
    Connected(Which),
    Ended(Which, Hope),
    Changed(Which),
    Listed(Which, Listing),
    Heard(Which),
    Begin,
    End,
    Wanted,
    Close,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Running,
    Earlier,
}

fn operation() -> impl Strategy<Value = Operation> {
    let which = || prop_oneof![5 => Just(Which::Running), 1 => Just(Which::Earlier)];
    let hope = prop_oneof![5 => Just(Hope::Some), 1 => Just(Hope::None)];
    let listing = prop_oneof![Just(Listing::Answered), Just(Listing::Failed)];
    prop_oneof![
        10 => (0_u64..2_000).prop_map(Operation::Pass),
        2 => (0_u64..100_000).prop_map(Operation::Pass),
        6 => which().prop_map(Operation::Connected),
        2 => (which(), hope).prop_map(|(which, hope)| Operation::Ended(which, hope)),
        5 => which().prop_map(Operation::Changed),
        5 => (which(), listing).prop_map(|(which, listing)| Operation::Listed(which, listing)),
        2 => which().prop_map(Operation::Heard),
        2 => Just(Operation::Begin),
        2 => Just(Operation::End),
        2 => Just(Operation::Wanted),
        1 => Just(Operation::Close),
    ]
}

/// What an onlooker knows who sees events and commands alone.
#[derive(Debug, Default)]
struct Onlooker {
    /// The attempt that was begun and not dropped.
    alive: Option<Epoch>,
    up: Option<Epoch>,
    closed: bool,
    listing: bool,
    /// A change came that no fetch has begun after.
    stale: bool,
    calls: usize,
    last_loss: Option<Duration>,
}

impl Onlooker {
    fn is_up(&self) -> bool {
        self.up.is_some()
    }

    fn see(&mut self, commands: &[Command], now: Duration, rules: &Rules) {
        for command in commands {
            match command {
                Command::Connect(epoch) => {
                    assert!(
                        self.alive.is_none() && !self.closed,
                        "one attempt at a time, none after the end"
                    );
                    if let Some(loss) = self.last_loss {
                        assert!(now >= loss, "time goes on");
                    }
                    self.alive = Some(*epoch);
                    (self.up, self.listing, self.stale) = (None, false, false);
                }
                Command::Drop(epoch) => {
                    assert_eq!(self.alive.take(), Some(*epoch), "what is dropped lives");
                    self.up = None;
                    self.last_loss = Some(now);
                }
                Command::List(epoch) => {
                    assert!(
                        self.is_up() && self.alive == Some(*epoch) && !self.listing,
                        "one fetch at a time"
                    );
                    (self.listing, self.stale) = (true, false);
                }
                Command::Ping(epoch) => {
                    assert!(self.is_up() && self.alive == Some(*epoch) && self.calls == 0);
                    assert!(rules.silence.is_some());
                }
                Command::Say(ConnectionState::Closed) => self.closed = true,
                Command::Say(ConnectionState::Connected) => {
                    assert!(self.alive.is_some());
                    self.up = self.alive;
                }
                Command::Say(_) => assert!(!self.closed),
            }
        }
    }
}

fn run(operations: &[Operation], seed: u64) {
    let rules = Rules {
        attempts: 3,
        ..Rules::default()
    };
    let mut connection = Connection::new(rules.clone(), seed);
    let (mut onlooker, mut commands, mut now) = (Onlooker::default(), Vec::new(), ms(0));
    connection.start(now, &mut commands);
    onlooker.see(&commands, now, &rules);
    for operation in operations {
        commands.clear();
        let epoch = |which| match which {
            Which::Running => connection.epoch(),
            Which::Earlier => Epoch(connection.epoch().0.saturating_sub(1)),
        };
        match *operation {
            Operation::Pass(time) => {
                now += ms(time);
                connection.tick(now, &mut commands);
            }
            Operation::Connected(which) => connection.connected(epoch(which), now, &mut commands),
            Operation::Ended(which, hope) => connection.ended(epoch(which), "gone", hope, now, &mut commands),
            Operation::Changed(which) => {
                connection.list_changed(epoch(which), now);
                onlooker.stale |= matches!(which, Which::Running) && onlooker.is_up();
            }
            Operation::Listed(which, listing) => {
                connection.listed(epoch(which), listing, now);
                if matches!(which, Which::Running) && onlooker.is_up() && onlooker.listing {
                    onlooker.listing = false;
                    onlooker.stale |= listing == Listing::Failed;
                }
            }
            Operation::Heard(which) => connection.heard(epoch(which), now),
            Operation::Begin => {
                onlooker.calls += 1;
                connection.call_begun();
            }
            Operation::End => {
                onlooker.calls = onlooker.calls.saturating_sub(1);
                connection.call_ended(now);
            }
            Operation::Wanted => connection.wanted(now, &mut commands),
            Operation::Close => connection.close(&mut commands),
        }
        onlooker.see(&commands, now, &rules);
        let deadline = connection.deadline();
        match &connection.state {
            State::Connecting { .. } | State::Waiting { .. } => assert!(deadline.is_some(), "it never goes on"),
            State::Up(_) if onlooker.stale || onlooker.listing => {
                let longest = now + rules.connect.max(rules.longest_pause);
                assert!(
                    deadline.is_some_and(|deadline| deadline <= longest),
                    "a change is forgotten"
                );
            }
            State::Up(_) => assert!(deadline.is_some() || onlooker.calls > 0),
            State::New | State::Failed | State::Closed => assert_eq!(deadline, None),
        }
        // A second look at the same moment finds nothing to do.
        let (mut again, mut more) = (connection.clone(), Vec::new());
        again.tick(now, &mut more);
        if matches!(operation, Operation::Pass(_)) {
            assert_eq!(more, [], "tick is done in one go");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if std::env::var_os("DEVLOOP_LONG").is_some() { 20_000 } else { 256 }
    ))]

    #[test]
    fn whatever_happens_there_is_one_attempt_at_a_time_and_no_change_is_forgotten(
        operations in prop::collection::vec(operation(), 1..60),
        seed: u64,
    ) {
        run(&operations, seed);
    }
}

#[test]
fn every_order_of_five_events_keeps_the_promises() {
    let all = [
        Operation::Pass(600),
        Operation::Pass(40_000),
        Operation::Connected(Which::Running),
        Operation::Ended(Which::Running, Hope::Some),
        Operation::Ended(Which::Earlier, Hope::None),
        Operation::Changed(Which::Running),
        Operation::Listed(Which::Running, Listing::Answered),
        Operation::Listed(Which::Running, Listing::Failed),
        Operation::Begin,
        Operation::End,
        Operation::Wanted,
        Operation::Close,
    ];
    let count = all.len();
    for number in 0..count.pow(5) {
        let mut rest = number;
        let order: [Operation; 5] = std::array::from_fn(|_| {
            let one = all[rest % count];
            rest /= count;
            one
        });
        run(&order, 3);
    }
}

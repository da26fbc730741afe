//! The seven queues, one by one and against a naive model.

use std::collections::VecDeque;

use proptest::prelude::*;
use serde_json::json;

use crate::catalogue::testing::{catalogue, host, is_long, runner};
use crate::catalogue::{
    Catalogue, ConnectionChange, ConnectionState, ContentChange, ContentList, Instructions, LogLine, Notice,
    ResourceChange, TaskChange,
};

/// The queues that are filled by notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Content,
    Resource,
    Connection,
    Log,
    Instructions,
    Task,
}

const ALL: [(Queue, usize); 6] = [
    (Queue::Content, 32),
    (Queue::Resource, 32),
    (Queue::Connection, 32),
    (Queue::Log, 64),
    (Queue::Instructions, 32),
    (Queue::Task, 64),
];

/// A notice that carries two small numbers: which thing it is about, and which news.
fn notice(queue: Queue, about: u64, news: u64) -> Notice {
    let server = || "git".into();
    match queue {
        Queue::Content => Notice::Content(ContentChange {
            server: news.to_string().into(),
            list: ContentList::Resources,
        }),
        Queue::Resource => Notice::Resource(ResourceChange {
            server: format!("s{}", about % 2).into(),
            uri: (about / 2).to_string(),
            revision: news,
        }),
        Queue::Connection => Notice::Connection(ConnectionChange {
            server: server(),
            state: ConnectionState::Lost {
                reason: news.to_string(),
            },
        }),
        Queue::Log => Notice::Log(LogLine {
            server: server(),
            level: "info".into(),
            logger: None,
            data: json!(news),
        }),
        Queue::Instructions => Notice::Instructions(Instructions {
            server: server(),
            text: Some(news.to_string()),
        }),
        Queue::Task => Notice::Task(TaskChange {
            server: server(),
            task: news.to_string(),
            status: "working".into(),
            message: None,
        }),
    }
}

/// What a queue held, and what it lost.
fn drain(catalogue: &Catalogue, queue: Queue) -> (Vec<Notice>, u64) {
    macro_rules! drained {
        ($method:ident, $variant:ident) => {{
            let drained = catalogue.$method();
            (
                drained.items.into_iter().map(Notice::$variant).collect(),
                drained.dropped,
            )
        }};
    }
    match queue {
        Queue::Content => drained!(drain_content, Content),
        Queue::Resource => drained!(drain_resource, Resource),
        Queue::Connection => drained!(drain_connection, Connection),
        Queue::Log => drained!(drain_log, Log),
        Queue::Instructions => drained!(drain_instructions, Instructions),
        Queue::Task => drained!(drain_task, Task),
    }
}

#[test]
fn each_queue_drops_the_oldest_and_counts() {
    for (queue, capacity) in ALL {
        let catalogue = catalogue();
        let capacity = capacity as u64;
        (0..capacity + 3).for_each(|n| catalogue.notify(notice(queue, 2 * n, n)));
        let (items, dropped) = drain(&catalogue, queue);
        assert_eq!(dropped, 3, "{queue:?}");
        let expected: Vec<Notice> = (3..capacity + 3).map(|n| notice(queue, 2 * n, n)).collect();
        assert_eq!(items, expected, "{queue:?}");
        assert_eq!(
            drain(&catalogue, queue),
            (Vec::new(), 0),
            "draining empties it, {queue:?}"
        );
    }
}

#[test]
fn the_catalog_queue_holds_32_changes_and_counts_the_rest() {
    let catalogue = catalogue();
    for n in 0..35 {
        catalogue.register(host(&format!("t{n}")).build().unwrap(), ()).unwrap();
    }
    let drained = catalogue.drain_catalog();
    let revisions: Vec<u64> = drained.items.iter().map(|change| change.revision).collect();
    assert_eq!((revisions, drained.dropped), ((4..=35).collect(), 3));
    assert_eq!(catalogue.drain_catalog().dropped, 0);
}

#[test]
fn of_one_resource_the_newest_revision_stays_whatever_came_last() {
    let catalogue = catalogue();
    for (about, revision) in [(0, 5), (2, 1), (0, 7), (0, 6), (1, 1), (0, 7)] {
        catalogue.notify(notice(Queue::Resource, about, revision));
    }
    let (items, dropped) = drain(&catalogue, Queue::Resource);
    let expected = [(2, 1), (1, 1), (0, 7)].map(|(about, revision)| notice(Queue::Resource, about, revision));
    assert_eq!(items, expected, "the same address at two servers is two resources");
    assert_eq!(dropped, 0, "what a newer one replaces is not lost");
}

/// One operation; `None` drains.
type Operation = (Queue, Option<(u64, u64)>);

fn operation() -> impl Strategy<Value = Operation> {
    let queue = proptest::sample::select(ALL.map(|(queue, _)| queue).to_vec());
    // Mostly one queue at a time, or none would ever be full.
    (queue, proptest::option::weighted(0.99, (0_u64..80, 0_u64..6)))
}

/// The naive model of one queue: everything that was ever put in, judged when it is drained.
#[derive(Default)]
struct Model {
    put: Vec<Notice>,
}

impl Model {
    fn drain(&mut self, queue: Queue, capacity: usize) -> (Vec<Notice>, u64) {
        let mut held: VecDeque<Notice> = VecDeque::new();
        let mut dropped = 0;
        for notice in self.put.drain(..) {
            if let Notice::Resource(new) = &notice {
                assert_eq!(queue, Queue::Resource);
                let key = |held: &Notice| match held {
                    Notice::Resource(one) => (one.server.clone(), one.uri.clone(), one.revision),
                    _ => unreachable!(),
                };
                let known = held
                    .iter()
                    .map(key)
                    .find(|(server, uri, _)| (server, uri) == (&new.server, &new.uri));
                match known {
                    Some((.., revision)) if revision > new.revision => continue,
                    Some(known) => held.retain(|one| key(one) != known),
                    None => {}
                }
            }
            held.push_back(notice);
            while held.len() > capacity {
                held.pop_front();
                dropped += 1;
            }
        }
        (held.into(), dropped)
    }
}

fn agree(operations: &[Operation]) -> Result<(), TestCaseError> {
    let catalogue = catalogue();
    let mut models: Vec<Model> = ALL.iter().map(|_| Model::default()).collect();
    let last = ALL.map(|(queue, _)| (queue, None));
    for (queue, put) in operations.iter().copied().chain(last) {
        let at = ALL.iter().position(|(one, _)| *one == queue).unwrap();
        if let Some((about, news)) = put {
            let notice = notice(queue, about, news);
            models[at].put.push(notice.clone());
            catalogue.notify(notice);
        } else {
            prop_assert_eq!(drain(&catalogue, queue), models[at].drain(queue, ALL[at].1));
        }
    }
    Ok(())
}

#[test]
fn the_queues_do_what_a_naive_model_does() {
    let length = if is_long() { 10_000 } else { 1_000 };
    let operations = proptest::collection::vec(operation(), length);
    // In the long form a million operations.
    runner(if is_long() { 2 } else { 20 })
        .run(&operations, |operations| agree(&operations))
        .unwrap();
}

//! What happened upstream and was not looked at yet.
//!
//! Answers for seven bounded queues that lose the oldest first and count what they lost. Leaves out who fills them and
//! who is told.

use std::collections::VecDeque;

use serde_json::Value;

use super::Change;
use crate::registry::Text;

/// That a list of a server's content has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentChange {
    /// Whose.
    pub server: Text,
    /// Which list.
    pub list: ContentList,
}

/// A list of content that a server keeps beside its tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentList {
    /// Resources.
    Resources,
    /// Templates of resources.
    Templates,
    /// Prompts.
    Prompts,
}

/// That one resource has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceChange {
    /// Whose.
    pub server: Text,
    /// Which.
    pub uri: String,
    /// Counts the changes of this resource; of two, the higher one is the newer.
    pub revision: u64,
}

/// That a connection is in another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionChange {
    /// Whose.
    pub server: Text,
    /// The state.
    pub state: ConnectionState,
}

/// How a connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Being made.
    Connecting,
    /// Made.
    Connected,
    /// Lost, and made anew.
    Lost {
        /// Why.
        reason: String,
    },
    /// Given up.
    Failed {
        /// Why.
        reason: String,
    },
    /// Ended on purpose.
    Closed,
}

/// A line that a server logs.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// Whose.
    pub server: Text,
    /// How bad, in the protocol's words: `debug` to `emergency`.
    pub level: Text,
    /// The part of the server, when it says so.
    pub logger: Option<String>,
    /// What it says.
    pub data: Value,
}

/// How a server wants to be used. It replaces what the server said before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// Whose.
    pub server: Text,
    /// The text; none when the server takes it back.
    pub text: Option<String>,
}

/// That a task of a server is in another state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskChange {
    /// Whose.
    pub server: Text,
    /// Which.
    pub task: String,
    /// The state, in the protocol's words.
    pub status: Text,
    /// What the server says about it.
    pub message: Option<String>,
}

/// What a queue held, oldest first, and what it lost since it was last emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained<T> {
    /// In order.
    pub items: Vec<T>,
    /// How many went before somebody looked.
    pub dropped: u64,
}

/// A queue that holds at most `capacity` items.
#[derive(Debug)]
struct Bounded<T> {
    items: VecDeque<T>,
    capacity: usize,
    dropped: u64,
}

impl<T> Bounded<T> {
    fn new(capacity: usize) -> Self {
        Self {
            items: VecDeque::new(),
            capacity,
            dropped: 0,
        }
    }

    fn push(&mut self, item: T) {
        if self.items.len() == self.capacity {
            self.items.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
        self.items.push_back(item);
    }

    fn drain(&mut self) -> Drained<T> {
        Drained {
            items: self.items.drain(..).collect(),
            dropped: std::mem::take(&mut self.dropped),
        }
    }
}

/// Something for one of the queues.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// For the content queue.
    Content(ContentChange),
    /// For the resource queue.
    Resource(ResourceChange),
    /// For the connection queue.
    Connection(ConnectionChange),
    /// For the log queue.
    Log(LogLine),
    /// For the instructions queue.
    Instructions(Instructions),
    /// For the task queue.
    Task(TaskChange),
}

/// The seven queues of one catalogue.
#[derive(Debug)]
pub(super) struct Queues {
    catalog: Bounded<Change>,
    content: Bounded<ContentChange>,
    resource: Bounded<ResourceChange>,
    connection: Bounded<ConnectionChange>,
    log: Bounded<LogLine>,
    instructions: Bounded<Instructions>,
    task: Bounded<TaskChange>,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            catalog: Bounded::new(32),
            content: Bounded::new(32),
            resource: Bounded::new(32),
            connection: Bounded::new(32),
            log: Bounded::new(64),
            instructions: Bounded::new(32),
            task: Bounded::new(64),
        }
    }
}

impl Queues {
    pub(super) fn changed(&mut self, change: Change) {
        self.catalog.push(change);
    }

    pub(super) fn push(&mut self, notice: Notice) {
        match notice {
            Notice::Content(change) => self.content.push(change),
            Notice::Resource(change) => self.resource(change),
            Notice::Connection(change) => self.connection.push(change),
            Notice::Log(line) => self.log.push(line),
            Notice::Instructions(text) => self.instructions.push(text),
            Notice::Task(change) => self.task.push(change),
        }
    }

    /// One entry for each resource: the newest revision, wherever in time it came.
    fn resource(&mut self, change: ResourceChange) {
        let same = |held: &ResourceChange| held.server == change.server && held.uri == change.uri;
        if let Some(position) = self.resource.items.iter().position(same) {
            if self.resource.items[position].revision > change.revision {
                return;
            }
            self.resource.items.remove(position);
        }
        self.resource.push(change);
    }

    pub(super) fn drain_catalog(&mut self) -> Drained<Change> {
        self.catalog.drain()
    }

    pub(super) fn drain_content(&mut self) -> Drained<ContentChange> {
        self.content.drain()
    }

    pub(super) fn drain_resource(&mut self) -> Drained<ResourceChange> {
        self.resource.drain()
    }

    pub(super) fn drain_connection(&mut self) -> Drained<ConnectionChange> {
        self.connection.drain()
    }

    pub(super) fn drain_log(&mut self) -> Drained<LogLine> {
        self.log.drain()
    }

    pub(super) fn drain_instructions(&mut self) -> Drained<Instructions> {
        self.instructions.drain()
    }

    pub(super) fn drain_task(&mut self) -> Drained<TaskChange> {
        self.task.drain()
    }
}

//! Events for a host program: typed, as they come or from any number on.
//!
//! Answers for telling the events that this version knows, as [`Event`], from those of a newer one, which stay as they
//! are. Leaves out the journal and the queue (the core's `events`).

use std::time::Duration;

use devloop_core::events::{EventReader, EventRecord, Subscription};
use devloop_core::store::StoreError;
use devloop_generated::Event;
use serde_json::Value;

/// One event, with what every event carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its number in the project; 0 when the journal could not keep it.
    pub seq: u64,
    /// When, UTC with milliseconds.
    pub ts: String,
    /// The agent's short name.
    pub agent: Option<String>,
    /// The agent call.
    pub call_id: Option<String>,
    /// The unit that the agent works on.
    pub unit_id: Option<String>,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// An event of this version.
    Known(Event),
    /// An event of another version: its name or its payload is not known here.
    Other {
        /// Its name.
        name: String,
        /// Its payload, with the agent, the call, the unit and the time.
        payload: Value,
    },
}

impl Told {
    /// The event's name.
    pub fn name(&self) -> &str {
        match &self.what {
            What::Known(event) => event.name(),
            What::Other { name, .. } => name,
        }
    }

    /// The event, if it is one of this version.
    pub fn known(&self) -> Option<&Event> {
        match &self.what {
            What::Known(event) => Some(event),
            What::Other { .. } => None,
        }
    }
}

impl From<&EventRecord> for Told {
    fn from(record: &EventRecord) -> Self {
        let text = |key: &str| record.payload.get(key)?.as_str().map(str::to_owned);
        let what = match Event::parse(&record.name, &record.payload) {
            Ok(Some(event)) => What::Known(event),
            Ok(None) | Err(_) => What::Other {
                name: record.name.clone(),
                payload: record.payload.clone(),
            },
        };
        Self {
            seq: record.seq,
            ts: record.ts.clone(),
            agent: text("agent"),
            call_id: text("call_id"),
            unit_id: text("unit_id"),
            what,
        }
    }
}

/// Listens to the events of one project that this process emits.
#[derive(Debug)]
pub struct Listener(Subscription);

impl Listener {
    pub(crate) fn new(subscription: Subscription) -> Self {
        Self(subscription)
    }

    /// The next event, if one is there.
    pub fn try_recv(&self) -> Option<Told> {
        self.0.try_recv().as_deref().map(Told::from)
    }

    /// The next event, as soon as one is there; `None` when all were taken and the project is gone. Blocks no thread, and
    /// is cancel safe.
    pub async fn recv(&self) -> Option<Told> {
        self.0.recv().await.as_deref().map(Told::from)
    }

    /// The next event, waiting at most `timeout` for it. Blocks the thread.
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Told> {
        self.0.recv_timeout(timeout).as_deref().map(Told::from)
    }

    /// How many events were dropped because this listener was slow. They are in the journal.
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }
}

/// Reads the events of one project that all processes have emitted, from a number on, and those that come. Its calls
/// block.
#[derive(Debug)]
pub struct Replayed(EventReader);

impl Replayed {
    pub(crate) fn new(reader: EventReader) -> Self {
        Self(reader)
    }

    /// What is there by now, at most `most` events; empty at the end. Does not wait.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn next_batch(&mut self, most: usize) -> Result<Vec<Told>, StoreError> {
        Ok(self.0.next_batch(most)?.iter().map(Told::from).collect())
    }

    /// As [`next_batch`](Self::next_batch), waiting at most `timeout` for the first one, and no longer than `cancelled`
    /// allows.
    ///
    /// # Errors
    /// As [`next_batch`](Self::next_batch).
    pub fn wait_batch(
        &mut self,
        most: usize,
        timeout: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Told>, StoreError> {
        let batch = self.0.wait_batch(most, timeout, cancelled)?;
        Ok(batch.iter().map(Told::from).collect())
    }

    /// How many numbers were passed over so far: of events too old to be kept, and of those that cannot be read.
    pub fn lost(&self) -> u64 {
        self.0.lost()
    }

    /// The number from which to go on another time.
    pub fn position(&self) -> u64 {
        self.0.position()
    }
}

#[cfg(test)]
mod tests {
    use devloop_core::sandbox::ProjectDir;
    use devloop_generated::events::LoopEscalated;
    use serde_json::json;

    use super::*;
    use crate::config::Config;
    use crate::project::Project;

    #[test]
    fn events_are_typed_and_those_of_other_versions_are_kept_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let project = Project::new(ProjectDir::open(dir.path()).unwrap(), Config::default());
        let listener = project.subscribe(10);
        let escalated = LoopEscalated {
            tool: "t".into(),
            error_id: "err-1".into(),
            message: "m".into(),
        };
        let mut payload = json!({"agent": "coder", "call_id": "c", "unit_id": "u", "ts": "then", "newer": true});
        for (key, value) in json!(escalated).as_object().unwrap() {
            payload[key] = value.clone();
        }
        project.journal().emit("loop.escalated", payload).unwrap();
        project
            .journal()
            .emit("loop.escalated", json!({"agent": "pm"}))
            .unwrap();
        project.journal().emit("tea.made", json!(null)).unwrap();
        let told: Vec<_> = std::iter::from_fn(|| listener.try_recv()).collect();
        assert_eq!(told[0].known(), Some(&Event::LoopEscalated(escalated)));
        assert_eq!(told[0].agent.as_deref(), Some("coder"));
        assert_eq!(
            (told[0].call_id.as_deref(), told[0].unit_id.as_deref()),
            (Some("c"), Some("u"))
        );
        assert_eq!(told[1].agent.as_deref(), Some("pm"));
        assert_eq!((told[1].name(), told[1].known()), ("loop.escalated", None));
        let tea = What::Other {
            name: "tea.made".into(),
            payload: Value::Null,
        };
        assert_eq!((told[2].seq, &told[2].what), (3, &tea));
        assert_eq!(listener.dropped(), 0);
        let mut replayed = project.events_from(2);
        assert_eq!(replayed.next_batch(10).unwrap(), told[1..]);
        assert_eq!((replayed.lost(), replayed.position()), (0, 4));
    }

    #[test]
    fn every_event_is_parsed_from_its_own_payload() {
        for name in Event::NAMES {
            assert!(Event::parse(name, &json!([])).is_err(), "{name} is known");
        }
        assert_eq!(Event::parse("x.y", &json!({})).unwrap(), None);
    }
}

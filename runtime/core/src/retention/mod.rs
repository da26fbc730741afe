//! Retention: what the machinery leaves behind over time, and what of it may go.
//!
//! Answers for finding it, saying why, and removing it. Nothing that is in use is ever a candidate: no state file, no
//! live journal, no lock. Leaves out when this is done, and the journals that bound themselves.

pub mod artifacts;
pub mod project;

use std::fmt;

use jiff::SignedDuration;
use serde::Serialize;

pub use project::Leftovers;

/// How long what is kept for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How many earlier versions of a state file stay.
    pub history: usize,
    /// How long broken files that were set aside, and torn ends of journals, stay.
    pub set_aside: SignedDuration,
    /// How long the calls of an agent that makes none any more are known again.
    pub replay: SignedDuration,
    /// How many full files of the timeline stay; all of them when absent.
    pub timeline_files: Option<usize>,
    /// How long the artifacts of a session stay after the last one was written.
    pub artifacts: SignedDuration,
}

/// Why something may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// An earlier version of a state file, and enough newer ones are there.
    History,
    /// A full file of the timeline, and enough newer ones are there.
    Timeline,
    /// The calls of an agent that has made none for long.
    Replay,
    /// A state file that was broken.
    SetAside,
    /// The end of a journal's line, torn by a crash.
    Torn,
    /// A temporary file of a process that is gone.
    Temporary,
    /// What the tools wrote for a session that is over.
    Artifacts,
}

impl Why {
    /// Every reason, in the order in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::History,
        Self::Timeline,
        Self::Replay,
        Self::SetAside,
        Self::Torn,
        Self::Temporary,
        Self::Artifacts,
    ];
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::History => "earlier version",
            Self::Timeline => "old timeline",
            Self::Replay => "old calls",
            Self::SetAside => "broken, set aside",
            Self::Torn => "torn by a crash",
            Self::Temporary => "left by a crash",
            Self::Artifacts => "old artifacts",
        })
    }
}

/// Something that may go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Candidate {
    /// Why.
    pub why: Why,
    /// Where it is: relative to the project, absolute outside of it.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

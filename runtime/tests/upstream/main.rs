//! Upstream servers end to end: real programs, and every fault that a server can have.

mod faults;
mod rig;
mod talk;

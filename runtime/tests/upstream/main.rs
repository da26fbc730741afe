//! Upstream servers end to end: real programs, and every fault that a server can have.

#[path = "../alive/mod.rs"]
mod alive;
#[cfg(feature = "cli")]
mod cli;
mod faults;
#[cfg(feature = "upstream-http")]
mod http;
#[cfg(feature = "cli")]
#[path = "../program/mod.rs"]
mod program;
mod rig;
#[cfg(feature = "cli")]
mod served;
#[cfg(feature = "testing")]
mod session;
mod talk;

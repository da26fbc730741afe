//! Upstream servers end to end: real programs, and every fault that a server can have.

#[cfg(feature = "cli")]
mod cli;
mod faults;
#[cfg(feature = "upstream-http")]
mod http;
mod rig;
#[cfg(feature = "cli")]
mod served;
#[cfg(feature = "testing")]
mod session;
mod talk;

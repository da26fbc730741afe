//! Every promise of the catalogue, row by row.

mod bounds;
mod deferral;
mod offered;
mod queues;
mod registry;
mod replace_model;

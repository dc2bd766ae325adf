//! `forward/memory/…` and `cs_hit/memory`: the complete forwarding plane on one core, without I/O.
//! The load is that of `nw paper augustus` (`nw_experiments::plane_load`).

pub use nw_experiments::plane_load::{Link, Options, measure, measure_graph, steady_state};

mod rows;
mod shards;

pub use rows::run;

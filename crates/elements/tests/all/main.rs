//! Tests of this crate from outside, in one program.

mod case;
mod cases;
mod catalogue;
mod conservation;
mod contract;
mod each_alone;
mod graph;
mod strategies;
mod thousand_nodes;

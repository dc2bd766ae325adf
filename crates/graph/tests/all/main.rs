//! Tests of this crate from outside, in one program.

mod change;
mod check;
mod corpus;
mod examples;
mod host;
mod names;
mod offload;
mod taps;

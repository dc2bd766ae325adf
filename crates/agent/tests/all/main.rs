//! Tests of this crate from outside, in one program.

mod agents;
mod groups;

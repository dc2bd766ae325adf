//! Tests of this crate from outside, in one program.

mod common;
mod figures;
mod model;
mod recorded;
mod rules;
mod stages;
mod topology;

//! Tests of this crate from outside, in one program.

mod defence;
mod expand;
mod plan;
mod scale;
mod world;

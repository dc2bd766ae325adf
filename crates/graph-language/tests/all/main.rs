//! Tests of this crate from outside, in one program.

mod bad;
mod drawings;

//! Tests of this crate from outside, in one program.

mod partition;
mod single_element;

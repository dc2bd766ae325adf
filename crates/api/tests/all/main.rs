//! Tests of this crate from outside, in one program.

mod corpus;
mod golden;
mod json;
mod properties;
mod reference;

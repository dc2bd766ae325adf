//! Tests of this crate from outside, in one program.

mod authority;
mod commands;
mod corpus;
mod ndncert;
mod vectors;

//! Tests of this crate from outside, in one program.

mod corpus;
mod server;

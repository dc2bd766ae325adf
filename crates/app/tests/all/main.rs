//! Tests of this crate from outside, in one program.

mod client;
mod corpus;
mod through_router;

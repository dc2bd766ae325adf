//! Tests of this crate from outside, in one program.

mod connection_end;
mod shards;

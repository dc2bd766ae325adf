//! Tests of this crate from outside, in one program.

mod admission;
mod common;
mod corpus;
mod datagrams;
mod ends;
mod interfaces;
mod links;
mod shared_memory;
mod streams;
mod websockets;

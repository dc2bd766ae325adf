//! Tests of this crate from outside, in one program.

mod docker_engine;
mod remote_engine;

//! Tests of this crate from outside, in one program.

mod blackadder;
mod corpus;
mod properties;
mod publication_corpus;
mod shards;

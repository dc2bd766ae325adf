//! Graphs of elements as files: model, parser, checker, drawings and help. Layer 3, pure: no
//! socket, no thread, no clock. Does not depend on what an element does; the catalogue of
//! `nw-elements` lists the elements and their ports.
//!
//! ```text
//!  file ─ language ─▶ Graph (model) ─ check ─▶ problems, or a graph that an engine can run
//!                      └─ draw ─▶ text, SVG, Mermaid
//! ```

#![forbid(unsafe_code)]

pub mod check;
pub mod draw;
pub mod help;
pub mod language;
pub mod model;
pub mod network;
pub mod partition;
mod problem;
mod standard;
mod suggest;

pub use language::{GraphFile, Test};
pub use model::{Connection, Face, Graph, Node, Position, Source, Target};
pub use problem::{Problem, Problems};
pub use standard::standard;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

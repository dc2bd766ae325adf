//! Host B: elements connected as a graph file says. Layer 5: refuses to know what an element does; the catalogue of `nw-elements` tells what there is.
//!
//! ```text
//!  file ─ language ─▶ Graph (model) ─ check ─▶ Engine ─▶ packets, as the fused plane takes and gives them
//! ```

#![forbid(unsafe_code)]

pub mod check;
pub mod draw;
pub mod engine;
pub mod help;
pub mod host;
pub mod language;
pub mod model;
mod nearest;
mod problem;
mod standard;
pub mod trial;

pub use engine::{ChangeOrder, Changed, Engine, Errand, Fault};
pub use language::{GraphFile, Test};
pub use model::{Connection, Face, From, Graph, Node, Place, To};
pub use problem::{Problem, Problems};
pub use standard::standard;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

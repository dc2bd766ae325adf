//! Test support for elements and graphs: the language of `.case` files, and a bench for unit tests.
//!
//! Layer 3, pure: it depends on the element contract, not on any element or host. `nw-graph` uses
//! the language for the product command `nw graph test`; other crates use this one in tests only.

#![forbid(unsafe_code)]

pub mod bench;
pub mod case;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

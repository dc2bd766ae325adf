//! Names, components, naming conventions, prefixes and *the* name hash.
//!
//! Layer 1 (words): knows bytes and names, refuses to know packets. `no_std`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod component;
pub mod convention;
pub mod hash;
pub mod name;
pub mod tlv;
pub mod uri;

pub use component::{Component, ComponentType};
pub use hash::{HashKey, PREFIXES_MAX, ParametersDigests, Prefixes};
pub use name::{Components, Name, NameRef};
pub use tlv::{Error, Fault};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

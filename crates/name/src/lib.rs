//! Names, components, naming conventions, TLV and the name hash.
//!
//! Layer 1 (vocabulary), `no_std`. This crate does not depend on packets.

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
pub use hash::{HashKey, PREFIXES_MAX, ParametersDigests, PrefixHashes};
pub use name::{Components, Name, NameRef};
pub use tlv::{Error, Fault};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! What programs that measure share: Zipf's law, charts, pages. Words and pictures only.
//!
//! Layer 1 (words): refuses to know packets, time and what is measured.

#![forbid(unsafe_code)]

pub mod chart;
pub mod page;
pub mod zipf;

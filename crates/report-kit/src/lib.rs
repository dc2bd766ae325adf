//! Parts that measurement reports share: bounds, SVG charts, the frame of an HTML page, Zipf's law.
//!
//! Layer 1. Pure: no packets, clock, files or sockets.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod chart;
pub mod page;
pub mod zipf;

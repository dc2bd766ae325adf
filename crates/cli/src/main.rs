//! The nw command.
fn main() {}

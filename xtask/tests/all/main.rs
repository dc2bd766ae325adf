//! Checks of the repository's house rules, in one program.

mod arrows;
mod bounds;
mod dependencies;
mod house;
mod parity;
mod style;

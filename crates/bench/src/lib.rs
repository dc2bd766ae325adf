//! Generators, references and comparisons

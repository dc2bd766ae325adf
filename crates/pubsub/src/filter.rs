//! LIPSIN filters.

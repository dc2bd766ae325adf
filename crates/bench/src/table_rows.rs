//! `tables/…`: each table alone, by number of entries.

use crate::report::Row;
use crate::tables;

/// Numbers of entries.
const SIZES: &[usize] = &[1_000, 100_000, 1_000_000, 10_000_000];

/// Measures the rows.
pub fn run(row: &str) -> Vec<Row> {
    let rows = match row {
        "tables/fib" => tables::fib::run(SIZES),
        "tables/pit" => tables::pit::run(SIZES),
        "tables/cs" => tables::cs::run(SIZES),
        "tables/cs_policies" => tables::cs_policies::run(),
        "tables/dnl" => tables::dnl::run(SIZES),
        _ => Vec::new(),
    };
    rows.into_iter()
        .map(|row| Row { spread: row.spread, ..Row::new(row.name, row.unit, &[row.value]) })
        .collect()
}

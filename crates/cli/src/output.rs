//! Text for people, JSON for programs.

use anyhow::Result;
use serde::Serialize;
use std::io::{Write, stdout};

/// One JSON object on a line of its own.
pub fn json_line(value: &impl Serialize) -> Result<()> {
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Columns as wide as their widest cell. The first row is the head.
pub fn table(rows: &[Vec<String>]) -> Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = stdout().lock();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

/// A head or row of a table.
pub fn row<const N: usize>(cells: [&dyn std::fmt::Display; N]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

/// A duration as people say it: 850 µs, 12.3 ms, 4.5 s.
pub fn duration_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn durations_read_well() {
        assert_eq!(super::duration_us(850), "850 µs");
        assert_eq!(super::duration_us(12_340), "12.34 ms");
        assert_eq!(super::duration_us(4_500_000), "4.50 s");
    }
}

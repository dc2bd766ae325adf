//! `nw dissect`: packets as a readable tree.

use crate::args::tools::Dissect;
use crate::output::json_line;
use anyhow::{Context, Result, bail};
use nw_wire::dissect::{Options, Value, dissect as write_tree, lines};
use serde_json::json;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;
use std::process::ExitCode;

/// Maximum size of the input, bytes.
const INPUT_LEN_MAX: u64 = 64 << 20;

/// Runs `nw dissect`. Fails if the input has a malformed packet, after printing what can be read.
pub fn dissect(args: &Dissect) -> Result<ExitCode> {
    let mut input = Vec::new();
    match &args.file {
        Some(path) if path != Path::new("-") => {
            let file =
                File::open(path).with_context(|| format!("can't read {}", path.display()))?;
            file.take(INPUT_LEN_MAX).read_to_end(&mut input)?
        }
        _ => stdin().lock().take(INPUT_LEN_MAX).read_to_end(&mut input)?,
    };
    if args.hex {
        input = unhex(&input)?;
    } else if args.base64 {
        let text = std::str::from_utf8(&input).context("the input is not base64")?;
        input = nw_trust::pem::decode(text)?;
    }
    if input.is_empty() {
        bail!("the input is empty: there is no packet to show");
    }
    if args.json {
        for line in lines(&input, Options::default()) {
            let value = line.value.to_string();
            json_line(&json!({ "depth": line.depth, "offset": line.offset, "type": line.typ,
                "name": line.name, "length": line.len, "value": value }))?;
        }
    } else {
        print_tree(&input)?;
    }
    if lines(&input, Options::default()).any(|line| matches!(line.value, Value::Fault(_))) {
        bail!("the input is not a sequence of complete packets (use --hex or --base64 for text)");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints packets as a tree.
pub fn print_tree(bytes: &[u8]) -> Result<()> {
    let mut text = String::new();
    write_tree(bytes, &mut text, Options::default())?;
    Ok(out!("{text}")?)
}

fn unhex(text: &[u8]) -> Result<Vec<u8>> {
    let mut digits = Vec::with_capacity(text.len());
    for (at, byte) in text.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace()) {
        match (*byte as char).to_digit(16) {
            Some(digit) => digits.push(digit as u8),
            None => bail!(
                "character {} is {:?}, which is not a hexadecimal digit",
                at + 1,
                *byte as char
            ),
        }
    }
    if digits.len() % 2 == 1 {
        bail!("there is an odd number of hexadecimal digits");
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::unhex;

    #[test]
    fn unhex_ignores_spaces_and_reports_faults() {
        assert_eq!(unhex(b"05 0a\n0B").unwrap(), [5, 10, 11]);
        assert!(unhex(b"0g").unwrap_err().to_string().contains("character 2"));
        assert!(unhex(b"050").unwrap_err().to_string().contains("odd"));
    }
}

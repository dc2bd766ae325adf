//! Keys and certificates as text: base64 in lines of 64, as `ndnsec` prints certificates, with or without PEM's frame.

use crate::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Characters a line.
const LINE_LEN: usize = 64;

/// Base64 in lines of 64 characters, each ended.
pub fn armor(bytes: &[u8]) -> String {
    let encoded = STANDARD.encode(bytes);
    let mut text = String::with_capacity(encoded.len() + encoded.len() / LINE_LEN + 1);
    for line in encoded.as_bytes().chunks(LINE_LEN) {
        text.extend(line.iter().map(|octet| char::from(*octet)));
        text.push('\n');
    }
    text
}

/// [`armor`] within `-----BEGIN label-----` and `-----END label-----`.
pub fn pem(label: &str, bytes: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", armor(bytes))
}

/// The bytes of a text made by [`armor`] or [`pem`]; white space and lines of dashes don't matter.
///
/// # Errors
/// [`Error::Text`].
pub fn unarmor(text: &str) -> Result<Vec<u8>, Error> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("-----"));
    let digits: String = lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    match STANDARD.decode(digits) {
        Ok(bytes) if !bytes.is_empty() => Ok(bytes),
        _ => Err(Error::Text("base64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 1..300)) {
            prop_assert_eq!(unarmor(&armor(&bytes)).unwrap(), bytes.clone());
            prop_assert_eq!(unarmor(&pem("X", &bytes)).unwrap(), bytes.clone());
            prop_assert!(armor(&bytes).lines().all(|line| line.len() <= LINE_LEN));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") { let _ = unarmor(&text); }
    }

    #[test]
    fn nothing_is_not_base64() {
        assert_eq!(unarmor(""), Err(Error::Text("base64")));
        assert_eq!(unarmor("-----BEGIN X-----\n-----END X-----\n"), Err(Error::Text("base64")));
    }
}

//! Text encodings of keys and certificates: base64 in lines of 64 characters (as `ndnsec` prints
//! certificates), and PEM.

use crate::Error;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Characters per line.
const LINE_LEN: usize = 64;

/// Encodes as base64 in lines of 64 characters; each line ends with a newline.
pub fn encode_base64(bytes: &[u8]) -> String {
    let encoded = STANDARD.encode(bytes);
    let mut text = String::with_capacity(encoded.len() + encoded.len() / LINE_LEN + 1);
    for line in encoded.as_bytes().chunks(LINE_LEN) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text
}

/// Encodes as PEM: base64 between `-----BEGIN label-----` and `-----END label-----`.
pub fn encode(label: &str, bytes: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", encode_base64(bytes))
}

/// Decodes base64 or PEM. White space and lines that start with dashes are skipped.
///
/// # Errors
/// [`Error::Text`] if it is not base64 or empty.
pub fn decode(text: &str) -> Result<Vec<u8>, Error> {
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
        fn encoded_bytes_decode_to_the_same(bytes in proptest::collection::vec(any::<u8>(), 1..300)) {
            prop_assert_eq!(decode(&encode_base64(&bytes)).unwrap(), bytes.clone());
            prop_assert_eq!(decode(&encode("X", &bytes)).unwrap(), bytes.clone());
            prop_assert!(encode_base64(&bytes).lines().all(|line| line.len() <= LINE_LEN));
        }

        #[test]
        fn decode_of_any_text_does_not_panic(text in "\\PC{0,60}") { let _ = decode(&text); }
    }

    #[test]
    fn decode_of_empty_text_is_an_error() {
        assert_eq!(decode(""), Err(Error::Text("base64")));
        assert_eq!(decode("-----BEGIN X-----\n-----END X-----\n"), Err(Error::Text("base64")));
    }
}

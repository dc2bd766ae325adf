//! The name of an image: `name:tag`, with an optional registry and folders before the name.

use std::fmt;
use std::str::FromStr;

/// Bytes of a reference, at most.
const LEN_MAX: usize = 255;
/// Bytes of a tag, at most, by the distribution specification.
const TAG_LEN_MAX: usize = 128;

/// A valid image name with a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    name: String,
    tag: String,
}

/// Why a text is no image name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an image name: give NAME or NAME:TAG, such as namewire:0.1; lower-case letters, \
     digits, and . _ - / between them"
)]
pub struct ReferenceError(String);

impl Reference {
    /// Returns the tag; `latest` where none was given.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns the name with its registry, as containerd stores it.
    pub fn qualified(&self) -> String {
        let first = self.name.split('/').next().unwrap_or_default();
        let has_registry =
            self.name.contains('/') && (first.contains(['.', ':']) || first == "localhost");
        match (has_registry, self.name.contains('/')) {
            (true, _) => self.to_string(),
            (false, true) => format!("docker.io/{self}"),
            (false, false) => format!("docker.io/library/{self}"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.tag)
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Reference, ReferenceError> {
        let fault = || ReferenceError(text.chars().take(LEN_MAX).collect());
        // A colon before the last slash belongs to a port.
        let (name, tag) = match text.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, tag),
            _ => (text, "latest"),
        };
        let mut parts: Vec<&str> = name.split('/').collect();
        if parts.len() > 1 && parts[0].contains(':') {
            let (host, port) = parts[0].split_once(':').ok_or_else(fault)?;
            if port.parse::<u16>().is_err() {
                return Err(fault());
            }
            parts[0] = host;
        }
        let is_valid =
            text.len() <= LEN_MAX && parts.iter().all(|part| is_part(part)) && is_tag(tag);
        if !is_valid {
            return Err(fault());
        }
        Ok(Reference { name: name.to_owned(), tag: tag.to_owned() })
    }
}

fn is_part(part: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let ends = bytes.first().zip(bytes.last());
    ends.is_some_and(|(first, last)| is_letter(*first) && is_letter(*last))
        && bytes.iter().all(|byte| is_letter(*byte) || b"._-".contains(byte))
        && !part.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_LEN_MAX
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || b".-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_qualified_as_containerd_does() {
        for (text, qualified) in [
            ("namewire", "docker.io/library/namewire:latest"),
            ("namewire:0.1.0", "docker.io/library/namewire:0.1.0"),
            ("site/nw:x", "docker.io/site/nw:x"),
            ("localhost/nw", "localhost/nw:latest"),
            ("registry.example:5000/a/b:T-1", "registry.example:5000/a/b:T-1"),
            ("registry.example:5000/a", "registry.example:5000/a:latest"),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().qualified(), qualified);
        }
    }

    #[test]
    fn invalid_names_are_refused() {
        let long = "a".repeat(256);
        for text in [
            "", "A", "a:", ":a", "a b", "a:b c", "/a", "a/", "a//b", "-a", "a..b", "a:b:c",
            "h:x/a", &long,
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}

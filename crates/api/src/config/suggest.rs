//! "Did you mean …?": finds the word of a list that is closest to a misspelled one.

/// Maximum length of a compared word, characters; no option is longer.
const LEN_MAX: usize = 64;

/// Returns the word of `known` with the smallest edit distance to `word`. `None` if the distance
/// exceeds a third of the length, or 3.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let len = word.chars().take(LEN_MAX + 1).count();
    if len > LEN_MAX {
        return None;
    }
    let distance_max = (len / 3).clamp(1, 3);
    let distances =
        known.into_iter().map(|candidate| (strsim::osa_distance(word, candidate), candidate));
    distances
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, w)| w)
}

/// Returns ` (did you mean x?)`, or an empty text.
pub fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_misspelled_words() {
        let known = ["faces", "content_store", "tables", "best-route"];
        assert_eq!(nearest("content_stor", known), Some("content_store"));
        assert_eq!(nearest("besst-route", known), Some("best-route"));
        assert_eq!(nearest("tabels", known), Some("tables"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"x".repeat(1000), known), None);
        assert_eq!(hint("face", known), " (did you mean faces?)");
    }
}

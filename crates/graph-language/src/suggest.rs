//! Suggestions for misspelled names.

/// Compared characters of a word; names are shorter.
const LEN_MAX: usize = 64;

/// Returns the known word closest to `word`, or `None` if more than about a quarter of its letters
/// (plus one) differ.
pub(crate) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let end = word.char_indices().nth(LEN_MAX).map_or(word.len(), |(end, _)| end);
    let distances = known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word[..end], candidate), candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + candidate.chars().count() / 4).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::suggest;

    #[test]
    fn suggest_close_word_found_distant_word_none() {
        let known = ["content_store", "router", "tee"];
        assert_eq!(suggest("contentstore", known), Some("content_store"));
        assert_eq!(suggest("ruoter", known), Some("router"));
        assert_eq!(suggest("te", known), Some("tee"));
        assert_eq!(suggest("balloon", known), None);
        assert_eq!(suggest("x", []), None);
    }
}

//! Suggestions for misspelled names.

/// Returns the known word closest to `word`, or `None` if more than about a quarter of its letters
/// (plus one) differ.
pub(crate) fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + candidate.chars().count() / 4).then_some(candidate)
}

/// Returns the number of letters to change, insert, delete or swap with a neighbour (restricted
/// Damerau-Levenshtein distance).
fn distance(a: &str, b: &str) -> usize {
    // Names are shorter than this; the bound keeps the table small.
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    (0..=a.len()).for_each(|i| rows[i][0] = i);
    (0..=b.len()).for_each(|j| rows[0][j] = j);
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let same = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut min = same.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                min = min.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = min;
        }
    }
    rows[a.len()][b.len()]
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

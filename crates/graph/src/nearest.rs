//! What somebody may have meant.

/// The nearest of some words, if one is near: at most a third of its letters differ.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (distance, candidate) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= 1 + candidate.chars().count() / 4).then_some(candidate)
}

/// Letters to be changed, added, left out or swapped with their neighbour (Damerau and Levenshtein, restricted).
fn distance(a: &str, b: &str) -> usize {
    // Nobody's name is longer; the table stays small.
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    (0..=a.len()).for_each(|i| rows[i][0] = i);
    (0..=b.len()).for_each(|j| rows[0][j] = j);
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let same = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = same.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_understood_and_other_words_are_not() {
        let known = ["content_store", "router", "tee"];
        assert_eq!(nearest("contentstore", known), Some("content_store"));
        assert_eq!(nearest("ruoter", known), Some("router"));
        assert_eq!(nearest("te", known), Some("tee"));
        assert_eq!(nearest("balloon", known), None);
        assert_eq!(nearest("x", []), None);
    }
}

//! "Did you mean …?": finds the word of a list that is closest to a misspelled one.

/// Maximum length of a compared word, characters; no option is longer.
const LEN_MAX: usize = 64;

/// Returns the word of `known` with the smallest edit distance to `word`. `None` if the distance
/// exceeds a third of the length, or 3.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word: Vec<char> = word.chars().take(LEN_MAX + 1).collect();
    if word.len() > LEN_MAX {
        return None;
    }
    let distance_max = (word.len() / 3).clamp(1, 3);
    let distances = known.into_iter().map(|candidate| (distance(&word, candidate), candidate));
    distances
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, w)| w)
}

/// Returns ` (did you mean x?)`, or an empty text.
pub fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

/// Returns the edit distance: insertions, deletions, substitutions and swaps of adjacent characters
/// (optimal string alignment).
fn distance(word: &[char], other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for i in 0..word.len() {
        let mut next = vec![i + 1];
        for j in 0..other.len() {
            let change = row[j] + usize::from(word[i] != other[j]);
            let mut min = change.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && word[i] == other[j - 1] && word[i - 1] == other[j] {
                min = min.min(before[j - 1] + 1);
            }
            next.push(min);
        }
        before = core::mem::replace(&mut row, next);
    }
    row[other.len()]
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

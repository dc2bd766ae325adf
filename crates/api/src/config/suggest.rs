//! "Did you mean …?": the word of a list that is nearest to one that is not in it.

/// Words longer than this are compared with nothing: no option has such a name.
const LEN_MAX: usize = 64;

/// Returns the word of `known` that needs the fewest changes of single characters to become `word`, if these are few.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word: Vec<char> = word.chars().take(LEN_MAX + 1).collect();
    if word.len() > LEN_MAX {
        return None;
    }
    let few = (word.len() / 3).clamp(1, 3);
    let distances = known.into_iter().map(|other| (distance(&word, other), other));
    distances.filter(|(distance, _)| *distance <= few).min_by_key(|(distance, _)| *distance).map(|(_, w)| w)
}

/// ` (did you mean x?)`, or nothing.
pub fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
}

/// Returns how many characters have to be added, removed, changed, or swapped with their neighbour.
fn distance(one: &[char], other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for i in 0..one.len() {
        let mut next = vec![i + 1];
        for j in 0..other.len() {
            let change = row[j] + usize::from(one[i] != other[j]);
            let mut least = change.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && one[i] == other[j - 1] && one[i - 1] == other[j] {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = core::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_words() {
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

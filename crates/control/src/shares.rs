//! Fair shares of pools that many faces use: when a pool is full, the face with the most items
//! loses its oldest one.

use nw_tables::FaceId;
use std::collections::BTreeMap;

/// Returns the face that loses its oldest item to an item of `newcomer` in a full pool. `None` if
/// no other face has more items than `newcomer`, which is then refused.
///
/// `holders` are the faces of the items, the oldest first. The host itself ([`FaceId::INTERNAL`])
/// never loses an item to others, and is refused only if all items are its own.
pub(super) fn face_to_evict(
    newcomer: FaceId,
    holders: impl Iterator<Item = FaceId>,
) -> Option<FaceId> {
    let mut counts: BTreeMap<FaceId, (usize, usize)> = BTreeMap::new();
    for (position, holder) in holders.enumerate() {
        counts.entry(holder).or_insert((0, position)).0 += 1;
    }
    let own_count = match newcomer {
        FaceId::INTERNAL => 0,
        _ => counts.get(&newcomer).map_or(0, |(count, _)| *count),
    };
    let candidates =
        counts.into_iter().filter(|(face, _)| *face != FaceId::INTERNAL && *face != newcomer);
    let heaviest =
        candidates.max_by_key(|(_, (count, first))| (*count, core::cmp::Reverse(*first)));
    heaviest.filter(|(_, (count, _))| *count > own_count).map(|(face, _)| face)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(number: u64) -> FaceId {
        FaceId::from_number(number).unwrap()
    }

    #[test]
    fn face_to_evict_full_pool_is_heaviest_face_then_oldest() {
        let holders = |faces: &[u64]| faces.iter().map(|number| face(*number)).collect::<Vec<_>>();
        for (newcomer, faces, expected) in [
            (400, &[300, 301, 301, 302][..], Some(301)),
            (400, &[302, 301, 300], Some(302)),
            (301, &[301, 301, 300], None),
            (300, &[301, 301, 300], Some(301)),
            (300, &[301, 300], None),
            (400, &[1, 1, 1, 301], Some(301)),
            (400, &[1, 1], None),
            (1, &[1, 1, 1, 301], Some(301)),
        ] {
            let evicted = face_to_evict(face(newcomer), holders(faces).into_iter());
            assert_eq!(evicted, expected.map(face), "{newcomer} {faces:?}");
        }
    }
}

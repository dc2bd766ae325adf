//! Shares of pools that many faces use: when one is full, the face with most of it gives way.

use nw_tables::FaceId;
use std::collections::BTreeMap;

/// Returns the face whose oldest item gives way to one of `newcomer` in a full pool, or `None` if the newcomer has as much as any other and is
/// refused. `holders` are the faces of the items, the oldest first. The host itself ([`FaceId::INTERNAL`]) never gives way to others, and is
/// refused only when the pool is full of its own.
pub(super) fn face_that_gives_way(newcomer: FaceId, holders: impl Iterator<Item = FaceId>) -> Option<FaceId> {
    let mut counts: BTreeMap<FaceId, (usize, usize)> = BTreeMap::new();
    for (at, holder) in holders.enumerate() {
        counts.entry(holder).or_insert((0, at)).0 += 1;
    }
    let own = if newcomer == FaceId::INTERNAL { 0 } else { counts.get(&newcomer).map_or(0, |(own, _)| *own) };
    let others = counts.into_iter().filter(|(face, _)| *face != FaceId::INTERNAL && *face != newcomer);
    let most = others.max_by_key(|(_, (count, first))| (*count, core::cmp::Reverse(*first)));
    most.filter(|(_, (count, _))| *count > own).map(|(face, _)| face)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(number: u64) -> FaceId {
        FaceId::from_number(number).unwrap()
    }

    #[test]
    fn face_with_most_gives_way_and_the_oldest_among_equals() {
        let holders = |faces: &[u64]| faces.iter().map(|number| face(*number)).collect::<Vec<_>>();
        for (newcomer, of, wanted) in [
            (400, &[300, 301, 301, 302][..], Some(301)),
            (400, &[302, 301, 300], Some(302)),
            (301, &[301, 301, 300], None),
            (300, &[301, 301, 300], Some(301)),
            (300, &[301, 300], None),
            (400, &[1, 1, 1, 301], Some(301)),
            (400, &[1, 1], None),
            (1, &[1, 1, 1, 301], Some(301)),
        ] {
            let gives_way = face_that_gives_way(face(newcomer), holders(of).into_iter());
            assert_eq!(gives_way, wanted.map(face), "{newcomer} {of:?}");
        }
    }
}

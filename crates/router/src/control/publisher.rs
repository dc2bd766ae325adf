//! Datasets as Data packets: versioned, in segments, kept while they are fetched and while they are among the last 256 packets.
//!
//! "`<name>/<version>/<segment>`, 8000 octets a segment, FreshnessPeriod 1 s, CachePolicy NoCache." FinalBlockId is in all segments: NDNd's
//! client wants it in the first, others in the last. Only content is kept; packets are made when asked for.
//!
//! A dataset is made a part at a time, as tables can be long; who asks for it meanwhile waits for the same one.

use super::FRESHNESS_MS;
use super::shares::face_that_gives_way;
use nw_api::management::{Dataset, FaceQueryFilter};
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Instant};
use nw_wire::{DataBuilder, DigestSha256, PACKET_LEN_MAX, Token};
use std::collections::VecDeque;
use std::ops::Range;

const SEGMENT_LEN_MAX: usize = 8000;
/// The last packets are kept whatever their age, as NFD keeps so many: a client may ask once more for what it lost after seconds.
const KEPT_PACKETS: usize = 256;
/// A version that is not among them is kept for so long after it was last asked for.
const KEPT_MS: u64 = 1000;
/// Octets of content kept; the version asked for longest ago gives way. The newest is kept whatever its size.
const KEPT_LEN_MAX: usize = 64 << 20;
const KEPT_COUNT_MAX: usize = 256;
/// Datasets that are being made at one time.
const MAKING_MAX: usize = 64;
/// Who waits for one of them.
const ASKING_MAX: usize = 64;
/// Segments of old versions freed in one part.
const FREED_PER_PART: usize = 8;

/// A dataset that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks<'a> {
    pub(super) dataset: Dataset,
    /// The name up to the version.
    pub(super) prefix: NameRef<'a>,
    pub(super) version: Option<u64>,
    pub(super) segment: Option<u64>,
    pub(super) can_be_prefix: bool,
    /// The face whose share it uses.
    pub(super) face: FaceId,
}

/// How far the making of a dataset has come.
#[derive(Debug)]
pub(super) enum Place {
    /// The beginning.
    Start,
    /// Behind this name, of those the table is ordered by.
    Behind(Name),
    /// At this one of the faces there were at the beginning.
    Faces(Vec<FaceId>, usize),
}

/// A dataset that is being made.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) dataset: Dataset,
    pub(super) filter: FaceQueryFilter,
    pub(super) place: Place,
    /// What the content is made of, where that can be told; equal means equal content.
    pub(super) generation: Option<u64>,
    pub(super) content: Segments,
    prefix: Name,
    face: FaceId,
    asking: Vec<Token>,
}

/// Content, cut into segments as it grows.
#[derive(Debug)]
pub(super) struct Segments {
    segments: Vec<Vec<u8>>,
    segment_len: usize,
    len: usize,
}

impl Segments {
    /// Appends octets.
    pub(super) fn push(&mut self, mut octets: &[u8]) {
        self.len += octets.len();
        while !octets.is_empty() {
            if self.segments.last().is_none_or(|last| last.len() == self.segment_len) {
                self.segments.push(Vec::new());
            }
            let last = self.segments.last_mut().expect("one was just added");
            let (now, later) = octets.split_at(octets.len().min(self.segment_len - last.len()));
            last.extend_from_slice(now);
            octets = later;
        }
    }
}

#[derive(Debug)]
struct Publication {
    prefix: Name,
    face: FaceId,
    version: u64,
    generation: Option<u64>,
    content: Segments,
    used: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Publisher {
    /// By last use, the oldest first.
    kept: Vec<Publication>,
    version: u64,
    making: VecDeque<Making>,
    /// Contents that nobody fetches any more: freeing much at once takes its time, and so did gathering the segments of all in one list.
    freed: Vec<Vec<Vec<u8>>>,
    /// How often there were too many.
    shortages: u64,
}

impl Publisher {
    /// The first packet of a version that was made of what there is now.
    pub(super) fn current(&mut self, now: Instant, prefix: NameRef<'_>, generation: u64) -> Option<Vec<u8>> {
        let same = |kept: &Publication| kept.generation == Some(generation) && kept.prefix.as_ref() == prefix;
        let at = self.kept.iter().position(same)?;
        self.use_segment(now, at, 0)
    }

    /// Begins a version, or lets the asker wait for one that was begun. False when it can't be: the name leaves no room for content, or too many
    /// are being made.
    pub(super) fn begin(
        &mut self,
        asks: &Asks<'_>,
        filter: FaceQueryFilter,
        generation: Option<u64>,
        token: Token,
    ) -> bool {
        if let Some(making) = self.making.iter_mut().find(|making| making.prefix.as_ref() == asks.prefix) {
            if making.asking.contains(&token) {
                return true;
            }
            if making.asking.len() >= ASKING_MAX {
                self.shortages += 1;
                making.asking.remove(0);
            }
            making.asking.push(token);
            return true;
        }
        let Some(segment_len) = segment_len(asks.prefix) else { return false };
        if self.making.len() >= MAKING_MAX {
            self.shortages += 1;
            let faces = self.making.iter().map(|making| making.face);
            let Some(most) = face_that_gives_way(asks.face, faces) else { return false };
            let at = self.making.iter().position(|making| making.face == most);
            at.and_then(|at| self.making.remove(at));
        }
        self.making.push_back(Making {
            dataset: asks.dataset,
            filter,
            place: Place::Start,
            generation,
            content: Segments { segments: Vec::new(), segment_len, len: 0 },
            prefix: asks.prefix.to_name(),
            face: asks.face,
            asking: vec![token],
        });
        true
    }

    /// The one to be worked on next, or the one of this name; to be given back by [`go_on`](Self::go_on) or [`publish`](Self::publish).
    pub(super) fn take(&mut self, prefix: Option<NameRef<'_>>) -> Option<Making> {
        let at = match prefix {
            Some(prefix) => self.making.iter().position(|making| making.prefix.as_ref() == prefix)?,
            None => 0,
        };
        self.making.remove(at)
    }

    /// There is more to come; others have their turn first.
    pub(super) fn go_on(&mut self, making: Making) {
        self.making.push_back(making);
    }

    /// It is whole: gives its first packet, and who asked.
    pub(super) fn publish(
        &mut self,
        now: Instant,
        unix_ms: u64,
        making: Making,
    ) -> (Option<Vec<u8>>, Vec<Token>) {
        self.make_room(making.content.len, making.face);
        // Versions grow, also when the clock does not.
        self.version = unix_ms.max(self.version + 1);
        let Making { prefix, face, generation, content, asking, .. } = making;
        self.kept.push(Publication { prefix, face, version: self.version, generation, content, used: now });
        (self.use_segment(now, self.kept.len() - 1, 0), asking)
    }

    /// A packet of a version that is kept.
    pub(super) fn kept(
        &mut self,
        now: Instant,
        prefix: NameRef<'_>,
        version: u64,
        segment: u64,
    ) -> Option<Vec<u8>> {
        let at =
            self.kept.iter().position(|kept| kept.version == version && kept.prefix.as_ref() == prefix)?;
        self.use_segment(now, at, segment)
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.kept[..self.beyond_packets()].first().map(|oldest| oldest.used.plus_millis(KEPT_MS))
    }

    pub(super) fn expire(&mut self, now: Instant) {
        let beyond = self.beyond_packets();
        let over = self.kept[..beyond].partition_point(|kept| kept.used.plus_millis(KEPT_MS) <= now);
        self.give_way(0..over);
    }

    /// How many of the versions, the oldest first, are not among the last [`KEPT_PACKETS`] packets.
    fn beyond_packets(&self) -> usize {
        let mut packets = 0;
        let recent = self.kept.iter().rev().take_while(|kept| {
            packets += kept.content.segments.len().max(1);
            packets <= KEPT_PACKETS
        });
        self.kept.len() - recent.count()
    }

    /// Returns how often there were too many datasets or askers.
    pub(super) const fn shortages(&self) -> u64 {
        self.shortages
    }

    /// True when a dataset is being made, or old ones are to be freed.
    pub(super) fn has_work(&self) -> bool {
        !self.making.is_empty() || !self.freed.is_empty()
    }

    /// Frees a part of what is old.
    pub(super) fn free_part(&mut self) {
        let Some(segments) = self.freed.last_mut() else { return };
        segments.truncate(segments.len().saturating_sub(FREED_PER_PART));
        if segments.is_empty() {
            self.freed.pop();
        }
    }

    fn use_segment(&mut self, now: Instant, at: usize, segment: u64) -> Option<Vec<u8>> {
        self.kept[at].used = now;
        self.kept[at..].rotate_left(1);
        self.kept.last()?.segment(segment)
    }

    fn make_room(&mut self, len: usize, face: FaceId) {
        let mut total = len + self.kept.iter().map(|kept| kept.content.len).sum::<usize>();
        while !self.kept.is_empty() && (total > KEPT_LEN_MAX || self.kept.len() >= KEPT_COUNT_MAX) {
            // Each face pushes out its own before those of others that have less.
            let faces = self.kept.iter().map(|kept| kept.face);
            let most = face_that_gives_way(face, faces).unwrap_or(face);
            let at = self.kept.iter().position(|kept| kept.face == most).unwrap_or(0);
            total -= self.kept[at].content.len;
            self.give_way(at..at + 1);
        }
    }

    fn give_way(&mut self, over: Range<usize>) {
        let segments = self.kept.drain(over).map(|old| old.content.segments);
        self.freed.extend(segments.filter(|segments| segments.len() > FREED_PER_PART));
    }
}

impl Publication {
    fn segment(&self, segment: u64) -> Option<Vec<u8>> {
        let segments = &self.content.segments;
        let last = segments.len().saturating_sub(1) as u64;
        if segment > last {
            return None;
        }
        // A dataset without items is one empty segment.
        let content = segments.get(segment as usize).map_or(&[][..], Vec::as_slice);
        let name = self.prefix.clone().with_version(self.version).with_segment(segment);
        let last = Name::new().with_segment(last);
        let data = DataBuilder::new(&name, content).freshness_ms(FRESHNESS_MS).final_block_of(last.as_ref());
        let Ok(wire) = data.encode(&DigestSha256);
        Some(wire)
    }
}

/// Room for content in a packet of this name: version, segment, MetaInfo, signature and heads take less than 120 octets.
fn segment_len(prefix: NameRef<'_>) -> Option<usize> {
    let room = PACKET_LEN_MAX.checked_sub(prefix.as_bytes().len() + 120)?;
    (room >= 256).then_some(room.min(SEGMENT_LEN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_long_is_freed_where_it_is_and_in_parts() {
        let mut publisher = Publisher::default();
        let (second, third) = (2 * FREED_PER_PART + 1, FREED_PER_PART + 1);
        for (version, segments) in [(1, 1), (2, second), (3, third), (4, KEPT_PACKETS)] {
            publisher.kept.push(Publication {
                prefix: Name::new(),
                face: FaceId::INTERNAL,
                version,
                generation: None,
                content: Segments { segments: vec![vec![0; 8]; segments], segment_len: 8, len: 8 * segments },
                used: Instant::START,
            });
        }
        let before = publisher.kept[1].content.segments.as_ptr();
        publisher.expire(Instant::START.plus_millis(KEPT_MS));
        assert_eq!(publisher.kept.len(), 1, "the last packets are kept");
        assert_eq!(publisher.freed[0].as_ptr(), before, "a long list is not copied");
        let mut parts = 0;
        while publisher.has_work() {
            publisher.free_part();
            parts += 1;
        }
        assert_eq!(parts, 3 + 2, "the short one needed no part");
    }
}

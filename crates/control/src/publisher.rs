//! Publishes datasets as segmented, versioned Data packets.
//!
//! "`<name>/<version>/<segment>`, 8000 bytes a segment, FreshnessPeriod 1 s, CachePolicy NoCache."
//! FinalBlockId is in all segments: NDNd's client expects it in the first, others in the last. Only
//! content is stored; packets are encoded on request.
//!
//! A dataset is built in parts, as tables can be long. Interests for it that arrive meanwhile wait
//! for the same version. A version is kept while it is among the last 256 packets, or was requested
//! within the last second.

use super::FRESHNESS_MS;
use super::shares::face_to_evict;
use nw_api::management::{Dataset, FaceQueryFilter};
use nw_name::{Name, NameRef};
use nw_tables::{FaceId, Timestamp};
use nw_wire::{DataBuilder, DigestSha256, PACKET_LEN_MAX, Token};
use std::collections::VecDeque;
use std::ops::Range;

const SEGMENT_LEN_MAX: usize = 8000;
/// The most recent packets are kept regardless of their age, as many as NFD keeps: a client may
/// request lost packets again after seconds.
const RECENT_PACKETS: usize = 256;
/// Milliseconds after its last request for which any other version is kept.
const IDLE_MS: u64 = 1000;
/// Bytes of content that are kept. The version requested longest ago is evicted; the newest is kept
/// regardless of its size.
const CONTENT_BYTES_MAX: usize = 64 << 20;
const VERSIONS_MAX: usize = 256;
/// Datasets that may be under construction at the same time.
const BUILDS_MAX: usize = 64;
/// Interests that may wait for one of them.
const WAITING_MAX: usize = 64;
/// Segments of old versions that are freed in one part.
const FREED_PER_PART: usize = 8;

/// An Interest for a dataset.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatasetRequest<'a> {
    pub(super) dataset: Dataset,
    /// Name without version and segment.
    pub(super) prefix: NameRef<'a>,
    pub(super) version: Option<u64>,
    pub(super) segment: Option<u64>,
    pub(super) can_be_prefix: bool,
    /// Face that is charged for its share of the pools.
    pub(super) face: FaceId,
}

/// Position in the table that a dataset is built from.
#[derive(Debug)]
pub(super) enum BuildCursor {
    /// At the start.
    Start,
    /// After this name.
    After(Name),
    /// At this index of the faces that existed at the start.
    Faces(Vec<FaceId>, usize),
}

/// A dataset under construction.
#[derive(Debug)]
pub(super) struct DatasetBuild {
    pub(super) dataset: Dataset,
    pub(super) filter: FaceQueryFilter,
    pub(super) cursor: BuildCursor,
    /// Generation of the table that the content is built from; equal generations have equal
    /// content.
    pub(super) generation: Option<u64>,
    pub(super) content: Segments,
    prefix: Name,
    face: FaceId,
    waiting: Vec<Token>,
}

/// Content that is split into segments as it grows.
#[derive(Debug)]
pub(super) struct Segments {
    segments: Vec<Vec<u8>>,
    segment_len: usize,
    len: usize,
}

impl Segments {
    /// Appends bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len();
        while !bytes.is_empty() {
            if self.segments.last().is_none_or(|last| last.len() == self.segment_len) {
                self.segments.push(Vec::new());
            }
            let last = self.segments.last_mut().expect("one was just added");
            let (head, tail) = bytes.split_at(bytes.len().min(self.segment_len - last.len()));
            last.extend_from_slice(head);
            bytes = tail;
        }
    }
}

/// A published version of a dataset.
#[derive(Debug)]
struct Publication {
    prefix: Name,
    face: FaceId,
    version: u64,
    generation: Option<u64>,
    content: Segments,
    last_used: Timestamp,
}

/// Published versions and datasets under construction.
#[derive(Debug, Default)]
pub(super) struct Publisher {
    /// In the order of their last request, the oldest first.
    publications: Vec<Publication>,
    version: u64,
    builds: VecDeque<DatasetBuild>,
    /// Content of evicted versions. It is freed in parts, as freeing much at once takes long.
    to_free: Vec<Vec<Vec<u8>>>,
    /// How often a pool was full.
    shortages: u64,
}

impl Publisher {
    /// Returns the first packet of a version with this generation, if there is one.
    pub(super) fn current_packet(
        &mut self,
        now: Timestamp,
        prefix: NameRef<'_>,
        generation: u64,
    ) -> Option<Vec<u8>> {
        let is_current = |publication: &Publication| {
            publication.generation == Some(generation) && publication.prefix.as_ref() == prefix
        };
        let index = self.publications.iter().position(is_current)?;
        self.touch_and_encode(now, index, 0)
    }

    /// Starts to build a version, or makes the Interest wait for one under construction. Returns
    /// `false` if the name leaves no capacity for content, or too many datasets are under
    /// construction.
    pub(super) fn start_build(
        &mut self,
        request: &DatasetRequest<'_>,
        filter: FaceQueryFilter,
        generation: Option<u64>,
        token: Token,
    ) -> bool {
        if let Some(build) =
            self.builds.iter_mut().find(|build| build.prefix.as_ref() == request.prefix)
        {
            if build.waiting.contains(&token) {
                return true;
            }
            if build.waiting.len() >= WAITING_MAX {
                self.shortages += 1;
                build.waiting.remove(0);
            }
            build.waiting.push(token);
            return true;
        }
        let Some(segment_len) = segment_len(request.prefix) else { return false };
        if self.builds.len() >= BUILDS_MAX {
            self.shortages += 1;
            let faces = self.builds.iter().map(|build| build.face);
            let Some(heaviest) = face_to_evict(request.face, faces) else { return false };
            let index = self.builds.iter().position(|build| build.face == heaviest);
            index.and_then(|index| self.builds.remove(index));
        }
        self.builds.push_back(DatasetBuild {
            dataset: request.dataset,
            filter,
            cursor: BuildCursor::Start,
            generation,
            content: Segments { segments: Vec::new(), segment_len, len: 0 },
            prefix: request.prefix.to_name(),
            face: request.face,
            waiting: vec![token],
        });
        true
    }

    /// Removes and returns the dataset with this name, or the next one to build. The caller gives
    /// it back by [`requeue`](Self::requeue) or [`publish`](Self::publish).
    pub(super) fn take_build(&mut self, prefix: Option<NameRef<'_>>) -> Option<DatasetBuild> {
        let index = match prefix {
            Some(prefix) => self.builds.iter().position(|build| build.prefix.as_ref() == prefix)?,
            None => 0,
        };
        self.builds.remove(index)
    }

    /// Queues an incomplete dataset behind the others.
    pub(super) fn requeue(&mut self, build: DatasetBuild) {
        self.builds.push_back(build);
    }

    /// Publishes a complete dataset. Returns its first packet and the tokens of the waiting
    /// Interests.
    pub(super) fn publish(
        &mut self,
        now: Timestamp,
        unix_ms: u64,
        build: DatasetBuild,
    ) -> (Option<Vec<u8>>, Vec<Token>) {
        self.evict_for(build.content.len, build.face);
        // Versions increase, also when the clock does not.
        self.version = unix_ms.max(self.version + 1);
        let DatasetBuild { prefix, face, generation, content, waiting, .. } = build;
        self.publications.push(Publication {
            prefix,
            face,
            version: self.version,
            generation,
            content,
            last_used: now,
        });
        (self.touch_and_encode(now, self.publications.len() - 1, 0), waiting)
    }

    /// Returns a packet of a published version.
    pub(super) fn published_packet(
        &mut self,
        now: Timestamp,
        prefix: NameRef<'_>,
        version: u64,
        segment: u64,
    ) -> Option<Vec<u8>> {
        let index = self.publications.iter().position(|publication| {
            publication.version == version && publication.prefix.as_ref() == prefix
        })?;
        self.touch_and_encode(now, index, segment)
    }

    /// Returns when the next version expires.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.publications[..self.expirable_len()]
            .first()
            .map(|oldest| oldest.last_used.plus_millis(IDLE_MS))
    }

    /// Evicts expired versions.
    pub(super) fn expire(&mut self, now: Timestamp) {
        let expirable = self.expirable_len();
        let expired = self.publications[..expirable]
            .partition_point(|publication| publication.last_used.plus_millis(IDLE_MS) <= now);
        self.evict(0..expired);
    }

    /// Returns how many versions, the oldest first, are not among the last [`RECENT_PACKETS`]
    /// packets.
    fn expirable_len(&self) -> usize {
        let mut packets = 0;
        let recent = self.publications.iter().rev().take_while(|publication| {
            packets += publication.content.segments.len().max(1);
            packets <= RECENT_PACKETS
        });
        self.publications.len() - recent.count()
    }

    /// Returns how often there were too many datasets or waiting Interests.
    pub(super) const fn shortages(&self) -> u64 {
        self.shortages
    }

    /// Returns whether a dataset is under construction or old content remains to be freed.
    pub(super) fn has_work(&self) -> bool {
        !self.builds.is_empty() || !self.to_free.is_empty()
    }

    /// Frees a part of the evicted content.
    pub(super) fn free_part(&mut self) {
        let Some(segments) = self.to_free.last_mut() else { return };
        segments.truncate(segments.len().saturating_sub(FREED_PER_PART));
        if segments.is_empty() {
            self.to_free.pop();
        }
    }

    /// Marks a version as used and returns one of its packets.
    fn touch_and_encode(&mut self, now: Timestamp, index: usize, segment: u64) -> Option<Vec<u8>> {
        self.publications[index].last_used = now;
        self.publications[index..].rotate_left(1);
        self.publications.last()?.segment(segment)
    }

    /// Evicts versions until there is capacity for `len` bytes of `face`.
    fn evict_for(&mut self, len: usize, face: FaceId) {
        let mut total = len
            + self.publications.iter().map(|publication| publication.content.len).sum::<usize>();
        while !self.publications.is_empty()
            && (total > CONTENT_BYTES_MAX || self.publications.len() >= VERSIONS_MAX)
        {
            // A face's own versions are evicted before those of faces that have fewer.
            let faces = self.publications.iter().map(|publication| publication.face);
            let heaviest = face_to_evict(face, faces).unwrap_or(face);
            let index = self
                .publications
                .iter()
                .position(|publication| publication.face == heaviest)
                .unwrap_or(0);
            total -= self.publications[index].content.len;
            self.evict(index..index + 1);
        }
    }

    /// Removes versions; long ones are freed in parts later.
    fn evict(&mut self, range: Range<usize>) {
        let segments =
            self.publications.drain(range).map(|publication| publication.content.segments);
        self.to_free.extend(segments.filter(|segments| segments.len() > FREED_PER_PART));
    }
}

impl Publication {
    /// Returns a packet of this version. `None` behind the last segment.
    fn segment(&self, segment: u64) -> Option<Vec<u8>> {
        let segments = &self.content.segments;
        let last = segments.len().saturating_sub(1) as u64;
        if segment > last {
            return None;
        }
        // A dataset without items has one empty segment.
        let content = segments.get(segment as usize).map_or(&[][..], Vec::as_slice);
        let name = self.prefix.clone().with_version(self.version).with_segment(segment);
        let last = Name::new().with_segment(last);
        let data = DataBuilder::new(&name, content)
            .freshness_ms(FRESHNESS_MS)
            .final_block_of(last.as_ref());
        let Ok(wire) = data.encode(&DigestSha256);
        Some(wire)
    }
}

/// Returns the capacity for content in a packet with this name: version, segment, MetaInfo,
/// signature and headers take less than 120 bytes.
fn segment_len(prefix: NameRef<'_>) -> Option<usize> {
    let capacity = PACKET_LEN_MAX.checked_sub(prefix.as_bytes().len() + 120)?;
    (capacity >= 256).then_some(capacity.min(SEGMENT_LEN_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publisher_long_expired_dataset_is_freed_in_parts_without_copy() {
        let mut publisher = Publisher::default();
        let (second, third) = (2 * FREED_PER_PART + 1, FREED_PER_PART + 1);
        for (version, segments) in [(1, 1), (2, second), (3, third), (4, RECENT_PACKETS)] {
            publisher.publications.push(Publication {
                prefix: Name::new(),
                face: FaceId::INTERNAL,
                version,
                generation: None,
                content: Segments {
                    segments: vec![vec![0; 8]; segments],
                    segment_len: 8,
                    len: 8 * segments,
                },
                last_used: Timestamp::START,
            });
        }
        let before = publisher.publications[1].content.segments.as_ptr();
        publisher.expire(Timestamp::START.plus_millis(IDLE_MS));
        assert_eq!(publisher.publications.len(), 1, "the last packets are kept");
        assert_eq!(publisher.to_free[0].as_ptr(), before, "a long list is not copied");
        let mut parts = 0;
        while publisher.has_work() {
            publisher.free_part();
            parts += 1;
        }
        assert_eq!(parts, 3 + 2, "the short one needed no part");
    }
}

//! Datasets as Data packets: versioned, in segments, kept for as long as somebody fetches them.
//!
//! "`<name>/<version>/<segment>`, 8000 octets a segment, FreshnessPeriod 1 s, kept 1 s, CachePolicy NoCache." FinalBlockId is in all segments: NDNd's
//! client wants it in the first, others in the last. Only content is kept; packets are made when asked for.

use super::FRESHNESS_MS;
use nw_api::management::Dataset;
use nw_name::{Name, NameRef};
use nw_tables::Instant;
use nw_wire::{DataBuilder, DigestSha256, PACKET_LEN_MAX};

const SEGMENT_LEN_MAX: usize = 8000;
/// A version is kept for so long after it was last asked for.
const KEPT_MS: u64 = 1000;
/// Octets of content kept; the version asked for longest ago gives way. The newest is kept whatever its size.
const KEPT_LEN_MAX: usize = 64 << 20;
const KEPT_COUNT_MAX: usize = 256;

/// A dataset that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks<'a> {
    pub(super) dataset: Dataset,
    /// The name up to the version.
    pub(super) prefix: NameRef<'a>,
    pub(super) version: Option<u64>,
    pub(super) segment: Option<u64>,
    pub(super) can_be_prefix: bool,
}

#[derive(Debug)]
struct Publication {
    prefix: Name,
    version: u64,
    /// What the content was made of, where that can be told; equal means equal content.
    generation: Option<u64>,
    content: Vec<u8>,
    segment_len: usize,
    used: Instant,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Publisher {
    /// By last use, the oldest first.
    kept: Vec<Publication>,
    version: u64,
}

impl Publisher {
    pub(super) const fn new() -> Self {
        Publisher { kept: Vec::new(), version: 0 }
    }

    /// The first packet of a version that is as new as can be, made from `content` unless one of the same generation is kept. `None` when the
    /// name leaves no room for content.
    pub(super) fn newest(
        &mut self,
        now: Instant,
        unix_ms: u64,
        prefix: NameRef<'_>,
        generation: Option<u64>,
        content: impl FnOnce() -> Vec<u8>,
    ) -> Option<Vec<u8>> {
        let segment_len = segment_len(prefix)?;
        let same = |kept: &Publication| kept.generation == generation && kept.prefix.as_ref() == prefix;
        let known = if generation.is_some() { self.kept.iter().position(same) } else { None };
        let at = known.unwrap_or_else(|| {
            let content = content();
            self.make_room(content.len());
            // Versions grow, also when the clock does not.
            self.version = unix_ms.max(self.version + 1);
            let (prefix, version) = (prefix.to_name(), self.version);
            self.kept.push(Publication { prefix, version, generation, content, segment_len, used: now });
            self.kept.len() - 1
        });
        self.use_segment(now, at, 0)
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
        self.kept.first().map(|oldest| oldest.used.plus_millis(KEPT_MS))
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.kept.retain(|kept| now < kept.used.plus_millis(KEPT_MS));
    }

    fn use_segment(&mut self, now: Instant, at: usize, segment: u64) -> Option<Vec<u8>> {
        self.kept[at].used = now;
        self.kept[at..].rotate_left(1);
        self.kept.last()?.segment(segment)
    }

    fn make_room(&mut self, len: usize) {
        let mut total = len + self.kept.iter().map(|kept| kept.content.len()).sum::<usize>();
        let mut give_way = 0;
        while give_way < self.kept.len()
            && (total > KEPT_LEN_MAX || self.kept.len() - give_way >= KEPT_COUNT_MAX)
        {
            total -= self.kept[give_way].content.len();
            give_way += 1;
        }
        self.kept.drain(..give_way);
    }
}

impl Publication {
    fn segment(&self, segment: u64) -> Option<Vec<u8>> {
        let last = (self.content.len().saturating_sub(1) / self.segment_len) as u64;
        if segment > last {
            return None;
        }
        let start = segment as usize * self.segment_len;
        let content = &self.content[start..self.content.len().min(start + self.segment_len)];
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

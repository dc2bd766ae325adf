//! A member of a sync group with its packets: Sync Interests, Data of its publications, and
//! snapshots.
//!
//! ```text
//! …/t=BOOT/32=SNAP/32=metadata/v=N/seg=0    name of the newest snapshot
//! …/t=BOOT/32=SNAP/v=N/seg=0                snapshot N: publication N, the newest
//! ```
//!
//! Snapshots are those of NDNd's `SnapshotNodeLatest`, whose members read one before the first
//! publication of a member. Invariant: a publication keeps its name and its bytes; the oldest ones
//! are dropped at the limit.

use super::group::{SyncGroup, SyncUpdate};
use super::vector::StateVector;
use nw_element_api::Timestamp;
use nw_name::convention::{Kind, METADATA};
use nw_name::{Component, ComponentType, Name, NameRef};
use nw_wire::{Data, DataBuilder, Interest, InterestBuilder, Sign};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of all kept publications at most.
const KEPT_BYTES_MAX: usize = 64 << 20;
/// Bytes that count for a kept Data beside its own: its name twice, and what the table needs.
const KEPT_HEAD_BYTES: usize = 256;
/// Content bytes of a segment. A publication that is not longer is one Data.
const SEGMENT_BYTES: usize = 8000;
/// Segments of a publication at most.
pub const SEGMENTS_MAX: u64 = 1024;
/// Bytes of a publication at most.
pub const PUBLICATION_BYTES_MAX: usize = SEGMENTS_MAX as usize * SEGMENT_BYTES;
/// Component type that is greater than all of a publication's name.
const LAST_TYPE: ComponentType = match ComponentType::new(u16::MAX) {
    Some(last) => last,
    None => ComponentType::SEGMENT,
};
/// FreshnessPeriod of publications, milliseconds.
const FRESHNESS_MS: u64 = 10_000;
/// FreshnessPeriod of the name of the newest snapshot, milliseconds.
const NEWEST_FRESHNESS_MS: u64 = 10;
/// Component after the group in names of Sync Interests.
const SVS: Component<'static> = Component::keyword(b"svs");
/// Component before the number of a snapshot.
const SNAPSHOT: Component<'static> = Component::keyword(b"SNAP");
/// InterestLifetime of Sync Interests, milliseconds. They are not answered.
const LIFETIME_MS: u64 = 1000;

/// Returns the name of a publication's first segment.
pub fn publication_name(group: &Name, member: &Name, boot_s: u64, number: u64) -> Name {
    group
        .clone()
        .with_name(member.as_ref())
        .with_number(ComponentType::TIMESTAMP, boot_s)
        .with_number(ComponentType::SEQUENCE, number)
        .with_number(ComponentType::VERSION, 0)
        .with_number(ComponentType::SEGMENT, 0)
}

/// Returns the name of a member's snapshots, without a number.
pub fn snapshot_name(group: &Name, member: &Name, boot_s: u64) -> Name {
    let of_member = group.clone().with_name(member.as_ref());
    of_member.with_number(ComponentType::TIMESTAMP, boot_s).with(SNAPSHOT)
}

/// Returns whether a Data packet with this name carries a state vector of the group:
/// `/GROUP/32=svs/v=N`, or NDNd's `/GROUP/MEMBER/t=BOOT/32=svs/v=N`. Vectors of other groups have
/// other names, and publications, too, which can have any content.
pub fn is_vector_name(group: &Name, name: NameRef<'_>) -> bool {
    let Some(member_len) = name.len().checked_sub(group.as_ref().len() + 2) else { return false };
    let is_typed =
        |at: isize, typ| name.component(at).is_some_and(|component| component.typ() == typ);
    group.as_ref().is_prefix_of(name)
        && is_typed(-1, ComponentType::VERSION)
        && name.component(-2) == Some(SVS)
        && (member_len == 0 || is_typed(-3, ComponentType::TIMESTAMP))
}

/// A member of a group.
#[derive(Debug)]
pub struct SyncMember<S> {
    group: Name,
    name: Name,
    boot_s: u64,
    sync_name: Name,
    state: SyncGroup,
    signer: S,
    /// Data of publications.
    kept: BTreeMap<Name, Vec<u8>>,
    /// Their names, oldest first.
    ages: VecDeque<Name>,
    kept_bytes: usize,
    /// Number of the last publication, by the name before `seq=`.
    newest: BTreeMap<Name, u64>,
}

impl<S: Sign> SyncMember<S> {
    /// Creates a member that has published nothing. `boot_s`: the time of its start in seconds
    /// since 1970; a later start needs a later one. `seed`: differs for each member.
    pub fn new(group: Name, name: Name, boot_s: u64, now: Timestamp, seed: u64, signer: S) -> Self {
        let sync_name = group.clone().with(SVS).with_number(ComponentType::VERSION, 3);
        SyncMember {
            state: SyncGroup::new(name.clone(), boot_s, now, seed),
            group,
            name,
            boot_s,
            sync_name,
            signer,
            kept: BTreeMap::new(),
            ages: VecDeque::new(),
            kept_bytes: 0,
            newest: BTreeMap::new(),
        }
    }

    /// Returns the prefix of Sync Interests, which all members register, and each one's own.
    ///
    /// The first one has no version: NDNd and NDNTs register the same, and NDNTs without
    /// inheritance, so that a longer prefix would keep Sync Interests from it.
    pub fn prefixes(&self) -> [Name; 2] {
        let sync_prefix = self.group.clone().with(SVS);
        [sync_prefix, self.group.clone().with_name(self.name.as_ref())]
    }

    /// Returns the time of the next Sync Interest.
    pub const fn deadline(&self) -> Timestamp {
        self.state.deadline()
    }

    /// Makes names below the member's name own ones, for [`publish_below`](Self::publish_below).
    pub const fn own_names_below(&mut self) {
        self.state.own_names_below();
    }

    /// Publishes, and returns the number of the publication; `None` if the state vector of the
    /// group is full, so that another member does not fit, or if the content has more than
    /// [`PUBLICATION_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// If the Data can't be signed.
    pub fn publish(&mut self, now: Timestamp, content: &[u8]) -> Result<Option<u64>, S::Error> {
        self.publish_below(now, NameRef::from_checked(&[]), content)
    }

    /// Publishes under the member's name and `suffix`, which others take for a member of its own.
    /// Returns what [`publish`](Self::publish) does.
    ///
    /// # Errors
    /// If the Data can't be signed.
    pub fn publish_below(
        &mut self,
        now: Timestamp,
        suffix: NameRef<'_>,
        content: &[u8],
    ) -> Result<Option<u64>, S::Error> {
        if content.len() > PUBLICATION_BYTES_MAX {
            return Ok(None);
        }
        let member = self.name.clone().with_name(suffix);
        let Some(number) = self.state.publish(&member, now) else { return Ok(None) };
        let first = publication_name(&self.group, &member, self.boot_s, number);
        let object = first.as_ref().parent().map_or_else(Name::new, NameRef::to_name);
        let last = (content.len().div_ceil(SEGMENT_BYTES).max(1) - 1) as u64;
        for segment in 0..=last {
            let start = segment as usize * SEGMENT_BYTES;
            let part = &content[start..content.len().min(start + SEGMENT_BYTES)];
            let name = object.clone().with_segment(segment);
            let data = DataBuilder::new(&name, part).freshness_ms(FRESHNESS_MS);
            let last = object.clone().with_segment(last);
            let wire = data.final_block_of(last.as_ref()).encode(&self.signer)?;
            self.keep(name, wire);
        }
        let before_number = object.as_ref().prefix(object.as_ref().len() - 2).to_name();
        self.newest.insert(before_number, number);
        Ok(Some(number))
    }

    fn keep(&mut self, name: Name, wire: Vec<u8>) {
        self.kept_bytes += KEPT_HEAD_BYTES + wire.len();
        self.ages.push_back(name.clone());
        self.kept.insert(name, wire);
        while self.kept_bytes > KEPT_BYTES_MAX
            && let Some(oldest) = self.ages.pop_front()
        {
            let dropped = self.kept.remove(&oldest);
            self.kept_bytes -= dropped.map_or(0, |wire| KEPT_HEAD_BYTES + wire.len());
        }
    }

    /// Returns a Sync Interest if it is time to send one.
    ///
    /// # Errors
    /// If its Data can't be signed.
    pub fn tick(&mut self, now: Timestamp, nonce: u32) -> Result<Option<Vec<u8>>, S::Error> {
        if !self.state.tick(now) {
            return Ok(None);
        }
        let vector = self.state.vector().encode();
        let data = DataBuilder::new(&self.sync_name, &vector).encode(&self.signer)?;
        let interest = InterestBuilder::new(self.sync_name.clone()).parameters(data);
        Ok(Some(interest.nonce(nonce).lifetime_ms(LIFETIME_MS).encode()))
    }

    /// Returns the Data with the state vector of a Sync Interest of this group. Its name
    /// ([`is_vector_name`]) and its signature are to be verified before
    /// [`receive`](Self::receive). `None` for other Interests.
    pub fn sync_data<'a>(&self, interest: &Interest<'a>) -> Option<&'a [u8]> {
        let is_sync = self.sync_name.as_ref().is_prefix_of(interest.name());
        interest.parameters().filter(|parameters| is_sync && Data::check(parameters).is_ok())
    }

    /// Returns the Data that an Interest for a publication or snapshot of this member is answered
    /// with; with CanBePrefix the last one in canonical order.
    ///
    /// # Errors
    /// If the Data of a snapshot can't be signed.
    pub fn answer(&self, interest: &Interest<'_>) -> Result<Option<Cow<'_, [u8]>>, S::Error> {
        let wanted = interest.name().to_name();
        let components = wanted.as_ref().components();
        let is_mark = |(_, component): &(usize, Component<'_>)| *component == SNAPSHOT;
        let marks = components.enumerate().skip(self.group.as_ref().len()).filter(is_mark);
        if let Some((at, _)) = marks.last()
            && let Some(wire) = self.snapshot(wanted.as_ref(), at, interest.can_be_prefix())?
        {
            return Ok(Some(Cow::Owned(wire)));
        }
        let found = if interest.can_be_prefix() {
            let Ok(last) = Component::new(LAST_TYPE, b"") else { return Ok(None) };
            let end = wanted.clone().with(last);
            self.kept.range(wanted..end).next_back().map(|(_, wire)| wire)
        } else {
            self.kept.get(&wanted)
        };
        Ok(found.map(|wire| Cow::Borrowed(wire.as_slice())))
    }

    /// Returns a snapshot, or the name of the newest one. `at`: where the mark is in the name.
    fn snapshot(
        &self,
        wanted: NameRef<'_>,
        at: usize,
        can_be_prefix: bool,
    ) -> Result<Option<Vec<u8>>, S::Error> {
        let (member, base) = (wanted.prefix(at).to_name(), wanted.prefix(at + 1).to_name());
        let Some(newest) = self.newest.get(&member) else { return Ok(None) };
        let rest: Vec<Component<'_>> = wanted.components().skip(at + 1).collect();
        match rest[..] {
            [component] if component == METADATA && can_be_prefix => {
                let mut content = Vec::new();
                base.with_version(*newest).as_ref().encode(&mut content);
                let name = wanted.to_name().with_version(*newest).with_segment(0);
                let data = DataBuilder::new(&name, &content).freshness_ms(NEWEST_FRESHNESS_MS);
                data.final_block_of(name.as_ref()).encode(&self.signer).map(Some)
            }
            [version, segment] => {
                let Some(number) = Kind::Version.number(version) else { return Ok(None) };
                let publication = member.with_number(ComponentType::SEQUENCE, number);
                let publication = publication.with_number(ComponentType::VERSION, 0).with(segment);
                let Some(kept) = self.kept.get(&publication) else { return Ok(None) };
                let Ok(kept) = Data::check(kept) else { return Ok(None) };
                let name = wanted.to_name();
                let data = DataBuilder::new(&name, kept.content()).freshness_ms(FRESHNESS_MS);
                let last = kept.final_block().unwrap_or(segment);
                data.final_block(last).encode(&self.signer).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Takes a verified state vector, and returns the new publications of other members.
    /// `unix_s`: seconds since 1970.
    pub fn receive(
        &mut self,
        now: Timestamp,
        unix_s: u64,
        vector: &StateVector,
    ) -> Vec<SyncUpdate> {
        self.state.receive(now, unix_s, vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::DigestSha256;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn answer(member: &SyncMember<DigestSha256>, interest: InterestBuilder) -> Option<Vec<u8>> {
        let wire = interest.nonce(1).encode();
        let Ok(found) = member.answer(&Interest::check(&wire).unwrap());
        found.map(Cow::into_owned)
    }

    fn member(name: &str) -> SyncMember<DigestSha256> {
        let (group, name) = ("/g".parse().unwrap(), name.parse().unwrap());
        SyncMember::new(group, name, 1_700_000_000, Timestamp::START, 1, DigestSha256)
    }

    #[test]
    fn publication_is_known_by_a_sync_interest_and_fetched_by_its_name() {
        let (mut a, mut b) = (member("/a"), member("/b"));
        let Ok(number) = a.publish(Timestamp::START, b"hello");
        assert_eq!(number, Some(1));
        let Ok(wire) = a.tick(Timestamp::START, 7);
        let wire = wire.unwrap();
        let interest = Interest::check(&wire).unwrap();
        assert!(interest.name().to_string().starts_with("/g/32=svs/v=3/params-sha256="));
        let data = Data::check(b.sync_data(&interest).unwrap()).unwrap();
        let vector = StateVector::decode(data.content()).unwrap();
        let updates = b.receive(Timestamp::START, 1_700_000_001, &vector);
        assert_eq!((updates[0].first, updates[0].last), (1, 1));
        let name = publication_name(
            &"/g".parse().unwrap(),
            &updates[0].name,
            updates[0].boot_s,
            updates[0].last,
        );
        assert_eq!(name.to_string(), "/g/a/t=1700000000/seq=1/v=0/seg=0");
        let wire = answer(&a, InterestBuilder::new(name.clone())).unwrap();
        let data = Data::check(&wire).unwrap();
        assert_eq!(
            (data.content(), data.final_block()),
            (&b"hello"[..], name.as_ref().component(-1))
        );
        assert!(answer(&b, InterestBuilder::new(name)).is_none());
        let Ok(none) = a.tick(Timestamp::START, 7);
        assert!(none.is_none());
    }

    #[test]
    fn publication_longer_than_a_packet_has_segments() {
        let mut a = member("/a");
        let content: Vec<u8> = (0..20_000_u32).map(|number| number as u8).collect();
        let Ok(number) = a.publish_below(Timestamp::START, name("/x").as_ref(), &content);
        assert_eq!(number, Some(1));
        let prefix = "/g/a/x/t=1700000000/seq=1/v=0";
        let mut received = Vec::new();
        for segment in 0..3 {
            let wire = answer(&a, InterestBuilder::new(name(&format!("{prefix}/seg={segment}"))));
            let wire = wire.unwrap();
            let data = Data::check(&wire).unwrap();
            assert_eq!(data.final_block().unwrap().to_string(), "seg=2");
            received.extend_from_slice(data.content());
        }
        assert!(received == content);
        let first = answer(&a, InterestBuilder::new(name(prefix)).can_be_prefix(true)).unwrap();
        assert_eq!(Data::check(&first).unwrap().name().to_string(), format!("{prefix}/seg=2"));
        let Ok(none) = a.publish(Timestamp::START, &vec![0; PUBLICATION_BYTES_MAX + 1]);
        assert_eq!(none, None);
    }

    #[test]
    fn names_of_vectors_are_those_of_the_group_and_no_publications() {
        let group = name("/g/chat");
        let is_vector = |text: &str| is_vector_name(&group, name(text).as_ref());
        for text in ["/g/chat/32=svs/v=3", "/g/chat/d/x/t=1700000000/32=svs/v=1764288000000000"] {
            assert!(is_vector(text), "{text}");
        }
        for text in [
            "/",
            "/g/chat",
            "/g/chat/v=3",
            "/g/chat/32=svs",
            "/g/chat/32=svs/seg=0",
            "/g/chat/svs/v=3",
            "/g/other/32=svs/v=3",
            "/g/chat/room/32=svs/v=3",
            "/x/g/chat/32=svs/v=3",
            "/g/chat/a/t=1700000000/seq=1/v=0/seg=0",
            "/g/chat/32=svs/t=1700000000/seq=1/v=0/seg=0",
        ] {
            assert!(!is_vector(text), "{text}");
        }
        assert!(!is_vector_name(&group, member("/a").sync_name.as_ref()));
        assert!(is_vector_name(&name("/g"), member("/a").sync_name.as_ref()));
    }

    /// Names and content as NDNd v1.5.3 fetches them.
    #[test]
    fn newest_publication_is_the_snapshot() {
        let mut a = member("/a");
        let snapshot = "/g/a/t=1700000000/32=SNAP";
        let newest = || InterestBuilder::new(name(&format!("{snapshot}/32=metadata")));
        assert!(answer(&a, newest().can_be_prefix(true)).is_none(), "nothing is published");
        for content in ["one", "two"] {
            let Ok(_) = a.publish(Timestamp::START, content.as_bytes());
        }
        let wire = answer(&a, newest().can_be_prefix(true)).unwrap();
        let data = Data::check(&wire).unwrap();
        assert_eq!(data.name().to_string(), format!("{snapshot}/32=metadata/v=2/seg=0"));
        let mut expected = Vec::new();
        name(&format!("{snapshot}/v=2")).as_ref().encode(&mut expected);
        assert_eq!(data.content(), expected);
        for (version, content) in [(1, "one"), (2, "two")] {
            let wanted = name(&format!("{snapshot}/v={version}/seg=0"));
            let wire = answer(&a, InterestBuilder::new(wanted.clone())).unwrap();
            let data = Data::check(&wire).unwrap();
            assert_eq!((data.content(), data.name()), (content.as_bytes(), wanted.as_ref()));
            assert_eq!(data.final_block(), wanted.as_ref().component(-1));
        }
        for other in ["", "/v=3/seg=0", "/v=1/seg=1", "/v=1", "/32=metadata", "/v=1/seg=0/x"] {
            let wanted = name(&format!("{snapshot}{other}"));
            assert!(answer(&a, InterestBuilder::new(wanted)).is_none(), "{other}");
        }
    }
}

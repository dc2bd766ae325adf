//! Publishes a file as segments: each is read, named and signed when it is requested, so memory
//! does not grow with the file.

use crate::client::{Outgoing, Received};
use crate::snapshot::{FileSnapshot, SnapshotError};
use nw_element_api::{Kind, Timestamp};
use nw_name::{Component, ComponentType, Name, NameRef, convention};
use nw_wire::{DataBuilder, Interest, Sign, types};
use std::fs::File;
use std::io;

/// Default content length of a segment, bytes: with names and signatures of common length the
/// packet stays below 8800 bytes.
pub const SEGMENT_LEN_DEFAULT: usize = 8000;

/// Options for publishing a file.
#[derive(Clone, Copy, Debug)]
pub struct PublishOptions {
    /// Content length of a segment, bytes.
    pub segment_len: usize,
    /// FreshnessPeriod of segments, milliseconds.
    pub freshness_ms: u64,
    /// FreshnessPeriod of the packet with the newest version, milliseconds.
    pub metadata_freshness_ms: u64,
}

impl Default for PublishOptions {
    fn default() -> Self {
        PublishOptions {
            segment_len: SEGMENT_LEN_DEFAULT,
            freshness_ms: 10_000,
            metadata_freshness_ms: 10,
        }
    }
}

/// Counters of a publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishCounters {
    /// Segments sent.
    pub segments: u64,
    /// Metadata packets sent.
    pub metadata: u64,
    /// Interests for names outside the publication.
    pub unknown: u64,
    /// Interests that were not answered because reading or signing failed.
    pub failed: u64,
}

/// FreshnessPeriod of application Nacks after the file has changed, milliseconds.
const WITHDRAWN_FRESHNESS_MS: u64 = 1000;

/// Reasons why an Interest is not answered.
enum AnswerError {
    /// The file was changed.
    Changed,
    /// Reading or signing failed.
    Failed(io::Error),
}

impl From<io::Error> for AnswerError {
    fn from(error: io::Error) -> Self {
        AnswerError::Failed(error)
    }
}

impl From<SnapshotError> for AnswerError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Changed => AnswerError::Changed,
            SnapshotError::Read(error) => AnswerError::Failed(error),
        }
    }
}

/// One version of an object, served from a fixed state of a file.
#[derive(Debug)]
pub struct Publication<S> {
    file: FileSnapshot,
    is_changed: bool,
    object: Name,
    versioned: Name,
    last_segment: u64,
    options: PublishOptions,
    signer: S,
    counters: PublishCounters,
    content: Vec<u8>,
}

impl<S: Sign> Publication<S>
where
    S::Error: core::fmt::Display,
{
    /// Publishes the present content of `file` under `object` as `version`, unless the name already
    /// ends in a version. Later changes of the file have no effect, or end the publication: see
    /// [`FileSnapshot`] and [`is_changed`](Self::is_changed).
    ///
    /// # Errors
    /// If the file can't be read or is being written, or packets would be too long.
    pub fn new(
        file: File,
        object: NameRef<'_>,
        version: u64,
        options: PublishOptions,
        signer: S,
    ) -> io::Result<Self> {
        let file = FileSnapshot::new(file)?;
        let bytes = file.len();
        let (object, versioned) = match convention::version(object) {
            Some(_) => (object.parent().expect("ends in a version").to_name(), object.to_name()),
            None => (object.to_name(), object.to_name().with_version(version)),
        };
        let last_segment = bytes.div_ceil(options.segment_len.max(1) as u64).max(1) - 1;
        let publication = Publication {
            file,
            is_changed: false,
            object,
            versioned,
            last_segment,
            options,
            signer,
            counters: PublishCounters::default(),
            content: Vec::with_capacity(options.segment_len),
        };
        publication.check_len()?;
        Ok(publication)
    }

    fn check_len(&self) -> io::Result<()> {
        let name = self.versioned.clone().with_segment(u64::MAX);
        let content = vec![0; self.options.segment_len];
        let packet = self.encode(&name, &content).map_err(io::Error::other)?;
        if packet.len() <= nw_wire::PACKET_LEN_MAX {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "segments of {} bytes make packets of {}, above the limit of {}: choose at most {} bytes",
                self.options.segment_len,
                packet.len(),
                nw_wire::PACKET_LEN_MAX,
                (nw_wire::PACKET_LEN_MAX + self.options.segment_len).saturating_sub(packet.len())
            ),
        ))
    }

    /// Returns the prefix to register: the name of the object.
    pub fn object(&self) -> NameRef<'_> {
        self.object.as_ref()
    }

    /// Returns the name of this version.
    pub fn versioned(&self) -> NameRef<'_> {
        self.versioned.as_ref()
    }

    /// Returns the number of segments, at least one.
    pub const fn segments(&self) -> u64 {
        self.last_segment + 1
    }

    /// Returns the length of the content, bytes.
    pub const fn bytes(&self) -> u64 {
        self.file.len()
    }

    /// Returns whether the file was changed. Then every Interest is answered by an application
    /// Nack, so that consumers stop at once.
    pub const fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns whether the file is neither copied nor shared, so that a change ends the
    /// publication.
    pub const fn is_watched(&self) -> bool {
        self.file.is_watched()
    }

    /// Returns the counters.
    pub const fn counters(&self) -> PublishCounters {
        self.counters
    }

    /// Answers an Interest for this publication. `now_us`: microseconds since 1970, the version of
    /// the metadata.
    pub fn on_interest(
        &mut self,
        _now: Timestamp,
        now_us: u64,
        received: &Received<'_>,
        out: &mut Outgoing,
    ) {
        if received.kind() != Kind::Interest {
            return;
        }
        let Ok(interest) = Interest::check(received.wire) else { return };
        match self.answer(now_us, &interest) {
            Ok(Some(packet)) => out.answer(received, &packet),
            Ok(None) => self.counters.unknown += 1,
            Err(AnswerError::Changed) => {
                self.is_changed = true;
                self.counters.failed += 1;
                if let Ok(packet) = self.withdrawn_packet(&interest) {
                    out.answer(received, &packet);
                }
            }
            Err(AnswerError::Failed(error)) => {
                self.counters.failed += 1;
                tracing::warn!(name = %interest.name(), %error, "can't reply");
            }
        }
    }

    /// Returns an application Nack.
    fn withdrawn_packet(&self, interest: &Interest<'_>) -> Result<Vec<u8>, S::Error> {
        let requested = interest.name().to_name();
        let is_metadata = requested.as_ref().component(-1) == Some(convention::METADATA);
        let name =
            if is_metadata { requested.with_version(u64::MAX).with_segment(0) } else { requested };
        DataBuilder::new(&name, &[])
            .content_type(types::content_type::NACK)
            .freshness_ms(WITHDRAWN_FRESHNESS_MS)
            .encode(&self.signer)
    }

    fn answer(
        &mut self,
        now_us: u64,
        interest: &Interest<'_>,
    ) -> Result<Option<Vec<u8>>, AnswerError> {
        let requested = interest.name();
        if self.is_changed && self.object.as_ref().is_prefix_of(requested) {
            return Err(AnswerError::Changed);
        }
        let metadata = self.object.clone().with(convention::METADATA);
        if requested == metadata.as_ref() {
            self.file.check()?;
            self.counters.metadata += 1;
            return Ok(Some(self.metadata(metadata.with_version(now_us).with_segment(0))?));
        }
        if let Some(suffix) = requested.as_bytes().strip_prefix(self.versioned.as_ref().as_bytes())
        {
            let mut components = NameRef::from_checked(suffix).components();
            let segment = components.next().and_then(|c| convention::Kind::Segment.number(c));
            // By exact name; an implicit digest after it is left for the network to compare.
            if let Some(segment) = segment.filter(|s| *s <= self.last_segment) {
                return self
                    .segment(requested.prefix(self.versioned.as_ref().len() + 1).to_name(), segment)
                    .map(Some);
            }
        }
        if interest.can_be_prefix() && requested.is_prefix_of(self.versioned.as_ref()) {
            return self.segment(self.versioned.clone().with_segment(0), 0).map(Some);
        }
        Ok(None)
    }

    fn segment(&mut self, name: Name, segment: u64) -> Result<Vec<u8>, AnswerError> {
        let start = segment * self.options.segment_len as u64;
        let len = (self.file.len() - start).min(self.options.segment_len as u64) as usize;
        let mut content = core::mem::take(&mut self.content);
        content.resize(len, 0);
        let read = self.file.read_exact_at(&mut content, start);
        let packet = match read {
            Ok(()) => self
                .encode(&name, &content)
                .map_err(|why| AnswerError::Failed(io::Error::other(why))),
            Err(error) => Err(error.into()),
        };
        self.content = content;
        self.counters.segments += u64::from(packet.is_ok());
        packet
    }

    fn encode(&self, name: &Name, content: &[u8]) -> Result<Vec<u8>, String> {
        let last = nw_name::tlv::Integer::new(self.last_segment);
        let last = Component::new(ComponentType::SEGMENT, last.as_bytes()).expect("not a digest");
        DataBuilder::new(name, content)
            .freshness_ms(self.options.freshness_ms)
            .final_block(last)
            .encode(&self.signer)
            .map_err(|error| format!("signing failed: {error}"))
    }

    fn metadata(&self, name: Name) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.versioned.as_ref().encode(&mut content);
        DataBuilder::new(&name, &content)
            .freshness_ms(self.options.metadata_freshness_ms)
            .final_block_of(name.as_ref())
            .encode(&self.signer)
            .map_err(|error| io::Error::other(format!("signing failed: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::{Data, DigestSha256, InterestBuilder};
    use std::io::Write;

    fn publication(bytes: usize) -> Publication<DigestSha256> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&(0..bytes).map(|i| i as u8).collect::<Vec<_>>()).unwrap();
        let object: Name = "/a/file".parse().unwrap();
        Publication::new(
            file,
            object.as_ref(),
            7,
            PublishOptions { segment_len: 100, ..PublishOptions::default() },
            DigestSha256,
        )
        .unwrap()
    }

    fn request(
        publication: &mut Publication<DigestSha256>,
        uri: &str,
        prefix: bool,
    ) -> Option<Vec<u8>> {
        let wire =
            InterestBuilder::new(uri.parse::<Name>().unwrap()).can_be_prefix(prefix).encode();
        publication.answer(55, &Interest::check(&wire).unwrap()).unwrap_or_else(|_| panic!("{uri}"))
    }

    #[test]
    fn segment_after_end_of_file_not_answered() {
        let mut p = publication(250);
        assert_eq!(p.segments(), 3);
        let last = request(&mut p, "/a/file/v=7/seg=2", false).unwrap();
        let data = Data::check(&last).unwrap();
        assert_eq!(data.content().len(), 50);
        assert_eq!(data.final_block().unwrap().integer(), Some(2));
        assert_eq!(request(&mut p, "/a/file/v=7/seg=3", false), None);
        assert_eq!(request(&mut p, "/a/file/v=8/seg=0", false), None);
        assert!(request(&mut p, "/a", true).is_some());
        assert_eq!(request(&mut p, "/a", false), None);
    }

    #[test]
    fn metadata_contains_version() {
        let mut p = publication(0);
        assert_eq!(p.segments(), 1);
        let wire = request(&mut p, "/a/file/32=metadata", true).unwrap();
        let data = Data::check(&wire).unwrap();
        assert_eq!(data.name().to_string(), "/a/file/32=metadata/v=55/seg=0");
        let mut name = Vec::new();
        "/a/file/v=7".parse::<Name>().unwrap().as_ref().encode(&mut name);
        assert_eq!(data.content(), name);
    }

    #[test]
    fn segments_above_packet_limit_rejected_with_advice() {
        let object: Name = "/a".parse().unwrap();
        let options = PublishOptions { segment_len: 9000, ..PublishOptions::default() };
        let error = Publication::new(
            tempfile::tempfile().unwrap(),
            object.as_ref(),
            1,
            options,
            DigestSha256,
        )
        .unwrap_err();
        assert!(error.to_string().contains("choose at most 8"), "{error}");
    }
}

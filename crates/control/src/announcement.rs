//! Prefix announcements: Data packets named `/<prefix>/32=PA/<version>/<segment>` with ContentType
//! 5. The content is an expiration period and, optionally, a validity period.

use nw_api::management::number::EXPIRATION_PERIOD;
use nw_name::NameRef;
use nw_name::convention::{Kind, PREFIX_ANNOUNCEMENT};
use nw_trust::calendar::parse_timestamp;
use nw_wire::types::{NOT_AFTER, NOT_BEFORE, VALIDITY_PERIOD, content_type};
use nw_wire::{Data, Error, Fault, Reader, Tlv};

/// A prefix announcement in valid format. Its signature is not verified here.
#[derive(Debug)]
pub(super) struct Announcement<'a> {
    pub(super) data: Data<'a>,
    pub(super) prefix: NameRef<'a>,
    expiration_ms: u64,
    /// First and last second of validity, since 1970.
    validity_s: Option<(u64, u64)>,
}

impl<'a> Announcement<'a> {
    /// Parses a Data packet as an announcement.
    ///
    /// # Errors
    /// The text names the first field that is missing or malformed.
    pub(super) fn check(wire: &'a [u8]) -> Result<Self, String> {
        let data = Data::check(wire)
            .map_err(|error| format!("the announcement is not a valid Data packet: {error}"))?;
        let name = data.name();
        let len = name.len();
        let component = |index: isize| name.component(index);
        let has_valid_name = len >= 3
            && component(-3) == Some(PREFIX_ANNOUNCEMENT)
            && component(-2).is_some_and(|version| Kind::Version.number(version).is_some())
            && component(-1).is_some_and(|segment| Kind::Segment.number(segment).is_some());
        if !has_valid_name {
            return Err(
                "the name of a prefix announcement must end in 32=PA, a version and a segment"
                    .to_owned(),
            );
        }
        if data.content_type() != content_type::PREFIX_ANNOUNCEMENT {
            return Err("a prefix announcement must have ContentType 5".to_owned());
        }
        let (expiration_ms, validity_s) = parse_content(data.content())
            .map_err(|error| format!("the announcement's content: {error}"))?;
        Ok(Announcement { data, prefix: name.prefix(len - 3), expiration_ms, validity_s })
    }

    /// Returns how many milliseconds from `unix_ms` on a route may live. `None` if the announcement
    /// is not valid at that time.
    pub(super) fn lifetime_ms(&self, unix_ms: u64) -> Option<u64> {
        let lifetime_ms = match self.validity_s {
            None => self.expiration_ms,
            Some((from, to)) => {
                let has_begun = from.saturating_mul(1000) <= unix_ms;
                let remaining_ms =
                    to.saturating_mul(1000).checked_sub(unix_ms).filter(|_| has_begun)?;
                self.expiration_ms.min(remaining_ms)
            }
        };
        (lifetime_ms > 0).then_some(lifetime_ms)
    }
}

fn parse_content(content: &[u8]) -> Result<(u64, Option<(u64, u64)>), Error> {
    let mut reader = Reader::new(content, 0);
    let (mut expiration_ms, mut validity_s) = (None, None);
    while let Some(element) = reader.next()? {
        match element.typ {
            EXPIRATION_PERIOD => expiration_ms = Some(element.integer()?),
            VALIDITY_PERIOD => validity_s = Some(parse_validity(&element)?),
            _ if element.is_critical() => {
                return Err(Error::new(Fault::UnknownCritical, element.start));
            }
            _ => {}
        }
    }
    Ok((expiration_ms.ok_or(Error::new(Fault::MissingField, content.len()))?, validity_s))
}

fn parse_validity(element: &Tlv<'_>) -> Result<(u64, u64), Error> {
    let mut reader = element.inner();
    let mut parse_next = |typ| {
        let field = reader
            .next()?
            .filter(|field| field.typ == typ)
            .ok_or(Error::new(Fault::MissingField, element.start))?;
        parse_timestamp(field.value).ok_or(Error::new(Fault::FieldValue, field.start))
    };
    Ok((parse_next(NOT_BEFORE)?, parse_next(NOT_AFTER)?))
}

//! Prefix announcements: Data `/<prefix>/32=PA/<version>/<segment>` of type 5, whose content says for how long.

use nw_api::management::number::EXPIRATION_PERIOD;
use nw_name::NameRef;
use nw_name::convention::{Kind, PREFIX_ANNOUNCEMENT};
use nw_trust::calendar::parse_moment;
use nw_wire::types::{NOT_AFTER, NOT_BEFORE, VALIDITY_PERIOD, content_type};
use nw_wire::{Data, Error, Fault, Reader, Tlv};

/// A checked announcement. Its signature is not verified here.
#[derive(Debug)]
pub(super) struct Announcement<'a> {
    pub(super) data: Data<'a>,
    pub(super) prefix: NameRef<'a>,
    expiration_ms: u64,
    /// Seconds since 1970: first and last.
    validity_s: Option<(u64, u64)>,
}

impl<'a> Announcement<'a> {
    /// Checks one whole Data packet as an announcement; says what is wrong.
    pub(super) fn check(wire: &'a [u8]) -> Result<Self, String> {
        let data = Data::check(wire).map_err(|error| format!("the announcement is no Data: {error}"))?;
        let name = data.name();
        let len = name.len();
        let part = |index: isize| name.component(index);
        let is_named_so = len >= 3
            && part(-3) == Some(PREFIX_ANNOUNCEMENT)
            && part(-2).is_some_and(|version| Kind::Version.number(version).is_some())
            && part(-1).is_some_and(|segment| Kind::Segment.number(segment).is_some());
        if !is_named_so {
            return Err("an announcement's name ends in 32=PA, a version and a segment".to_owned());
        }
        if data.content_type() != content_type::PREFIX_ANNOUNCEMENT {
            return Err("an announcement has ContentType 5".to_owned());
        }
        let (expiration_ms, validity_s) =
            content(data.content()).map_err(|error| format!("the announcement's content: {error}"))?;
        Ok(Announcement { data, prefix: name.prefix(len - 3), expiration_ms, validity_s })
    }

    /// Milliseconds that a route may live because of it, from `unix_ms` on; `None` when it is not valid then.
    pub(super) fn lifetime_ms(&self, unix_ms: u64) -> Option<u64> {
        let lifetime_ms = match self.validity_s {
            None => self.expiration_ms,
            Some((from, to)) => {
                let in_time = from.saturating_mul(1000) <= unix_ms;
                let left_ms = to.saturating_mul(1000).checked_sub(unix_ms).filter(|_| in_time)?;
                self.expiration_ms.min(left_ms)
            }
        };
        (lifetime_ms > 0).then_some(lifetime_ms)
    }
}

fn content(content: &[u8]) -> Result<(u64, Option<(u64, u64)>), Error> {
    let mut reader = Reader::new(content, 0);
    let (mut expiration_ms, mut validity_s) = (None, None);
    while let Some(element) = reader.next()? {
        match element.typ {
            EXPIRATION_PERIOD => expiration_ms = Some(element.integer()?),
            VALIDITY_PERIOD => validity_s = Some(validity(&element)?),
            _ if element.is_critical() => return Err(Error::new(Fault::UnknownCritical, element.start)),
            _ => {}
        }
    }
    Ok((expiration_ms.ok_or(Error::new(Fault::MissingField, content.len()))?, validity_s))
}

fn validity(element: &Tlv<'_>) -> Result<(u64, u64), Error> {
    let mut reader = element.inner();
    let mut moment = |typ| {
        let part = reader
            .next()?
            .filter(|part| part.typ == typ)
            .ok_or(Error::new(Fault::MissingField, element.start))?;
        parse_moment(part.value).ok_or(Error::new(Fault::FieldValue, part.start))
    };
    Ok((moment(NOT_BEFORE)?, moment(NOT_AFTER)?))
}

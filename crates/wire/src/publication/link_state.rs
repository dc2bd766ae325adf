//! Link state of Blackadder 0.4's extensions.
//!
//! ```text
//! notification (last 10 bytes):  network type 1 | '1' or '0' 1 | neighbour 8
//! report:  type 1 | node 8 | n 1 | { link id 32 | m 1 | { item type 1 | value 2 }·m }·n
//! ```

use super::cursor::{Cursor, push_count};
use super::fid::Fid;
use super::id::Label;
use crate::{Error, Fault};

/// A link that appeared or disappeared. The node that reports it is the second label of the
/// publication's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkNotification {
    /// `e` for Ethernet, `o` for optical.
    pub network_type: u8,
    /// Whether the link appeared.
    pub added: bool,
    /// The node at its other end.
    pub neighbour: Label,
}

impl LinkNotification {
    /// Parses the last 10 bytes of a payload.
    ///
    /// # Errors
    /// When the payload is shorter, or says neither that the link appeared nor that it disappeared.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let Some((before, last)) = payload.split_last_chunk::<10>() else {
            return Err(Error::new(Fault::Truncated, payload.len()));
        };
        let added = match last[1] {
            b'1' => true,
            b'0' => false,
            _ => return Err(Error::new(Fault::FieldValue, before.len() + 1)),
        };
        let mut cursor = Cursor::new(&last[2..]);
        Ok(LinkNotification { network_type: last[0], added, neighbour: cursor.label()? })
    }

    /// Appends the 10 bytes.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.network_type, if self.added { b'1' } else { b'0' }]);
        out.extend_from_slice(&self.neighbour.0);
    }
}

/// One measured value of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStateItem {
    /// What was measured, such as 1 for the capacity in Mbit/s or 5 for the round-trip time.
    pub item_type: u8,
    /// The value.
    pub value: u16,
}

/// The values of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkReport {
    /// The link's identifier.
    pub link: Fid,
    /// Its values, at most 255.
    pub items: Vec<LinkStateItem>,
}

/// A node's report about its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkStateReport {
    /// Number of the report's type.
    pub report_type: u8,
    /// The node.
    pub node: Label,
    /// Its links, at most 255.
    pub links: Vec<LinkReport>,
}

impl LinkStateReport {
    /// Parses a report.
    ///
    /// # Errors
    /// When it is cut or has bytes after its end.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        let (report_type, node, count) = (cursor.byte()?, cursor.label()?, cursor.byte()?);
        let mut links = Vec::new();
        for _ in 0..count {
            let (link, items) = (cursor.fid()?, cursor.byte()?);
            let item = |cursor: &mut Cursor<'_>| {
                let item_type = cursor.byte()?;
                // Values are in the byte order of the original's hosts.
                Ok(LinkStateItem { item_type, value: cursor.u16()?.swap_bytes() })
            };
            let items = (0..items).map(|_| item(&mut cursor)).collect::<Result<_, Error>>()?;
            links.push(LinkReport { link, items });
        }
        cursor.end()?;
        Ok(LinkStateReport { report_type, node, links })
    }

    /// Appends the report.
    ///
    /// # Errors
    /// When it has more than 255 links, or a link more than 255 values.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(self.report_type);
        out.extend_from_slice(&self.node.0);
        push_count(self.links.len(), out)?;
        for link in &self.links {
            out.extend_from_slice(&link.link.to_bytes());
            push_count(link.items.len(), out)?;
            for item in &link.items {
                out.push(item.item_type);
                out.extend_from_slice(&item.value.to_le_bytes());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_is_read_from_the_end_of_the_payload() {
        let notification =
            LinkNotification { network_type: b'e', added: true, neighbour: Label([b'2'; 8]) };
        let mut payload = vec![1, 2, 3];
        notification.encode(&mut payload);
        assert_eq!(LinkNotification::parse(&payload), Ok(notification));
        assert_eq!(LinkNotification::parse(&payload[3..12]).map_err(|e| e.offset), Err(9));
        payload[4] = b'2';
        assert_eq!(
            LinkNotification::parse(&payload),
            Err(Error::new(Fault::FieldValue, 4)),
            "neither 0 nor 1"
        );
    }

    #[test]
    fn report_is_read_as_written_and_cuts_are_refused() {
        let items = vec![LinkStateItem { item_type: 1, value: 1000 }; 2];
        let links = vec![LinkReport { link: Fid::of_bit(7), items }; 3];
        let report = LinkStateReport { report_type: 1, node: Label([b'1'; 8]), links };
        let mut bytes = Vec::new();
        report.encode(&mut bytes).expect("few links");
        assert_eq!(LinkStateReport::parse(&bytes), Ok(report));
        assert!((0..bytes.len()).all(|cut| LinkStateReport::parse(&bytes[..cut]).is_err()));
    }
}

//! Prefix announcements of self-learning: Data forwarded with one, and the store of accepted ones.

use super::data::send_data;
use super::{Out, Router};
use crate::strategy::RouteEvent;
use nw_element_api::{
    AnnouncementRef, Context, DropCause, FaceId, FaceTable, Kind, Packet, Pool, Scope, Timestamp,
};
use nw_name::{Name, NameRef};
use nw_wire::Token;
use std::collections::BTreeMap;

impl Router {
    /// Sends Data to its downstreams, to neighbours with a prefix announcement attached. For
    /// [`RouteEvent::Announce`] the announcement is also sent to control.
    #[cold]
    pub(super) fn send_announced(
        &mut self,
        now: Timestamp,
        packet: Packet,
        downstreams: &[(FaceId, Token)],
        route_event: RouteEvent,
        context: &mut Context<'_, Out>,
    ) {
        let announcement = match route_event {
            RouteEvent::Announce => {
                let announcement = context.pool.meta(&packet).link.announcement;
                send_to_control(&packet, announcement, context);
                announcement
            }
            _ => {
                let name = context.pool.meta(&packet).name_in(context.pool.bytes(&packet));
                match self.announcements.longest(name, now) {
                    Some(announcement) => context.pool.keep_announcement(announcement),
                    None => AnnouncementRef::NONE,
                }
            }
        };
        let sent_before = context.out.len();
        send_data(packet, downstreams, context);
        for (port, sent) in context.out.since(sent_before) {
            if *port == Out::Data && is_to_neighbour(&self.faces, sent, context.pool) {
                context.pool.meta_mut(sent).link.announcement = announcement;
            }
        }
    }
}

/// Sends an announcement, as a Data packet with the ingress face of `packet`, by the port for
/// control.
fn send_to_control(packet: &Packet, announcement: AnnouncementRef, context: &mut Context<'_, Out>) {
    let meta = context.pool.meta(packet);
    let (ingress, arrival) = (meta.ingress, meta.arrival);
    match context.pool.announcement_packet(announcement) {
        Some(copy) => {
            let meta = context.pool.meta_mut(&copy);
            (meta.kind, meta.ingress, meta.arrival) = (Kind::Data, ingress, arrival);
            context.out.send(Out::RouteEvent, copy);
        }
        None if context.pool.announcement(announcement).is_some() => {
            context.drops.count(DropCause::NoBuffer);
        }
        // Overwritten by later announcements.
        None => {}
    }
}

/// Returns whether a packet is sent to another machine.
fn is_to_neighbour(faces: &FaceTable, sent: &Packet, pool: &Pool) -> bool {
    faces.info(pool.meta(sent).egress).is_some_and(|info| info.scope == Scope::NonLocal)
}

/// Most announcements stored at one time.
const ANNOUNCEMENTS_MAX: usize = 1024;

/// Announcements that control accepted, with their expiry, by the prefix they announce.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    by_prefix: BTreeMap<Name, (Box<[u8]>, Timestamp)>,
}

impl Announcements {
    /// Stores an announcement, replacing an earlier one of the prefix. If there are too many,
    /// expired ones are removed, then the first ones in name order.
    pub fn keep(
        &mut self,
        now: Timestamp,
        prefix: NameRef<'_>,
        announcement: &[u8],
        until: Timestamp,
    ) {
        self.by_prefix.insert(prefix.to_name(), (announcement.into(), until));
        if self.by_prefix.len() > ANNOUNCEMENTS_MAX {
            self.by_prefix.retain(|_, (_, expiry)| *expiry > now);
        }
        while self.by_prefix.len() > ANNOUNCEMENTS_MAX {
            self.by_prefix.pop_first();
        }
    }

    /// Returns the announcement of the longest announced prefix of a name.
    fn longest(&self, name: NameRef<'_>, now: Timestamp) -> Option<&[u8]> {
        let prefixes = (0..=name.len()).rev().map(|len| name.prefix(len));
        let mut known = prefixes.filter_map(|prefix| self.by_prefix.get(prefix.as_bytes()));
        known.find(|(_, expiry)| *expiry > now).map(|(bytes, _)| &bytes[..])
    }
}

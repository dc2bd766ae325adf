//! Forwards publications by the links in their forwarding identifiers (LIPSIN), without state for
//! flows.
//!
//! A publication leaves by each link whose identifier is contained in its forwarding identifier,
//! but not by the face on which it came. If the internal link is contained, a copy leaves by port
//! `local`, unless the publication came from a local face. An identifier with all bits set is
//! delivered at each neighbour and not forwarded further. With an identifier in stages, links are
//! compared with the stage that belongs to the hop limit.
//!
//! ```text
//! In:     packet
//! Out:    network, local
//! Needs:  ingress, ingress_local
//! Sets:   egress by port network; the hop limit, decremented
//! State:  9 identifiers (288 bytes) for each link and direction, and a key of 8 bytes; 1024
//!         forwarding identifiers that may loop, with their ingress face
//! Timers: none
//! Cost:   four AND and compare operations a link; a slot of metadata for each copy
//! Drops:  fill_limit, publication_loop, publication_hop_limit (not forwarded; a local copy is
//!         delivered; also without a stage for the hop limit), no_link, no_buffer (a copy that
//!         could not be made)
//! Spec:   Jokela et al., LIPSIN, SIGCOMM 2009; Tapolcai et al., Globecom 2012 (stages)
//! ```

mod loops;
mod stages;

use core::time::Duration;
use loops::LoopMemory;
use nw_element_api::{Context, DropCause, DropReason, Element, FaceId, Packet, Timestamp};
use nw_pubsub::filter::{FILL_BITS_MAX, LinkScheme, TABLES};
use nw_wire::publication::{Envelope, Fid, STAGES_TABLE};
use stages::StageKeys;

nw_element_api::ports! {
    /// Input ports.
    pub enum In {
        /// Publications from any face.
        Packet = "packet" [Publication],
    }
}

nw_element_api::ports! {
    /// Output ports.
    pub enum Out {
        /// Publications for other nodes.
        Network = "network" [Publication],
        /// Publications for this node.
        Local = "local" [Publication],
    }
}

/// Settings of the element.
#[derive(Clone, Copy, Debug)]
pub struct LipsinForwarderConfig {
    /// How link identifiers are computed; the same in every node of the domain.
    pub scheme: LinkScheme,
    /// Most bits of a forwarding identifier.
    pub fill_bits_max: u32,
    /// How long an identifier that may loop is remembered. Zero: loops end by the hop limit only.
    pub loop_memory: Duration,
}

impl Default for LipsinForwarderConfig {
    fn default() -> Self {
        LipsinForwarderConfig {
            scheme: LinkScheme::default(),
            fill_bits_max: FILL_BITS_MAX,
            loop_memory: Duration::from_millis(1000),
        }
    }
}

/// A link to a neighbour: its face, and the numbers of its identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LipsinLink {
    /// The face that leads to the neighbour.
    pub face: FaceId,
    /// Number of the link to the neighbour.
    pub outgoing: u32,
    /// Number of the link from the neighbour, by which loops are detected. `None` if unknown.
    pub incoming: Option<u32>,
}

/// Identifiers of the links in one table, in the order of the faces.
#[derive(Clone, Debug, Default)]
struct LinkTable {
    internal: Option<Fid>,
    outgoing: Vec<Fid>,
    incoming: Vec<Fid>,
}

/// Contained in no forwarding identifier but the one with all bits, which is handled apart.
const NO_ID: Fid = Fid::BROADCAST;

/// The LIPSIN forwarder element.
#[derive(Clone, Debug)]
pub struct LipsinForwarder {
    config: LipsinForwarderConfig,
    internal: Option<u32>,
    links: Vec<LipsinLink>,
    tables: [LinkTable; TABLES],
    stage_keys: StageKeys,
    loops: LoopMemory,
    /// Links by which the current packet leaves: positions in `links`.
    matches: Vec<u32>,
}

impl LipsinForwarder {
    /// Creates a forwarder without links.
    pub fn new(config: LipsinForwarderConfig) -> Self {
        LipsinForwarder {
            config,
            internal: None,
            links: Vec::new(),
            tables: Default::default(),
            stage_keys: StageKeys::default(),
            loops: LoopMemory::new(),
            matches: Vec::new(),
        }
    }

    /// Sets the number of the internal link. `None`: nothing is delivered but broadcasts.
    pub fn set_internal(&mut self, number: Option<u32>) {
        self.internal = number;
        self.rebuild();
    }

    /// Sets all links. Of several links by one face the last one counts.
    pub fn set_links(&mut self, links: &[LipsinLink]) {
        self.links.clear();
        for link in links {
            self.links.retain(|known| known.face != link.face);
            self.links.push(*link);
        }
        self.rebuild();
    }

    /// Sets the most bits of a forwarding identifier.
    pub fn set_fill_bits_max(&mut self, bits: u32) {
        self.config.fill_bits_max = bits;
    }

    /// Computes the identifiers in all tables.
    fn rebuild(&mut self) {
        let id = |number: u32, table: usize| self.config.scheme.link_id(number, table as u8);
        let or_none = |id: Option<Fid>| id.unwrap_or(NO_ID);
        let links = &self.links;
        self.tables = core::array::from_fn(|table| LinkTable {
            internal: self.internal.and_then(|number| id(number, table)),
            outgoing: links.iter().map(|link| or_none(id(link.outgoing, table))).collect(),
            incoming: links
                .iter()
                .map(|link| or_none(link.incoming.and_then(|number| id(number, table))))
                .collect(),
        });
        self.stage_keys = StageKeys::new(&self.config.scheme, self.internal, links);
        self.matches = Vec::with_capacity(links.len());
    }

    /// Collects the links by which a publication leaves. Returns whether it is also for this node.
    fn find_links(&mut self, table: u8, fid: &Fid, ingress: FaceId, is_local: bool) -> bool {
        self.matches.clear();
        if *fid == Fid::BROADCAST {
            if is_local {
                self.matches.extend(0..self.links.len() as u32);
            }
            return !is_local;
        }
        let Some(table) = self.tables.get(usize::from(table)) else { return false };
        for (at, id) in table.outgoing.iter().enumerate() {
            if fid.contains(id) && self.links[at].face != ingress {
                self.matches.push(at as u32);
            }
        }
        !is_local && table.internal.is_some_and(|id| fid.contains(&id))
    }

    /// Returns whether a publication that is forwarded came back by another face than before.
    fn is_loop(&mut self, now: Timestamp, table: u8, fid: &Fid, ingress: FaceId) -> bool {
        let Some(incoming) = self.tables.get(usize::from(table)).map(|table| &table.incoming)
        else {
            return false;
        };
        // It can come back only by links into this node that its identifier contains.
        let mut links = incoming.iter().zip(&self.links);
        let may_return = links.any(|(id, link)| link.face != ingress && fid.contains(id));
        may_return
            && !self.config.loop_memory.is_zero()
            && self.loops.is_loop(now, self.config.loop_memory, fid, ingress)
    }

    /// Sends copies by the links found, and the packet itself by the last way.
    fn emit(&self, packet: Packet, for_local: bool, context: &mut Context<'_, Out>) {
        let (last, others) = match (for_local, self.matches.split_last()) {
            (true, _) => (None, &self.matches[..]),
            (false, Some((last, others))) => (Some(*last), others),
            (false, None) => {
                return context.pool.drop_packet(packet, DropCause::NoLink, context.drops);
            }
        };
        for at in others {
            match context.pool.clone_shallow(&packet) {
                Some(copy) => self.send(*at, copy, context),
                None => context.drops.count(DropCause::NoBuffer),
            }
        }
        match last {
            Some(at) => self.send(at, packet, context),
            None => context.out.send(Out::Local, packet),
        }
    }

    #[inline(always)]
    fn send(&self, at: u32, packet: Packet, context: &mut Context<'_, Out>) {
        context.pool.meta_mut(&packet).egress = self.links[at as usize].face;
        context.out.send(Out::Network, packet);
    }
}

impl Element for LipsinForwarder {
    type In = In;
    type Out = Out;

    const ACCEPTS_DEFERRED_NAMES: bool = true;

    #[inline]
    fn process(
        &mut self,
        now: Timestamp,
        port: In,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        let In::Packet = port;
        let (bytes, meta) = context.pool.view(&packet);
        let fields = match Envelope::forwarding_fields(bytes) {
            Ok(fields) => fields,
            Err(error) => {
                let reason = DropReason::Malformed(error.fault);
                return context.pool.drop_packet(packet, reason, context.drops);
            }
        };
        let (ingress, is_local) = (meta.ingress, meta.ingress_local);
        let (fid, table) = (&fields.fid, fields.table);
        if table == STAGES_TABLE {
            return self.process_staged(packet, context);
        }
        if fid.count_ones() > self.config.fill_bits_max && *fid != Fid::BROADCAST {
            return context.pool.drop_packet(packet, DropCause::FillLimit, context.drops);
        }
        let for_local = self.find_links(table, fid, ingress, is_local);
        if !self.matches.is_empty() {
            if !is_local && self.is_loop(now, table, fid, ingress) {
                return context.pool.drop_packet(packet, DropCause::PublicationLoop, context.drops);
            }
            match &mut context.pool.bytes_mut(&packet)[fields.offset] {
                0 => {
                    self.matches.clear();
                    let cause = DropCause::PublicationHopLimit;
                    match for_local {
                        true => context.drops.count(cause),
                        false => return context.pool.drop_packet(packet, cause, context.drops),
                    }
                }
                hop_limit => *hop_limit -= 1,
            }
        }
        self.emit(packet, for_local, context);
    }

    fn face_gone(&mut self, _: Timestamp, face: FaceId) {
        let before = self.links.len();
        self.links.retain(|link| link.face != face);
        if self.links.len() != before {
            self.rebuild();
        }
    }
}

#[cfg(test)]
mod tests;

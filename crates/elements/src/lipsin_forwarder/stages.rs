//! Forwarding by identifiers in stages: a node compares its links with the stage of its distance
//! from the source. A packet makes fewer hops than it has stages, so loops need no memory.

use super::{LipsinForwarder, LipsinLink, Out};
use nw_element_api::{Context, DropCause, DropReason, FaceId, Packet};
use nw_pubsub::filter::LinkScheme;
use nw_pubsub::stages::contains;
use nw_wire::publication::{Envelope, Stage};

/// Keys of the links, in the order of the faces.
#[derive(Clone, Debug, Default)]
pub(super) struct StageKeys {
    internal: Option<u64>,
    outgoing: Vec<u64>,
}

impl StageKeys {
    pub(super) fn new(scheme: &LinkScheme, internal: Option<u32>, links: &[LipsinLink]) -> Self {
        StageKeys {
            internal: internal.map(|number| scheme.stage_key(number)),
            outgoing: links.iter().map(|link| scheme.stage_key(link.outgoing)).collect(),
        }
    }
}

impl LipsinForwarder {
    /// Forwards a publication whose identifier is in stages.
    #[cold]
    pub(super) fn process_staged(&mut self, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view(&packet);
        let (ingress, is_local) = (meta.ingress, meta.ingress_local);
        let filter = Envelope::forwarding_stages(bytes);
        let fields = Envelope::forwarding_fields(bytes);
        let (filter, fields) = match filter.and_then(|filter| Ok((filter, fields?))) {
            Ok(both) => both,
            Err(error) => {
                let reason = DropReason::Malformed(error.fault);
                return context.pool.drop_packet(packet, reason, context.drops);
            }
        };
        let drop_cause = match filter.stage_at(fields.hop_limit) {
            None => DropCause::PublicationHopLimit,
            Some(stage) if stage.is_above(self.config.fill_bits_max) => DropCause::FillLimit,
            Some(stage) => {
                let is_last = fields.hop_limit == 1;
                let for_local = self.find_links_in_stage(&stage, ingress, is_local, is_last);
                if !self.matches.is_empty() {
                    context.pool.bytes_mut(&packet)[fields.offset] = fields.hop_limit - 1;
                }
                return self.emit(packet, for_local, context);
            }
        };
        context.pool.drop_packet(packet, drop_cause, context.drops);
    }

    /// Collects the links in a stage; none in the last one. Returns whether the publication is also
    /// for this node.
    fn find_links_in_stage(
        &mut self,
        stage: &Stage<'_>,
        ingress: FaceId,
        is_local: bool,
        is_last: bool,
    ) -> bool {
        self.matches.clear();
        if !is_last {
            for (at, key) in self.stage_keys.outgoing.iter().enumerate() {
                if self.links[at].face != ingress && contains(stage, *key) {
                    self.matches.push(at as u32);
                }
            }
        }
        !is_local && self.stage_keys.internal.is_some_and(|key| contains(stage, key))
    }
}

//! Incoming Data: every pending Interest that it satisfies.

use super::{Out, Router};
use crate::strategy::{Lesson, WANTS_DATA};
use nw_element_api::decode::read_or_drop;
use nw_element_api::{Cause, Context, FaceId, Instant, Kind, LinkFields, LinkType, Meta, Packet, Pool};
use nw_tables::pit::{EntryRef, MATCHES_MAX, Single};
use nw_tables::{Ask, FaceTable};
use nw_wire::Token;

impl Router {
    #[inline(always)]
    pub(super) fn data(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view_mut(&packet);
        match self.pit.single(meta.name_in(bytes), &meta.prefixes, &meta.link.token) {
            Some(single) if single.asked == meta.ingress && single.strategy_bits & WANTS_DATA == 0 => {
                self.answer_single(now, meta, &single);
                context.out.send(Out::Data, packet);
            }
            _ if meta.name_unread => self.read_first(now, packet, context),
            _ => self.answer_all(now, packet, context),
        }
    }

    /// A Data whose label leads to no pending Interest of its name alone.
    #[cold]
    fn read_first(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        if let Some(packet) = read_or_drop(context.pool, packet, context.drops) {
            self.data(now, packet, context);
        }
    }

    /// True when a pending Interest waits for this Data, or was sent to where this Nack comes from.
    pub(super) fn awaits(&self, packet: &Packet, pool: &Pool) -> bool {
        self.awaits_from(pool.meta(packet).ingress, packet, pool)
    }

    /// As [`awaits`](Self::awaits), as if it came from the face that was asked.
    pub(crate) fn awaits_from(&self, asked: FaceId, packet: &Packet, pool: &Pool) -> bool {
        let (bytes, meta) = pool.view(packet);
        let token = self.pit.by_token(meta.link.token.as_bytes());
        let mut matched = Vec::with_capacity(MATCHES_MAX);
        match meta.kind {
            Kind::Interest => return false,
            Kind::Data => {
                let digest = || nw_wire::sha256(&[bytes]);
                self.pit.matches(meta.name_in(bytes), &meta.prefixes, token, digest, &mut matched);
            }
            Kind::Nack => matched.extend(self.pit.find(&Ask {
                name: meta.name_in(bytes),
                prefixes: &meta.prefixes,
                can_be_prefix: meta.can_be_prefix,
                must_be_fresh: meta.must_be_fresh,
            })),
        }
        matched.iter().any(|entry| self.pit.out_record(*entry, asked).is_some())
    }

    /// The usual case of [`answer_all`](Self::answer_all): one entry, one asker.
    #[inline(always)]
    fn answer_single(&mut self, now: Instant, meta: &mut Meta, single: &Single) {
        if meta.name_unread {
            meta.prefixes.set_whole(single.hash, meta.name.1);
        }
        self.dead_nonces.insert_answered(now, single.hash, single.nonce);
        self.counters.satisfied += 1;
        self.pit.remove_single(single);
        let asker = &single.asker;
        let waits =
            asker.expiry > now && (asker.face != meta.ingress || is_ad_hoc(&self.faces, meta.ingress));
        meta.cached = meta.link.no_cache;
        meta.egress = if waits { asker.face } else { FaceId::NONE };
        let congestion_mark = meta.link.congestion_mark;
        meta.link.clear();
        meta.link.congestion_mark = congestion_mark;
        meta.link.incoming_face = meta.ingress;
        match asker.token.to_short() {
            Some((octets, len)) => meta.link.token.set_short(octets, len),
            None => meta.link.token = asker.token,
        }
    }

    #[inline(never)]
    fn answer_all(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let mut matched = core::mem::take(&mut self.matched);
        let mut downstreams = core::mem::take(&mut self.downstreams);
        matched.clear();
        downstreams.clear();
        match self.matching(&packet, &mut matched, context) {
            Ok(()) => {
                let lesson = self.satisfy(now, &packet, &matched, &mut downstreams, context);
                match lesson {
                    Lesson::Nothing => send_data(packet, &downstreams, context),
                    _ => self.send_announced(now, packet, &downstreams, lesson, context),
                }
            }
            Err(cause) => context.pool.drop_packet(packet, cause, context.drops),
        }
        self.matched = matched;
        self.downstreams = downstreams;
    }

    /// "Match ALL PIT entries (exact name, prefixes with CanBePrefix, full name); none: unsolicited." Of these only those whose Interest was sent
    /// to the face this Data came by, as nobody else is to answer.
    #[inline]
    fn matching(
        &self,
        packet: &Packet,
        matched: &mut Vec<EntryRef>,
        context: &Context<'_, Out>,
    ) -> Result<(), Cause> {
        let (bytes, meta) = context.pool.view(packet);
        // Ours if the peer returns tokens; any other is as good as none.
        let token = self.pit.by_token(meta.link.token.as_bytes());
        let digest = || nw_wire::sha256(&[bytes]);
        self.pit.matches(meta.name_in(bytes), &meta.prefixes, token, digest, matched);
        if matched.is_empty() {
            return Err(Cause::UnsolicitedData);
        }
        // Management answers each asker by token: an answer may stand below the name of somebody else's question.
        if meta.ingress == FaceId::INTERNAL && token.is_some() && token == matched.first().copied() {
            matched.truncate(1);
        }
        if !self.accept_data_from_any_face {
            matched.retain(|entry| self.pit.out_record(*entry, meta.ingress).is_some());
            if matched.is_empty() {
                return Err(Cause::DataFromWrongFace);
            }
        }
        Ok(())
    }

    /// Ends the entries and collects who is to have the Data.
    ///
    /// A face that waits in several entries gets one copy for each token it gave, as a peer with tokens knows its entries by them; a peer
    /// without tokens gets one copy.
    #[inline]
    fn satisfy(
        &mut self,
        now: Instant,
        packet: &Packet,
        matched: &[EntryRef],
        downstreams: &mut Vec<(FaceId, Token)>,
        context: &Context<'_, Out>,
    ) -> Lesson {
        let mut lesson = Lesson::Nothing;
        let meta = context.pool.meta(packet);
        let (ingress, freshness_ms) = (meta.ingress, meta.freshness_ms);
        let ad_hoc = is_ad_hoc(&self.faces, ingress);
        for &entry in matched {
            let mut linger_ms = 0;
            if self.pit.strategy_bits(entry) & WANTS_DATA != 0 {
                let extras = self.tell_strategy(now, entry, packet, context);
                // One that lingers was counted already, whatever its strategy says now.
                linger_ms = extras.linger_ms.max(u16::from(self.pit.satisfied(entry).is_some()));
                if extras.lesson != Lesson::Nothing {
                    lesson = extras.lesson;
                }
            }
            // "Every unexpired in-record face except the incoming (unless ad-hoc), each with its own PIT token."
            for record in self.pit.in_records(entry) {
                if record.expiry > now && (ad_hoc || record.face != ingress) {
                    downstreams.push((record.face, record.token));
                }
            }
            match linger_ms {
                0 => self.finish_satisfied(now, entry),
                _ => self.linger(now, entry, ingress, freshness_ms, linger_ms),
            }
        }
        if matched.len() > 1 {
            downstreams.sort_unstable_by(|(a, a_token), (b, b_token)| {
                a.cmp(b).then_with(|| a_token.as_bytes().cmp(b_token.as_bytes()))
            });
            downstreams.dedup();
        }
        lesson
    }
}

fn is_ad_hoc(faces: &FaceTable, face: FaceId) -> bool {
    faces.info(face).is_some_and(|info| info.link_type == LinkType::AdHoc)
}

/// What a Data carries on, but for the token of each downstream.
#[inline]
fn data_fields(meta: &Meta) -> LinkFields {
    LinkFields {
        congestion_mark: meta.link.congestion_mark,
        incoming_face: meta.ingress,
        ..LinkFields::default()
    }
}

/// One copy for each downstream, all over the same octets. The last one is the packet itself, which a content store may keep.
#[inline]
pub(super) fn send_data(packet: Packet, downstreams: &[(FaceId, Token)], context: &mut Context<'_, Out>) {
    let meta = context.pool.meta_mut(&packet);
    // "CachePolicy NoCache is honoured from any face", and says nothing to the next.
    let cached = meta.link.no_cache;
    let link = data_fields(meta);
    meta.link = link;
    meta.egress = FaceId::NONE;
    if let Some(((last, last_token), others)) = downstreams.split_last() {
        // Shared packets copy this flag: only the last one is for the content store.
        meta.cached = true;
        for (face, token) in others {
            let Some(copy) = context.pool.share(&packet) else {
                context.drops.count(Cause::NoBuffer);
                continue;
            };
            let meta = context.pool.meta_mut(&copy);
            meta.egress = *face;
            meta.link = LinkFields { token: *token, ..link };
            context.out.send(Out::Data, copy);
        }
        let meta = context.pool.meta_mut(&packet);
        meta.egress = *last;
        meta.link.token = *last_token;
    }
    context.pool.meta_mut(&packet).cached = cached;
    context.out.send(Out::Data, packet);
}

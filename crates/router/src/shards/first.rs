//! What the first shard does besides its own work when there are others.

use super::order::Order;
use super::parcel::{Arrival, Errand};
use crate::Host;
use crate::environment::answer_packet;
use nw_element_api::decode::decode;
use nw_element_api::{DropReason, Instant};

impl Host {
    /// Takes in what other shards sent and told, and gives answers of management that waited for them.
    pub(crate) fn meet_others(&mut self, now: Instant) {
        let Some(crew) = &mut self.crew else { return };
        crew.hear(now, &mut self.faces, &self.known, &mut self.pool);
        let mut arrivals = crew.take_arrivals(&mut self.pool);
        for arrival in arrivals.drain(..) {
            self.take_arrival(now, arrival);
        }
        if let Some(crew) = &mut self.crew {
            crew.put_back(arrivals);
        }
        // Others have seen to it that these are this shard's.
        core::mem::swap(&mut self.batch, &mut self.own);
        self.forward_own(now);
        core::mem::swap(&mut self.batch, &mut self.own);
        // What control sends while it learns may be anybody's.
        self.batch.append(&mut self.own);
        while let Some((data, token)) = self.crew.as_mut().and_then(|crew| crew.next_held()) {
            self.faces.inject(now, &answer_packet(&data, token), &mut self.pool, &mut self.batch);
        }
        self.forward(now);
    }

    fn take_arrival(&mut self, now: Instant, arrival: Arrival) {
        match arrival {
            Arrival::Packet(Errand::Enter, packet) => match decode(&mut self.pool, &packet) {
                Ok(()) => self.own.push(packet),
                // It was decoded where it came in, but for a name that waits to be read.
                Err(error) => {
                    if let Some(crew) = &mut self.crew {
                        let drops = &mut crew.exchange_mut().drops;
                        drops.count(DropReason::Malformed(error.fault));
                    }
                    self.pool.release(packet);
                }
            },
            Arrival::Packet(Errand::Leave, packet) => {
                if let Some(watch) = &mut self.watch {
                    watch.outgoing(now, &packet, &self.pool);
                }
                let egress = self.pool.meta(&packet).egress;
                self.faces.send(now, egress, packet, &mut self.pool);
            }
            Arrival::Packet(Errand::Lesson, packet) => {
                self.learn(now, packet);
                self.forward(now);
            }
            Arrival::Stray(whence, packet) => {
                self.faces.take_stray(now, whence, packet, &mut self.pool, &mut self.batch);
                self.forward(now);
            }
            Arrival::Lost => {}
        }
    }

    /// Gives other shards their sockets of interfaces that go by AF_XDP.
    pub(crate) fn tell_xdp_news(&mut self) {
        let news = self.faces.xdp_news();
        if let Some(crew) = &mut self.crew {
            news.for_each(|news| crew.order(&Order::Xdp(news)));
        }
    }

    /// Another shard is behind: packets wait in their sockets.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crew.as_ref().is_some_and(|crew| crew.exchange().is_crowded())
    }

    /// Another shard rang.
    pub(crate) fn hush(&self) {
        if let Some(crew) = &self.crew {
            crew.exchange().bell().hush();
        }
    }

    /// True when another shard has sent something, or will only once it is asked.
    pub(crate) fn must_not_sleep(&mut self) -> bool {
        let Some(crew) = &mut self.crew else { return false };
        crew.exchange_mut().bell().sleep();
        !crew.exchange_mut().is_empty() || crew.has_tidings()
    }

    /// Hands over what is another shard's of packets that were read here.
    pub(crate) fn distribute(&mut self, now: Instant) {
        if let Some(crew) = &mut self.crew {
            crew.exchange_mut().distribute(now, &mut self.batch, &mut self.pool);
        }
    }

    /// Notes what leaves and may be answered under a longer name.
    pub(crate) fn note_asked(&mut self, now: Instant) {
        if let Some(crew) = &mut self.crew {
            let exchange = crew.exchange_mut();
            self.out.iter().for_each(|packet| exchange.note_asked(now, packet, &self.pool));
        }
    }

    /// While somebody looks at packets, all of them come in and leave here.
    pub(crate) fn gather_lanes(&mut self) {
        let observed = self.watch.is_some();
        if let Some(crew) = self.crew.as_mut().filter(|crew| crew.observed != observed) {
            crew.observed = observed;
            let ids: Vec<_> = self.faces.ids().collect();
            ids.into_iter().for_each(|id| crew.tell_face(&self.faces, &self.known, id));
        }
    }
}

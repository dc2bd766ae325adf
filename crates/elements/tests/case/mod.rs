//! The standard graph as what cases run: see `tests/cases/README.md`.

mod alone;

use crate::graph::{Graph, GraphConfig};
use alone::Alone;
use nw_element_api::case::{NameVariables, Sent, Subject, Words, announce, equal, name, number};
use nw_element_api::{
    DropCounters, Element as _, FaceId, FaceInfo, Instant, LinkFields, LinkType, Peer, Scope,
};
use nw_elements::strategy::{Strategies, StrategyError, StrategyId};
use nw_name::Name;
use nw_tables::fib::NextHop;

/// Runs the text of a case.
///
/// # Errors
/// The line and what was wrong there.
pub fn run(text: &str) -> Result<(), String> {
    if !text.starts_with('#') {
        return Err("line 1: a case starts with a comment that says what must happen".to_owned());
    }
    if text.lines().any(|line| line.starts_with("element ")) {
        return nw_element_api::case::run(text, &mut Alone::default()).map_err(|failure| failure.to_string());
    }
    let mut case = Case::default();
    nw_element_api::case::run(text, &mut case).map_err(|failure| failure.to_string())?;
    case.graph.map_or_else(|| Err("the case does nothing".to_owned()), |_| Ok(()))
}

/// The graph is made when the first line needs it: what is set before says how.
#[derive(Default)]
struct Case {
    config: GraphConfig,
    graph: Option<Graph>,
    none: DropCounters,
}

impl Subject for Case {
    fn face(&self, word: &str) -> Result<FaceId, String> {
        FaceId::from_number(number(word, "a face")?).ok_or("0 is no face".to_owned())
    }

    fn face_name(&self, face: FaceId) -> String {
        face.to_string()
    }

    fn now(&self) -> Instant {
        self.graph.as_ref().map_or(Instant::START, |graph| graph.now)
    }

    fn advance(&mut self, to: Instant) {
        self.graph().advance(to);
    }

    fn receive(&mut self, face: FaceId, bytes: &[u8], link: LinkFields, announcement: &[u8]) {
        self.graph().receive_announced(face, bytes, link, announcement);
    }

    fn sent(&mut self, take: bool) -> Option<Sent> {
        let sent = &mut self.graph.as_mut()?.sent;
        if take && !sent.is_empty() { Some(sent.remove(0)) } else { sent.first().cloned() }
    }

    fn drops(&self) -> &DropCounters {
        self.graph.as_ref().map_or(&self.none, |graph| &graph.drops)
    }

    fn packets_in_use(&self) -> usize {
        self.graph.as_ref().map_or(0, |graph| graph.pool.packets_in_use())
    }

    fn command(
        &mut self,
        command: &str,
        words: &mut Words<'_>,
        names: &NameVariables,
    ) -> Option<Result<(), String>> {
        Some(match command {
            "set" if self.graph.is_none() => self.set(words),
            "set" => self.switch(words),
            "face" => self.add_face(words),
            "route" => self.route(words, names),
            "remove-face" | "remove-route" | "region" | "erase" | "announced" | "measured" | "pit" | "cs"
            | "satisfied" | "unsatisfied" => self.order(command, words, names),
            _ => return None,
        })
    }
}

impl Case {
    fn graph(&mut self) -> &mut Graph {
        self.graph.get_or_insert_with(|| Graph::new(self.config.clone()))
    }

    fn order(&mut self, command: &str, words: &mut Words<'_>, names: &NameVariables) -> Result<(), String> {
        match command {
            "remove-face" => {
                let face = self.face(words.need("a face")?)?;
                self.graph().remove_face(face);
                words.end()
            }
            "remove-route" => {
                let name = words.name(names)?;
                let known = self.graph().router.remove_route(name.as_ref());
                if known { words.end() } else { Err("there is no such route".to_owned()) }
            }
            "region" => {
                let mut regions = Vec::new();
                while let Some(word) = words.next() {
                    regions.push(name(word, names)?);
                }
                self.graph().router.set_regions(regions);
                Ok(())
            }
            "erase" => {
                let name = words.name(names)?;
                let (wanted, limit) = (words.number("how many are erased")?, usize::MAX);
                let erased = self.graph().store.store_mut().erase(name.as_ref(), limit);
                equal("erased", erased, wanted)
            }
            "announced" => {
                let (name, ms) = (words.name(names)?, words.number("milliseconds")?);
                let (now, octets) = (self.graph().now, announce(&name));
                self.graph().router.keep_announcement(now, name.as_ref(), &octets, now.plus_millis(ms));
                words.end()
            }
            "measured" => {
                let wanted = words.number("how many prefixes are measured")?;
                equal("prefixes measured", self.graph().router.measurements().len(), wanted)
            }
            "pit" => {
                let wanted = words.number("how many are pending")?;
                equal("pending Interests", self.graph().router.pit().len(), wanted)
            }
            "cs" => {
                let wanted = words.number("how many are stored")?;
                equal("packets stored", self.graph().store.store().len(), wanted)
            }
            "satisfied" => {
                let wanted = words.number("how many")?;
                equal("satisfied", self.graph().router.counters().satisfied, wanted)
            }
            _ => {
                let wanted = words.number("how many")?;
                equal("unsatisfied", self.graph().router.counters().unsatisfied, wanted)
            }
        }
    }

    /// What must be known before the graph is made.
    fn set(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        match words.need("what to set")? {
            "pit-entries" => self.config.pit_entries = words.number("pit-entries")?,
            "cs-packets" => self.config.cs.packets_max = words.number("cs-packets")?,
            "packets" => self.config.packets = words.number("packets")?,
            "seed" => self.config.seed = words.number("seed")?,
            "tokens" => self.config.upstream_tokens = on_or_off(words)?,
            "data-from-any-face" => self.config.data_from_any_face = on_or_off(words)?,
            other => return Err(format!("can't be set before the first face: {other:?}")),
        }
        words.end()
    }

    /// What may change while it runs.
    fn switch(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        match words.need("what to set")? {
            "tokens" => self.graph().router.set_upstream_tokens(on_or_off(words)?),
            "data-from-any-face" => self.graph().router.set_accept_data_from_any_face(on_or_off(words)?),
            "admit" => self.graph().store.store_mut().set_admit(on_or_off(words)?),
            "serve" => self.graph().store.store_mut().set_serve(on_or_off(words)?),
            "interests-per-face" => {
                let limit = words.number("interests-per-face")?;
                self.graph().router.set_face_limit(Some(limit));
            }
            other => return Err(format!("can't be set once there are faces: {other:?}")),
        }
        words.end()
    }

    fn add_face(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let face = self.face(words.need("a face")?)?;
        let mut info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        let mut peer = Peer::UNKNOWN;
        while let Some(word) = words.next() {
            match word {
                "local" => info.scope = Scope::Local,
                "multi-access" => info.link_type = LinkType::MultiAccess,
                "ad-hoc" => info.link_type = LinkType::AdHoc,
                other => match other.strip_prefix("peer=") {
                    Some(text) => peer = Peer::of_mac([0, 0, 0, 0, 0, number(text, "a peer")?]),
                    None => {
                        return Err(format!(
                            "a face is local, multi-access or ad-hoc or has peer=, not {other:?}"
                        ));
                    }
                },
            }
        }
        self.graph().add_face(face, info);
        self.graph().router.set_peer(face, peer);
        Ok(())
    }

    fn route(&mut self, words: &mut Words<'_>, names: &NameVariables) -> Result<(), String> {
        let name = words.name(names)?;
        let (mut hops, mut strategy) = (Vec::<NextHop>::new(), Strategies::DEFAULT);
        while let Some(word) = words.next() {
            match word.split_once('=') {
                None => hops.push(NextHop { face: self.face(word)?, cost: 0 }),
                Some(("cost", cost)) => {
                    hops.last_mut().ok_or("a cost stands behind a face")?.cost = number(cost, "a cost")?;
                }
                Some(("strategy", text)) => strategy = self.strategy(text)?,
                Some(_) => return Err(format!("a route has faces, cost= and strategy=, not {word:?}")),
            }
        }
        self.graph().set_route(name.as_ref(), &hops, strategy).map_err(|error| error.to_string())
    }

    fn strategy(&mut self, text: &str) -> Result<StrategyId, String> {
        let uri =
            format!("/localhost/nfd/strategy/{text}").parse::<Name>().map_err(|error| error.to_string())?;
        self.graph().router.resolve_strategy(uri.as_ref()).map_err(|error: StrategyError| error.to_string())
    }
}

fn on_or_off(words: &mut Words<'_>) -> Result<bool, String> {
    match words.need("on or off")? {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("on or off, not {other:?}")),
    }
}

//! The standard graph as the target of a case: see `tests/cases/README.md`.

mod single_element;

use crate::graph::{Graph, GraphConfig};
use nw_element_api::{
    DropCounters, Element as _, FaceId, FaceInfo, LinkFields, LinkType, Peer, Scope, Timestamp,
};
use nw_elements::strategy::{Strategies, StrategyError, StrategyId};
use nw_name::Name;
use nw_tables::fib::NextHop;
use nw_testkit::case::{Args, NameVariables, Sent, TestTarget, announce, equal, name, number};
use single_element::SingleElement;

/// Runs a case.
///
/// # Errors
/// The first line that did not hold.
pub fn run(text: &str) -> Result<(), String> {
    if !text.starts_with('#') {
        return Err("line 1: a case starts with a comment that says what must happen".to_owned());
    }
    if text.lines().any(|line| line.starts_with("element ")) {
        return nw_testkit::case::run(text, &mut SingleElement::default())
            .map_err(|failure| failure.to_string());
    }
    let mut case = Case::default();
    nw_testkit::case::run(text, &mut case).map_err(|failure| failure.to_string())?;
    case.graph.map_or_else(|| Err("the case does nothing".to_owned()), |_| Ok(()))
}

/// The graph is created by the first line that needs it, with the settings before it.
#[derive(Default)]
struct Case {
    config: GraphConfig,
    graph: Option<Graph>,
    none: DropCounters,
}

impl TestTarget for Case {
    fn face(&self, word: &str) -> Result<FaceId, String> {
        FaceId::from_number(number(word, "a face")?).ok_or("0 is not a face".to_owned())
    }

    fn face_name(&self, face: FaceId) -> String {
        face.to_string()
    }

    fn now(&self) -> Timestamp {
        self.graph.as_ref().map_or(Timestamp::START, |graph| graph.now)
    }

    fn advance(&mut self, to: Timestamp) {
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
        args: &mut Args<'_>,
        names: &NameVariables,
    ) -> Option<Result<(), String>> {
        Some(match command {
            "set" if self.graph.is_none() => self.set(args),
            "set" => self.switch(args),
            "face" => self.add_face(args),
            "route" => self.route(args, names),
            "remove-face" | "remove-route" | "region" | "erase" | "announced" | "measured"
            | "pit" | "cs" | "satisfied" | "unsatisfied" => self.run_command(command, args, names),
            _ => return None,
        })
    }
}

impl Case {
    fn graph(&mut self) -> &mut Graph {
        self.graph.get_or_insert_with(|| Graph::new(self.config.clone()))
    }

    fn run_command(
        &mut self,
        command: &str,
        args: &mut Args<'_>,
        names: &NameVariables,
    ) -> Result<(), String> {
        match command {
            "remove-face" => {
                let face = self.face(args.need("a face")?)?;
                self.graph().remove_face(face);
                args.end()
            }
            "remove-route" => {
                let name = args.name(names)?;
                let known = self.graph().router.remove_route(name.as_ref());
                if known { args.end() } else { Err("there is no such route".to_owned()) }
            }
            "region" => {
                let mut regions = Vec::new();
                while let Some(word) = args.next() {
                    regions.push(name(word, names)?);
                }
                self.graph().router.set_regions(regions);
                Ok(())
            }
            "erase" => {
                let name = args.name(names)?;
                let (expected, limit) = (args.number("how many are erased")?, usize::MAX);
                let erased = self.graph().store.store_mut().erase(name.as_ref(), limit);
                equal("erased", erased, expected)
            }
            "announced" => {
                let (name, ms) = (args.name(names)?, args.number("milliseconds")?);
                let (now, bytes) = (self.graph().now, announce(&name));
                self.graph().router.keep_announcement(
                    now,
                    name.as_ref(),
                    &bytes,
                    now.plus_millis(ms),
                );
                args.end()
            }
            "measured" => {
                let expected = args.number("how many prefixes are measured")?;
                equal("prefixes measured", self.graph().router.measurements().len(), expected)
            }
            "pit" => {
                let expected = args.number("how many are pending")?;
                equal("pending Interests", self.graph().router.pit().len(), expected)
            }
            "cs" => {
                let expected = args.number("how many are stored")?;
                equal("packets stored", self.graph().store.store().len(), expected)
            }
            "satisfied" => {
                let expected = args.number("how many")?;
                equal("satisfied", self.graph().router.counters().satisfied, expected)
            }
            _ => {
                let expected = args.number("how many")?;
                equal("unsatisfied", self.graph().router.counters().unsatisfied, expected)
            }
        }
    }

    /// Changes a setting that is fixed when the graph is created.
    fn set(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        match args.need("what to set")? {
            "pit-entries" => self.config.pit_entries = args.number("pit-entries")?,
            "cs-packets" => self.config.cs.packets_max = args.number("cs-packets")?,
            "packets" => self.config.packets = args.number("packets")?,
            "seed" => self.config.seed = args.number("seed")?,
            "tokens" => self.config.upstream_tokens = on_or_off(args)?,
            "data-from-any-face" => self.config.data_from_any_face = on_or_off(args)?,
            other => return Err(format!("can't be set before the first face: {other:?}")),
        }
        args.end()
    }

    /// Changes a setting of the running graph.
    fn switch(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        match args.need("what to set")? {
            "tokens" => self.graph().router.set_upstream_tokens(on_or_off(args)?),
            "data-from-any-face" => {
                self.graph().router.set_accept_data_from_any_face(on_or_off(args)?)
            }
            "admit" => self.graph().store.store_mut().set_admit(on_or_off(args)?),
            "serve" => self.graph().store.store_mut().set_serve(on_or_off(args)?),
            "interests-per-face" => {
                let limit = args.number("interests-per-face")?;
                self.graph().router.set_face_limit(Some(limit));
            }
            other => return Err(format!("can't be set once there are faces: {other:?}")),
        }
        args.end()
    }

    fn add_face(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let face = self.face(args.need("a face")?)?;
        let mut info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        let mut peer = Peer::UNKNOWN;
        while let Some(word) = args.next() {
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

    fn route(&mut self, args: &mut Args<'_>, names: &NameVariables) -> Result<(), String> {
        let name = args.name(names)?;
        let (mut hops, mut strategy) = (Vec::<NextHop>::new(), Strategies::DEFAULT);
        while let Some(word) = args.next() {
            match word.split_once('=') {
                None => hops.push(NextHop { face: self.face(word)?, cost: 0 }),
                Some(("cost", cost)) => {
                    hops.last_mut().ok_or("a cost stands behind a face")?.cost =
                        number(cost, "a cost")?;
                }
                Some(("strategy", text)) => strategy = self.strategy(text)?,
                Some(_) => {
                    return Err(format!("a route has faces, cost= and strategy=, not {word:?}"));
                }
            }
        }
        self.graph().set_route(name.as_ref(), &hops, strategy).map_err(|error| error.to_string())
    }

    fn strategy(&mut self, text: &str) -> Result<StrategyId, String> {
        let uri = format!("/localhost/nfd/strategy/{text}")
            .parse::<Name>()
            .map_err(|error| error.to_string())?;
        self.graph()
            .router
            .resolve_strategy(uri.as_ref())
            .map_err(|error: StrategyError| error.to_string())
    }
}

fn on_or_off(args: &mut Args<'_>) -> Result<bool, String> {
    match args.need("on or off")? {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("on or off, not {other:?}")),
    }
}

//! Runs one case.

use super::expect::{compare, compare_lesson, describe};
use super::packet::{NameVariables, PacketSpec, announce, face, name};
use super::{Words, number};
use crate::graph::{Graph, GraphConfig};
use nw_element::{DropReason, FaceId, FaceInfo, Instant, LinkType, Scope};
use nw_elements::strategy::{Strategies, StrategyError, StrategyId};
use nw_name::Name;
use nw_tables::fib::NextHop;
use nw_wire::{Data, Interest};
use std::collections::BTreeMap;

/// Runs the text of a case.
///
/// # Errors
/// The line and what was wrong there.
pub fn run(text: &str) -> Result<(), String> {
    let mut case = Case::default();
    if !text.starts_with('#') {
        return Err("line 1: a case starts with a comment that says what must happen".to_owned());
    }
    let mut lines = 0;
    for (at, line) in text.lines().enumerate() {
        lines = at + 1;
        let line = line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        case.line(line).map_err(|error| format!("line {lines}: {line}\n    {error}"))?;
    }
    case.end().map_err(|error| format!("line {lines} (end): {error}"))
}

#[derive(Default)]
struct Case {
    config: GraphConfig,
    graph: Option<Graph>,
    names: NameVariables,
    tokens: BTreeMap<String, Vec<u8>>,
    drops: BTreeMap<String, u64>,
}

impl Case {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = Words::of(line);
        let command = words.need("a command")?;
        if command == "set" && self.graph.is_none() {
            return self.set(&mut words);
        }
        if command == "drop" {
            return self.expect_drop(&mut words);
        }
        if command == "let" {
            return self.bind_name(&mut words);
        }
        if command != "out" && command != "lesson" {
            self.nothing_left()?;
        }
        self.graph.get_or_insert_with(|| Graph::new(self.config.clone()));
        match command {
            "set" => self.switch(&mut words),
            "face" => self.add_face(&mut words),
            "remove-face" => {
                let face = face(words.need("a face")?)?;
                self.graph().remove_face(face);
                words.end()
            }
            "route" => self.route(&mut words),
            "remove-route" => {
                let name = self.name(&mut words)?;
                let known = self.graph().router.remove_route(name.as_ref());
                if known { words.end() } else { Err("there is no such route".to_owned()) }
            }
            "region" => {
                let mut regions = Vec::new();
                while let Some(word) = words.next() {
                    regions.push(name(word, &self.names)?);
                }
                self.graph().router.set_regions(regions);
                Ok(())
            }
            "erase" => {
                let name = self.name(&mut words)?;
                let (wanted, limit) = (words.number("how many are erased")?, usize::MAX);
                let erased = self.graph().store.store_mut().erase(name.as_ref(), limit);
                equal("erased", erased, wanted)
            }
            "at" => self.at(&mut words),
            "in" => self.receive(&mut words),
            "out" => self.expect(&mut words),
            "lesson" => self.expect_lesson(&mut words),
            "announced" => {
                let (name, ms) = (self.name(&mut words)?, words.number("milliseconds")?);
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
            "unsatisfied" => {
                let wanted = words.number("how many")?;
                equal("unsatisfied", self.graph().router.counters().unsatisfied, wanted)
            }
            other => Err(format!("no command: {other:?}")),
        }
    }

    fn graph(&mut self) -> &mut Graph {
        self.graph.as_mut().expect("made before the first command that needs it")
    }

    fn name(&self, words: &mut Words<'_>) -> Result<Name, String> {
        name(words.need("a name")?, &self.names)
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
        let face = face(words.need("a face")?)?;
        let mut info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        while let Some(word) = words.next() {
            match word {
                "local" => info.scope = Scope::Local,
                "multi-access" => info.link_type = LinkType::MultiAccess,
                "ad-hoc" => info.link_type = LinkType::AdHoc,
                other => return Err(format!("a face is local, multi-access or ad-hoc, not {other:?}")),
            }
        }
        self.graph().add_face(face, info);
        Ok(())
    }

    fn route(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let name = self.name(words)?;
        let (mut hops, mut strategy) = (Vec::<NextHop>::new(), Strategies::DEFAULT);
        while let Some(word) = words.next() {
            match word.split_once('=') {
                None => hops.push(NextHop { face: face(word)?, cost: 0 }),
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

    /// `let x Data …`: `$x` is its implicit digest; `let x Interest … params=…`: its parameters digest.
    fn bind_name(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let variable = words.need("what to call it")?.to_owned();
        let packet = PacketSpec::parse(words, &self.names)?;
        let wire = packet.encode();
        let component = if packet.kind == "Data" {
            let data = Data::check(&wire).map_err(|error| error.to_string())?;
            nw_wire::data::full_name(&data)
        } else {
            Interest::check(&wire).map_err(|error| error.to_string())?.name().to_name()
        };
        let component = component.as_ref().component(-1).ok_or("the name is empty")?;
        self.names.insert(variable, component.to_string());
        Ok(())
    }

    fn at(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let word = words.need("a time")?;
        let millis =
            word.strip_suffix("ms").ok_or_else(|| format!("a time ends with ms, unlike {word:?}"))?;
        let moment = Instant::from_millis(number(millis, "a time")?);
        if moment < self.graph().now {
            return Err("time runs forwards".to_owned());
        }
        self.graph().advance(moment);
        words.end()
    }

    fn receive(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let face = face(words.need("a face")?)?;
        let packet = PacketSpec::parse(words, &self.names)?;
        let link = packet.link(&self.tokens)?;
        self.graph().receive_announced(face, &packet.encode(), link, &packet.announcement());
        Ok(())
    }

    fn expect(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let face: FaceId = face(words.need("a face")?)?;
        let wanted = PacketSpec::parse(words, &self.names)?;
        let graph = self.graph.as_mut().expect("made above");
        if graph.sent.is_empty() {
            return Err("nothing was sent".to_owned());
        }
        let sent = graph.sent.remove(0);
        compare(face, &wanted, &sent, &mut self.tokens)
            .map_err(|error| format!("{error}\n    sent: {}", describe(&sent)))
    }

    fn expect_lesson(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let face = face(words.need("a face")?)?;
        let what = words.need("learn or forget")?;
        let name = self.name(words)?;
        words.end()?;
        let graph = self.graph.as_mut().expect("made above");
        if graph.sent.is_empty() {
            return Err("nothing was sent".to_owned());
        }
        let sent = graph.sent.remove(0);
        compare_lesson(face, what, &name, &sent)
            .map_err(|error| format!("{error}\n    sent: {}", describe(&sent)))
    }

    fn expect_drop(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let reason = words.need("a reason")?;
        let known = nw_element::DropCounters::default().iter().any(|(known, _)| counter(known) == reason);
        if !known {
            return Err(format!("packets are not dropped for {reason:?}"));
        }
        let count: u64 = words.next().map_or(Ok(1), |word| number(word, "how many"))?;
        *self.drops.entry(reason.to_owned()).or_default() += count;
        words.end()
    }

    fn nothing_left(&self) -> Result<(), String> {
        match self.graph.as_ref().and_then(|graph| graph.sent.first()) {
            Some(sent) => Err(format!("before this, nobody expected: {}", describe(sent))),
            None => Ok(()),
        }
    }

    fn end(mut self) -> Result<(), String> {
        self.nothing_left()?;
        let graph = self.graph.as_mut().ok_or("the case does nothing")?;
        for (reason, count) in graph.drops.iter() {
            let name = counter(reason);
            let wanted = self.drops.get(name).copied().unwrap_or(0);
            if wanted != count {
                return Err(format!("drop {name}: expected {wanted}, got {count}"));
            }
        }
        equal("packets that neither left nor ended", graph.pool.packets_in_use(), 0)
    }
}

fn counter(reason: DropReason) -> &'static str {
    reason.as_str()
}

fn on_or_off(words: &mut Words<'_>) -> Result<bool, String> {
    match words.need("on or off")? {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("on or off, not {other:?}")),
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what}: expected {wanted:?}, got {got:?}")) }
}

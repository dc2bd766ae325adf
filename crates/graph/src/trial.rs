//! Runs the tests of a graph file: packets in and out, in virtual time. The language is that of `tests/cases/README.md`, with faces by their names.
//!
//! | line | what |
//! |---|---|
//! | `in apps.2 …`, `out apps.2 …` | the second one that connected to a face that listens; the first one is `apps` or `apps.1` |
//! | `out FACE … from=content-store` | IncomingFaceId says that the content store answered |
//! | `remove-face FACE` | the face ends |
//! | `entered NODE.PORT N`, `left NODE.PORT N` | so many packets passed this port: now |

use crate::engine::{Engine, Fault};
use crate::language::Test;
use crate::model::Graph;
use nw_element_api::case::{Failure, NameVariables, Sent, Subject, Words, equal, run};
use nw_element_api::decode::decode;
use nw_element_api::{Cause, DropCounters, DropReason, FaceId, Instant, LinkFields, Packet, Pool, Scope};
use nw_name::HashKey;
use std::collections::VecDeque;

/// Peers of one face that listens.
const PEERS_MAX: u32 = 16;
/// Packets under way in a test.
const PACKETS_MAX: usize = 4096;
/// Chunks of 64 KiB for them.
const CHUNKS_MAX: usize = 64;
/// Times that elements may be woken while time passes from one line to the next.
const TICKS_MAX: u32 = 1 << 20;
/// How tests name the face that content stores answer by.
const STORE: &str = "content-store";
/// Tests are the same each time.
const KEY: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
const SEED: u64 = 1;

/// Runs one test on a graph that was found good, with empty tables.
///
/// # Errors
/// The line of the file and what was wrong there.
pub fn run_test(graph: &Graph, test: &Test) -> Result<(), Failure> {
    let at_its_name =
        |error: String| Failure { line: test.place.line as usize, text: test.name.clone(), error };
    if test.text.trim().is_empty() {
        return Err(at_its_name("it says nothing: write `in FACE PACKET` and `out FACE PACKET`".to_owned()));
    }
    let mut trial = Trial::new(graph).map_err(at_its_name)?;
    run(&test.text, &mut trial)
}

struct Trial<'a> {
    graph: &'a Graph,
    engine: Engine,
    pool: Pool,
    now: Instant,
    /// Dropped before the engine.
    refused: DropCounters,
    drops: DropCounters,
    /// Faces there were, with the face of the graph and the number of the peer.
    faces: Vec<(FaceId, usize, u32)>,
    sent: VecDeque<Sent>,
    batch: Vec<Packet>,
    out: Vec<Packet>,
}

impl<'a> Trial<'a> {
    fn new(graph: &'a Graph) -> Result<Self, String> {
        let key = HashKey::new(KEY);
        let said = |faults: Vec<Fault>| {
            let said = faults.iter().map(|fault| format!("{}: {}", fault.node, fault.error));
            said.collect::<Vec<_>>().join("; ")
        };
        let engine = Engine::new(graph, key, SEED).map_err(said)?;
        let mut trial = Trial {
            graph,
            engine,
            pool: Pool::new(key, CHUNKS_MAX, PACKETS_MAX),
            now: Instant::START,
            refused: DropCounters::default(),
            drops: DropCounters::default(),
            faces: Vec::new(),
            sent: VecDeque::new(),
            batch: Vec::new(),
            out: Vec::new(),
        };
        for (at, face) in graph.faces.iter().enumerate() {
            let peers = if face.listens { 1..=PEERS_MAX } else { 1..=1 };
            for peer in peers {
                let slot = FaceId::FIRST + trial.faces.len() as u32;
                let id = FaceId::from_slot(slot, 0);
                trial.faces.push((id, at, peer));
                trial.engine.add_face(id, face.info, at, face.listens);
            }
        }
        let applied = trial.engine.apply(trial.now, &mut trial.pool, &mut trial.out);
        applied.map_err(said)?;
        trial.settle();
        Ok(trial)
    }

    /// Looks at what left, and adds up what was dropped.
    fn settle(&mut self) {
        for packet in self.out.drain(..) {
            let meta = self.pool.meta(&packet);
            let (face, kind, link) = (meta.egress, meta.kind, meta.link);
            let bytes = self.pool.bytes(&packet).to_vec();
            let announcement = self.pool.announcement(link.announcement).map(<[u8]>::to_vec);
            self.sent.push_back(Sent { face, kind, link, bytes, announcement, lesson: false });
            self.pool.release(packet);
        }
        self.drops = self.refused.clone();
        self.drops.merge(self.engine.drops());
    }

    fn passed(&self, is_out: bool, words: &mut Words<'_>) -> Result<(), String> {
        let end = words.need("NODE.PORT")?;
        let wanted: u64 = words.number("how many")?;
        words.end()?;
        let (node, port) = end.split_once('.').ok_or_else(|| format!("NODE.PORT, not {end:?}"))?;
        let counts = self.engine.counts();
        let count =
            counts.iter().find(|count| count.node == node && count.port == port && count.is_out == is_out);
        let count = count.ok_or_else(|| format!("there is no port {end:?} of this kind"))?;
        equal("packets that passed", count.packets, wanted)
    }
}

impl Subject for Trial<'_> {
    fn face(&self, word: &str) -> Result<FaceId, String> {
        if word == STORE {
            return Ok(FaceId::CONTENT_STORE);
        }
        let (name, peer) = word.split_once('.').unwrap_or((word, "1"));
        let known = || {
            let names: Vec<&str> = self.graph.faces.iter().map(|face| face.name.as_str()).collect();
            format!("no face is called {word:?}; there are {}", names.join(", "))
        };
        let (at, peer) = (self.graph.face(name).ok_or_else(known)?, peer.parse().map_err(|_| known())?);
        let found = self.faces.iter().find(|(_, face, number)| (*face, *number) == (at, peer));
        found.map(|(id, ..)| *id).ok_or_else(|| match self.graph.faces[at].listens {
            true => format!("{name:?} has peers 1 to {PEERS_MAX} in tests"),
            false => format!("{name:?} does not listen: it is one face, without a number"),
        })
    }

    fn face_name(&self, face: FaceId) -> String {
        match self.faces.iter().find(|(id, ..)| *id == face) {
            Some((_, at, 1)) => self.graph.faces[*at].name.clone(),
            Some((_, at, peer)) => format!("{}.{peer}", self.graph.faces[*at].name),
            None if face == FaceId::CONTENT_STORE => STORE.to_owned(),
            None => format!("face {face}, which the graph does not declare"),
        }
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn advance(&mut self, to: Instant) {
        for _ in 0..TICKS_MAX {
            let Some(due) = self.engine.deadline().filter(|due| *due <= to) else { break };
            self.now = self.now.max(due);
            self.engine.tick(self.now, &mut self.pool, &mut self.out);
            self.settle();
        }
        self.now = to;
    }

    fn receive(&mut self, face: FaceId, bytes: &[u8], link: LinkFields, announcement: &[u8]) {
        let link = LinkFields { announcement: self.pool.keep_announcement(announcement), ..link };
        let known = self.faces.iter().find(|(id, ..)| *id == face);
        let local = known.is_some_and(|(_, at, _)| self.graph.faces[*at].info.scope == Scope::Local);
        match self.pool.copy_of(bytes) {
            None => self.refused.count(Cause::NoBuffer),
            Some(packet) => {
                let meta = self.pool.meta_mut(&packet);
                meta.ingress = face;
                meta.ingress_local = local;
                meta.arrival = self.now;
                meta.link = link;
                match decode(&mut self.pool, &packet) {
                    Ok(_) => self.batch.push(packet),
                    Err(error) => {
                        self.pool.drop_packet(packet, DropReason::Malformed(error.fault), &mut self.refused);
                    }
                }
            }
        }
        self.engine.process(self.now, &mut self.batch, &mut self.pool, &mut self.out);
        self.settle();
    }

    fn sent(&mut self, take: bool) -> Option<Sent> {
        if take { self.sent.pop_front() } else { self.sent.front().cloned() }
    }

    fn drops(&self) -> &DropCounters {
        &self.drops
    }

    fn packets_in_use(&self) -> usize {
        self.pool.packets_in_use()
    }

    fn command(
        &mut self,
        command: &str,
        words: &mut Words<'_>,
        _: &NameVariables,
    ) -> Option<Result<(), String>> {
        let remove = |trial: &mut Self, words: &mut Words<'_>| {
            let face = trial.face(words.need("a face")?)?;
            trial.engine.remove_face(trial.now, face);
            words.end()
        };
        match command {
            "remove-face" => Some(remove(self, words)),
            "entered" => Some(self.passed(false, words)),
            "left" => Some(self.passed(true, words)),
            _ => None,
        }
    }
}

//! Runs the tests of a graph file in virtual time. The language is that of `tests/cases/README.md`;
//! faces are referred to by name. It adds these lines:
//!
//! | line | meaning |
//! |---|---|
//! | `in apps.2 …`, `out apps.2 …` | the second peer accepted by the listening face `apps`; the
//! first is `apps` or `apps.1` |
//! | `out FACE … from=content-store` | the IncomingFaceId names the content store |
//! | `remove-face FACE` | the face is removed |
//! | `entered NODE.PORT N`, `left NODE.PORT N` | exactly N packets have passed this port so far |

use crate::engine::{Engine, Fault};
use crate::language::Test;
use crate::model::Graph;
use nw_element_api::decode::decode;
use nw_element_api::{
    DropCause, DropCounters, DropReason, FaceId, LinkFields, Packet, Pool, Scope, Timestamp,
};
use nw_name::HashKey;
use nw_testkit::case::{Args, Failure, NameVariables, Sent, TestTarget, equal, run};
use std::collections::VecDeque;

/// Peers of one listening face.
const PEERS_MAX: u32 = 16;
/// Packets in use at a time in a test.
const PACKETS_MAX: usize = 4096;
/// Chunks of 64 KiB in the test's packet pool.
const CHUNKS_MAX: usize = 64;
/// Timer calls between two lines of a test, at most.
const TICKS_MAX: u32 = 1 << 20;
/// Name of the content store's pseudo face in tests.
const STORE_FACE_NAME: &str = "content-store";
/// Fixed hash key: tests are deterministic.
const KEY: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
const SEED: u64 = 1;

/// Runs one test on a checked graph, with empty tables.
///
/// # Errors
/// If the test fails: the line of the file and the reason.
pub fn run_test(graph: &Graph, test: &Test) -> Result<(), Failure> {
    let failure = |error: String| Failure {
        line: test.position.line as usize,
        text: test.name.clone(),
        error,
    };
    if test.text.trim().is_empty() {
        return Err(failure(
            "the test is empty: write `in FACE PACKET` and `out FACE PACKET` lines".to_owned(),
        ));
    }
    let mut test_run = TestRun::new(graph).map_err(failure)?;
    run(&test.text, &mut test_run)
}

struct TestRun<'a> {
    graph: &'a Graph,
    engine: Engine,
    pool: Pool,
    now: Timestamp,
    /// Packets dropped before they reached the engine.
    input_drops: DropCounters,
    drops: DropCounters,
    /// All faces: id, index in the graph, peer number from 1.
    faces: Vec<(FaceId, usize, u32)>,
    sent: VecDeque<Sent>,
    batch: Vec<Packet>,
    out: Vec<Packet>,
}

impl<'a> TestRun<'a> {
    fn new(graph: &'a Graph) -> Result<Self, String> {
        let key = HashKey::new(KEY);
        let describe_faults = |faults: Vec<Fault>| {
            let describe_faults =
                faults.iter().map(|fault| format!("{}: {}", fault.node, fault.error));
            describe_faults.collect::<Vec<_>>().join("; ")
        };
        let engine = Engine::new(graph, key, SEED).map_err(describe_faults)?;
        let mut test_run = TestRun {
            graph,
            engine,
            pool: Pool::new(key, CHUNKS_MAX, PACKETS_MAX),
            now: Timestamp::START,
            input_drops: DropCounters::default(),
            drops: DropCounters::default(),
            faces: Vec::new(),
            sent: VecDeque::new(),
            batch: Vec::new(),
            out: Vec::new(),
        };
        for (at, face) in graph.faces.iter().enumerate() {
            let peers = if face.is_listener { 1..=PEERS_MAX } else { 1..=1 };
            for peer in peers {
                let slot = FaceId::FIRST + test_run.faces.len() as u32;
                let id = FaceId::from_slot(slot, 0);
                test_run.faces.push((id, at, peer));
                test_run.engine.add_face(id, face.info, at, face.is_listener);
            }
        }
        let applied = test_run.engine.apply(test_run.now, &mut test_run.pool, &mut test_run.out);
        applied.map_err(describe_faults)?;
        test_run.collect_output();
        Ok(test_run)
    }

    /// Moves sent packets to `sent` and adds up the drop counters.
    fn collect_output(&mut self) {
        for packet in self.out.drain(..) {
            let meta = self.pool.meta(&packet);
            let (face, kind, link) = (meta.egress, meta.kind, meta.link);
            let bytes = self.pool.bytes(&packet).to_vec();
            let announcement = self.pool.announcement(link.announcement).map(<[u8]>::to_vec);
            self.sent.push_back(Sent { face, kind, link, bytes, announcement, route_event: false });
            self.pool.release(packet);
        }
        self.drops = self.input_drops.clone();
        self.drops.merge(self.engine.drops());
    }

    fn check_port_count(&self, is_out: bool, words: &mut Args<'_>) -> Result<(), String> {
        let port_name = words.need("NODE.PORT")?;
        let expected: u64 = words.number("how many")?;
        words.end()?;
        let (node, port) = port_name
            .split_once('.')
            .ok_or_else(|| format!("NODE.PORT expected, not {port_name:?}"))?;
        let counts = self.engine.counts();
        let count = counts
            .iter()
            .find(|count| count.node == node && count.port == port && count.is_out == is_out);
        let count =
            count.ok_or_else(|| format!("there is no port {port_name:?} in this direction"))?;
        equal("packets that passed", count.packets, expected)
    }
}

impl TestTarget for TestRun<'_> {
    fn face(&self, word: &str) -> Result<FaceId, String> {
        if word == STORE_FACE_NAME {
            return Ok(FaceId::CONTENT_STORE);
        }
        let (name, peer) = word.split_once('.').unwrap_or((word, "1"));
        let unknown_face = || {
            let names: Vec<&str> = self.graph.faces.iter().map(|face| face.name.as_str()).collect();
            format!("no face is called {word:?}; there are {}", names.join(", "))
        };
        let (at, peer) = (
            self.graph.face_index(name).ok_or_else(unknown_face)?,
            peer.parse().map_err(|_| unknown_face())?,
        );
        let found = self.faces.iter().find(|(_, face, number)| (*face, *number) == (at, peer));
        found.map(|(id, ..)| *id).ok_or_else(|| match self.graph.faces[at].is_listener {
            true => format!("{name:?} has peers 1 to {PEERS_MAX} in tests"),
            false => format!("{name:?} does not listen: write the name without a number"),
        })
    }

    fn face_name(&self, face: FaceId) -> String {
        match self.faces.iter().find(|(id, ..)| *id == face) {
            Some((_, at, 1)) => self.graph.faces[*at].name.clone(),
            Some((_, at, peer)) => format!("{}.{peer}", self.graph.faces[*at].name),
            None if face == FaceId::CONTENT_STORE => STORE_FACE_NAME.to_owned(),
            None => format!("face {face} (not declared in the graph)"),
        }
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn advance(&mut self, to: Timestamp) {
        for _ in 0..TICKS_MAX {
            let Some(due) = self.engine.deadline().filter(|due| *due <= to) else { break };
            self.now = self.now.max(due);
            self.engine.tick(self.now, &mut self.pool, &mut self.out);
            self.collect_output();
        }
        self.now = to;
    }

    fn receive(&mut self, face: FaceId, bytes: &[u8], link: LinkFields, announcement: &[u8]) {
        let link = LinkFields { announcement: self.pool.keep_announcement(announcement), ..link };
        let known = self.faces.iter().find(|(id, ..)| *id == face);
        let local =
            known.is_some_and(|(_, at, _)| self.graph.faces[*at].info.scope == Scope::Local);
        match self.pool.copy_of(bytes) {
            None => self.input_drops.count(DropCause::NoBuffer),
            Some(packet) => {
                let meta = self.pool.meta_mut(&packet);
                meta.ingress = face;
                meta.ingress_local = local;
                meta.arrival = self.now;
                meta.link = link;
                match decode(&mut self.pool, &packet) {
                    Ok(_) => self.batch.push(packet),
                    Err(error) => {
                        self.pool.drop_packet(
                            packet,
                            DropReason::Malformed(error.fault),
                            &mut self.input_drops,
                        );
                    }
                }
            }
        }
        self.engine.process(self.now, &mut self.batch, &mut self.pool, &mut self.out);
        self.collect_output();
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
        words: &mut Args<'_>,
        _: &NameVariables,
    ) -> Option<Result<(), String>> {
        let remove = |test_run: &mut Self, words: &mut Args<'_>| {
            let face = test_run.face(words.need("a face")?)?;
            test_run.engine.remove_face(test_run.now, face);
            words.end()
        };
        match command {
            "remove-face" => Some(remove(self, words)),
            "entered" => Some(self.check_port_count(false, words)),
            "left" => Some(self.check_port_count(true, words)),
            _ => None,
        }
    }
}

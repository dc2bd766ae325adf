//! Management as a client sees it, over a router made of maps.

mod advertise;
mod commands;
mod datasets;
mod faces;
mod fake;
mod hostile;
mod learning;
mod parts;
mod statics;

use super::*;
use fake::{Fake, Gate};
use nw_api::management::Dataset;
use nw_api::management::client::{self, Progress, Reassembly, Uniqueness};
use nw_wire::{Data, InterestBuilder};

/// A router's management and a client of it.
pub(super) struct Bench {
    control: Control,
    env: Fake,
    gate: Gate,
    now: Instant,
    nonce: u32,
    /// Of the last Interest.
    token: Token,
}

/// A local face that is there from the beginning.
pub(super) const APP: u64 = 300;
/// A face of a neighbour, likewise.
pub(super) const NEIGHBOUR: u64 = 301;

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(Fake::new())
    }

    pub(super) fn with(mut env: Fake) -> Self {
        let config = ControlConfig {
            version: "namewire test".to_owned(),
            seed: 7,
            next_hops_max: 4,
            routes_max: 20_000,
        };
        let control = Control::new(config, &mut env).expect("room for what every router has");
        Bench {
            control,
            env,
            gate: Gate::default(),
            now: Instant::from_millis(1000),
            nonce: 0,
            token: Token::NONE,
        }
    }

    fn ingress(&self, face: u64) -> Ingress {
        Ingress { face: FaceId::from_number(face).unwrap(), local: face != NEIGHBOUR, peer: Peer::Face(face) }
    }

    pub(super) fn interest(&mut self, face: u64, wire: &[u8]) -> Reply {
        let ingress = self.ingress(face);
        self.nonce += 1;
        self.token = Token::new(&self.nonce.to_be_bytes()).unwrap();
        self.control.on_interest(self.now, ingress, self.token, wire, &mut self.gate, &mut self.env)
    }

    /// Does what takes long to its end; how many parts it took.
    pub(super) fn settle(&mut self) -> usize {
        let mut parts = 0;
        while self.control.has_work() {
            self.control.work(self.now, &mut self.env);
            parts += 1;
        }
        parts
    }

    /// Asks, and waits if that takes long.
    pub(super) fn ask(&mut self, face: u64, wire: &[u8]) -> Reply {
        let sent = self.env.sent.len();
        match self.interest(face, wire) {
            Reply::Later => {
                self.settle();
                if self.env.sent.len() > sent { Reply::Sent } else { Reply::Later }
            }
            reply => reply,
        }
    }

    pub(super) fn command_wire(&mut self, root: Root, verb: Verb, parameters: &ControlParameters) -> Vec<u8> {
        self.nonce += 1;
        let unique =
            Uniqueness { nonce: self.nonce, signature_nonce: [7; 8], time_ms: u64::from(self.nonce) };
        let Ok(wire) = client::command(root, verb, parameters, unique, &DigestSha256);
        wire
    }

    /// Sends a command by a face and reads the answer, whose name is checked.
    pub(super) fn command_by(
        &mut self,
        face: u64,
        root: Root,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Option<ControlResponse> {
        let wire = self.command_wire(root, verb, parameters);
        match self.ask(face, &wire) {
            Reply::Answered(code) => {
                let response = self.answer_to(&wire);
                assert_eq!(response.code, code);
                Some(response)
            }
            Reply::Sent => Some(self.answer_to(&wire)),
            _ => None,
        }
    }

    pub(super) fn answer_to(&mut self, wire: &[u8]) -> ControlResponse {
        let (data, token) = self.env.sent.pop().expect("an answer");
        let data = Data::check(&data).unwrap();
        assert_eq!(data.name(), Interest::check(wire).unwrap().name());
        assert_eq!(data.freshness_ms(), 1000);
        assert!(token == self.token, "the answer is for that Interest only");
        ControlResponse::decode(data.content()).unwrap()
    }

    pub(super) fn command(&mut self, verb: Verb, parameters: ControlParameters) -> ControlResponse {
        self.command_by(APP, Root::Localhost, verb, &parameters).expect("an answer")
    }

    pub(super) fn fetch(&mut self, dataset: Dataset) -> Vec<u8> {
        let wire = client::dataset(dataset, None, 1);
        self.fetch_by(wire)
    }

    pub(super) fn fetch_by(&mut self, mut wire: Vec<u8>) -> Vec<u8> {
        let mut reassembly = Reassembly::new(1 << 26);
        loop {
            assert_eq!(self.ask(APP, &wire), Reply::Sent);
            let (data, token) = self.env.sent.pop().unwrap();
            assert!(token == self.token);
            match reassembly.take(&Data::check(&data).unwrap()).unwrap() {
                Progress::Whole(content) => return content,
                Progress::Ask(name) => wire = InterestBuilder::new(name).encode(),
            }
        }
    }

    pub(super) fn items<T: client::Item>(&mut self, dataset: Dataset) -> Vec<T> {
        client::decode_items(&self.fetch(dataset)).unwrap()
    }

    pub(super) fn hops(&self, prefix: &str) -> Option<Vec<(u64, u32)>> {
        let (hops, _) = self.env.fib.get(&named(prefix))?;
        Some(hops.iter().map(|hop| (hop.face.number(), hop.cost)).collect())
    }

    pub(super) fn strategy(&self, prefix: &str) -> Option<&str> {
        let (_, strategy) = self.env.fib.get(&named(prefix))?;
        Some(fake::STRATEGIES[usize::from(strategy.0)])
    }
}

pub(super) fn named_parameters(name: &str) -> ControlParameters {
    ControlParameters::of(named(name))
}

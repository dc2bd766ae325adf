//! Tests of management from a client's view, over a fake environment.

mod advertise;
mod commands;
mod config_sync;
mod datasets;
mod faces;
mod fake_environment;
mod hostile;
mod learning;
mod parts;

use super::*;
use fake_environment::{FakeAuthority, FakeEnvironment};
use nw_api::management::Dataset;
use nw_api::management::client::{self, Progress, Reassembly, Uniqueness};
use nw_wire::{Data, InterestBuilder};

/// Management with a fake environment, and a client of it.
pub(super) struct TestRouter {
    control: Control,
    env: FakeEnvironment,
    authority: FakeAuthority,
    now: Timestamp,
    nonce: u32,
    /// PIT token of the last Interest.
    token: Token,
}

/// A local face that exists from the start.
pub(super) const APP: u64 = 300;
/// A face to a neighbour that exists from the start.
pub(super) const NEIGHBOUR: u64 = 301;

impl TestRouter {
    pub(super) fn new() -> Self {
        Self::with(FakeEnvironment::new())
    }

    pub(super) fn with(mut env: FakeEnvironment) -> Self {
        let config = ControlConfig {
            version: "namewire test".to_owned(),
            seed: 7,
            next_hops_max: 4,
            routes_max: 20_000,
        };
        let control = Control::new(config, &mut env).expect("capacity for the default entries");
        TestRouter {
            control,
            env,
            authority: FakeAuthority::default(),
            now: Timestamp::from_millis(1000),
            nonce: 0,
            token: Token::NONE,
        }
    }

    fn ingress(&self, face: u64) -> Ingress {
        Ingress {
            face: FaceId::from_number(face).unwrap(),
            local: face != NEIGHBOUR,
            peer: PeerGroup::Face(face),
        }
    }

    pub(super) fn interest(&mut self, face: u64, wire: &[u8]) -> Reply {
        let ingress = self.ingress(face);
        self.nonce += 1;
        self.token = Token::new(&self.nonce.to_be_bytes()).unwrap();
        self.control.on_interest(
            self.now,
            ingress,
            self.token,
            wire,
            &mut self.authority,
            &mut self.env,
        )
    }

    /// Calls [`Control::work`] until nothing is left to do, and returns how often.
    pub(super) fn run_to_completion(&mut self) -> usize {
        let mut parts = 0;
        while self.control.has_work() {
            self.control.work(self.now, &mut self.env);
            parts += 1;
        }
        parts
    }

    /// Sends an Interest and completes a deferred reply.
    pub(super) fn request(&mut self, face: u64, wire: &[u8]) -> Reply {
        let sent = self.env.sent.len();
        match self.interest(face, wire) {
            Reply::Deferred => {
                self.run_to_completion();
                if self.env.sent.len() > sent { Reply::Sent } else { Reply::Deferred }
            }
            reply => reply,
        }
    }

    pub(super) fn command_wire(
        &mut self,
        root: Root,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Vec<u8> {
        self.nonce += 1;
        let unique = Uniqueness {
            nonce: self.nonce,
            signature_nonce: [7; 8],
            time_ms: u64::from(self.nonce),
        };
        let Ok(wire) = client::command(root, verb, parameters, unique, &DigestSha256);
        wire
    }

    /// Sends a command on a face and returns the decoded reply, after checking its name.
    pub(super) fn command_by(
        &mut self,
        face: u64,
        root: Root,
        verb: Verb,
        parameters: &ControlParameters,
    ) -> Option<ControlResponse> {
        let wire = self.command_wire(root, verb, parameters);
        match self.request(face, &wire) {
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
            assert_eq!(self.request(APP, &wire), Reply::Sent);
            let (data, token) = self.env.sent.pop().unwrap();
            assert!(token == self.token);
            match reassembly.add(&Data::check(&data).unwrap()).unwrap() {
                Progress::Complete(content) => return content,
                Progress::Request(name) => wire = InterestBuilder::new(name).encode(),
            }
        }
    }

    pub(super) fn items<T: client::Item>(&mut self, dataset: Dataset) -> Vec<T> {
        client::decode_items(&self.fetch(dataset)).unwrap()
    }

    pub(super) fn hops(&self, prefix: &str) -> Option<Vec<(u64, u32)>> {
        let (hops, _) = self.env.fib.get(&constant_name(prefix))?;
        Some(hops.iter().map(|hop| (hop.face.number(), hop.cost)).collect())
    }

    pub(super) fn strategy(&self, prefix: &str) -> Option<&str> {
        let (_, strategy) = self.env.fib.get(&constant_name(prefix))?;
        Some(fake_environment::STRATEGIES[usize::from(strategy.0)])
    }
}

pub(super) fn parameters_for(name: &str) -> ControlParameters {
    ControlParameters::of(constant_name(name))
}

/// Converts a configuration without resolving host names: there is no resolver here.
fn desired_config(config: nw_api::config::Config) -> DesiredConfig {
    DesiredConfig::new(config, &|uri| Ok(vec![uri.to_owned()]))
}

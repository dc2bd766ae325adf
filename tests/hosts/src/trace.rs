//! Traces: what a router is set up with, and what comes.

use nw_element_api::{FaceInfo, Kind, LinkType, Scope};
use nw_name::Name;
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, LpHeader, LpPacket, NackReason, Token};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option};

/// Faces of every trace: the first is local.
pub const FACES: [&str; 4] = ["apps", "north", "east", "west"];

/// What is known of a face of a trace.
pub fn face_info(face: usize) -> FaceInfo {
    let scope = if face == 0 { Scope::Local } else { Scope::NonLocal };
    FaceInfo { scope, link_type: LinkType::PointToPoint }
}

/// Prefixes, as a graph has them: `/a north cost=1 east`, and `/b multicast`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Routes.
    pub routes: Vec<String>,
    /// Strategies.
    pub strategies: Vec<String>,
}

/// What comes, and how the router is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Routes and strategies.
    pub routes: Routes,
    /// In order.
    pub steps: Vec<Step>,
}

/// How an Interest that was sent is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Data, fresh for so many milliseconds; with a name that is longer, or the same.
    Data {
        /// FreshnessPeriod.
        freshness_ms: u16,
        /// Below the Interest's name.
        longer: bool,
    },
    /// A refusal: 50 congestion, 100 duplicate, 150 no route.
    Nack(u8),
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time passes.
    Wait {
        /// So much.
        ms: u16,
    },
    /// An Interest comes.
    Interest {
        /// By which face.
        face: usize,
        /// Its name.
        name: Name,
        /// Its nonce.
        nonce: u32,
        /// Its lifetime.
        lifetime_ms: u16,
        /// CanBePrefix.
        can_be_prefix: bool,
        /// MustBeFresh.
        must_be_fresh: bool,
        /// HopLimit.
        hop_limit: Option<u8>,
        /// The token that the peer wants back.
        token: Vec<u8>,
    },
    /// Data comes that nobody need have asked for.
    Data {
        /// By which face.
        face: usize,
        /// Its name.
        name: Name,
        /// FreshnessPeriod.
        freshness_ms: u16,
        /// What stands in for a token.
        token: Vec<u8>,
    },
    /// A packet comes as it was recorded. What answers and carried a token returns that of the last Interest that was sent by this face and that it
    /// answers.
    Recorded {
        /// By which face.
        face: usize,
        /// Its octets.
        wire: Vec<u8>,
        /// The token it came with.
        token: Vec<u8>,
        /// The reason, of a Nack.
        nack: Option<u8>,
    },
    /// The peer to whom an Interest was sent answers: the one sent so many before the last.
    Answer {
        /// Counted backwards.
        back: usize,
        /// How.
        answer: Answer,
        /// Whether it returns the token.
        returns_token: bool,
    },
}

/// A packet that left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    /// By which face.
    pub face: usize,
    /// Interest, Data or Nack.
    pub kind: &'static str,
    /// Its octets.
    pub wire: Vec<u8>,
    /// Its token. What is given upstream is the host's own affair: only whether there is one shows here.
    pub token: Vec<u8>,
    /// The reason of a Nack.
    pub nack: Option<u64>,
}

impl Sent {
    /// A link packet that came out of a host by a face; an Interest is open from now on.
    pub fn seen(face: usize, link_packet: &[u8], open: &mut Vec<Open>) -> Self {
        let lp = LpPacket::check(link_packet).expect("hosts send what they should");
        let wire = lp.fragment.expect("with a packet in it").to_vec();
        let kind = match (lp.nack, wire[0]) {
            (Some(_), _) => kind_name(Kind::Nack),
            (None, 5) => kind_name(Kind::Interest),
            (None, _) => kind_name(Kind::Data),
        };
        let mut token = lp.pit_token.as_bytes().to_vec();
        if kind == kind_name(Kind::Interest) {
            open.push(Open { face, wire: wire.clone(), token: lp.pit_token });
            token = vec![token.len() as u8];
        }
        Sent { face, kind, wire, token, nack: lp.nack.map(NackReason::number) }
    }
}

/// An Interest that was sent, to be answered later.
#[derive(Clone, Debug)]
pub struct Open {
    /// To whom.
    pub face: usize,
    /// Its octets.
    pub wire: Vec<u8>,
    /// Its token.
    pub token: Token,
}

/// Brings Interests that left in one step into an order that does not depend on how the host's faces are served.
pub fn order(sent_in_step: &mut [Open]) {
    sent_in_step.sort_by(|a, b| (a.face, &a.wire).cmp(&(b.face, &b.wire)));
}

/// A link packet that comes.
pub struct Incoming {
    /// By which face.
    pub face: usize,
    /// The network packet.
    pub wire: Vec<u8>,
    /// Its token.
    pub token: Token,
    /// The reason, of a Nack.
    pub nack: Option<NackReason>,
}

impl Incoming {
    /// As it is on the wire of a link.
    pub fn link_packet(&self) -> Vec<u8> {
        let header = LpHeader { pit_token: self.token, nack: self.nack, ..LpHeader::default() };
        let mut octets = Vec::new();
        header.encode(self.wire.len(), &mut octets);
        octets.extend_from_slice(&self.wire);
        octets
    }
}

impl Step {
    /// What comes with this step, given the Interests that were sent so far, the last one last.
    pub fn incoming(&self, open: &[Open]) -> Option<Incoming> {
        let token = |octets: &[u8]| Token::new(octets).unwrap_or(Token::NONE);
        match self {
            Step::Wait { .. } => None,
            Step::Interest {
                face,
                name,
                nonce,
                lifetime_ms,
                can_be_prefix,
                must_be_fresh,
                hop_limit,
                token: own,
            } => {
                let mut builder = InterestBuilder::new(name.clone())
                    .nonce(*nonce)
                    .lifetime_ms(u64::from(*lifetime_ms))
                    .can_be_prefix(*can_be_prefix)
                    .must_be_fresh(*must_be_fresh);
                if let Some(hops) = hop_limit {
                    builder = builder.hop_limit(*hops);
                }
                Some(Incoming { face: *face, wire: builder.encode(), token: token(own), nack: None })
            }
            Step::Data { face, name, freshness_ms, token: own } => {
                Some(Incoming { face: *face, wire: data(name, *freshness_ms), token: token(own), nack: None })
            }
            Step::Recorded { face, wire, token: own, nack } => {
                let asks = nack.is_none() && nw_wire::Interest::check(wire).is_ok();
                let own = match asks || own.is_empty() {
                    true => token(own),
                    false => awaited(open, *face, wire).map_or(Token::NONE, |sent| sent.token),
                };
                let nack = nack.map(|reason| NackReason::from(u64::from(reason)));
                Some(Incoming { face: *face, wire: wire.clone(), token: own, nack })
            }
            Step::Answer { back, answer, returns_token } => {
                let sent = open.len().checked_sub(back + 1).and_then(|at| open.get(at))?;
                let token = if *returns_token { sent.token } else { Token::NONE };
                let face = sent.face;
                match answer {
                    Answer::Nack(reason) => {
                        let nack = Some(NackReason::from(u64::from(*reason)));
                        Some(Incoming { face, wire: sent.wire.clone(), token, nack })
                    }
                    Answer::Data { freshness_ms, longer } => {
                        let interest = nw_wire::Interest::check(&sent.wire).ok()?;
                        let name = interest.name().to_name();
                        let name = if *longer { name.with_generic("below") } else { name };
                        Some(Incoming { face, wire: data(&name, *freshness_ms), token, nack: None })
                    }
                }
            }
        }
    }
}

/// The last Interest sent by a face that a packet answers.
fn awaited<'a>(open: &'a [Open], face: usize, wire: &[u8]) -> Option<&'a Open> {
    let name = crate::recorded::name_of(wire).ok()?;
    open.iter().rev().find(|sent| {
        let asked = crate::recorded::name_of(&sent.wire);
        sent.face == face && asked.is_ok_and(|asked| asked.as_ref().is_prefix_of(name.as_ref()))
    })
}

fn data(name: &Name, freshness_ms: u16) -> Vec<u8> {
    let builder = DataBuilder::new(name, b"content").freshness_ms(u64::from(freshness_ms));
    let Ok(wire) = builder.encode(&DigestSha256);
    wire
}

/// Kinds as they are called in outcomes.
pub const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Interest => "Interest",
        Kind::Data => "Data",
        Kind::Nack => "Nack",
    }
}

fn name() -> impl Strategy<Value = Name> {
    let text = prop_oneof!["/[ab]/[cd]", "/[abc]", "/[ab]/[cd]/[ef]/[gh]", Just("/localhost/x".to_owned())];
    text.prop_map(|text| text.parse().expect("a name"))
}

fn step() -> impl Strategy<Value = Step> {
    let faces = 0..FACES.len();
    let token = || {
        prop_oneof![Just(Vec::new()), collection::vec(any::<u8>(), 1..8), collection::vec(any::<u8>(), 32)]
    };
    let interest = (
        faces.clone(),
        name(),
        1..40u32,
        prop_oneof![Just(4000u16), 10..200u16],
        any::<bool>(),
        any::<bool>(),
        option::weighted(0.2, 0..3u8),
        token(),
    )
        .prop_map(|(face, name, nonce, lifetime_ms, can_be_prefix, must_be_fresh, hop_limit, token)| {
            Step::Interest { face, name, nonce, lifetime_ms, can_be_prefix, must_be_fresh, hop_limit, token }
        });
    let data = (faces, name(), prop_oneof![Just(0u16), 1..200u16], token())
        .prop_map(|(face, name, freshness_ms, token)| Step::Data { face, name, freshness_ms, token });
    let how = prop_oneof![
        4 => (prop_oneof![Just(0u16), 1..200u16], any::<bool>())
            .prop_map(|(freshness_ms, longer)| Answer::Data { freshness_ms, longer }),
        1 => prop_oneof![Just(50u8), Just(100), Just(150)].prop_map(Answer::Nack),
    ];
    let answer = (0..4usize, how, any::<bool>()).prop_map(|(back, answer, returns_token)| Step::Answer {
        back,
        answer,
        returns_token,
    });
    prop_oneof![
        5 => interest,
        1 => data,
        4 => answer,
        1 => (0..60u16).prop_map(|ms| Step::Wait { ms }),
    ]
}

fn routes() -> impl Strategy<Value = Routes> {
    let hop = (1..FACES.len(), 0..3u32).prop_map(|(face, cost)| format!(" {} cost={cost}", FACES[face]));
    let hops = collection::vec(hop, 1..4).prop_map(|hops| hops.concat());
    let prefix = prop_oneof![Just("/"), Just("/a"), Just("/a/c"), Just("/b")];
    let strategy = prop_oneof![Just("best-route"), Just("multicast")];
    (collection::btree_map(prefix.clone(), hops, 0..4), collection::btree_map(prefix, strategy, 0..3))
        .prop_map(|(routes, strategies)| Routes {
            routes: routes.into_iter().map(|(prefix, hops)| format!("{prefix}{hops}")).collect(),
            strategies: strategies
                .into_iter()
                .map(|(prefix, strategy)| format!("{prefix} {strategy}"))
                .collect(),
        })
}

/// Any trace.
pub fn traces(steps_max: usize) -> impl Strategy<Value = Trace> {
    (routes(), collection::vec(step(), 1..steps_max)).prop_map(|(routes, steps)| Trace { routes, steps })
}

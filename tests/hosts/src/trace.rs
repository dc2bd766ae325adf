//! Traces: the routes of a router, and the packets it receives.

use nw_element_api::{FaceInfo, Kind, LinkType, Scope};
use nw_name::Name;
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, LpHeader, LpPacket, NackReason, Token};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option};

/// Faces of every trace; the first one is local.
pub const FACES: [&str; 4] = ["apps", "north", "east", "west"];

/// Returns scope and link type of a face of a trace.
pub fn face_info(face: usize) -> FaceInfo {
    let scope = if face == 0 { Scope::Local } else { Scope::NonLocal };
    FaceInfo { scope, link_type: LinkType::PointToPoint }
}

/// Routes and strategies in the form of graph parameters: `/a north cost=1 east`, `/b multicast`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Routes.
    pub routes: Vec<String>,
    /// Strategies.
    pub strategies: Vec<String>,
}

/// Routes of the router, and what happens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Routes and strategies.
    pub routes: Routes,
    /// Steps, in order.
    pub steps: Vec<Step>,
}

/// The reply to an Interest that the host sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Data.
    Data {
        /// FreshnessPeriod, milliseconds.
        freshness_ms: u16,
        /// True if its name is longer than the Interest's.
        longer: bool,
    },
    /// A Nack: 50 congestion, 100 duplicate, 150 no route.
    Nack(u8),
}

/// One step of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time passes.
    Wait {
        /// Milliseconds.
        ms: u16,
    },
    /// An Interest arrives.
    Interest {
        /// The face.
        face: usize,
        /// Name.
        name: Name,
        /// Nonce.
        nonce: u32,
        /// InterestLifetime, milliseconds.
        lifetime_ms: u16,
        /// CanBePrefix.
        can_be_prefix: bool,
        /// MustBeFresh.
        must_be_fresh: bool,
        /// HopLimit.
        hop_limit: Option<u8>,
        /// PIT token of the peer.
        token: Vec<u8>,
    },
    /// Data arrives that may be unsolicited.
    Data {
        /// The face.
        face: usize,
        /// Name.
        name: Name,
        /// FreshnessPeriod, milliseconds.
        freshness_ms: u16,
        /// Arbitrary PIT token.
        token: Vec<u8>,
    },
    /// A recorded packet arrives. If it is a reply and carried a token, it returns the token of the
    /// last Interest that was sent by this face and that it satisfies.
    Recorded {
        /// The face.
        face: usize,
        /// The packet.
        wire: Vec<u8>,
        /// Recorded token.
        token: Vec<u8>,
        /// Nack reason, if it is a Nack.
        nack: Option<u8>,
    },
    /// The peer replies to an Interest that the host sent.
    Answer {
        /// Which one: 0 is the last one sent, 1 the one before.
        back: usize,
        /// The reply.
        answer: Answer,
        /// Whether the reply carries the token.
        returns_token: bool,
    },
}

/// A packet that a host sent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    /// The face.
    pub face: usize,
    /// Interest, Data or Nack.
    pub kind: &'static str,
    /// The packet.
    pub wire: Vec<u8>,
    /// PIT token. Tokens of Interests differ between hosts: for them it is only the token's length.
    pub token: Vec<u8>,
    /// Nack reason, if it is a Nack.
    pub nack: Option<u64>,
}

impl Sent {
    /// Decodes a link packet that a host sent; an Interest is added to `outstanding`.
    pub fn from_link_packet(
        face: usize,
        link_packet: &[u8],
        outstanding: &mut Vec<OutstandingInterest>,
    ) -> Self {
        let lp = LpPacket::check(link_packet).expect("hosts send what they should");
        let wire = lp.fragment.expect("with a packet in it").to_vec();
        let kind = match (lp.nack, wire[0]) {
            (Some(_), _) => kind_name(Kind::Nack),
            (None, 5) => kind_name(Kind::Interest),
            (None, _) => kind_name(Kind::Data),
        };
        let mut token = lp.pit_token.as_bytes().to_vec();
        if kind == kind_name(Kind::Interest) {
            outstanding.push(OutstandingInterest { face, wire: wire.clone(), token: lp.pit_token });
            token = vec![token.len() as u8];
        }
        Sent { face, kind, wire, token, nack: lp.nack.map(NackReason::number) }
    }
}

/// An Interest that the host sent, which may be answered later.
#[derive(Clone, Debug)]
pub struct OutstandingInterest {
    /// The face it was sent by.
    pub face: usize,
    /// The packet.
    pub wire: Vec<u8>,
    /// PIT token.
    pub token: Token,
}

/// Sorts the Interests sent in one step, so that their order does not depend on how the host serves
/// its faces.
pub fn sort_outstanding(sent_in_step: &mut [OutstandingInterest]) {
    sent_in_step.sort_by(|a, b| (a.face, &a.wire).cmp(&(b.face, &b.wire)));
}

/// A packet that arrives.
pub struct Incoming {
    /// The face.
    pub face: usize,
    /// The network packet.
    pub wire: Vec<u8>,
    /// PIT token.
    pub token: Token,
    /// Nack reason, if it is a Nack.
    pub nack: Option<NackReason>,
}

impl Incoming {
    /// Returns the encoded link packet.
    pub fn link_packet(&self) -> Vec<u8> {
        let header = LpHeader { pit_token: self.token, nack: self.nack, ..LpHeader::default() };
        let mut bytes = Vec::new();
        header.encode(self.wire.len(), &mut bytes);
        bytes.extend_from_slice(&self.wire);
        bytes
    }
}

impl Step {
    /// Returns the packet that arrives in this step, given the outstanding Interests in the order
    /// they were sent.
    pub fn incoming(&self, outstanding: &[OutstandingInterest]) -> Option<Incoming> {
        let token = |bytes: &[u8]| Token::new(bytes).unwrap_or(Token::NONE);
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
                token: own_token,
            } => {
                let mut builder = InterestBuilder::new(name.clone())
                    .nonce(*nonce)
                    .lifetime_ms(u64::from(*lifetime_ms))
                    .can_be_prefix(*can_be_prefix)
                    .must_be_fresh(*must_be_fresh);
                if let Some(hops) = hop_limit {
                    builder = builder.hop_limit(*hops);
                }
                Some(Incoming {
                    face: *face,
                    wire: builder.encode(),
                    token: token(own_token),
                    nack: None,
                })
            }
            Step::Data { face, name, freshness_ms, token: own_token } => Some(Incoming {
                face: *face,
                wire: data(name, *freshness_ms),
                token: token(own_token),
                nack: None,
            }),
            Step::Recorded { face, wire, token: own_token, nack } => {
                let is_interest = nack.is_none() && nw_wire::Interest::check(wire).is_ok();
                let own_token = match is_interest || own_token.is_empty() {
                    true => token(own_token),
                    false => interest_answered_by(outstanding, *face, wire)
                        .map_or(Token::NONE, |sent| sent.token),
                };
                let nack = nack.map(|reason| NackReason::from(u64::from(reason)));
                Some(Incoming { face: *face, wire: wire.clone(), token: own_token, nack })
            }
            Step::Answer { back, answer, returns_token } => {
                let sent =
                    outstanding.len().checked_sub(back + 1).and_then(|at| outstanding.get(at))?;
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

/// Returns the last Interest sent by a face that a packet satisfies.
fn interest_answered_by<'a>(
    outstanding: &'a [OutstandingInterest],
    face: usize,
    wire: &[u8],
) -> Option<&'a OutstandingInterest> {
    let name = crate::recorded::name_of(wire).ok()?;
    outstanding.iter().rev().find(|sent| {
        let interest_name = crate::recorded::name_of(&sent.wire);
        sent.face == face
            && interest_name
                .is_ok_and(|interest_name| interest_name.as_ref().is_prefix_of(name.as_ref()))
    })
}

fn data(name: &Name, freshness_ms: u16) -> Vec<u8> {
    let builder = DataBuilder::new(name, b"content").freshness_ms(u64::from(freshness_ms));
    let Ok(wire) = builder.encode(&DigestSha256);
    wire
}

/// Returns the name of a kind, as used in outcomes.
pub const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Interest => "Interest",
        Kind::Data => "Data",
        Kind::Nack => "Nack",
        Kind::Publication => "Publication",
    }
}

fn name() -> impl Strategy<Value = Name> {
    let text = prop_oneof![
        "/[ab]/[cd]",
        "/[abc]",
        "/[ab]/[cd]/[ef]/[gh]",
        Just("/localhost/x".to_owned())
    ];
    text.prop_map(|text| text.parse().expect("a name"))
}

fn step() -> impl Strategy<Value = Step> {
    let faces = 0..FACES.len();
    let token = || {
        prop_oneof![
            Just(Vec::new()),
            collection::vec(any::<u8>(), 1..8),
            collection::vec(any::<u8>(), 32)
        ]
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
        .prop_map(
            |(face, name, nonce, lifetime_ms, can_be_prefix, must_be_fresh, hop_limit, token)| {
                Step::Interest {
                    face,
                    name,
                    nonce,
                    lifetime_ms,
                    can_be_prefix,
                    must_be_fresh,
                    hop_limit,
                    token,
                }
            },
        );
    let data = (faces, name(), prop_oneof![Just(0u16), 1..200u16], token()).prop_map(
        |(face, name, freshness_ms, token)| Step::Data { face, name, freshness_ms, token },
    );
    let reply = prop_oneof![
        4 => (prop_oneof![Just(0u16), 1..200u16], any::<bool>())
            .prop_map(|(freshness_ms, longer)| Answer::Data { freshness_ms, longer }),
        1 => prop_oneof![Just(50u8), Just(100), Just(150)].prop_map(Answer::Nack),
    ];
    let answer = (0..4usize, reply, any::<bool>())
        .prop_map(|(back, answer, returns_token)| Step::Answer { back, answer, returns_token });
    prop_oneof![
        5 => interest,
        1 => data,
        4 => answer,
        1 => (0..60u16).prop_map(|ms| Step::Wait { ms }),
    ]
}

fn routes() -> impl Strategy<Value = Routes> {
    let hop =
        (1..FACES.len(), 0..3u32).prop_map(|(face, cost)| format!(" {} cost={cost}", FACES[face]));
    let hops = collection::vec(hop, 1..4).prop_map(|hops| hops.concat());
    let prefix = prop_oneof![Just("/"), Just("/a"), Just("/a/c"), Just("/b")];
    let strategy = prop_oneof![Just("best-route"), Just("multicast")];
    (
        collection::btree_map(prefix.clone(), hops, 0..4),
        collection::btree_map(prefix, strategy, 0..3),
    )
        .prop_map(|(routes, strategies)| Routes {
            routes: routes.into_iter().map(|(prefix, hops)| format!("{prefix}{hops}")).collect(),
            strategies: strategies
                .into_iter()
                .map(|(prefix, strategy)| format!("{prefix} {strategy}"))
                .collect(),
        })
}

/// Generates traces of less than `steps_max` steps.
pub fn traces(steps_max: usize) -> impl Strategy<Value = Trace> {
    (routes(), collection::vec(step(), 1..steps_max))
        .prop_map(|(routes, steps)| Trace { routes, steps })
}

//! Random traffic through each element alone: no packet is lost or invented, and each leaves by a
//! port for its kind.

use nw_element_api::decode::decode;
use nw_element_api::erased::TaggedBatch;
use nw_element_api::parameters::{BuildContext, Parameters, Value};
use nw_element_api::{
    AnyElement, DropCounters, ErasedContext, FaceId, FaceInfo, Kind, LinkFields, LinkType, Packet,
    Pool, Prediction, Scope, Timestamp,
};
use nw_elements::catalogue::{ENTRIES, Entry};
use nw_name::{HashKey, Name};
use nw_wire::publication::{EnvelopeBuilder, Fid};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, NackReason, Token};
use proptest::prelude::*;

const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);
const FACES: u32 = 4;
/// Few packets, so that copies often fail.
const PACKETS: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    Packet { port: u8, kind: u8, name: usize, ingress: u32, egress: u32, nonce: u32, flags: u8 },
    Wait { millis: u16 },
    FaceGone { face: u32 },
    FaceAdded { face: u32 },
    Apply { parameters: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let face = 0..FACES + 1;
    let packet = (
        any::<u8>(),
        any::<u8>(),
        0..NAMES.len(),
        face.clone(),
        face.clone(),
        0u32..4,
        any::<u8>(),
    );
    prop_oneof![
        12 => packet.prop_map(|(port, kind, name, ingress, egress, nonce, flags)| {
            Step::Packet { port, kind, name, ingress, egress, nonce, flags }
        }),
        2 => (0u16..2000).prop_map(|millis| Step::Wait { millis }),
        1 => face.clone().prop_map(|face| Step::FaceGone { face }),
        2 => face.prop_map(|face| Step::FaceAdded { face }),
        1 => (0usize..2).prop_map(|parameters| Step::Apply { parameters }),
    ]
}

const NAMES: [&str; 7] = [
    "/",
    "/a",
    "/a/b",
    "/a/b/c",
    "/localhost/x",
    "/localhop/x",
    "/a/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16",
];

fn face(number: u32) -> FaceId {
    FaceId::from_slot(300 + number, 0)
}

/// Two sets of parameters per element, with small tables.
fn parameters(element: &str, other: bool) -> Parameters {
    let texts = |texts: &[&str]| {
        Value::List(texts.iter().map(|text| Value::Text((*text).to_owned())).collect())
    };
    let word = |word: &str| Value::Text(word.to_owned());
    let routes = texts(&["/ f1 f2 cost=2", "/a f2 f3 cost=1", "/a/b f0"]);
    let small = Value::Integer(8);
    let given: Vec<(&str, Value)> = match (element, other) {
        ("router", false) => {
            vec![
                ("pending", small.clone()),
                ("prefixes", small.clone()),
                ("dead_nonces", small),
                ("routes", routes),
            ]
        }
        ("router", true) => {
            vec![("routes", routes), ("strategies", texts(&["/ multicast", "/a access"]))]
        }
        ("backward_router", false) => vec![("pending", small.clone()), ("dead_nonces", small)],
        ("backward_router", true) => vec![("interests_per_face", Value::Integer(2))],
        ("name_router", false) => vec![("prefixes", small), ("routes", routes)],
        ("name_router", true) => vec![
            ("nacks", Value::Bool(false)),
            ("data_from_next_hops_only", Value::Bool(true)),
            ("regions", texts(&["/a/b"])),
        ],
        ("strategy_forwarder", false) => {
            vec![
                ("prefixes", small.clone()),
                ("outstanding_max", small),
                ("routes", routes),
                ("strategies", texts(&["/ asf", "/a fail-over"])),
            ]
        }
        ("strategy_forwarder", true) => {
            vec![("routes", routes), ("strategies", texts(&["/ multicast", "/a weighted"]))]
        }
        ("content_store", false) => vec![("packets", small)],
        ("content_store", true) => vec![("policy", word("s3-fifo"))],
        ("name_filter", false) => {
            vec![("rules", texts(&["deny /a", "allow /a/*/c", "deny exact /localhost/x"]))]
        }
        ("name_filter", true) => {
            vec![("on_deny", word("port")), ("rules", texts(&["deny /a/**/c"]))]
        }
        ("rate_limiter", false) => {
            vec![("rate", Value::Integer(2)), ("prefixes", texts(&["/a 1", "/a/b 3 burst=2"]))]
        }
        ("rate_limiter", true) => vec![("rate", Value::Integer(1)), ("on_exceed", word("nack"))],
        ("signature_verifier", false) => {
            vec![("queue_max", Value::Integer(4)), ("digest", Value::Bool(true))]
        }
        ("signature_verifier", true) => {
            vec![("on_invalid", word("port")), ("sample", Value::Float(0.5))]
        }
        ("lipsin_forwarder", other) => lipsin_parameters(other),
        ("counter", false) => vec![("depth", Value::Integer(2))],
        _ => vec![],
    };
    Parameters(given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn lipsin_parameters(other: bool) -> Vec<(&'static str, Value)> {
    let links: &[&str] = match other {
        false => &["f1 out=1 in=2", "f2 out=3 in=4", "f3 out=5"],
        true => &["f0 out=1 in=6", "f2 out=2"],
    };
    let links = links.iter().map(|text| Value::Text((*text).to_owned())).collect();
    let bits = if other { 4 } else { 179 };
    vec![("links", Value::List(links)), ("fill_bits_max", Value::Integer(bits))]
}

struct World<'a> {
    entry: &'a Entry,
    element: Box<dyn AnyElement>,
    pool: Pool,
    out: TaggedBatch<u8>,
    drops: DropCounters,
    now: Timestamp,
}

/// Returns a publication with some of the first six links, in the table of single bits.
fn publication(links: u32, flags: u8) -> Vec<u8> {
    let bits = (0..7).filter(|bit| (links + u32::from(flags)) & 1 << bit != 0);
    let fid = match flags {
        255 => Fid::BROADCAST,
        _ => bits.fold(Fid::EMPTY, |fid, bit| fid.union(Fid::of_bit(bit))),
    };
    let mut wire = Vec::new();
    EnvelopeBuilder { fid, table: 8, hop_limit: flags % 3, ..EnvelopeBuilder::default() }
        .encode(&mut wire)
        .expect("a short packet");
    wire
}

fn face_by_name(name: &str) -> Option<FaceId> {
    name.strip_prefix('f')?.parse().ok().map(face)
}

const CONTEXT: BuildContext<'static> =
    BuildContext { key: KEY, seed: 7, start_unix_ms: 0, faces: &face_by_name };

impl<'a> World<'a> {
    fn new(entry: &'a Entry) -> Self {
        let element =
            entry.make(&CONTEXT, &parameters(entry.name, false)).expect("good parameters");
        let pool = Pool::new(KEY, 8, PACKETS);
        let (out, drops) = (TaggedBatch::default(), DropCounters::default());
        let mut world = World { entry, element, pool, out, drops, now: Timestamp::START };
        (0..FACES).for_each(|number| world.add_face(number));
        world.apply(false);
        world
    }

    fn apply(&mut self, other: bool) {
        let parameters = parameters(self.entry.name, other);
        let erased =
            &mut ErasedContext { pool: &mut self.pool, out: &mut self.out, drops: &mut self.drops };
        let applied =
            self.entry.apply(self.element.as_mut(), self.now, &CONTEXT, &parameters, erased);
        assert_eq!(applied, Ok(()), "{}", self.entry.name);
    }

    fn add_face(&mut self, number: u32) {
        let scope = if number == 0 { Scope::Local } else { Scope::NonLocal };
        let link_type = if number == 3 { LinkType::MultiAccess } else { LinkType::PointToPoint };
        self.element.face_added(face(number), FaceInfo { scope, link_type });
    }

    fn packet(&mut self, kind: Kind, name: &str, nonce: u32, flags: u8) -> Option<Packet> {
        let name: Name = name.parse().expect("a constant name");
        let wire = if kind == Kind::Publication {
            publication(nonce, flags)
        } else if kind == Kind::Data {
            DataBuilder::new(&name, b"x")
                .encode(&DigestSha256)
                .unwrap_or_else(|never| match never {})
        } else {
            let builder =
                InterestBuilder::new(name).nonce(nonce).lifetime_ms(u64::from(flags) * 20);
            let builder = builder.can_be_prefix(flags & 1 != 0).must_be_fresh(flags & 2 != 0);
            let builder = if flags & 4 != 0 { builder.hop_limit(flags >> 6) } else { builder };
            let builder = if flags & 8 != 0 {
                builder.forwarding_hint("/a/b".parse::<Name>().unwrap())
            } else {
                builder
            };
            builder.encode()
        };
        let packet = self.pool.copy_of(&wire)?;
        let nack = (kind == Kind::Nack).then_some(NackReason::NoRoute);
        self.pool.meta_mut(&packet).link = LinkFields { nack, ..LinkFields::default() };
        if decode(&mut self.pool, &packet).is_err() {
            // An Interest needs a name.
            self.pool.release(packet);
            return None;
        }
        Some(packet)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Packet { port, kind, name, ingress, egress, nonce, flags } => {
                let port = usize::from(port) % self.entry.ins.len();
                let kinds = self.entry.ins[port].kinds;
                let kind = kinds[usize::from(kind) % kinds.len()];
                let Some(packet) = self.packet(kind, NAMES[name], nonce, flags) else { return };
                let meta = self.pool.meta_mut(&packet);
                (meta.ingress, meta.ingress_local, meta.egress) =
                    (face(ingress), ingress == 0, face(egress));
                if flags & 16 != 0 {
                    meta.link.token = Token::new(&flags.to_be_bytes().repeat(6)).expect("short");
                }
                if flags & 32 != 0 && kind == Kind::Interest {
                    meta.link.next_hop_face = Some(face(egress));
                }
                let mut prediction = Prediction::default();
                for stage in 0..self.element.prefetch_stages(port as u8) {
                    self.element.prefetch(
                        stage,
                        port as u8,
                        core::slice::from_ref(&packet),
                        core::slice::from_mut(&mut prediction),
                        &self.pool,
                    );
                }
                let erased = &mut ErasedContext {
                    pool: &mut self.pool,
                    out: &mut self.out,
                    drops: &mut self.drops,
                };
                if let Some((port, packet)) =
                    self.element.process(self.now, port as u8, packet, erased)
                {
                    self.left(port, packet);
                }
            }
            Step::Wait { millis } => self.advance(u64::from(millis)),
            Step::FaceGone { face: number } => self.element.face_gone(self.now, face(number)),
            Step::FaceAdded { face: number } => self.add_face(number),
            Step::Apply { parameters } => self.apply(parameters == 1),
        }
        while let Some((port, packet)) = self.out.pop() {
            self.left(port, packet);
        }
    }

    fn left(&mut self, port: u8, packet: Packet) {
        let kind = self.pool.meta(&packet).kind;
        let info = self.entry.outs[usize::from(port)];
        assert!(info.kinds.contains(&kind), "{}: {kind:?} left by {}", self.entry.name, info.name);
        self.pool.release(packet);
    }

    fn advance(&mut self, millis: u64) {
        let end = self.now.plus_millis(millis);
        while let Some(due) = self.element.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            let erased = &mut ErasedContext {
                pool: &mut self.pool,
                out: &mut self.out,
                drops: &mut self.drops,
            };
            self.element.tick(self.now, erased);
        }
        self.now = end;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn element_loses_no_packet(steps in proptest::collection::vec(step(), 1..150)) {
        for entry in ENTRIES {
            let mut world = World::new(entry);
            for step in &steps {
                world.step(step);
            }
            world.step(&Step::Wait { millis: 60_000 });
            prop_assert_eq!(world.pool.packets_in_use(), 0, "{} keeps packets", entry.name);
            prop_assert_eq!(world.element.deadline(), None, "{} never becomes idle", entry.name);
            prop_assert!(world.element.is_idle(), "{} never becomes idle", entry.name);
        }
    }
}

//! Writes the seeds of the fuzz targets for publish/subscribe:
//! `cargo run -p nw-wire --example seed_publication_corpus`.
//!
//! Those of Blackadder's layouts are from the recorded vectors. `tests/all/publication_corpus.rs`
//! holds all of them to their names.

use nw_wire::publication::{
    Assignment, EnvelopeBuilder, EnvelopeKind, Fid, FragmentInfo, Id, Label, LinkAdvertisement,
    LinkNotification, LinkReport, LinkStateItem, LinkStateReport, MatchMessage, Message,
    NeighbourLink, NodeNotice, RendezvousReply, RepairRequest, ScopeChange, StagedFilter,
    StreamPosition,
};
use std::{fs, io, path::Path};

type Seeds = Vec<(String, Vec<u8>)>;

const VECTORS: &str = include_str!("../../../tests/vectors/blackadder.txt");

fn main() -> io::Result<()> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (target, seeds) in [
        ("pubsub_network", network()),
        ("pubsub_application", application()),
        ("pubsub_control", control()),
        ("pubsub_link_state", link_state()),
        ("pubsub_envelope", envelopes()),
        ("pubsub_message", messages()),
    ] {
        let folder = corpora.join(target);
        fs::create_dir_all(&folder)?;
        seeds.into_iter().try_for_each(|(name, bytes)| fs::write(folder.join(name), bytes))?;
    }
    Ok(())
}

/// Returns the recorded bytes of lines that start so, each length once.
fn recorded(starts: &[&str]) -> Vec<Vec<u8>> {
    let lines = VECTORS.lines().filter(|line| starts.iter().any(|start| line.starts_with(start)));
    let bytes = |line: &str| -> Vec<u8> {
        let digits = line.rsplit(' ').next().unwrap_or_default().trim_end_matches('.');
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        (0..digits.len() / 2).map(|at| byte(2 * at)).collect()
    };
    let mut all: Vec<Vec<u8>> = lines.map(bytes).collect();
    all.sort_by_key(Vec::len);
    all.dedup_by_key(|bytes| bytes.len());
    all
}

/// Adds a seed cut in the middle, and one byte too many where that is a fault.
fn with_faults(mut seeds: Seeds, trailing: bool) -> Seeds {
    let (name, last) = seeds.last().expect("a seed").clone();
    let name = name.trim_start_matches("ok-").to_owned();
    seeds.push((format!("bad-truncated-{name}"), last[..last.len() / 2].to_vec()));
    seeds.push(("bad-truncated-empty".to_owned(), Vec::new()));
    if trailing {
        seeds.push((format!("bad-trailing-{name}"), [&last[..], &[0]].concat()));
    }
    seeds
}

fn ok(name: &str, bytes: Vec<u8>) -> (String, Vec<u8>) {
    (format!("ok-{name}"), bytes)
}

fn network() -> Seeds {
    let frames = recorded(&["out", "in "]);
    let seed = |frame: &Vec<u8>| ok(&format!("{}", frame.len()), frame[14..].to_vec());
    let mut seeds: Seeds = frames.iter().map(seed).collect();
    let mut lying = frames[0][14..46].to_vec();
    lying.extend_from_slice(&[255, 255]);
    seeds.push(("bad-truncated-count-255".to_owned(), lying));
    seeds.push(("bad-missing_field-no-id".to_owned(), [&frames[0][14..46], &[0]].concat()));
    with_faults(seeds, false)
}

fn application() -> Seeds {
    let datagrams = recorded(&["from pid", "> app", "< to"]);
    let seeds = datagrams.iter().map(|bytes| ok(&format!("{}", bytes.len()), bytes.clone()));
    let mut seeds: Seeds = seeds.collect();
    let header = &datagrams[0][..16];
    seeds.push(("bad-unknown_packet-9".to_owned(), [header, &[9]].concat()));
    seeds.push(("bad-truncated-option".to_owned(), [header, &[0, 0, 0, 2, 7]].concat()));
    seeds
}

fn ids() -> Vec<Id> {
    vec![Id::new(vec![Label::from_number(1), Label::from_number(2)]); 2]
}

fn control() -> Seeds {
    let nodes = vec![Label([b'0'; 8]), Label([b'1'; 8])];
    let (mut matched, mut change) = (Vec::new(), Vec::new());
    MatchMessage { strategy: 2, publishers: nodes.clone(), subscribers: nodes.clone(), ids: ids() }
        .encode(&mut matched)
        .expect("few");
    ScopeChange { published: true, strategy: 2, subscribers: nodes, ids: ids() }
        .encode(&mut change)
        .expect("few");
    let notices = [
        ("stop", NodeNotice::Stop { ids: ids() }),
        ("scope", NodeNotice::Scope { published: false, ids: ids() }),
        ("fids", NodeNotice::UpdateFids { rendezvous: Fid::of_bit(1), topology: Fid::EMPTY }),
        ("start", NodeNotice::Start { ids: ids(), fid: Fid::of_bit(9) }),
    ];
    let mut seeds = vec![ok("match", matched), ok("change", change)];
    for (name, notice) in notices {
        let mut bytes = Vec::new();
        notice.encode(&mut bytes).expect("few");
        seeds.push(ok(name, bytes));
    }
    seeds.push(("bad-unknown_packet-99".to_owned(), vec![99, 0]));
    seeds.push(("bad-truncated-many".to_owned(), vec![101, 255, 255]));
    let start = seeds[5].clone();
    with_faults([seeds, vec![start]].concat(), true)
}

fn link_state() -> Seeds {
    let notification =
        LinkNotification { network_type: b'o', added: false, neighbour: Label([b'2'; 8]) };
    let mut short = vec![1, 2];
    notification.encode(&mut short);
    let mut bad = short.clone();
    bad[3] = b'x';
    let items = vec![LinkStateItem { item_type: 5, value: 20 }; 3];
    let links = vec![LinkReport { link: Fid::of_bit(3), items }; 2];
    let mut report = Vec::new();
    LinkStateReport { report_type: 1, node: Label([b'1'; 8]), links }
        .encode(&mut report)
        .expect("few");
    vec![
        ok("notification", short),
        ok("report", report),
        ("bad-field_value-notification".to_owned(), bad),
        ("bad-truncated-short".to_owned(), vec![b'e', b'1', 0]),
    ]
}

fn envelopes() -> Seeds {
    let ids = ids();
    let stream = Some(StreamPosition { source: Label([b'1'; 8]), sequence: 7 });
    let fragment = Some(FragmentInfo { index: 2, count: 3, total_len: 3000 });
    let base = EnvelopeBuilder { hop_limit: 9, fid: Fid::of_bit(5), ..EnvelopeBuilder::default() };
    let mut seeds = Vec::new();
    for (name, builder) in [
        ("bare", base),
        ("control", EnvelopeBuilder { kind: EnvelopeKind::Control, payload: &[8; 10], ..base }),
        ("stream", EnvelopeBuilder { stream, ids: &ids, ..base }),
        ("broadcast", EnvelopeBuilder { fid: Fid::BROADCAST, table: 8, class: 7, ..base }),
        ("long", EnvelopeBuilder { payload: &[7; 600], ..base }),
        ("whole", EnvelopeBuilder { stream, fragment, ids: &ids, payload: b"x", ..base }),
    ] {
        let mut bytes = Vec::new();
        builder.encode(&mut bytes).expect("short");
        seeds.push(ok(name, bytes));
    }
    let whole = seeds[5].1.clone();
    for (name, at, value) in [
        ("field_value-version", 2, 9),
        ("field_value-kind", 3, 9),
        ("field_value-flags", 4, 0x80),
        ("field_value-class", 6, 8),
        ("fragment_index-equal", 2 + 8 + 32 + 16 + 3, 3),
        ("truncated-ids", 8, 255),
        ("unknown_packet-type", 0, 5),
    ] {
        let mut bytes = whole.clone();
        bytes[at] = value;
        seeds.push((format!("bad-{name}"), bytes));
    }
    seeds.extend(staged_envelopes(&ids));
    let last = ok("whole", whole);
    with_faults([seeds, vec![last]].concat(), true)
}

/// Envelopes with identifiers in stages of 7 and 49 bytes, and with lengths that lie.
fn staged_envelopes(ids: &[Id]) -> Seeds {
    let encode = |filter: &[u8]| {
        let staged = StagedFilter::check(filter).ok();
        let mut bytes = Vec::new();
        EnvelopeBuilder { hop_limit: 2, staged, ids, payload: b"x", ..EnvelopeBuilder::default() }
            .encode(&mut bytes)
            .expect("short");
        bytes
    };
    let short = encode(&[2, 1, 0x21, 0x55, 1, 0x3f, 0xaa]);
    let long = encode(&[&[3, 40, 0x2f][..], &[0x11; 40], &[1, 0, 7], &[1, 0xff, 8]].concat());
    let mut seeds = vec![ok("stages", short), ok("stages-long", long.clone())];
    for (name, at, value) in [
        ("field_value-stages-none", 10, 0),
        ("field_value-stages-many", 10, 129),
        ("field_value-stages-fewer", 10, 2),
        ("field_value-stages-empty-stage", 11, 0),
        ("truncated-stages-long-stage", 11, 255),
        ("truncated-stages-more", 9, 255),
        ("truncated-stages-less", 9, 3),
        ("field_value-stages-table", 7, 8),
        ("field_value-stages-flags", 4, 12),
    ] {
        let mut bytes = long.clone();
        bytes[at] = value;
        seeds.push((format!("bad-{name}"), bytes));
    }
    seeds
}

fn messages() -> Seeds {
    let (node, id) = (Label([b'1'; 8]), ids().remove(0));
    let links = vec![NeighbourLink { neighbour: node, cost: 1 }; 3];
    let mut seeds = Vec::new();
    for (name, message) in [
        ("reply", Message::Reply(RendezvousReply { number: 1, client: node, code: 0 })),
        ("scope", Message::Scope { published: true, ids: ids() }),
        ("repair", Message::Repair(RepairRequest { source: node, first: 1, last: 9, id })),
        ("hello", Message::Hello { node, roles: 3 }),
        (
            "assignment",
            Message::Assignment(Assignment { node, scheme: 0, internal: 1, links: vec![] }),
        ),
        ("advertisement", Message::Advertisement(LinkAdvertisement { node, sequence: 5, links })),
    ] {
        let mut bytes = Vec::new();
        message.encode(&mut bytes).expect("short");
        seeds.push(ok(name, bytes));
    }
    let mut many = seeds[5].1.clone();
    many[17] = 255;
    seeds.push(("bad-truncated-links".to_owned(), many));
    seeds.push(("bad-unknown_packet-0".to_owned(), vec![0]));
    let mut free = seeds[5].1.clone();
    let last = free.len() - 1;
    free[last] = 0;
    seeds.push(("bad-field_value-cost".to_owned(), free));
    let whole = seeds[5].clone();
    with_faults([seeds, vec![whole]].concat(), true)
}

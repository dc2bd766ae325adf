//! One element of the catalogue as the target of a case.
//!
//! A face of a case is a port here, with the ingress and egress face of the packet:
//! `packet:300>301`.

use nw_element_api::decode::decode;
use nw_element_api::erased::TaggedBatch;
use nw_element_api::parameters::{BuildContext, Parameters, Value};
use nw_element_api::{
    AnyElement, DropCounters, ErasedContext, FaceId, FaceInfo, LinkFields, LinkType, Packet, Pool,
    Scope, Timestamp,
};
use nw_elements::catalogue::{Entry, find, port};
use nw_name::HashKey;
use nw_testkit::case::{Args, NameVariables, Sent, TestTarget, number};
use std::cell::RefCell;
use std::collections::VecDeque;

const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);
/// Ports get face numbers from here on, so that a case can name them like faces.
const PORTS: u32 = 1 << 24;

/// One element and the packets it emitted.
pub struct SingleElement {
    made: Option<(&'static Entry, Box<dyn AnyElement>)>,
    parameters: Parameters,
    pool: Pool,
    out: TaggedBatch<u8>,
    drops: DropCounters,
    now: Timestamp,
    faces: Vec<(FaceId, FaceInfo)>,
    left: VecDeque<Sent>,
    /// Port, ingress face, egress face.
    ports: RefCell<Vec<(String, FaceId, FaceId)>>,
    error: Option<String>,
}

impl Default for SingleElement {
    fn default() -> Self {
        SingleElement {
            made: None,
            parameters: Parameters::default(),
            pool: Pool::new(KEY, 8, 64),
            out: TaggedBatch::default(),
            drops: DropCounters::default(),
            now: Timestamp::START,
            faces: Vec::new(),
            left: VecDeque::new(),
            ports: RefCell::default(),
            error: None,
        }
    }
}

/// Parses a face number; 0 is no face.
fn parse_face(word: &str) -> Result<FaceId, String> {
    Ok(FaceId::from_number(number(word, "a face")?).unwrap_or(FaceId::NONE))
}

/// Faces are named by their numbers.
fn face_by_name(name: &str) -> Option<FaceId> {
    parse_face(name).ok()
}

const CONTEXT: BuildContext<'static> =
    BuildContext { key: KEY, seed: 1, start_unix_ms: 0, faces: &face_by_name };

impl SingleElement {
    fn entry(&self) -> Result<&'static Entry, String> {
        self.made.as_ref().map(|(entry, _)| *entry).ok_or("element NAME must come first".to_owned())
    }

    /// Runs `element NAME [PARAMETER=VALUE]…`, with fixed parameters.
    fn make(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let name = args.need("an element")?;
        let entry = find(name).ok_or_else(|| format!("no element is called {name:?}"))?;
        while let Some(word) = args.next() {
            let (name, text) = word.split_once('=').ok_or("PARAMETER=VALUE is expected")?;
            self.parameters.0.push((name.to_owned(), value(text)));
        }
        let element =
            entry.make(&CONTEXT, &self.parameters).map_err(|errors| format!("{errors:?}"))?;
        self.made = Some((entry, element));
        self.apply()
    }

    /// Runs `with PARAMETER VALUE[; VALUE]…`, with a live parameter. A value with blanks, slashes
    /// or semicolons is a list.
    fn with(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let name = args.need("a parameter")?.to_owned();
        let text = core::iter::from_fn(|| args.next()).collect::<Vec<_>>().join(" ");
        let value = match text.contains([' ', '/', ';']) {
            true => Value::List(
                text.split(';').map(|text| Value::Text(text.trim().to_owned())).collect(),
            ),
            false => value(&text),
        };
        self.parameters.0.retain(|(known, _)| *known != name);
        self.parameters.0.push((name, value));
        self.apply()
    }

    fn apply(&mut self) -> Result<(), String> {
        let Some((entry, element)) = &mut self.made else {
            return Err("there is no element yet".to_owned());
        };
        let erased =
            &mut ErasedContext { pool: &mut self.pool, out: &mut self.out, drops: &mut self.drops };
        let applied = entry.apply(element.as_mut(), self.now, &CONTEXT, &self.parameters, erased);
        applied
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    fn add_face(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let face = parse_face(args.need("a face")?)?;
        let mut info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        while let Some(word) = args.next() {
            match word {
                "local" => info.scope = Scope::Local,
                "multi-access" => info.link_type = LinkType::MultiAccess,
                other => return Err(format!("a face is local or multi-access, not {other:?}")),
            }
        }
        self.faces.push((face, info));
        if let Some((_, element)) = &mut self.made {
            element.face_added(face, info);
        }
        Ok(())
    }

    fn remove_face(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let face = parse_face(args.need("a face")?)?;
        if let Some((_, element)) = &mut self.made {
            element.face_gone(self.now, face);
        }
        args.end()
    }

    fn number(&self, port: &str, from: FaceId, to: FaceId) -> FaceId {
        let mut ports = self.ports.borrow_mut();
        let is_it =
            |known: &(String, FaceId, FaceId)| known.0 == port && known.1 == from && known.2 == to;
        let at = ports.iter().position(is_it).unwrap_or_else(|| {
            ports.push((port.to_owned(), from, to));
            ports.len() - 1
        });
        FaceId::from_bits(PORTS + at as u32)
    }

    fn collect(&mut self) {
        let mut left: Vec<(u8, Packet)> = core::iter::from_fn(|| self.out.pop()).collect();
        left.reverse();
        left.into_iter().for_each(|(port, packet)| self.emit(port, packet));
    }

    fn emit(&mut self, port: u8, packet: Packet) {
        let outs = self.made.as_ref().map_or(&[][..], |(entry, _)| entry.outs);
        let (bytes, meta) = self.pool.view(&packet);
        let face = self.number(outs[usize::from(port)].name, FaceId::NONE, meta.egress);
        let (kind, link, bytes) = (meta.kind, meta.link, bytes.to_vec());
        self.left.push_back(Sent {
            face,
            kind,
            link,
            bytes,
            announcement: None,
            route_event: false,
        });
        self.pool.release(packet);
    }
}

impl TestTarget for SingleElement {
    fn face(&self, word: &str) -> Result<FaceId, String> {
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            return parse_face(word);
        }
        let (name, faces) = word.split_once(':').unwrap_or((word, "0"));
        let entry = self.entry()?;
        // An output port is named with the egress face, an input port with the ingress face.
        if let Some((from, to)) = faces.split_once('>') {
            port(entry.ins, name).ok_or_else(|| format!("no packet enters by {name:?}"))?;
            return Ok(self.number(name, parse_face(from)?, parse_face(to)?));
        }
        if port(entry.ins, name).is_none() && port(entry.outs, name).is_none() {
            return Err(format!("no packet enters by {name:?}, or leaves"));
        }
        Ok(self.number(name, FaceId::NONE, parse_face(faces)?))
    }

    fn face_name(&self, face: FaceId) -> String {
        let ports = self.ports.borrow();
        match face.bits().checked_sub(PORTS).and_then(|at| ports.get(at as usize)) {
            Some((port, _, FaceId::NONE)) => port.clone(),
            Some((port, _, to)) => format!("{port}:{to}"),
            None => face.to_string(),
        }
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn advance(&mut self, to: Timestamp) {
        while let Some((_, element)) = &mut self.made
            && let Some(due) = element.deadline().filter(|due| *due <= to)
        {
            self.now = self.now.max(due);
            let erased = &mut ErasedContext {
                pool: &mut self.pool,
                out: &mut self.out,
                drops: &mut self.drops,
            };
            element.tick(self.now, erased);
            self.collect();
        }
        self.now = to;
    }

    fn receive(&mut self, face: FaceId, bytes: &[u8], link: LinkFields, _: &[u8]) {
        let at = face.bits().saturating_sub(PORTS) as usize;
        let Some((name, mut from, mut to)) = self.ports.borrow().get(at).cloned() else { return };
        if from == FaceId::NONE {
            // A single face is the ingress face.
            (from, to) = (to, FaceId::NONE);
        }
        let local =
            self.faces.iter().any(|(known, info)| *known == from && info.scope == Scope::Local);
        let Some((entry, element)) = &mut self.made else { return };
        let Some(port) = port(entry.ins, &name) else {
            return self.error = Some(format!("no packet enters by {name:?}"));
        };
        let packet = self.pool.copy_of(bytes).expect("a buffer");
        let meta = self.pool.meta_mut(&packet);
        (meta.ingress, meta.ingress_local, meta.egress, meta.link) = (from, local, to, link);
        meta.arrival = self.now;
        if let Err(error) = decode(&mut self.pool, &packet) {
            self.error = Some(error.to_string());
            return self.pool.release(packet);
        }
        let erased =
            &mut ErasedContext { pool: &mut self.pool, out: &mut self.out, drops: &mut self.drops };
        let first = element.process(self.now, port, packet, erased);
        if let Some((port, packet)) = first {
            self.emit(port, packet);
        }
        self.collect();
    }

    fn sent(&mut self, take: bool) -> Option<Sent> {
        assert_eq!(self.error, None);
        if take { self.left.pop_front() } else { self.left.front().cloned() }
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
        args: &mut Args<'_>,
        _: &NameVariables,
    ) -> Option<Result<(), String>> {
        Some(match command {
            "element" if self.made.is_none() => self.make(args),
            "with" => self.with(args),
            "face" => self.add_face(args),
            "remove-face" => self.remove_face(args),
            _ => return None,
        })
    }
}

fn value(text: &str) -> Value {
    match (text.parse::<i64>(), text.parse::<f64>(), text) {
        (Ok(number), ..) => Value::Integer(number),
        (_, Ok(number), _) => Value::Float(number),
        (.., "true" | "false") => Value::Bool(text == "true"),
        _ => Value::Text(text.to_owned()),
    }
}

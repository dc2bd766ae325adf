//! The language of graph files. Why it is one of its own: decision 0028.
//!
//! ```text
//! # A comment.
//! face north = udp4://192.0.2.1:6363          a face to a peer
//! face apps listens unix:///run/nw/apps.sock  a face for each that connects
//! cs = content_store(mib = 64)                an element, its parameters
//! faces -> dispatcher.packet                  what leaves … enters …
//! router.data -> cs.data -> faces             a chain: in by the port of that name, out by the port of that name
//! test "what must happen" { … }               lines of the case language (`tests/cases/README.md`)
//! ```
//!
//! A statement ends with its line, but within brackets and before `->`. All mistakes are found at once: after one the next line is read.

mod scan;
mod write;

pub use write::write;

use crate::check::Loose;
use crate::nearest::nearest;
use crate::{Connection, Face, From, Graph, Node, Place, Problem, Problems, To};
use nw_element_api::{FaceInfo, LinkType, Parameters, PortInfo, Scope, Value};
use nw_elements::catalogue;
use nw_faces::{FaceOptions, FaceUri, request};
use scan::Scan;

/// Octets of the longest file.
pub const TEXT_LEN_MAX: usize = 1 << 20;
/// Elements and faces of the largest graph, together.
pub const NAMES_MAX: usize = 4096;
/// Mistakes that are told of at once.
pub const PROBLEMS_MAX: usize = 100;

/// What a file says: a graph that can work, and its tests.
#[derive(Clone, Debug, Default)]
pub struct GraphFile {
    /// Checked.
    pub graph: Graph,
    /// In the file's order.
    pub tests: Vec<Test>,
}

/// A test within a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// What must happen.
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// Lines of the case language.
    pub text: String,
}

/// A parameter's value, as it stands in brackets behind an element.
///
/// # Errors
/// When the text is none, or more than one.
pub fn value(text: &str) -> Result<Value, Problem> {
    let mut scan = Scan::new(text);
    scan.blank();
    let value = scan.value()?;
    scan.blank_lines();
    match scan.peek() {
        None => Ok(value),
        Some(_) => {
            Err(Problem::new(scan.place(), format!("{} behind a value", scan.seen()), "write one value"))
        }
    }
}

impl GraphFile {
    /// Reads and checks a file's text. `file` is what problems call it.
    ///
    /// # Errors
    /// All that is wrong: what can't be read, and what can't work.
    pub fn read(file: &str, text: &str) -> Result<GraphFile, Problems> {
        let (found, mut problems) = GraphFile::examine(text);
        if problems.is_empty() {
            return Ok(found);
        }
        problems.truncate(PROBLEMS_MAX);
        Err(Problems { file: file.to_owned(), problems })
    }

    /// Reads a text, and says what can't be read; whether the graph can work is not asked.
    pub fn parse(text: &str) -> (GraphFile, Vec<Problem>) {
        let Reading { found, problems, .. } = Reading::of(text);
        (found, problems)
    }

    /// Reads a text, whatever is wrong with it; and all that is. For drawing what is not yet ready, and for editors.
    pub fn examine(text: &str) -> (GraphFile, Vec<Problem>) {
        let Reading { found, mut problems, loose, is_too_long, .. } = Reading::of(text);
        if is_too_long {
            return (found, problems);
        }
        problems.extend(crate::check::check_with(&found.graph, &loose));
        problems.sort();
        problems.dedup();
        (found, problems)
    }
}

#[derive(Default)]
struct Reading<'a> {
    found: GraphFile,
    problems: Vec<Problem>,
    /// Names of elements that nobody knows: what is said of them needs no further complaint.
    unknown: Vec<&'a str>,
    /// Chains, to be looked at when all names are known.
    chains: Vec<Vec<End<'a>>>,
    loose: Loose,
    is_too_long: bool,
}

/// One end of an arrow, as written.
struct End<'a> {
    name: &'a str,
    port: Option<&'a str>,
    place: Place,
}

impl<'a> Reading<'a> {
    fn of(text: &'a str) -> Self {
        let mut reading = Reading { is_too_long: text.len() > TEXT_LEN_MAX, ..Reading::default() };
        if reading.is_too_long {
            let what = format!("a file of {} octets", text.len());
            let remedy = format!("at most {TEXT_LEN_MAX} are read: make two graphs of it");
            reading.problem(Problem::new(Place::default(), what, remedy));
        } else {
            reading.statements(text);
            reading.connect();
        }
        reading
    }

    fn statements(&mut self, text: &'a str) {
        let mut scan = Scan::new(text);
        scan.blank_lines();
        while scan.peek().is_some() {
            let start = scan.place();
            let read = self.statement(&mut scan).and_then(|()| {
                scan.blank();
                match scan.peek() {
                    None | Some('\n') => Ok(()),
                    Some(_) => Err(Problem::new(
                        scan.place(),
                        format!("{} behind what is complete", scan.seen()),
                        "begin a new line",
                    )),
                }
            });
            if let Err(problem) = read {
                self.problem(problem);
                scan.line();
                self.loose.statement = true;
            }
            scan.blank_lines();
            debug_assert!(scan.peek().is_none() || scan.place() > start, "each statement takes something");
        }
    }

    fn problem(&mut self, problem: Problem) {
        // One more than is told of, so that the file is known to have more.
        if self.problems.len() <= PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    fn statement(&mut self, scan: &mut Scan<'a>) -> Result<(), Problem> {
        let (start, place) = (scan.clone(), scan.place());
        let Some(name) = scan.name() else {
            let what = format!("{} begins no statement", scan.seen());
            return Err(Problem::new(place, what, STATEMENTS));
        };
        let behind = scan.clone();
        scan.blank();
        match scan.peek() {
            Some('=') if name == "face" => {
                let what = "a face without a name".to_owned();
                Err(Problem::new(scan.place(), what, FACE))
            }
            Some('=') => {
                scan.bump();
                scan.blank();
                self.node(name, place, scan)
            }
            Some('"') if name == "test" => self.test(place, scan),
            Some('.' | '-') => {
                *scan = start;
                self.chain(scan)
            }
            _ if name == "face" => self.face(scan),
            _ if name == "test" => {
                let what = format!("a test without a name: {}", scan.seen());
                Err(Problem::new(scan.place(), what, TEST))
            }
            _ if behind.clone().arrow() => {
                *scan = start;
                self.chain(scan)
            }
            _ => {
                let what = format!("`{name}` stands alone");
                Err(Problem::new(place, what, STATEMENTS))
            }
        }
    }

    fn room(&self, place: Place) -> Result<(), Problem> {
        if self.found.graph.nodes.len() + self.found.graph.faces.len() < NAMES_MAX {
            return Ok(());
        }
        let what = format!("more than {NAMES_MAX} faces and elements");
        Err(Problem::new(place, what, "make two graphs of it"))
    }

    /// `face NAME [= URI | listens URI [single]] [local|non-local] [multi-access|ad-hoc] [default]`
    fn face(&mut self, scan: &mut Scan<'a>) -> Result<(), Problem> {
        let place = scan.place();
        self.room(place)?;
        let Some(name) = scan.name() else {
            let what = format!("{} is no name of a face", scan.seen());
            return Err(Problem::new(place, what, FACE));
        };
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        let mut face = Face {
            name: name.to_owned(),
            uri: None,
            listens: false,
            is_single: false,
            is_default: false,
            info,
            place,
        };
        loop {
            scan.blank();
            let place = scan.place();
            match scan.peek() {
                None | Some('\n') => break,
                Some('=') if face.uri.is_none() => {
                    scan.bump();
                    scan.blank();
                    self.uri(&mut face, scan);
                }
                Some(_) => match scan.word() {
                    "listens" if face.uri.is_none() => {
                        face.listens = true;
                        scan.blank();
                        self.uri(&mut face, scan);
                    }
                    "single" if face.listens => face.is_single = true,
                    "default" => face.is_default = true,
                    "local" => face.info.scope = Scope::Local,
                    "non-local" => face.info.scope = Scope::NonLocal,
                    "multi-access" => face.info.link_type = LinkType::MultiAccess,
                    "ad-hoc" => face.info.link_type = LinkType::AdHoc,
                    other => {
                        let what = format!("`{other}` says nothing of a face");
                        self.problem(Problem::new(place, what, FACE));
                        scan.line();
                    }
                },
            }
        }
        self.found.graph.faces.push(face);
        Ok(())
    }

    /// An address, and what it says of the face.
    fn uri(&mut self, face: &mut Face, scan: &mut Scan<'a>) {
        let place = scan.place();
        let word = scan.word();
        match word.parse::<FaceUri>() {
            Ok(uri) => {
                if uri.path().is_some() {
                    face.info.scope = Scope::Local;
                }
                let is_group = uri.address().is_some_and(|address| address.ip().is_multicast());
                let has_address = matches!(uri, FaceUri::Tcp(_) | FaceUri::Udp(_) | FaceUri::Ws(_));
                let is_address = has_address || uri.path().is_some();
                let is_host = matches!(uri, FaceUri::Host { .. });
                let may_be = is_address || is_host && !face.listens;
                // What can never be connected: port 0, no one peer's address. Paths are looked at with the whole graph.
                let options = FaceOptions::default();
                let can_be =
                    face.listens || uri.path().is_some() || request::check(&uri, None, &options).is_ok();
                if is_group || !may_be || !can_be {
                    let verb = if face.listens { "listen on" } else { "lead to" };
                    let what = format!("a face of a graph can't {verb} `{word}`");
                    self.problem(Problem::new(place, what, URIS));
                }
            }
            Err(error) => {
                self.problem(Problem::new(place, format!("an address is wrong: {error}"), URIS));
            }
        }
        face.uri = Some(word.to_owned());
    }

    /// `NAME = ELEMENT` or `NAME = ELEMENT(PARAMETER = VALUE, …)`, from the element's name on.
    fn node(&mut self, name: &'a str, place: Place, scan: &mut Scan<'a>) -> Result<(), Problem> {
        self.room(place)?;
        let element_place = scan.place();
        let Some(element) = scan.name() else {
            let what = format!("{} is no name of an element", scan.seen());
            self.unknown.push(name);
            return Err(Problem::new(element_place, what, NODE));
        };
        let entry = catalogue::find(element);
        if entry.is_none() {
            self.unknown.push(name);
            let names = catalogue::ENTRIES.iter().map(|entry| entry.name);
            let remedy = match nearest(element, names) {
                Some(near) => format!("did you mean `{near}`? `nw graph help` lists all there are"),
                None => "`nw graph help` lists all there are".to_owned(),
            };
            self.problem(Problem::new(element_place, format!("no element is called `{element}`"), remedy));
        }
        let mut node_parameters = (Parameters::default(), Vec::new());
        let read = self.parameters(scan, &mut node_parameters);
        let (parameters, parameter_places) = node_parameters;
        if let Some(entry) = entry {
            let name = name.to_owned();
            self.found.graph.nodes.push(Node { name, entry, parameters, parameter_places, place });
        }
        read
    }

    fn parameters(
        &mut self,
        scan: &mut Scan<'a>,
        (parameters, places): &mut (Parameters, Vec<Place>),
    ) -> Result<(), Problem> {
        scan.blank();
        let opened = scan.place();
        if !scan.eat("(") {
            return Ok(());
        }
        loop {
            scan.blank_lines();
            let place = scan.place();
            if scan.eat(")") {
                return Ok(());
            }
            let Some(name) = scan.name() else {
                let what = format!("{} within the brackets of line {}", scan.seen(), opened.line);
                return Err(Problem::new(
                    place,
                    what,
                    "write NAME = VALUE, with `,` between two and `)` at the end",
                ));
            };
            scan.blank_lines();
            if !scan.eat("=") {
                let what = format!("parameter `{name}` without a value: {}", scan.seen());
                return Err(Problem::new(scan.place(), what, format!("write {name} = VALUE")));
            }
            scan.blank_lines();
            let value = scan.value()?;
            if parameters.get(name).is_some() {
                let what = format!("parameter `{name}` a second time");
                self.problem(Problem::new(place, what, "leave one of the two out"));
            } else {
                parameters.0.push((name.to_owned(), value));
                places.push(place);
            }
            scan.blank_lines();
            if !scan.eat(",") && scan.peek() != Some(')') {
                let what = format!("{} within the brackets of line {}", scan.seen(), opened.line);
                return Err(Problem::new(
                    scan.place(),
                    what,
                    "write `,` between two parameters and `)` at the end",
                ));
            }
        }
    }

    /// `A.x -> B.y -> …`
    fn chain(&mut self, scan: &mut Scan<'a>) -> Result<(), Problem> {
        let mut chain = vec![end(scan)?];
        while scan.arrow() {
            scan.blank_lines();
            chain.push(end(scan)?);
        }
        if chain.len() == 1 {
            let what = format!("`{}` leads nowhere", chain[0]);
            return Err(Problem::new(chain[0].place, what, "write FROM.PORT -> TO.PORT"));
        }
        self.chains.push(chain);
        Ok(())
    }

    /// `test "…" {`, lines, `}`: from the name on.
    fn test(&mut self, place: Place, scan: &mut Scan<'a>) -> Result<(), Problem> {
        let name = scan.text()?;
        scan.blank();
        if !scan.eat("{") {
            let what = format!("{} behind the name of a test", scan.seen());
            return Err(Problem::new(scan.place(), what, TEST));
        }
        scan.blank();
        if scan.peek().is_some_and(|c| c != '\n') {
            let what = format!("{} behind the `{{` of a test", scan.seen());
            return Err(Problem::new(scan.place(), what, TEST));
        }
        // Lines keep their numbers in the file.
        let mut text = "\n".repeat(scan.place().line as usize);
        loop {
            scan.line();
            if scan.bump().is_none() {
                return Err(Problem::new(place, format!("the test {name:?} has no end"), TEST));
            }
            let mut ahead = scan.clone();
            ahead.blank();
            if ahead.eat("}") {
                *scan = ahead;
                break;
            }
            text.push_str(scan.clone().line());
            text.push('\n');
        }
        self.found.tests.push(Test { name, place, text });
        Ok(())
    }

    /// Looks up what chains name.
    fn connect(&mut self) {
        for chain in std::mem::take(&mut self.chains) {
            for (at, pair) in chain.windows(2).enumerate() {
                let from = self.from(&pair[0], at != 0);
                let to = self.to(&pair[1], at + 2 != chain.len());
                match (from, to) {
                    (Some(from), Some(to)) => {
                        let place = pair[0].place;
                        self.found.graph.connections.push(Connection { from, to, place });
                    }
                    (from, to) => {
                        self.loose.from.extend(from);
                        self.loose.to.extend(to);
                        self.loose.statement = true;
                    }
                }
            }
        }
    }

    fn from(&mut self, end: &End<'a>, within: bool) -> Option<From> {
        let graph = &self.found.graph;
        let problem = if end.name == crate::model::FACES {
            match within {
                false => return end.no_port(From::Faces, &mut self.problems),
                // The arrow that leads here says so.
                true => return None,
            }
        } else if let Some(face) = graph.face(end.name) {
            return match within {
                false => end.no_port(From::Face(face), &mut self.problems),
                true => None,
            };
        } else if let Some(node) = graph.node(end.name) {
            match end.port_of(graph.nodes[node].entry.outs, "leave by", within) {
                Ok(port) => return Some(From::Port(node, port)),
                Err(problem) => {
                    // Whichever was meant: that it is not connected needs no complaint of its own.
                    let ports = 0..graph.nodes[node].entry.outs.len();
                    self.loose.from.extend(ports.map(|port| From::Port(node, port as u8)));
                    problem
                }
            }
        } else {
            self.nobody(end)?
        };
        self.problem(problem);
        None
    }

    fn to(&mut self, end: &End<'a>, within: bool) -> Option<To> {
        let graph = &self.found.graph;
        let face = graph.face(end.name);
        let is_faces = end.name == crate::model::FACES;
        let problem = if (is_faces || face.is_some()) && within {
            let what = format!("`{}` in the middle of a chain: there packets leave the graph", end.name);
            Problem::new(
                end.place,
                what,
                format!("end the line here; what comes by it begins one: {} -> …", end.name),
            )
        } else if is_faces {
            return end.no_port(To::Faces, &mut self.problems);
        } else if let Some(face) = face {
            return end.no_port(To::Face(face), &mut self.problems);
        } else if let Some(node) = graph.node(end.name) {
            match end.port_of(graph.nodes[node].entry.ins, "enter by", within) {
                Ok(port) => return Some(To::Port(node, port)),
                Err(problem) => problem,
            }
        } else {
            self.nobody(end)?
        };
        self.problem(problem);
        None
    }

    fn nobody(&self, end: &End<'a>) -> Option<Problem> {
        if self.unknown.contains(&end.name) {
            return None;
        }
        let graph = &self.found.graph;
        let names = graph.nodes.iter().map(|node| node.name.as_str());
        let names =
            names.chain(graph.faces.iter().map(|face| face.name.as_str())).chain([crate::model::FACES]);
        let remedy = match nearest(end.name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write `{} = ELEMENT` or `face {}` above", end.name, end.name),
        };
        Some(Problem::new(end.place, format!("nothing in this graph is called `{}`", end.name), remedy))
    }
}

/// `NAME` or `NAME.PORT`.
fn end<'a>(scan: &mut Scan<'a>) -> Result<End<'a>, Problem> {
    let place = scan.place();
    let unexpected = |scan: &Scan<'_>| {
        let what = format!("{} where an end of a connection is expected", scan.seen());
        Problem::new(scan.place(), what, "write ELEMENT.PORT, a face's name, or faces")
    };
    let name = scan.name().ok_or_else(|| unexpected(scan))?;
    let port = match scan.eat(".") {
        true => Some(scan.name().ok_or_else(|| unexpected(scan))?),
        false => None,
    };
    Ok(End { name, port, place })
}

impl End<'_> {
    /// A port among those of an element. The only one needs no name.
    fn port_of(&self, ports: &[PortInfo], verb: &str, within: bool) -> Result<u8, Problem> {
        let names: Vec<&str> = ports.iter().map(|port| port.name).collect();
        let all = names.join(", ");
        match self.port {
            None if ports.len() == 1 => Ok(0),
            _ if ports.is_empty() => {
                let what = format!("`{}` has no port to {verb}", self.name);
                Err(Problem::new(self.place, what, "end the line before it, or behind it"))
            }
            None => {
                let what = format!("`{}` has several ports to {verb}: {all}", self.name);
                let example = names.first().copied().unwrap_or_default();
                let remedy = format!("write {}.{example} or another of them", self.name);
                Err(Problem::new(self.place, what, remedy))
            }
            // In the middle of a chain a name may be that of the other side's port, if there is but one way here.
            Some(port) => {
                catalogue::port(ports, port).or((within && ports.len() == 1).then_some(0)).ok_or_else(|| {
                    let what = format!("`{}` has no port `{port}` to {verb}", self.name);
                    let remedy = match nearest(port, names.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`? There are: {all}"),
                        None => format!("there are: {all}"),
                    };
                    Problem::new(self.place, what, remedy)
                })
            }
        }
    }

    /// Faces have no ports.
    fn no_port<T>(&self, end: T, problems: &mut Vec<Problem>) -> Option<T> {
        let Some(port) = self.port else { return Some(end) };
        let what = format!("`{}` is no element and has no port `{port}`", self.name);
        problems.push(Problem::new(self.place, what, format!("write {} alone", self.name)));
        None
    }
}

impl std::fmt::Display for End<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ".{port}"))
    }
}

const STATEMENTS: &str = "a line declares a face (face NAME = URI), an element (NAME = ELEMENT), a connection (A.PORT -> B.PORT) or a test (test \"…\" {)";
const FACE: &str =
    "write face NAME = URI, or face NAME listens URI, and behind it local, non-local, multi-access or ad-hoc";
const NODE: &str = "write NAME = ELEMENT or NAME = ELEMENT(PARAMETER = VALUE, …)";
const TEST: &str = "write test \"what must happen\" {, then lines, then } on a line of its own";
const URIS: &str = "addresses are unix:///path, shm:///path, udp4://192.0.2.1:6363, tcp4://192.0.2.1:6363, ws://192.0.2.1:9696, or with a host name where the face does not listen: tcp://example.net";

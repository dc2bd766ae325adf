//! Parser for graph files. The syntax and its reasons: decision 0028.
//!
//! ```text
//! # A comment.
//! face north = udp4://192.0.2.1:6363          a face to a peer
//! face apps listens unix:///run/nw/apps.sock  a face for each that connects
//! cs = content_store(mib = 64)                an element, its parameters
//! faces -> dispatcher.packet                  what leaves … enters …
//! router.data -> cs.data -> faces             a chain: in and out by the ports of that name
//! test "what must happen" { … }               lines of the case language (`tests/cases/README.md`)
//! host h1 = process                           and other statements about a network (`network.rs`)
//! ```
//!
//! A statement ends at the end of its line, except within brackets and before `->`. The parser
//! reports all mistakes at once: after a mistake it goes on with the next line.

mod edit;
mod network;
mod scanner;
mod write;

pub use edit::{Edit, EditError, edit};
pub use write::write;

use crate::check::Unresolved;
use crate::network::Network;
use crate::suggest::suggest;
use crate::{Connection, Face, Graph, Node, Position, Problem, Problems, Source, Target};
use nw_element_api::{FaceInfo, LinkType, Parameters, PortInfo, Scope, Value};
use nw_elements::catalogue;
use nw_link::FaceUri;
use nw_name::Name;
use scanner::Scanner;

/// Maximum length of a graph file, bytes.
pub const TEXT_LEN_MAX: usize = 1 << 20;
/// Maximum number of elements and faces together.
pub const NAMES_MAX: usize = 4096;
/// Maximum number of problems reported at once.
pub const PROBLEMS_MAX: usize = 100;

/// The content of a graph file.
#[derive(Clone, Debug, Default)]
pub struct GraphFile {
    /// The graph; checked if it came from [`GraphFile::read`].
    pub graph: Graph,
    /// Tests, in the order of the file.
    pub tests: Vec<Test>,
    /// Hosts, services and what else the file says about a network; empty in most files.
    pub network: Network,
}

/// A test in a graph file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// What must happen, as one sentence.
    pub name: String,
    /// Position of the test.
    pub position: Position,
    /// Lines of the test language (`tests/cases/README.md`).
    pub text: String,
}

/// Parses a parameter value as written in brackets after an element.
///
/// # Errors
/// If the text is not exactly one value.
pub fn parse_value(text: &str) -> Result<Value, Problem> {
    let mut scanner = Scanner::new(text);
    scanner.skip_blank();
    let value = scanner.value()?;
    scanner.skip_blank_lines();
    match scanner.peek() {
        None => Ok(value),
        Some(_) => Err(Problem::new(
            scanner.position(),
            format!("unexpected {} after a value", scanner.next_token()),
            "write one value",
        )),
    }
}

impl GraphFile {
    /// Parses and checks the text of a graph file. `file_name` is used in messages.
    ///
    /// # Errors
    /// All problems found: syntax errors, and everything that keeps the graph from running.
    pub fn read(file_name: &str, text: &str) -> Result<GraphFile, Problems> {
        let (file, mut problems) = GraphFile::examine(text);
        if problems.is_empty() {
            return Ok(file);
        }
        problems.truncate(PROBLEMS_MAX);
        Err(Problems { file: file_name.to_owned(), problems })
    }

    /// Parses a text and returns its syntax errors; does not check whether the graph can run.
    pub fn parse(text: &str) -> (GraphFile, Vec<Problem>) {
        let Parser { file, problems, .. } = Parser::parse(text);
        (file, problems)
    }

    /// Parses and checks a text and returns all problems together with the part that could be read.
    /// For drawing unfinished graphs and for editors.
    pub fn examine(text: &str) -> (GraphFile, Vec<Problem>) {
        let Parser { file, mut problems, unresolved, is_too_long, .. } = Parser::parse(text);
        if is_too_long {
            return (file, problems);
        }
        problems.extend(crate::check::check_with(&file.graph, &unresolved));
        if !unresolved.statement {
            // Services are parts of the graph: they are checked when it has no problem itself.
            let is_good = problems.is_empty();
            problems.extend(crate::check::check_network(&file, is_good));
        }
        problems.sort();
        problems.dedup();
        (file, problems)
    }
}

#[derive(Default)]
struct Parser<'a> {
    file: GraphFile,
    problems: Vec<Problem>,
    /// Nodes whose element is unknown: connections that name them are not reported again.
    unknown_nodes: Vec<&'a str>,
    /// Chains, resolved when all names are known.
    chains: Vec<Vec<ChainEnd<'a>>>,
    unresolved: Unresolved,
    is_too_long: bool,
    /// Statements without mistakes: byte offset and position of the start, and offset of the end.
    spans: Vec<(usize, Position, usize)>,
    /// Statements about the network so far.
    network_items: usize,
}

/// One end of an arrow, as written.
struct ChainEnd<'a> {
    name: &'a str,
    port: Option<&'a str>,
    position: Position,
}

impl<'a> Parser<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parser = Parser { is_too_long: text.len() > TEXT_LEN_MAX, ..Parser::default() };
        if parser.is_too_long {
            let what = format!("a file of {} bytes", text.len());
            let remedy = format!("at most {TEXT_LEN_MAX} are read: split it into two graphs");
            parser.problem(Problem::new(Position::default(), what, remedy));
        } else {
            parser.statements(text);
            parser.resolve_chains();
            parser.add_static_routes();
        }
        parser
    }

    fn statements(&mut self, text: &'a str) {
        let mut scanner = Scanner::new(text);
        scanner.skip_blank_lines();
        while scanner.peek().is_some() {
            let (start, start_offset) = (scanner.position(), scanner.offset(text));
            let read = self.statement(&mut scanner).and_then(|()| {
                self.spans.push((start_offset, start, scanner.offset(text)));
                scanner.skip_blank();
                match scanner.peek() {
                    None | Some('\n') => Ok(()),
                    Some(_) => Err(Problem::new(
                        scanner.position(),
                        format!("unexpected {} after a complete statement", scanner.next_token()),
                        "write it on a line of its own",
                    )),
                }
            });
            if let Err(problem) = read {
                self.problem(problem);
                scanner.line();
                self.unresolved.statement = true;
            }
            scanner.skip_blank_lines();
            debug_assert!(
                scanner.peek().is_none() || scanner.position() > start,
                "each statement consumes something"
            );
        }
    }

    fn problem(&mut self, problem: Problem) {
        // One more than is reported, so that the caller can tell that there are more.
        if self.problems.len() <= PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    fn statement(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let (start, position) = (scanner.clone(), scanner.position());
        let Some(name) = scanner.name() else {
            let what = format!("{} does not begin a statement", scanner.next_token());
            return Err(Problem::new(position, what, STATEMENTS));
        };
        let after_name = scanner.clone();
        scanner.skip_blank();
        match scanner.peek() {
            Some('=') if name == "face" => {
                let what = "a face without a name".to_owned();
                Err(Problem::new(scanner.position(), what, FACE))
            }
            Some('=') => {
                scanner.bump();
                scanner.skip_blank();
                self.node(name, position, scanner)
            }
            Some('"') if name == "test" => self.test(position, scanner),
            Some('.' | '-') => {
                *scanner = start;
                self.chain(scanner)
            }
            _ if name == "face" => self.face(scanner),
            Some(next) if network::begins(name, next) => {
                self.network_statement(name, position, scanner)
            }
            _ if name == "test" => {
                let what = format!("a test without a name: {}", scanner.next_token());
                Err(Problem::new(scanner.position(), what, TEST))
            }
            _ if after_name.clone().eat_arrow() => {
                *scanner = start;
                self.chain(scanner)
            }
            _ => {
                let what = format!("`{name}` alone is not a statement");
                Err(Problem::new(position, what, STATEMENTS))
            }
        }
    }

    fn check_capacity(&self, position: Position) -> Result<(), Problem> {
        if self.file.graph.nodes.len() + self.file.graph.faces.len() < NAMES_MAX {
            return Ok(());
        }
        let what = format!("more than {NAMES_MAX} faces and elements");
        Err(Problem::new(position, what, "split it into two graphs"))
    }

    /// `face NAME [= URI | listens URI [single]] [local|non-local] [multi-access|ad-hoc] [default]`
    fn face(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let position = scanner.position();
        self.check_capacity(position)?;
        let Some(name) = scanner.name() else {
            let what = format!("{} is not a face name", scanner.next_token());
            return Err(Problem::new(position, what, FACE));
        };
        let info = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
        let mut face = Face {
            name: name.to_owned(),
            uri: None,
            is_listener: false,
            is_single_peer: false,
            is_default: false,
            info,
            position,
        };
        loop {
            scanner.skip_blank();
            let position = scanner.position();
            match scanner.peek() {
                None | Some('\n') => break,
                Some('=') if face.uri.is_none() => {
                    scanner.bump();
                    scanner.skip_blank();
                    self.uri(&mut face, scanner);
                }
                Some(_) => match scanner.word() {
                    "listens" if face.uri.is_none() => {
                        face.is_listener = true;
                        scanner.skip_blank();
                        self.uri(&mut face, scanner);
                    }
                    "single" if face.is_listener => face.is_single_peer = true,
                    "default" => face.is_default = true,
                    "local" => face.info.scope = Scope::Local,
                    "non-local" => face.info.scope = Scope::NonLocal,
                    "multi-access" => face.info.link_type = LinkType::MultiAccess,
                    "ad-hoc" => face.info.link_type = LinkType::AdHoc,
                    option => {
                        let what = format!("`{option}` is not an option of a face");
                        self.problem(Problem::new(position, what, FACE));
                        scanner.line();
                    }
                },
            }
        }
        self.file.graph.faces.push(face);
        Ok(())
    }

    /// Parses a face URI; its scheme sets the scope of the face.
    fn uri(&mut self, face: &mut Face, scanner: &mut Scanner<'a>) {
        let position = scanner.position();
        let word = scanner.word();
        match word.parse::<FaceUri>() {
            Ok(uri) => {
                if uri.path().is_some() {
                    face.info.scope = Scope::Local;
                }
                let is_multicast = uri.address().is_some_and(|address| address.ip().is_multicast());
                let has_address = matches!(uri, FaceUri::Tcp(_) | FaceUri::Udp(_) | FaceUri::Ws(_));
                let is_address = has_address || uri.path().is_some();
                let is_host = matches!(uri, FaceUri::Host { .. });
                let is_supported = is_address || is_host && !face.is_listener;
                let is_connectable = face.is_listener || can_connect(&uri);
                if is_multicast || !is_supported || !is_connectable {
                    let verb = if face.is_listener { "listen on" } else { "lead to" };
                    let what = format!("a face of a graph can't {verb} `{word}`");
                    self.problem(Problem::new(position, what, URIS));
                }
            }
            Err(error) => {
                self.problem(Problem::new(position, format!("invalid address: {error}"), URIS));
            }
        }
        face.uri = Some(word.to_owned());
    }

    /// `NAME = ELEMENT` or `NAME = ELEMENT(PARAMETER = VALUE, …)`, from the element's name on.
    fn node(
        &mut self,
        name: &'a str,
        position: Position,
        scanner: &mut Scanner<'a>,
    ) -> Result<(), Problem> {
        self.check_capacity(position)?;
        let element_place = scanner.position();
        let Some(element) = scanner.name() else {
            let what = format!("{} is not an element name", scanner.next_token());
            self.unknown_nodes.push(name);
            return Err(Problem::new(element_place, what, NODE));
        };
        let entry = catalogue::find(element);
        if entry.is_none() {
            self.unknown_nodes.push(name);
            let names = catalogue::ENTRIES.iter().map(|entry| entry.name);
            let remedy = match suggest(element, names) {
                Some(near) => format!("did you mean `{near}`? `nw graph help` lists all elements"),
                None => "`nw graph help` lists all elements".to_owned(),
            };
            self.problem(Problem::new(
                element_place,
                format!("no element is called `{element}`"),
                remedy,
            ));
        }
        let mut node_parameters = (Parameters::default(), Vec::new());
        let read = self.parameters(scanner, &mut node_parameters);
        let (parameters, parameter_positions) = node_parameters;
        if let Some(entry) = entry {
            let name = name.to_owned();
            self.file.graph.nodes.push(Node {
                name,
                entry,
                parameters,
                parameter_positions,
                position,
            });
        }
        read
    }

    fn parameters(
        &mut self,
        scanner: &mut Scanner<'a>,
        (parameters, positions): &mut (Parameters, Vec<Position>),
    ) -> Result<(), Problem> {
        scanner.skip_blank();
        let open_bracket = scanner.position();
        if !scanner.eat("(") {
            return Ok(());
        }
        loop {
            scanner.skip_blank_lines();
            let position = scanner.position();
            if scanner.eat(")") {
                return Ok(());
            }
            let Some(name) = scanner.name() else {
                let what = format!(
                    "unexpected {} within the brackets of line {}",
                    scanner.next_token(),
                    open_bracket.line
                );
                return Err(Problem::new(
                    position,
                    what,
                    "write NAME = VALUE, with `,` between two parameters and `)` at the end",
                ));
            };
            scanner.skip_blank_lines();
            if !scanner.eat("=") {
                let what = format!("parameter `{name}` without a value: {}", scanner.next_token());
                return Err(Problem::new(
                    scanner.position(),
                    what,
                    format!("write {name} = VALUE"),
                ));
            }
            scanner.skip_blank_lines();
            let value = scanner.value()?;
            if parameters.get(name).is_some() {
                let what = format!("parameter `{name}` is given twice");
                self.problem(Problem::new(position, what, "leave one of the two out"));
            } else {
                parameters.0.push((name.to_owned(), value));
                positions.push(position);
            }
            scanner.skip_blank_lines();
            if !scanner.eat(",") && scanner.peek() != Some(')') {
                let what = format!(
                    "unexpected {} within the brackets of line {}",
                    scanner.next_token(),
                    open_bracket.line
                );
                return Err(Problem::new(
                    scanner.position(),
                    what,
                    "write `,` between two parameters and `)` at the end",
                ));
            }
        }
    }

    /// `A.x -> B.y -> …`
    fn chain(&mut self, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let mut chain = vec![end(scanner)?];
        while scanner.eat_arrow() {
            scanner.skip_blank_lines();
            chain.push(end(scanner)?);
        }
        if chain.len() == 1 {
            let what = format!("`{}` is not connected to anything", chain[0]);
            return Err(Problem::new(chain[0].position, what, "write FROM.PORT -> TO.PORT"));
        }
        self.chains.push(chain);
        Ok(())
    }

    /// `test "…" {`, lines, `}`: from the name on.
    fn test(&mut self, position: Position, scanner: &mut Scanner<'a>) -> Result<(), Problem> {
        let name = scanner.text()?;
        scanner.skip_blank();
        if !scanner.eat("{") {
            let what = format!("unexpected {} after the name of a test", scanner.next_token());
            return Err(Problem::new(scanner.position(), what, TEST));
        }
        scanner.skip_blank();
        if scanner.peek().is_some_and(|c| c != '\n') {
            let what = format!("unexpected {} after the `{{` of a test", scanner.next_token());
            return Err(Problem::new(scanner.position(), what, TEST));
        }
        // Empty lines in front keep the line numbers of the file.
        let mut text = "\n".repeat(scanner.position().line as usize);
        loop {
            scanner.line();
            if scanner.bump().is_none() {
                return Err(Problem::new(
                    position,
                    format!("the test {name:?} is not closed"),
                    TEST,
                ));
            }
            let mut lookahead = scanner.clone();
            lookahead.skip_blank();
            if lookahead.eat("}") {
                *scanner = lookahead;
                break;
            }
            text.push_str(scanner.clone().line());
            text.push('\n');
        }
        self.file.tests.push(Test { name, position, text });
        Ok(())
    }

    /// Resolves the names in all chains to connections.
    fn resolve_chains(&mut self) {
        for chain in std::mem::take(&mut self.chains) {
            for (at, pair) in chain.windows(2).enumerate() {
                let from = self.resolve_source(&pair[0], at != 0);
                let to = self.resolve_target(&pair[1], at + 2 != chain.len());
                match (from, to) {
                    (Some(from), Some(to)) => {
                        let position = pair[0].position;
                        self.file.graph.connections.push(Connection { from, to, position });
                    }
                    (from, to) => {
                        self.unresolved.from.extend(from);
                        self.unresolved.to.extend(to);
                        self.unresolved.statement = true;
                    }
                }
            }
        }
    }

    /// Adds static routes to the parameters of their elements, so that the graph has them wherever
    /// it runs. Routes that do not fit are left to the checker.
    fn add_static_routes(&mut self) {
        let graph = &mut self.file.graph;
        for route in &self.file.network.routes {
            let is_face =
                graph.faces.iter().any(|face| face.name == route.face && !face.is_listener);
            let node = graph.nodes.iter_mut().find(|node| node.name == route.element);
            let is_name = route.prefix.parse::<Name>().is_ok();
            let fits = |node: &&mut Node| is_face && is_name && crate::check::has_routes(node);
            let Some(node) = node.filter(fits) else {
                continue;
            };
            let hop = format!("{} cost={}", route.face, route.cost);
            let known = node.parameters.0.iter_mut().find(|(name, _)| name == "routes");
            let list = match known {
                Some((_, Value::List(list))) => list,
                Some(_) => continue,
                None => {
                    node.parameters.0.push(("routes".to_owned(), Value::List(Vec::new())));
                    node.parameter_positions.push(route.position);
                    match node.parameters.0.last_mut() {
                        Some((_, Value::List(list))) => list,
                        _ => continue,
                    }
                }
            };
            let has_prefix = |value: &&mut Value| match value {
                Value::Text(text) => text.split_whitespace().next() == Some(&route.prefix),
                _ => false,
            };
            // Of two routes with one prefix an element would use the last one only.
            match list.iter_mut().find(has_prefix) {
                Some(Value::Text(text)) => *text = format!("{text} {hop}"),
                _ => list.push(Value::Text(format!("{} {hop}", route.prefix))),
            }
        }
    }

    fn resolve_source(&mut self, end: &ChainEnd<'a>, is_inside_chain: bool) -> Option<Source> {
        let graph = &self.file.graph;
        let problem = if end.name == crate::model::FACES {
            match is_inside_chain {
                false => return end.without_port(Source::Faces, &mut self.problems),
                // Already reported for the arrow that leads to this end.
                true => return None,
            }
        } else if let Some(face) = graph.face_index(end.name) {
            return match is_inside_chain {
                false => end.without_port(Source::Face(face), &mut self.problems),
                true => None,
            };
        } else if let Some(node) = graph.node_index(end.name) {
            match end.port_of(graph.nodes[node].entry.outs, "leave by", is_inside_chain) {
                Ok(port) => return Some(Source::Port(node, port)),
                Err(problem) => {
                    // Any output port may be meant: that it is not connected is not reported.
                    let ports = 0..graph.nodes[node].entry.outs.len();
                    self.unresolved.from.extend(ports.map(|port| Source::Port(node, port as u8)));
                    problem
                }
            }
        } else {
            self.unknown_name(end)?
        };
        self.problem(problem);
        None
    }

    fn resolve_target(&mut self, end: &ChainEnd<'a>, is_inside_chain: bool) -> Option<Target> {
        let graph = &self.file.graph;
        let face = graph.face_index(end.name);
        let is_faces = end.name == crate::model::FACES;
        let problem = if (is_faces || face.is_some()) && is_inside_chain {
            let what =
                format!("`{}` in the middle of a chain: packets leave the graph there", end.name);
            Problem::new(
                end.position,
                what,
                format!(
                    "end the line here, and begin another one for packets that come from it: {} -> …",
                    end.name
                ),
            )
        } else if is_faces {
            return end.without_port(Target::Faces, &mut self.problems);
        } else if let Some(face) = face {
            return end.without_port(Target::Face(face), &mut self.problems);
        } else if let Some(node) = graph.node_index(end.name) {
            match end.port_of(graph.nodes[node].entry.ins, "enter by", is_inside_chain) {
                Ok(port) => return Some(Target::Port(node, port)),
                Err(problem) => problem,
            }
        } else {
            self.unknown_name(end)?
        };
        self.problem(problem);
        None
    }

    fn unknown_name(&self, end: &ChainEnd<'a>) -> Option<Problem> {
        if self.unknown_nodes.contains(&end.name) {
            return None;
        }
        let graph = &self.file.graph;
        let names = graph.nodes.iter().map(|node| node.name.as_str());
        let names = names
            .chain(graph.faces.iter().map(|face| face.name.as_str()))
            .chain([crate::model::FACES]);
        let remedy = match suggest(end.name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write `{} = ELEMENT` or `face {}` above", end.name, end.name),
        };
        Some(Problem::new(
            end.position,
            format!("nothing in this graph is called `{}`", end.name),
            remedy,
        ))
    }
}

/// Returns whether an address can be that of a peer: neither port 0 nor an address of several
/// hosts. Paths are checked with the whole graph.
fn can_connect(uri: &FaceUri) -> bool {
    match uri {
        FaceUri::Udp(peer) | FaceUri::Tcp(peer) | FaceUri::Ws(peer) => {
            let ip = peer.ip();
            let is_broadcast = matches!((uri, ip), (FaceUri::Udp(_), std::net::IpAddr::V4(ip)) if ip.is_broadcast());
            peer.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast
        }
        FaceUri::Host { port, .. } => *port != 0,
        _ => true,
    }
}

/// `NAME` or `NAME.PORT`.
fn end<'a>(scanner: &mut Scanner<'a>) -> Result<ChainEnd<'a>, Problem> {
    let position = scanner.position();
    let unexpected = |scanner: &Scanner<'_>| {
        let what = format!("{} where a port or a face is expected", scanner.next_token());
        Problem::new(scanner.position(), what, "write ELEMENT.PORT, a face's name, or faces")
    };
    let name = scanner.name().ok_or_else(|| unexpected(scanner))?;
    let port = match scanner.eat(".") {
        true => Some(scanner.name().ok_or_else(|| unexpected(scanner))?),
        false => None,
    };
    Ok(ChainEnd { name, port, position })
}

impl ChainEnd<'_> {
    /// Returns the index of the named port among `ports`. An element with one port needs no port
    /// name.
    fn port_of(
        &self,
        ports: &[PortInfo],
        verb: &str,
        is_inside_chain: bool,
    ) -> Result<u8, Problem> {
        let names: Vec<&str> = ports.iter().map(|port| port.name).collect();
        let all = names.join(", ");
        match self.port {
            None if ports.len() == 1 => Ok(0),
            _ if ports.is_empty() => {
                let what = format!("`{}` has no port to {verb}", self.name);
                Err(Problem::new(self.position, what, "end the chain before it, or after it"))
            }
            None => {
                let what = format!("`{}` has several ports to {verb}: {all}", self.name);
                let example = names.first().copied().unwrap_or_default();
                let remedy = format!("write {}.{example} or another of these", self.name);
                Err(Problem::new(self.position, what, remedy))
            }
            // Inside a chain the name may refer to the port on the other side if there is only one
            // port on this side.
            Some(port) => catalogue::port(ports, port)
                .or((is_inside_chain && ports.len() == 1).then_some(0))
                .ok_or_else(|| {
                    let what = format!("`{}` has no port `{port}` to {verb}", self.name);
                    let remedy = match suggest(port, names.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`? There are: {all}"),
                        None => format!("there are: {all}"),
                    };
                    Problem::new(self.position, what, remedy)
                }),
        }
    }

    /// Returns `end`, or reports a problem if a port is named: faces have no ports.
    fn without_port<T>(&self, end: T, problems: &mut Vec<Problem>) -> Option<T> {
        let Some(port) = self.port else { return Some(end) };
        let what = format!("`{}` is a face and has no port `{port}`", self.name);
        problems.push(Problem::new(
            self.position,
            what,
            format!("write {} without a port", self.name),
        ));
        None
    }
}

impl std::fmt::Display for ChainEnd<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ".{port}"))
    }
}

const STATEMENTS: &str = "a line declares a face (face NAME = URI), an element (NAME = ELEMENT), a connection (A.PORT -> B.PORT) or a test (test \"…\" {)";
const FACE: &str = "write face NAME = URI, or face NAME listens URI, followed by local, non-local, multi-access or ad-hoc";
const NODE: &str = "write NAME = ELEMENT or NAME = ELEMENT(PARAMETER = VALUE, …)";
const TEST: &str = "write test \"what must happen\" {, then lines, then } on a line of its own";
const URIS: &str = "addresses are unix:///path, shm:///path, udp4://192.0.2.1:6363, tcp4://192.0.2.1:6363, ws://192.0.2.1:9696, or with a host name where the face does not listen: tcp://example.net";

//! Edits of a graph file's text, as a drawing makes them: what an edit does not concern keeps its
//! formatting and its comments, byte for byte.
//!
//! An edit is a change of the text, not of the model: the edited text is parsed again, and what is
//! wrong with it is reported as for any other text.

use super::scanner::Scanner;
use super::{ChainEnd, GraphFile, Parser, end};
use crate::{Connection, Graph, Position};
use nw_elements::catalogue;
use std::fmt::Write;
use std::ops::Range;

/// An edit of a graph file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Adds an element: name and element of the catalogue.
    AddElement(String, String),
    /// Adds a face: name, address, and whether it listens.
    AddFace(String, String, bool),
    /// Adds a service with these members, which leave the services they were in.
    AddService(String, Vec<String>),
    /// Connects an output to an input, both as written in a file.
    Connect(String, String),
    /// Removes the connection between an output and an input.
    Disconnect(String, String),
    /// Moves an element or face to another service, or to none.
    Assign(String, Option<String>),
    /// Removes an element or a face with its connections and routes.
    Remove(String),
    /// Removes a service; its members stay.
    RemoveService(String),
}

/// Why an edit can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EditError(String);

fn error<T>(text: String) -> Result<T, EditError> {
    Err(EditError(text))
}

/// Returns the text after an edit.
///
/// # Errors
/// If a name is not valid or taken, or what is edited is not there. The text is then as before.
pub fn edit(text: &str, edit: &Edit) -> Result<String, EditError> {
    let draft = Draft::new(text);
    match edit {
        Edit::AddElement(name, element) => {
            draft.check_new(name)?;
            if catalogue::find(element).is_none() {
                return error(format!("no element is called `{element}`"));
            }
            let line = format!("{name} = {element}");
            let after = draft.last(|kind| matches!(kind, Kind::Node(_)));
            Ok(draft.insert_after(
                after.or_else(|| draft.last(|kind| matches!(kind, Kind::Face(_)))),
                &line,
            ))
        }
        Edit::AddFace(name, uri, listens) => {
            draft.check_new(name)?;
            if uri.is_empty() || uri.contains(char::is_whitespace) {
                return error(format!(
                    "`{uri}` is not an address: write udp4://192.0.2.1:6363 or unix:///path"
                ));
            }
            let verb = if *listens { "listens" } else { "=" };
            let line = format!("face {name} {verb} {uri}");
            Ok(draft.insert_after(draft.last(|kind| matches!(kind, Kind::Face(_))), &line))
        }
        Edit::AddService(name, members) => add_service(&draft, name, members),
        Edit::Connect(from, to) => {
            for written in [from, to] {
                if !is_end(written) {
                    return error(format!(
                        "`{written}` is not ELEMENT.PORT, a face's name, or faces"
                    ));
                }
            }
            let line = format!("{from} -> {to}");
            let after = draft.last(|kind| matches!(kind, Kind::Chain(_)));
            Ok(draft.insert_after(
                after.or_else(|| draft.last(|kind| matches!(kind, Kind::Node(_)))),
                &line,
            ))
        }
        Edit::Disconnect(from, to) => draft.disconnect(from, to),
        Edit::Assign(member, service) => draft.assign(member, service.as_deref()),
        Edit::Remove(name) => draft.remove(name),
        Edit::RemoveService(name) => draft.remove_service(name),
    }
}

fn add_service(draft: &Draft<'_>, name: &str, members: &[String]) -> Result<String, EditError> {
    if !is_name(name) {
        return error(format!("`{name}` is not a name: use letters, digits, _ and -"));
    }
    if draft.file.network.services.iter().any(|service| service.name == name) {
        return error(format!("there is a service `{name}` already"));
    }
    if members.is_empty() {
        return error("a service has at least one element: select one first".to_owned());
    }
    let mut text = draft.text.to_owned();
    for member in members {
        text = Draft::new(&text).assign(member, None)?;
    }
    let draft = Draft::new(&text);
    let line = format!("service {name} {{ {} }}", members.join(", "));
    let after = draft.last(|kind| matches!(kind, Kind::Service(_)));
    Ok(draft
        .insert_after(after.or_else(|| draft.last(|kind| matches!(kind, Kind::Chain(_)))), &line))
}

fn is_name(text: &str) -> bool {
    let mut scanner = Scanner::new(text);
    scanner.name().is_some() && scanner.peek().is_none()
}

fn is_end(text: &str) -> bool {
    let mut scanner = Scanner::new(text);
    end(&mut scanner).is_ok() && scanner.peek().is_none()
}

/// A statement: where it is, and what it is.
struct Statement<'a> {
    span: Range<usize>,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Node(&'a str),
    Face(&'a str),
    Service(&'a str),
    /// Ends with the range of each.
    Chain(Vec<(ChainEnd<'a>, Range<usize>)>),
    /// `scale`, of a service.
    Scale(&'a str),
    /// `link`, between two services.
    Link(&'a str, &'a str),
    /// Any other.
    Other,
}

/// A text with its statements.
struct Draft<'a> {
    text: &'a str,
    file: GraphFile,
    statements: Vec<Statement<'a>>,
}

impl<'a> Draft<'a> {
    fn new(text: &'a str) -> Self {
        let Parser { file, spans, .. } = Parser::parse(text);
        let statements = spans.into_iter().map(|(start, position, stop)| Statement {
            kind: kind(text, start, position, stop),
            span: start..stop,
        });
        Draft { text, statements: statements.collect(), file }
    }

    fn graph(&self) -> &Graph {
        &self.file.graph
    }

    fn check_new(&self, name: &str) -> Result<(), EditError> {
        if !is_name(name) || name == crate::model::FACES {
            return error(format!("`{name}` is not a name: use letters, digits, _ and -"));
        }
        match self.graph().face_index(name).or(self.graph().node_index(name)) {
            Some(_) => error(format!("`{name}` is taken: choose another name")),
            None => Ok(()),
        }
    }

    /// Returns the end of the last statement of a kind.
    fn last(&self, is_kind: impl Fn(&Kind<'_>) -> bool) -> Option<usize> {
        let last = self.statements.iter().rev().find(|statement| is_kind(&statement.kind));
        last.map(|statement| statement.span.end)
    }

    /// Inserts a line after the line of an offset; at the end of the text for `None`.
    fn insert_after(&self, offset: Option<usize>, line: &str) -> String {
        let at = offset.map_or(self.text.len(), |offset| line_end(self.text, offset));
        let (before, after) = self.text.split_at(at);
        let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
        format!("{before}{gap}{line}\n{after}")
    }

    /// Returns the connection that begins at an end of a chain.
    fn connection(&self, position: Position) -> Option<&Connection> {
        self.graph().connections.iter().find(|connection| connection.position == position)
    }

    fn disconnect(&self, from: &str, to: &str) -> Result<String, EditError> {
        let graph = self.graph();
        let is_wanted = |connection: &&Connection| {
            graph.source_name(connection.from) == from && graph.target_name(connection.to) == to
        };
        let Some(position) = graph.connections.iter().find(is_wanted).map(|found| found.position)
        else {
            return error(format!("there is no connection {from} -> {to}"));
        };
        let mut changes = Changes::default();
        for statement in &self.statements {
            let Kind::Chain(ends) = &statement.kind else { continue };
            if let Some(at) = ends.iter().position(|(end, _)| end.position == position) {
                self.split(statement, ends, &mut changes, |first, _| first == at, |_| false);
            }
        }
        Ok(changes.apply(self.text))
    }

    fn remove(&self, name: &str) -> Result<String, EditError> {
        if self.graph().face_index(name).or(self.graph().node_index(name)).is_none() {
            return error(format!("nothing is called `{name}`"));
        }
        let mut changes = Changes::default();
        for statement in &self.statements {
            match &statement.kind {
                Kind::Node(own) | Kind::Face(own) if *own == name => {
                    changes.remove_lines(self.text, &statement.span);
                }
                Kind::Chain(ends) => {
                    self.split(statement, ends, &mut changes, |_, _| false, |end| end.name == name);
                }
                _ => {}
            }
        }
        let is_of = |element: &str, face: &str| element == name || face == name;
        let routes = self.file.network.routes.iter();
        let routes = routes.filter(|route| is_of(&route.element, &route.face));
        for route in routes {
            if let Some(statement) = self.statement_at(route.position) {
                changes.remove_lines(self.text, &statement.span);
            }
        }
        let text = changes.apply(self.text);
        Draft::new(&text).leave_services(name)
    }

    fn statement_at(&self, position: Position) -> Option<&Statement<'a>> {
        let at = offset_of(self.text, position)?;
        self.statements.iter().find(|statement| statement.span.contains(&at))
    }

    /// Removes links of a chain, or ends with their links. What stays is written as before; an end
    /// that becomes the first or last one of a chain is written with the port that it used there.
    fn split(
        &self,
        statement: &Statement<'a>,
        ends: &[(ChainEnd<'a>, Range<usize>)],
        changes: &mut Changes,
        is_cut: impl Fn(usize, usize) -> bool,
        is_removed: impl Fn(&ChainEnd<'a>) -> bool,
    ) {
        let mut parts: Vec<Range<usize>> = Vec::new();
        let mut first = 0;
        for at in 0..ends.len() {
            let is_last = at + 1 == ends.len();
            if is_removed(&ends[at].0) {
                parts.push(first..at);
                first = at + 1;
            } else if is_last || is_cut(at, at + 1) {
                parts.push(first..at + 1);
                first = at + 1;
            }
        }
        parts.retain(|part| part.len() >= 2);
        if parts.len() == 1 && parts[0] == (0..ends.len()) {
            return;
        }
        if parts.is_empty() {
            return changes.remove_lines(self.text, &statement.span);
        }
        let lines = parts.iter().map(|part| self.write_part(ends, part));
        let written = lines.collect::<Vec<_>>().join("\n");
        changes.0.push((statement.span.clone(), written));
    }

    /// Returns a part of a chain as text.
    fn write_part(&self, ends: &[(ChainEnd<'a>, Range<usize>)], part: &Range<usize>) -> String {
        let graph = self.graph();
        let (first, last) = (part.start, part.end - 1);
        let as_written = |at: usize| &self.text[ends[at].1.clone()];
        // Between the first and the last end, everything is as before.
        let middle = &self.text[ends[first].1.end..ends[last].1.start];
        let source = match first == 0 {
            true => None,
            false => self.connection(ends[first].0.position),
        };
        let source =
            source.map_or(as_written(first).to_owned(), |from| graph.source_name(from.from));
        let target = match last + 1 == ends.len() {
            true => None,
            false => self.connection(ends[last - 1].0.position),
        };
        let target = target.map_or(as_written(last).to_owned(), |to| graph.target_name(to.to));
        format!("{source}{middle}{target}")
    }

    fn assign(&self, member: &str, service: Option<&str>) -> Result<String, EditError> {
        if self.graph().face_index(member).or(self.graph().node_index(member)).is_none() {
            return error(format!("nothing is called `{member}`"));
        }
        let services = &self.file.network.services;
        if let Some(name) = service
            && !services.iter().any(|found| found.name == name)
        {
            return error(format!("there is no service `{name}`"));
        }
        let text = self.leave_services(member)?;
        let Some(name) = service else { return Ok(text) };
        let draft = Draft::new(&text);
        let found = draft
            .statements
            .iter()
            .find(|statement| matches!(&statement.kind, Kind::Service(own) if *own == name));
        let Some(statement) = found else {
            // It was the only member.
            return add_service(&draft, name, &[member.to_owned()]);
        };
        let body = &text[statement.span.clone()];
        let close = statement.span.start + body.rfind('}').unwrap_or(body.len());
        let before = text[..close].trim_end();
        let comma = if before.ends_with(['{', ',']) { "" } else { "," };
        let rest = &text[before.len()..];
        Ok(format!("{before}{comma} {member}{rest}"))
    }

    /// Removes a member from all services. A service without members is removed.
    fn leave_services(&self, member: &str) -> Result<String, EditError> {
        let mut changes = Changes::default();
        let mut empty = None;
        for service in &self.file.network.services {
            let Some((_, position)) = service.members.iter().find(|(name, _)| name == member)
            else {
                continue;
            };
            if service.members.len() == 1 {
                empty = Some(service.name.clone());
                continue;
            }
            if let Some(at) = offset_of(self.text, *position) {
                changes.0.push((with_comma(self.text, at..at + member.len()), String::new()));
            }
        }
        let text = changes.apply(self.text);
        match empty {
            Some(name) => Draft::new(&text).remove_service(&name),
            None => Ok(text),
        }
    }

    fn remove_service(&self, name: &str) -> Result<String, EditError> {
        let mut changes = Changes::default();
        for statement in &self.statements {
            let is_of = match &statement.kind {
                Kind::Service(own) | Kind::Scale(own) => *own == name,
                Kind::Link(from, to) => *from == name || *to == name,
                _ => false,
            };
            if is_of {
                changes.remove_lines(self.text, &statement.span);
            }
        }
        match changes.0.is_empty() {
            true => error(format!("there is no service `{name}`")),
            false => Ok(changes.apply(self.text)),
        }
    }
}

/// Returns what a statement is, from its first words.
fn kind(text: &str, start: usize, position: Position, stop: usize) -> Kind<'_> {
    let mut scanner = Scanner::at(text, start, position);
    let Some(name) = scanner.name() else { return Kind::Other };
    scanner.skip_blank();
    if scanner.peek() == Some('=') && name != "face" {
        return Kind::Node(name);
    }
    let mut chain = Scanner::at(text, start, position);
    let mut ends = Vec::new();
    loop {
        let from = chain.offset(text);
        let Ok(found) = end(&mut chain) else { break };
        ends.push((found, from..chain.offset(text)));
        if !chain.eat_arrow() || chain.offset(text) >= stop {
            break;
        }
        chain.skip_blank_lines();
    }
    if ends.len() > 1 {
        return Kind::Chain(ends);
    }
    let own = scanner.name();
    match (name, own) {
        ("face", Some(own)) => Kind::Face(own),
        ("service", Some(own)) => Kind::Service(own),
        ("scale", Some(own)) => Kind::Scale(own),
        ("link", Some(from)) => {
            let is_pair = scanner.eat_arrow();
            scanner.skip_blank();
            scanner.name().filter(|_| is_pair).map_or(Kind::Other, |to| Kind::Link(from, to))
        }
        _ => Kind::Other,
    }
}

/// Replacements in a text, by range.
#[derive(Default)]
struct Changes(Vec<(Range<usize>, String)>);

impl Changes {
    /// Removes the lines of a statement.
    fn remove_lines(&mut self, text: &str, span: &Range<usize>) {
        let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        self.0.push((start..line_end(text, span.end), String::new()));
    }

    fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(range, _)| range.start);
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for (range, written) in self.0 {
            if range.start < at {
                continue;
            }
            let _ = write!(out, "{}{written}", &text[at..range.start]);
            at = range.end;
        }
        out.push_str(&text[at..]);
        out
    }
}

/// Returns the offset after the line of an offset, line end included.
fn line_end(text: &str, offset: usize) -> usize {
    text[offset..].find('\n').map_or(text.len(), |at| offset + at + 1)
}

/// Widens the range of a member to the comma and the blanks that separate it.
fn with_comma(text: &str, range: Range<usize>) -> Range<usize> {
    let is_blank = |c: char| c == ' ' || c == '\t';
    let after = text[range.end..].trim_start_matches(is_blank);
    if let Some(rest) = after.strip_prefix(',') {
        let rest = rest.trim_start_matches(is_blank);
        return range.start..text.len() - rest.len();
    }
    let before = text[..range.start].trim_end_matches(is_blank);
    let before = before.strip_suffix(',').unwrap_or(before);
    before.len()..range.end
}

/// Returns the offset of a position. `None` if the text has no such position.
fn offset_of(text: &str, position: Position) -> Option<usize> {
    let mut start = 0;
    for _ in 1..position.line {
        start += text[start..].find('\n')? + 1;
    }
    let column = position.column.checked_sub(1)? as usize;
    let line = &text[start..];
    line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(column).map(|at| start + at)
}

#[cfg(test)]
mod tests;

//! Prints bytes as a readable tree: `nw dissect`.
//!
//! Element names depend on the enclosing element, as the same number means different things in
//! different places: Interest, Data, LpPacket, SignatureInfo, messages and datasets of the
//! management protocol (recognised by the Data's name). A fault is shown at its offset, and the
//! walk continues after the faulty element. It never panics; depth, lines and the length of each
//! value are bounded.

mod publication;
mod table;

use crate::{Data, Error, Fault, Interest, LpPacket, Reader, Tlv};
use core::fmt;
use nw_name::{Component, ComponentType, NameRef};
use std::collections::VecDeque;
use table::{Row, Shape};

/// Limits of the output.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most levels of nesting; deeper elements are shown as bytes.
    pub depth_max: usize,
    /// Most lines.
    pub lines_max: usize,
    /// Most bytes shown of a value that is neither name nor number.
    pub bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { depth_max: 16, lines_max: 2000, bytes_max: 32 }
    }
}

/// One line: an element or a fault.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Level of nesting, 0 for the outermost.
    pub depth: usize,
    /// Offset from the start of the input, in bytes.
    pub offset: usize,
    /// TLV-TYPE; `None` for lines that are not elements.
    pub typ: Option<u32>,
    /// Name of the type here; empty if unknown.
    pub name: &'static str,
    /// Length of the TLV-VALUE, bytes.
    pub len: usize,
    /// The value.
    pub value: Value<'a>,
}

/// The value of an element.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Elements, which follow one level deeper.
    Elements,
    /// Empty, as required.
    Empty,
    /// A name.
    Name(NameRef<'a>),
    /// A name component.
    Component(Component<'a>),
    /// A number and its unit (may be empty).
    Number(u64, &'static str),
    /// A number and the word it stands for (may be empty).
    Word(u64, &'static str),
    /// A number with flag bits, and their names.
    Flags(u64, &'static [(u64, &'static str)]),
    /// The first bytes of printable text, and whether there are more.
    Text(&'a str, bool),
    /// The first bytes, and whether there are more.
    Bytes(&'a [u8], bool),
    /// The fault at this line's offset.
    Fault(Fault),
    /// The output was cut by [`Options::lines_max`].
    Cut,
}

/// Writes the tree of `bytes`, one line per element: offset, indented name, type, length, value.
///
/// # Errors
/// When the writer fails.
pub fn dissect(bytes: &[u8], out: &mut impl fmt::Write, options: Options) -> fmt::Result {
    lines(bytes, options).try_for_each(|line| writeln!(out, "{line}"))
}

/// Returns the lines of [`dissect`].
pub fn lines(bytes: &[u8], options: Options) -> Lines<'_> {
    let outermost = Frame::new(Reader::new(bytes, 0), table::PACKETS);
    Lines { options, stack: vec![outermost], pending: None, fields: VecDeque::new(), shown: 0 }
}

/// Iterator returned by [`lines`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    options: Options,
    stack: Vec<Frame<'a>>,
    /// A fault to be shown next.
    pending: Option<Error>,
    /// Fields of a packet that is not made of elements, to be shown next.
    fields: VecDeque<Line<'a>>,
    shown: usize,
}

/// An element that is being walked.
#[derive(Clone, Debug)]
struct Frame<'a> {
    reader: Reader<'a>,
    rows: &'static [Row],
    /// In Data: its name and ContentType, which define the meaning of its content.
    data_name: NameRef<'a>,
    content_type: u64,
    /// In LpPacket: whether its Fragment is a piece of a packet.
    fragmented: bool,
}

impl<'a> Frame<'a> {
    fn new(reader: Reader<'a>, rows: &'static [Row]) -> Self {
        Frame { reader, rows, data_name: NameRef::ROOT, content_type: 0, fragmented: false }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.shown > self.options.lines_max {
            return None;
        }
        let line = self.step()?;
        self.shown += 1;
        if self.shown > self.options.lines_max {
            return Some(Line { typ: None, name: "", len: 0, value: Value::Cut, ..line });
        }
        Some(line)
    }
}

impl<'a> Lines<'a> {
    /// Returns the next line, without regard to limits.
    fn step(&mut self) -> Option<Line<'a>> {
        if let Some(error) = self.pending.take() {
            return Some(self.fault(error));
        }
        if let Some(line) = self.fields.pop_front() {
            return Some(line);
        }
        loop {
            let frame = self.stack.last_mut()?;
            match frame.reader.next() {
                Ok(Some(element)) => return Some(self.element(&element)),
                Ok(None) => drop(self.stack.pop()),
                Err(error) => {
                    let line = self.fault(error);
                    self.stack.pop();
                    return Some(line);
                }
            }
        }
    }

    fn fault(&self, error: Error) -> Line<'a> {
        let depth = self.stack.len() - 1;
        Line {
            depth,
            offset: error.offset,
            typ: None,
            name: "",
            len: 0,
            value: Value::Fault(error.fault),
        }
    }

    /// Returns the line of an element and enters it, if it has inner elements.
    fn element(&mut self, element: &Tlv<'a>) -> Line<'a> {
        let depth = self.stack.len() - 1;
        let frame = self.stack.last_mut().expect("the element's own frame");
        let row = frame.rows.iter().find(|row| row.typ == element.typ);
        let (name, shape) = row.map_or(("", Shape::Unknown), |row| (row.name, row.shape));
        let value = match shape {
            Shape::Inside(rows) => self.enter(element, rows),
            Shape::Packet(rows) => {
                self.pending = packet_fault(element);
                self.enter(element, rows)
            }
            Shape::Fragment if frame.fragmented => self.bytes(element.value),
            Shape::Fragment => self.enter(element, table::PACKETS),
            Shape::Publication => {
                self.fields = publication::fields(element, depth + 1, self.options.bytes_max);
                Value::Elements
            }
            Shape::Content => {
                match table::content(frame.data_name, frame.content_type, element.value) {
                    Some(rows) => self.enter(element, rows),
                    None => self.text_or_bytes(element.value),
                }
            }
            shape => self.leaf(element, shape),
        };
        self.remember_context(depth, element, &value);
        Line {
            depth,
            offset: element.start,
            typ: Some(element.typ),
            name,
            len: element.value.len(),
            value,
        }
    }

    /// Returns a value without inner elements; a fault in it is shown next.
    fn leaf(&mut self, element: &Tlv<'a>, shape: Shape) -> Value<'a> {
        let outcome = match shape {
            Shape::Empty if element.value.is_empty() => Ok(Value::Empty),
            Shape::Empty => Err(Error::new(Fault::FieldLength, element.start)),
            Shape::Name => self.name(element),
            Shape::Component => component(element),
            Shape::Number(unit) => element.integer().map(|number| Value::Number(number, unit)),
            Shape::Words(words) => element.integer().map(|number| {
                let word =
                    words.iter().find(|(known, _)| *known == number).map_or("", |(_, word)| *word);
                Value::Word(number, word)
            }),
            Shape::Flags(flags) => element.integer().map(|number| Value::Flags(number, flags)),
            Shape::Text => Ok(self.text_or_bytes(element.value)),
            _ => Ok(self.bytes(element.value)),
        };
        outcome.unwrap_or_else(|error| {
            self.pending = Some(error);
            self.bytes(element.value)
        })
    }

    /// Returns a name. The parameters in a command's name follow as elements.
    fn name(&mut self, element: &Tlv<'a>) -> Result<Value<'a>, Error> {
        let mut parameters = None;
        let name =
            NameRef::check_with(element.value, element.value_start, |typ, component, end| {
                if typ == ComponentType::GENERIC && parameters.is_none() {
                    let start = element.value_start + end - component.len();
                    let holds_parameters = |part: &Tlv<'_>| {
                        part.value.first() == Some(&(table::CONTROL_PARAMETERS_TYPE as u8))
                    };
                    parameters = Reader::new(component, start)
                        .next()
                        .ok()
                        .flatten()
                        .filter(holds_parameters);
                }
            })?;
        if table::is_management(name)
            && let Some(outer) = parameters
        {
            self.enter(&outer, table::CONTROL);
        }
        Ok(Value::Name(name))
    }

    /// Enters an element, unless the depth limit is reached.
    fn enter(&mut self, element: &Tlv<'a>, rows: &'static [Row]) -> Value<'a> {
        if element.value.is_empty() {
            return Value::Empty;
        }
        if self.stack.len() >= self.options.depth_max {
            return self.bytes(element.value);
        }
        self.stack.push(Frame::new(Reader::new(element.value, element.value_start), rows));
        Value::Elements
    }

    /// Stores what later elements beside or around this one depend on.
    fn remember_context(&mut self, depth: usize, element: &Tlv<'a>, value: &Value<'a>) {
        match *value {
            Value::Name(name) => self.stack[depth].data_name = name,
            Value::Number(count, _) if element.typ == crate::types::LP_FRAG_COUNT => {
                self.stack[depth].fragmented = count > 1;
            }
            Value::Word(number, _) if element.typ == crate::types::CONTENT_TYPE && depth > 0 => {
                self.stack[depth - 1].content_type = number;
            }
            _ => {}
        }
    }

    /// Returns the first bytes of a value.
    fn bytes(&self, value: &'a [u8]) -> Value<'a> {
        if value.is_empty() {
            return Value::Empty;
        }
        let shown = value.len().min(self.options.bytes_max);
        Value::Bytes(&value[..shown], shown < value.len())
    }

    /// Returns a value as text if it is printable.
    fn text_or_bytes(&self, value: &'a [u8]) -> Value<'a> {
        let printable = |text: &&str| !text.is_empty() && text.chars().all(|c| !c.is_control());
        let Some(text) = core::str::from_utf8(value).ok().filter(printable) else {
            return self.bytes(value);
        };
        let shown = text.floor_char_boundary(self.options.bytes_max.saturating_mul(2));
        Value::Text(&text[..shown], shown < text.len())
    }
}

/// Returns the fault for which the router would reject the packet, unless the walk will find it
/// anyway.
fn packet_fault(element: &Tlv<'_>) -> Option<Error> {
    use crate::types as t;
    // The checks expect the packet to start at offset 0.
    let mut wire = Vec::with_capacity(element.value.len() + 10);
    nw_name::tlv::push_tlv(element.typ, element.value, &mut wire);
    let error = match element.typ {
        t::INTEREST => Interest::check(&wire).err(),
        t::DATA => Data::check(&wire).err(),
        _ => LpPacket::check(&wire).err(),
    }?;
    let framing =
        matches!(error.fault, Fault::Truncated | Fault::NumberNotMinimal | Fault::TypeRange);
    (!framing).then(|| Error::new(error.fault, element.start + error.offset))
}

/// Returns a value that must be one name component.
fn component<'a>(element: &Tlv<'a>) -> Result<Value<'a>, Error> {
    let name = NameRef::check_with(element.value, element.value_start, |_, _, _| {})?;
    let mut components = name.components();
    match (components.next(), components.next()) {
        (Some(component), None) => Ok(Value::Component(component)),
        _ => Err(Error::new(Fault::FieldLength, element.start)),
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>5}  {:indent$}", self.offset, "", indent = self.depth * 2)?;
        if let Some(typ) = self.typ {
            let name = if self.name.is_empty() { "unknown" } else { self.name };
            write!(f, "{name} ({typ}), {} byte{}", self.len, if self.len == 1 { "" } else { "s" })?;
            if !matches!(self.value, Value::Elements | Value::Empty) {
                f.write_str(": ")?;
            }
        } else if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        self.value.fmt(f)
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Elements | Value::Empty => Ok(()),
            Value::Name(name) => name.fmt(f),
            Value::Component(component) => component.fmt(f),
            Value::Number(number, "") => write!(f, "{number}"),
            Value::Number(number, unit) => write!(f, "{number} {unit}"),
            Value::Word(number, "") => write!(f, "{number}"),
            Value::Word(number, word) => write!(f, "{number} ({word})"),
            Value::Flags(number, flags) => {
                write!(f, "{number:#x}")?;
                flags
                    .iter()
                    .filter(|(bit, _)| number & bit != 0)
                    .try_for_each(|(_, word)| write!(f, " {word}"))
            }
            Value::Text(text, more) => write!(f, "\"{text}\"{}", if more { "…" } else { "" }),
            Value::Bytes(bytes, more) => {
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(if more { "…" } else { "" })
            }
            Value::Fault(fault) => write!(f, "!! {}", fault.as_str()),
            Value::Cut => f.write_str("… (more lines than are shown)"),
        }
    }
}

#[cfg(test)]
mod tests;

//! What an element is made with, as a person writes it: names and values. An element reads them through a [`Reader`], which collects all that is wrong.

use crate::FaceId;
use core::fmt;
use core::ops::RangeInclusive;
use nw_name::{HashKey, Name};
use nw_tables::fib::NextHop;

/// A value as written in a graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Anything in quotes.
    Text(String),
    /// Several.
    List(Vec<Value>),
}

impl Value {
    /// What it is, for people.
    pub const fn kind(&self) -> &'static str {
        match self {
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number:?}"),
            Value::Bool(yes) => write!(f, "{yes}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::List(values) => {
                f.write_str("[")?;
                for (at, value) in values.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    value.fmt(f)?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Names and values, in the order they were written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(pub Vec<(String, Value)>);

impl Parameters {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// One parameter that an element knows, for help and for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// As written.
    pub name: &'static str,
    /// What stands there if nothing is written.
    pub default: &'static str,
    /// What it does, with its unit.
    pub meaning: &'static str,
    /// True when it may be changed while packets flow.
    pub live: bool,
}

/// What is wrong with a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    /// Which one.
    pub name: String,
    /// What was seen, and what was expected.
    pub text: String,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.text)
    }
}

impl core::error::Error for ParameterError {}

/// What a host gives to elements that it makes.
#[derive(Clone, Copy)]
pub struct Making<'a> {
    /// The secret of the name hash: one for all elements of a graph.
    pub key: HashKey,
    /// Makes what is drawn. One for each element.
    pub seed: u64,
    /// What the wall clock showed at [`Instant::START`](crate::Instant::START), milliseconds since 1970; 0 for a host without one.
    pub start_unix_ms: u64,
    /// Faces by their names in the graph.
    pub faces: &'a dyn Fn(&str) -> Option<FaceId>,
}

/// Reads parameters; what is wrong is collected.
pub struct Reader<'a> {
    making: Making<'a>,
    parameters: &'a Parameters,
    errors: Vec<ParameterError>,
}

impl<'a> Reader<'a> {
    /// Complains about names that are not among `known` at once.
    pub fn new(making: Making<'a>, parameters: &'a Parameters, known: &[ParameterInfo]) -> Self {
        let mut reader = Reader { making, parameters, errors: Vec::new() };
        for (name, _) in &parameters.0 {
            if !known.iter().any(|info| info.name == name) {
                let names: Vec<&str> = known.iter().map(|info| info.name).collect();
                let text = match names.is_empty() {
                    true => "not known: this element has no parameters".to_owned(),
                    false => format!("not known; there are {}", names.join(", ")),
                };
                reader.wrong(name, text);
            }
        }
        reader
    }

    /// What the host gives.
    pub const fn making(&self) -> &Making<'a> {
        &self.making
    }

    /// All that is wrong.
    pub fn into_errors(self) -> Vec<ParameterError> {
        self.errors
    }

    /// Notes what is wrong with a parameter.
    pub fn wrong(&mut self, name: &str, text: impl Into<String>) {
        self.errors.push(ParameterError { name: name.to_owned(), text: text.into() });
    }

    /// The value as it was written.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.parameters.get(name)
    }

    /// A whole number within bounds.
    pub fn integer(&mut self, name: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let within = || format!("a whole number from {} to {} is expected", range.start(), range.end());
        match self.value(name) {
            None => default,
            Some(Value::Integer(number)) if u64::try_from(*number).is_ok_and(|n| range.contains(&n)) => {
                *number as u64
            }
            Some(other) => {
                self.wrong(name, format!("{other} is not allowed: {}", within()));
                default
            }
        }
    }

    /// A number within bounds.
    pub fn number(&mut self, name: &str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let seen = match self.value(name) {
            None => return default,
            Some(Value::Integer(number)) => *number as f64,
            Some(Value::Float(number)) => *number,
            Some(_) => f64::NAN,
        };
        if range.contains(&seen) {
            return seen;
        }
        let text = self.value(name).map_or_else(String::new, Value::to_string);
        self.wrong(
            name,
            format!("{text} is not allowed: a number from {} to {} is expected", range.start(), range.end()),
        );
        default
    }

    /// Yes or no.
    pub fn bool(&mut self, name: &str, default: bool) -> bool {
        match self.value(name) {
            None => default,
            Some(Value::Bool(yes)) => *yes,
            Some(other) => {
                self.wrong(name, format!("{other} is not allowed: true or false is expected"));
                default
            }
        }
    }

    /// One of several words; its number.
    pub fn word(&mut self, name: &str, default: usize, words: &[&str]) -> usize {
        match self.value(name) {
            None => default,
            Some(Value::Text(text)) if words.contains(&text.as_str()) => {
                words.iter().position(|word| word == text).unwrap_or(default)
            }
            Some(other) => {
                let text = format!("{other} is not allowed: one of {} is expected", words.join(", "));
                self.wrong(name, text);
                default
            }
        }
    }

    /// A list of texts, or a single one.
    pub fn texts(&mut self, name: &str) -> Vec<&'a str> {
        let mut texts = Vec::new();
        let values = match self.value(name) {
            None => return texts,
            Some(Value::List(values)) => values.as_slice(),
            Some(single) => core::slice::from_ref(single),
        };
        for value in values {
            match value {
                Value::Text(text) => texts.push(text.as_str()),
                other => self.wrong(name, format!("{other} is {}: a text is expected", other.kind())),
            }
        }
        texts
    }

    /// A face by its name in the graph.
    pub fn face(&mut self, name: &str, face: &str) -> Option<FaceId> {
        let found = (self.making.faces)(face);
        if found.is_none() {
            self.wrong(name, format!("no face is called {face:?}: name one that the graph declares"));
        }
        found
    }

    /// A name in URI form.
    pub fn name(&mut self, name: &str, uri: &str) -> Option<Name> {
        match uri.parse::<Name>() {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                self.wrong(name, format!("{uri:?} is no name: {error}"));
                None
            }
        }
    }

    /// Routes: a list of texts like `/a/b north east cost=10`: a prefix, and where it leads, each with a cost (0 if none is written).
    pub fn routes(&mut self, name: &str) -> Vec<(Name, Vec<NextHop>)> {
        let mut routes = Vec::new();
        for text in self.texts(name) {
            let mut words = text.split_whitespace();
            let Some(prefix) = words.next().and_then(|uri| self.name(name, uri)) else {
                self.wrong(name, format!("{text:?} is no route: PREFIX FACE [cost=N] … is expected"));
                continue;
            };
            let mut hops: Vec<NextHop> = Vec::new();
            for word in words {
                match (word.strip_prefix("cost="), hops.last_mut()) {
                    (Some(cost), Some(hop)) => match cost.parse() {
                        Ok(cost) => hop.cost = cost,
                        Err(_) => {
                            self.wrong(name, format!("{cost:?} is no cost: a whole number is expected"))
                        }
                    },
                    (Some(_), None) => {
                        self.wrong(name, format!("{text:?}: a cost stands behind the face it belongs to"));
                    }
                    (None, _) => hops.extend(self.face(name, word).map(|face| NextHop { face, cost: 0 })),
                }
            }
            routes.push((prefix, hops));
        }
        routes
    }
}

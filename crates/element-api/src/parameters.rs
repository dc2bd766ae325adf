//! Parameters of elements: names and values as written in a graph. An element reads them through a
//! [`ParameterReader`], which collects all errors.

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
    /// `true` or `false`.
    Bool(bool),
    /// A quoted text.
    Text(String),
    /// A list of values.
    List(Vec<Value>),
}

impl Value {
    /// Returns what kind of value this is, for messages.
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
    /// Returns a parameter's value. `None` if it is not given.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// A parameter of an element, for help and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// The name in graphs.
    pub name: &'static str,
    /// The value if none is given, as written.
    pub default: &'static str,
    /// What it does, with its unit.
    pub meaning: &'static str,
    /// Whether it can be changed while packets flow.
    pub live: bool,
    /// A former name, still accepted in graphs.
    pub alias: Option<&'static str>,
    /// The output port by which packets leave only if the parameter's value is `"port"`.
    pub gates: Option<&'static str>,
}

impl ParameterInfo {
    /// Returns a parameter that is read once, when the element is made.
    pub const fn fixed(name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        ParameterInfo { name, default, meaning, live: false, alias: None, gates: None }
    }

    /// Returns a parameter that can be changed while packets flow.
    pub const fn live(name: &'static str, default: &'static str, meaning: &'static str) -> Self {
        ParameterInfo { live: true, ..Self::fixed(name, default, meaning) }
    }

    /// Adds a former name.
    #[must_use]
    pub const fn formerly(self, alias: &'static str) -> Self {
        ParameterInfo { alias: Some(alias), ..self }
    }

    /// Makes the parameter open or close an output port.
    #[must_use]
    pub const fn gates(self, port: &'static str) -> Self {
        ParameterInfo { gates: Some(port), ..self }
    }

    /// Returns whether the parameter has this name, or had it formerly.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }

    /// Returns the parameter's value, given by its name or its former name. `None` if it is not
    /// given.
    pub fn value<'p>(&self, parameters: &'p Parameters) -> Option<&'p Value> {
        parameters.get(self.name).or_else(|| parameters.get(self.alias?))
    }
}

/// What is wrong with a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    /// The parameter's name.
    pub name: String,
    /// What was found and what is expected.
    pub text: String,
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.text)
    }
}

impl core::error::Error for ParameterError {}

/// What a host provides to the elements it creates.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// The key of the name hash: the same for all elements of a graph.
    pub key: HashKey,
    /// The seed of the element's random numbers, different for each element.
    pub seed: u64,
    /// The wall clock at [`Timestamp::START`](crate::Timestamp::START), milliseconds since 1970; 0
    /// for a host without one.
    pub start_unix_ms: u64,
    /// Finds a face by its name in the graph.
    pub faces: &'a dyn Fn(&str) -> Option<FaceId>,
}

/// Reads parameters and collects errors.
pub struct ParameterReader<'a> {
    context: BuildContext<'a>,
    parameters: &'a Parameters,
    known: &'a [ParameterInfo],
    errors: Vec<ParameterError>,
}

impl<'a> ParameterReader<'a> {
    /// Creates a reader. Names that are not in `known` are errors.
    pub fn new(
        context: BuildContext<'a>,
        parameters: &'a Parameters,
        known: &'a [ParameterInfo],
    ) -> Self {
        let mut reader = ParameterReader { context, parameters, known, errors: Vec::new() };
        for (name, _) in &parameters.0 {
            if !known.iter().any(|info| info.is_called(name)) {
                let names: Vec<&str> = known.iter().map(|info| info.name).collect();
                let text = match names.is_empty() {
                    true => "not known: this element has no parameters".to_owned(),
                    false => format!("not known; there are {}", names.join(", ")),
                };
                reader.error(name, text);
            }
        }
        for info in known {
            if let Some(alias) = info.alias.filter(|alias| parameters.get(alias).is_some())
                && parameters.get(info.name).is_some()
            {
                reader.error(
                    alias,
                    format!("is the old name of {}: give only the new one", info.name),
                );
            }
        }
        reader
    }

    /// Returns what the host provides.
    pub const fn context(&self) -> &BuildContext<'a> {
        &self.context
    }

    /// Returns all errors.
    pub fn into_errors(self) -> Vec<ParameterError> {
        self.errors
    }

    /// Adds an error about a parameter.
    pub fn error(&mut self, name: &str, text: impl Into<String>) {
        self.errors.push(ParameterError { name: name.to_owned(), text: text.into() });
    }

    /// Returns the value as it was written.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        match self.known.iter().find(|info| info.name == name) {
            Some(info) => info.value(self.parameters),
            None => self.parameters.get(name),
        }
    }

    /// Reads a whole number within `range`; `default` if absent or wrong.
    pub fn integer(&mut self, name: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let within =
            || format!("a whole number from {} to {} is expected", range.start(), range.end());
        match self.value(name) {
            None => default,
            Some(Value::Integer(number))
                if u64::try_from(*number).is_ok_and(|n| range.contains(&n)) =>
            {
                *number as u64
            }
            Some(other) => {
                self.error(name, format!("{other} is not allowed: {}", within()));
                default
            }
        }
    }

    /// Reads a number within `range`; `default` if absent or wrong.
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
        self.error(
            name,
            format!(
                "{text} is not allowed: a number from {} to {} is expected",
                range.start(),
                range.end()
            ),
        );
        default
    }

    /// Reads `true` or `false`; `default` if absent or wrong.
    pub fn bool(&mut self, name: &str, default: bool) -> bool {
        match self.value(name) {
            None => default,
            Some(Value::Bool(yes)) => *yes,
            Some(other) => {
                self.error(name, format!("{other} is not allowed: true or false is expected"));
                default
            }
        }
    }

    /// Reads one of several words. Returns its position in `choices`; `default` if absent or wrong.
    pub fn choice(&mut self, name: &str, default: usize, choices: &[&str]) -> usize {
        match self.value(name) {
            None => default,
            Some(Value::Text(text)) if choices.contains(&text.as_str()) => {
                choices.iter().position(|word| word == text).unwrap_or(default)
            }
            Some(other) => {
                let text =
                    format!("{other} is not allowed: one of {} is expected", choices.join(", "));
                self.error(name, text);
                default
            }
        }
    }

    /// Reads a list of texts; a single text counts as a list of one.
    pub fn strings(&mut self, name: &str) -> Vec<&'a str> {
        let mut texts = Vec::new();
        let values = match self.value(name) {
            None => return texts,
            Some(Value::List(values)) => values.as_slice(),
            Some(single) => core::slice::from_ref(single),
        };
        for value in values {
            match value {
                Value::Text(text) => texts.push(text.as_str()),
                other => {
                    self.error(name, format!("{other} is {}: a text is expected", other.kind()))
                }
            }
        }
        texts
    }

    /// Finds a face by its name in the graph. An unknown name is an error about the parameter
    /// `name`.
    pub fn face(&mut self, name: &str, face: &str) -> Option<FaceId> {
        let found = (self.context.faces)(face);
        if found.is_none() {
            self.error(
                name,
                format!("no face is called {face:?}: name one that the graph declares"),
            );
        }
        found
    }

    /// Parses a name in URI form. A malformed one is an error about the parameter `name`.
    pub fn name(&mut self, name: &str, uri: &str) -> Option<Name> {
        match uri.parse::<Name>() {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                self.error(name, format!("{uri:?}: {error}"));
                None
            }
        }
    }

    /// Reads routes: a list of texts like `/a/b north east cost=10`, a prefix and its next hops,
    /// each with a cost (0 if not given).
    pub fn routes(&mut self, name: &str) -> Vec<(Name, Vec<NextHop>)> {
        let mut routes = Vec::new();
        for text in self.strings(name) {
            let mut words = text.split_whitespace();
            let Some(prefix) = words.next().and_then(|uri| self.name(name, uri)) else {
                self.error(
                    name,
                    format!("{text:?} is not a route: PREFIX FACE [cost=N] … is expected"),
                );
                continue;
            };
            let mut hops: Vec<NextHop> = Vec::new();
            for word in words {
                match (word.strip_prefix("cost="), hops.last_mut()) {
                    (Some(cost), Some(hop)) => match cost.parse() {
                        Ok(cost) => hop.cost = cost,
                        Err(_) => self.error(
                            name,
                            format!("{cost:?} is not a cost: a whole number is expected"),
                        ),
                    },
                    (Some(_), None) => {
                        self.error(
                            name,
                            format!("{text:?}: a cost must follow the face it belongs to"),
                        );
                    }
                    (None, _) => {
                        hops.extend(self.face(name, word).map(|face| NextHop { face, cost: 0 }))
                    }
                }
            }
            routes.push((prefix, hops));
        }
        routes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[ParameterInfo] =
        &[ParameterInfo::live("on_exceed", "drop", "what happens").formerly("over")];

    fn read(given: &[(&str, &str)]) -> (usize, Vec<ParameterError>) {
        let faces = |_: &str| None;
        let context = BuildContext {
            key: HashKey::new([1, 2, 3, 4]),
            seed: 0,
            start_unix_ms: 0,
            faces: &faces,
        };
        let given = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::Text((*value).to_owned())));
        let parameters = Parameters(given.collect());
        let mut reader = ParameterReader::new(context, &parameters, KNOWN);
        (reader.choice("on_exceed", 0, &["drop", "nack"]), reader.into_errors())
    }

    #[test]
    fn former_name_of_a_parameter_is_accepted_but_not_both() {
        assert_eq!(read(&[("on_exceed", "nack")]), (1, Vec::new()));
        assert_eq!(read(&[("over", "nack")]), (1, Vec::new()));
        assert_eq!(read(&[]), (0, Vec::new()));
        assert_eq!(read(&[("over", "nack"), ("on_exceed", "drop")]).1[0].name, "over");
        assert_eq!(read(&[("overs", "nack")]).1[0].name, "overs");
    }
}

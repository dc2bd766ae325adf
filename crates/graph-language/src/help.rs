//! Help for elements, built from the catalogue: ports, parameters, and the contract comment that
//! opens each element's source file.

use crate::suggest::suggest;
use nw_element_api::PortInfo;
use nw_elements::catalogue::{self, Entry};
use serde::Serialize;
use std::fmt::Write;

/// Returns all elements, one line each: name and summary.
pub fn list() -> String {
    let width = catalogue::ENTRIES.iter().map(|entry| entry.name.len()).max().unwrap_or(0);
    let lines = catalogue::ENTRIES
        .iter()
        .map(|entry| format!("{:width$}  {}\n", entry.name, entry.contract().0));
    lines.collect()
}

/// Returns the catalogue entry of an element.
///
/// # Errors
/// If there is no such element; the message suggests a similar name.
pub fn find(name: &str) -> Result<&'static Entry, String> {
    catalogue::find(name).ok_or_else(|| {
        let near = suggest(name, catalogue::ENTRIES.iter().map(|entry| entry.name));
        let advice = near.map_or(String::new(), |near| format!(" did you mean `{near}`?"));
        format!("no element is called `{name}`:{advice} `nw graph help` lists all there are")
    })
}

/// Help for one element, serialized for programs.
#[derive(Clone, Debug, Serialize)]
pub struct ElementHelp {
    name: &'static str,
    does: String,
    ins: Vec<PortHelp>,
    outs: Vec<PortHelp>,
    parameters: Vec<ParameterHelp>,
    claims_replies: bool,
    guards_loops: bool,
    contract: String,
}

/// A port in [`ElementHelp`].
#[derive(Clone, Debug, Serialize)]
pub struct PortHelp {
    name: &'static str,
    kinds: Vec<&'static str>,
}

/// A parameter in [`ElementHelp`].
#[derive(Clone, Debug, Serialize)]
pub struct ParameterHelp {
    name: &'static str,
    default: String,
    meaning: &'static str,
    live: bool,
}

/// Returns the help for one element in serializable form.
pub fn element(entry: &Entry) -> ElementHelp {
    let kinds =
        |port: &PortInfo| port.kinds.iter().map(|kind| crate::check::kind_name(*kind)).collect();
    let ports = |ports: &'static [PortInfo]| {
        ports.iter().map(|port| PortHelp { name: port.name, kinds: kinds(port) }).collect()
    };
    let parameter = |info: &nw_element_api::parameters::ParameterInfo| ParameterHelp {
        name: info.name,
        default: default(info.default),
        meaning: info.meaning,
        live: info.live,
    };
    let (does, contract) = entry.contract();
    ElementHelp {
        name: entry.name,
        does,
        ins: ports(entry.ins),
        outs: ports(entry.outs),
        parameters: entry.parameters.iter().map(parameter).collect(),
        claims_replies: entry.tracks_pending,
        guards_loops: entry.detects_loops,
        contract: plain(&contract),
    }
}

/// Returns the help for all elements in serializable form.
pub fn elements() -> impl Iterator<Item = ElementHelp> {
    catalogue::ENTRIES.iter().map(element)
}

/// Returns the help for one element as text.
pub fn of(entry: &Entry) -> String {
    let (sentence, contract) = entry.contract();
    let mut text = format!("{}\n{sentence}\n", entry.name);
    // A string takes all that is written.
    let _ = ports(&mut text, "In", entry.ins);
    let _ = ports(&mut text, "Out", entry.outs);
    let _ = parameters(&mut text, entry);
    let _ = marks(&mut text, entry);
    let _ = write!(text, "\nContract\n\n{}\n", plain(&contract));
    text
}

fn ports(text: &mut String, side: &str, ports: &[PortInfo]) -> std::fmt::Result {
    writeln!(text, "\n{side}")?;
    if ports.is_empty() {
        writeln!(text, "  nothing")?;
    }
    let width = ports.iter().map(|port| port.name.len()).max().unwrap_or(0);
    for port in ports {
        let kinds: Vec<&str> =
            port.kinds.iter().map(|kind| crate::check::kind_name(*kind)).collect();
        writeln!(text, "  {:width$}  {}", port.name, kinds.join(", "))?;
    }
    Ok(())
}

fn parameters(text: &mut String, entry: &Entry) -> std::fmt::Result {
    writeln!(text, "\nParameters")?;
    if entry.parameters.is_empty() {
        writeln!(text, "  none")?;
    }
    let named = |info: &nw_element_api::parameters::ParameterInfo| {
        format!("{} = {}", info.name, default(info.default))
    };
    let width = entry.parameters.iter().map(|info| named(info).chars().count()).max().unwrap_or(0);
    for info in entry.parameters {
        let live = if info.live { " (live: may change while it runs)" } else { "" };
        writeln!(text, "  {:width$}  {}{live}", named(info), info.meaning)?;
    }
    Ok(())
}

/// Returns a default value as written in a graph file: words are quoted.
fn default(written: &str) -> String {
    let is_word = written.starts_with(|c: char| c.is_ascii_alphabetic())
        && !["true", "false"].contains(&written);
    if is_word { format!("\"{written}\"") } else { written.to_owned() }
}

fn marks(text: &mut String, entry: &Entry) -> std::fmt::Result {
    if entry.tracks_pending {
        writeln!(
            text,
            "\nIt remembers Interests that leave: what answers them must be led back to it."
        )?;
    }
    if entry.detects_loops {
        writeln!(
            text,
            "{}It ends what comes a second time: a graph may lead in a circle through it.",
            match entry.tracks_pending {
                true => "",
                false => "\n",
            }
        )?;
    }
    Ok(())
}

/// Returns the contract without its code fences.
fn plain(contract: &str) -> String {
    let lines = contract.lines().filter(|line| !line.starts_with("```"));
    lines.map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_every_element_listed_with_contract_ports_and_parameters() {
        let list = list();
        for entry in catalogue::ENTRIES {
            assert!(list.contains(entry.name));
            let text = of(entry);
            assert!(text.contains(&entry.contract().0), "{text}");
            for port in entry.ins.iter().chain(entry.outs) {
                assert!(text.contains(port.name), "{text}");
            }
            for info in entry.parameters {
                assert!(text.contains(info.meaning), "{text}");
            }
            assert!(text.contains("State:") && text.contains("Drops:"), "{text}");
        }
    }
}

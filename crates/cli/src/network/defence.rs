//! `nw network defence`: defences, their states, and what they have put into the network.

use crate::observe::http::{self, ControlAddress, Method};
use crate::output;
use anyhow::Result;
use nw_api::network::NetworkDefence;

/// Lists the defences, or those of one element.
pub fn list(address: &ControlAddress, element: Option<&str>, is_json: bool) -> Result<()> {
    let mut defences = read(address)?;
    if let Some(element) = element {
        defences.retain(|defence| defence.element == element);
        if defences.is_empty() {
            let reason = format!("no defence of the document watches {element}");
            return Err(crate::exit::not_found(reason));
        }
    }
    if is_json {
        return output::json_line(&defences);
    }
    if defences.is_empty() {
        return Ok(outln!("no defence: add a line such as `defend poisoning` to the document")?);
    }
    table(&defences)
}

/// Returns all defences.
pub fn read(address: &ControlAddress) -> Result<Vec<NetworkDefence>> {
    http::request_json(address, Method::Get, "/v1/countermeasures", None)
}

/// Prints defences, and below them what is in effect.
pub fn table(defences: &[NetworkDefence]) -> Result<()> {
    let mut rows = vec![output::row([&"defence", &"watches", &"state", &"why"])];
    rows.extend(defences.iter().map(|defence| {
        let state = match (defence.vetoed, defence.learning, defence.state.as_str()) {
            (true, ..) => "forbidden by a person",
            (false, true, "normal") => "learning",
            (false, _, state) => state,
        };
        let reason = defence.reason.as_deref().unwrap_or_default();
        output::row([&defence.attack, &defence.element, &state, &reason])
    }));
    output::table(&rows)?;
    let made = defences.iter().flat_map(|defence| &defence.countermeasures);
    let mut rows = vec![output::row([&"countermeasure", &"at", &"effect"])];
    rows.extend(made.map(|made| output::row([&made.name, &made.at, &made.effect])));
    if rows.len() > 1 { output::table(&rows) } else { Ok(()) }
}

//! Names and replies of the management protocol.

use nw_api::management::{ControlResponse, Verb};
use nw_name::{Component, Name, NameRef};

/// Longest text of a reply, in bytes.
const TEXT_LEN_MAX: usize = 1024;

/// Cuts the text of a reply to [`TEXT_LEN_MAX`] bytes: texts quote the request, which may be as
/// long as a packet.
pub(crate) fn bounded(mut response: ControlResponse) -> ControlResponse {
    if response.text.len() > TEXT_LEN_MAX {
        let end = response.text.floor_char_boundary(TEXT_LEN_MAX);
        response.text.truncate(end);
        response.text.push_str(" …");
    }
    response
}

/// Converts a reply to the management protocol: removing something answers "always 200", also if it
/// did not exist. The text then says so.
pub(crate) fn to_protocol_response(verb: Verb, response: ControlResponse) -> ControlResponse {
    match verb {
        Verb::FacesDestroy
        | Verb::RibUnregister
        | Verb::FibRemoveNextHop
        | Verb::StrategyChoiceUnset
            if response.code == 404 =>
        {
            response.into_nothing_removed()
        }
        _ => response,
    }
}

pub(crate) const LOCALHOST: &str = "/localhost";
pub(crate) const LOCALHOST_NFD: &str = "/localhost/nfd";
pub(crate) const LOCALHOP_NFD: &str = "/localhop/nfd";

pub(crate) fn constant_name(uri: &str) -> Name {
    uri.parse().expect("a constant name")
}

/// Returns whether a name belongs to management itself. Routes for it are refused.
pub(crate) fn is_reserved(name: NameRef<'_>) -> bool {
    const RESERVED: [[&[u8]; 2]; 2] = [[b"localhost", b"nfd"], [b"localhop", b"nfd"]];
    let mut components = name.components();
    let first = [components.next(), components.next()];
    RESERVED.iter().any(|name| {
        name.iter()
            .zip(&first)
            .all(|(part, component)| *component == Some(Component::generic(part)))
    })
}

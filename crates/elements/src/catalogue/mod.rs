//! Every element by its name: ports, parameters, contract, and how it is made from what a person wrote. For hosts that learn at run time what they run.
//!
//! An element gets here by two things: `impl Configured` (in a file beside this one), and a line in [`ENTRIES`].

mod chain;
mod guards;
mod plain;
mod standard;
mod verifier;

use crate::{
    BackwardRouter, ContentStore, Counter, NameFilter, NameRouter, PacketDispatcher, RateLimiter, Router,
    SignatureVerifier, Sink, StrategyForwarder, Tee,
};
use nw_element_api::parameters::{Making, ParameterError, ParameterInfo, Parameters, Reader};
use nw_element_api::{AnyElement, Context, Element, Erased, Instant, Lent, Port, PortInfo};
use std::any::Any;

/// An element that can be made from parameters.
pub trait Configured: Element + Send + Sized + 'static {
    /// All it knows.
    const PARAMETERS: &'static [ParameterInfo];

    /// A new one. What is wrong is noted in `reader`, and a default taken in its place; what may be changed later is read by [`apply`](Self::apply).
    fn make(reader: &mut Reader<'_>) -> Self;

    /// Reads what may be changed while packets flow (`live`), and makes it so: all of it, or what `reader` does not complain about. Called after
    /// [`make`](Self::make), and with each change.
    fn apply(&mut self, now: Instant, reader: &mut Reader<'_>, context: &mut Context<'_, Self::Out>) {
        let _ = (now, reader, context);
    }
}

/// One element of the catalogue.
#[derive(Clone, Copy)]
pub struct Entry {
    /// In graphs and commands.
    pub name: &'static str,
    /// Where packets enter.
    pub ins: &'static [PortInfo],
    /// Where packets leave.
    pub outs: &'static [PortInfo],
    /// What it can be told.
    pub parameters: &'static [ParameterInfo],
    /// [`Element::CLAIMS_REPLIES`].
    pub claims_replies: bool,
    /// [`Element::GUARDS_LOOPS`].
    pub guards_loops: bool,
    /// [`Element::leads`], by number.
    pub leads: fn(u8) -> Vec<u8>,
    /// [`Element::usual`], by number.
    pub usual: fn(u8) -> Option<u8>,
    source: &'static str,
    make: Make,
    apply: Apply,
}

type Make = fn(&Making<'_>, &Parameters) -> Result<Box<dyn AnyElement>, Vec<ParameterError>>;
type Apply = fn(
    &mut dyn AnyElement,
    Instant,
    &Making<'_>,
    &Parameters,
    &mut Lent<'_>,
) -> Result<(), Vec<ParameterError>>;

/// Every element, in the order of their names.
pub const ENTRIES: &[Entry] = &[
    entry::<BackwardRouter>("backward_router", include_str!("../backward_router.rs")),
    entry::<ContentStore>("content_store", include_str!("../content_store.rs")),
    entry::<Counter>("counter", include_str!("../counter.rs")),
    entry::<NameFilter>("name_filter", include_str!("../name_filter/mod.rs")),
    entry::<NameRouter>("name_router", include_str!("../name_router.rs")),
    entry::<PacketDispatcher>("packet_dispatcher", include_str!("../packet_dispatcher.rs")),
    entry::<RateLimiter>("rate_limiter", include_str!("../rate_limiter/mod.rs")),
    entry::<Router>("router", include_str!("../router/mod.rs")),
    entry::<SignatureVerifier>("signature_verifier", include_str!("../signature_verifier/mod.rs")),
    entry::<Sink>("sink", include_str!("../sink.rs")),
    entry::<StrategyForwarder>("strategy_forwarder", include_str!("../strategy_forwarder.rs")),
    entry::<Tee>("tee", include_str!("../tee.rs")),
];

/// The element of a name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// Makes one; nothing of it has seen a packet. [`apply`](Self::apply) is to follow.
    ///
    /// # Errors
    /// All that is wrong with the parameters.
    pub fn make(
        &self,
        making: &Making<'_>,
        parameters: &Parameters,
    ) -> Result<Box<dyn AnyElement>, Vec<ParameterError>> {
        (self.make)(making, parameters)
    }

    /// Gives an element of this entry the parameters that may be changed while packets flow.
    ///
    /// # Errors
    /// All that is wrong with them; what is not, is in effect.
    ///
    /// # Panics
    /// When the element is none of this entry.
    pub fn apply(
        &self,
        element: &mut dyn AnyElement,
        now: Instant,
        making: &Making<'_>,
        parameters: &Parameters,
        lent: &mut Lent<'_>,
    ) -> Result<(), Vec<ParameterError>> {
        (self.apply)(element, now, making, parameters, lent)
    }

    /// The contract that its file opens with: the sentence that says what it does, then all else, as written.
    pub fn contract(&self) -> (String, String) {
        let docs = self.source.lines().map_while(|line| line.strip_prefix("//!"));
        let text: Vec<&str> = docs.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let first = text.first().copied().unwrap_or_default().to_owned();
        (first, text.get(1..).unwrap_or_default().join("\n").trim().to_owned())
    }
}

/// A parameter that is read once.
const fn fixed(name: &'static str, default: &'static str, meaning: &'static str) -> ParameterInfo {
    ParameterInfo { name, default, meaning, live: false }
}

/// A parameter that may be changed while packets flow.
const fn live(name: &'static str, default: &'static str, meaning: &'static str) -> ParameterInfo {
    ParameterInfo { live: true, ..fixed(name, default, meaning) }
}

/// Exactly one of an element's ports, by its name.
pub fn port(ports: &[PortInfo], name: &str) -> Option<u8> {
    ports.iter().position(|port| port.name == name).map(|at| at as u8)
}

const fn entry<E: Configured>(name: &'static str, source: &'static str) -> Entry {
    Entry {
        name,
        ins: Erased::<E>::INS,
        outs: Erased::<E>::OUTS,
        parameters: E::PARAMETERS,
        claims_replies: E::CLAIMS_REPLIES,
        guards_loops: E::GUARDS_LOOPS,
        leads: |port| E::leads(E::In::ALL[usize::from(port)]).iter().map(|out| out.index() as u8).collect(),
        usual: |port| E::usual(E::In::ALL[usize::from(port)]).map(|out| out.index() as u8),
        source,
        make: |making, parameters| {
            let mut reader = Reader::new(*making, parameters, E::PARAMETERS);
            let element = E::make(&mut reader);
            match reader.into_errors() {
                errors if errors.is_empty() => Ok(Box::new(Erased::new(element))),
                errors => Err(errors),
            }
        },
        apply: |element, now, making, parameters, lent| {
            let element: &mut dyn Any = element;
            let element = element.downcast_mut::<Erased<E>>().expect("an element of this entry");
            let mut reader = Reader::new(*making, parameters, E::PARAMETERS);
            element.with(lent, |element, context| element.apply(now, &mut reader, context));
            match reader.into_errors() {
                errors if errors.is_empty() => Ok(()),
                errors => Err(errors),
            }
        },
    }
}

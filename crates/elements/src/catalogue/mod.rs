//! Every element by its name: ports, parameters, contract, and its creation from parameters. For
//! hosts that learn at run time which elements they run.
//!
//! To add an element: `impl Configured` in a file of this folder, and a line in [`ENTRIES`].

mod chain;
mod guards;
mod lipsin;
mod plain;
mod standard;
mod verifier;

use crate::{
    BackwardRouter, ContentStore, Counter, LipsinForwarder, NameFilter, NameRouter,
    PacketDispatcher, RateLimiter, Router, SignatureVerifier, Sink, StrategyForwarder, Tee,
};
use nw_element_api::parameters::{
    BuildContext, ParameterError, ParameterInfo, ParameterReader, Parameters,
};
use nw_element_api::{
    AnyElement, Context, Element, Erased, ErasedContext, Port, PortInfo, Timestamp, Value,
};
use std::any::Any;

/// An element that can be created from parameters.
pub trait Configured: Element + Send + Sized + 'static {
    /// All its parameters.
    const PARAMETERS: &'static [ParameterInfo];

    /// Creates the element. Errors are added to `reader` and defaults used instead; live parameters
    /// are read by [`apply`](Self::apply).
    fn make(reader: &mut ParameterReader<'_>) -> Self;

    /// Reads the live parameters and puts them into effect, except those with errors. Called after
    /// [`make`](Self::make) and at each change.
    fn apply(
        &mut self,
        now: Timestamp,
        reader: &mut ParameterReader<'_>,
        context: &mut Context<'_, Self::Out>,
    ) {
        let _ = (now, reader, context);
    }
}

/// One element of the catalogue.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Name in graphs and commands.
    pub name: &'static str,
    /// Input ports.
    pub ins: &'static [PortInfo],
    /// Output ports.
    pub outs: &'static [PortInfo],
    /// Parameters.
    pub parameters: &'static [ParameterInfo],
    /// [`Element::TRACKS_PENDING`].
    pub tracks_pending: bool,
    /// [`Element::CHOOSES_EGRESS`].
    pub chooses_egress: bool,
    /// [`Element::DETECTS_LOOPS`].
    pub detects_loops: bool,
    /// [`Element::outputs_for`], by port number.
    pub outputs_for: fn(u8) -> Vec<u8>,
    /// [`Element::main_output`], by port number.
    pub main_output: fn(u8) -> Option<u8>,
    source: &'static str,
    make: Make,
    apply: Apply,
}

type Make = fn(&BuildContext<'_>, &Parameters) -> Result<Box<dyn AnyElement>, Vec<ParameterError>>;
type Apply = fn(
    &mut dyn AnyElement,
    Timestamp,
    &BuildContext<'_>,
    &Parameters,
    &mut ErasedContext<'_>,
) -> Result<(), Vec<ParameterError>>;

/// Every element, sorted by name.
pub const ENTRIES: &[Entry] = &[
    entry::<BackwardRouter>("backward_router", include_str!("../backward_router.rs")),
    entry::<ContentStore>("content_store", include_str!("../content_store.rs")),
    entry::<Counter>("counter", include_str!("../counter.rs")),
    entry::<LipsinForwarder>("lipsin_forwarder", include_str!("../lipsin_forwarder/mod.rs")),
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

/// Returns the element of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// Creates an element. [`apply`](Self::apply) must follow before its first packet.
    ///
    /// # Errors
    /// All errors in the parameters.
    pub fn make(
        &self,
        context: &BuildContext<'_>,
        parameters: &Parameters,
    ) -> Result<Box<dyn AnyElement>, Vec<ParameterError>> {
        (self.make)(context, parameters)
    }

    /// Puts the live parameters of an element into effect.
    ///
    /// # Errors
    /// All errors in the parameters; those without errors are in effect.
    ///
    /// # Panics
    /// When the element is not of this entry.
    pub fn apply(
        &self,
        element: &mut dyn AnyElement,
        now: Timestamp,
        context: &BuildContext<'_>,
        parameters: &Parameters,
        erased: &mut ErasedContext<'_>,
    ) -> Result<(), Vec<ParameterError>> {
        (self.apply)(element, now, context, parameters, erased)
    }

    /// Returns the parameter that opens or closes an output port. `None` if the port is always
    /// open.
    pub fn gate_of(&self, port: u8) -> Option<&'static ParameterInfo> {
        let name = self.outs.get(usize::from(port))?.name;
        self.parameters.iter().find(|info| info.gates == Some(name))
    }

    /// Returns whether no packet leaves by an output port with these parameters.
    pub fn is_closed(&self, port: u8, parameters: &Parameters) -> bool {
        let Some(info) = self.gate_of(port) else { return false };
        match info.value(parameters) {
            Some(Value::Text(text)) => text != "port",
            Some(_) => false,
            None => info.default != "port",
        }
    }

    /// Returns the contract that opens the element's file: its first paragraph as one line, then
    /// the rest as written.
    pub fn contract(&self) -> (String, String) {
        let docs = self.source.lines().map_while(|line| line.strip_prefix("//!"));
        let text: Vec<&str> = docs.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let end = text.iter().position(|line| line.is_empty()).unwrap_or(text.len());
        (text[..end].join(" "), text[end..].join("\n").trim().to_owned())
    }
}

/// Returns the number of the port with this name or former name.
pub fn port(ports: &[PortInfo], name: &str) -> Option<u8> {
    ports.iter().position(|port| port.is_called(name)).map(|at| at as u8)
}

/// Returns the catalogue entry of an element type.
const fn entry<E: Configured>(name: &'static str, source: &'static str) -> Entry {
    Entry {
        name,
        ins: Erased::<E>::INS,
        outs: Erased::<E>::OUTS,
        parameters: E::PARAMETERS,
        tracks_pending: E::TRACKS_PENDING,
        chooses_egress: E::CHOOSES_EGRESS,
        detects_loops: E::DETECTS_LOOPS,
        outputs_for: |port| {
            E::outputs_for(E::In::ALL[usize::from(port)])
                .iter()
                .map(|out| out.index() as u8)
                .collect()
        },
        main_output: |port| {
            E::main_output(E::In::ALL[usize::from(port)]).map(|out| out.index() as u8)
        },
        source,
        make: |build, parameters| {
            let mut reader = ParameterReader::new(*build, parameters, E::PARAMETERS);
            let element = E::make(&mut reader);
            match reader.into_errors() {
                errors if errors.is_empty() => Ok(Box::new(Erased::new(element))),
                errors => Err(errors),
            }
        },
        apply: |element, now, build, parameters, erased| {
            let element: &mut dyn Any = element;
            let element = element.downcast_mut::<Erased<E>>().expect("an element of this entry");
            let mut reader = ParameterReader::new(*build, parameters, E::PARAMETERS);
            element.with(erased, |element, context| element.apply(now, &mut reader, context));
            match reader.into_errors() {
                errors if errors.is_empty() => Ok(()),
                errors => Err(errors),
            }
        },
    }
}

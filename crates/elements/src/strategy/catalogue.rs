//! The contract of a forwarding strategy, and the macro that lists all of them.

use super::{Parameters, StrategyContext, StrategyError};

/// A forwarding strategy: a plain value with its parameters.
///
/// It is called for events of one pending Interest and leaves its decisions in the context.
/// Constants without a default must be stated by every strategy: they change what the router does.
pub trait ForwardingStrategy: Sized {
    /// The name component after `/localhost/nfd/strategy/`.
    const NAME: &'static str;

    /// The only version there is.
    const VERSION: u64;

    /// Names of the parameters.
    const PARAMETERS: &'static [&'static str];

    /// Whether a new pending Interest is always sent to the cheapest eligible next hop and nothing
    /// else happens. The router then skips [`after_interest`](Self::after_interest) for it.
    const SENDS_NEW_TO_CHEAPEST: bool = false;

    /// Whether [`after_nack`](Self::after_nack) may use another next hop. If not, it is shown none.
    const RETRIES_AFTER_NACK: bool;

    /// Whether a looping Interest is answered by Nack(Duplicate).
    const NACKS_LOOPS: bool;

    /// Whether pending Interests are sent to a next hop that is added while they are pending.
    const FOLLOWS_NEW_NEXT_HOPS: bool;

    /// Whether the strategy works only in a router with a PIT, because it sends or answers
    /// Interests on its own timer or for several downstreams. If not, `strategy_forwarder` offers
    /// it too.
    const NEEDS_PIT: bool;

    /// Makes an instance.
    ///
    /// # Errors
    /// When a value is out of range.
    fn from_parameters(given: &Parameters<'_>) -> Result<Self, StrategyError>;

    /// Handles an Interest that the content store did not answer, that is no loop, and that is in
    /// the PIT: new, or received again.
    fn after_interest(&self, context: &mut StrategyContext<'_>);

    /// Handles Data for a pending Interest, if the strategy requested it by
    /// [`StrategyContext::request_data_event`]. The router sends the Data to all downstreams
    /// itself.
    fn after_data(&self, context: &mut StrategyContext<'_>) {
        let _ = context;
    }

    /// Handles a Nack from a next hop; the out-record already holds it.
    fn after_nack(&self, context: &mut StrategyContext<'_>);

    /// Handles the timer set by [`StrategyContext::set_timer`]; the Interest is still pending.
    fn on_timer(&self, context: &mut StrategyContext<'_>) {
        let _ = context;
    }
}

/// One strategy of the catalogue.
#[derive(Debug)]
pub struct StrategyInfo {
    /// [`ForwardingStrategy::NAME`].
    pub name: &'static str,
    /// [`ForwardingStrategy::VERSION`].
    pub version: u64,
    /// [`ForwardingStrategy::PARAMETERS`].
    pub parameters: &'static [&'static str],
    pub(super) from_parameters: fn(&Parameters<'_>) -> Result<super::Strategy, StrategyError>,
}

/// Declares the enum [`Strategy`](super::Strategy) over types that implement
/// [`ForwardingStrategy`], with one `match` per method: no call goes through a pointer.
macro_rules! strategies {
    ($($(#[doc = $doc:literal])+ $strategy:ident,)+) => {
        /// A strategy of any type, with its parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Strategy { $($(#[doc = $doc])+ $strategy($strategy),)+ }

        impl Strategy {
            /// Every strategy. The first six are NFD's, with its versions.
            pub const ALL: &'static [StrategyInfo] = &[$(StrategyInfo {
                name: <$strategy as ForwardingStrategy>::NAME,
                version: <$strategy as ForwardingStrategy>::VERSION,
                parameters: <$strategy as ForwardingStrategy>::PARAMETERS,
                from_parameters: |given| {
                    Ok(Strategy::$strategy(<$strategy as ForwardingStrategy>::from_parameters(given)?))
                },
            },)+];

            /// Calls [`ForwardingStrategy::after_interest`].
            #[inline]
            pub fn after_interest(&self, context: &mut StrategyContext<'_>) {
                match self { $(Strategy::$strategy(strategy) => strategy.after_interest(context),)+ }
            }

            /// Calls [`ForwardingStrategy::after_data`].
            pub fn after_data(&self, context: &mut StrategyContext<'_>) {
                match self { $(Strategy::$strategy(strategy) => strategy.after_data(context),)+ }
            }

            /// Calls [`ForwardingStrategy::after_nack`].
            pub fn after_nack(&self, context: &mut StrategyContext<'_>) {
                match self { $(Strategy::$strategy(strategy) => strategy.after_nack(context),)+ }
            }

            /// Calls [`ForwardingStrategy::on_timer`].
            pub fn on_timer(&self, context: &mut StrategyContext<'_>) {
                match self { $(Strategy::$strategy(strategy) => strategy.on_timer(context),)+ }
            }

            /// Returns [`ForwardingStrategy::SENDS_NEW_TO_CHEAPEST`].
            #[inline]
            pub const fn sends_new_to_cheapest(&self) -> bool {
                match self { $(Strategy::$strategy(_) => $strategy::SENDS_NEW_TO_CHEAPEST,)+ }
            }

            /// Returns [`ForwardingStrategy::RETRIES_AFTER_NACK`].
            pub const fn retries_after_nack(&self) -> bool {
                match self { $(Strategy::$strategy(_) => $strategy::RETRIES_AFTER_NACK,)+ }
            }

            /// Returns [`ForwardingStrategy::NACKS_LOOPS`].
            pub const fn nacks_loops(&self) -> bool {
                match self { $(Strategy::$strategy(_) => $strategy::NACKS_LOOPS,)+ }
            }

            /// Returns [`ForwardingStrategy::FOLLOWS_NEW_NEXT_HOPS`].
            pub const fn follows_new_next_hops(&self) -> bool {
                match self { $(Strategy::$strategy(_) => $strategy::FOLLOWS_NEW_NEXT_HOPS,)+ }
            }

            /// Returns [`ForwardingStrategy::NEEDS_PIT`].
            pub const fn needs_pit(&self) -> bool {
                match self { $(Strategy::$strategy(_) => $strategy::NEEDS_PIT,)+ }
            }
        }
    };
}
pub(super) use strategies;

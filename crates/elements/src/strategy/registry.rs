//! The strategy instances in use, by the small number stored in FIB entries.

use super::{Strategy, StrategyError, StrategyId, StrategyState};
use nw_name::{Name, NameRef};
use nw_tables::fib::Fib;

/// Most instances at one time.
const INSTANCES_MAX: usize = 256;

/// Every instance in use: a strategy with its parameters. Number 0 is best-route.
#[derive(Debug)]
pub struct Strategies {
    instances: Vec<Option<(Name, Strategy)>>,
    /// By number: [`Strategy::sends_new_to_cheapest`], so that the fast path reads one byte.
    to_cheapest: [bool; INSTANCES_MAX],
}

impl Default for Strategies {
    /// Creates the registry with best-route as number 0: [`DEFAULT`](Self::DEFAULT).
    fn default() -> Self {
        let default =
            "/localhost/nfd/strategy/best-route".parse::<Name>().expect("a constant name");
        let (strategy, name) = Strategy::parse(default.as_ref()).expect("a strategy");
        let to_cheapest = [strategy.sends_new_to_cheapest(); INSTANCES_MAX];
        Strategies { instances: vec![Some((name, strategy))], to_cheapest }
    }
}

impl Strategies {
    /// The strategy of prefixes for which none was chosen.
    pub const DEFAULT: StrategyId = StrategyId(0);

    /// Returns the number of a strategy name, and whether the instance is new.
    ///
    /// `in_use` returns which numbers FIB entries still refer to. It is called only when all
    /// numbers are taken.
    ///
    /// # Errors
    /// When the name selects no strategy, or all 256 instances are in use.
    pub fn resolve(
        &mut self,
        name: NameRef<'_>,
        in_use: impl FnOnce() -> [bool; INSTANCES_MAX],
    ) -> Result<(StrategyId, bool), StrategyError> {
        let (strategy, listed) = Strategy::parse(name)?;
        if let Some(at) = self
            .instances
            .iter()
            .position(|known| known.as_ref().is_some_and(|(name, _)| *name == listed))
        {
            return Ok((StrategyId(at as u8), false));
        }
        let at = match self.instances.iter().position(Option::is_none) {
            Some(free) => free,
            None if self.instances.len() < INSTANCES_MAX => {
                self.instances.push(None);
                self.instances.len() - 1
            }
            None => self.release_unused(&in_use()).ok_or(StrategyError::TooMany)?,
        };
        self.to_cheapest[at] = strategy.sends_new_to_cheapest();
        self.instances[at] = Some((listed, strategy));
        Ok((StrategyId(at as u8), true))
    }

    /// As [`resolve`](Self::resolve), for a FIB. Measurements stored under a reused number are
    /// removed.
    ///
    /// # Errors
    /// When the name selects no strategy, or all 256 instances are in use.
    pub fn resolve_for(
        &mut self,
        name: NameRef<'_>,
        fib: &Fib,
        state: &mut StrategyState,
    ) -> Result<StrategyId, StrategyError> {
        let (id, is_new) = self.resolve(name, || fib.strategies_in_use())?;
        if is_new {
            state.measurements.expire_owner(id);
        }
        Ok(id)
    }

    /// Releases all numbers not in use. Returns a free one.
    fn release_unused(&mut self, in_use: &[bool; INSTANCES_MAX]) -> Option<usize> {
        for (at, instance) in self.instances.iter_mut().enumerate().skip(1) {
            if !in_use[at] {
                *instance = None;
                self.to_cheapest[at] = self.to_cheapest[0];
            }
        }
        self.instances.iter().position(Option::is_none)
    }

    /// Returns the strategy of a number; the default strategy if there is none.
    #[inline]
    pub fn strategy(&self, id: StrategyId) -> &Strategy {
        match self.instances.get(usize::from(id.0)) {
            Some(Some((_, strategy))) => strategy,
            _ => self.default_strategy(),
        }
    }

    /// Returns [`Strategy::sends_new_to_cheapest`] of a number's strategy.
    #[inline(always)]
    pub const fn sends_new_to_cheapest(&self, id: StrategyId) -> bool {
        self.to_cheapest[id.0 as usize]
    }

    fn default_strategy(&self) -> &Strategy {
        let (_, strategy) = self.instances[0].as_ref().expect("number 0 is never released");
        strategy
    }

    /// Returns the name of a number's strategy, with version and parameters.
    pub fn name(&self, id: StrategyId) -> Option<NameRef<'_>> {
        let (name, _) = self.instances.get(usize::from(id.0))?.as_ref()?;
        Some(name.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Name {
        format!("/localhost/nfd/strategy/multicast/v=5/retx-suppression-max~{}", 500 + number)
            .parse()
            .unwrap()
    }

    /// The table agrees with the instances for every number, in use or not.
    fn check_to_cheapest(strategies: &Strategies) {
        for id in (0..=u8::MAX).map(StrategyId) {
            let known = strategies.sends_new_to_cheapest(id);
            assert_eq!(known, strategies.strategy(id).sends_new_to_cheapest(), "{id:?}");
        }
    }

    #[test]
    fn unused_strategy_numbers_are_reused() {
        let mut strategies = Strategies::default();
        check_to_cheapest(&strategies);
        let all_used = || [true; INSTANCES_MAX];
        for at in 1..INSTANCES_MAX {
            assert_eq!(
                strategies.resolve(name(at).as_ref(), all_used),
                Ok((StrategyId(at as u8), true))
            );
            assert_eq!(
                strategies.resolve(name(at).as_ref(), all_used),
                Ok((StrategyId(at as u8), false)),
                "the same again"
            );
        }
        let another = "/localhost/nfd/strategy/multicast".parse::<Name>().unwrap();
        assert_eq!(strategies.resolve(another.as_ref(), all_used), Err(StrategyError::TooMany));
        check_to_cheapest(&strategies);
        let but_two = || core::array::from_fn(|at| at != 7 && at != 9);
        assert_eq!(strategies.resolve(another.as_ref(), but_two), Ok((StrategyId(7), true)));
        assert!(strategies.name(StrategyId(9)).is_none());
        check_to_cheapest(&strategies);
        assert_eq!(
            strategies.name(StrategyId(7)).unwrap().to_string(),
            "/localhost/nfd/strategy/multicast/v=5"
        );
        assert!(
            strategies.name(Strategies::DEFAULT).unwrap().to_string().ends_with("best-route/v=5")
        );
    }
}

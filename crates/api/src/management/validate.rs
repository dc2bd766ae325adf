//! Checks the fields of commands: mandatory, optional and forbidden ones.
//!
//! "A field that a command does not define is an error, as is a required one that is absent":
//! answered 400.

use super::command::Verb;
use super::face::FacePersistency;
use super::parameters::ControlParameters;

/// A set of fields of ControlParameters, one bit each.
type Fields = u16;

const NAME: Fields = 1;
const FACE_ID: Fields = 1 << 1;
const URI: Fields = 1 << 2;
const LOCAL_URI: Fields = 1 << 3;
const ORIGIN: Fields = 1 << 4;
const COST: Fields = 1 << 5;
const CAPACITY: Fields = 1 << 6;
const COUNT: Fields = 1 << 7;
const FLAGS: Fields = 1 << 8;
const MASK: Fields = 1 << 9;
const STRATEGY: Fields = 1 << 10;
const EXPIRATION_PERIOD: Fields = 1 << 11;
const FACE_PERSISTENCY: Fields = 1 << 12;
const MARKING_INTERVAL: Fields = 1 << 13;
const MARKING_THRESHOLD: Fields = 1 << 14;
const MTU: Fields = 1 << 15;

/// Names of the fields, by bit.
const FIELD_NAMES: [&str; 16] = [
    "Name",
    "FaceId",
    "Uri",
    "LocalUri",
    "Origin",
    "Cost",
    "Capacity",
    "Count",
    "Flags",
    "Mask",
    "Strategy",
    "ExpirationPeriod",
    "FacePersistency",
    "BaseCongestionMarkingInterval",
    "DefaultCongestionThreshold",
    "Mtu",
];

const FACE_OPTIONS: Fields =
    FLAGS | MASK | FACE_PERSISTENCY | MARKING_INTERVAL | MARKING_THRESHOLD | MTU;

impl Verb {
    const fn required(self) -> Fields {
        match self {
            Verb::FacesCreate => URI,
            Verb::FacesDestroy => FACE_ID,
            Verb::FacesUpdate | Verb::CsConfig | Verb::RibAnnounce => 0,
            Verb::FibAddNextHop
            | Verb::FibRemoveNextHop
            | Verb::RibRegister
            | Verb::RibUnregister
            | Verb::CsErase
            | Verb::StrategyChoiceUnset => NAME,
            Verb::StrategyChoiceSet => NAME | STRATEGY,
        }
    }

    const fn optional(self) -> Fields {
        match self {
            Verb::FacesCreate => LOCAL_URI | FACE_OPTIONS,
            Verb::FacesUpdate => FACE_ID | FACE_OPTIONS,
            Verb::FibAddNextHop => FACE_ID | COST,
            Verb::FibRemoveNextHop => FACE_ID,
            Verb::RibRegister => FACE_ID | ORIGIN | COST | FLAGS | EXPIRATION_PERIOD,
            Verb::RibUnregister => FACE_ID | ORIGIN,
            Verb::CsConfig => CAPACITY | FLAGS | MASK,
            Verb::CsErase => COUNT,
            Verb::FacesDestroy
            | Verb::RibAnnounce
            | Verb::StrategyChoiceSet
            | Verb::StrategyChoiceUnset => 0,
        }
    }

    /// Checks the parameters of this command, independent of the router's state.
    ///
    /// # Errors
    /// The mistake, as a sentence for StatusText.
    pub fn check(self, parameters: &ControlParameters) -> Result<(), String> {
        let present = present(parameters);
        if let Some(field) = first_name(self.required() & !present) {
            return Err(format!("{field} is required for {self}"));
        }
        if let Some(field) = first_name(present & !(self.required() | self.optional())) {
            return Err(format!("{field} has no meaning for {self}"));
        }
        let has_mask = self.optional() & MASK != 0;
        if has_mask && parameters.flags.is_some() != parameters.mask.is_some() {
            return Err("Flags and Mask are given both or not at all".to_owned());
        }
        if let Some(number) = parameters.face_persistency
            && FacePersistency::from_number(number).is_none()
        {
            return Err(format!(
                "FacePersistency is 0 (persistent), 1 (on-demand) or 2 (permanent), not {number}"
            ));
        }
        match self {
            Verb::CsErase if parameters.count == Some(0) => Err("Count is at least 1".to_owned()),
            Verb::StrategyChoiceUnset
                if parameters.name.as_ref().is_some_and(|name| name.as_ref().is_empty()) =>
            {
                Err("the name / always has a strategy: set another one instead".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Returns the name of the lowest field in a set.
fn first_name(fields: Fields) -> Option<&'static str> {
    FIELD_NAMES.get(fields.trailing_zeros() as usize).copied()
}

/// Returns the set of fields that are present.
fn present(parameters: &ControlParameters) -> Fields {
    let p = parameters;
    let fields = [
        p.name.is_some(),
        p.face_id.is_some(),
        p.uri.is_some(),
        p.local_uri.is_some(),
        p.origin.is_some(),
        p.cost.is_some(),
        p.capacity.is_some(),
        p.count.is_some(),
        p.flags.is_some(),
        p.mask.is_some(),
        p.strategy.is_some(),
        p.expiration_period.is_some(),
        p.face_persistency.is_some(),
        p.base_congestion_marking_interval.is_some(),
        p.default_congestion_threshold.is_some(),
        p.mtu.is_some(),
    ];
    fields.iter().enumerate().fold(0, |bits, (bit, present)| bits | Fields::from(*present) << bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::Name;

    #[test]
    fn check_requires_and_refuses_fields() {
        let named = ControlParameters::of(Name::new());
        let empty = ControlParameters::default();
        assert_eq!(Verb::RibRegister.check(&named), Ok(()));
        assert_eq!(
            Verb::RibRegister.check(&empty),
            Err("Name is required for rib/register".to_owned())
        );
        let wrong = ControlParameters { cost: Some(1), ..named.clone() };
        assert_eq!(
            Verb::RibUnregister.check(&wrong),
            Err("Cost has no meaning for rib/unregister".to_owned())
        );
        let wrong = ControlParameters { mtu: Some(1), ..named.clone() };
        assert_eq!(
            Verb::RibRegister.check(&wrong),
            Err("Mtu has no meaning for rib/register".to_owned())
        );
        assert!(Verb::StrategyChoiceUnset.check(&named).is_err());
        assert!(Verb::StrategyChoiceSet.check(&named).is_err());
        assert!(
            Verb::CsErase.check(&ControlParameters { count: Some(0), ..named.clone() }).is_err()
        );
        assert_eq!(Verb::CsErase.check(&ControlParameters { count: Some(1), ..named }), Ok(()));
        assert!(
            Verb::CsConfig.check(&ControlParameters { flags: Some(1), ..empty.clone() }).is_err()
        );
        assert!(
            Verb::CsConfig.check(&ControlParameters { mask: Some(1), ..empty.clone() }).is_err()
        );
        assert_eq!(Verb::CsConfig.check(&empty), Ok(()));
        assert_eq!(Verb::FacesUpdate.check(&empty), Ok(()));
        let face = ControlParameters { uri: Some("udp4://192.0.2.1:6363".into()), ..empty };
        assert_eq!(Verb::FacesCreate.check(&face), Ok(()));
        assert!(
            Verb::FacesCreate
                .check(&ControlParameters { face_persistency: Some(3), ..face })
                .is_err()
        );
    }
}

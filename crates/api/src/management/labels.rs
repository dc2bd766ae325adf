//! Words for flag bits, origins and persistencies in JSON. FlagNames and numbers without a word are
//! written as digits, so that no information is lost.

use super::parameters::{flags, origin};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Flag bits and their names.
pub type FlagNames = &'static [(u64, &'static str)];

/// Flags of a face.
pub const FACE_FLAGS: FlagNames = &[
    (flags::LOCAL_FIELDS, "local-fields"),
    (flags::RELIABILITY, "reliability"),
    (flags::CONGESTION_MARKING, "congestion-marking"),
];
/// Flags of a route.
pub const ROUTE_FLAGS: FlagNames =
    &[(flags::CHILD_INHERIT, "child-inherit"), (flags::CAPTURE, "capture")];
/// Flags of a content store.
pub const CS_FLAGS: FlagNames = &[(flags::CS_ADMIT, "admit"), (flags::CS_SERVE, "serve")];

/// Returns the names of the bits that are set, lowest first; digits for a bit without a name.
pub fn flag_words(number: u64, names: FlagNames) -> Vec<String> {
    let set = (0..u64::BITS).map(|bit| 1_u64 << bit).filter(|bit| number & bit != 0);
    let word = |bit: u64| {
        names.iter().find(|(known, _)| *known == bit).map(|(_, word)| (*word).to_owned())
    };
    set.map(|bit| word(bit).unwrap_or_else(|| bit.to_string())).collect()
}

/// Parses flags given as names or digits. `None` if one is neither.
pub fn flags_from_words(words: &[String], names: FlagNames) -> Option<u64> {
    let bit = |word: &String| {
        let known = names.iter().find(|(_, known)| known == word).map(|(bit, _)| *bit);
        known.or_else(|| word.parse().ok())
    };
    words.iter().map(bit).try_fold(0, |all, bit| Some(all | bit?))
}

/// The accepted JSON: words, or the number that earlier versions wrote.
#[derive(Deserialize)]
#[serde(untagged)]
enum WordsOrNumber<T> {
    Number(u64),
    Words(T),
}

macro_rules! flags_as_words {
    ($module:ident, $bits:ident) => {
        pub(crate) mod $module {
            use super::*;

            pub fn serialize<S: Serializer>(
                number: &u64,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                flag_words(*number, $bits).serialize(serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<u64, D::Error> {
                match WordsOrNumber::<Vec<String>>::deserialize(deserializer)? {
                    WordsOrNumber::Number(number) => Ok(number),
                    WordsOrNumber::Words(words) => flags_from_words(&words, $bits)
                        .ok_or_else(|| D::Error::custom(format_args!("{words:?} are not flags"))),
                }
            }
        }
    };
}

flags_as_words!(face_flags, FACE_FLAGS);
flags_as_words!(route_flags, ROUTE_FLAGS);
flags_as_words!(cs_flags, CS_FLAGS);

/// Serialization of an optional origin as a word or digits.
pub(crate) mod origin_option {
    use super::*;

    pub fn serialize<S: Serializer>(
        number: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        number.map(origin::describe).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let read = Option::<WordsOrNumber<String>>::deserialize(deserializer)?;
        let number = |read: WordsOrNumber<String>| match read {
            WordsOrNumber::Number(number) => Ok(number),
            WordsOrNumber::Words(word) => origin::from_word(&word)
                .ok_or_else(|| D::Error::custom(format_args!("{word:?} is not an origin"))),
        };
        read.map(number).transpose()
    }
}

/// Serialization of a mandatory origin as a word or digits.
pub(crate) mod route_origin {
    use super::*;

    pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        origin::describe(*number).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let number = origin_option::deserialize(deserializer)?;
        number.ok_or_else(|| D::Error::custom("an origin is a word or a number"))
    }
}

/// Serialization of a persistency as a word, or as a number without a word.
pub(crate) mod persistency_option {
    use super::*;
    use crate::management::FacePersistency;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum WordOrNumber {
        Word(FacePersistency),
        Number(u64),
    }

    pub fn serialize<S: Serializer>(
        number: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let json = |number| {
            FacePersistency::from_number(number)
                .map_or(WordOrNumber::Number(number), WordOrNumber::Word)
        };
        number.map(json).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let value = Option::<WordOrNumber>::deserialize(deserializer)?;
        Ok(value.map(|value| match value {
            WordOrNumber::Word(word) => word.number(),
            WordOrNumber::Number(number) => number,
        }))
    }
}

//! Numbers that have words: JSON has the words. A bit or a number without a word stands as digits, so that nothing is lost.

use super::parameters::{flags, origin};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bits and their words.
pub type Bits = &'static [(u64, &'static str)];

/// Flags of a face.
pub const FACE_FLAGS: Bits = &[
    (flags::LOCAL_FIELDS, "local-fields"),
    (flags::RELIABILITY, "reliability"),
    (flags::CONGESTION_MARKING, "congestion-marking"),
];
/// Flags of a route.
pub const ROUTE_FLAGS: Bits = &[(flags::CHILD_INHERIT, "child-inherit"), (flags::CAPTURE, "capture")];
/// Flags of a content store.
pub const CS_FLAGS: Bits = &[(flags::CS_ADMIT, "admit"), (flags::CS_SERVE, "serve")];

/// Returns the words of the bits that are set, lowest first; the digits of a bit that has none.
pub fn flag_words(number: u64, bits: Bits) -> Vec<String> {
    let set = (0..u64::BITS).map(|bit| 1_u64 << bit).filter(|bit| number & bit != 0);
    let word = |bit: u64| bits.iter().find(|(known, _)| *known == bit).map(|(_, word)| (*word).to_owned());
    set.map(|bit| word(bit).unwrap_or_else(|| bit.to_string())).collect()
}

/// Returns the number of flags that stand as words or digits. `None` if one is neither.
pub fn flags_from_words(words: &[String], bits: Bits) -> Option<u64> {
    let bit = |word: &String| {
        let known = bits.iter().find(|(_, known)| known == word).map(|(bit, _)| *bit);
        known.or_else(|| word.parse().ok())
    };
    words.iter().map(bit).try_fold(0, |all, bit| Some(all | bit?))
}

/// What is read: words, or the number that earlier versions wrote.
#[derive(Deserialize)]
#[serde(untagged)]
enum Read<T> {
    Number(u64),
    Words(T),
}

macro_rules! flags_as_words {
    ($module:ident, $bits:ident) => {
        pub(crate) mod $module {
            use super::*;

            pub fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
                flag_words(*number, $bits).serialize(serializer)
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
                match Read::<Vec<String>>::deserialize(deserializer)? {
                    Read::Number(number) => Ok(number),
                    Read::Words(words) => flags_from_words(&words, $bits)
                        .ok_or_else(|| D::Error::custom(format_args!("{words:?} are no flags"))),
                }
            }
        }
    };
}

flags_as_words!(face_flags, FACE_FLAGS);
flags_as_words!(route_flags, ROUTE_FLAGS);
flags_as_words!(cs_flags, CS_FLAGS);

/// An origin that may be absent: its word, or its digits.
pub(crate) mod origin_option {
    use super::*;

    pub fn serialize<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        number.map(origin::describe).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let read = Option::<Read<String>>::deserialize(deserializer)?;
        let number = |read: Read<String>| match read {
            Read::Number(number) => Ok(number),
            Read::Words(word) => origin::from_word(&word)
                .ok_or_else(|| D::Error::custom(format_args!("{word:?} is no origin"))),
        };
        read.map(number).transpose()
    }
}

/// A required origin.
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

/// A persistency that may be any number: the word where there is one.
pub(crate) mod persistency_option {
    use super::*;
    use crate::management::FacePersistency;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Shown {
        Word(FacePersistency),
        Number(u64),
    }

    pub fn serialize<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        let shown = |number| FacePersistency::from_number(number).map_or(Shown::Number(number), Shown::Word);
        number.map(shown).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let shown = Option::<Shown>::deserialize(deserializer)?;
        Ok(shown.map(|shown| match shown {
            Shown::Word(word) => word.number(),
            Shown::Number(number) => number,
        }))
    }
}

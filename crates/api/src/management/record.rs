//! How a management message is written down once: a struct whose fields carry their TLV-TYPE numbers, encoded in that order.
//!
//! Decoding takes each field at most once, in any order (python-ndn writes ControlParameters in an order of its own), skips what it does not
//! know unless that is critical, and refuses numbers that are not 1, 2, 4 or 8 octets and text that is not UTF-8.

use nw_name::tlv::{Error, Fault, Tlv, push_integer, push_number, push_tlv};
use nw_name::{Name, NameRef};

/// One value inside an element.
pub trait Scalar: Sized {
    /// Reads the element's value.
    ///
    /// # Errors
    /// What is wrong and where.
    fn read(element: &Tlv<'_>) -> Result<Self, Error>;

    /// Appends the whole element.
    fn push(&self, typ: u32, out: &mut Vec<u8>);
}

impl Scalar for u64 {
    fn read(element: &Tlv<'_>) -> Result<Self, Error> {
        element.integer()
    }

    fn push(&self, typ: u32, out: &mut Vec<u8>) {
        push_integer(typ, *self, out);
    }
}

impl Scalar for String {
    fn read(element: &Tlv<'_>) -> Result<Self, Error> {
        let text = core::str::from_utf8(element.value);
        text.map(str::to_owned).map_err(|_| Error::new(Fault::FieldValue, element.start))
    }

    fn push(&self, typ: u32, out: &mut Vec<u8>) {
        push_tlv(typ, self.as_bytes(), out);
    }
}

impl Scalar for Name {
    fn read(element: &Tlv<'_>) -> Result<Self, Error> {
        NameRef::check_with(element.value, element.value_start, |_, _, _| {}).map(NameRef::to_name)
    }

    fn push(&self, typ: u32, out: &mut Vec<u8>) {
        push_tlv(typ, self.as_ref().as_bytes(), out);
    }
}

/// A field of a message: required (`T`), optional (`Option<T>`) or repeated (`Vec<T>`).
pub trait Field: Sized {
    /// What has been read so far.
    type Slot: Default;

    /// Takes one element of this field's type.
    ///
    /// # Errors
    /// What is wrong and where.
    fn take(slot: &mut Self::Slot, element: &Tlv<'_>) -> Result<(), Error>;

    /// The field, once the message has been read to its end at octet `end`.
    ///
    /// # Errors
    /// When it is required and absent.
    fn finish(slot: Self::Slot, end: usize) -> Result<Self, Error>;

    /// Appends the field.
    fn write(&self, typ: u32, out: &mut Vec<u8>);
}

fn once<T: Scalar>(slot: &mut Option<T>, element: &Tlv<'_>) -> Result<(), Error> {
    if slot.is_some() {
        return Err(Error::new(Fault::FieldOrder, element.start));
    }
    *slot = Some(T::read(element)?);
    Ok(())
}

impl<T: Scalar> Field for T {
    type Slot = Option<T>;

    fn take(slot: &mut Option<T>, element: &Tlv<'_>) -> Result<(), Error> {
        once(slot, element)
    }

    fn finish(slot: Option<T>, end: usize) -> Result<Self, Error> {
        slot.ok_or(Error::new(Fault::MissingField, end))
    }

    fn write(&self, typ: u32, out: &mut Vec<u8>) {
        self.push(typ, out);
    }
}

impl<T: Scalar> Field for Option<T> {
    type Slot = Option<T>;

    fn take(slot: &mut Option<T>, element: &Tlv<'_>) -> Result<(), Error> {
        once(slot, element)
    }

    fn finish(slot: Option<T>, _end: usize) -> Result<Self, Error> {
        Ok(slot)
    }

    fn write(&self, typ: u32, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.push(typ, out);
        }
    }
}

impl<T: Scalar> Field for Vec<T> {
    type Slot = Vec<T>;

    fn take(slot: &mut Vec<T>, element: &Tlv<'_>) -> Result<(), Error> {
        slot.push(T::read(element)?);
        Ok(())
    }

    fn finish(slot: Vec<T>, _end: usize) -> Result<Self, Error> {
        Ok(slot)
    }

    fn write(&self, typ: u32, out: &mut Vec<u8>) {
        self.iter().for_each(|value| value.push(typ, out));
    }
}

/// Appends an element whose value `fill` appends.
pub(crate) fn push_nested(typ: u32, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut value = Vec::new();
    fill(&mut value);
    push_number(u64::from(typ), out);
    push_number(value.len() as u64, out);
    out.extend_from_slice(&value);
}

/// Declares a message: a struct, its encoder and its decoder.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $typ:ty = $number:expr,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $typ,)+
        }

        impl $name {
            /// Appends the fields, without an element around them.
            pub fn encode_fields(&self, out: &mut Vec<u8>) {
                $($crate::management::record::Field::write(&self.$field, $number, out);)+
            }

            /// Reads the fields from the value of an element; errors count octets from `base`.
            ///
            /// # Errors
            /// What is wrong and where.
            pub fn decode_fields(value: &[u8], base: usize) -> Result<Self, nw_name::tlv::Error> {
                use $crate::management::record::Field;
                let mut reader = nw_name::tlv::Reader::new(value, base);
                $(let mut $field = <$typ as Field>::Slot::default();)+
                while let Some(element) = reader.next()? {
                    match element.typ {
                        $(number if number == $number => <$typ as Field>::take(&mut $field, &element)?,)+
                        _ if element.is_critical() => {
                            return Err(nw_name::tlv::Error::new(nw_name::tlv::Fault::UnknownCritical, element.start));
                        }
                        _ => {}
                    }
                }
                let end = reader.offset();
                Ok($name { $($field: <$typ as Field>::finish($field, end)?,)+ })
            }
        }

        impl $crate::management::record::Scalar for $name {
            fn read(element: &nw_name::tlv::Tlv<'_>) -> Result<Self, nw_name::tlv::Error> {
                Self::decode_fields(element.value, element.value_start)
            }

            fn push(&self, typ: u32, out: &mut Vec<u8>) {
                $crate::management::record::push_nested(typ, out, |value| self.encode_fields(value));
            }
        }
    };
}

/// Declares a closed list of numbers with names. The word is a `tt`: in a `literal` the schema's derive would not see it, and the
/// document would name other words than are sent.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$item_meta:meta])* $item:ident = $number:literal $text:tt,)+ }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize, utoipa::ToSchema,
        )]
        pub enum $name {
            $($(#[$item_meta])* #[serde(rename = $text)] $item,)+
        }

        impl $name {
            /// Every one.
            pub const ALL: &'static [$name] = &[$($name::$item,)+];

            /// Its number on the wire.
            pub const fn number(self) -> u64 {
                match self { $($name::$item => $number,)+ }
            }

            /// From its number on the wire.
            pub const fn from_number(number: u64) -> Option<Self> {
                match number { $($number => Some($name::$item),)+ _ => None }
            }

            /// As people write it.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$item => $text,)+ }
            }

            /// From the word people write.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($text => Some($name::$item),)+ _ => None }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl $crate::management::record::Scalar for $name {
            fn read(element: &nw_name::tlv::Tlv<'_>) -> Result<Self, nw_name::tlv::Error> {
                Self::from_number(element.integer()?)
                    .ok_or(nw_name::tlv::Error::new(nw_name::tlv::Fault::FieldValue, element.start))
            }

            fn push(&self, typ: u32, out: &mut Vec<u8>) {
                nw_name::tlv::push_integer(typ, self.number(), out);
            }
        }
    };
}

pub(crate) use {choice, record};

//! Declares management messages: `record!` derives encoder and decoder from a struct whose fields
//! have TLV-TYPE numbers.
//!
//! Fields are encoded in the order of declaration. The decoder accepts each field at most once, in
//! any order (python-ndn uses a different one), skips unknown non-critical elements, and refuses
//! numbers that are not 1, 2, 4 or 8 bytes long and text that is not UTF-8.

use nw_name::tlv::{Error, Fault, Tlv, push_integer, push_number, push_tlv};
use nw_name::{Name, NameRef};

/// The value of a TLV element.
pub trait Scalar: Sized {
    /// Decodes the value of an element.
    ///
    /// # Errors
    /// The fault and its byte offset.
    fn read(element: &Tlv<'_>) -> Result<Self, Error>;

    /// Appends the element with this TLV-TYPE.
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

/// A field of a message: mandatory (`T`), optional (`Option<T>`) or repeated (`Vec<T>`).
pub trait Field: Sized {
    /// The state of a field while the message is decoded.
    type Slot: Default;

    /// Decodes one element of this field.
    ///
    /// # Errors
    /// The fault and its byte offset.
    fn take(slot: &mut Self::Slot, element: &Tlv<'_>) -> Result<(), Error>;

    /// Returns the field after the message was decoded up to byte offset `end`.
    ///
    /// # Errors
    /// The field is mandatory and missing.
    fn finish(slot: Self::Slot, end: usize) -> Result<Self, Error>;

    /// Appends the field.
    fn write(&self, typ: u32, out: &mut Vec<u8>);
}

fn take_once<T: Scalar>(slot: &mut Option<T>, element: &Tlv<'_>) -> Result<(), Error> {
    if slot.is_some() {
        return Err(Error::new(Fault::FieldOrder, element.start));
    }
    *slot = Some(T::read(element)?);
    Ok(())
}

impl<T: Scalar> Field for T {
    type Slot = Option<T>;

    fn take(slot: &mut Option<T>, element: &Tlv<'_>) -> Result<(), Error> {
        take_once(slot, element)
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
        take_once(slot, element)
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

/// Appends an element whose value is written by `fill`.
pub(crate) fn push_nested(typ: u32, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut value = Vec::new();
    fill(&mut value);
    push_number(u64::from(typ), out);
    push_number(value.len() as u64, out);
    out.extend_from_slice(&value);
}

/// Declares a message: a struct, its encoder and its decoder.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $typ:ty = $number:expr,)+
    }) => {
        $(#[$meta])*
        #[derive(
            Clone, Debug, PartialEq, Eq,
            serde::Serialize, serde::Deserialize, utoipa::ToSchema,
        )]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $typ,)+
        }

        impl $name {
            /// Appends the encoded fields without an enclosing element.
            pub fn encode_fields(&self, out: &mut Vec<u8>) {
                $($crate::management::record::Field::write(&self.$field, $number, out);)+
            }

            /// Decodes the fields from the value of an element that begins at byte offset `base`.
            ///
            /// # Errors
            /// The fault and its byte offset.
            pub fn decode_fields(value: &[u8], base: usize) -> Result<Self, nw_name::tlv::Error> {
                use $crate::management::record::Field;
                let mut reader = nw_name::tlv::Reader::new(value, base);
                $(let mut $field = <$typ as Field>::Slot::default();)+
                while let Some(element) = reader.next()? {
                    match element.typ {
                        $(number if number == $number => {
                            <$typ as Field>::take(&mut $field, &element)?
                        })+
                        _ if element.is_critical() => {
                            return Err(nw_name::tlv::Error::new(
                                nw_name::tlv::Fault::UnknownCritical,
                                element.start,
                            ));
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
                $crate::management::record::push_nested(typ, out, |value| {
                    self.encode_fields(value);
                });
            }
        }
    };
}

/// Declares an enum of numbers with names. The name is a `tt`, as the schema derive macro does not
/// see a `literal`, and the OpenAPI document would then have other words than the JSON.
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$item_meta:meta])* $item:ident = $number:literal $text:tt,)+
    }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
            serde::Serialize, serde::Deserialize, utoipa::ToSchema,
        )]
        pub enum $name {
            $($(#[$item_meta])* #[serde(rename = $text)] $item,)+
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [$name] = &[$($name::$item,)+];

            /// Returns the number of the value in the protocol.
            pub const fn number(self) -> u64 {
                match self { $($name::$item => $number,)+ }
            }

            /// Returns the value with this number.
            pub const fn from_number(number: u64) -> Option<Self> {
                match number { $($number => Some($name::$item),)+ _ => None }
            }

            /// Returns the name of the value.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$item => $text,)+ }
            }

            /// Returns the value with this name.
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

//! Names: a checked view of bytes, and an owned name.
//!
//! Main invariant: both contain the TLV-VALUE of a valid Name. As TLV numbers are minimal, the
//! order of these bytes is the canonical order, and a name is a prefix of another exactly if its
//! bytes are.

use crate::component::{Component, ComponentType, push_number_component};
use crate::tlv::{Error, Fault, push_number, read_head};
use alloc::vec::Vec;
use core::borrow::Borrow;

/// A checked view of a name, borrowed from a packet or from a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameRef<'a>(&'a [u8]);

impl<'a> NameRef<'a> {
    /// The name `/`, without components.
    pub const ROOT: NameRef<'static> = NameRef(&[]);

    /// Checks the TLV-VALUE of a Name.
    ///
    /// # Errors
    /// The fault and its offset in `value`, if the name is invalid.
    pub fn check(value: &'a [u8]) -> Result<Self, Error> {
        Self::check_with(value, 0, |_, _, _| {})
    }

    /// Checks like [`check`](Self::check) and calls `each` for every component: its type, its whole
    /// encoding and the end of that in `value`. Offsets of errors count from `base`.
    #[inline(always)]
    pub fn check_with(
        value: &'a [u8],
        base: usize,
        mut each: impl FnMut(ComponentType, &'a [u8], usize),
    ) -> Result<Self, Error> {
        let mut pos = 0;
        while pos < value.len() {
            // Usual: a component has one byte of type and of length, and is no digest.
            let (typ, end) = match value.get(pos..pos + 2) {
                Some(&[typ @ 3..=252, len @ 0..=252])
                    if usize::from(len) + pos + 2 <= value.len() =>
                {
                    let typ = ComponentType::new(u16::from(typ))
                        .ok_or(Error::new(Fault::TypeRange, base + pos))?;
                    (typ, pos + 2 + usize::from(len))
                }
                _ => component_at(value, pos, base)?,
            };
            each(typ, &value[pos..end], end);
            pos = end;
        }
        Ok(NameRef(value))
    }

    /// Returns a view of bytes that were checked before: a whole name, or one cut at a component's
    /// end.
    ///
    /// Bytes that were not checked give wrong components, but never a panic.
    pub const fn from_checked(value: &'a [u8]) -> Self {
        NameRef(value)
    }

    /// Returns the TLV-VALUE.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns whether this is `/`.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of components; counts them.
    pub fn len(self) -> usize {
        self.components().count()
    }

    /// Iterates over the components.
    pub const fn components(self) -> Components<'a> {
        Components { bytes: self.0, pos: 0 }
    }

    /// Returns the component at `index`; a negative index counts from the end.
    pub fn component(self, index: isize) -> Option<Component<'a>> {
        let index = if index < 0 { self.len().checked_add_signed(index)? } else { index as usize };
        self.components().nth(index)
    }

    /// Returns the first `count` components, or all if there are fewer.
    pub fn prefix(self, count: usize) -> NameRef<'a> {
        let mut components = self.components();
        for _ in 0..count {
            if components.next().is_none() {
                break;
            }
        }
        NameRef(&self.0[..components.pos])
    }

    /// Returns the name without its last component; `None` for `/`.
    pub fn parent(self) -> Option<NameRef<'a>> {
        self.len().checked_sub(1).map(|count| self.prefix(count))
    }

    /// Returns whether `other` starts with all components of `self`.
    pub fn is_prefix_of(self, other: NameRef<'_>) -> bool {
        other.0.starts_with(self.0)
    }

    /// Appends the whole Name element to `out`.
    pub fn encode(self, out: &mut Vec<u8>) {
        push_number(7, out);
        push_number(self.0.len() as u64, out);
        out.extend_from_slice(self.0);
    }

    /// Returns an owned copy.
    pub fn to_name(self) -> Name {
        Name { value: self.0.to_vec() }
    }
}

/// Iterator over the components of a name.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Components<'a> {
    /// Returns the length in bytes of the components returned so far.
    pub const fn consumed(&self) -> usize {
        self.pos
    }
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    fn next(&mut self) -> Option<Component<'a>> {
        // In unchecked bytes the iteration ends at the first fault.
        let (typ, len, start) = read_head(self.bytes, self.pos).ok()?;
        let typ = ComponentType::new(u16::try_from(typ).ok()?)?;
        let value = self.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)?;
        self.pos = start + value.len();
        Some(Component::checked(typ, value))
    }
}

/// An owned name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    value: Vec<u8>,
}

impl Name {
    /// Returns the name `/`.
    pub const fn new() -> Self {
        Name { value: Vec::new() }
    }

    /// Returns a view of the name.
    pub fn as_ref(&self) -> NameRef<'_> {
        NameRef(&self.value)
    }

    /// Appends a component of any type.
    #[must_use]
    pub fn with(mut self, component: Component<'_>) -> Self {
        component.encode(&mut self.value);
        self
    }

    /// Appends a GenericNameComponent.
    #[must_use]
    pub fn with_generic(self, value: impl AsRef<[u8]>) -> Self {
        self.with(Component::generic(value.as_ref()))
    }

    /// Appends a component with the value of a NonNegativeInteger, such as a segment.
    #[must_use]
    pub fn with_number(mut self, typ: ComponentType, number: u64) -> Self {
        push_number_component(typ, number, &mut self.value);
        self
    }

    /// Appends all components of another name.
    #[must_use]
    pub fn with_name(mut self, suffix: NameRef<'_>) -> Self {
        self.value.extend_from_slice(suffix.0);
        self
    }

    /// Appends a component in place.
    pub fn push(&mut self, component: Component<'_>) {
        component.encode(&mut self.value);
    }

    /// Truncates to the first `count` components.
    pub fn truncate(&mut self, count: usize) {
        let len = self.as_ref().prefix(count).as_bytes().len();
        self.value.truncate(len);
    }
}

impl<'a> From<NameRef<'a>> for Name {
    fn from(name: NameRef<'a>) -> Self {
        name.to_name()
    }
}

impl<'a> From<&'a Name> for NameRef<'a> {
    fn from(name: &'a Name) -> Self {
        name.as_ref()
    }
}

impl<'a> FromIterator<Component<'a>> for Name {
    fn from_iter<T: IntoIterator<Item = Component<'a>>>(components: T) -> Self {
        components.into_iter().fold(Name::new(), Name::with)
    }
}

// A name hashes and compares like its bytes, so a map with `Name` keys can be searched with the
// bytes of a view.
impl Borrow<[u8]> for Name {
    fn borrow(&self) -> &[u8] {
        &self.value
    }
}

/// Returns the type and the end of the component at `pos`, of any form.
#[inline(never)]
pub(crate) fn component_at(
    value: &[u8],
    pos: usize,
    base: usize,
) -> Result<(ComponentType, usize), Error> {
    let head = read_head(value, pos);
    let (typ, len, start) = head.map_err(|e| Error::new(e.fault, e.offset + base))?;
    let typ = u16::try_from(typ)
        .ok()
        .and_then(ComponentType::new)
        .ok_or(Error::new(Fault::TypeRange, base + pos))?;
    if len > (value.len() - start) as u64 {
        return Err(Error::new(Fault::Truncated, base + pos));
    }
    if typ.is_digest() && len != 32 {
        return Err(Error::new(Fault::DigestLength, base + pos));
    }
    Ok((typ, start + len as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;

    fn name(uri: &str) -> Name {
        uri.parse().unwrap()
    }

    #[test]
    fn component_index_returns_component() {
        let name = name("/a/b/seg=3");
        let view = name.as_ref();
        let at = |index| view.component(index).map(|c| c.to_string());
        assert_eq!((at(0), at(2), at(3)), (Some("a".to_string()), Some("seg=3".to_string()), None));
        assert_eq!(
            (at(-1), at(-3), at(-4)),
            (Some("seg=3".to_string()), Some("a".to_string()), None)
        );
        assert_eq!((view.len(), NameRef::ROOT.len()), (3, 0));
        assert_eq!(NameRef::ROOT.component(-1), None);
    }

    #[test]
    fn prefix_and_parent_cut_components() {
        let name = name("/a/b/c");
        let prefix = |count| name.as_ref().prefix(count).to_string();
        assert_eq!(
            (prefix(0), prefix(2), prefix(9)),
            ("/".to_string(), "/a/b".to_string(), "/a/b/c".to_string())
        );
        assert_eq!(name.as_ref().parent().unwrap().to_string(), "/a/b");
        assert_eq!(NameRef::ROOT.parent(), None);
        let is_prefix = |short: &str, long: &str| {
            self::name(short).as_ref().is_prefix_of(self::name(long).as_ref())
        };
        assert!(is_prefix("/", "/a") && is_prefix("/a", "/a") && is_prefix("/a", "/a/b"));
        assert!(!is_prefix("/a/b", "/a") && !is_prefix("/a", "/aa") && !is_prefix("/a", "/9=a/b"));
    }

    #[test]
    fn name_push_and_truncate_change_components() {
        let mut grown =
            name("/a").with_name(name("/b/c").as_ref()).with_number(ComponentType::VERSION, 300);
        assert_eq!(grown.to_string(), "/a/b/c/v=300");
        grown.push(Component::keyword(b"w"));
        grown.truncate(5);
        assert_eq!(grown.to_string(), "/a/b/c/v=300/32=w");
        grown.truncate(1);
        assert_eq!(grown, name("/a"));
        let mut element = vec![];
        grown.as_ref().encode(&mut element);
        assert_eq!(element, [7, 3, 8, 1, b'a']);
        assert_eq!(Name::from(grown.as_ref()), grown);
    }

    #[test]
    fn check_invalid_name_returns_fault_and_offset() {
        let fault = |value: &[u8]| NameRef::check(value).unwrap_err();
        assert_eq!(fault(&[8, 1, b'a', 8, 2, b'b']), Error::new(Fault::Truncated, 3));
        assert_eq!(fault(&[8, 0, 8]), Error::new(Fault::Truncated, 3));
        assert_eq!(fault(&[0, 0]), Error::new(Fault::TypeRange, 0));
        assert_eq!(fault(&[8, 0, 254, 0, 1, 0, 0, 0]), Error::new(Fault::TypeRange, 2));
        assert_eq!(fault(&[253, 0, 252, 0]), Error::new(Fault::NumberNotMinimal, 0));
        assert_eq!(fault(&[8, 253, 0, 252]), Error::new(Fault::NumberNotMinimal, 1));
        assert_eq!(fault(&[1, 1, 0]), Error::new(Fault::DigestLength, 0));
        let rebased = NameRef::check_with(&[8, 0, 0, 0], 100, |_, _, _| {}).unwrap_err();
        assert_eq!(rebased, Error::new(Fault::TypeRange, 102));
    }

    proptest! {
        #[test]
        fn check_with_any_bytes_equals_components(
            bytes in proptest::collection::vec(prop_oneof![Just(8u8), 0u8..4, any::<u8>()], 0..40),
        ) {
            let mut shown = vec![];
            let checked = NameRef::check_with(&bytes, 0, |typ, element, end| {
                shown.push((typ, element.len(), end))
            });
            // Even in unchecked bytes the iteration ends and stays within them.
            let mut components = NameRef::from_checked(&bytes).components();
            let walked: Vec<_> = core::iter::from_fn(|| {
                let component = components.next()?;
                Some((component.typ(), component.encoded_len(), components.consumed()))
            })
            .collect();
            match checked {
                Ok(_) => prop_assert_eq!(walked, shown),
                Err(e) => prop_assert!(e.offset <= bytes.len() && walked.starts_with(&shown)),
            }
        }
    }
}

//! What a section of the file is: options, each written down once.

use super::read::Table;
use super::value::Value;

/// An option, described.
#[derive(Debug)]
pub struct OptionText {
    /// Its name.
    pub key: &'static str,
    /// What it is for, by line.
    pub doc: &'static [&'static str],
    /// Its default as TOML; `None` when there is none.
    pub default: Option<String>,
    /// A value as TOML, for options without a default.
    pub example: Option<&'static str>,
    /// What a reader is told when it is something else.
    pub expected: String,
}

/// A section, described.
#[derive(Debug)]
pub struct SectionText {
    /// What stands in the brackets.
    pub path: &'static str,
    /// `[[path]]`: there may be several.
    pub many: bool,
    /// What it is for, by line.
    pub doc: &'static [&'static str],
    /// Its options.
    pub options: Vec<OptionText>,
}

/// `[path]`: every option has a default.
pub trait Section: Default {
    /// What stands in the brackets.
    const PATH: &'static str;
    /// What it is for, by line.
    const DOC: &'static [&'static str];
    /// Its options.
    fn options() -> Vec<OptionText>;
    /// Its options with their values as TOML; `None` for those that are left out.
    fn values(&self) -> Vec<(&'static str, Option<String>)>;
    /// From a table; what is missing is as the default has it.
    fn read(table: &mut Table<'_, '_>) -> Self;
}

/// `[[path]]`: there may be several; some options must be there.
pub trait Item: Sized {
    /// What stands in the double brackets.
    const PATH: &'static str;
    /// What it is for, by line.
    const DOC: &'static [&'static str];
    /// Its options.
    fn options() -> Vec<OptionText>;
    /// `None` when something that must be there is not, or is wrong: that is noted then.
    fn read(table: &mut Table<'_, '_>) -> Option<Self>;
}

/// Appends a section to the reference text.
pub fn write<S: Section>(text: &mut String) {
    text.push('\n');
    write_doc(S::DOC, text);
    text.push_str(&format!("[{}]\n", S::PATH));
    for option in S::options() {
        write_doc(option.doc, text);
        text.push_str(&format!("# ({})\n", option.expected));
        match (option.default, option.example) {
            (Some(default), _) => text.push_str(&format!("{} = {default}\n", option.key)),
            (None, example) => text.push_str(&format!("# {} = {}\n", option.key, example.unwrap_or("…"))),
        }
    }
}

/// Appends an item to the reference text, as a comment: by default there is none.
pub fn write_item<I: Item>(text: &mut String) {
    text.push('\n');
    write_doc(I::DOC, text);
    text.push_str(&format!("# [[{}]]\n", I::PATH));
    for option in I::options() {
        write_doc(option.doc, text);
        text.push_str(&format!("# ({})\n", option.expected));
        let value = option.example.map(str::to_owned).or(option.default).unwrap_or_default();
        text.push_str(&format!("# {} = {value}\n", option.key));
    }
}

fn write_doc(doc: &[&str], text: &mut String) {
    doc.iter().for_each(|line| text.push_str(&format!("#{line}\n")));
}

/// The default of an option that may be left out, as TOML.
pub fn default_text<T: Value>(default: &T) -> Option<String> {
    default.write()
}

/// Declares a section: each option with documentation, type, default, and perhaps limits or an example.
#[macro_export]
macro_rules! section {
    ($(#[doc = $doc:literal])+ $name:ident = $path:literal {
        $($(#[doc = $option_doc:literal])+ $option:ident: $typ:ty = $default:expr $(, in $limits:expr)? $(, as $example:literal)?;)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $option_doc])+ pub $option: $typ,)+ }

        impl Default for $name {
            fn default() -> Self {
                $name { $($option: $default,)+ }
            }
        }

        impl $crate::config::section::Section for $name {
            const PATH: &'static str = $path;
            const DOC: &'static [&'static str] = &[$($doc),+];

            fn options() -> Vec<$crate::config::section::OptionText> {
                use $crate::config::value::Value;
                let default = Self::default();
                vec![$($crate::config::section::OptionText {
                    key: stringify!($option),
                    doc: &[$($option_doc),+],
                    default: default.$option.write(),
                    example: None$(.or(Some($example)))?,
                    expected: <$typ as Value>::expected(&None$(.or(Some($limits)))?),
                },)+]
            }

            fn values(&self) -> Vec<(&'static str, Option<String>)> {
                use $crate::config::value::Value;
                vec![$((stringify!($option), self.$option.write()),)+]
            }

            fn read(table: &mut $crate::config::read::Table<'_, '_>) -> Self {
                let mut section = Self::default();
                $(if let Some(value) = table.take(stringify!($option), None$(.or(Some($limits)))?) {
                    section.$option = value;
                })+
                section
            }
        }
    };
}

/// Declares an item: as a section, but `required` options have no default.
#[macro_export]
macro_rules! item {
    ($(#[doc = $doc:literal])+ $name:ident = $path:literal {
        $($(#[doc = $option_doc:literal])+ $option:ident: $typ:ty $(= $default:expr)? $(, in $limits:expr)? $(, as $example:literal)?;)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $option_doc])+ pub $option: $typ,)+ }

        impl $crate::config::section::Item for $name {
            const PATH: &'static str = $path;
            const DOC: &'static [&'static str] = &[$($doc),+];

            fn options() -> Vec<$crate::config::section::OptionText> {
                use $crate::config::value::Value;
                vec![$($crate::config::section::OptionText {
                    key: stringify!($option),
                    doc: &[$($option_doc),+],
                    default: None::<String>$(.or($crate::config::section::default_text::<$typ>(&$default)))?,
                    example: None$(.or(Some($example)))?,
                    expected: <$typ as Value>::expected(&None$(.or(Some($limits)))?),
                },)+]
            }

            fn read(table: &mut $crate::config::read::Table<'_, '_>) -> Option<Self> {
                $(let $option: Option<$typ> =
                    table.take_or(stringify!($option), None$(.or(Some($limits)))?, None::<$typ>$(.or(Some($default)))?);)+
                Some($name { $($option: $option?,)+ })
            }
        }
    };
}

pub use {item, section};

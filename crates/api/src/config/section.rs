//! Sections of a configuration file. [`section!`](macro@section) and [`item!`](macro@item) declare
//! each option once: name, type, default, limits and documentation.
//!
//! ```text
//! section! {
//!     /// Documentation of the section.
//!     Udp = "faces.udp" {
//!         /// Documentation of the option.
//!         idle_timeout_s: u32 = 600, in 1..=86_400;
//!         // An example, for options that are not set by default:
//!         path: Option<PathBuf> = None, as "\"/example\"";
//!         // The old name is still accepted, and reported:
//!         allow: Vec<String> = vec![], was "whitelist";
//!     }
//! }
//! ```
//!
//! `in`, `as` and `was` are optional and stand in this order. A renamed section is declared as
//! `Udp = "faces.udp", was "udp" { … }`.

use super::table::Table;
use super::value::Value;

/// The description of an option.
#[derive(Debug)]
pub struct OptionText {
    /// Name of the option, without its section.
    pub key: &'static str,
    /// Documentation, one string per line.
    pub doc: &'static [&'static str],
    /// Default value as TOML. `None` if the option has no default.
    pub default: Option<String>,
    /// Example value as TOML, for options without a default.
    pub example: Option<&'static str>,
    /// Type and limits, as error messages state them.
    pub expected: String,
}

/// The description of a section.
#[derive(Debug)]
pub struct SectionText {
    /// Name of the section, as written between the brackets.
    pub path: &'static str,
    /// Whether the section may be repeated: `[[path]]`.
    pub many: bool,
    /// Documentation, one string per line.
    pub doc: &'static [&'static str],
    /// All options of the section.
    pub options: Vec<OptionText>,
}

/// A section `[path]` in which every option has a default.
pub trait Section: Default {
    /// Name of the section, as written between the brackets.
    const PATH: &'static str;
    /// Names from earlier versions that are still accepted.
    const OLD_PATHS: &'static [&'static str];
    /// Documentation, one string per line.
    const DOC: &'static [&'static str];
    /// Returns the descriptions of all options.
    fn options() -> Vec<OptionText>;
    /// Returns each option with its value as TOML, `None` for an option that is not set.
    fn values(&self) -> Vec<(&'static str, Option<String>)>;
    /// Reads the section from a table. Missing options keep their defaults.
    fn read(table: &mut Table<'_, '_>) -> Self;
}

/// A repeated section `[[path]]`. Options without a default are mandatory.
pub trait Item: Sized {
    /// Name of the section, as written between the double brackets.
    const PATH: &'static str;
    /// Names from earlier versions that are still accepted.
    const OLD_PATHS: &'static [&'static str];
    /// Documentation, one string per line.
    const DOC: &'static [&'static str];
    /// Returns the descriptions of all options.
    fn options() -> Vec<OptionText>;
    /// Reads an item from a table. `None`, with a report, if a mandatory option is missing or
    /// wrong.
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
            (None, example) => {
                text.push_str(&format!("# {} = {}\n", option.key, example.unwrap_or("…")))
            }
        }
    }
}

/// Appends a repeated section to the reference text, commented out because the default is none.
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

/// Returns the default of an option as TOML. `None` if it is not set by default.
pub fn default_text<T: Value>(default: &T) -> Option<String> {
    default.write()
}

/// Declares a section: each option with documentation, type and default, and optionally limits
/// (`in`), an example (`as`) and the name it had in the previous version (`was`).
#[macro_export]
macro_rules! section {
    ($(#[doc = $doc:literal])+ $name:ident = $path:literal $(, was $old_path:literal)? {
        $(
            $(#[doc = $option_doc:literal])+
            $option:ident: $typ:ty = $default:expr
            $(, in $limits:expr)? $(, as $example:literal)? $(, was $old:literal)?;
        )+
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
            const OLD_PATHS: &'static [&'static str] = &[$($old_path)?];
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

            fn read(table: &mut $crate::config::table::Table<'_, '_>) -> Self {
                let mut section = Self::default();
                $(
                    let old = &[$($old)?];
                    let limits = None$(.or(Some($limits)))?;
                    if let Some(value) = table.take(stringify!($option), old, limits) {
                        section.$option = value;
                    }
                )+
                section
            }
        }
    };
}

/// Declares a repeated section, with the syntax of [`section!`](macro@section). Options without a
/// default are mandatory.
#[macro_export]
macro_rules! item {
    ($(#[doc = $doc:literal])+ $name:ident = $path:literal $(, was $old_path:literal)? {
        $(
            $(#[doc = $option_doc:literal])+
            $option:ident: $typ:ty $(= $default:expr)?
            $(, in $limits:expr)? $(, as $example:literal)? $(, was $old:literal)?;
        )+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $option_doc])+ pub $option: $typ,)+ }

        impl $crate::config::section::Item for $name {
            const PATH: &'static str = $path;
            const OLD_PATHS: &'static [&'static str] = &[$($old_path)?];
            const DOC: &'static [&'static str] = &[$($doc),+];

            fn options() -> Vec<$crate::config::section::OptionText> {
                use $crate::config::value::Value;
                vec![$($crate::config::section::OptionText {
                    key: stringify!($option),
                    doc: &[$($option_doc),+],
                    default: None::<String>
                        $(.or($crate::config::section::default_text::<$typ>(&$default)))?,
                    example: None$(.or(Some($example)))?,
                    expected: <$typ as Value>::expected(&None$(.or(Some($limits)))?),
                },)+]
            }

            fn read(table: &mut $crate::config::table::Table<'_, '_>) -> Option<Self> {
                $(
                    let old = &[$($old)?];
                    let limits = None$(.or(Some($limits)))?;
                    let default = None::<$typ>$(.or(Some($default)))?;
                    let $option: Option<$typ> =
                        table.take_or(stringify!($option), old, limits, default);
                )+
                Some($name { $($option: $option?,)+ })
            }
        }
    };
}

pub use {item, section};

//! Types of options: how each is read from TOML, written, and described.

use core::ops::RangeInclusive;
use nw_name::Name;
use nw_trust::Pattern;
use std::net::SocketAddr;
use std::path::PathBuf;
pub use toml::de::DeValue;

/// Limits of a number.
pub type Limits = Option<RangeInclusive<u64>>;

/// A type that options can have.
pub trait Value: Sized {
    /// From TOML; `None` when it is something else, or beyond the limits.
    fn read(value: &DeValue<'_>, limits: &Limits) -> Option<Self>;

    /// As it stands behind `=`; `None` when the option is left out.
    fn write(&self) -> Option<String>;

    /// What a reader is told when it is something else.
    fn expected(limits: &Limits) -> String;

    /// What stands for a value that must be there and can't be read, so that the rest of its item is checked nevertheless. `None` where nothing can.
    fn blank() -> Option<Self> {
        None
    }
}

impl Value for bool {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        value.as_bool()
    }

    fn write(&self) -> Option<String> {
        Some(self.to_string())
    }

    fn expected(_: &Limits) -> String {
        "true or false".to_owned()
    }
}

macro_rules! integers {
    ($($typ:ty),+) => {
        $(impl Value for $typ {
            fn read(value: &DeValue<'_>, limits: &Limits) -> Option<Self> {
                let integer = value.as_integer()?;
                let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
                if limits.as_ref().is_some_and(|limits| !limits.contains(&number)) {
                    return None;
                }
                number.try_into().ok()
            }

            fn write(&self) -> Option<String> {
                Some(self.to_string())
            }

            fn expected(limits: &Limits) -> String {
                let (least, most) = limits.clone().unwrap_or(0..=u64::from(<$typ>::MAX)).into_inner();
                format!("an integer from {least} to {most}")
            }
        })+
    };
}

integers!(u32, u64);

/// Permissions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u32);

impl Value for Mode {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let integer = value.as_integer().filter(|integer| integer.radix() == 8)?;
        u32::from_str_radix(integer.as_str(), 8).ok().filter(|mode| *mode <= 0o777).map(Mode)
    }

    fn write(&self) -> Option<String> {
        Some(format!("0o{:o}", self.0))
    }

    fn expected(_: &Limits) -> String {
        "an octal number from 0o0 to 0o777, such as 0o666".to_owned()
    }
}

impl Value for String {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn write(&self) -> Option<String> {
        Some(quote(self))
    }

    fn expected(_: &Limits) -> String {
        "text in quotes".to_owned()
    }

    fn blank() -> Option<Self> {
        Some(String::new())
    }
}

impl Value for Pattern {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        value.as_str()?.parse().ok()
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }

    fn expected(_: &Limits) -> String {
        "a pattern of names in quotes, such as \"/site/<who>/KEY/<_>\"".to_owned()
    }
}

impl Value for PathBuf {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        value.as_str().filter(|path| !path.is_empty() && !path.contains('\0')).map(PathBuf::from)
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.to_string_lossy()))
    }

    fn expected(_: &Limits) -> String {
        "a path in quotes".to_owned()
    }
}

impl Value for SocketAddr {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        value.as_str()?.parse().ok()
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }

    fn expected(_: &Limits) -> String {
        "an address and port in quotes, such as \"0.0.0.0:6363\" or \"[::1]:6363\"".to_owned()
    }
}

impl Value for Name {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        value.as_str()?.parse().ok()
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }

    fn expected(_: &Limits) -> String {
        "a name in quotes, such as \"/example/site\"".to_owned()
    }
}

/// Where a page comes from, as browsers write it in `Origin`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(pub String);

impl Value for Origin {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let origin = value.as_str()?;
        let (scheme, host) = origin.split_once("://")?;
        let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
        // Anything more, a path or a last slash, is never equal to what a browser writes.
        (word(scheme) && word(host) && !host.contains('*')).then(|| Origin(origin.to_ascii_lowercase()))
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0))
    }

    fn expected(_: &Limits) -> String {
        "an origin in quotes as browsers write it, without a path, such as \"http://localhost:8080\""
            .to_owned()
    }
}

/// Where a face leads, as its URI. Whether it can be made is seen when it is made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uri(pub String);

impl Value for Uri {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let uri = value.as_str()?;
        let (scheme, rest) = uri.split_once("://")?;
        let known = ["unix", "shm", "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6", "ws", "ether", "dev"]
            .contains(&scheme);
        (known && !rest.is_empty()).then(|| Uri(uri.to_owned()))
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0))
    }

    fn expected(_: &Limits) -> String {
        "a face URI in quotes: unix:///path, shm:///path, tcp4://, tcp6://, udp4://, udp6:// or ws:// with an address and perhaps a port, ether://[08:00:27:01:02:03], or dev:// and an interface".to_owned()
    }
}

/// Where strategies have their names.
const STRATEGY_PREFIX: &str = "/localhost/nfd/strategy/";
/// The strategies there are, by their short names. A test of the router holds this to the catalogue.
pub const STRATEGIES: [&str; 10] = [
    "best-route",
    "multicast",
    "asf",
    "self-learning",
    "random",
    "access",
    "weighted",
    "hash",
    "round-robin",
    "fail-over",
];

/// A strategy's whole name. Written short, as in `best-route`, or whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyName(pub Name);

impl Value for StrategyName {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let text = value.as_str().filter(|text| !text.is_empty())?;
        let whole = if text.starts_with('/') { text.to_owned() } else { format!("{STRATEGY_PREFIX}{text}") };
        whole.parse().ok().map(StrategyName)
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }

    fn expected(_: &Limits) -> String {
        format!(
            "a strategy in quotes: its short name, such as \"multicast\", or its whole one, \"{STRATEGY_PREFIX}multicast\""
        )
    }
}

/// Levels of the log, from little to much.
const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Parts of the program that may have levels of their own.
pub const LOG_PARTS: [&str; 13] = [
    "api", "app", "balancer", "bench", "cli", "element", "elements", "faces", "name", "rest", "router",
    "tables", "trust",
];

/// What is logged: a level, and others for some parts, as in `info,router=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        LogFilter("info".to_owned())
    }
}

impl Value for LogFilter {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let text = value.as_str().filter(|text| !text.is_empty())?;
        let part = |part: &str| LOG_PARTS.contains(&part.strip_prefix("nw_").unwrap_or(part));
        let fits = text.split(',').map(str::trim).all(|directive| match directive.split_once('=') {
            Some((name, level)) => part(name.trim()) && LOG_LEVELS.contains(&level.trim()),
            None => LOG_LEVELS.contains(&directive),
        });
        fits.then(|| LogFilter(text.to_owned()))
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0))
    }

    fn expected(_: &Limits) -> String {
        "a level in quotes, one of \"error\", \"warn\", \"info\", \"debug\", \"trace\", or with levels of parts, such as \"info,router=debug\"".to_owned()
    }
}

impl<T: Value> Value for Option<T> {
    fn read(value: &DeValue<'_>, limits: &Limits) -> Option<Self> {
        T::read(value, limits).map(Some)
    }

    fn write(&self) -> Option<String> {
        self.as_ref().and_then(T::write)
    }

    fn expected(limits: &Limits) -> String {
        T::expected(limits)
    }
}

impl<T: Value> Value for Vec<T> {
    fn read(value: &DeValue<'_>, limits: &Limits) -> Option<Self> {
        value.as_array()?.iter().map(|item| T::read(item.get_ref(), limits)).collect()
    }

    fn write(&self) -> Option<String> {
        let items: Vec<String> = self.iter().filter_map(T::write).collect();
        Some(format!("[{}]", items.join(", ")))
    }

    fn expected(limits: &Limits) -> String {
        format!("a list in brackets, each item {}", T::expected(limits))
    }

    fn blank() -> Option<Self> {
        Some(Vec::new())
    }
}

/// Text as TOML has it, in quotes.
pub fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Declares a type of option that is one of a few words.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$item_meta:meta])* $item:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$item_meta])* $item,)+ }

        impl $name {
            /// The word in the file.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$item => $word,)+ }
            }
        }

        impl $crate::config::value::Value for $name {
            fn read(value: &$crate::config::value::DeValue<'_>, _: &$crate::config::value::Limits) -> Option<Self> {
                match value.as_str()? { $($word => Some($name::$item),)+ _ => None }
            }

            fn write(&self) -> Option<String> {
                Some($crate::config::value::quote(self.as_str()))
            }

            fn expected(_: &$crate::config::value::Limits) -> String {
                let words = [$($word),+].map($crate::config::value::quote);
                format!("one of {}", words.join(", "))
            }
        }
    };
}

pub use words;

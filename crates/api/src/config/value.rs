//! Types of options: how each is read from TOML, written, and described.

use core::ops::RangeInclusive;
use nw_name::Name;
use nw_trust::Pattern;
use std::net::SocketAddr;
use std::path::PathBuf;
pub use toml::de::DeValue;

/// Inclusive limits of a number; `None`: those of its type.
pub type Limits = Option<RangeInclusive<u64>>;

/// The type of an option.
pub trait Value: Sized {
    /// Reads a value from TOML. `None` if it has another type or exceeds the limits.
    fn read(value: &DeValue<'_>, limits: &Limits) -> Option<Self>;

    /// Returns the value as TOML. `None` if the option is not set.
    fn write(&self) -> Option<String>;

    /// Returns type and limits, as error messages state them.
    fn expected(limits: &Limits) -> String;

    /// Returns a placeholder for a mandatory value that could not be read, so that the other
    /// options of its item are checked. `None` if there is no placeholder.
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
                let (min, max) = limits.clone().unwrap_or(0..=u64::from(<$typ>::MAX)).into_inner();
                format!("an integer from {min} to {max}")
            }
        })+
    };
}

integers!(u32, u64);

/// The permission bits of a file.
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

/// The origin of a web page, as browsers send it in the header `Origin`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(pub String);

impl Value for Origin {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let origin = value.as_str()?;
        let (scheme, host) = origin.split_once("://")?;
        let is_part = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
        };
        // A path or a trailing slash is refused, as it would never equal a browser's origin.
        (is_part(scheme) && is_part(host) && !host.contains('*'))
            .then(|| Origin(origin.to_ascii_lowercase()))
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0))
    }

    fn expected(_: &Limits) -> String {
        "an origin in quotes as browsers write it, without a path, such as \
         \"http://localhost:8080\""
            .to_owned()
    }
}

/// A face URI. Only its scheme is checked here; whether a face can be created is checked later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uri(pub String);

impl Value for Uri {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let uri = value.as_str()?;
        let (scheme, authority) = uri.split_once("://")?;
        let is_known =
            ["unix", "shm", "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6", "ws", "ether", "dev"]
                .contains(&scheme);
        (is_known && !authority.is_empty()).then(|| Uri(uri.to_owned()))
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0))
    }

    fn expected(_: &Limits) -> String {
        "a face URI in quotes: unix:///path, shm:///path, tcp4://, tcp6://, udp4://, udp6:// or \
         ws:// with an address and perhaps a port, ether://[08:00:27:01:02:03], or dev:// and an \
         interface"
            .to_owned()
    }
}

/// Prefix of strategy names.
const STRATEGY_PREFIX: &str = "/localhost/nfd/strategy/";
/// All strategies, by their short names. A test of the router compares this with the catalogue.
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

/// The full name of a strategy. In the file it may be short, as in `best-route`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyName(pub Name);

impl Value for StrategyName {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let text = value.as_str().filter(|text| !text.is_empty())?;
        let full = if text.starts_with('/') {
            text.to_owned()
        } else {
            format!("{STRATEGY_PREFIX}{text}")
        };
        full.parse().ok().map(StrategyName)
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }

    fn expected(_: &Limits) -> String {
        format!(
            "a strategy in quotes: its short name, such as \"multicast\", or its full name, \
             \"{STRATEGY_PREFIX}multicast\""
        )
    }
}

/// Log levels, from least to most detailed.
const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Parts of the program that can have a log level of their own.
pub const LOG_PARTS: [&str; 13] = [
    "api", "app", "balancer", "bench", "cli", "element", "elements", "faces", "name", "rest",
    "router", "tables", "trust",
];

/// A log filter: a level, and levels for parts of the program, as in `info,router=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// Returns the text of the filter.
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
        let is_part = |part: &str| LOG_PARTS.contains(&part.strip_prefix("nw_").unwrap_or(part));
        let fits =
            text.split(',').map(str::trim).all(|directive| match directive.split_once('=') {
                Some((name, level)) => is_part(name.trim()) && LOG_LEVELS.contains(&level.trim()),
                None => LOG_LEVELS.contains(&directive),
            });
        fits.then(|| LogFilter(text.to_owned()))
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0))
    }

    fn expected(_: &Limits) -> String {
        "a level in quotes, one of \"error\", \"warn\", \"info\", \"debug\", \"trace\", or with \
         levels for parts of the program, such as \"info,router=debug\""
            .to_owned()
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

/// Returns text as a TOML string.
pub fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Declares an enum whose values are strings in the file.
#[macro_export]
macro_rules! string_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$item_meta:meta])* $item:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$item_meta])* $item,)+ }

        impl $name {
            /// Returns the string in the file.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$item => $word,)+ }
            }
        }

        impl $crate::config::value::Value for $name {
            fn read(
                value: &$crate::config::value::DeValue<'_>,
                _: &$crate::config::value::Limits,
            ) -> Option<Self> {
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

pub use string_enum;

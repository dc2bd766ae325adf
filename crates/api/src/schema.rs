//! OpenAPI schemas of strings with a syntax: names, face URIs, enumerations.
//!
//! The types here are only used as the schema of a field (`value_type`); the server parses the text
//! with the type that owns the syntax. `tests/rest` compares the patterns with those parsers.

use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// Pattern of a component's value: unescaped characters, or `%` and two hexadecimal digits. A value
/// of periods only has three more. `$first` and `$other`: characters that need an escape at the
/// first and at other positions.
macro_rules! value {
    ($first:literal, $other:literal) => {
        concat!(
            r"(?:\.*(?:[^",
            $first,
            "]|%[0-9A-Fa-f]{2})(?:[^",
            $other,
            "]|%[0-9A-Fa-f]{2})*",
            r"|\.{3,})"
        )
    };
}

macro_rules! component {
    () => {
        concat!(
            "(?:",
            value!("./%=", "/%="),
            "|(?:seg|off|v|t|seq)=[0-9]{1,19}",
            "|(?:sha256digest|params-sha256)=[0-9A-Fa-f]{64}",
            "|(?:[3-9]|[1-9][0-9]{1,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]",
            "|6553[0-5])=",
            value!("./%", "/%"),
            ")"
        )
    };
}

/// Pattern of a name; `$more` is the repetition of components after the first.
macro_rules! name_pattern {
    ($more:literal) => {
        concat!(
            "^(?:ndn:)?(?:/|//[^/]*/?|(?://[^/]*)?/",
            component!(),
            "(?:/",
            component!(),
            ")",
            $more,
            "/?)$"
        )
    };
}

macro_rules! number {
    (port) => {
        "(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
    };
    (byte) => {
        "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
    };
}

macro_rules! face_uri_pattern {
    () => {
        concat!(
            "^(?:(?:udp|tcp|ws)4?://",
            number!(byte),
            r"(?:\.",
            number!(byte),
            "){3}(?::",
            number!(port),
            ")?/?",
            r"|(?:udp|tcp|ws)6?://\[[0-9A-Fa-f:.]{2,45}(?:%[0-9A-Za-z._-]{1,15})?\](?::",
            number!(port),
            ")?/?",
            r"|(?:unix|shm):///[^\x00]+",
            r"|ether://\[[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\]",
            "|dev://[!-.0-9;-~]{1,15}",
            "|null://)$"
        )
    };
}

/// Pattern of a log level, or of a level for a part of the program.
macro_rules! log_directive {
    () => {
        concat!(
            "(?:[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*=)?",
            "(?:off|error|warn|info|debug|trace)"
        )
    };
}

macro_rules! texts {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident: $pattern:expr, $min:literal, $max:expr, $example:literal;
    )+) => {
        $(
            $(#[doc = $doc])*
            #[derive(Debug)]
            pub struct $name;

            impl $name {
                /// The pattern of the text, as in JSON Schema.
                pub const PATTERN: &'static str = $pattern;
            }

            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    ObjectBuilder::new()
                        .schema_type(Type::String)
                        .description(Some(concat!($($doc),*).trim()))
                        .pattern(Some($pattern))
                        .min_length(Some($min))
                        .max_length($max)
                        .examples([$example])
                        .into()
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed(stringify!($name))
                }
            }
        )+
    };
}

texts! {
    /// A name as an NDN URI.
    NameText: name_pattern!("*"), 1, None, "/example";
    /// A name of at most 32 components, as a URI.
    PrefixText: name_pattern!("{0,31}"), 1, None, "/example";
    /// A name of at least one component, as a URI.
    NamedPrefixText:
        concat!("^(?:ndn:)?(?://[^/]*)?/", component!(), "(?:/", component!(), "){0,31}/?$"),
        2, None, "/example";
    /// A face URI with a numeric address; clients resolve host names.
    FaceUriText: face_uri_pattern!(), 7, None, "udp4://192.0.2.1:6363";
    /// The origin of a route: a word, or a number.
    OriginText:
        concat!(
            "^(?:app|static|client|autoreg|autoconf|nlsr|prefixann",
            "|[0-9]{1,19}|1[0-7][0-9]{18}|18[0-3][0-9]{17})$"
        ),
        1, Some(20), "static";
    /// A flag of a face: its name, or the number of a bit without a name.
    FaceFlagText:
        "^(?:local-fields|reliability|congestion-marking|[0-9]{1,20})$",
        1, Some(20), "congestion-marking";
    /// A flag of a route: its name, or the number of a bit without a name.
    RouteFlagText: "^(?:child-inherit|capture|[0-9]{1,20})$", 1, Some(20), "child-inherit";
    /// A flag of the content store: its name, or the number of a bit without a name.
    CsFlagText: "^(?:admit|serve|[0-9]{1,20})$", 1, Some(20), "admit";
    /// A strategy: its short name, or a full name, optionally with parameters.
    StrategyText:
        concat!("^(?:[a-z][a-z-]*|/", component!(), "(?:/", component!(), ")*/?)$"),
        1, None, "multicast";
    /// Kinds of packets, separated by commas.
    PacketKindsText:
        "^(?:interest|data|nack)(?:,(?:interest|data|nack))*$",
        4, None, "interest,data";
    /// A log level, and levels for parts of the program, separated by commas.
    LogFilterText:
        concat!("^ *", log_directive!(), "(?: *, *", log_directive!(), ")* *$"),
        3, None, "info,router=debug";
    /// Name of a member of a cluster.
    MemberNameText: "^[A-Za-z0-9_-]{1,32}$", 1, Some(32), "m4";
    /// A weight: a number, or `measured`.
    WeightText: "^(?:measured|[1-9][0-9]{0,5}|1000000)$", 1, Some(8), "100";
}

/// A capture in the format pcapng, binary.
#[derive(Debug)]
pub struct Pcapng;

impl PartialSchema for Pcapng {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::Custom("binary".to_owned());
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl ToSchema for Pcapng {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Pcapng")
    }
}

/// An IP address.
#[derive(Debug)]
pub struct HostAddressText;

impl PartialSchema for HostAddressText {
    fn schema() -> RefOr<Schema> {
        let address = |format: &str| {
            let format = SchemaFormat::Custom(format.to_owned());
            ObjectBuilder::new().schema_type(Type::String).format(Some(format))
        };
        AnyOfBuilder::new()
            .item(address("ipv4"))
            .item(address("ipv6"))
            .description(Some("An IP address."))
            .into()
    }
}

impl ToSchema for HostAddressText {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("HostAddressText")
    }
}

//! Messages of a network manager about users, keys and routes that persons set, as JSON.

use crate::schema::NameText;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a user may do: each role may do all that the ones before it may.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Look at everything but tokens.
    #[default]
    Viewer,
    /// Change documents, numbers of instances, routes, countermeasures.
    Operator,
    /// Change keys, tokens and hosts; stop the network.
    Admin,
}

impl Role {
    /// All roles, by their names.
    pub const NAMES: [(&'static str, Role); 3] =
        [("viewer", Role::Viewer), ("operator", Role::Operator), ("admin", Role::Admin)];

    /// Returns the name as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

/// `POST /v1/tokens`: a token to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Name: 1 to 63 letters, digits, `-`, `_` and `.`. An earlier token of the name is void.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9_.-]+$")]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Seconds until it expires.
    #[schema(minimum = 1, maximum = 315_360_000)]
    pub valid_s: u64,
}

/// The response to `POST /v1/tokens`. The text is not stored and can't be shown again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// Text to be sent as `Authorization: Bearer TEXT`.
    pub token: String,
}

/// `GET /v1/tokens`: a token, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UserToken {
    /// Name, which is the author of its changes.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Milliseconds since 1970 when it was made.
    pub created_ms: u64,
    /// Milliseconds since 1970 when it expires.
    pub expires_ms: u64,
    /// What made it.
    pub author: String,
}

/// What a key of the network is trusted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyUse {
    /// Chains of certificates may end in it.
    Anchor,
    /// Chains to an anchor may need it; it is trusted only by them.
    Certificate,
}

/// `GET /v1/keys`: what verifiers and registration ports of the network trust.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkTrust {
    /// Anchors and certificates.
    pub keys: Vec<NetworkKey>,
    /// Which keys may sign, and register, which names.
    pub rules: Vec<KeyRule>,
}

/// An anchor or a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkKey {
    /// Name of the certificate.
    pub name: String,
    /// What it is trusted for.
    pub r#use: KeyUse,
    /// The certificate, a Data packet in base64.
    pub certificate: String,
    /// Whether the document names it: then it is removed there.
    pub document: bool,
    /// What added it; empty if the document did.
    pub author: String,
}

/// `POST /v1/keys`: an anchor or a certificate to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyAddition {
    /// What it is trusted for.
    pub r#use: KeyUse,
    /// The certificate, a Data packet in base64; white space is ignored.
    pub certificate: String,
}

/// A rule: keys of these names may sign, and register, these names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct KeyRule {
    /// Pattern of names, such as `/site/<who>/<..>`.
    pub names: String,
    /// Pattern of the names of keys, such as `/site/<who>/KEY/<_>`.
    pub keys: String,
    /// Whether the document has it: then it is removed there.
    pub document: bool,
    /// What added it; empty if the document did.
    pub author: String,
}

/// `POST /v1/key-rules` and `POST /v1/key-rules/remove`: a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRuleText {
    /// Pattern of names, such as `/site/<who>/<..>`.
    pub names: String,
    /// Pattern of the names of keys, such as `/site/<who>/KEY/<_>`.
    pub keys: String,
}

/// `POST /v1/routes` and `POST /v1/routes/remove`: a route that leads out of the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonRoute {
    /// Prefix.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Element of the document that routes by name.
    pub element: String,
    /// Face of the document at that element.
    pub face: String,
    /// Cost beyond the face; no effect when a route is removed.
    #[serde(default)]
    #[schema(maximum = 4_294_967_295_u64)]
    pub cost: u64,
}

//! Parsers of values that several commands accept.

use anyhow::{Context, Result};
use nw_api::management::origin;
use nw_app::FaceUri;

/// Parses the origin of a route: a word such as `static`, or a number.
pub(crate) fn origin_number(text: &str) -> Result<u64> {
    origin::from_word(text).with_context(|| {
        format!(
            "{text} is not an origin: use app, static, client, autoreg, autoconf, nlsr, or a number"
        )
    })
}

/// Parses a face URI and resolves a host name in it to an address, as routers do not resolve names.
pub(crate) fn canonical_uri(uri: &str) -> Result<String> {
    let parsed: FaceUri = uri.parse().with_context(|| format!("{uri} is not a face URI"))?;
    parsed
        .resolve()?
        .first()
        .map(FaceUri::to_string)
        .with_context(|| format!("{uri} has no address"))
}

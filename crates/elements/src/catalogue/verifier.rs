//! Parameters of `signature_verifier`.

use super::Configured;
use crate::signature_verifier::{self, TrustConfig, TrustRule};
use crate::{SignatureVerifier, SignatureVerifierConfig};
use nw_element_api::parameters::{ParameterInfo, ParameterReader};
use nw_element_api::{Context, Timestamp};
use nw_name::Name;
use nw_trust::{Anchor, VerifyKey, certificate};
use nw_wire::certificate::Certificate;

impl Configured for SignatureVerifier {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed("results", "16384", "most packets whose result is remembered; 0 for none"),
        ParameterInfo::fixed(
            "queue_max",
            "0",
            "most packets held for other threads, one per further processor; 0: each is verified at once, in order",
        )
        .formerly("held"),
        ParameterInfo::fixed("failures", "64", "failures kept for status"),
        ParameterInfo::live("keys", "[]", "certificates (base64) of keys that are trusted at all times"),
        ParameterInfo::live("secrets", "[]", "\"/name/of/key HEX\": shared secrets of HMAC signatures"),
        ParameterInfo::live("anchors", "[]", "certificates (base64) of trust anchors"),
        ParameterInfo::live("certificates", "[]", "certificates (base64) that chains to anchors may need"),
        ParameterInfo::live(
            "rules",
            "[]",
            "\"/data/<who>/<..> by /site/<who>/KEY/<_>\": which keys may sign which names; none: any trusted key",
        ),
        ParameterInfo::live("digest", "false", "whether a plain digest is accepted"),
        ParameterInfo::live("sample", "1", "share of the packets that is checked"),
        ParameterInfo::live(
            "on_invalid",
            "drop",
            "what happens to packets that are not valid: drop, or port (they leave by invalid)",
        )
        .formerly("invalid")
        .gates("invalid"),
        ParameterInfo::live("start_s", "the host's", "wall clock at the start of the host, seconds since 1970, for validity of certificates"),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let defaults = SignatureVerifierConfig::default();
        SignatureVerifier::new(SignatureVerifierConfig {
            results_max: reader.integer("results", defaults.results_max as u64, 0..=1 << 24)
                as usize,
            queue_max: reader.integer("queue_max", 0, 0..=1 << 16) as usize,
            failures_max: reader.integer("failures", defaults.failures_max as u64, 0..=1 << 16)
                as usize,
            seed: reader.context().seed,
            ..defaults
        })
    }

    fn apply(
        &mut self,
        _: Timestamp,
        reader: &mut ParameterReader<'_>,
        _: &mut Context<'_, signature_verifier::Out>,
    ) {
        let mut trust =
            TrustConfig { accept_digest: reader.bool("digest", false), ..TrustConfig::default() };
        for wire in certificates(reader, "keys") {
            let known = Certificate::check(&wire).ok().and_then(|certificate| {
                let key = VerifyKey::from_spki(certificate.public_key()).ok()?;
                Some((certificate.key_name().to_name(), key))
            });
            match known {
                Some(known) => trust.keys.push(known),
                None => reader.error("keys", "a certificate has a key of an unknown type"),
            }
        }
        for text in reader.strings("secrets") {
            trust.keys.extend(secret(reader, text));
        }
        for wire in certificates(reader, "anchors") {
            match Anchor::from_certificate(&wire) {
                Ok(anchor) => trust.anchors.push(anchor),
                Err(error) => reader.error("anchors", error.to_string()),
            }
        }
        for text in reader.strings("rules") {
            match rule(text) {
                Ok(rule) => trust.rules.push(rule),
                Err(error) => reader.error("rules", format!("{text:?}: {error}")),
            }
        }
        self.set_trust(trust);
        for refusal in self.set_certificates(&certificates(reader, "certificates")) {
            reader.error("certificates", format!("{refusal:?}"));
        }
        self.set_sample(reader.number("sample", 1.0, 0.0..=1.0));
        self.set_drop_invalid(reader.choice("on_invalid", 0, &["drop", "port"]) == 0);
        let start_s = reader.integer("start_s", u64::MAX, 0..=1 << 40);
        self.set_follow_host_clock(start_s == u64::MAX);
        let start_s =
            if start_s == u64::MAX { reader.context().start_unix_ms / 1000 } else { start_s };
        self.set_clock(Timestamp::START, start_s * 1000);
    }
}

/// Reads a list of certificates in base64. Returns the encoded packets.
pub(super) fn certificates(reader: &mut ParameterReader<'_>, name: &str) -> Vec<Vec<u8>> {
    let mut wires = Vec::new();
    for text in reader.strings(name) {
        match certificate::read_file(text.as_bytes()) {
            Ok(wire) => wires.push(wire),
            Err(error) => reader.error(
                name,
                format!(
                    "{:?} … is not a certificate: {error}; the output of `nw cert export` is expected",
                    head(text)
                ),
            ),
        }
    }
    wires
}

/// Returns the first characters of a text, for messages.
fn head(text: &str) -> &str {
    text.get(..text.len().min(16)).unwrap_or_default()
}

/// `/name/of/key HEX`.
fn secret(reader: &mut ParameterReader<'_>, text: &str) -> Option<(Name, VerifyKey)> {
    let (uri, hex) = text.split_once(' ').unwrap_or((text, ""));
    let name = reader.name("secrets", uri)?;
    let digits = hex.trim();
    let byte =
        |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    match bytes.filter(|bytes| !bytes.is_empty()) {
        Some(bytes) => Some((name, VerifyKey::from_secret(&bytes))),
        None => {
            reader.error(
                "secrets",
                format!("{uri}: a name and pairs of hexadecimal digits are expected"),
            );
            None
        }
    }
}

/// Parses `NAMES by KEYS`.
pub(super) fn rule(text: &str) -> Result<TrustRule, String> {
    let (data, signer) = text.split_once(" by ").ok_or("NAMES by KEYS is expected")?;
    let parse = |text: &str| {
        text.trim().parse().map_err(|error: nw_trust::pattern::PatternError| error.to_string())
    };
    let rule = TrustRule { data: parse(data)?, signer: parse(signer)? };
    match rule.data.has_consistent_variables(&rule.signer) {
        true => Ok(rule),
        false => Err("a variable is one component or any number, not both".to_owned()),
    }
}

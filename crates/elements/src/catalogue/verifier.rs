//! The signature verifier, made from parameters.

use super::{Configured, fixed, live};
use crate::signature_verifier::{self, TrustConfig, TrustRule};
use crate::{SignatureVerifier, SignatureVerifierConfig};
use nw_element_api::parameters::{ParameterInfo, Reader};
use nw_element_api::{Context, Instant};
use nw_name::Name;
use nw_trust::{Anchor, VerifyKey, certificate};
use nw_wire::certificate::Certificate;

impl Configured for SignatureVerifier {
    const PARAMETERS: &'static [ParameterInfo] = &[
        fixed("results", "16384", "packets of which is remembered what came of them; 0 for none"),
        fixed(
            "held",
            "0",
            "packets that may wait for other threads, one for each further processor; 0: each is verified at once, in order",
        ),
        fixed("failures", "64", "names that failed and are kept, at most"),
        live("keys", "[]", "certificates (base64) of keys that are believed at all times"),
        live("secrets", "[]", "\"/name/of/key HEX\": shared secrets of HMAC signatures"),
        live("anchors", "[]", "certificates (base64) of keys that are believed, with all they vouch for"),
        live("certificates", "[]", "certificates (base64) that chains to anchors may need"),
        live(
            "rules",
            "[]",
            "\"/data/<who>/<..> by /site/<who>/KEY/<_>\": which keys may sign which names; none: any that is believed",
        ),
        live("digest", "false", "whether a plain digest is enough"),
        live("sample", "1", "share of the packets that is checked"),
        live(
            "invalid",
            "drop",
            "what becomes of packets that are not valid: drop, or port (they leave by it)",
        ),
        live("start_s", "the host's", "seconds since 1970 when the host began: certificates have a time"),
    ];

    fn make(reader: &mut Reader<'_>) -> Self {
        let defaults = SignatureVerifierConfig::default();
        SignatureVerifier::new(SignatureVerifierConfig {
            results_max: reader.integer("results", defaults.results_max as u64, 0..=1 << 24) as usize,
            held_max: reader.integer("held", 0, 0..=1 << 16) as usize,
            failures_max: reader.integer("failures", defaults.failures_max as u64, 0..=1 << 16) as usize,
            seed: reader.making().seed,
            ..defaults
        })
    }

    fn apply(&mut self, _: Instant, reader: &mut Reader<'_>, _: &mut Context<'_, signature_verifier::Out>) {
        let mut trust = TrustConfig { accept_digest: reader.bool("digest", false), ..TrustConfig::default() };
        for wire in certificates(reader, "keys") {
            let known = Certificate::check(&wire).ok().and_then(|certificate| {
                let key = VerifyKey::from_spki(certificate.public_key()).ok()?;
                Some((certificate.key_name().to_name(), key))
            });
            match known {
                Some(known) => trust.keys.push(known),
                None => reader.wrong("keys", "a certificate's key is of no kind that we know"),
            }
        }
        for text in reader.texts("secrets") {
            trust.keys.extend(secret(reader, text));
        }
        for wire in certificates(reader, "anchors") {
            match Anchor::of(&wire) {
                Ok(anchor) => trust.anchors.push(anchor),
                Err(error) => reader.wrong("anchors", error.to_string()),
            }
        }
        for text in reader.texts("rules") {
            match rule(text) {
                Ok(rule) => trust.rules.push(rule),
                Err(error) => reader.wrong("rules", format!("{text:?}: {error}")),
            }
        }
        self.set_trust(trust);
        for wire in certificates(reader, "certificates") {
            if let Err(refusal) = self.add_certificate(&wire) {
                reader.wrong("certificates", format!("{refusal:?}"));
            }
        }
        self.set_sample(reader.number("sample", 1.0, 0.0..=1.0));
        self.set_drop_invalid(reader.word("invalid", 0, &["drop", "port"]) == 0);
        let start_s = reader.integer("start_s", u64::MAX, 0..=1 << 40);
        self.set_follows_clock(start_s == u64::MAX);
        let start_s = if start_s == u64::MAX { reader.making().start_unix_ms / 1000 } else { start_s };
        self.set_clock(Instant::START, start_s * 1000);
    }
}

fn certificates(reader: &mut Reader<'_>, name: &str) -> Vec<Vec<u8>> {
    let mut wires = Vec::new();
    for text in reader.texts(name) {
        match certificate::read_file(text.as_bytes()) {
            Ok(wire) => wires.push(wire),
            Err(error) => reader.wrong(
                name,
                format!(
                    "{:?} … is no certificate: {error}; as `nw cert export` prints it is expected",
                    head(text)
                ),
            ),
        }
    }
    wires
}

fn head(text: &str) -> &str {
    text.get(..text.len().min(16)).unwrap_or_default()
}

/// `/name/of/key HEX`.
fn secret(reader: &mut Reader<'_>, text: &str) -> Option<(Name, VerifyKey)> {
    let (uri, hex) = text.split_once(' ').unwrap_or((text, ""));
    let name = reader.name("secrets", uri)?;
    let digits = hex.trim();
    let octet = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let octets: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(octet).collect();
    match octets.filter(|octets| !octets.is_empty()) {
        Some(octets) => Some((name, VerifyKey::from_secret(&octets))),
        None => {
            reader.wrong("secrets", format!("{uri}: a name and pairs of hexadecimal digits are expected"));
            None
        }
    }
}

fn rule(text: &str) -> Result<TrustRule, String> {
    let (data, signer) = text.split_once(" by ").ok_or("NAMES by KEYS is expected")?;
    let parse =
        |text: &str| text.trim().parse().map_err(|error: nw_trust::pattern::PatternError| error.to_string());
    let rule = TrustRule { data: parse(data)?, signer: parse(signer)? };
    match rule.data.is_tied_well_to(&rule.signer) {
        true => Ok(rule),
        false => Err("a variable is one component or any number, not both".to_owned()),
    }
}

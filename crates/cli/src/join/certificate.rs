//! The certificate of `nw join`: which CA, and what proves to it that the name may be used.

use crate::args::flags::KeyStoreArgs;
use crate::keys::read_certificate;
use crate::signing::credentials;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use nw_app::Client;
use nw_app::enrol::{Answer, Challenge, fetch_profile, obtain_certificate};
use nw_app::keystore::Credentials;
use nw_name::Name;
use nw_trust::Key;
use nw_wire::Sign;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};

/// Longest code that is read, bytes.
const CODE_LEN_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChallengeKind {
    /// A code that the operator of the CA hands out, read from standard input
    Pin,
    /// A certificate of the key store that the CA accepts as a proof
    Possession,
    /// A token that the operator of the CA handed out before
    Token,
}

/// Options of the certificate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Certificate")]
pub struct CaArgs {
    /// Obtain a certificate for the site from the CA of this name prefix (NDNCERT 0.3)
    #[arg(long, value_name = "PREFIX", requires = "ca_certificate")]
    ca: Option<Name>,
    /// The certificate of the CA, obtained on a way that you trust
    #[arg(long, value_name = "FILE", requires = "ca")]
    ca_certificate: Option<PathBuf>,
    /// What proves to the CA that this site may use the name
    #[arg(long, value_enum, default_value = "pin")]
    challenge: ChallengeKind,
    /// Identity, key or certificate of the key store for `--challenge possession`
    #[arg(long, value_name = "NAME", required_if_eq("challenge", "possession"))]
    possession: Option<String>,
    /// File with the token for `--challenge token`; `-` reads it from standard input
    #[arg(long, value_name = "FILE", required_if_eq("challenge", "token"))]
    token: Option<PathBuf>,
}

impl CaArgs {
    /// Returns whether a certificate is wanted.
    pub const fn is_given(&self) -> bool {
        self.ca.is_some()
    }

    /// Returns the prefix of the CA as text.
    pub fn prefix(&self) -> String {
        self.ca.as_ref().map(Name::to_string).unwrap_or_default()
    }

    /// Checks what can be checked before anything is changed.
    pub fn check(&self) -> Result<()> {
        let certificate = self.ca_certificate.as_deref().map(read_certificate).transpose();
        certificate.context("the certificate of the CA can't be used")?;
        match &self.token {
            Some(file) if file.as_os_str() != "-" => read_token(file).map(drop),
            _ => Ok(()),
        }
    }
}

/// Obtains a certificate for a key, and returns it.
pub fn obtain(
    client: &mut Client,
    args: &CaArgs,
    key: &Key,
    store: &KeyStoreArgs,
) -> Result<Vec<u8>> {
    let (Some(prefix), Some(file)) = (&args.ca, &args.ca_certificate) else {
        bail!("a certificate needs --ca and --ca-certificate");
    };
    let anchor = read_certificate(file)?;
    let profile = fetch_profile(client, prefix.as_ref(), &anchor)
        .with_context(|| format!("no profile of the CA {prefix}"))?;
    note!("CA {prefix}: {}", profile.info);
    let mut challenge: Box<dyn Challenge> = match args.challenge {
        ChallengeKind::Pin => Box::new(Pin),
        ChallengeKind::Possession => {
            let name = args.possession.as_ref().context("name a certificate with --possession")?;
            Box::new(Possession(credentials(store, name)?))
        }
        ChallengeKind::Token => {
            let file = args.token.as_ref().context("name a file with --token")?;
            Box::new(Token(read_token(file)?))
        }
    };
    obtain_certificate(client, &profile, key, &mut *challenge)
        .with_context(|| format!("no certificate from the CA {prefix}"))
}

/// Reads a token of at most [`CODE_LEN_MAX`] bytes from the first line of a file.
fn read_token(file: &Path) -> Result<String> {
    let mut line = String::new();
    let read = |reader: &mut dyn BufRead, line: &mut String| {
        reader.take(CODE_LEN_MAX as u64 + 2).read_line(line)
    };
    let done = match file.as_os_str() == "-" {
        true => read(&mut stdin().lock(), &mut line),
        false => File::open(file).and_then(|file| read(&mut BufReader::new(file), &mut line)),
    };
    done.with_context(|| format!("can't read the token in {}", file.display()))?;
    let token = line.trim();
    if token.is_empty() || token.len() > CODE_LEN_MAX {
        bail!("{} has no token of 1 to {CODE_LEN_MAX} bytes in its first line", file.display());
    }
    Ok(token.to_owned())
}

/// The challenge `token`: one message with a token that the CA knows, and that serves once.
struct Token(String);

impl Challenge for Token {
    fn name(&self) -> &'static str {
        "token"
    }

    fn start(&mut self) -> Answer {
        vec![("token", self.0.clone().into_bytes())]
    }

    fn proceed(&mut self, status: &str, _: u64, _: &[(String, Vec<u8>)]) -> Result<Answer, String> {
        Err(format!(
            "the CA does not accept the token ({status}): ask its operator for another one"
        ))
    }
}

/// NDNCERT's challenge `pin`.
struct Pin;

impl Challenge for Pin {
    fn name(&self) -> &'static str {
        "pin"
    }

    fn start(&mut self) -> Answer {
        Vec::new()
    }

    fn proceed(
        &mut self,
        status: &str,
        tries: u64,
        _: &[(String, Vec<u8>)],
    ) -> Result<Answer, String> {
        if status == "wrong-code" {
            note!("the CA does not accept this code");
        }
        if tries == 0 {
            return Err("the CA accepts no further code".to_owned());
        }
        note!("code of the CA ({tries} tries left):");
        let mut code = String::new();
        let read = stdin().lock().read_line(&mut code);
        match (read, code.trim()) {
            (Ok(1..), code) if !code.is_empty() && code.len() <= CODE_LEN_MAX => {
                Ok(vec![("code", code.as_bytes().to_vec())])
            }
            _ => Err("standard input has no code for the CA".to_owned()),
        }
    }
}

/// NDNCERT's challenge `possession`.
struct Possession(Credentials);

impl Challenge for Possession {
    fn name(&self) -> &'static str {
        "possession"
    }

    fn start(&mut self) -> Answer {
        vec![("issued-cert", self.0.certificates[0].clone())]
    }

    fn proceed(
        &mut self,
        status: &str,
        _: u64,
        parameters: &[(String, Vec<u8>)],
    ) -> Result<Answer, String> {
        if status != "need-proof" {
            return Err(format!("the CA does not accept the certificate ({status})"));
        }
        let nonce = parameters.iter().find(|(name, _)| name == "nonce");
        let (_, nonce) = nonce.ok_or("the CA sent no nonce to be signed")?;
        let proof = self.0.key.sign(&[nonce]).map_err(|error| error.to_string())?;
        Ok(vec![("proof", proof)])
    }
}

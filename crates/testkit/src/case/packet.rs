//! Packets as written in a case.

use super::{Args, NameVariables, TestTarget, Tokens, hex, name, number};
use nw_element_api::{FaceId, LinkFields};
use nw_name::Name;
use nw_wire::publication::{EnvelopeBuilder, Fid, Id, Label, Stage, StagedFilter};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, NackReason, Token};

/// The value of `token=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSpec {
    /// Hexadecimal digits.
    Bytes(Vec<u8>),
    /// `@name`: a token that the router sent.
    Variable(String),
    /// `none`.
    Absent,
}

/// The fields of a packet in a line. Fields not given are `None`.
#[derive(Clone, Debug, Default)]
pub struct PacketSpec {
    /// `Interest`, `Data`, `Nack` or `Publication`.
    pub kind: String,
    /// The reason of a Nack.
    pub reason: Option<NackReason>,
    /// Its name; for an Interest with parameters without their digest.
    pub name: Name,
    /// `can-be-prefix`
    pub can_be_prefix: bool,
    /// `must-be-fresh`
    pub must_be_fresh: bool,
    /// `hint=`
    pub hint: Vec<Name>,
    /// `nonce=`
    pub nonce: Option<u32>,
    /// `lifetime=`, milliseconds.
    pub lifetime: Option<u64>,
    /// `hop=`
    pub hop: Option<u8>,
    /// `params=`
    pub params: Option<String>,
    /// `content=`
    pub content: Option<String>,
    /// `freshness=`, milliseconds.
    pub freshness: Option<u64>,
    /// The value of `token=`.
    pub token: Option<TokenSpec>,
    /// `mark=`
    pub mark: u64,
    /// `next-hop=`
    pub next_hop: Option<FaceId>,
    /// `from=`: IncomingFaceId.
    pub from: Option<FaceId>,
    /// `no-cache`
    pub no_cache: bool,
    /// `non-discovery`
    pub non_discovery: bool,
    /// `announcement=`: the announced prefix.
    pub announcement: Option<Name>,
    /// `fid=`, of a publication: 64 hexadecimal digits, or bits joined by `+`.
    pub fid: Fid,
    /// `table=`, of a publication: that of its link identifiers.
    pub table: u8,
    /// `stages=`, of a publication: its identifier in stages instead of `fid` and `table`, each
    /// stage as `ONES.SEED.BITS` with hexadecimal digits, joined by `/`.
    pub stages: Option<Vec<u8>>,
    /// `bytes=`: any bytes instead of a packet.
    pub bytes: Option<Vec<u8>>,
}

/// Returns the bytes of an identifier in stages.
fn stages(text: &str) -> Result<Vec<u8>, String> {
    let fault = |error: nw_wire::Error| format!("{text:?} is no identifier in stages: {error}");
    let mut bytes = vec![text.split('/').count() as u8];
    for stage in text.split('/') {
        let fields =
            stage.split_once('.').and_then(|(ones, rest)| Some((ones, rest.split_once('.')?)));
        let (ones, (seed, bits)) =
            fields.ok_or_else(|| format!("a stage is ONES.SEED.BITS, not {stage:?}"))?;
        let (ones, seed) = (number(ones, "the bits of a link")?, number(seed, "a seed")?);
        Stage { ones, seed, bits: &hex(bits)? }.encode(&mut bytes).map_err(fault)?;
    }
    StagedFilter::check(&bytes).map_err(fault)?;
    Ok(bytes)
}

impl PacketSpec {
    /// Parses the arguments after the face.
    ///
    /// # Errors
    /// When a field is unknown or malformed.
    pub fn parse(
        args: &mut Args<'_>,
        variables: &NameVariables,
        target: &dyn TestTarget,
    ) -> Result<Self, String> {
        let mut spec = PacketSpec {
            kind: args.need("Interest, Data, Nack or bytes=")?.to_owned(),
            ..Default::default()
        };
        if let Some(digits) = spec.kind.strip_prefix("bytes=") {
            spec.bytes = Some(hex(digits)?);
            args.end()?;
            return Ok(spec);
        }
        match spec.kind.as_str() {
            "Interest" | "Data" | "Publication" => {}
            "Nack" => {
                let word = args.need("a reason")?;
                let reasons = [
                    NackReason::None,
                    NackReason::Congestion,
                    NackReason::Duplicate,
                    NackReason::NoRoute,
                ];
                let reason = reasons.into_iter().find(|reason| reason.as_str() == word);
                spec.reason = Some(reason.ok_or_else(|| format!("unknown Nack reason {word:?}"))?);
            }
            other => {
                return Err(format!(
                    "a packet is Interest, Data, Nack, Publication or bytes=, not {other:?}"
                ));
            }
        }
        spec.name = name(args.need("a name")?, variables)?;
        while let Some(word) = args.next() {
            spec.field(word, variables, target)?;
        }
        Ok(spec)
    }

    /// Parses one field.
    fn field(
        &mut self,
        word: &str,
        variables: &NameVariables,
        target: &dyn TestTarget,
    ) -> Result<(), String> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "can-be-prefix" => self.can_be_prefix = true,
            "must-be-fresh" => self.must_be_fresh = true,
            "no-cache" => self.no_cache = true,
            "non-discovery" => self.non_discovery = true,
            "announcement" => self.announcement = Some(name(value, variables)?),
            "hint" => {
                self.hint =
                    value.split(',').map(|uri| name(uri, variables)).collect::<Result<_, _>>()?
            }
            "nonce" => self.nonce = Some(number(value, "a nonce")?),
            "lifetime" => self.lifetime = Some(number(value, "a lifetime")?),
            "hop" => self.hop = Some(number(value, "a hop limit")?),
            "params" => self.params = Some(value.to_owned()),
            "content" => self.content = Some(value.to_owned()),
            "freshness" => self.freshness = Some(number(value, "a freshness period")?),
            "fid" => self.fid = value.parse()?,
            "table" => self.table = number(value, "a table")?,
            "stages" => self.stages = Some(stages(value)?),
            "mark" => self.mark = number(value, "a congestion mark")?,
            "next-hop" => self.next_hop = Some(target.face(value)?),
            "from" => self.from = Some(target.face(value)?),
            "token" if value == "none" => self.token = Some(TokenSpec::Absent),
            "token" => {
                self.token = Some(match value.strip_prefix('@') {
                    Some(variable) => TokenSpec::Variable(variable.to_owned()),
                    None => TokenSpec::Bytes(hex(value)?),
                });
            }
            _ => return Err(format!("unknown field {word:?}")),
        }
        Ok(())
    }

    /// Returns the encoded network packet.
    pub fn encode(&self) -> Vec<u8> {
        if let Some(bytes) = &self.bytes {
            return bytes.clone();
        }
        if self.kind == "Data" {
            return DataBuilder::new(&self.name, self.content.as_deref().unwrap_or("").as_bytes())
                .freshness_ms(self.freshness.unwrap_or(0))
                .encode(&DigestSha256)
                .unwrap_or_else(|never| match never {});
        }
        if self.kind == "Publication" {
            return self.encode_publication();
        }
        let mut builder = InterestBuilder::new(self.name.clone())
            .can_be_prefix(self.can_be_prefix)
            .must_be_fresh(self.must_be_fresh);
        for hint in &self.hint {
            builder = builder.forwarding_hint(hint.clone());
        }
        if let Some(nonce) = self.nonce {
            builder = builder.nonce(nonce);
        }
        if let Some(lifetime_ms) = self.lifetime {
            builder = builder.lifetime_ms(lifetime_ms);
        }
        if let Some(hop_limit) = self.hop {
            builder = builder.hop_limit(hop_limit);
        }
        if let Some(params) = &self.params {
            builder = builder.parameters(params.as_bytes());
        }
        builder.encode()
    }

    /// The labels are those of the name's components.
    fn encode_publication(&self) -> Vec<u8> {
        let digest = |component: nw_name::Component<'_>| nw_wire::sha256(&[component.value()]);
        let label = |component| Label(digest(component).as_chunks().0[0]);
        let ids = [Id::new(self.name.as_ref().components().map(label).collect())];
        let mut encoded = Vec::new();
        EnvelopeBuilder {
            hop_limit: self.hop.unwrap_or(0),
            table: self.table,
            fid: self.fid,
            staged: self.stages.as_deref().and_then(|bytes| StagedFilter::check(bytes).ok()),
            ids: &ids,
            payload: self.content.as_deref().unwrap_or("").as_bytes(),
            ..EnvelopeBuilder::default()
        }
        .encode(&mut encoded)
        .expect("a name and a content of a line fit a packet");
        encoded
    }

    /// Returns the announcement received with it; empty for none.
    pub fn announcement(&self) -> Vec<u8> {
        self.announcement.as_ref().map_or(Vec::new(), announce)
    }

    /// Returns the link header fields, as received.
    ///
    /// # Errors
    /// When a token is too long, or its variable is not known yet.
    pub fn link(&self, tokens: &Tokens) -> Result<LinkFields, String> {
        let token = match &self.token {
            None | Some(TokenSpec::Absent) => Token::NONE,
            Some(TokenSpec::Bytes(bytes)) => {
                Token::new(bytes).ok_or("a token has at most 32 bytes")?
            }
            Some(TokenSpec::Variable(name)) => {
                let bytes =
                    tokens.get(name).ok_or_else(|| format!("token @{name} is not known yet"))?;
                Token::new(bytes).ok_or("a token has at most 32 bytes")?
            }
        };
        Ok(LinkFields {
            token,
            nack: self.reason,
            congestion_mark: self.mark,
            next_hop_face: self.next_hop,
            no_cache: self.no_cache,
            non_discovery: self.non_discovery,
            ..LinkFields::default()
        })
    }
}

/// Returns an announcement of a prefix, signed by a digest only.
pub fn announce(prefix: &Name) -> Vec<u8> {
    let name = prefix
        .clone()
        .with(nw_name::convention::PREFIX_ANNOUNCEMENT)
        .with_version(1)
        .with_segment(0);
    DataBuilder::new(&name, b"").encode(&DigestSha256).unwrap_or_else(|never| match never {})
}

//! Access control for commands: the configuration's rules over `nw-trust`, and the certificates
//! that must be fetched to apply them.

use crate::StartError;
use nw_api::config::file::{KEY_MAX, read_bytes, read_text};
use nw_api::config::{self, AnchorItem, Config, TcpCommands};
use nw_api::management::Verb;
use nw_api::management::command::{self, Request};
use nw_control::{Authorize, Ingress, Verdict};
use nw_element_api::{FaceId, SharedPool, Shortages, Timestamp};
use nw_faces::FaceUri;
use nw_name::{Name, NameRef};
use nw_trust::chain::AnchorSet;
use nw_trust::fetch::FetchShortages;
use nw_trust::{
    AllowFrom, AllowRule, Anchor, AuthorizationRequest, Clocks, CommandRules, Decision, IssuerRule,
    Key, Requester, Rules, Signer, VerifyKey, certificate,
};
use nw_wire::certificate::Certificate;
use nw_wire::{Data, Interest, InterestBuilder, LpHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Trust anchors of all files and folders together.
const ANCHORS_MAX: usize = 4096;
/// Subject of a refusal that is not about a command.
const ANNOUNCEMENT: &str = "the prefix announcement";
/// File name extensions of certificates in a folder of anchors.
const CERTIFICATE_EXTENSIONS: [&str; 3] = ["cert", "ndncert", "pem"];

/// The rules, and the commands that wait for certificates.
#[derive(Debug)]
pub struct Authority {
    trust: nw_trust::Authority,
    shortages: Shortages,
    /// Commands accepted over TCP, and the local faces that are TCP or WebSocket connections.
    tcp: TcpCommands,
    tcp_faces: BTreeSet<FaceId>,
}

impl Authority {
    /// Reads the rules of a configuration and their files. `unix_ms` is the current time in
    /// milliseconds since 1970.
    ///
    /// # Errors
    /// If a file with a key or an anchor can't be read.
    pub fn new(config: &Config, unix_ms: u64) -> Result<Self, StartError> {
        let trust = nw_trust::Authority::new(rules(config, unix_ms)?);
        Ok(Authority {
            trust,
            shortages: Shortages::default(),
            tcp: config.management.tcp,
            tcp_faces: BTreeSet::new(),
        })
    }

    /// Sets which commands are accepted over TCP.
    pub const fn restrict_tcp(&mut self, tcp: TcpCommands) {
        self.tcp = tcp;
    }

    /// Records that a face was created or closed.
    pub fn record_face(&mut self, id: FaceId, uri: &FaceUri, exists: bool) {
        if !exists {
            self.tcp_faces.remove(&id);
        } else if matches!(uri, FaceUri::Tcp(_) | FaceUri::Ws(_) | FaceUri::WsClient(_)) {
            self.tcp_faces.insert(id);
        }
    }

    /// Returns why a command is refused because of the connection it arrived on. `None` if it is
    /// not. Faces to other machines have rules of their own.
    fn tcp_refusal(&self, ingress: Ingress, interest: &Interest<'_>) -> Option<&'static str> {
        if self.tcp == TcpCommands::All || !ingress.local || !self.tcp_faces.contains(&ingress.face)
        {
            return None;
        }
        let is_own =
            |face: Option<u64>| face.is_none_or(|id| id == 0 || id == ingress.face.number());
        let is_registration = match command::parse(interest) {
            Some((_, Request::Announce { .. })) => true,
            Some((
                _,
                Request::Command {
                    verb: Verb::RibRegister | Verb::RibUnregister, parameters, ..
                },
            )) => is_own(parameters.face_id),
            _ => false,
        };
        match self.tcp {
            TcpCommands::Register if is_registration => None,
            TcpCommands::Register => Some(
                "over TCP a client can only register prefixes for its own face (management.tcp); \
                 use the Unix socket",
            ),
            _ => Some("no commands are accepted over TCP (management.tcp); use the Unix socket"),
        }
    }

    /// Returns how often its pools were full.
    pub const fn shortages(&self) -> &Shortages {
        &self.shortages
    }

    /// Replaces the rules.
    pub fn reconfigure(&mut self, rules: Rules) {
        self.trust.reconfigure(rules);
    }

    /// Returns the next Interest for a certificate, as a link packet of the internal face.
    pub fn next_fetch(&mut self, mut nonce: impl FnMut() -> u32) -> Option<Vec<u8>> {
        let fetch = self.trust.next_request()?;
        let builder = InterestBuilder::new(fetch.name).can_be_prefix(true).must_be_fresh(true);
        let interest = builder.lifetime_ms(nw_trust::fetch::FETCH_MS).nonce(nonce()).encode();
        let Some(face) = fetch.face else { return Some(interest) };
        let header = LpHeader { next_hop_face_id: Some(face), ..LpHeader::default() };
        let mut link_packet = Vec::with_capacity(interest.len() + 24);
        header.encode(interest.len(), &mut link_packet);
        link_packet.extend_from_slice(&interest);
        Some(link_packet)
    }

    /// Processes Data received on the internal face, which may be a certificate.
    pub fn on_data(&mut self, now: Timestamp, wire: &[u8]) {
        if let Ok(data) = Data::check(wire) {
            self.trust.on_data(&data, wire, now.as_millis());
        }
    }

    /// Returns the next command that can be decided now, with its face.
    pub fn next_ready(&mut self) -> Option<(Vec<u8>, FaceId)> {
        let ready = self.trust.next_ready()?;
        Some((ready.interest, FaceId::from_number(ready.face).unwrap_or(FaceId::NONE)))
    }

    /// Returns when [`on_timeout`](Self::on_timeout) must be called.
    pub fn next_timeout(&self) -> Timestamp {
        self.trust.next_timeout_ms().map_or(Timestamp::NEVER, Timestamp::from_millis)
    }

    /// Times out certificates that did not arrive.
    pub fn on_timeout(&mut self, now: Timestamp) {
        self.trust.on_timeout(now.as_millis());
    }

    /// Copies the counters of full pools.
    fn count_shortages(&mut self) {
        let FetchShortages { commands, certificates } = self.trust.shortages();
        self.shortages.set(SharedPool::Commands, commands);
        self.shortages.set(SharedPool::CertificateFetches, certificates);
    }
}

impl Authorize for Authority {
    fn command(
        &mut self,
        clocks: Clocks,
        interest: &Interest<'_>,
        ingress: Ingress,
        module: &str,
        _: &str,
        prefix: Option<NameRef<'_>>,
    ) -> Verdict {
        if let Some(reason) = self.tcp_refusal(ingress, interest) {
            return Verdict::Deny(reason.into());
        }
        let request = AuthorizationRequest { interest, requester: requester(ingress, prefix) };
        let decision = self.trust.check_command(request, module, clocks);
        self.count_shortages();
        match decision {
            Decision::Accept => Verdict::Accept,
            Decision::Later => Verdict::Defer,
            // "Malformed signature or KeyLocator: silence."
            Decision::Refuse(refusal) if refusal.is_silent() => Verdict::Ignore,
            Decision::Refuse(refusal) => Verdict::Deny(refusal.to_string().into()),
        }
    }

    fn announcement(
        &mut self,
        clocks: Clocks,
        announcement: &Data<'_>,
        prefix: NameRef<'_>,
        ingress: Ingress,
        interest: &Interest<'_>,
    ) -> Verdict {
        let request =
            AuthorizationRequest { interest, requester: requester(ingress, Some(prefix)) };
        let decision = self.trust.check_announcement(announcement, request, clocks);
        self.count_shortages();
        match decision {
            Decision::Accept => Verdict::Accept,
            Decision::Later => Verdict::Defer,
            Decision::Refuse(refusal) => Verdict::Deny(refusal.message_for(ANNOUNCEMENT).into()),
        }
    }

    fn learned(
        &mut self,
        clocks: Clocks,
        announcement: &Data<'_>,
        prefix: NameRef<'_>,
        ingress: Ingress,
    ) -> Verdict {
        let decision =
            self.trust.check_learned(announcement, requester(ingress, Some(prefix)), clocks);
        self.count_shortages();
        match decision {
            Decision::Accept => Verdict::Accept,
            Decision::Later => {
                tracing::debug!(
                    face = %ingress.face,
                    %prefix,
                    "announcement not learned yet: the certificate of its signer is being fetched"
                );
                Verdict::Defer
            }
            Decision::Refuse(refusal) => {
                let face = ingress.face;
                tracing::debug!(%face, %prefix, %refusal, "announcement not learned");
                Verdict::Deny(refusal.message_for(ANNOUNCEMENT).into())
            }
        }
    }
}

fn requester(ingress: Ingress, prefix: Option<NameRef<'_>>) -> Requester<'_> {
    Requester { face: ingress.face.number(), local: ingress.local, peer: ingress.peer, prefix }
}

/// Returns the rules for commands, and reads their files and folders.
///
/// # Errors
/// If a file with a key or an anchor can't be read.
pub fn rules(config: &Config, now_ms: u64) -> Result<Rules, StartError> {
    let management = &config.management;
    let plain = CommandRules {
        digest: to_trust_reach(management.digest),
        unknown_key: to_trust_reach(management.unknown_key),
        known_key: to_trust_reach(management.known_key),
        grace_ms: u64::from(management.grace_s) * 1000,
    };
    let keys =
        management.trusted_keys.iter().map(|path| read_key(path)).collect::<Result<_, _>>()?;
    let (anchors, sets) = anchors(config, now_ms)?;
    let allow = config.allow.iter().map(|rule| {
        let is_open = rule.anchors.iter().any(|id| id == config::ANY);
        if is_open && rule.from != config::RuleFaces::Local {
            tracing::warn!(
                rule = rule.id,
                "this rule accepts commands from any remote peer without verification"
            );
        }
        AllowRule {
            id: rule.id.clone(),
            scope: rule.from.side(),
            anchors: (!is_open).then(|| {
                rule.anchors.iter().fold(0, |all, id| all | sets.get(id.as_str()).unwrap_or(&0))
            }),
            signer: rule.signer.clone(),
            privileges: rule.privileges.iter().flat_map(|allowed| allowed.privileges()).collect(),
            prefix: rule.prefix.clone(),
        }
    });
    let vouch = config.issuer.iter();
    let vouch = vouch.map(|rule| IssuerRule {
        certificate: rule.certificate.clone(),
        signer: rule.signer.clone(),
    });
    Ok(Rules { basic: plain, keys, allow: allow.collect(), anchors, issuer_rules: vouch.collect() })
}

/// Returns all anchors with the sets they belong to, and the sets by anchor id.
#[expect(clippy::type_complexity, reason = "two results that belong together, used in one place")]
fn anchors(
    config: &Config,
    now_ms: u64,
) -> Result<(Vec<(AnchorSet, Anchor)>, BTreeMap<&str, AnchorSet>), StartError> {
    let (mut anchors, mut sets) = (Vec::new(), BTreeMap::new());
    for (index, item) in config.anchor.iter().enumerate() {
        let set = 1 << index; // the configuration allows at most 64
        sets.insert(item.id.as_str(), set);
        let item_anchors = anchors_of(item, now_ms)
            .map_err(|reason| StartError::Anchor { id: item.id.clone(), reason })?;
        anchors.extend(item_anchors.into_iter().map(|anchor| (set, anchor)));
    }
    if anchors.len() > ANCHORS_MAX {
        let id = config.anchor.last().map(|item| item.id.clone()).unwrap_or_default();
        return Err(StartError::Anchor {
            id,
            reason: format!("there are more than {ANCHORS_MAX} anchors"),
        });
    }
    Ok((anchors, sets))
}

/// Returns the certificates of one `[[anchor]]`.
pub(crate) fn anchors_of(item: &AnchorItem, now_ms: u64) -> Result<Vec<Anchor>, String> {
    let mut anchors = Vec::new();
    let mut add = |source: &str, bytes: &[u8]| -> Result<(), String> {
        let wire = certificate::read_file(bytes).map_err(|error| error.to_string())?;
        let anchor = Anchor::from_certificate(&wire).map_err(|error| error.to_string())?;
        if !anchor.validity().contains(now_ms / 1000) {
            tracing::warn!(
                anchor = item.id,
                source,
                key = %anchor.key_name(),
                "this anchor is outside its validity period and not trusted"
            );
        }
        anchors.push(anchor);
        Ok(())
    };
    if let Some(path) = &item.file {
        let source = path.display().to_string();
        let bytes =
            read_bytes(path, KEY_MAX).map_err(|error| format!("{source}: {}", error.reason))?;
        add(&source, &bytes).map_err(|reason| format!("{source}: {reason}"))?;
    }
    if let Some(base64) = &item.base64 {
        add("base64", base64.as_bytes())?;
    }
    if let Some(folder) = &item.folder {
        let files =
            certificates_in(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (path, bytes) in files {
            // One invalid file must neither prevent the start nor go unnoticed.
            if let Err(reason) = add(&path, &bytes) {
                tracing::warn!(
                    anchor = item.id,
                    path,
                    why = reason,
                    "not a valid certificate: file skipped"
                );
            }
        }
    }
    Ok(anchors)
}

/// Returns the files of a folder that may be certificates, by name.
fn certificates_in(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension =
            path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if CERTIFICATE_EXTENSIONS.contains(&extension)
            && path.is_file()
            && files.len() <= ANCHORS_MAX
        {
            // A file that can't be read is skipped like one that is not a certificate.
            let bytes = read_bytes(&path, KEY_MAX).unwrap_or_default();
            files.push((path.display().to_string(), bytes));
        }
    }
    files.sort();
    Ok(files)
}

const fn to_trust_reach(reach: config::AllowFrom) -> AllowFrom {
    match reach {
        config::AllowFrom::Nowhere => AllowFrom::Nowhere,
        config::AllowFrom::Local => AllowFrom::Local,
        config::AllowFrom::Anywhere => AllowFrom::Anywhere,
    }
}

/// Returns the signer of commands to other routers: the key and certificate in `[rib]`, or a
/// digest.
///
/// # Errors
/// If a file can't be read, or key and certificate don't match.
pub fn advertiser_signer(config: &config::Config) -> Result<Signer, StartError> {
    let (Some(key), Some(certificate)) = (&config.rib.key, &config.rib.certificate) else {
        return Ok(Signer::Digest);
    };
    let error = |path: &Path| {
        let path = path.to_owned();
        move |reason: String| StartError::SigningKey { path, reason }
    };
    let bytes = read_bytes(certificate, KEY_MAX).map_err(|e| error(certificate)(e.reason))?;
    let wire = certificate::read_file(&bytes).map_err(|e| error(certificate)(e.to_string()))?;
    let checked = Certificate::check(&wire).map_err(|e| error(certificate)(e.to_string()))?;
    let pem = read_text(key, KEY_MAX).map_err(|e| error(key)(e.reason))?;
    let private = Key::from_pem(checked.key_name(), &pem).map_err(|e| error(key)(e.to_string()))?;
    let public = private.public_key().map_err(|e| error(key)(e.to_string()))?;
    if public != checked.public_key() {
        return Err(error(key)("it does not match the public key of rib.certificate".to_owned()));
    }
    Ok(private.with_key_locator(checked.data().name()).into())
}

/// Returns the key in a certificate file, with the key's name.
pub(crate) fn read_key(path: &Path) -> Result<(Name, VerifyKey), StartError> {
    let error = |reason: String| StartError::TrustedKey { path: path.to_owned(), reason };
    let bytes = read_bytes(path, KEY_MAX).map_err(|e| error(e.reason))?;
    let wire = certificate::read_file(&bytes).map_err(|e| error(e.to_string()))?;
    let certificate = Certificate::check(&wire).map_err(|e| error(e.to_string()))?;
    let key = VerifyKey::from_spki(certificate.public_key()).map_err(|e| error(e.to_string()))?;
    Ok((certificate.key_name().to_name(), key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::management::{ControlParameters, Root, Verb, client};
    use nw_trust::certificate::{Validity, issue, self_signed};
    use nw_trust::{Key, KeyKind, PeerGroup, pem};
    use nw_wire::Sign;

    const START_MS: u64 = 1_750_000_000_000;
    const VALID: Validity = Validity { not_before_s: 1_700_000_000, not_after_s: 1_800_000_000 };

    const AT_START: Clocks = Clocks { elapsed_ms: 0, unix_ms: START_MS };

    fn remote() -> Ingress {
        Ingress {
            face: FaceId::from_number(300).unwrap(),
            local: false,
            peer: PeerGroup::Face(300),
        }
    }

    fn key(identity: &str) -> Key {
        Key::generate(KeyKind::EcdsaP256, identity.parse::<Name>().unwrap().as_ref()).unwrap()
    }

    fn config(anchor: &str) -> Config {
        let text = format!(
            "[management]\ndigest = \"nowhere\"\nunknown_key = \"nowhere\"\nlocalhop = \"anywhere\"\n\
             [[anchor]]\nid = \"site\"\n{anchor}\n\
             [[allow]]\nid = \"own prefixes\"\nfrom = \"remote\"\nanchors = [\"site\"]\nprivileges = [\"rib\"]\n\
             signer = \"/site/<who>/KEY/<_>\"\nprefix = \"/site/<who>/<..>\"\n"
        );
        Config::parse("test", &text).unwrap()
    }

    fn register<S: Sign<Error: std::fmt::Debug>>(signer: &S, prefix: &str) -> (Vec<u8>, Name) {
        let prefix: Name = prefix.parse().unwrap();
        let unique = client::Uniqueness { nonce: 1, signature_nonce: [1; 8], time_ms: START_MS };
        let parameters = ControlParameters::of(prefix.clone());
        (
            client::command(Root::Localhop, Verb::RibRegister, &parameters, unique, signer)
                .unwrap(),
            prefix,
        )
    }

    fn authorize(authority: &mut Authority, (wire, prefix): &(Vec<u8>, Name)) -> Verdict {
        let ingress = remote();
        let interest = Interest::check(wire).unwrap();
        authority.command(AT_START, &interest, ingress, "rib", "register", Some(prefix.as_ref()))
    }

    #[test]
    fn anchor_from_file_folder_or_text_is_used() {
        let site = key("/site");
        let wire = self_signed(&site, 1, VALID).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.cert");
        fs::write(&path, pem::encode_base64(&wire)).unwrap();
        fs::write(folder.path().join("broken.cert"), "x").unwrap();
        fs::write(folder.path().join("README"), "ignored").unwrap();
        let line: String = pem::encode_base64(&wire).split_whitespace().collect();
        for anchor in [
            format!("file = {:?}", path),
            format!("folder = {:?}", folder.path()),
            format!("base64 = {line:?}"),
        ] {
            let mut authority = Authority::new(&config(&anchor), START_MS).unwrap();
            assert_eq!(
                authorize(&mut authority, &register(&key("/site/alice"), "/site/alice")),
                Verdict::Defer,
                "{anchor}"
            );
            let elsewhere = Verdict::Deny("no rule allows the command's signer to do this".into());
            assert_eq!(
                authorize(&mut authority, &register(&key("/site/alice"), "/site/bob")),
                elsewhere
            );
        }
        for (anchor, reason) in [
            ("file = \"/none\"", "can't use the anchor site: /none: No such file or directory"),
            (
                "folder = \"/none\"",
                "can't use the anchor site: /none: No such file or directory (os error 2)",
            ),
            ("base64 = \"%\"", "can't use the anchor site: not base64"),
        ] {
            assert_eq!(Authority::new(&config(anchor), START_MS).unwrap_err().to_string(), reason);
        }
    }

    #[test]
    fn command_with_unknown_certificate_is_deferred_until_fetched() {
        let site = key("/site");
        let alice = key("/site/alice");
        let anchor: String =
            pem::encode_base64(&self_signed(&site, 1, VALID).unwrap()).split_whitespace().collect();
        let mut authority =
            Authority::new(&config(&format!("base64 = {anchor:?}")), START_MS).unwrap();
        let command = register(&alice, "/site/alice/x");
        assert_eq!(authorize(&mut authority, &command), Verdict::Defer);
        let network = authority.next_fetch(|| 7).unwrap();
        let interest = Interest::check(&network).unwrap();
        assert_eq!(interest.name(), alice.name());
        assert!(interest.can_be_prefix() && interest.must_be_fresh());
        let direct = authority.next_fetch(|| 8).unwrap();
        assert_eq!(nw_wire::LpPacket::check(&direct).unwrap().next_hop_face_id, Some(300));
        assert_eq!(authority.next_fetch(|| 9), None);
        assert_eq!(authority.next_timeout(), Timestamp::from_millis(4000));
        let up = nw_name::Component::generic(b"site");
        let spki = alice.public_key().unwrap();
        let certificate = issue(alice.name(), &spki, up, &site, 1, VALID).unwrap();
        authority.on_data(Timestamp::START, &certificate);
        let (wire, face) = authority.next_ready().unwrap();
        assert_eq!((&wire, face.number()), (&command.0, 300));
        assert_eq!(authorize(&mut authority, &command), Verdict::Accept);
        assert_eq!(authority.next_timeout(), Timestamp::NEVER);
        // From here on other rules apply.
        authority.reconfigure(rules(&Config::default(), START_MS).unwrap());
        assert!(matches!(
            authorize(&mut authority, &register(&alice, "/site/alice/y")),
            Verdict::Deny(_)
        ));
        assert!(rules(&config("file = \"/none\""), START_MS).is_err());
    }

    #[test]
    fn announcement_with_unknown_certificate_is_learned_after_fetch() {
        let site = key("/site");
        let alice = key("/site/alice");
        let anchor: String =
            pem::encode_base64(&self_signed(&site, 1, VALID).unwrap()).split_whitespace().collect();
        let mut config = config(&format!("base64 = {anchor:?}"));
        config.allow[0].privileges = vec![config::Allowed::Announce];
        let mut authority = Authority::new(&config, START_MS).unwrap();
        let ingress = remote();
        let name: Name = "/site/alice/32=PA/v=1/seg=0".parse().unwrap();
        let wire = nw_wire::DataBuilder::new(name.as_ref(), b"x").encode(&alice).unwrap();
        let data = Data::check(&wire).unwrap();
        let learn = |authority: &mut Authority, prefix: &str| {
            authority.learned(AT_START, &data, prefix.parse::<Name>().unwrap().as_ref(), ingress)
        };
        assert_eq!(
            learn(&mut authority, "/site/bob"),
            Verdict::Deny("no rule allows the prefix announcement's signer to do this".into())
        );
        assert_eq!(learn(&mut authority, "/site/alice"), Verdict::Defer);
        assert_eq!(learn(&mut authority, "/site/alice"), Verdict::Defer);
        assert!(authority.next_fetch(|| 7).is_some() && authority.next_fetch(|| 8).is_some());
        assert_eq!(authority.next_fetch(|| 9), None, "fetched once");
        let up = nw_name::Component::generic(b"site");
        let certificate =
            issue(alice.name(), &alice.public_key().unwrap(), up, &site, 1, VALID).unwrap();
        authority.on_data(Timestamp::START, &certificate);
        assert_eq!(authority.next_ready(), None, "no command is waiting");
        assert_eq!(learn(&mut authority, "/site/alice"), Verdict::Accept);
        assert!(matches!(learn(&mut authority, "/site/bob"), Verdict::Deny(_)));
    }

    #[test]
    fn command_over_tcp_obeys_management_tcp() {
        use nw_api::management::Verb::{
            CsErase, FacesCreate, FacesDestroy, RibRegister, RibUnregister,
        };
        let face = |number| FaceId::from_number(number).unwrap();
        let uri = |text: &str| text.parse::<FaceUri>().unwrap();
        let faces =
            [(300, "tcp4://127.0.0.1:5000"), (301, "wsclient://127.0.0.1:5001"), (302, "fd://7")];
        let command = |verb, face_id, nonce: u8| {
            let unique =
                client::Uniqueness { nonce: 1, signature_nonce: [nonce; 8], time_ms: START_MS };
            let parameters = ControlParameters {
                face_id,
                ..ControlParameters::of("/p".parse::<Name>().unwrap())
            };
            client::command(Root::Localhost, verb, &parameters, unique, &nw_wire::DigestSha256)
                .unwrap()
        };
        // Whether each command is accepted with "all", "register" and "none".
        let cases = [
            (RibRegister, None, [true, true, false]),
            (RibRegister, Some(0), [true, true, false]),
            (RibRegister, Some(1), [true, false, false]),
            (RibUnregister, None, [true, true, false]),
            (RibUnregister, Some(999), [true, false, false]),
            (CsErase, None, [true, false, false]),
            (FacesCreate, None, [true, false, false]),
            (FacesDestroy, Some(999), [true, false, false]),
        ];
        let mut nonce = 0;
        for (index, word) in ["all", "register", "none"].into_iter().enumerate() {
            let config =
                Config::parse("test", &format!("[management]\ntcp = \"{word}\"\n")).unwrap();
            let mut authority = Authority::new(&config, START_MS).unwrap();
            faces.iter().for_each(|(id, text)| authority.record_face(face(*id), &uri(text), true));
            for (verb, face_id, accepted) in &cases {
                for (id, text) in faces {
                    nonce += 1;
                    let target = face_id.map(|face_id| if face_id == 1 { id + 1 } else { face_id });
                    let wire = command(*verb, target, nonce);
                    let interest = Interest::check(&wire).unwrap();
                    let ingress =
                        Ingress { face: face(id), local: true, peer: PeerGroup::Face(id) };
                    let (module, word) = (verb.module(), verb.word());
                    let verdict =
                        authority.command(AT_START, &interest, ingress, module, word, None);
                    let expected = accepted[index] || text == "fd://7";
                    assert_eq!(
                        verdict == Verdict::Accept,
                        expected,
                        "{verb} {target:?} by {text}: {verdict:?}"
                    );
                }
            }
            // The id of a closed face has no meaning.
            authority.record_face(face(300), &uri("tcp4://127.0.0.1:5000"), false);
            nonce += 1;
            let wire = command(CsErase, None, nonce);
            let interest = Interest::check(&wire).unwrap();
            let ingress = Ingress { face: face(300), local: true, peer: PeerGroup::Face(300) };
            let verdict = authority.command(AT_START, &interest, ingress, "cs", "erase", None);
            assert_eq!(verdict, Verdict::Accept);
        }
    }
}

//! Who may command this router: the configuration's rules over the trust layer, and the certificates it has to fetch.

use crate::StartError;
use crate::control::{Authorize, Ingress, Verdict};
use nw_api::config::file::{KEY_MAX, read_bytes, read_text};
use nw_api::config::{self, AnchorItem, Config, TcpCommands};
use nw_api::management::Verb;
use nw_api::management::command::{self, Request};
use nw_element_api::{FaceId, Instant, SharedPool, Shortages};
use nw_faces::FaceUri;
use nw_name::{Name, NameRef};
use nw_trust::chain::Sets;
use nw_trust::fetch::FetchShortages;
use nw_trust::{
    Allow, Anchor, Asker, Asking, Clocks, CommandRules, Decision, Key, Reach, Rules, Signer, VerifyKey,
    Vouch, certificate,
};
use nw_wire::certificate::Certificate;
use nw_wire::{Data, Interest, InterestBuilder, LpHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Anchors of all files and folders together.
const ANCHORS_MAX: usize = 4096;
/// What is refused where it is not the command.
const ANNOUNCEMENT: &str = "the prefix announcement";
/// Names of files in a folder of anchors.
const CERTIFICATE_ENDINGS: [&str; 3] = ["cert", "ndncert", "pem"];

/// The rules, and what waits for certificates.
#[derive(Debug)]
pub struct Authority {
    trust: nw_trust::Authority,
    shortages: Shortages,
    /// What commands over TCP may do, and the local faces that are such connections.
    tcp: TcpCommands,
    tcp_faces: BTreeSet<FaceId>,
}

impl Authority {
    /// As the configuration says; `unix_ms` is the time, milliseconds since 1970.
    ///
    /// # Errors
    /// When a file with a key or an anchor can't be read.
    pub fn new(config: &Config, unix_ms: u64) -> Result<Self, StartError> {
        let trust = nw_trust::Authority::new(rules(config, unix_ms)?);
        Ok(Authority {
            trust,
            shortages: Shortages::default(),
            tcp: config.management.tcp,
            tcp_faces: BTreeSet::new(),
        })
    }

    /// Takes over what commands over TCP may do.
    pub const fn restrict_tcp(&mut self, tcp: TcpCommands) {
        self.tcp = tcp;
    }

    /// Takes note of a face that is there, or has ended.
    pub fn note_face(&mut self, id: FaceId, uri: &FaceUri, is_there: bool) {
        if !is_there {
            self.tcp_faces.remove(&id);
        } else if matches!(uri, FaceUri::Tcp(_) | FaceUri::Ws(_) | FaceUri::WsClient(_)) {
            self.tcp_faces.insert(id);
        }
    }

    /// Why a command is refused because of the connection it came by; `None` when it is not. Faces of other machines have rules of their own.
    fn refuses_tcp(&self, ingress: Ingress, interest: &Interest<'_>) -> Option<&'static str> {
        if self.tcp == TcpCommands::All || !ingress.local || !self.tcp_faces.contains(&ingress.face) {
            return None;
        }
        let own = |face: Option<u64>| face.is_none_or(|id| id == 0 || id == ingress.face.number());
        let registers = match command::parse(interest) {
            Some((_, Request::Announce { .. })) => true,
            Some((_, Request::Command { verb: Verb::RibRegister | Verb::RibUnregister, parameters, .. })) => {
                own(parameters.face_id)
            }
            _ => false,
        };
        match self.tcp {
            TcpCommands::Register if registers => None,
            TcpCommands::Register => Some(
                "over TCP only prefixes for the own face can be registered (management.tcp); use the Unix socket",
            ),
            _ => Some("no commands are accepted over TCP (management.tcp); use the Unix socket"),
        }
    }

    /// Returns how often its pools were short.
    pub const fn shortages(&self) -> &Shortages {
        &self.shortages
    }

    /// Takes over other rules, as [`rules`] reads them.
    pub fn reconfigure(&mut self, rules: Rules) {
        self.trust.reconfigure(rules);
    }

    /// The next Interest for a certificate, as a link packet of the internal face.
    pub fn next_ask(&mut self, mut nonce: impl FnMut() -> u32) -> Option<Vec<u8>> {
        let ask = self.trust.next_ask()?;
        let builder = InterestBuilder::new(ask.name).can_be_prefix(true).must_be_fresh(true);
        let interest = builder.lifetime_ms(nw_trust::fetch::FETCH_MS).nonce(nonce()).encode();
        let Some(face) = ask.face else { return Some(interest) };
        let header = LpHeader { next_hop_face_id: Some(face), ..LpHeader::default() };
        let mut link_packet = Vec::with_capacity(interest.len() + 24);
        header.encode(interest.len(), &mut link_packet);
        link_packet.extend_from_slice(&interest);
        Some(link_packet)
    }

    /// A Data that came to the internal face: perhaps a certificate.
    pub fn on_data(&mut self, now: Instant, wire: &[u8]) {
        if let Ok(data) = Data::check(wire) {
            self.trust.on_data(&data, wire, now.as_millis());
        }
    }

    /// The next command that can be decided now.
    pub fn next_ready(&mut self) -> Option<(Vec<u8>, FaceId)> {
        let ready = self.trust.next_ready()?;
        Some((ready.interest, FaceId::from_number(ready.face).unwrap_or(FaceId::NONE)))
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called.
    pub fn next_timeout(&self) -> Instant {
        self.trust.next_timeout_ms().map_or(Instant::NEVER, Instant::from_millis)
    }

    /// Gives up certificates that took too long.
    pub fn on_timeout(&mut self, now: Instant) {
        self.trust.on_timeout(now.as_millis());
    }

    /// Takes over how often places were used up.
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
        if let Some(why) = self.refuses_tcp(ingress, interest) {
            return Verdict::Deny(why.into());
        }
        let asking = Asking { interest, by: asker(ingress, prefix) };
        let decision = self.trust.command(asking, module, clocks);
        self.count_shortages();
        match decision {
            Decision::Accept => Verdict::Accept,
            Decision::Later => Verdict::Later,
            // "Malformed signature or KeyLocator: silence."
            Decision::Refuse(refusal) if refusal.is_silent() => Verdict::Silent,
            // Control logs it.
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
        let asking = Asking { interest, by: asker(ingress, Some(prefix)) };
        let decision = self.trust.announcement(announcement, asking, clocks);
        self.count_shortages();
        match decision {
            Decision::Accept => Verdict::Accept,
            Decision::Later => Verdict::Later,
            // Control logs it.
            Decision::Refuse(refusal) => Verdict::Deny(refusal.of(ANNOUNCEMENT).into()),
        }
    }

    fn learned(
        &mut self,
        clocks: Clocks,
        announcement: &Data<'_>,
        prefix: NameRef<'_>,
        ingress: Ingress,
    ) -> Verdict {
        let decision = self.trust.learned(announcement, asker(ingress, Some(prefix)), clocks);
        self.count_shortages();
        match decision {
            Decision::Accept => Verdict::Accept,
            Decision::Later => {
                tracing::debug!(face = %ingress.face, %prefix, "announcement not learnt yet: its signer's certificate is asked for");
                Verdict::Later
            }
            Decision::Refuse(refusal) => {
                tracing::debug!(face = %ingress.face, %prefix, %refusal, "announcement not learnt");
                Verdict::Deny(refusal.of(ANNOUNCEMENT).into())
            }
        }
    }
}

fn asker(ingress: Ingress, prefix: Option<NameRef<'_>>) -> Asker<'_> {
    Asker { face: ingress.face.number(), local: ingress.local, peer: ingress.peer, prefix }
}

/// What the configuration says of who may command; reads its files and folders.
///
/// # Errors
/// When a file with a key or an anchor can't be read.
pub fn rules(config: &Config, now_ms: u64) -> Result<Rules, StartError> {
    let management = &config.management;
    let plain = CommandRules {
        digest: reach(management.digest),
        unknown_key: reach(management.unknown_key),
        known_key: reach(management.known_key),
        grace_ms: u64::from(management.grace_s) * 1000,
    };
    let keys = management.trusted_keys.iter().map(|path| read_key(path)).collect::<Result<_, _>>()?;
    let (anchors, sets) = anchors(config, now_ms)?;
    let allow = config.allow.iter().map(|rule| {
        let any = rule.anchors.iter().any(|id| id == config::ANY);
        if any && rule.from != config::RuleFaces::Local {
            tracing::warn!(
                rule = rule.id,
                "this rule obeys whoever reaches the router from another machine, without verifying anything"
            );
        }
        Allow {
            id: rule.id.clone(),
            side: rule.from.side(),
            anchors: (!any)
                .then(|| rule.anchors.iter().fold(0, |all, id| all | sets.get(id.as_str()).unwrap_or(&0))),
            signer: rule.signer.clone(),
            privileges: rule.privileges.iter().flat_map(|allowed| allowed.privileges()).collect(),
            prefix: rule.prefix.clone(),
        }
    });
    let vouch = config.vouch.iter();
    let vouch =
        vouch.map(|rule| Vouch { certificate: rule.certificate.clone(), signer: rule.signer.clone() });
    Ok(Rules { plain, keys, allow: allow.collect(), anchors, vouch: vouch.collect() })
}

/// All anchors with the sets they are in, and the sets by their ids.
#[expect(clippy::type_complexity, reason = "two results that belong together, used in one place")]
fn anchors(config: &Config, now_ms: u64) -> Result<(Vec<(Sets, Anchor)>, BTreeMap<&str, Sets>), StartError> {
    let (mut anchors, mut sets) = (Vec::new(), BTreeMap::new());
    for (index, item) in config.anchor.iter().enumerate() {
        let set = 1 << index; // at most 64, the configuration says
        sets.insert(item.id.as_str(), set);
        let found =
            anchors_of(item, now_ms).map_err(|why| StartError::Anchor { id: item.id.clone(), why })?;
        anchors.extend(found.into_iter().map(|anchor| (set, anchor)));
    }
    if anchors.len() > ANCHORS_MAX {
        let id = config.anchor.last().map(|item| item.id.clone()).unwrap_or_default();
        return Err(StartError::Anchor { id, why: format!("more than {ANCHORS_MAX} anchors in all") });
    }
    Ok((anchors, sets))
}

/// The certificates of one `[[anchor]]`.
pub(crate) fn anchors_of(item: &AnchorItem, now_ms: u64) -> Result<Vec<Anchor>, String> {
    let mut anchors = Vec::new();
    let mut add = |place: &str, bytes: &[u8]| -> Result<(), String> {
        let wire = certificate::read_file(bytes).map_err(|error| error.to_string())?;
        let anchor = Anchor::of(&wire).map_err(|error| error.to_string())?;
        if !anchor.validity().contains(now_ms / 1000) {
            tracing::warn!(anchor = item.id, place, key = %anchor.key_name(), "this anchor is not valid now and not believed");
        }
        anchors.push(anchor);
        Ok(())
    };
    if let Some(path) = &item.file {
        let place = path.display().to_string();
        let bytes = read_bytes(path, KEY_MAX).map_err(|error| format!("{place}: {}", error.why))?;
        add(&place, &bytes).map_err(|why| format!("{place}: {why}"))?;
    }
    if let Some(base64) = &item.base64 {
        add("base64", base64.as_bytes())?;
    }
    if let Some(folder) = &item.folder {
        let found = certificates_in(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for (path, bytes) in found {
            // One bad file among others must not keep the router from starting, nor its owner from knowing.
            if let Err(why) = add(&path, &bytes) {
                tracing::warn!(anchor = item.id, path, why, "no certificate; passed over");
            }
        }
    }
    Ok(anchors)
}

/// What may be certificates in a folder, by name.
fn certificates_in(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if CERTIFICATE_ENDINGS.contains(&ending) && path.is_file() && found.len() <= ANCHORS_MAX {
            // One that can't be read is passed over as one that is none.
            let bytes = read_bytes(&path, KEY_MAX).unwrap_or_default();
            found.push((path.display().to_string(), bytes));
        }
    }
    found.sort();
    Ok(found)
}

const fn reach(reach: config::Reach) -> Reach {
    match reach {
        config::Reach::Nowhere => Reach::Nowhere,
        config::Reach::Local => Reach::Local,
        config::Reach::Anywhere => Reach::Anywhere,
    }
}

/// What signs commands to others: `[rib]` names key and certificate, or a digest does.
///
/// # Errors
/// When a file can't be read, or the two don't belong together.
pub fn advertiser_signer(config: &config::Config) -> Result<Signer, StartError> {
    let (Some(key), Some(certificate)) = (&config.rib.key, &config.rib.certificate) else {
        return Ok(Signer::Digest);
    };
    let error = |path: &Path| {
        let path = path.to_owned();
        move |why: String| StartError::SigningKey { path, why }
    };
    let bytes = read_bytes(certificate, KEY_MAX).map_err(|e| error(certificate)(e.why))?;
    let wire = certificate::read_file(&bytes).map_err(|e| error(certificate)(e.to_string()))?;
    let checked = Certificate::check(&wire).map_err(|e| error(certificate)(e.to_string()))?;
    let pem = read_text(key, KEY_MAX).map_err(|e| error(key)(e.why))?;
    let private = Key::from_pem(checked.key_name(), &pem).map_err(|e| error(key)(e.to_string()))?;
    let public = private.public_key().map_err(|e| error(key)(e.to_string()))?;
    if public != checked.public_key() {
        return Err(error(key)("it is not the key of rib.certificate".to_owned()));
    }
    Ok(private.located_at(checked.data().name()).into())
}

/// The key of a certificate file, by the key's name.
pub(crate) fn read_key(path: &Path) -> Result<(Name, VerifyKey), StartError> {
    let error = |why: String| StartError::TrustedKey { path: path.to_owned(), why };
    let bytes = read_bytes(path, KEY_MAX).map_err(|e| error(e.why))?;
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
    use nw_trust::{Key, KeyKind, Peer, text};
    use nw_wire::Sign;

    const START_MS: u64 = 1_750_000_000_000;
    const VALID: Validity = Validity { not_before_s: 1_700_000_000, not_after_s: 1_800_000_000 };

    const AT_START: Clocks = Clocks { elapsed_ms: 0, unix_ms: START_MS };

    fn remote() -> Ingress {
        Ingress { face: FaceId::from_number(300).unwrap(), local: false, peer: Peer::Face(300) }
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
        (client::command(Root::Localhop, Verb::RibRegister, &parameters, unique, signer).unwrap(), prefix)
    }

    fn ask(authority: &mut Authority, (wire, prefix): &(Vec<u8>, Name)) -> Verdict {
        let ingress = remote();
        let interest = Interest::check(wire).unwrap();
        authority.command(AT_START, &interest, ingress, "rib", "register", Some(prefix.as_ref()))
    }

    #[test]
    fn anchors_from_files_folders_and_text() {
        let site = key("/site");
        let wire = self_signed(&site, 1, VALID).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.cert");
        fs::write(&path, text::armor(&wire)).unwrap();
        fs::write(folder.path().join("broken.cert"), "x").unwrap();
        fs::write(folder.path().join("README"), "not looked at").unwrap();
        let line: String = text::armor(&wire).split_whitespace().collect();
        for anchor in [
            format!("file = {:?}", path),
            format!("folder = {:?}", folder.path()),
            format!("base64 = {line:?}"),
        ] {
            let mut authority = Authority::new(&config(&anchor), START_MS).unwrap();
            assert_eq!(
                ask(&mut authority, &register(&key("/site/alice"), "/site/alice")),
                Verdict::Later,
                "{anchor}"
            );
            let elsewhere = Verdict::Deny("no rule lets the command's signer do this".into());
            assert_eq!(ask(&mut authority, &register(&key("/site/alice"), "/site/bob")), elsewhere);
        }
        for (anchor, why) in [
            ("file = \"/none\"", "can't use the anchor site: /none: No such file or directory"),
            (
                "folder = \"/none\"",
                "can't use the anchor site: /none: No such file or directory (os error 2)",
            ),
            ("base64 = \"%\"", "can't use the anchor site: not base64"),
        ] {
            assert_eq!(Authority::new(&config(anchor), START_MS).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn a_certificate_is_asked_for_and_the_command_comes_back() {
        let site = key("/site");
        let alice = key("/site/alice");
        let anchor: String = text::armor(&self_signed(&site, 1, VALID).unwrap()).split_whitespace().collect();
        let mut authority = Authority::new(&config(&format!("base64 = {anchor:?}")), START_MS).unwrap();
        let command = register(&alice, "/site/alice/x");
        assert_eq!(ask(&mut authority, &command), Verdict::Later);
        let network = authority.next_ask(|| 7).unwrap();
        let interest = Interest::check(&network).unwrap();
        assert_eq!(interest.name(), alice.name());
        assert!(interest.can_be_prefix() && interest.must_be_fresh());
        let direct = authority.next_ask(|| 8).unwrap();
        assert_eq!(nw_wire::LpPacket::check(&direct).unwrap().next_hop_face_id, Some(300));
        assert_eq!(authority.next_ask(|| 9), None);
        assert_eq!(authority.next_timeout(), Instant::from_millis(4000));
        let up = nw_name::Component::generic(b"site");
        let spki = alice.public_key().unwrap();
        let certificate = issue(alice.name(), &spki, up, &site, 1, VALID).unwrap();
        authority.on_data(Instant::START, &certificate);
        let (wire, face) = authority.next_ready().unwrap();
        assert_eq!((&wire, face.number()), (&command.0, 300));
        assert_eq!(ask(&mut authority, &command), Verdict::Accept);
        assert_eq!(authority.next_timeout(), Instant::NEVER);
        // Other rules from now on.
        authority.reconfigure(rules(&Config::default(), START_MS).unwrap());
        assert!(matches!(ask(&mut authority, &register(&alice, "/site/alice/y")), Verdict::Deny(_)));
        assert!(rules(&config("file = \"/none\""), START_MS).is_err());
    }

    #[test]
    fn an_announcement_is_learnt_once_its_signers_certificate_is_here() {
        let site = key("/site");
        let alice = key("/site/alice");
        let anchor: String = text::armor(&self_signed(&site, 1, VALID).unwrap()).split_whitespace().collect();
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
            Verdict::Deny("no rule lets the prefix announcement's signer do this".into())
        );
        assert_eq!(learn(&mut authority, "/site/alice"), Verdict::Later);
        assert_eq!(learn(&mut authority, "/site/alice"), Verdict::Later);
        assert!(authority.next_ask(|| 7).is_some() && authority.next_ask(|| 8).is_some());
        assert_eq!(authority.next_ask(|| 9), None, "asked for once");
        let up = nw_name::Component::generic(b"site");
        let certificate = issue(alice.name(), &alice.public_key().unwrap(), up, &site, 1, VALID).unwrap();
        authority.on_data(Instant::START, &certificate);
        assert_eq!(authority.next_ready(), None, "nobody waits for an answer");
        assert_eq!(learn(&mut authority, "/site/alice"), Verdict::Accept);
        assert!(matches!(learn(&mut authority, "/site/bob"), Verdict::Deny(_)));
    }

    #[test]
    fn commands_over_tcp_are_restricted_as_configured() {
        use nw_api::management::Verb::{CsErase, FacesCreate, FacesDestroy, RibRegister, RibUnregister};
        let face = |number| FaceId::from_number(number).unwrap();
        let uri = |text: &str| text.parse::<FaceUri>().unwrap();
        let faces = [(300, "tcp4://127.0.0.1:5000"), (301, "wsclient://127.0.0.1:5001"), (302, "fd://7")];
        let command = |verb, face_id, nonce: u8| {
            let unique = client::Uniqueness { nonce: 1, signature_nonce: [nonce; 8], time_ms: START_MS };
            let parameters =
                ControlParameters { face_id, ..ControlParameters::of("/p".parse::<Name>().unwrap()) };
            client::command(Root::Localhost, verb, &parameters, unique, &nw_wire::DigestSha256).unwrap()
        };
        // Whether each is accepted by "all", "register", "none".
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
        for (at, word) in ["all", "register", "none"].into_iter().enumerate() {
            let config = Config::parse("test", &format!("[management]\ntcp = \"{word}\"\n")).unwrap();
            let mut authority = Authority::new(&config, START_MS).unwrap();
            faces.iter().for_each(|(id, text)| authority.note_face(face(*id), &uri(text), true));
            for (verb, face_id, accepted) in &cases {
                for (id, text) in faces {
                    nonce += 1;
                    let own = face_id.map(|wanted| if wanted == 1 { id + 1 } else { wanted });
                    let wire = command(*verb, own, nonce);
                    let interest = Interest::check(&wire).unwrap();
                    let ingress = Ingress { face: face(id), local: true, peer: Peer::Face(id) };
                    let (module, word) = (verb.module(), verb.word());
                    let verdict = authority.command(AT_START, &interest, ingress, module, word, None);
                    let expected = accepted[at] || text == "fd://7";
                    assert_eq!(verdict == Verdict::Accept, expected, "{verb} {own:?} by {text}: {verdict:?}");
                }
            }
            // The id of a face that has ended means nothing.
            authority.note_face(face(300), &uri("tcp4://127.0.0.1:5000"), false);
            nonce += 1;
            let wire = command(CsErase, None, nonce);
            let interest = Interest::check(&wire).unwrap();
            let ingress = Ingress { face: face(300), local: true, peer: Peer::Face(300) };
            let verdict = authority.command(AT_START, &interest, ingress, "cs", "erase", None);
            assert_eq!(verdict, Verdict::Accept);
        }
    }
}

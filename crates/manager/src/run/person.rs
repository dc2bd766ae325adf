//! What persons set beside the document: keys, rules and routes, which become part of the target;
//! and tokens of users.

use super::commands::{Author, Handle};
use super::wanted::Wanted;
use super::{CommandError, Shared, now_ms};
use crate::events::About;
use crate::store::{Store, StoreError, StoredKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nw_api::network::{AuditEntry, NetworkEventKind};
use nw_api::network_access::{
    KeyAddition, KeyRule, KeyRuleText, KeyUse, NetworkKey, NetworkTrust, NewToken, PersonRoute,
    Role, TokenRequest, UserToken,
};
use nw_manage::Document;
use nw_manage::target::{AddedRoute, Decisions, SigningRule};
use nw_name::Name;
use nw_trust::{Anchor, Pattern};
use nw_wire::certificate::Certificate;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

/// Folder of a network with its authority, which agents and users of other machines trust.
pub const AUTHORITY_FOLDER: &str = "agents";
/// Most tokens, keys and rules, each.
const ENTRIES_MAX: usize = 1_000;
/// Most routes.
const ROUTES_MAX: usize = 10_000;
/// Longest pattern of a rule, bytes.
const PATTERN_LEN_MAX: usize = 1_000;
/// Longest name of a token, bytes.
const TOKEN_NAME_LEN_MAX: usize = 63;

/// Keys, rules and routes that persons have set, with their authors.
#[derive(Clone, Debug, Default)]
pub struct PersonSettings {
    /// Anchors and certificates.
    pub keys: Vec<StoredKey>,
    /// Rules.
    pub rules: Vec<(SigningRule, String)>,
    /// Routes.
    pub routes: Vec<(AddedRoute, String)>,
}

impl PersonSettings {
    /// Reads what earlier managers have stored.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn load(store: &Store) -> Result<Self, StoreError> {
        let (keys, rules, routes) = (store.keys()?, store.key_rules()?, store.routes()?);
        Ok(PersonSettings { keys, rules, routes })
    }

    /// Adds them to decisions.
    pub fn apply(&self, decisions: &mut Decisions) {
        for key in &self.keys {
            let list = match key.key_use {
                KeyUse::Anchor => &mut decisions.added_anchors,
                KeyUse::Certificate => &mut decisions.certificates,
            };
            list.push(key.certificate.clone());
        }
        decisions.added_rules.extend(self.rules.iter().map(|(rule, _)| rule.clone()));
        decisions.routes.extend(self.routes.iter().map(|(route, _)| route.clone()));
    }
}

fn wrong<T>(text: impl Into<String>) -> Result<T, CommandError> {
    Err(CommandError::Wrong(text.into()))
}

/// Returns the digest under which a token is stored.
fn digest(token: &str) -> String {
    Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks a certificate and returns its name.
fn certificate_name(key: &KeyAddition) -> Result<(String, String), CommandError> {
    let text: String = key.certificate.split_whitespace().collect();
    let no_certificate = |error: String| {
        CommandError::Wrong(format!("this is no certificate in base64 ({error}): see `nw key`"))
    };
    let wire = STANDARD.decode(&text).map_err(|error| no_certificate(error.to_string()))?;
    let name = Certificate::check(&wire).map_err(|error| no_certificate(error.to_string()))?;
    let name = name.data().name().to_name().to_string();
    if key.r#use == KeyUse::Anchor {
        let anchor = Anchor::from_certificate(&wire);
        anchor
            .map_err(|error| CommandError::Wrong(format!("{name} can't be an anchor: {error}")))?;
    }
    Ok((name, text))
}

fn check_rule(rule: &KeyRuleText) -> Result<SigningRule, CommandError> {
    let read = |text: &str| -> Result<Pattern, CommandError> {
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '\\';
        if text.len() > PATTERN_LEN_MAX || !text.chars().all(is_plain) {
            return wrong(format!(
                "a pattern has no white space or quotes, and at most {PATTERN_LEN_MAX} bytes"
            ));
        }
        text.parse().map_err(|error| CommandError::Wrong(format!("{text}: {error}")))
    };
    if !read(&rule.names)?.has_consistent_variables(&read(&rule.keys)?) {
        return wrong("a variable is one component or any number, not both");
    }
    Ok(SigningRule { names: rule.names.clone(), keys: rule.keys.clone() })
}

/// Checks that a route can take effect with the document.
fn check_route(document: &Document, route: &PersonRoute) -> Result<AddedRoute, CommandError> {
    let prefix: Name = match route.prefix.parse() {
        Ok(prefix) => prefix,
        Err(error) => return wrong(format!("{:?} is no name: {error}", route.prefix)),
    };
    let (graph, network) = (&document.file.graph, &document.file.network);
    let Some(node) = graph.node_index(&route.element) else {
        let text = format!("the document has no element {}", route.element);
        return Err(CommandError::Unknown(text));
    };
    let entry = graph.nodes[node].entry;
    if !entry.parameters.iter().any(|parameter| parameter.name == "routes") {
        return wrong(format!("{} is a {} and has no routes", route.element, entry.name));
    }
    if graph.face_index(&route.face).is_none() {
        let text = format!("the document has no face {}", route.face);
        return Err(CommandError::Unknown(text));
    }
    if network.links.iter().any(|link| link.from == route.face || link.to == route.face) {
        return wrong(format!(
            "{} is a link of the network: routes inside are computed; name a face that leads out",
            route.face
        ));
    }
    if u32::try_from(route.cost).is_err() {
        return wrong(format!("the cost {} is more than {}", route.cost, u32::MAX));
    }
    Ok(AddedRoute {
        prefix: prefix.to_string(),
        element: route.element.clone(),
        face: route.face.clone(),
        cost: route.cost,
    })
}

impl Handle {
    /// Notes a request that was refused before it became a command.
    ///
    /// # Errors
    /// The store refuses.
    pub fn note_refused(&self, name: &str, action: &str, reason: &str) -> Result<(), StoreError> {
        let (author, action) = (name.to_owned(), action.to_owned());
        let result = format!("refused: {reason}");
        let entry = AuditEntry { at_ms: now_ms(), author, action, result };
        self.shared().store().add_audit(&entry)
    }

    /// Returns the token with this text, if it is valid now.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn token(&self, text: &str) -> Result<Option<UserToken>, CommandError> {
        let found = self.shared().store().token_of(&digest(text))?;
        Ok(found.filter(|token| token.expires_ms > now_ms()))
    }

    /// Returns the tokens that are valid now, without their texts.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn valid_tokens(&self) -> Result<Vec<UserToken>, CommandError> {
        let (mut tokens, now_ms) = (self.tokens()?, now_ms());
        tokens.retain(|token| token.expires_ms > now_ms);
        Ok(tokens)
    }

    /// Returns all tokens, without their texts.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn tokens(&self) -> Result<Vec<UserToken>, CommandError> {
        Ok(self.shared().store().tokens()?)
    }

    /// Makes a token, in place of one with the same name.
    ///
    /// # Errors
    /// The name can't be used, there are too many tokens, or a file can't be written.
    pub fn add_token(
        &self,
        request: &TokenRequest,
        author: &Author,
    ) -> Result<NewToken, CommandError> {
        let action = format!("token add {} as {}", request.name, request.role.as_str());
        let made = self.make_token(request, author);
        self.audit(author, action, made)
    }

    fn make_token(
        &self,
        request: &TokenRequest,
        author: &Author,
    ) -> Result<NewToken, CommandError> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name = request.name.as_str();
        if name.is_empty() || name.len() > TOKEN_NAME_LEN_MAX || !name.chars().all(is_allowed) {
            return wrong(format!(
                "{name:?} can't be the name of a token: use 1 to {TOKEN_NAME_LEN_MAX} letters, \
                 digits, and - _ ."
            ));
        }
        if !(1..=315_360_000).contains(&request.valid_s) {
            return wrong("a token is valid for 1 to 315360000 seconds");
        }
        let shared = self.shared();
        let others = shared.store().tokens()?;
        if others.len() >= ENTRIES_MAX && others.iter().all(|token| token.name != name) {
            return wrong(format!("there are {ENTRIES_MAX} tokens: remove one first"));
        }
        let text = nw_agent::new_user_token(&self.authority_folder())
            .map_err(|error| CommandError::System(error.to_string()))?;
        let created_ms = now_ms();
        let token = UserToken {
            name: name.to_owned(),
            role: request.role,
            created_ms,
            expires_ms: created_ms.saturating_add(request.valid_s * 1000),
            author: author.0.clone(),
        };
        shared.store().set_token(&token, &digest(&text))?;
        Ok(NewToken { token: text })
    }

    /// Ends the rights of a token.
    ///
    /// # Errors
    /// There is none of this name, or the store refuses.
    pub fn remove_token(&self, name: &str, author: &Author) -> Result<(), CommandError> {
        let removed = self.shared().store().remove_token(name).map_err(CommandError::from);
        let result = removed.and_then(|was_there| match was_there {
            true => Ok(()),
            false => Err(CommandError::Unknown(format!("there is no token {name}"))),
        });
        self.audit(author, format!("token remove {name}"), result)
    }

    /// Returns the folder of the network's authority.
    pub fn authority_folder(&self) -> PathBuf {
        self.directory().join(AUTHORITY_FOLDER)
    }

    /// Returns what verifiers and registration ports trust.
    pub fn trust(&self) -> NetworkTrust {
        let wanted = self.shared().wanted().clone();
        let network = &wanted.document.file.network;
        let document_key = |(file, certificate): (&String, &String)| NetworkKey {
            name: STANDARD
                .decode(certificate)
                .ok()
                .and_then(|wire| {
                    Some(Certificate::check(&wire).ok()?.data().name().to_name().to_string())
                })
                .unwrap_or_else(|| file.clone()),
            r#use: KeyUse::Anchor,
            certificate: certificate.clone(),
            document: true,
            author: String::new(),
        };
        let added_key = |key: &StoredKey| NetworkKey {
            name: key.name.clone(),
            r#use: key.key_use,
            certificate: key.certificate.clone(),
            document: false,
            author: key.author.clone(),
        };
        let rule = |names: &str, keys: &str, author: Option<&String>| KeyRule {
            names: names.to_owned(),
            keys: keys.to_owned(),
            document: author.is_none(),
            author: author.cloned().unwrap_or_default(),
        };
        let document = wanted.anchors.iter().map(document_key);
        let permissions = network.permissions.iter().map(|r| rule(&r.names, &r.keys, None));
        let added = wanted.persons.rules.iter();
        let added = added.map(|(r, author)| rule(&r.names, &r.keys, Some(author)));
        NetworkTrust {
            keys: document.chain(wanted.persons.keys.iter().map(added_key)).collect(),
            rules: permissions.chain(added).collect(),
        }
    }

    /// Adds an anchor or a certificate. Returns its name.
    ///
    /// # Errors
    /// It is no certificate, there are too many, or the store refuses.
    pub fn add_key(&self, key: &KeyAddition, author: &Author) -> Result<(), CommandError> {
        let read = certificate_name(key);
        let action = match &read {
            Ok((name, _)) => format!("key add {name}"),
            Err(_) => "key add".to_owned(),
        };
        let result = read.and_then(|(name, certificate)| {
            let (key_use, author) = (key.r#use, author.0.clone());
            let stored = StoredKey { name, key_use, certificate, author };
            self.change_settings(|settings, store| {
                settings.keys.retain(|known| known.name != stored.name);
                check_count(settings.keys.len(), ENTRIES_MAX, "keys")?;
                settings.keys.push(stored.clone());
                Ok(store.set_key(&stored)?)
            })
        });
        self.audit(author, action, result)
    }

    /// Removes an anchor or a certificate that a person has added.
    ///
    /// # Errors
    /// There is none of this name, or the store refuses.
    pub fn remove_key(&self, name: &str, author: &Author) -> Result<(), CommandError> {
        let result = self.change_settings(|settings, store| {
            settings.keys.retain(|known| known.name != name);
            match store.remove_key(name)? {
                true => Ok(()),
                false => Err(CommandError::Unknown(format!(
                    "no key {name} was added here: `nw network key list`; anchors of the document \
                     are removed there"
                ))),
            }
        });
        self.audit(author, format!("key remove {name}"), result)
    }

    /// Adds a rule: which keys may sign and register which names.
    ///
    /// # Errors
    /// A pattern is wrong, there are too many rules, or the store refuses.
    pub fn add_key_rule(&self, rule: &KeyRuleText, author: &Author) -> Result<(), CommandError> {
        let result = check_rule(rule).and_then(|rule| {
            self.change_settings(|settings, store| {
                settings.rules.retain(|(known, _)| *known != rule);
                check_count(settings.rules.len(), ENTRIES_MAX, "rules")?;
                settings.rules.push((rule.clone(), author.0.clone()));
                Ok(store.set_key_rule(&rule, &author.0)?)
            })
        });
        self.audit(author, format!("key allow {} by {}", rule.names, rule.keys), result)
    }

    /// Removes a rule that a person has added.
    ///
    /// # Errors
    /// There is no such rule, or the store refuses.
    pub fn remove_key_rule(&self, rule: &KeyRuleText, author: &Author) -> Result<(), CommandError> {
        let known = SigningRule { names: rule.names.clone(), keys: rule.keys.clone() };
        let result = self.change_settings(|settings, store| {
            settings.rules.retain(|(other, _)| *other != known);
            match store.remove_key_rule(&known)? {
                true => Ok(()),
                false => Err(CommandError::Unknown(
                    "no such rule was added here: `nw network key list`".to_owned(),
                )),
            }
        });
        self.audit(author, format!("key forbid {} by {}", rule.names, rule.keys), result)
    }

    /// Adds a route that leads out of the network, or changes its cost.
    ///
    /// # Errors
    /// It does not fit the document, there are too many routes, or the store refuses.
    pub fn add_route(&self, route: &PersonRoute, author: &Author) -> Result<(), CommandError> {
        let checked = check_route(&self.shared().wanted().document, route);
        let result = checked.and_then(|route| {
            self.change_settings(|settings, store| {
                settings.routes.retain(|(known, _)| !is_same_route(known, &route));
                check_count(settings.routes.len(), ROUTES_MAX, "routes")?;
                settings.routes.push((route.clone(), author.0.clone()));
                Ok(store.set_route(&route, &author.0)?)
            })
        });
        self.audit(author, describe_route("add", route), result)
    }

    /// Removes a route that a person has added.
    ///
    /// # Errors
    /// There is no such route, or the store refuses.
    pub fn remove_route(&self, route: &PersonRoute, author: &Author) -> Result<(), CommandError> {
        let prefix = route.prefix.parse::<Name>();
        let known = AddedRoute {
            prefix: prefix.map_or_else(|_| route.prefix.clone(), |prefix| prefix.to_string()),
            element: route.element.clone(),
            face: route.face.clone(),
            cost: 0,
        };
        let result = self.change_settings(|settings, store| {
            settings.routes.retain(|(other, _)| !is_same_route(other, &known));
            match store.remove_route(&known)? {
                true => Ok(()),
                false => Err(CommandError::Unknown(
                    "no such route was added here: `nw network route list`; routes of the document \
                     are removed there, registered ones end with their face"
                        .to_owned(),
                )),
            }
        });
        self.audit(author, describe_route("remove", route), result)
    }

    /// Changes what persons have set, in the store and in what is wanted.
    fn change_settings(
        &self,
        change: impl FnOnce(&mut PersonSettings, &Store) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let shared: &Shared = self.shared();
        let mut wanted = shared.wanted();
        let mut next = wanted.clone();
        change(&mut next.persons, &shared.store())?;
        next.refresh()?;
        *wanted = next;
        drop(wanted);
        let text = "keys, rules or routes were changed by a person";
        shared.event(NetworkEventKind::RoutesChanged, text, About::default());
        shared.wake_change();
        Ok(())
    }

    /// Returns whether a document changes what only admins may change: trust, hosts, or the folder
    /// of the files that it names.
    ///
    /// # Errors
    /// The document is wrong.
    pub fn needs_admin(&self, text: &str, folder: Option<&PathBuf>) -> Result<bool, CommandError> {
        let document = super::read_document(self.network(), text)?;
        let wanted = self.shared().wanted();
        Ok(folder.is_some_and(|folder| *folder != wanted.folder)
            || protected(&document) != protected(&wanted.document))
    }

    /// Returns the role that a person needs to return to a version.
    ///
    /// # Errors
    /// There is no such version.
    pub fn role_for_version(&self, version: Option<u64>) -> Result<Role, CommandError> {
        let current = self.shared().wanted().version;
        let Some(version) = version.or(current.checked_sub(1)).filter(|version| *version > 0)
        else {
            return Ok(Role::Operator);
        };
        let text = self.document_at(version)?.text;
        let is_protected = self.needs_admin(&text, None)?;
        Ok(if is_protected { Role::Admin } else { Role::Operator })
    }
}

/// Returns what only admins may change in a document, without positions.
fn protected(document: &Document) -> Vec<String> {
    let network = &document.file.network;
    let anchors = network.anchors.iter().map(|anchor| anchor.file.clone());
    let rules = network.permissions.iter().map(|rule| format!("{} by {}", rule.names, rule.keys));
    let hosts = network.hosts.iter().map(|host| {
        format!(
            "{} {:?} {} {:?} {:?}",
            host.name, host.engine, host.is_remote, host.image, host.address
        )
    });
    anchors.chain(rules).chain(hosts).collect()
}

fn is_same_route(one: &AddedRoute, other: &AddedRoute) -> bool {
    (&one.prefix, &one.element, &one.face) == (&other.prefix, &other.element, &other.face)
}

fn describe_route(verb: &str, route: &PersonRoute) -> String {
    format!("route {verb} {} at {}.{}", route.prefix, route.element, route.face)
}

fn check_count(count: usize, max: usize, what: &str) -> Result<(), CommandError> {
    match count < max {
        true => Ok(()),
        false => wrong(format!("there are {max} {what}: remove some first")),
    }
}

impl Wanted {
    /// Returns the author of a route that a person has set. `face` is the name of the face in the
    /// instance's graph, which begins with that in the document.
    pub fn route_author(&self, prefix: &str, element: &str, face: &str) -> Option<&str> {
        let is_face = |known: &str| {
            face.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        let mut routes = self.persons.routes.iter();
        let found = routes.find(|(route, _)| {
            route.prefix == prefix && route.element == element && is_face(&route.face)
        });
        found.map(|(_, author)| author.as_str())
    }
}

//! What persons have set about users, keys and routes: tokens (as digests), certificates, rules.

use super::{Store, StoreError, signed, unsigned};
use nw_api::network_access::{KeyUse, Role, UserToken};
use nw_manage::target::{AddedRoute, SigningRule};
use rusqlite::{OptionalExtension, Row, params};

/// Tables that were added after the first version; an earlier program ignores them.
pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS tokens (
    name TEXT PRIMARY KEY, digest TEXT NOT NULL UNIQUE, role TEXT NOT NULL,
    created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, author TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS keys (
    name TEXT PRIMARY KEY, use TEXT NOT NULL, certificate TEXT NOT NULL, author TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS key_rules (
    names TEXT NOT NULL, keys TEXT NOT NULL, author TEXT NOT NULL, PRIMARY KEY (names, keys));
CREATE TABLE IF NOT EXISTS routes (
    prefix TEXT NOT NULL, element TEXT NOT NULL, face TEXT NOT NULL, cost INTEGER NOT NULL,
    author TEXT NOT NULL, PRIMARY KEY (prefix, element, face));
";

/// An anchor or a certificate that a person has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// Name of the certificate.
    pub name: String,
    /// What it is trusted for.
    pub key_use: KeyUse,
    /// The certificate in base64.
    pub certificate: String,
    /// What added it.
    pub author: String,
}

const ANCHOR: &str = "anchor";
const CERTIFICATE: &str = "certificate";

fn token(row: &Row<'_>) -> rusqlite::Result<UserToken> {
    let role: String = row.get(1)?;
    let role = Role::NAMES.into_iter().find(|(name, _)| *name == role);
    Ok(UserToken {
        name: row.get(0)?,
        // An unknown role is one of a later program.
        role: role.map(|(_, role)| role).unwrap_or_default(),
        created_ms: unsigned(row, 2)?,
        expires_ms: unsigned(row, 3)?,
        author: row.get(4)?,
    })
}

impl Store {
    fn rows<T>(
        &self,
        action: &'static str,
        sql: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let all = || {
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map([], read)?.collect::<Result<Vec<_>, _>>()
        };
        all().map_err(self.failed(action))
    }

    /// Stores a token by the digest of its text, in place of one with the same name.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn set_token(&self, token: &UserToken, digest: &str) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO tokens VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (created, expires) = (signed(token.created_ms), signed(token.expires_ms));
        let values =
            params![token.name, digest, token.role.as_str(), created, expires, token.author];
        self.connection.execute(sql, values).map(drop).map_err(self.failed("write a token"))
    }

    /// Returns all tokens, by name.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn tokens(&self) -> Result<Vec<UserToken>, StoreError> {
        let sql = "SELECT name, role, created_ms, expires_ms, author FROM tokens ORDER BY name";
        self.rows("read the tokens", sql, token)
    }

    /// Returns the token whose text has this digest.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn token_of(&self, digest: &str) -> Result<Option<UserToken>, StoreError> {
        let sql = "SELECT name, role, created_ms, expires_ms, author FROM tokens WHERE digest = ?1";
        let found = self.connection.query_row(sql, [digest], token).optional();
        found.map_err(self.failed("read a token"))
    }

    /// Removes a token. Returns whether there was one.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn remove_token(&self, name: &str) -> Result<bool, StoreError> {
        let removed = self.connection.execute("DELETE FROM tokens WHERE name = ?1", [name]);
        removed.map(|count| count > 0).map_err(self.failed("remove a token"))
    }

    /// Stores an anchor or a certificate, in place of one with the same name.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn set_key(&self, key: &StoredKey) -> Result<(), StoreError> {
        let key_use = match key.key_use {
            KeyUse::Anchor => ANCHOR,
            KeyUse::Certificate => CERTIFICATE,
        };
        let sql = "INSERT OR REPLACE INTO keys VALUES (?1, ?2, ?3, ?4)";
        let values = params![key.name, key_use, key.certificate, key.author];
        self.connection.execute(sql, values).map(drop).map_err(self.failed("write a key"))
    }

    /// Returns the anchors and certificates that persons have added, by name.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn keys(&self) -> Result<Vec<StoredKey>, StoreError> {
        let sql = "SELECT name, use, certificate, author FROM keys ORDER BY name";
        self.rows("read the keys", sql, |row| {
            let key_use: String = row.get(1)?;
            let is_anchor = key_use == ANCHOR;
            Ok(StoredKey {
                name: row.get(0)?,
                key_use: if is_anchor { KeyUse::Anchor } else { KeyUse::Certificate },
                certificate: row.get(2)?,
                author: row.get(3)?,
            })
        })
    }

    /// Removes an anchor or a certificate. Returns whether there was one.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn remove_key(&self, name: &str) -> Result<bool, StoreError> {
        let removed = self.connection.execute("DELETE FROM keys WHERE name = ?1", [name]);
        removed.map(|count| count > 0).map_err(self.failed("remove a key"))
    }

    /// Stores a rule and its author.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn set_key_rule(&self, rule: &SigningRule, author: &str) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO key_rules VALUES (?1, ?2, ?3)";
        let done = self.connection.execute(sql, params![rule.names, rule.keys, author]);
        done.map(drop).map_err(self.failed("write a rule"))
    }

    /// Returns the rules that persons have added, with their authors.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn key_rules(&self) -> Result<Vec<(SigningRule, String)>, StoreError> {
        let sql = "SELECT names, keys, author FROM key_rules ORDER BY names, keys";
        self.rows("read the rules", sql, |row| {
            Ok((SigningRule { names: row.get(0)?, keys: row.get(1)? }, row.get(2)?))
        })
    }

    /// Removes a rule. Returns whether there was one.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn remove_key_rule(&self, rule: &SigningRule) -> Result<bool, StoreError> {
        let sql = "DELETE FROM key_rules WHERE names = ?1 AND keys = ?2";
        let removed = self.connection.execute(sql, [&rule.names, &rule.keys]);
        removed.map(|count| count > 0).map_err(self.failed("remove a rule"))
    }

    /// Stores a route and its author.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn set_route(&self, route: &AddedRoute, author: &str) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO routes VALUES (?1, ?2, ?3, ?4, ?5)";
        let values = params![route.prefix, route.element, route.face, signed(route.cost), author];
        self.connection.execute(sql, values).map(drop).map_err(self.failed("write a route"))
    }

    /// Returns the routes that persons have set, with their authors.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn routes(&self) -> Result<Vec<(AddedRoute, String)>, StoreError> {
        let sql = "SELECT prefix, element, face, cost, author FROM routes \
                   ORDER BY prefix, element, face";
        self.rows("read the routes", sql, |row| {
            let route = AddedRoute {
                prefix: row.get(0)?,
                element: row.get(1)?,
                face: row.get(2)?,
                cost: unsigned(row, 3)?,
            };
            Ok((route, row.get(4)?))
        })
    }

    /// Removes a route. Returns whether there was one.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn remove_route(&self, route: &AddedRoute) -> Result<bool, StoreError> {
        let sql = "DELETE FROM routes WHERE prefix = ?1 AND element = ?2 AND face = ?3";
        let removed = self.connection.execute(sql, [&route.prefix, &route.element, &route.face]);
        removed.map(|count| count > 0).map_err(self.failed("remove a route"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keys_rules_and_routes_are_replaced_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let mut token = UserToken {
            name: "ci".to_owned(),
            role: Role::Operator,
            created_ms: 1,
            expires_ms: 2,
            author: "root".to_owned(),
        };
        store.set_token(&token, "d1").unwrap();
        token.role = Role::Viewer;
        store.set_token(&token, "d2").unwrap();
        assert_eq!(store.tokens().unwrap(), [token.clone()]);
        assert_eq!(store.token_of("d1").unwrap(), None);
        assert_eq!(store.token_of("d2").unwrap(), Some(token));
        assert!(store.remove_token("ci").unwrap() && !store.remove_token("ci").unwrap());
        let key = StoredKey {
            name: "/k".to_owned(),
            key_use: KeyUse::Certificate,
            certificate: "QUFB".to_owned(),
            author: "root".to_owned(),
        };
        store.set_key(&key).unwrap();
        assert_eq!(store.keys().unwrap(), [key]);
        assert!(store.remove_key("/k").unwrap() && !store.remove_key("/k").unwrap());
        let rule = SigningRule { names: "/a".to_owned(), keys: "/b".to_owned() };
        store.set_key_rule(&rule, "root").unwrap();
        assert_eq!(store.key_rules().unwrap(), [(rule.clone(), "root".to_owned())]);
        assert!(store.remove_key_rule(&rule).unwrap() && store.key_rules().unwrap().is_empty());
        let (prefix, element) = ("/p".to_owned(), "nr".to_owned());
        let route = AddedRoute { prefix, element, face: "out".to_owned(), cost: 3 };
        store.set_route(&route, "root").unwrap();
        assert_eq!(store.routes().unwrap(), [(route.clone(), "root".to_owned())]);
        assert!(store.remove_route(&route).unwrap() && store.routes().unwrap().is_empty());
    }
}

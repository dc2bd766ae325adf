//! The SQLite database of names, public keys and certificates, in the format of ndn-cxx; names are
//! stored as complete TLV elements.

use super::{CertificateEntry, Identity, KeyEntry, KeyStoreError};
use nw_name::{Name, NameRef};
use nw_wire::{Reader, types as t};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a lock of another program.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Tables, indexes and triggers, with the names that other programs expect. The triggers keep one
/// default per scope.
const SCHEMA: &str = "
CREATE TABLE tpmInfo (tpm_locator BLOB);
CREATE TABLE identities (id INTEGER PRIMARY KEY, identity BLOB NOT NULL, is_default INTEGER DEFAULT 0);
CREATE UNIQUE INDEX identityIndex ON identities(identity);
CREATE TABLE keys (id INTEGER PRIMARY KEY, identity_id INTEGER NOT NULL, key_name BLOB NOT NULL, key_bits BLOB NOT NULL,
    is_default INTEGER DEFAULT 0,
    FOREIGN KEY(identity_id) REFERENCES identities(id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE UNIQUE INDEX keyIndex ON keys(key_name);
CREATE TABLE certificates (id INTEGER PRIMARY KEY, key_id INTEGER NOT NULL, certificate_name BLOB NOT NULL,
    certificate_data BLOB NOT NULL, is_default INTEGER DEFAULT 0,
    FOREIGN KEY(key_id) REFERENCES keys(id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE UNIQUE INDEX certIndex ON certificates(certificate_name);
";

/// Prefix of trigger names, table, name column, and the column that is the scope of the default.
const DEFAULTS: [(&str, &str, &str, Option<&str>); 3] = [
    ("identity", "identities", "identity", None),
    ("key", "keys", "key_name", Some("identity_id")),
    ("cert", "certificates", "certificate_name", Some("key_id")),
];

fn schema() -> String {
    let mut sql = SCHEMA.to_owned();
    for (word, table, name, scope_column) in DEFAULTS {
        let same_scope = scope_column.map_or(String::new(), |scope_column| {
            format!(" WHERE {scope_column}=NEW.{scope_column}")
        });
        let and_same_scope = scope_column.map_or(String::new(), |scope_column| {
            format!(" AND {scope_column}=NEW.{scope_column}")
        });
        sql += &format!(
            "CREATE TRIGGER {word}_default_before_insert_trigger BEFORE INSERT ON {table} FOR EACH ROW
                WHEN NEW.is_default=1 BEGIN UPDATE {table} SET is_default=0{same_scope}; END;
            CREATE TRIGGER {word}_default_after_insert_trigger AFTER INSERT ON {table} FOR EACH ROW
                WHEN NOT EXISTS (SELECT id FROM {table} WHERE is_default=1{and_same_scope})
                BEGIN UPDATE {table} SET is_default=1 WHERE {name}=NEW.{name}; END;
            CREATE TRIGGER {word}_default_update_trigger BEFORE UPDATE ON {table} FOR EACH ROW
                WHEN NEW.is_default=1 AND OLD.is_default=0
                BEGIN UPDATE {table} SET is_default=0{same_scope}; END;"
        );
    }
    sql
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    connection: Connection,
}

/// The kinds of entries in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An identity, with all its keys.
    Identity,
    /// A key, with all its certificates.
    Key,
    /// A certificate.
    Certificate,
}

impl Database {
    /// Opens an existing database.
    pub fn open(path: &Path) -> Result<Self, KeyStoreError> {
        match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(KeyStoreError::NoStore(path.to_owned()));
            }
            Err(error) => {
                return Err(KeyStoreError::File { what: "read", path: path.to_owned(), error });
            }
            Ok(_) => {}
        }
        let to_error = error_for(path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(&to_error)?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(&to_error)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(&to_error)?;
        Ok(Database { path: path.to_owned(), connection })
    }

    /// Opens a database, or creates it atomically with its tables.
    pub fn create(path: &Path, locator: &str) -> Result<Self, KeyStoreError> {
        let created = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => {
                return Err(KeyStoreError::File { what: "write", path: path.to_owned(), error });
            }
        };
        let database = Self::init(path, locator);
        if created && database.is_err() {
            let _ = std::fs::remove_file(path);
        }
        database
    }

    fn init(path: &Path, locator: &str) -> Result<Self, KeyStoreError> {
        let mut database = Self::open(path)?;
        let init = |transaction: &Transaction<'_>| {
            let tables: i64 =
                transaction
                    .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
            if tables == 0 {
                transaction.execute_batch(&schema())?;
                transaction.execute(
                    "INSERT INTO tpmInfo (tpm_locator) VALUES (?)",
                    [locator.as_bytes()],
                )?;
            }
            Ok(())
        };
        database.change(init)?;
        Ok(database)
    }

    /// Applies changes in one transaction.
    pub fn change<T>(
        &mut self,
        changes: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, KeyStoreError> {
        self.change_with(changes, || Ok(()))
    }

    /// Like [`change`](Self::change); commits only if `before_commit` succeeds.
    pub fn change_with<T>(
        &mut self,
        changes: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
        before_commit: impl FnOnce() -> Result<(), KeyStoreError>,
    ) -> Result<T, KeyStoreError> {
        let to_error = error_for(&self.path);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(&to_error)?;
        let result = changes(&transaction).map_err(&to_error)?;
        before_commit()?;
        transaction.commit().map_err(&to_error)?;
        Ok(result)
    }

    /// Returns all identities, sorted by name. `has_private` is always false here.
    pub fn identities(&self) -> Result<Vec<Identity>, KeyStoreError> {
        let rows = self.rows().map_err(error_for(&self.path))?;
        let mut identities: Vec<Identity> = Vec::new();
        for (identity, identity_default, key, certificate) in rows {
            let name = self.name(&identity)?;
            if identities.last().is_none_or(|last| last.name != name) {
                identities.push(Identity { name, is_default: identity_default, keys: Vec::new() });
            }
            let (Some((key_name, public_key, is_default)), Some(last)) =
                (key, identities.last_mut())
            else {
                continue;
            };
            let name = self.name(&key_name)?;
            if last.keys.last().is_none_or(|last| last.name != name) {
                last.keys.push(KeyEntry {
                    name,
                    is_default,
                    public_key,
                    has_private: false,
                    certificates: Vec::new(),
                });
            }
            let (Some((name, wire, is_default)), Some(key)) = (certificate, last.keys.last_mut())
            else {
                continue;
            };
            key.certificates.push(CertificateEntry { name: self.name(&name)?, is_default, wire });
        }
        identities.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(identities)
    }

    #[expect(clippy::type_complexity, reason = "one row of columns tables, used in one place")]
    fn rows(
        &self,
    ) -> rusqlite::Result<
        Vec<(Vec<u8>, bool, Option<(Vec<u8>, Vec<u8>, bool)>, Option<(Vec<u8>, Vec<u8>, bool)>)>,
    > {
        let mut query = self.connection.prepare(
            "SELECT identity, i.is_default, key_name, key_bits, k.is_default,
                certificate_name, certificate_data, c.is_default
            FROM identities i LEFT JOIN keys k ON k.identity_id=i.id LEFT JOIN certificates c ON c.key_id=k.id
            ORDER BY i.id, k.id, c.id",
        )?;
        let rows = query.query_map([], |row| {
            let columns = |at: usize| -> rusqlite::Result<_> {
                let name: Option<Vec<u8>> = row.get(at)?;
                name.map(|name| Ok((name, row.get(at + 1)?, row.get(at + 2)?))).transpose()
            };
            Ok((row.get(0)?, row.get(1)?, columns(2)?, columns(5)?))
        })?;
        rows.collect()
    }

    fn name(&self, element: &[u8]) -> Result<Name, KeyStoreError> {
        let mut reader = Reader::new(element, 0);
        let name = match reader.next() {
            Ok(Some(name)) if name.typ == t::NAME && reader.is_empty() => {
                NameRef::check(name.value).ok()
            }
            _ => None,
        };
        name.map(NameRef::to_name).ok_or_else(|| KeyStoreError::Damaged {
            path: self.path.clone(),
            why: "it contains an invalid name".to_owned(),
        })
    }
}

/// Adds a key, and its identity if needed; the first ones become defaults.
pub fn insert_key(
    transaction: &Transaction<'_>,
    identity: NameRef<'_>,
    key_name: NameRef<'_>,
    public_key: &[u8],
) -> rusqlite::Result<()> {
    transaction
        .execute("INSERT OR IGNORE INTO identities (identity) VALUES (?)", [element(identity)])?;
    transaction.execute(
        "INSERT INTO keys (identity_id, key_name, key_bits) VALUES ((SELECT id FROM identities WHERE identity=?), ?, ?)",
        params![element(identity), element(key_name), public_key],
    )?;
    Ok(())
}

/// Adds a certificate of an existing key, or replaces the one of this name.
pub fn insert_certificate(
    transaction: &Transaction<'_>,
    key_name: NameRef<'_>,
    name: NameRef<'_>,
    wire: &[u8],
) -> rusqlite::Result<()> {
    let changed = transaction.execute(
        "UPDATE certificates SET certificate_data=? WHERE certificate_name=?",
        params![wire, element(name)],
    )?;
    if changed == 0 {
        transaction.execute(
            "INSERT INTO certificates (key_id, certificate_name, certificate_data)
                VALUES ((SELECT id FROM keys WHERE key_name=?), ?, ?)",
            params![element(key_name), element(name), wire],
        )?;
    }
    Ok(())
}

/// Makes an entry the default of its scope.
pub fn set_default(
    transaction: &Transaction<'_>,
    level: Level,
    name: NameRef<'_>,
) -> rusqlite::Result<()> {
    let (_, table, column, _) = DEFAULTS[level as usize];
    let sql = format!("UPDATE {table} SET is_default=1 WHERE {column}=?");
    transaction.execute(&sql, [element(name)]).map(drop)
}

/// Removes an entry and everything below it. Databases of other programs may lack the foreign keys
/// that would do this.
pub fn delete(
    transaction: &Transaction<'_>,
    level: Level,
    name: NameRef<'_>,
) -> rusqlite::Result<()> {
    let key_ids = match level {
        Level::Identity => {
            "SELECT k.id FROM keys k JOIN identities i ON k.identity_id=i.id WHERE identity=?"
        }
        Level::Key | Level::Certificate => "SELECT id FROM keys WHERE key_name=?",
    };
    if level != Level::Certificate {
        let sql = format!("DELETE FROM certificates WHERE key_id IN ({key_ids})");
        transaction.execute(&sql, [element(name)])?;
    }
    if level == Level::Identity {
        transaction
            .execute(&format!("DELETE FROM keys WHERE id IN ({key_ids})"), [element(name)])?;
    }
    let (_, table, column, _) = DEFAULTS[level as usize];
    transaction.execute(&format!("DELETE FROM {table} WHERE {column}=?"), [element(name)]).map(drop)
}

fn element(name: NameRef<'_>) -> Vec<u8> {
    let mut element = Vec::new();
    name.encode(&mut element);
    element
}

/// Returns a conversion of database errors to [`KeyStoreError`].
fn error_for(path: &Path) -> impl Fn(rusqlite::Error) -> KeyStoreError {
    use rusqlite::ErrorCode as Code;
    let path = path.to_owned();
    move |error| {
        let path = path.clone();
        match error.sqlite_error_code() {
            Some(Code::DiskFull) => KeyStoreError::DiskFull(path),
            // Another program has added the same entry in the meantime.
            Some(Code::DatabaseBusy | Code::DatabaseLocked | Code::ConstraintViolation) => {
                KeyStoreError::Busy(path)
            }
            Some(
                Code::ReadOnly | Code::PermissionDenied | Code::CannotOpen | Code::SystemIoFailure,
            ) => KeyStoreError::Unwritable { path, error },
            _ => KeyStoreError::Damaged { path, why: error.to_string() },
        }
    }
}

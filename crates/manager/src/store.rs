//! The manager's memory on disk: versions of the document, the journal of steps, the audit of
//! commands, numbers of instances, positions.
//!
//! Invariant: one manager at a time has the store of a network, by a lock on `manager.lock`. SQLite
//! writes ahead (WAL) and synchronizes each commit, so what was committed survives a power cut.
//! Nothing here says what runs: that is observed.

mod access;

pub use access::StoredKey;

use nw_api::network::{AuditEntry, DocumentVersion, GraphPosition};
use nw_manage::plan::Step;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const DATABASE_FILE: &str = "manager.db";
const LOCK_FILE: &str = "manager.lock";
/// Version of the tables, in `PRAGMA user_version`.
const SCHEMA_VERSION: u32 = 1;
/// Rows of the journal that are kept.
const JOURNAL_ROWS_MAX: u64 = 20_000;
/// Rows of the audit that are kept.
const AUDIT_ROWS_MAX: u64 = 100_000;
/// Rows of the audit that are shown at once.
const AUDIT_SHOWN_MAX: u32 = 1_000;

const SCHEMA: &str = "
CREATE TABLE documents (
    version INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, author TEXT NOT NULL,
    reason TEXT NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE journal (
    id INTEGER PRIMARY KEY AUTOINCREMENT, plan TEXT NOT NULL, step TEXT NOT NULL,
    action TEXT NOT NULL, began_ms INTEGER NOT NULL, ended_ms INTEGER, result TEXT);
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER NOT NULL, author TEXT NOT NULL,
    action TEXT NOT NULL, result TEXT NOT NULL);
CREATE TABLE replicas (
    service TEXT PRIMARY KEY, instances INTEGER NOT NULL, pinned INTEGER NOT NULL);
CREATE TABLE vetoes (element TEXT PRIMARY KEY);
CREATE TABLE positions (instance TEXT PRIMARY KEY, x REAL NOT NULL, y REAL NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
";

/// Errors of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another manager has the network.
    #[error(
        "the network in {} is managed by process {holder} already: use `nw network apply` to change it, or stop that manager (`nw network down`)",
        directory.display()
    )]
    Locked {
        /// Directory of the network.
        directory: PathBuf,
        /// Process id of the other manager, or "another program".
        holder: String,
    },
    /// A file can't be used.
    #[error("can't {action} {}: {error}; choose another --directory, or correct its rights", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// SQLite refused.
    #[error("can't {action} in {}: {error}", path.display())]
    Database {
        /// What was tried.
        action: &'static str,
        /// The database.
        path: PathBuf,
        /// Error of SQLite: a full disk, a damaged file.
        error: rusqlite::Error,
    },
    /// The tables are of a later program.
    #[error("{} was written by a later version of nw (tables {found}, this program knows {SCHEMA_VERSION}): use that version", path.display())]
    Later {
        /// The database.
        path: PathBuf,
        /// Version of its tables.
        found: u32,
    },
}

/// Number of instances of a service, as scaling or a person has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredReplicas {
    /// Number of instances.
    pub instances: u32,
    /// Whether a person has set it.
    pub is_pinned: bool,
}

/// A version of the document with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Version, from 1.
    pub version: u64,
    /// Text.
    pub text: String,
}

/// The open store of a network, and its lock.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// Locked for as long as it is open.
    _lock: File,
}

impl Store {
    /// Creates the network's directory (mode 0700) if it does not exist, locks it and opens the
    /// store.
    ///
    /// # Errors
    /// Another manager has it, or files can't be written or read.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        let file_error = |action, path: &Path| {
            let path = path.to_owned();
            move |error| StoreError::File { action, path, error }
        };
        let make = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        make.map_err(file_error("make", directory))?;
        let lock_path = directory.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let mut lock = options.open(&lock_path).map_err(file_error("open", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let directory = directory.to_owned();
                return Err(StoreError::Locked { directory, holder: read_holder(&mut lock) });
            }
            Err(TryLockError::Error(error)) => return Err(file_error("lock", &lock_path)(error)),
        }
        write_holder(&mut lock).map_err(file_error("write", &lock_path))?;
        let path = directory.join(DATABASE_FILE);
        let opened = Connection::open(&path).and_then(|connection| {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            Ok((connection, version))
        });
        let failed = |error| StoreError::Database { action: "open", path: path.clone(), error };
        let (connection, version): (Connection, u32) = opened.map_err(failed)?;
        if version > SCHEMA_VERSION {
            return Err(StoreError::Later { path, found: version });
        }
        if version == 0 {
            let create = format!("BEGIN;{SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;");
            connection.execute_batch(&create).map_err(failed)?;
        }
        connection.execute_batch(access::TABLES).map_err(failed)?;
        Ok(Store { connection, path, _lock: lock })
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError + use<> {
        let path = self.path.clone();
        move |error| StoreError::Database { action, path, error }
    }

    /// Returns the document in effect: the one of the highest version.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn document(&self) -> Result<Option<StoredDocument>, StoreError> {
        let sql = "SELECT version, text FROM documents ORDER BY version DESC LIMIT 1";
        let row = self.connection.query_row(sql, [], |row| {
            Ok(StoredDocument { version: unsigned(row, 0)?, text: row.get(1)? })
        });
        row.optional().map_err(self.failed("read the document"))
    }

    /// Returns the text of a version.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn document_at(&self, version: u64) -> Result<Option<String>, StoreError> {
        let sql = "SELECT text FROM documents WHERE version = ?1";
        let row = self.connection.query_row(sql, [signed(version)], |row| row.get(0));
        row.optional().map_err(self.failed("read a version"))
    }

    /// Adds a version of the document and returns its number.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn add_document(
        &self,
        (at_ms, author, reason): (u64, &str, &str),
        digest: &str,
        text: &str,
    ) -> Result<u64, StoreError> {
        let sql = "INSERT INTO documents (at_ms, author, reason, digest, text) \
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let added =
            self.connection.execute(sql, params![signed(at_ms), author, reason, digest, text]);
        added.map_err(self.failed("write the document"))?;
        Ok(self.connection.last_insert_rowid().unsigned_abs())
    }

    /// Returns all versions, the newest first.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn history(&self) -> Result<Vec<DocumentVersion>, StoreError> {
        let sql = "SELECT version, at_ms, author, reason, digest FROM documents \
                   ORDER BY version DESC";
        let read = || {
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                Ok(DocumentVersion {
                    version: unsigned(row, 0)?,
                    at_ms: unsigned(row, 1)?,
                    author: row.get(2)?,
                    reason: row.get(3)?,
                    digest: row.get(4)?,
                    current: false,
                })
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let mut versions: Vec<DocumentVersion> = read().map_err(self.failed("read versions"))?;
        if let Some(newest) = versions.first_mut() {
            newest.current = true;
        }
        Ok(versions)
    }

    /// Notes that a step begins, and returns the row to close with [`end_step`](Self::end_step).
    ///
    /// # Errors
    /// The store can't be written: the step must not be carried out.
    pub fn begin_step(&self, plan: &str, step: &Step, at_ms: u64) -> Result<i64, StoreError> {
        let action = serde_json::to_string(&step.action).unwrap_or_default();
        let sql = "INSERT INTO journal (plan, step, action, began_ms) VALUES (?1, ?2, ?3, ?4)";
        let added = self.connection.execute(sql, params![plan, step.id, action, signed(at_ms)]);
        added.map_err(self.failed("write the journal"))?;
        let row = self.connection.last_insert_rowid();
        if row.unsigned_abs().is_multiple_of(1_000) {
            let oldest = row.unsigned_abs().saturating_sub(JOURNAL_ROWS_MAX);
            let cleared =
                self.connection.execute("DELETE FROM journal WHERE id < ?1", [signed(oldest)]);
            cleared.map_err(self.failed("shorten the journal"))?;
        }
        Ok(row)
    }

    /// Notes the end of a step.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn end_step(&self, row: i64, at_ms: u64, result: &str) -> Result<(), StoreError> {
        let sql = "UPDATE journal SET ended_ms = ?2, result = ?3 WHERE id = ?1";
        let changed = self.connection.execute(sql, params![row, signed(at_ms), result]);
        changed.map(drop).map_err(self.failed("write the journal"))
    }

    /// Returns the steps that an earlier manager began and did not end, as (plan, step id, action),
    /// and closes them: what they came to is observed.
    ///
    /// # Errors
    /// The store can't be read or written.
    pub fn take_unfinished(&self, at_ms: u64) -> Result<Vec<(String, String, String)>, StoreError> {
        let read = || {
            let sql = "SELECT plan, step, action FROM journal WHERE ended_ms IS NULL";
            let mut statement = self.connection.prepare(sql)?;
            let rows =
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let found = rows.collect::<Result<Vec<_>, _>>()?;
            let close = "UPDATE journal SET ended_ms = ?1, result = 'interrupted' \
                         WHERE ended_ms IS NULL";
            self.connection.execute(close, [signed(at_ms)])?;
            Ok(found)
        };
        read().map_err(self.failed("read the journal"))
    }

    /// Adds a line to the audit.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn add_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let sql = "INSERT INTO audit (at_ms, author, action, result) VALUES (?1, ?2, ?3, ?4)";
        let values = params![signed(entry.at_ms), entry.author, entry.action, entry.result];
        let added = self.connection.execute(sql, values);
        added.map_err(self.failed("write the audit"))?;
        let row = self.connection.last_insert_rowid().unsigned_abs();
        if row.is_multiple_of(1_000) {
            let oldest = signed(row.saturating_sub(AUDIT_ROWS_MAX));
            let cleared = self.connection.execute("DELETE FROM audit WHERE id < ?1", [oldest]);
            cleared.map_err(self.failed("shorten the audit"))?;
        }
        Ok(())
    }

    /// Returns the newest lines of the audit, the newest first.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn audit(&self) -> Result<Vec<AuditEntry>, StoreError> {
        let read = || {
            let sql = "SELECT at_ms, author, action, result FROM audit ORDER BY id DESC LIMIT ?1";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([AUDIT_SHOWN_MAX], |row| {
                Ok(AuditEntry {
                    at_ms: unsigned(row, 0)?,
                    author: row.get(1)?,
                    action: row.get(2)?,
                    result: row.get(3)?,
                })
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(self.failed("read the audit"))
    }

    /// Returns the numbers of instances that were set, by service.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn replicas(&self) -> Result<BTreeMap<String, StoredReplicas>, StoreError> {
        let read = || {
            let sql = "SELECT service, instances, pinned FROM replicas";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                Ok((row.get(0)?, StoredReplicas { instances: row.get(1)?, is_pinned: row.get(2)? }))
            })?;
            rows.collect::<Result<BTreeMap<_, _>, _>>()
        };
        read().map_err(self.failed("read the numbers of instances"))
    }

    /// Sets the number of instances of a service.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn set_replicas(&self, service: &str, set: StoredReplicas) -> Result<(), StoreError> {
        let sql =
            "INSERT OR REPLACE INTO replicas (service, instances, pinned) VALUES (?1, ?2, ?3)";
        let set = self.connection.execute(sql, params![service, set.instances, set.is_pinned]);
        set.map(drop).map_err(self.failed("write the number of instances"))
    }

    /// Returns the elements at which a person forbids countermeasures.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn vetoes(&self) -> Result<Vec<String>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare("SELECT element FROM vetoes")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(self.failed("read the vetoes"))
    }

    /// Forbids or allows countermeasures at an element.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn set_veto(&self, element: &str, is_forbidden: bool) -> Result<(), StoreError> {
        let sql = match is_forbidden {
            true => "INSERT OR IGNORE INTO vetoes (element) VALUES (?1)",
            false => "DELETE FROM vetoes WHERE element = ?1",
        };
        self.connection.execute(sql, [element]).map(drop).map_err(self.failed("write a veto"))
    }

    /// Returns the positions that a person has set, by instance.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn positions(&self) -> Result<BTreeMap<String, GraphPosition>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare("SELECT instance, x, y FROM positions")?;
            let rows = statement.query_map([], |row| {
                Ok((row.get(0)?, GraphPosition { x: row.get(1)?, y: row.get(2)?, fixed: true }))
            })?;
            rows.collect::<Result<BTreeMap<_, _>, _>>()
        };
        read().map_err(self.failed("read the positions"))
    }

    /// Sets or removes the position of an instance.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn set_position(
        &self,
        instance: &str,
        position: Option<GraphPosition>,
    ) -> Result<(), StoreError> {
        let set = match position {
            Some(GraphPosition { x, y, .. }) => self.connection.execute(
                "INSERT OR REPLACE INTO positions (instance, x, y) VALUES (?1, ?2, ?3)",
                params![instance, x, y],
            ),
            None => {
                self.connection.execute("DELETE FROM positions WHERE instance = ?1", [instance])
            }
        };
        set.map(drop).map_err(self.failed("write a position"))
    }

    /// Returns a setting.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT value FROM settings WHERE name = ?1";
        let row = self.connection.query_row(sql, [name], |row| row.get(0));
        row.optional().map_err(self.failed("read a setting"))
    }

    /// Sets a setting.
    ///
    /// # Errors
    /// The store can't be written.
    pub fn set_setting(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO settings (name, value) VALUES (?1, ?2)";
        let set = self.connection.execute(sql, [name, value]);
        set.map(drop).map_err(self.failed("write a setting"))
    }
}

/// SQLite has signed numbers only; ours are far from the bound.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

fn read_holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another program".to_owned(),
    }
}

fn write_holder(lock: &mut File) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_versions_survive_and_are_numbered() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("n");
        let store = Store::open(&directory).unwrap();
        assert_eq!(store.document().unwrap(), None);
        assert_eq!(store.add_document((5, "root", "first"), "d1", "text one").unwrap(), 1);
        assert_eq!(store.add_document((6, "root", "second"), "d2", "text two").unwrap(), 2);
        drop(store);
        let store = Store::open(&directory).unwrap();
        let document = store.document().unwrap().unwrap();
        assert_eq!((document.version, document.text.as_str()), (2, "text two"));
        assert_eq!(store.document_at(1).unwrap().as_deref(), Some("text one"));
        assert_eq!(store.document_at(3).unwrap(), None);
        let history = store.history().unwrap();
        assert_eq!(
            history.iter().map(|v| (v.version, v.current)).collect::<Vec<_>>(),
            [(2, true), (1, false)]
        );
    }

    #[test]
    fn second_manager_is_refused_with_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let first = Store::open(folder.path()).unwrap();
        let error = Store::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("managed by process {}", std::process::id())), "{error}");
        drop(first);
        Store::open(folder.path()).unwrap();
    }

    #[test]
    fn numbers_vetoes_positions_and_settings_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for (instances, is_pinned) in [(2, false), (3, true)] {
            store.set_replicas("cs", StoredReplicas { instances, is_pinned }).unwrap();
        }
        let set = StoredReplicas { instances: 3, is_pinned: true };
        assert_eq!(store.replicas().unwrap(), BTreeMap::from([("cs".to_owned(), set)]));
        store.set_veto("cs", true).unwrap();
        store.set_veto("cs", true).unwrap();
        assert_eq!(store.vetoes().unwrap(), ["cs"]);
        store.set_veto("cs", false).unwrap();
        assert!(store.vetoes().unwrap().is_empty());
        let position = GraphPosition { x: 1.5, y: -2.0, fixed: true };
        store.set_position("cs~1 on a", Some(position)).unwrap();
        assert_eq!(store.positions().unwrap()["cs~1 on a"], position);
        store.set_position("cs~1 on a", None).unwrap();
        assert!(store.positions().unwrap().is_empty());
        store.set_setting("held", "yes").unwrap();
        assert_eq!(store.setting("held").unwrap().as_deref(), Some("yes"));
        assert_eq!(store.setting("other").unwrap(), None);
    }

    #[test]
    fn directory_that_can_not_be_made_and_later_tables_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = Store::open(&file.join("n")).unwrap_err().to_string();
        assert!(error.contains("choose another --directory"), "{error}");
        let directory = folder.path().join("n");
        let store = Store::open(&directory).unwrap();
        store.connection.pragma_update(None, "user_version", 9).unwrap();
        drop(store);
        let error = Store::open(&directory).unwrap_err().to_string();
        assert!(error.contains("later version of nw (tables 9"), "{error}");
    }

    #[test]
    fn audit_and_unfinished_steps_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let entry = AuditEntry {
            at_ms: 7,
            author: "root".to_owned(),
            action: "scale cs 3".to_owned(),
            result: "accepted".to_owned(),
        };
        store.add_audit(&entry).unwrap();
        assert_eq!(store.audit().unwrap(), [entry]);
        assert!(store.take_unfinished(9).unwrap().is_empty());
    }
}

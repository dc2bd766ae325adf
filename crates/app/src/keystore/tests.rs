use super::*;
use nw_trust::KeyKind;
use nw_wire::{Data, Interest, InterestBuilder};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// 2033-05-18.
const UNTIL_S: u64 = 2_000_000_000;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn store(folder: &Path) -> KeyStore {
    KeyStore::create(KeyStoreLocation::in_folder(folder)).unwrap()
}

fn add(store: &mut KeyStore, identity: &str) -> Name {
    let key = Key::generate(KeyKind::EcdsaP256, name(identity).as_ref()).unwrap();
    store.add_new_key(&key, 1, UNTIL_S).unwrap();
    key.name().to_name()
}

/// Returns every file below a folder with its content.
fn files_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files_of(&entry.path())),
            false => drop(all.insert(entry.path(), fs::read(entry.path()).unwrap())),
        }
    }
    all
}

#[test]
fn first_entries_are_defaults_until_changed() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(folder.path());
    assert!(matches!(store.key(None), Err(KeyStoreError::NoDefault)));
    let (first, second, other) =
        (add(&mut store, "/a"), add(&mut store, "/a"), add(&mut store, "/b"));
    assert_eq!(store.key(None).unwrap().name, first);
    assert_eq!(store.key(Some(name("/b").as_ref())).unwrap().name, other);
    store.set_default(second.as_ref()).unwrap();
    assert_eq!(store.key(Some(name("/a").as_ref())).unwrap().name, second);
    store.set_default(name("/b").as_ref()).unwrap();
    assert_eq!(store.key(None).unwrap().name, other);
    let defaults =
        store.identities().unwrap().iter().filter(|identity| identity.is_default).count();
    assert_eq!(defaults, 1);
    // A reopened store has the same content.
    assert_eq!(
        KeyStore::open(KeyStoreLocation::in_folder(folder.path())).unwrap().identities().unwrap(),
        store.identities().unwrap()
    );
}

#[test]
fn delete_removes_dependent_entries() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(folder.path());
    let (first, second) = (add(&mut store, "/a"), add(&mut store, "/a"));
    add(&mut store, "/b");
    assert_eq!(store.delete(first.as_ref()).unwrap().as_slice(), std::slice::from_ref(&first));
    assert!(!files::path(&folder.path().join("ndnsec-key-file"), first.as_ref()).exists());
    assert!(matches!(
        store.delete(first.as_ref()),
        Err(KeyStoreError::Unknown { what: "key", .. })
    ));
    let certificate = store.certificate(Some(second.as_ref())).unwrap().name;
    assert_eq!(store.delete(certificate.as_ref()).unwrap(), []);
    assert!(matches!(
        store.certificate(Some(second.as_ref())),
        Err(KeyStoreError::NoCertificate(_))
    ));
    assert_eq!(store.delete(name("/a").as_ref()).unwrap(), [second]);
    assert_eq!(store.identities().unwrap().len(), 1);
    assert_eq!(fs::read_dir(folder.path().join("ndnsec-key-file")).unwrap().count(), 1);
}

#[test]
fn unwritable_key_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(folder.path());
    add(&mut store, "/a");
    let keys = folder.path().join("ndnsec-key-file");
    // The key folder is now a file: not even root can write there.
    fs::rename(&keys, folder.path().join("moved")).unwrap();
    fs::write(&keys, b"").unwrap();
    let before = files_of(folder.path());
    let key = Key::generate(KeyKind::Ed25519, name("/b").as_ref()).unwrap();
    assert!(matches!(store.add_new_key(&key, 1, UNTIL_S), Err(KeyStoreError::File { .. })));
    assert_eq!(files_of(folder.path()), before);
    assert_eq!(store.identities().unwrap().len(), 1);
}

#[test]
fn existing_key_not_added_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(folder.path());
    let key = Key::generate(KeyKind::EcdsaP256, name("/a").as_ref()).unwrap();
    let wire = store.add_new_key(&key, 1, UNTIL_S).unwrap();
    let before = files_of(folder.path());
    assert!(matches!(store.add_key(&key, &wire), Err(KeyStoreError::Exists(_))));
    // Also rejected if its file exists.
    let other = Key::generate(KeyKind::EcdsaP256, name("/a").as_ref()).unwrap();
    files::write(&folder.path().join("ndnsec-key-file"), &other).unwrap();
    assert!(matches!(store.add_new_key(&other, 1, UNTIL_S), Err(KeyStoreError::Exists(_))));
    fs::remove_file(files::path(&folder.path().join("ndnsec-key-file"), other.name())).unwrap();
    assert!(matches!(store.add_key(&other, &wire), Err(KeyStoreError::OtherKey(_))));
    assert_eq!(files_of(folder.path()), before);
}

#[test]
fn safebag_exported_and_imported() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut here, mut there) = (store(here.path()), store(there.path()));
    let key = add(&mut here, "/a");
    let bag = here.export(None, b"secret").unwrap();
    let wrong = there.import(&bag, b"wrong").unwrap_err();
    assert!(matches!(wrong, KeyStoreError::Trust(nw_trust::Error::WrongPassphrase)));
    assert_eq!(there.import(&bag, b"secret").unwrap(), key);
    assert_eq!(here.identities().unwrap(), there.identities().unwrap());
}

#[test]
fn credentials_answer_for_whole_chain() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = store(folder.path());
    let (site, clerk) = (add(&mut store, "/site"), add(&mut store, "/site/clerk"));
    let signer = store.credentials(Some(site.as_ref())).unwrap().key;
    let public = store.key(Some(clerk.as_ref())).unwrap().public_key;
    let validity = Validity { not_before_s: 0, not_after_s: UNTIL_S };
    let issuer = nw_name::Component::generic(b"site");
    let wire = certificate::issue(clerk.as_ref(), &public, issuer, &signer, 2, validity).unwrap();
    let certificate = store.add_certificate(&wire, true).unwrap();
    let credentials = store.credentials(Some(clerk.as_ref())).unwrap();
    assert_eq!(credentials.certificates.len(), 2);
    let answer = |name: &Name| {
        let interest = InterestBuilder::new(name.clone()).can_be_prefix(true).encode();
        let wire = credentials.answer(&Interest::check(&interest).unwrap())?;
        Some(Data::check(wire).unwrap().name().to_name())
    };
    assert_eq!(answer(&certificate), Some(certificate.clone()));
    assert_eq!(answer(&clerk), Some(certificate));
    assert!(site.as_ref().is_prefix_of(answer(&site).unwrap().as_ref()));
    assert_eq!(answer(&name("/site/other")), None);
    // A certificate for a key that is not in the store.
    let stranger = Key::generate(KeyKind::EcdsaP256, name("/site/clerk").as_ref()).unwrap();
    let wire = certificate::issue(
        clerk.as_ref(),
        &stranger.public_key().unwrap(),
        issuer,
        &signer,
        3,
        validity,
    );
    assert!(matches!(store.add_certificate(&wire.unwrap(), true), Err(KeyStoreError::OtherKey(_))));
}

#[test]
fn invalid_database_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        KeyStore::open(KeyStoreLocation::in_folder(folder.path())),
        Err(KeyStoreError::NoStore(_))
    ));
    assert!(files_of(folder.path()).is_empty());
    let path = folder.path().join("pib.db");
    fs::write(
        &path,
        b"something else entirely, and longer than a header of SQLite would be; so it is no empty one",
    )
    .unwrap();
    let before = files_of(folder.path());
    assert!(matches!(
        KeyStore::create(KeyStoreLocation::in_folder(folder.path())),
        Err(KeyStoreError::Damaged { .. })
    ));
    let read = KeyStore::open(KeyStoreLocation::in_folder(folder.path()))
        .and_then(|store| store.identities());
    assert!(matches!(read, Err(KeyStoreError::Damaged { .. })));
    assert_eq!(files_of(folder.path()), before);
}

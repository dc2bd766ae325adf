//! Groups of hosts: with the token of a group, hosts enrol under names of the group, as often as
//! they are replaced.
//!
//! Hosts of a group are named `GROUP-SUFFIX`; if several groups fit, the longest is meant. A group
//! is in the file `groups.json`, or its token is in a file of the operator, which is read again at
//! each attempt so that it can be replaced.

use crate::credits::Credits;
use crate::group_token::{GroupToken, Statement, StoredToken};
use crate::registry::{Admission, Registry, is_host_name};
use crate::{AgentError, HOSTS_MAX, lock_file, read_private, write_private};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Groups of a manager.
const GROUPS_MAX: usize = 64;
/// Bytes of a group's name: names of hosts have to be longer.
const NAME_LEN_MAX: usize = 48;
/// Lifetime of the certificate of a group's host: one hour. It is renewed after two thirds of it.
/// For this long the name of a host that has ended is counted.
pub const LIFETIME_S: u64 = 3600;
/// Attempts of one address without the right token: at once, and the time in which one returns.
const WRONG_MAX: u32 = 10;
const WRONG_INTERVAL: Duration = Duration::from_secs(6);
/// Enrolments in one group beyond one for each host, and the time in which one returns.
const ENROLMENTS_MAX: u32 = 128;
const ENROLMENT_INTERVAL: Duration = Duration::from_secs(1);

/// A group whose token is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFile {
    /// Name of the group.
    pub name: String,
    /// File with the token.
    pub token_file: PathBuf,
    /// Hosts at a time, at most.
    pub hosts_max: usize,
}

impl GroupFile {
    fn read(&self) -> Result<Group, AgentError> {
        let token = GroupToken::read(&self.token_file)?.stored();
        Ok(Group { token, hosts_max: self.hosts_max, expires_s: u64::MAX })
    }
}

/// A group in the manager's list.
#[derive(Clone, Serialize, Deserialize)]
struct Group {
    token: StoredToken,
    hosts_max: usize,
    expires_s: u64,
}

/// A group, as the manager shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStatus {
    /// Name of the group.
    pub name: String,
    /// Hosts whose certificates are in force.
    pub hosts: usize,
    /// Hosts at a time, at most.
    pub hosts_max: usize,
    /// End of the token, seconds since 1970. Enrolled hosts stay.
    pub expires_s: u64,
}

/// What became of an attempt to enrol in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Enrolment {
    /// The host has a certificate.
    Enrolled,
    /// The token is not the group's.
    WrongToken,
    /// No group has a host of this name.
    WrongName,
    /// The token has expired.
    Expired,
    /// The group has as many hosts as it may have.
    GroupFull,
    /// There were too many attempts.
    TooOften,
    /// The manager could not read or write a file.
    Failed,
}

impl Enrolment {
    /// All of them.
    pub const ALL: [Enrolment; 7] = [
        Enrolment::Enrolled,
        Enrolment::WrongToken,
        Enrolment::WrongName,
        Enrolment::Expired,
        Enrolment::GroupFull,
        Enrolment::TooOften,
        Enrolment::Failed,
    ];

    /// Returns the name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Enrolment::Enrolled => "enrolled",
            Enrolment::WrongToken => "wrong-token",
            Enrolment::WrongName => "wrong-name",
            Enrolment::Expired => "expired",
            Enrolment::GroupFull => "group-full",
            Enrolment::TooOften => "too-often",
            Enrolment::Failed => "failed",
        }
    }
}

/// Counts attempts to enrol in groups.
#[derive(Debug, Default)]
pub struct EnrolmentCounts([AtomicU64; Enrolment::ALL.len()]);

impl EnrolmentCounts {
    fn add(&self, enrolment: Enrolment) {
        self.0[enrolment as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of attempts with this outcome.
    pub fn count(&self, enrolment: Enrolment) -> u64 {
        self.0[enrolment as usize].load(Relaxed)
    }
}

/// A host that asks for a certificate.
pub struct Applicant<'a> {
    pub address: IpAddr,
    pub host: &'a str,
    pub key: &'a [u8],
    pub proof: &'a [u8],
    /// Identifies the TLS connection.
    pub binding: &'a [u8; 32],
}

/// An applicant that may have a certificate.
pub struct Admitted {
    token: StoredToken,
    statement: Statement,
}

impl Admitted {
    /// Returns the manager's proof for the certificate.
    pub fn answer(&self, authority: &[u8], certificate: &[u8]) -> [u8; 32] {
        self.token.answer(&self.statement, authority, certificate)
    }
}

/// The manager's groups.
pub struct Groups {
    path: PathBuf,
    file: Option<GroupFile>,
    token_command: &'static str,
    wrong: Mutex<Credits<IpAddr>>,
    enrolments: Mutex<Credits<String>>,
    counts: Arc<EnrolmentCounts>,
}

type List = BTreeMap<String, Group>;
type Refusal = (Enrolment, String);

impl Groups {
    /// `file`: a group beside those of the list in `directory`.
    pub fn new(
        directory: &Path,
        file: Option<GroupFile>,
        token_command: &'static str,
        counts: Arc<EnrolmentCounts>,
    ) -> Self {
        Groups {
            path: path(directory),
            file,
            token_command,
            wrong: Mutex::new(Credits::new(WRONG_MAX, WRONG_INTERVAL)),
            enrolments: Mutex::new(Credits::new(ENROLMENTS_MAX, ENROLMENT_INTERVAL)),
            counts,
        }
    }

    /// Returns whether there is such a group.
    pub fn has(&self, group: &str) -> Result<bool, AgentError> {
        let is_file = self.file.as_ref().is_some_and(|file| file.name == group);
        Ok(is_file || read(&self.path)?.contains_key(group))
    }

    /// Admits a host into its group, which is written before this returns; its earlier certificate
    /// stays valid until a new one is listed. Counts and logs what became of it.
    pub fn admit(
        &self,
        registry: &Mutex<Registry>,
        applicant: &Applicant<'_>,
        now_s: u64,
    ) -> Result<Admitted, String> {
        let &Applicant { address, host, .. } = applicant;
        let result = self.decide(registry, applicant, now_s);
        let outcome = result.as_ref().map_or_else(|refusal| refusal.0, |_| Enrolment::Enrolled);
        self.counts.add(outcome);
        result.map_err(|(outcome, reason)| {
            let host: String = host.chars().take(NAME_LEN_MAX).collect();
            match outcome {
                // Their number has no bound but the rate of connections.
                Enrolment::TooOften => tracing::debug!(%address, host, reason, "not enrolled"),
                _ => tracing::warn!(%address, host, reason, "not enrolled"),
            }
            reason
        })
    }

    fn decide(
        &self,
        registry: &Mutex<Registry>,
        applicant: &Applicant<'_>,
        now_s: u64,
    ) -> Result<Admitted, Refusal> {
        let &Applicant { host, key, proof, binding, .. } = applicant;
        let (address, now) = (network(applicant.address), Instant::now());
        if !lock(&self.wrong).has(&address, now) {
            let text = "too many attempts without the right token came from this address; try \
                        again in a minute";
            return Err((Enrolment::TooOften, text.to_owned()));
        }
        let wrong = |outcome, text: String| {
            lock(&self.wrong).take(&address, now);
            Err((outcome, text))
        };
        let failed = |error: AgentError| {
            tracing::error!(%error, "hosts can't enrol in groups");
            let text = "the manager could not read or write its files: see its log";
            (Enrolment::Failed, text.to_owned())
        };
        let list = read(&self.path).map_err(failed)?;
        let names = list.keys().chain(self.file.as_ref().map(|file| &file.name));
        let Some(name) = group_of(names, host) else {
            let shown: String = host.chars().take(NAME_LEN_MAX).collect();
            let text =
                format!("no group has a host {shown:?}: its name is the group's, -, and more");
            return wrong(Enrolment::WrongName, text);
        };
        let group = match self.file.as_ref().filter(|file| file.name == name) {
            Some(file) => file.read().map_err(failed)?,
            None => list[&name].clone(),
        };
        let statement = Statement::new(binding, host, key);
        if !group.token.is_proof(&statement, proof) {
            let text = format!(
                "the token is not that of group {name}, or was not used on this connection: \
                 compare it with that of the manager"
            );
            return wrong(Enrolment::WrongToken, text);
        }
        if now_s >= group.expires_s {
            let text = format!(
                "the token of group {name} has expired; make a new one (`{} --group {name}`)",
                self.token_command
            );
            return Err((Enrolment::Expired, text));
        }
        if !lock(&self.enrolments).has(&name, now) {
            let text = format!("too many hosts of group {name} enrol; try again in a minute");
            return Err((Enrolment::TooOften, text));
        }
        let admission = lock(registry).admit(host, &name, group.hosts_max, now_s);
        if let Some(refusal) = refusal(admission.map_err(failed)?, host, &name, group.hosts_max) {
            return Err(refusal);
        }
        lock(&self.enrolments).take(&name, now);
        Ok(Admitted { token: group.token, statement })
    }
}

/// Returns why a host of a group is not admitted, with the remedy.
fn refusal(admission: Admission, host: &str, group: &str, hosts_max: usize) -> Option<Refusal> {
    match admission {
        Admission::Admitted => None,
        Admission::Taken => {
            let text = format!(
                "{host} is a host of its own, and not one of group {group}: choose another name, \
                 or remove that host first"
            );
            Some((Enrolment::WrongName, text))
        }
        Admission::Full => {
            let text = format!(
                "group {group} has {hosts_max} hosts, as many as it may have: end some, whose \
                 names are free after an hour, or allow more"
            );
            Some((Enrolment::GroupFull, text))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what attempts are counted by: an address, or for IPv6 the network that a machine has.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
        address @ IpAddr::V4(_) => address,
    }
}

/// Returns the longest of the groups that a host of this name can be in.
fn group_of<'a>(groups: impl Iterator<Item = &'a String>, host: &str) -> Option<String> {
    if !is_host_name(host) {
        return None;
    }
    let fits = |group: &&String| {
        let suffix = host.strip_prefix(group.as_str()).and_then(|rest| rest.strip_prefix('-'));
        suffix.is_some_and(|suffix| !suffix.is_empty())
    };
    groups.filter(fits).max_by_key(|group| group.len()).cloned()
}

fn path(directory: &Path) -> PathBuf {
    directory.join("groups.json")
}

fn read(path: &Path) -> Result<List, AgentError> {
    if !path.exists() {
        return Ok(List::new());
    }
    serde_json::from_slice(&read_private(path)?).map_err(AgentError::damaged(path))
}

fn change<T>(
    directory: &Path,
    change: impl FnOnce(&mut List) -> Result<T, AgentError>,
) -> Result<T, AgentError> {
    let path = path(directory);
    let _lock = lock_file(&path.with_extension("lock"))?;
    let mut list = read(&path)?;
    let result = change(&mut list)?;
    let text = serde_json::to_vec_pretty(&list).expect("texts and numbers");
    write_private(&path, &text)?;
    Ok(result)
}

/// Checks the name of a group.
///
/// # Errors
/// [`AgentError::GroupName`].
pub fn check_group_name(group: &str) -> Result<(), AgentError> {
    if is_host_name(group) && group.len() <= NAME_LEN_MAX {
        return Ok(());
    }
    Err(AgentError::GroupName(group.chars().take(NAME_LEN_MAX).collect()))
}

/// Checks a file with a group's token.
///
/// # Errors
/// It can't be read, or contains no token.
pub fn check_group_token_file(path: &Path) -> Result<(), AgentError> {
    GroupToken::read(path).map(drop)
}

/// Returns a new token of a group, with which hosts named `GROUP-SUFFIX` enrol within `valid_s`
/// seconds, `hosts_max` at a time. An earlier token of the group is void; its hosts stay.
///
/// # Errors
/// The name can't be used, there are too many groups, or the state directory can't be written.
pub fn add_group(
    state_directory: &Path,
    group: &str,
    hosts_max: usize,
    valid_s: u64,
) -> Result<String, AgentError> {
    check_group_name(group)?;
    let text = GroupToken::generate();
    let token = GroupToken::new(&text)?.stored();
    let expires_s = crate::now_s().saturating_add(valid_s);
    let hosts_max = hosts_max.min(HOSTS_MAX);
    change(state_directory, |list| {
        if list.len() >= GROUPS_MAX && !list.contains_key(group) {
            return Err(AgentError::GroupsMax(GROUPS_MAX));
        }
        list.insert(group.to_owned(), Group { token, hosts_max, expires_s });
        Ok(())
    })?;
    Ok(text)
}

/// Removes a group and all of its hosts. Returns whether there was one.
///
/// # Errors
/// The state directory can't be written.
pub fn forget_group(state_directory: &Path, group: &str) -> Result<bool, AgentError> {
    // The token first: no host enrols after the others were removed.
    let was_listed = change(state_directory, |list| Ok(list.remove(group).is_some()))?;
    let hosts = Registry::open(state_directory)?.forget_group(group)?;
    Ok(was_listed || hosts > 0)
}

/// Returns the groups of the list.
///
/// # Errors
/// The lists can't be read.
pub fn list_groups(state_directory: &Path) -> Result<Vec<GroupStatus>, AgentError> {
    let mut registry = Registry::open(state_directory)?;
    let status = |(name, group): (String, Group)| {
        let hosts = registry.group_size(&name, crate::now_s())?;
        let Group { hosts_max, expires_s, .. } = group;
        Ok(GroupStatus { name, hosts, hosts_max, expires_s })
    };
    read(&path(state_directory))?.into_iter().map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"a key";
    const BINDING: [u8; 32] = [3; 32];

    struct Bench {
        folder: tempfile::TempDir,
        registry: Mutex<Registry>,
        groups: Groups,
    }

    impl Bench {
        fn new() -> Bench {
            let folder = tempfile::tempdir().unwrap();
            let registry = Mutex::new(Registry::open(folder.path()).unwrap());
            let groups = Groups::new(folder.path(), None, "add", Arc::default());
            Bench { folder, registry, groups }
        }

        fn add(&self, group: &str, hosts_max: usize) -> GroupToken {
            let text = add_group(self.folder.path(), group, hosts_max, 100).unwrap();
            GroupToken::new(&text).unwrap()
        }

        fn enrol(&self, token: &GroupToken, host: &str, address: u8, at_s: u64) -> Enrolment {
            let statement = Statement::new(&BINDING, host, KEY);
            let applicant = Applicant {
                address: IpAddr::from([10, 0, 0, address]),
                host,
                key: KEY,
                proof: &token.prove(&statement),
                binding: &BINDING,
            };
            let before: Vec<_> = Enrolment::ALL.map(|one| self.groups.counts.count(one)).into();
            let result = self.groups.admit(&self.registry, &applicant, crate::now_s() + at_s);
            let after: Vec<_> = Enrolment::ALL.map(|one| self.groups.counts.count(one)).into();
            let changed: Vec<_> = Enrolment::ALL
                .into_iter()
                .filter(|one| before[*one as usize] != after[*one as usize])
                .collect();
            assert_eq!(changed.len(), 1);
            assert_eq!(result.is_ok(), changed[0] == Enrolment::Enrolled);
            if result.is_ok() {
                let expires_s = crate::now_s() + at_s + LIFETIME_S;
                let certificate = format!("certificate of {host} at {at_s}");
                let mut registry = lock(&self.registry);
                assert!(
                    registry
                        .add_certificate(host, certificate.as_bytes(), expires_s, true)
                        .unwrap()
                );
            }
            changed[0]
        }
    }

    #[test]
    fn hosts_enrol_within_bounds_and_each_bound_has_its_outcome() {
        let bench = Bench::new();
        let token = bench.add("g", 2);
        for host in ["g-0", "g-1", "g-0"] {
            assert_eq!(bench.enrol(&token, host, 1, 0), Enrolment::Enrolled);
        }
        assert_eq!(bench.enrol(&token, "g-2", 1, 0), Enrolment::GroupFull);
        for host in ["x-0", "g", "g-", "gg-0", "g0", "g-é", "../g-0", "", &"g-".repeat(40)] {
            assert_eq!(bench.enrol(&token, host, 2, 0), Enrolment::WrongName, "{host}");
        }
        assert_eq!(bench.enrol(&token, "g-0", 1, 100), Enrolment::Expired);
        let later = bench.add("g", 3);
        assert_eq!(bench.enrol(&token, "g-0", 1, 0), Enrolment::WrongToken);
        assert_eq!(bench.enrol(&later, "g-2", 1, 0), Enrolment::Enrolled);
        // Names of hosts whose certificates have expired are free again.
        let status = &list_groups(bench.folder.path()).unwrap()[0];
        assert_eq!((status.hosts, status.hosts_max), (3, 3));
        add_group(bench.folder.path(), "g", 3, 2 * LIFETIME_S).unwrap();
        let text = add_group(bench.folder.path(), "g", 3, 2 * LIFETIME_S).unwrap();
        let token = GroupToken::new(&text).unwrap();
        assert_eq!(bench.enrol(&token, "g-7f9c-x2k", 1, LIFETIME_S - 1), Enrolment::GroupFull);
        assert_eq!(bench.enrol(&token, "g-7f9c-x2k", 1, LIFETIME_S + 5), Enrolment::Enrolled);
        let text = std::fs::read_to_string(bench.folder.path().join("groups.json")).unwrap();
        assert!(!text.contains("nwg1-"));
    }

    #[test]
    fn host_of_its_own_or_of_a_longer_group_is_not_taken_over() {
        let bench = Bench::new();
        let (short, long) = (bench.add("g", 9), bench.add("g-x", 9));
        lock(&bench.registry).set_token("g-own", b"secret", u64::MAX).unwrap();
        assert_eq!(bench.enrol(&short, "g-own", 1, 0), Enrolment::WrongName);
        assert_eq!(bench.enrol(&short, "g-x-1", 1, 0), Enrolment::WrongToken);
        assert_eq!(bench.enrol(&long, "g-x-1", 1, 0), Enrolment::Enrolled);
        assert_eq!(bench.enrol(&short, "g-y-1", 1, 0), Enrolment::Enrolled);
        assert!(forget_group(bench.folder.path(), "g-x").unwrap());
        assert!(!forget_group(bench.folder.path(), "g-x").unwrap());
        let hosts = lock(&bench.registry).hosts().unwrap();
        assert_eq!(hosts, [("g-own".to_owned(), false), ("g-y-1".to_owned(), true)]);
        // A group that came later does not take over hosts of another one.
        let later = bench.add("g-y", 9);
        assert_eq!(bench.enrol(&later, "g-y-1", 1, 0), Enrolment::WrongName);
    }

    #[test]
    fn guesses_of_one_address_are_bounded_and_others_go_on() {
        let bench = Bench::new();
        let token = bench.add("g", 9);
        let other = GroupToken::new(&GroupToken::generate()).unwrap();
        for _ in 0..WRONG_MAX {
            assert_eq!(bench.enrol(&other, "g-0", 1, 0), Enrolment::WrongToken);
        }
        assert_eq!(bench.enrol(&token, "g-0", 1, 0), Enrolment::TooOften);
        assert_eq!(bench.enrol(&token, "g-0", 2, 0), Enrolment::Enrolled);
        // Enrolments with the token are bounded, too: each is a write to the disk.
        let mut outcomes = (0..ENROLMENTS_MAX + 9).map(|_| bench.enrol(&token, "g-0", 2, 0));
        assert!(outcomes.any(|outcome| outcome == Enrolment::TooOften));
        let six = |text: &str| network(text.parse().unwrap());
        assert_eq!(six("2001:db8::1"), six("2001:db8::ffff:1:2:3"));
        assert_ne!(six("2001:db8::1"), six("2001:db8:0:1::1"));
        assert_eq!(six("::ffff:10.0.0.1"), six("10.0.0.1"));
    }

    #[test]
    fn token_of_a_file_is_read_again_and_its_absence_is_no_right() {
        let mut bench = Bench::new();
        let token_file = bench.folder.path().join("token");
        let file = GroupFile { name: "f".to_owned(), token_file: token_file.clone(), hosts_max: 2 };
        bench.groups.file = Some(file);
        let (first, second) = (GroupToken::generate(), GroupToken::generate());
        let [first_token, second_token] =
            [&first, &second].map(|text| GroupToken::new(text).unwrap());
        assert_eq!(bench.enrol(&first_token, "f-0", 1, 0), Enrolment::Failed);
        for short in ["", "short"] {
            std::fs::write(&token_file, short).unwrap();
            assert_eq!(bench.enrol(&first_token, "f-0", 1, 0), Enrolment::Failed);
        }
        std::fs::write(&token_file, first).unwrap();
        assert_eq!(bench.enrol(&first_token, "f-0", 1, 0), Enrolment::Enrolled);
        std::fs::write(&token_file, second).unwrap();
        assert_eq!(bench.enrol(&first_token, "f-0", 1, 0), Enrolment::WrongToken);
        assert_eq!(bench.enrol(&second_token, "f-0", 1, u64::from(u32::MAX)), Enrolment::Enrolled);
        assert!(bench.groups.has("f").unwrap() && !bench.groups.has("g").unwrap());
    }

    #[test]
    fn names_and_number_of_groups_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "a b", "é", &"x".repeat(49)] {
            assert!(add_group(folder.path(), name, 1, 1).is_err(), "{name}");
        }
        for number in 0..GROUPS_MAX {
            add_group(folder.path(), &format!("g{number}"), 1, 1).unwrap();
        }
        let error = add_group(folder.path(), "more", 1, 1).unwrap_err().to_string();
        assert!(error.contains("64 groups already"), "{error}");
        add_group(folder.path(), "g1", 1, 1).unwrap();
    }
}

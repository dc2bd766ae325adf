//! Consumers and producers of a content poisoning attack, each a thread with its own connection: a
//! film with valid signatures, fakes of it, a consumer that asks for the film and checks what it
//! gets, and one that asks for ever new names beside it.

use super::managed::failed;
use crate::testbed::Failure;
use nw_app::{Client, FaceUri, control};
use nw_element_api::Kind;
use nw_name::Name;
use nw_packet_types::random::splitmix64;
use nw_trust::certificate::{self, Validity};
use nw_trust::{Key, KeyKind, Signer, pem};
use nw_wire::{DataBuilder, InterestBuilder};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lifetime of Interests, milliseconds.
const LIFETIME_MS: u64 = 1_000;
/// FreshnessPeriod of all Data, milliseconds: longer than a run.
const FRESHNESS_MS: u64 = 3_600_000;
/// Content of a packet, bytes.
const CONTENT: [u8; 1024] = [0x5a; 1024];
/// One in this many good names is answered by a fake as well.
const FAKE_SHARE: u64 = 3;
/// Time by which the good producer is further away than the bad one.
const GOOD_DELAY: Duration = Duration::from_millis(1);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Most Interests that are sent at once: after a pause of the thread the rest is not made up for.
const BURST_MAX: u64 = 100;

/// The packets of a film, by the encoded name, and the key that has signed them.
pub(super) struct Film {
    names: Vec<Name>,
    packets: HashMap<Vec<u8>, Vec<u8>>,
    signer: Signer,
    certificate: Vec<u8>,
}

fn prefix() -> Name {
    Name::new().with_generic("mundn").with_generic("film")
}

impl Film {
    /// Generates a key and signs packets.
    pub(super) fn new(count: usize) -> Result<Film, Failure> {
        let error = |reason: String| failed("signing", reason);
        let identity = Name::new().with_generic("mundn");
        let key = Key::generate(KeyKind::Ed25519, identity.as_ref());
        let key = key.map_err(|reason| error(reason.to_string()))?;
        let validity = Validity { not_before_s: 0, not_after_s: 4_000_000_000 };
        let certificate = certificate::self_signed(&key, 1, validity);
        let certificate = certificate.map_err(|reason| error(reason.to_string()))?;
        let signer = Signer::from(key);
        let names: Vec<Name> =
            (0..count).map(|number| prefix().with_generic(number.to_string())).collect();
        let mut packets = HashMap::new();
        for name in &names {
            let packet = sign(name, &signer).map_err(error)?;
            packets.insert(name.as_ref().as_bytes().to_vec(), packet);
        }
        Ok(Film { names, packets, signer, certificate })
    }

    /// Returns the certificate of the key, as a file of an anchor has it.
    pub(super) fn certificate(&self) -> String {
        pem::encode_base64(&self.certificate)
    }

    fn packet(&self, name: &[u8]) -> Option<&[u8]> {
        self.packets.get(name).map(Vec::as_slice)
    }

    /// Returns a packet of any name that names the film's key and does not verify, as a forged one.
    fn fake(&self, name: &Name) -> Option<Vec<u8>> {
        let mut packet = sign(name, &self.signer).ok()?;
        // The signature is at the end.
        *packet.last_mut()? ^= 1;
        Some(packet)
    }
}

fn sign(name: &Name, signer: &Signer) -> Result<Vec<u8>, String> {
    let packet = DataBuilder::new(name, &CONTENT).freshness_ms(FRESHNESS_MS).encode(signer);
    packet.map_err(|reason| format!("{reason:?}"))
}

/// A thread that ends with this value.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(
        name: &str,
        run: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<Running, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&ended));
        Ok(Running { stop, thread: Some(thread.map_err(Failure::Processors)?) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A producer in a thread; it ends with this value.
pub(super) struct Producer {
    is_attacking: Arc<AtomicBool>,
    _running: Running,
}

impl Producer {
    /// Connects a producer of the film, which registers the prefix.
    pub(super) fn good(uri: &FaceUri, film: &Arc<Film>) -> Result<Self, Failure> {
        let mut client = connect(uri)?;
        let registered = control::register(&mut client, prefix());
        registered.map_err(|error| failed("the producer can't register", error))?;
        let film = Arc::clone(film);
        Producer::start("good producer", client, move |name, _| {
            let packet = film.packet(name.as_ref().as_bytes())?;
            std::thread::sleep(GOOD_DELAY);
            Some(packet.to_vec())
        })
    }

    /// Connects a bad producer. It answers names beside the film, and some of the film, with fakes.
    pub(super) fn bad(uri: &FaceUri, film: &Arc<Film>) -> Result<Self, Failure> {
        let (film, mut random) = (Arc::clone(film), 0);
        Producer::start("bad producer", connect(uri)?, move |name, is_attacking| {
            random += 1;
            let is_wanted = film.packet(name.as_ref().as_bytes()).is_none()
                || splitmix64(random).is_multiple_of(FAKE_SHARE);
            if is_attacking && is_wanted { film.fake(name) } else { None }
        })
    }

    fn start(
        thread: &str,
        mut client: Client,
        mut reply: impl FnMut(&Name, bool) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Self, Failure> {
        let is_attacking = Arc::new(AtomicBool::new(false));
        let attacks = Arc::clone(&is_attacking);
        let running = Running::start(thread, move |stop| {
            // The connection ends with the services: that is no error.
            let _ = client.run(
                |_, received, out| {
                    if received.kind() != Kind::Interest || received.nack().is_some() {
                        return;
                    }
                    let name = received.name().to_name();
                    if let Some(packet) = reply(&name, attacks.load(Ordering::Relaxed)) {
                        out.answer(&received, &packet);
                    }
                },
                || stop.load(Ordering::Relaxed),
            );
        })?;
        Ok(Producer { is_attacking, _running: running })
    }

    /// Begins or ends the fakes of a bad producer.
    pub(super) fn set_attacking(&self, is_attacking: bool) {
        self.is_attacking.store(is_attacking, Ordering::Relaxed);
    }
}

fn connect(uri: &FaceUri) -> Result<Client, Failure> {
    Client::connect(uri).map_err(|error| failed(&uri.to_string(), error))
}

/// What a consumer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The packets of the film, at random.
    Film,
    /// Each time a new name beside them.
    NewNames,
}

/// A consumer in a thread; it ends with this value.
pub(super) struct Consumer {
    /// Interests sent, fake Data received.
    counts: Arc<[AtomicU64; 2]>,
    _running: Running,
}

impl Consumer {
    /// Connects a consumer that sends this number of Interests per second.
    pub(super) fn start(
        uri: &FaceUri,
        film: &Arc<Film>,
        wanted: Wanted,
        rate: f64,
    ) -> Result<Self, Failure> {
        let counts: Arc<[AtomicU64; 2]> = Arc::default();
        let (mut client, film, counted) = (connect(uri)?, Arc::clone(film), Arc::clone(&counts));
        let seed =
            splitmix64(u64::from(std::process::id()) << 1 | u64::from(wanted == Wanted::Film));
        let running = Running::start("consumer", move |stop| {
            let mut source = RequestSource { film, wanted, seed, number: 0 };
            let mut begun = Instant::now();
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                let due = (begun.elapsed().as_secs_f64() * rate) as u64 - sent;
                let count = due.min(BURST_MAX);
                (0..count).for_each(|_| client.send(&source.interest()));
                counted[0].fetch_add(count, Ordering::Relaxed);
                sent += count;
                if due > count {
                    (begun, sent) = (Instant::now(), 0);
                }
                let polled = client.poll(Some(POLL_INTERVAL), |_, received, _| {
                    if received.kind() == Kind::Data && source.is_fake(&received) {
                        counted[1].fetch_add(1, Ordering::Relaxed);
                    }
                });
                // The network closed the connection.
                if polled.is_err() {
                    return;
                }
            }
        })?;
        Ok(Consumer { counts, _running: running })
    }

    /// Returns the number of Interests sent.
    pub(super) fn asked(&self) -> u64 {
        self.counts[0].load(Ordering::Relaxed)
    }

    /// Returns the number of Data received that are none of the film.
    pub(super) fn fakes(&self) -> u64 {
        self.counts[1].load(Ordering::Relaxed)
    }
}

/// Chooses what a consumer asks for.
struct RequestSource {
    film: Arc<Film>,
    wanted: Wanted,
    seed: u64,
    number: u64,
}

impl RequestSource {
    fn interest(&mut self) -> Vec<u8> {
        self.number += 1;
        let random = splitmix64(self.seed.wrapping_add(self.number));
        let name = match self.wanted {
            Wanted::Film => self.film.names[random as usize % self.film.names.len()].clone(),
            Wanted::NewNames => prefix().with_generic(format!("x{random:x}")),
        };
        InterestBuilder::new(name).nonce(random as u32).lifetime_ms(LIFETIME_MS).encode()
    }

    fn is_fake(&self, received: &nw_app::Received<'_>) -> bool {
        self.film.packet(received.name().as_bytes()) != Some(received.wire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::Data;

    #[test]
    fn fake_has_name_and_key_of_a_good_packet_and_another_signature() {
        let film = Film::new(2).unwrap();
        let name = film.names[1].clone();
        let (good, fake) = (film.packet(name.as_ref().as_bytes()).unwrap(), film.fake(&name));
        let fake = fake.unwrap();
        assert_eq!(good.len(), fake.len());
        assert_ne!(good, fake);
        assert_eq!(good[..good.len() - 1], fake[..fake.len() - 1]);
        assert_eq!(Data::check(&fake).unwrap().name().to_name(), name);
    }

    #[test]
    fn bad_consumer_asks_for_each_name_once_and_for_none_of_the_film() {
        let film = Arc::new(Film::new(2).unwrap());
        let source = |wanted| RequestSource { film: Arc::clone(&film), wanted, seed: 7, number: 0 };
        let mut bad = source(Wanted::NewNames);
        assert_ne!(bad.interest(), bad.interest());
        let mut good = source(Wanted::Film);
        let interests: std::collections::HashSet<_> = (0..50).map(|_| good.interest()).collect();
        assert!(interests.len() > 2, "nonces differ");
    }
}

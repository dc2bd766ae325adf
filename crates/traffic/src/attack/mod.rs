//! State attacks on a router, and what bystanders keep meanwhile: the threats of "Backscatter from
//! the Data Plane" (Wählisch, Schmidt, Vahlenkamp, 2012), reference 2 of "Bulk of Interest".
//!
//! ```text
//!  bystander consumer ─▶ router ◀─ bystander producer      measured before, during and after
//!  attackers ──────────▶   ▲ ◀───── accomplices: producers that answer late, fast or never
//! ```
//!
//! Everything goes through sockets that any program may open, so any router can be attacked.

mod attackers;
mod bystander;

pub use bystander::{Bystander, BystanderStats};

use nw_app::{ClientError, FaceUri, control};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Attackers of one run at most.
pub const ATTACKERS_MAX: usize = 256;

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Resource exhaustion: Interests with a lifetime of an hour, from one face each.
    FewFaces,
    /// Resource exhaustion: Interests with a short lifetime, from many faces each.
    ManyFaces,
    /// Resource exhaustion: Interests of the default lifetime under a prefix that never answers.
    Unanswered,
    /// State decorrelation: an accomplice answers just before the Interests expire.
    SlowProducer,
    /// State decorrelation: consumers and an accomplice exchange new Data as fast as they can,
    /// which fills caches and links.
    Collusion,
    /// Path infiltration: attackers register the bystanders' prefix.
    Hijack,
    /// Name infiltration with sources that can't be told apart: datagrams from addresses that are
    /// used once.
    SpoofedUdp,
}

impl Scenario {
    /// Every scenario.
    pub const ALL: [Scenario; 7] = [
        Scenario::FewFaces,
        Scenario::ManyFaces,
        Scenario::Unanswered,
        Scenario::SlowProducer,
        Scenario::Collusion,
        Scenario::Hijack,
        Scenario::SpoofedUdp,
    ];

    /// Returns the name of the scenario in commands and rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scenario::FewFaces => "few-faces",
            Scenario::ManyFaces => "many-faces",
            Scenario::Unanswered => "unanswered",
            Scenario::SlowProducer => "slow-producer",
            Scenario::Collusion => "collusion",
            Scenario::Hijack => "hijack",
            Scenario::SpoofedUdp => "spoofed-udp",
        }
    }
}

/// How a router is attacked.
#[derive(Clone, Debug)]
pub struct AttackPlan {
    /// The attack.
    pub scenario: Scenario,
    /// The router, for the bystanders and the accomplices.
    pub router: FaceUri,
    /// The router, for the attackers.
    pub attacked: FaceUri,
    /// Number of attackers, each a thread.
    pub attackers: usize,
    /// Interests per second of each attacker.
    pub rate: f64,
    /// Time of the attack, and of the measurements before and after it.
    pub duration: Duration,
    /// Exchanges per second of the bystanders.
    pub bystander_rate: f64,
}

/// Why an attack can't be run.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// A number that is not possible; a whole sentence.
    #[error("{0}")]
    Plan(String),
    /// The connection of a bystander or an accomplice failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The router refused to register the bystanders' or the accomplices' prefix.
    #[error("the router does not accept a producer: {0}")]
    Register(#[from] control::ControlError),
    /// The bystanders got no answer before the attack.
    #[error("the bystanders got no answer even without an attack: is the router overloaded?")]
    NoAnswer,
}

impl AttackPlan {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The first number that is not possible.
    pub fn check(&self) -> Result<(), AttackError> {
        let refuse = |text: String| Err(AttackError::Plan(text));
        if !(1..=ATTACKERS_MAX).contains(&self.attackers) {
            return refuse(format!(
                "{} attackers: give a number from 1 to {ATTACKERS_MAX}",
                self.attackers
            ));
        }
        for (what, rate) in [("attackers", self.rate), ("bystanders", self.bystander_rate)] {
            if !(1.0..=1e7).contains(&rate) {
                return refuse(format!(
                    "a rate of {rate} a second for the {what}: give a number from 1 to 10000000"
                ));
            }
        }
        if self.scenario == Scenario::SpoofedUdp && self.udp_target().is_none() {
            return refuse(format!(
                "spoofed-udp needs the router's UDP address on a loopback interface, not {}: give \
                 --attack udp4://127.0.0.1:6363",
                self.attacked
            ));
        }
        Ok(())
    }

    /// Returns the address of the attacked router, if it is on IPv4 loopback, where any source
    /// address can be used without special rights.
    fn udp_target(&self) -> Option<std::net::SocketAddr> {
        let address = self.attacked.address()?;
        let is_udp = self.attacked.to_string().starts_with("udp4");
        (is_udp && address.is_ipv4() && address.ip().is_loopback()).then_some(address)
    }
}

/// What the attackers did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackStats {
    /// Interests or commands sent.
    pub sent: u64,
    /// Data received.
    pub data: u64,
    /// Nacks received.
    pub nacks: u64,
    /// Connections that were opened.
    pub faces: u64,
    /// Connections that the router refused or closed.
    pub lost: u64,
    /// Registrations that the router accepted.
    pub registered: u64,
}

/// The router's state while it was attacked, as far as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatePeak {
    /// Most pending Interests.
    pub pending: u64,
    /// Most faces.
    pub faces: u64,
    /// Most resident memory, KiB; 0 if the process is not known.
    pub memory_kib: u64,
}

/// Result of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttackResult {
    /// The attack.
    pub scenario: Scenario,
    /// Bystanders before it.
    pub before: BystanderStats,
    /// Bystanders during it.
    pub during: BystanderStats,
    /// Bystanders after it.
    pub after: BystanderStats,
    /// The attackers.
    pub attack: AttackStats,
    /// State before the attack.
    pub state_before: StatePeak,
    /// State during the attack.
    pub state: StatePeak,
    /// Throughput that bystanders kept, as a share of that before.
    pub bystander_share: f64,
    /// Median round-trip time of bystanders, relative to that before.
    pub rtt_ratio: f64,
}

impl AttackResult {
    /// Returns one sentence about the attack.
    pub fn describe(&self) -> String {
        format!(
            "{}: {} sent by {} faces ({} lost), {} Data, {} Nacks, {} registrations; pending \
             {} → {}, faces {} → {}, memory {} → {} KiB; bystanders kept {:.1} % of {:.0} \
             exchanges/s, median round trip {:.2} → {:.2} ms; afterwards {:.1} %",
            self.scenario.as_str(),
            self.attack.sent,
            self.attack.faces,
            self.attack.lost,
            self.attack.data,
            self.attack.nacks,
            self.attack.registered,
            self.state_before.pending,
            self.state.pending,
            self.state_before.faces,
            self.state.faces,
            self.state_before.memory_kib,
            self.state.memory_kib,
            100.0 * self.bystander_share,
            self.before.answered_per_s,
            self.before.rtt_median_ms,
            self.during.rtt_median_ms,
            100.0 * self.after.answered_per_s / self.before.answered_per_s,
        )
    }
}

/// Runs an attack: measures the bystanders before, during and after it. `state` returns what the
/// router holds now; it is called a few times a second.
///
/// # Errors
/// If the plan is not possible, or bystanders or accomplices can't connect.
pub fn attack(
    plan: &AttackPlan,
    stop: &AtomicBool,
    mut state: impl FnMut() -> StatePeak + Send,
) -> Result<AttackResult, AttackError> {
    plan.check()?;
    let mut bystander = Bystander::connect(&plan.router, plan.bystander_rate)?;
    let before = bystander.measure(plan.duration, stop)?;
    if before.answered_per_s == 0.0 {
        return Err(AttackError::NoAnswer);
    }
    let state_before = state();
    let accomplices = attackers::Accomplices::start(plan)?;
    let (ended, mut peak) = (AtomicBool::new(false), StatePeak::default());
    let (during, stats) = std::thread::scope(|scope| {
        let attacking = (0..plan.attackers)
            .map(|number| {
                scope.spawn({
                    let ended = &ended;
                    move || attackers::run(plan, number, ended)
                })
            })
            .collect::<Vec<_>>();
        let watching = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let now = state();
                peak.pending = peak.pending.max(now.pending);
                peak.faces = peak.faces.max(now.faces);
                peak.memory_kib = peak.memory_kib.max(now.memory_kib);
                std::thread::sleep(Duration::from_millis(250));
            }
        });
        let during = bystander.measure(plan.duration, stop);
        ended.store(true, Ordering::Relaxed);
        let mut stats = AttackStats::default();
        for attacker in attacking {
            stats.add(&attacker.join().unwrap_or_default());
        }
        let _ = watching.join();
        (during, stats)
    });
    drop(accomplices);
    let during = during?;
    let after = bystander.measure(plan.duration, stop)?;
    Ok(AttackResult {
        scenario: plan.scenario,
        before,
        during,
        after,
        attack: stats,
        state_before,
        state: peak,
        bystander_share: during.answered_per_s / before.answered_per_s,
        rtt_ratio: during.rtt_median_ms / before.rtt_median_ms.max(1e-6),
    })
}

impl AttackStats {
    const fn add(&mut self, other: &AttackStats) {
        self.sent += other.sent;
        self.data += other.data;
        self.nacks += other.nacks;
        self.faces += other.faces;
        self.lost += other.lost;
        self.registered += other.registered;
    }
}

#[cfg(test)]
mod tests;

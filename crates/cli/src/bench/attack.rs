//! `nw bench attack`: attacks on any router, and what bystanders keep.

use super::args::{Attack, AttackScenario};
use crate::output::json_line;
use crate::{connect, signals};
use anyhow::{Context, Result};
use nw_api::management::Dataset;
use nw_api::management::FaceStatus;
use nw_api::management::client::{decode_items, decode_status};
use nw_app::{Client, FaceUri, control};
use nw_traffic::attack::{AttackPlan, Scenario, StatePeak, attack as run};
use std::fs;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Runs `nw bench attack`.
pub fn attack(args: &Attack) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let router = connect::uri(&args.router)?;
    let scenarios: Vec<Scenario> = match args.scenario {
        AttackScenario::All => Scenario::ALL.to_vec(),
        AttackScenario::FewFaces => vec![Scenario::FewFaces],
        AttackScenario::ManyFaces => vec![Scenario::ManyFaces],
        AttackScenario::Unanswered => vec![Scenario::Unanswered],
        AttackScenario::SlowProducer => vec![Scenario::SlowProducer],
        AttackScenario::Collusion => vec![Scenario::Collusion],
        AttackScenario::Hijack => vec![Scenario::Hijack],
        AttackScenario::SpoofedUdp => vec![Scenario::SpoofedUdp],
    };
    for scenario in scenarios {
        let plan = AttackPlan {
            scenario,
            router: router.clone(),
            attacked: args.attack.clone().unwrap_or_else(|| router.clone()),
            attackers: args.attackers,
            rate: args.rate,
            duration: args.seconds,
            bystander_rate: args.bystander_rate,
        };
        let mut state = StateReader::new(&router, args.pid);
        let flag = stop_flag.flag();
        let result = run(&plan, &flag, || state.read())
            .with_context(|| format!("{} could not be run", scenario.as_str()))?;
        if flag.load(Ordering::Relaxed) {
            break;
        }
        if args.json {
            json_line(&result)?;
        } else {
            outln!("{}", result.describe())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads what the router holds, over one connection.
struct StateReader {
    client: Option<Client>,
    pid: Option<u32>,
}

impl StateReader {
    fn new(router: &FaceUri, pid: Option<u32>) -> Self {
        StateReader { client: Client::connect(router).ok(), pid }
    }

    /// Returns zeros for what the router does not say.
    fn read(&mut self) -> StatePeak {
        let memory_kib = self.pid.map_or(0, memory_kib);
        let Some(client) = &mut self.client else {
            return StatePeak { memory_kib, ..StatePeak::default() };
        };
        let general = control::dataset(client, Dataset::StatusGeneral, None).ok();
        let general = general.and_then(|content| decode_status(&content).ok());
        let faces = control::dataset(client, Dataset::FacesList, None).ok();
        let faces = faces.and_then(|content| decode_items::<FaceStatus>(&content).ok());
        StatePeak {
            pending: general.map_or(0, |status| status.pit_entries),
            faces: faces.map_or(0, |faces| faces.len() as u64),
            memory_kib,
        }
    }
}

/// Returns the resident memory of a process, KiB; 0 if it is gone.
fn memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

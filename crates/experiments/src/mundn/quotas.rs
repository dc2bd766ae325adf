//! Quotas of figure 5.
//!
//! The paper limits its backward router to 67 % of a core; each other service has a core. By its
//! table 3, a core of the store or of the name router carries about twice what the limited
//! backward router carries. Here the elements have other costs, and the machine may have too few
//! cores. So what is kept is the paper's ratio of capacities: each other service may use what that
//! multiple of the backward router's exchanges costs it, as measured on this machine.

use super::exchange::{Answers, Names, Producer, ask, workload};
use super::managed::{ManagedNetwork, failed};
use crate::bulk::Paper;
use crate::testbed::{Failure, Watch};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Quota of the backward router in the paper, as a share of a core.
const PAPER_QUOTA: f64 = 0.67;
/// Share of all cores that a backward router may use here: five processes, of which the other four
/// cost up to 1.5 times as much, then do twice its exchanges with a quarter of the machine left.
const QUOTA_OF_MACHINE: f64 = 0.06;
/// Bounds of the cost of a service as a multiple of the backward router's. A machine with much
/// other work gives odd measurements.
const COST_BOUNDS: (f64, f64) = (0.5, 4.0);
/// Interests under way while costs are measured.
const WINDOW: usize = 32;
/// The network needs no decisions while costs are measured.
const PERIOD_MS: u64 = 500;

/// Quotas of the services, as shares of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quotas {
    /// Of each backward router.
    pub router: f64,
    /// Of the store, with the forwarder that spreads Interests.
    pub store: f64,
    /// Of the name router.
    pub name_router: f64,
}

impl Quotas {
    /// Measures what an exchange costs each service, with two backward routers and without quotas,
    /// and returns the quotas for this machine.
    ///
    /// # Errors
    /// The network can't be started, or the user interrupted.
    pub(super) fn measure(
        nw: &Path,
        seconds: f64,
        paper: &Paper,
        watch: &Watch<'_>,
    ) -> Result<Self, Failure> {
        let two_routers = |folder: &Path| Ok(document(folder, None, "2..2"));
        let network = ManagedNetwork::start(nw, PERIOD_MS, watch, two_routers)?;
        let requests = workload(Names::New);
        let producer = network.socket("p.sock")?;
        let _producer = Producer::start(&producer, &requests, Answers::Generated(0), true)?;
        let before = cpu_by_service(&network)?;
        ask(&network.socket("c.sock")?, &requests, (WINDOW, seconds), watch, || {})?;
        let mut used = cpu_by_service(&network)?;
        for (service, cpu_s) in before {
            used.entry(service).and_modify(|after| *after -= cpu_s);
        }
        let used = |service: &str| used.get(service).copied().filter(|cpu_s| *cpu_s > 0.0);
        let none = || failed("figure 5", "the services used no processor time without quotas");
        let router = used("br").ok_or_else(none)?;
        let cost = |service: &str| used(service).map(|cpu_s| cpu_s / router).ok_or_else(none);
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
        Ok(Quotas::new(cores as f64, cost("cs")?, cost("nr")?, paper))
    }

    /// Returns the quotas for a number of cores and the costs of store and name router, as
    /// multiples of the cost of a backward router. No quota is more than a core.
    fn new(cores: f64, store_cost: f64, name_router_cost: f64, paper: &Paper) -> Self {
        let mbit = |row: &str| paper.number[row].values[0];
        let capacity = |row: &str| mbit(row) / (PAPER_QUOTA * mbit("backward_router"));
        let bounded = |cost: f64| cost.clamp(COST_BOUNDS.0, COST_BOUNDS.1);
        let store = capacity("content_store_fresh0") * bounded(store_cost);
        let name_router = capacity("name_router") * bounded(name_router_cost);
        let largest = store.max(name_router).max(1.0);
        let router = (QUOTA_OF_MACHINE * cores).min(PAPER_QUOTA).min(1.0 / largest);
        let percent = |share: f64| (share * 100.0).round().clamp(1.0, 100.0) / 100.0;
        Quotas {
            router: percent(router),
            store: percent(router * store),
            name_router: percent(router * name_router),
        }
    }
}

/// Returns the processor time of all instances of each service, seconds.
fn cpu_by_service(network: &ManagedNetwork) -> Result<BTreeMap<String, f64>, Failure> {
    let mut sums = BTreeMap::new();
    for (name, cpu) in network.instance_cpu()? {
        let service = name.split('~').next().unwrap_or_default().to_owned();
        *sums.entry(service).or_default() += cpu.as_secs_f64();
    }
    Ok(sums)
}

/// Returns the network of figure 5 with its sockets in a folder. The store forwards only, as in
/// the paper. `scale`: bounds and policy of the backward router.
pub(super) fn document(folder: &Path, quotas: Option<Quotas>, scale: &str) -> String {
    let folder = folder.display();
    let quota = |share: fn(&Quotas) -> f64| {
        quotas.map_or_else(String::new, |all| format!("quota={:.0}% ", share(&all) * 100.0))
    };
    let (router, store) = (quota(|all| all.router), quota(|all| all.store));
    let name_router = quota(|all| all.name_router);
    format!(
        "host here = process\nface consumers listens unix://{folder}/c.sock\n\
         face producer listens unix://{folder}/p.sock\npd = packet_dispatcher\n\
         cs = content_store(admit = false)\nbr = backward_router\n\
         nr = name_router(commands = [\"localhost\"])\nconsumers -> pd.packet\n\
         pd.interest -> cs.interest\npd.data -> br.data\npd.nack -> br.nack\ncs.hit -> faces\n\
         cs.miss -> br.interest -> nr.interest -> faces\n\
         producer -> nr.data -> br.data -> cs.data -> faces\n\
         producer -> nr.nack -> br.nack -> faces\nproducer -> nr.interest\n\
         service cs {store}{{ pd, cs }}\nservice br {router}{{ br }}\n\
         service nr {name_router}{{ nr }}\n\
         scale br {scale}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::mundn_paper;
    use super::*;

    #[test]
    fn quotas_keep_the_capacities_of_the_paper() {
        let quotas = |cores, store, name_router| {
            let all = Quotas::new(cores, store, name_router, &mundn_paper());
            [all.router, all.store, all.name_router]
        };
        // Table 3: 1760 and 1820 Mbit/s, and 67 % of 1304 Mbit/s.
        assert_eq!(quotas(2.0, 1.0, 1.0), [0.12, 0.24, 0.25]);
        assert_eq!(quotas(2.0, 1.5, 1.2), [0.12, 0.36, 0.3]);
        // The store needs a core of its own at most.
        assert_eq!(quotas(64.0, 1.5, 1.0), [0.33, 1.0, 0.69]);
        assert_eq!(quotas(2.0, 90.0, 0.0), [0.12, 0.97, 0.12], "odd measurements are bounded");
    }

    #[test]
    fn document_has_quotas_once_they_are_known() {
        let folder = Path::new("/tmp/x");
        assert!(!document(folder, None, "2..2").contains("quota"));
        let quotas = Quotas { router: 0.12, store: 0.36, name_router: 0.3 };
        let text = document(folder, Some(quotas), "1..3");
        for line in ["service cs quota=36% {", "service br quota=12% {", "service nr quota=30% {"] {
            assert!(text.contains(line), "{text}");
        }
    }
}

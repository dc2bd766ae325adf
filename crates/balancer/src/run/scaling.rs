//! Autoscaling, and the measurement of weights.

use super::{Balancer, Event, spawn};
use crate::autoscaler::{Autoscaler, Sample, ScalingAction};
use crate::calibrate::measure_rate;
use crate::config::Elastic;
use crate::launcher::member_name;
use crate::members::DesiredState;
use crate::probe;
use core::time::Duration;
use nw_api::balancer::{ElasticStatus, MemberState};
use nw_element_api::Timestamp;
use std::net::SocketAddr;

/// Time between two samples of the load.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Time before a failed measurement is repeated.
const MEASURE_RETRY: Duration = Duration::from_secs(5);

/// The state of autoscaling and measuring.
pub(super) struct Scaling {
    enabled: bool,
    capacity_per_s: f64,
    autoscaler: Autoscaler,
    /// The last sample: its time, and the Interests counted by then.
    sampled: Option<(Timestamp, u64)>,
    status: Option<ElasticStatus>,
    measure_again: Option<Timestamp>,
}

impl Scaling {
    pub(super) fn new(elastic: &Elastic) -> Self {
        Scaling {
            enabled: elastic.enabled,
            capacity_per_s: f64::from(elastic.capacity_per_s),
            autoscaler: Autoscaler::new(elastic.clone()),
            sampled: None,
            status: None,
            measure_again: None,
        }
    }

    pub(super) fn status(&self) -> Option<ElasticStatus> {
        self.status.clone()
    }
}

impl Balancer {
    /// Takes a sample of the load, and adds or removes a member if the controller decides so.
    pub(super) fn scale(&mut self, now: Timestamp) {
        if !self.scaling.enabled {
            return;
        }
        let exited =
            self.launcher.as_mut().map(|launcher| launcher.take_exited()).unwrap_or_default();
        for name in exited {
            tracing::error!(
                member = name,
                "its router exited by itself; see its log in {}",
                self.config.cluster.state_dir.display()
            );
            self.processes.remove(&name);
            // Fails if the member is leaving already.
            let _ = self.members.remove(&name);
        }
        let (at, before) = match self.scaling.sampled {
            Some((at, _)) if now.since(at) < SAMPLE_INTERVAL => return,
            Some(sampled) => sampled,
            None => (now, u64::MAX),
        };
        let interests = self
            .members
            .iter()
            .map(|member| self.written.counters.member(member.number).to.interests);
        let interests: u64 = interests.sum();
        self.scaling.sampled = Some((now, interests));
        if before == u64::MAX {
            return;
        }
        let load_per_s = interests.saturating_sub(before) as f64 / now.since(at).as_secs_f64();
        let sample = self.sample(load_per_s);
        let says = match self.scaling.autoscaler.decide(now, &sample) {
            ScalingAction::None(reason) => reason.to_owned(),
            ScalingAction::Add => self.start_member(),
            ScalingAction::Remove => self.remove_member(),
        };
        let capacity_per_s = sample.capacity_per_s;
        self.scaling.status = Some(ElasticStatus { load_per_s, capacity_per_s, says });
    }

    fn sample(&self, load_per_s: f64) -> Sample {
        let capacity = |weight: u32| self.scaling.capacity_per_s * f64::from(weight) / 100.0;
        let serving = self.members.serving();
        let find = |number: &u8| self.members.iter().find(|member| member.number == *number);
        let capacity_per_s = serving
            .iter()
            .filter_map(find)
            .map(|member| capacity(self.members.weight(member)))
            .sum();
        let is_changing = self.members.iter().any(|member| {
            matches!(member.state, MemberState::Joining | MemberState::Draining)
                && member.desired != DesiredState::Drained
        });
        let last = self.last_started();
        let removable = last.and_then(|name| {
            self.members.named(&name).ok().map(|it| capacity(self.members.weight(it)))
        });
        Sample {
            load_per_s,
            capacity_per_s,
            removable_per_s: removable,
            serving: serving.len(),
            is_changing,
        }
    }

    /// Returns the member with the highest number of those that the launcher started.
    fn last_started(&self) -> Option<String> {
        let mut numbers = 1..=self.config.elastic.addresses.len() as u32;
        numbers.rfind(|number| self.processes.contains_key(&member_name(*number))).map(member_name)
    }

    fn start_member(&mut self) -> String {
        let free = (1..=self.config.elastic.addresses.len() as u32)
            .find(|number| self.members.named(&member_name(*number)).is_err());
        let Some(number) = free else {
            return "the load is high, but every address in elastic.addresses is in use".to_owned();
        };
        let Some(launcher) = &mut self.launcher else { return "there is no launcher".to_owned() };
        let started = match launcher.start(number) {
            Ok((item, process)) => match self.add_item(item, process) {
                Ok(member) => Ok(format!("the load is high: {} was started", member.name)),
                Err(error) => {
                    self.launcher
                        .iter_mut()
                        .for_each(|launcher| launcher.stop(&member_name(number)));
                    Err(error.to_string())
                }
            },
            Err(error) => Err(error.to_string()),
        };
        match started {
            Ok(message) => {
                tracing::info!("{message}");
                message
            }
            Err(error) => {
                tracing::error!("a member is needed but can't be started: {error}");
                error
            }
        }
    }

    fn remove_member(&mut self) -> String {
        let Some(name) = self.last_started() else {
            return "there is no started member".to_owned();
        };
        match self.members.remove(&name) {
            Ok(()) => format!("the load is low: {name} is removed"),
            Err(error) => error.to_string(),
        }
    }

    /// Measures the next member that needs it. One at a time, as two would compete for resources.
    pub(super) fn measure_next(&mut self) {
        let now = self.now();
        if self.measuring.is_some() || self.scaling.measure_again.is_some_and(|at| now < at) {
            return;
        }
        let candidate = self.members.iter().find(|member| {
            member.needs_measurement()
                && (member.healthy == Some(true) || !self.config.health.enabled)
        });
        let Some(member) = candidate else { return };
        let name = member.item.name.clone();
        let address = SocketAddr::new(member.item.addresses[0].0, member.item.port as u16);
        let prefix = probe::prefix(&self.config.cluster.name, &name);
        let (options, handle, member) =
            (self.config.measure.clone(), self.handle.clone(), name.clone());
        let started = spawn("measure", move || {
            let result =
                measure_rate(address, &prefix, &options).map_err(|error| error.to_string());
            let _ = handle.events.send(Event::Measured(member, result));
        });
        match started {
            Ok(_) => self.measuring = Some(name),
            Err(error) => self.on_measured(&name, Err(error.to_string())),
        }
    }

    /// Processes the result of a measurement.
    pub(super) fn on_measured(&mut self, name: &str, result: Result<u32, String>) {
        self.measuring = None;
        let key = (name.to_owned(), "measure");
        match result {
            Ok(per_s) => {
                tracing::info!(member = name, per_s, "measured");
                self.members.on_measured(name, per_s);
                self.member_errors.remove(&key);
                self.save_state();
            }
            Err(error) => {
                self.scaling.measure_again = Some(self.now() + MEASURE_RETRY);
                self.member_errors.insert(key, format!("its weight can't be measured: {error}"));
            }
        }
    }
}

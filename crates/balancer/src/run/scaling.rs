//! Autoscaling, and the measurement of weights.

use super::pods::{Answer, Pods, Seen, pod_index};
use super::{Balancer, Event, Handle, spawn};
use crate::autoscaler::{Autoscaler, Sample, ScalingAction};
use crate::calibrate::measure_rate;
use crate::config::Elastic;
use crate::launcher::member_name;
use crate::member_count::MemberCount;
use crate::members::{DesiredState, Member};
use crate::probe;
use core::time::Duration;
use nw_api::balancer::{ElasticStatus, MemberState};
use nw_element_api::Timestamp;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// Time between two samples of the load.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Time before a failed measurement is repeated.
const MEASURE_RETRY: Duration = Duration::from_secs(5);

/// The key of the warning about pods.
const WARNING: &str = "elastic";

/// Members by where they come from.
#[derive(Default)]
struct Group {
    seen: Seen,
    /// Number of members that are no pods of the StatefulSet.
    fixed: u32,
    /// Number of these that take names.
    fixed_serving: usize,
    /// The pod with the highest index, and what it forwards, Interests per second.
    last: Option<(u32, f64)>,
}

/// The state of autoscaling and measuring.
pub(super) struct Scaling {
    enabled: bool,
    capacity_per_s: f64,
    autoscaler: Autoscaler,
    /// With engine = "kubernetes".
    pods: Option<Pods>,
    /// The name of their StatefulSet.
    stateful_set: String,
    /// The last sample: its time, and the Interests counted by then.
    sampled: Option<(Timestamp, u64)>,
    status: Option<ElasticStatus>,
    measure_again: Option<Timestamp>,
}

impl Scaling {
    pub(super) fn new(
        elastic: &Elastic,
        count: Option<Box<dyn MemberCount>>,
        handle: &Handle,
    ) -> std::io::Result<Self> {
        let name = elastic.stateful_set().map_or("", |(_, name)| name);
        let start = |count| {
            let shown = elastic.stateful_set.clone().unwrap_or_default();
            let timeout = Duration::from_secs(u64::from(elastic.pod_timeout_s));
            let handle = handle.clone();
            let answer = move |answer| handle.with(|balancer| balancer.on_pods_answer(answer));
            Pods::start(shown, timeout, count, answer)
        };
        Ok(Scaling {
            pods: count.map(start).transpose()?,
            stateful_set: name.to_owned(),
            enabled: elastic.enabled,
            capacity_per_s: f64::from(elastic.capacity_per_s),
            autoscaler: Autoscaler::new(elastic.clone()),
            sampled: None,
            status: None,
            measure_again: None,
        })
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
            Some((at, _)) if now.since(at) < SAMPLE_INTERVAL => {
                // Between two samples, so that decisions rarely wait for a read.
                self.scaling.pods.iter_mut().for_each(|pods| pods.read_if_due(now));
                return;
            }
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
        let says = match self.scaling.pods.is_some() {
            true => self.scale_pods(now, sample),
            false => match self.scaling.autoscaler.decide(now, &sample) {
                ScalingAction::None(reason) => reason.to_owned(),
                ScalingAction::Add => self.start_member(),
                ScalingAction::Remove => self.remove_member(),
            },
        };
        let capacity_per_s = sample.capacity_per_s;
        self.update_pods_warning(now);
        self.scaling.status = Some(ElasticStatus { load_per_s, capacity_per_s, says });
    }

    fn sample(&self, load_per_s: f64) -> Sample {
        let serving = self.members.serving();
        let find = |number: &u8| self.members.iter().find(|member| member.number == *number);
        let capacities = serving.iter().filter_map(find).map(|member| self.capacity(member));
        // The sum of nothing is -0.0, which would be shown.
        let capacity_per_s = capacities.sum::<f64>() + 0.0;
        let is_changing = self.members.iter().any(|member| {
            matches!(member.state, MemberState::Joining | MemberState::Draining)
                && member.desired != DesiredState::Drained
        });
        let last = self.last_started();
        let removable =
            last.and_then(|name| self.members.named(&name).ok().map(|it| self.capacity(it)));
        Sample {
            load_per_s,
            capacity_per_s,
            removable_per_s: removable,
            serving: serving.len(),
            is_changing,
        }
    }

    /// Decides with members as pods, whose number is the StatefulSet's.
    fn scale_pods(&mut self, now: Timestamp, mut sample: Sample) -> String {
        let group = self.pods_seen(sample.is_changing);
        let elastic = &self.config.elastic;
        let without_fixed = |members: u32| members.saturating_sub(group.fixed);
        let bounds: RangeInclusive<u32> =
            without_fixed(elastic.members_min)..=without_fixed(elastic.members_max);
        let Some(pods) = &mut self.scaling.pods else { return String::new() };
        pods.observe(now, group.seen);
        let replicas = pods.replicas().unwrap_or(0);
        let call_obstacle = pods.call_obstacle(now);
        if call_obstacle.is_none() && !bounds.contains(&replicas) {
            return pods.change(now, 0, &bounds);
        }
        let obstacle = call_obstacle.or_else(|| pods.pod_obstacle(now));
        // A pod that was asked for counts, so that none is asked for twice.
        sample.serving = group.fixed_serving + replicas as usize;
        // The StatefulSet removes the pod with the highest index: one without names costs nothing.
        let last = group.last.filter(|(index, _)| index + 1 >= replicas);
        sample.removable_per_s = (replicas > 0).then_some(last.map_or(0.0, |(_, per_s)| per_s));
        sample.is_changing = obstacle.is_some();
        let action = self.scaling.autoscaler.decide(now, &sample);
        match (obstacle, action) {
            (Some(obstacle), _) => obstacle,
            (None, ScalingAction::None(reason)) => reason.to_owned(),
            (None, ScalingAction::Add) => {
                format!("the load is high: {}", pods.change(now, 1, &bounds))
            }
            (None, ScalingAction::Remove) => {
                format!("the load is low: {}", pods.change(now, -1, &bounds))
            }
        }
    }

    fn pods_seen(&self, is_moving: bool) -> Group {
        let serving = self.members.serving();
        let mut group = Group { seen: Seen { is_moving, ..Seen::default() }, ..Group::default() };
        for member in self.members.iter() {
            let takes_names = serving.contains(&member.number);
            let Some(index) = pod_index(&self.scaling.stateful_set, &member.item.name) else {
                group.fixed += 1;
                group.fixed_serving += usize::from(takes_names);
                continue;
            };
            let is_drained = member.desired == DesiredState::Drained;
            group.seen.members += 1;
            group.seen.settled += u32::from(member.state == MemberState::Active || is_drained);
            if group.last.is_none_or(|(last, _)| last < index) {
                let per_s = if takes_names { self.capacity(member) } else { 0.0 };
                group.last = Some((index, per_s));
            }
        }
        group
    }

    /// Takes the answer to a call for the StatefulSet.
    fn on_pods_answer(&mut self, answer: Answer) {
        let now = self.now();
        if let Some(pods) = &mut self.scaling.pods
            && !pods.on_answer(now, answer)
        {
            self.scaling.autoscaler.action_failed();
        }
        self.update_pods_warning(now);
    }

    fn update_pods_warning(&mut self, now: Timestamp) {
        let warning = self.scaling.pods.as_ref().and_then(|pods| pods.warning(now));
        match warning {
            Some(warning) => {
                if self.warnings.get(WARNING) != Some(&warning) {
                    tracing::warn!("{warning}");
                }
                self.warnings.insert(WARNING, warning);
            }
            None => drop(self.warnings.remove(WARNING)),
        }
    }

    fn capacity(&self, member: &Member) -> f64 {
        self.scaling.capacity_per_s * f64::from(self.members.weight(member)) / 100.0
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

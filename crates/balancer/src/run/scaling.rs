//! Members by load, and weights by measuring.

use super::{Balancer, Event, spawn};
use crate::config::Elastic;
use crate::elastic::{Controller, Sample, Wish};
use crate::engine::name_of;
use crate::measure::measure;
use crate::members::Wanted;
use crate::probe;
use core::time::Duration;
use nw_api::balancer::{ElasticStatus, MemberState};
use nw_element_api::Instant;
use std::net::SocketAddr;

/// Between two samples of the load.
const SAMPLE: Duration = Duration::from_secs(1);
/// A measurement that failed is tried again after this.
const AGAIN: Duration = Duration::from_secs(5);

/// What the controller saw last.
pub(super) struct Scaling {
    enabled: bool,
    capacity_per_s: f64,
    controller: Controller,
    sampled: Option<(Instant, u64)>,
    status: Option<ElasticStatus>,
    measure_again: Option<Instant>,
}

impl Scaling {
    pub(super) fn new(elastic: &Elastic) -> Self {
        Scaling {
            enabled: elastic.enabled,
            capacity_per_s: f64::from(elastic.capacity_per_s),
            controller: Controller::new(elastic.clone()),
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
    /// Adds or removes a member when the load has been so for long enough.
    pub(super) fn scale(&mut self, now: Instant) {
        if !self.scaling.enabled {
            return;
        }
        let ended = self.engine.as_mut().map(|engine| engine.ended()).unwrap_or_default();
        for name in ended {
            tracing::error!(
                member = name,
                "its router ended by itself; see its log in {}",
                self.config.cluster.folder.display()
            );
            self.processes.remove(&name);
            // One that is leaving already is on its way.
            let _ = self.members.remove(&name);
        }
        let (at, before) = match self.scaling.sampled {
            Some((at, _)) if now.since(at) < SAMPLE => return,
            Some(sampled) => sampled,
            None => (now, u64::MAX),
        };
        let interests =
            self.members.iter().map(|member| self.written.counters.member(member.number).to.interests);
        let interests: u64 = interests.sum();
        self.scaling.sampled = Some((now, interests));
        if before == u64::MAX {
            return;
        }
        let load_per_s = interests.saturating_sub(before) as f64 / now.since(at).as_secs_f64();
        let sample = self.sample(load_per_s);
        let wish = self.scaling.controller.take(now, &sample);
        let says = match wish {
            Wish::Nothing(why) => why.to_owned(),
            Wish::Add => self.start_member(),
            Wish::Remove => self.end_member(),
        };
        let capacity_per_s = sample.capacity_per_s;
        self.scaling.status = Some(ElasticStatus { load_per_s, capacity_per_s, says });
    }

    fn sample(&self, load_per_s: f64) -> Sample {
        let carries = |weight: u32| self.scaling.capacity_per_s * f64::from(weight) / 100.0;
        let serving = self.members.serving();
        let of = |number: &u8| self.members.iter().find(|member| member.number == *number);
        let capacity_per_s =
            serving.iter().filter_map(of).map(|member| carries(self.members.weight(member))).sum();
        let changing = self.members.iter().any(|member| {
            matches!(member.state, MemberState::Joining | MemberState::Draining)
                && member.wanted != Wanted::Resting
        });
        let last = self.last_started();
        let removable =
            last.and_then(|name| self.members.named(&name).ok().map(|it| carries(self.members.weight(it))));
        Sample { load_per_s, capacity_per_s, removable_per_s: removable, serving: serving.len(), changing }
    }

    /// Of those the engine started, the one with the highest number.
    fn last_started(&self) -> Option<String> {
        let mut numbers = 1..=self.config.elastic.addresses.len() as u32;
        numbers.rfind(|number| self.processes.contains_key(&name_of(*number))).map(name_of)
    }

    fn start_member(&mut self) -> String {
        let free = (1..=self.config.elastic.addresses.len() as u32)
            .find(|number| self.members.named(&name_of(*number)).is_err());
        let Some(number) = free else {
            return "the load is high and every address of elastic.addresses has a member".to_owned();
        };
        let Some(engine) = &mut self.engine else { return "there is no engine".to_owned() };
        let started = engine.start(number);
        let said = match started {
            Ok((item, process)) => match self.add_item(item, process) {
                Ok(member) => Ok(format!("the load is high: {} was started", member.name)),
                Err(error) => {
                    self.engine.iter_mut().for_each(|engine| engine.stop(&name_of(number)));
                    Err(error.to_string())
                }
            },
            Err(error) => Err(error.to_string()),
        };
        match said {
            Ok(says) => {
                tracing::info!("{says}");
                says
            }
            Err(why) => {
                tracing::error!("a member is needed and can't be started: {why}");
                why
            }
        }
    }

    fn end_member(&mut self) -> String {
        let Some(name) = self.last_started() else { return "there is none to remove".to_owned() };
        match self.members.remove(&name) {
            Ok(()) => format!("the load is low: {name} leaves"),
            Err(error) => error.to_string(),
        }
    }

    /// One member at a time: two at once would measure each other.
    pub(super) fn measure_next(&mut self) {
        let now = self.now();
        if self.measuring.is_some() || self.scaling.measure_again.is_some_and(|at| now < at) {
            return;
        }
        let wants = self.members.iter().find(|member| {
            member.wants_measuring() && (member.healthy == Some(true) || !self.config.health.enabled)
        });
        let Some(member) = wants else { return };
        let name = member.item.name.clone();
        let address = SocketAddr::new(member.item.addresses[0].0, member.item.port as u16);
        let prefix = probe::prefix(&self.config.cluster.name, &name);
        let (options, handle, of) = (self.config.measure.clone(), self.handle.clone(), name.clone());
        let started = spawn("measure", move || {
            let result = measure(address, &prefix, &options).map_err(|error| error.to_string());
            let _ = handle.events.send(Event::Measured(of, result));
        });
        match started {
            Ok(_) => self.measuring = Some(name),
            Err(error) => self.on_measured(&name, Err(error.to_string())),
        }
    }

    pub(super) fn on_measured(&mut self, name: &str, result: Result<u32, String>) {
        self.measuring = None;
        let key = (name.to_owned(), "measure");
        match result {
            Ok(per_s) => {
                tracing::info!(member = name, per_s, "measured");
                self.members.on_measured(name, per_s);
                self.troubles.remove(&key);
                self.keep();
            }
            Err(why) => {
                self.scaling.measure_again = Some(self.now() + AGAIN);
                self.troubles.insert(key, format!("its weight can't be measured: {why}"));
            }
        }
    }
}

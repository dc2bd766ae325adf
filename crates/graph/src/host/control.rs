//! What control asks of a running graph, between two iterations of its loop: states of elements,
//! routes of name routers, calls of an element's own methods.

use super::events::EventSubject;
use super::{Handle, Host, HostError, Message};
use nw_api::service::{
    ElementRoute, ElementRouteOrigin, ElementRoutes, ServiceElement, ServiceEventKind,
    VerificationFailure,
};
use nw_element_api::{Context, Element, ElementStatus, FaceId, Timestamp};
use nw_elements::NameRouter;
use nw_elements::name_router::{ControlRoutes, RouteOrigin};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Interval between checks for new failures while packets flow.
const FAILURE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Reasons why routes can't be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The element has no routes that can be changed, or does not exist.
    #[error("{0:?} is no name router of this graph: only these have routes to change")]
    NoNameRouter(String),
    /// The change is older than the last one.
    #[error("version {0} is older than {1}, that of the routes in effect: read them and try again")]
    OldVersion(u64, u64),
    /// No face has this name.
    #[error("no face is called {0:?}: name one that the graph declares")]
    NoLink(String),
    /// A table is full.
    #[error("{0}")]
    Full(String),
}

/// What was reported about failures before.
#[derive(Debug, Default)]
pub(super) struct ReportedFailures {
    /// Number of failures by element.
    totals: BTreeMap<String, u64>,
    wanted: BTreeSet<(String, String)>,
    /// When to look for new ones; `None` while no packet flows.
    pub next_check: Option<Timestamp>,
}

impl Handle {
    /// Runs a function on the loop's thread and returns its result.
    pub(super) fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Host, Timestamp) -> R + Send + 'static,
    ) -> Result<R, HostError> {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let call = move |host: &mut Host, now| drop(sender.send(call(host, now)));
        self.send_message(Message::Call(Box::new(call)))?;
        receiver.recv().map_err(|_| HostError::Ended)
    }

    /// Returns the state of each element.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn elements(&self) -> Result<Vec<ServiceElement>, HostError> {
        self.call(|host, now| host.element_states(now))
    }

    /// Calls `change` with an element, between two iterations of the loop: it must return within
    /// some hundred microseconds. `None` if no element of this type has the name.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn with_element<E: Element + Send + 'static, R: Send + 'static>(
        &self,
        node: &str,
        change: impl FnOnce(&mut E, Timestamp, &mut Context<'_, E::Out>) -> R + Send + 'static,
    ) -> Result<Option<R>, HostError> {
        let node = node.to_owned();
        self.call(move |host, now| {
            host.engine.with::<E, R>(
                &node,
                now,
                &mut host.pool,
                &mut host.out,
                |element, context| change(element, now, context),
            )
        })
    }

    /// Returns the routes of a name router. `None` if no name router has the name.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn routes(&self, node: &str) -> Result<Option<ElementRoutes>, HostError> {
        let node = node.to_owned();
        self.call(move |host, now| host.routes_of(now, &node))
    }

    /// Changes the routes of a name router that control has set. `change` gets them and makes them
    /// new; `version` must not be lower than theirs.
    ///
    /// # Errors
    /// If the graph has ended; within, why the routes are unchanged.
    pub fn change_routes(
        &self,
        node: &str,
        version: u64,
        change: impl FnOnce(&mut ControlRoutes) + Send + 'static,
    ) -> Result<Result<(), RouteError>, HostError> {
        let node = node.to_owned();
        self.call(move |host, now| host.change_routes(now, &node, version, change))
    }
}

impl Host {
    /// Returns the name in the graph of a face.
    pub(super) fn link_name(&self, face: FaceId) -> Option<String> {
        self.faces.status(face).and_then(|status| self.name_of(&status))
    }

    /// Returns the wall clock, milliseconds since 1970.
    pub(super) fn unix_ms(&self, now: Timestamp) -> u64 {
        self.start_unix_ms() + now.as_millis()
    }

    pub(super) fn log_event(&self, now: Timestamp, kind: ServiceEventKind, subject: EventSubject) {
        self.events.add(self.unix_ms(now), kind, subject);
    }

    /// Logs an event about a face.
    pub(super) fn log_link_event(&self, now: Timestamp, kind: ServiceEventKind, link: &str) {
        let subject = EventSubject { link: Some(link.to_owned()), ..EventSubject::default() };
        self.log_event(now, kind, subject);
    }

    fn element_states(&self, now: Timestamp) -> Vec<ServiceElement> {
        let nodes = self.engine.graph().nodes.iter();
        let state = |node: &crate::model::Node| {
            let element = self.engine.element(&node.name)?;
            let status = element.status();
            let failure = |failure: &nw_element_api::PacketFailure| VerificationFailure {
                name: failure.name.to_string(),
                reason: failure.reason.to_owned(),
                face: failure.ingress.number(),
                link: self.link_name(failure.ingress),
                age_ms: now.since(failure.at).as_millis() as u64,
                contested: failure.is_contested,
            };
            let values = status.values.iter().map(|(name, value)| ((*name).to_owned(), *value));
            Some(ServiceElement {
                name: node.name.clone(),
                element: node.entry.name.to_owned(),
                idle: element.is_idle(),
                values: values.collect(),
                failures: status.failures.iter().map(failure).collect(),
                wanted_certificates: status
                    .wanted_certificates
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
            })
        };
        nodes.filter_map(state).collect()
    }

    fn routes_of(&mut self, now: Timestamp, node: &str) -> Option<ElementRoutes> {
        let routes = self.engine.with::<NameRouter, _>(
            node,
            now,
            &mut self.pool,
            &mut self.out,
            |router, _| {
                let routes = router.routes().flat_map(|(prefix, hops)| {
                    hops.iter().map(|hop| (prefix.clone(), hop.clone()))
                });
                (router.control_routes().version, routes.collect::<Vec<_>>())
            },
        );
        let (version, hops) = routes?;
        let route =
            |(prefix, hop): (nw_name::Name, nw_elements::name_router::SourcedHop)| ElementRoute {
                registered_by: (hop.origin == RouteOrigin::Registration)
                    .then(|| self.registrants.find(node, &prefix, hop.face).map(str::to_owned))
                    .flatten(),
                prefix: prefix.to_string(),
                origin: match hop.origin {
                    RouteOrigin::Graph => ElementRouteOrigin::Graph,
                    RouteOrigin::Control => ElementRouteOrigin::Control,
                    RouteOrigin::Registration => ElementRouteOrigin::Registration,
                },
                link: match hop.link.as_str() {
                    "" => self.link_name(hop.face).unwrap_or_default(),
                    link => link.to_owned(),
                },
                face: (hop.face != FaceId::NONE).then(|| hop.face.number()),
                cost: hop.cost,
                expires_ms: (hop.until != Timestamp::NEVER)
                    .then(|| hop.until.since(now).as_millis() as u64),
            };
        let mut routes: Vec<ElementRoute> = hops.into_iter().map(route).collect();
        routes.sort_by(|a, b| (&a.prefix, a.origin, &a.link).cmp(&(&b.prefix, b.origin, &b.link)));
        Some(ElementRoutes { version, routes })
    }

    fn change_routes(
        &mut self,
        now: Timestamp,
        node: &str,
        version: u64,
        change: impl FnOnce(&mut ControlRoutes),
    ) -> Result<(), RouteError> {
        let mut set = |routes: ControlRoutes| {
            self.engine.with::<NameRouter, _>(
                node,
                now,
                &mut self.pool,
                &mut self.out,
                |router, _| {
                    let before = router.control_routes().clone();
                    router.set_control_routes(routes);
                    before
                },
            )
        };
        let no_router = || RouteError::NoNameRouter(node.to_owned());
        let before = set(ControlRoutes::default()).ok_or_else(no_router)?;
        let mut routes = before.clone();
        change(&mut routes);
        routes.version = version;
        if version < before.version {
            let current = before.version;
            set(before);
            return Err(RouteError::OldVersion(version, current));
        }
        let faces = &self.engine.graph().faces;
        let unknown =
            routes.costs.keys().find(|(_, link)| !faces.iter().any(|face| face.name == *link));
        if let Some((_, link)) = unknown {
            let error = RouteError::NoLink(link.clone());
            self.restore_routes(now, node, before);
            return Err(error);
        }
        self.restore_routes(now, node, routes);
        if let Err(error) = self.resolve_routes(now, node) {
            self.restore_routes(now, node, before);
            // They were in effect before.
            let _ = self.resolve_routes(now, node);
            return Err(error);
        }
        let subject = EventSubject {
            element: Some(node.to_owned()),
            detail: Some(version.to_string()),
            ..EventSubject::default()
        };
        self.log_event(now, ServiceEventKind::RoutesChanged, subject);
        Ok(())
    }

    fn restore_routes(&mut self, now: Timestamp, node: &str, routes: ControlRoutes) {
        self.engine.with::<NameRouter, _>(node, now, &mut self.pool, &mut self.out, |router, _| {
            router.set_control_routes(routes)
        });
    }

    fn resolve_routes(&mut self, now: Timestamp, node: &str) -> Result<(), RouteError> {
        let faces = self.engine.peer_faces();
        let face = |name: &str| faces.get(name).copied().unwrap_or(FaceId::NONE);
        let resolved = self.engine.with::<NameRouter, _>(
            node,
            now,
            &mut self.pool,
            &mut self.out,
            |router, _| router.resolve_control_routes(face),
        );
        match resolved {
            Some(Err(errors)) => {
                let errors = errors.iter().map(|(prefix, error)| format!("{prefix}: {error}"));
                Err(RouteError::Full(errors.collect::<Vec<_>>().join("; ")))
            }
            _ => Ok(()),
        }
    }

    /// Looks for new failures of elements, at most once a second, and logs them.
    pub(super) fn check_failures(&mut self, now: Timestamp) {
        if self.reported.next_check.is_none_or(|due| due > now) {
            return;
        }
        self.reported.next_check = None;
        let nodes = self.engine.graph().nodes.iter();
        let statuses: Vec<(String, ElementStatus)> = nodes
            .filter_map(|node| Some((node.name.clone(), self.engine.element(&node.name)?.status())))
            .collect();
        let mut wanted = BTreeSet::new();
        for (node, status) in statuses {
            let total = self.reported.totals.entry(node.clone()).or_default();
            let new = status.failures_total.saturating_sub(*total);
            *total = status.failures_total;
            let kept = status.failures.len();
            let skipped = kept - kept.min(usize::try_from(new).unwrap_or(usize::MAX));
            for failure in &status.failures[skipped..] {
                let subject = EventSubject {
                    element: Some(node.clone()),
                    link: self.link_name(failure.ingress),
                    name: Some(failure.name.to_string()),
                    detail: Some(failure.reason.to_owned()),
                };
                self.log_event(now, ServiceEventKind::VerificationFailed, subject);
            }
            let names = status.wanted_certificates.iter().map(ToString::to_string);
            wanted.extend(names.map(|name| (node.clone(), name)));
        }
        for (element, name) in wanted.difference(&self.reported.wanted) {
            let subject = EventSubject {
                element: Some(element.clone()),
                name: Some(name.clone()),
                ..EventSubject::default()
            };
            self.log_event(now, ServiceEventKind::CertificateWanted, subject);
        }
        self.reported.wanted = wanted;
    }

    /// Schedules a check for failures, as packets were processed.
    pub(super) fn schedule_failure_check(&mut self, now: Timestamp) {
        if self.reported.next_check.is_none() {
            self.reported.next_check = Some(now + FAILURE_CHECK_INTERVAL);
        }
    }
}

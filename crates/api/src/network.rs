//! Messages of a network manager's control socket, as JSON.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use utoipa::ToSchema;

/// `GET /v1/network`: the network and the document that describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkStatus {
    /// Name of the network.
    pub name: String,
    /// Program and version.
    pub program: String,
    /// Process id of the manager.
    pub pid: u32,
    /// Version of the document in effect, from 1.
    pub version: u64,
    /// Text of the document.
    pub text: String,
    /// Whether the network is as the document describes it.
    pub state: NetworkState,
    /// What a person should know, the newest last.
    pub conditions: Vec<NetworkCondition>,
}

/// Whether a network is as its document describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkState {
    /// Nothing has been observed yet.
    #[default]
    Unknown,
    /// Everything is as described.
    Converged,
    /// Steps are carried out.
    Changing,
    /// A step failed; it is tried again after a pause.
    Retrying,
    /// A person holds the changes.
    Held,
    /// All services are being stopped.
    Stopping,
}

impl NetworkState {
    /// Returns the state as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            NetworkState::Unknown => "unknown",
            NetworkState::Converged => "converged",
            NetworkState::Changing => "changing",
            NetworkState::Retrying => "retrying",
            NetworkState::Held => "held",
            NetworkState::Stopping => "stopping",
        }
    }
}

/// Something that a person should know, for as long as it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkCondition {
    /// What it is about: `network`, `host NAME`, `instance NAME on HOST`, `service NAME`.
    pub subject: String,
    /// One word, such as `StepFailed`, `QuotaNotInEffect`, `Orphan`.
    pub kind: String,
    /// One sentence with the reason and what helps.
    pub reason: String,
    /// Milliseconds since 1970 when it began.
    pub since_ms: u64,
}

/// `PUT /v1/network`: a new document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkChange {
    /// Text of the document, at most 1 MiB.
    pub text: String,
    /// Version that it replaces; 409 if another one is in effect. Default: any.
    #[serde(default)]
    pub version: Option<u64>,
    /// Id of a plan that must still be the one to carry out; 409 if the network has changed since.
    #[serde(default)]
    pub plan: Option<String>,
    /// Folder that file names in the text are relative to, on the manager's machine. Default: as
    /// before.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub folder: Option<PathBuf>,
    /// Why, for the history.
    #[serde(default)]
    pub reason: Option<String>,
}

/// `POST /v1/plan`: what is to be planned. Without a text: what the manager would do now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// Text of a document, at most 1 MiB.
    #[serde(default)]
    pub text: Option<String>,
    /// Folder that file names in the text are relative to. Default: that of the document in effect.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub folder: Option<PathBuf>,
    /// Numbers of instances by service, in place of those in effect.
    #[serde(default)]
    pub replicas: BTreeMap<String, u32>,
}

/// `GET /v1/plans/{id}`, and the response to a request for a plan: steps in waves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkPlan {
    /// Id: changes when the target or the network changes. Empty plans have one as well.
    pub id: String,
    /// Version of the document that it is for; null if the text is not in effect.
    pub version: Option<u64>,
    /// State of the plan.
    pub state: PlanState,
    /// Steps, in order.
    pub steps: Vec<PlanStep>,
}

/// State of a plan or a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// Not begun.
    #[default]
    Planned,
    /// Being carried out.
    Running,
    /// Complete.
    Done,
    /// Ended without its effect.
    Failed,
    /// Taken back.
    Undone,
    /// Ended before its end because something else is wanted now.
    Replaced,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanStep {
    /// Id within the plan: `WAVE.NUMBER`. The steps of a wave run at once.
    pub id: String,
    /// What the step does, such as `start`, `wire`, `switch`, `await-idle`.
    pub phase: String,
    /// Name of the instance.
    pub instance: String,
    /// Host of the instance.
    pub host: String,
    /// Why the step is needed: one sentence.
    pub reason: String,
    /// Time limit, milliseconds.
    pub limit_ms: u64,
    /// State of the step.
    pub state: PlanState,
    /// Error, or a remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Duration in milliseconds; null if it has not ended.
    #[serde(default)]
    pub took_ms: Option<u64>,
}

/// `GET /v1/graph`: the network as it runs, as a map needs it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NetworkGraph {
    /// Name of the network.
    pub network: String,
    /// Version of the document in effect.
    pub version: u64,
    /// Id of the last event that this includes: the value of `after` for `GET /v1/events`.
    pub event: String,
    /// Milliseconds since 1970 of the last sample.
    pub at_ms: u64,
    /// Whether the network is as the document describes it.
    pub state: NetworkState,
    /// What a person should know.
    pub conditions: Vec<NetworkCondition>,
    /// Hosts.
    pub hosts: Vec<GraphHost>,
    /// Services of the document, and those that scaling and defence added.
    pub services: Vec<GraphService>,
    /// Instances: those that are wanted and those that run.
    pub instances: Vec<GraphInstance>,
    /// Links between instances.
    pub links: Vec<GraphLink>,
    /// Faces to the outside: listeners for applications, and peers.
    pub edges: Vec<GraphEdge>,
    /// Id of the plan that is carried out.
    pub plan: Option<String>,
}

/// A host in the map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphHost {
    /// Name.
    pub name: String,
    /// Engine: `process`, `docker`.
    pub engine: String,
    /// Whether it is another machine, reached by an agent.
    pub remote: bool,
    /// Whether its engine answers.
    pub up: bool,
    /// Number of instances that run.
    pub instances: u64,
    /// Processor cores in use by them.
    pub cpu_cores: f64,
    /// Resident memory of them, bytes.
    pub resident_bytes: u64,
}

/// A service in the map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphService {
    /// Name.
    pub name: String,
    /// What added it.
    pub origin: GraphOrigin,
    /// Number of instances that run.
    pub running: u32,
    /// Number of instances that are wanted.
    pub wanted: u32,
    /// Fewest instances that the document permits.
    pub min: u32,
    /// Most instances that the document permits.
    pub max: u32,
    /// Whether a person has set the number, so that scaling does not change it.
    pub pinned: bool,
    /// Why the number is as it is: the last decision of scaling, with figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What added an instance to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphOrigin {
    /// The document.
    #[default]
    Document,
    /// Scaling.
    Scaling,
    /// A countermeasure.
    Defence,
    /// Nothing that is in effect: it is removed after a grace.
    Orphan,
}

/// An instance in the map. Rates are per second, over the last period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphInstance {
    /// Name: `SERVICE~N`.
    pub name: String,
    /// Host.
    pub host: String,
    /// Service.
    pub service: String,
    /// What added it.
    pub origin: GraphOrigin,
    /// State.
    pub state: GraphInstanceState,
    /// Why the state is as it is, if that needs a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Process id.
    pub pid: Option<u32>,
    /// Seconds since its start.
    pub uptime_s: f64,
    /// Processor cores in use.
    pub cpu_cores: f64,
    /// Share of a core that it may use; null is one core, as a service has one thread.
    pub quota_cores: Option<f64>,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Packet rates.
    pub rates: GraphRates,
    /// Interests pending in its elements.
    pub pending: u64,
    /// Data packets in its content stores.
    pub cached_packets: u64,
    /// Share of Interests that content stores answered in the last period; null without Interests.
    pub hit_ratio: Option<f64>,
    /// Elements.
    pub elements: Vec<GraphElement>,
    /// Where a map shows it.
    pub position: GraphPosition,
}

/// State of an instance in the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphInstanceState {
    /// Wanted; not started yet.
    #[default]
    Wanted,
    /// Started; it does not answer yet.
    Starting,
    /// It runs.
    Running,
    /// It accepts no more Interests.
    Draining,
    /// It has ended, though it is wanted or not yet removed.
    Ended,
}

/// Packets per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphRates {
    /// Interests received.
    pub interests: f64,
    /// Data received.
    pub data: f64,
    /// Nacks received.
    pub nacks: f64,
    /// Dropped packets.
    pub dropped: f64,
}

/// An element of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphElement {
    /// Name in the document.
    pub name: String,
    /// Name of the element in the catalogue, such as `content_store`.
    pub element: String,
    /// Numbers of the element by name, such as `pending`, `packets`, `hits`.
    pub values: BTreeMap<String, u64>,
}

/// Where a map shows an instance, in units of one box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphPosition {
    /// From consumers to producers, from 0.
    #[schema(minimum = -1e6, maximum = 1e6)]
    pub x: f64,
    /// Downwards, from 0.
    #[schema(minimum = -1e6, maximum = 1e6)]
    pub y: f64,
    /// Whether a person has set it.
    #[serde(default)]
    pub fixed: bool,
}

/// A link in the map. Interests usually flow from `from` to `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphLink {
    /// Id, unique for as long as the addresses stay.
    pub id: String,
    /// The end that connects.
    pub from: GraphLinkEnd,
    /// The end that listens.
    pub to: GraphLinkEnd,
    /// Transport: `unix`, `shm`, `tcp`, `udp`.
    pub kind: String,
    /// Whether both ends are connected.
    pub up: bool,
    /// Packets per second from `from` to `to`; `dropped` is 0.
    pub forward: GraphRates,
    /// Packets per second from `to` to `from`; `dropped` is 0.
    pub backward: GraphRates,
    /// Interests sent by `from` and not answered yet.
    pub pending: u64,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct GraphLinkEnd {
    /// Name of the instance.
    pub instance: String,
    /// Host of the instance.
    pub host: String,
    /// Name of the face in its graph.
    pub face: String,
}

/// A face to the outside of the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GraphEdge {
    /// Where it ends in the network.
    pub end: GraphLinkEnd,
    /// URI of the peer, or the address it listens on.
    pub uri: String,
    /// Whether it is connected, or listens.
    pub up: bool,
    /// Packets per second into the network; `dropped` is 0.
    pub inward: GraphRates,
    /// Packets per second out of the network; `dropped` is 0.
    pub outward: GraphRates,
}

/// `PUT /v1/positions`: where a map shows instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphPositions {
    /// Positions to set; others stay.
    pub positions: Vec<InstancePosition>,
}

/// The position of one instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstancePosition {
    /// Instance: `NAME on HOST`.
    pub instance: String,
    /// Its position; null returns it to the layout.
    #[serde(default)]
    pub position: Option<GraphPosition>,
}

/// `GET /v1/events`: one event, as `data` of a Server-Sent Event. Its `id` is `START-NUMBER`. The
/// event `sampled` has no id and is not kept: new rates can be read from `GET /v1/graph`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkEvent {
    /// Start of the manager, milliseconds since 1970: numbers begin again with each start.
    pub start_ms: u64,
    /// Number of the event, from 1, without gaps.
    pub number: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What happened; also the `event` field of the Server-Sent Event.
    pub kind: NetworkEventKind,
    /// One sentence for a person.
    pub text: String,
    /// Instance concerned: `NAME on HOST`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Service or element concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Id of the plan concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Id of the step concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkEventKind {
    /// Earlier events are no longer kept: read `GET /v1/graph` again.
    Missed,
    /// The manager has started, and found what runs.
    Started,
    /// Another document is in effect.
    DocumentChanged,
    /// A plan is carried out from now on.
    PlanStarted,
    /// A plan is complete.
    PlanDone,
    /// A plan has ended before its end: a step failed, or something else is wanted.
    PlanEnded,
    /// A step began.
    StepStarted,
    /// A step is complete.
    StepDone,
    /// A step failed.
    StepFailed,
    /// An instance ended without being stopped.
    InstanceEnded,
    /// The number of a service's instances was decided anew.
    Scaled,
    /// The state of a defence changed.
    Defence,
    /// Routes changed.
    RoutesChanged,
    /// A condition began.
    ConditionBegan,
    /// A condition ended.
    ConditionEnded,
    /// Changes are held, or go on.
    HoldChanged,
    /// The manager ends.
    Stopping,
}

impl NetworkEventKind {
    /// Returns the kind as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            NetworkEventKind::Missed => "missed",
            NetworkEventKind::Started => "started",
            NetworkEventKind::DocumentChanged => "document-changed",
            NetworkEventKind::PlanStarted => "plan-started",
            NetworkEventKind::PlanDone => "plan-done",
            NetworkEventKind::PlanEnded => "plan-ended",
            NetworkEventKind::StepStarted => "step-started",
            NetworkEventKind::StepDone => "step-done",
            NetworkEventKind::StepFailed => "step-failed",
            NetworkEventKind::InstanceEnded => "instance-ended",
            NetworkEventKind::Scaled => "scaled",
            NetworkEventKind::Defence => "defence",
            NetworkEventKind::RoutesChanged => "routes-changed",
            NetworkEventKind::ConditionBegan => "condition-began",
            NetworkEventKind::ConditionEnded => "condition-ended",
            NetworkEventKind::HoldChanged => "hold-changed",
            NetworkEventKind::Stopping => "stopping",
        }
    }
}

/// `GET /v1/instances/{name}`: one instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InstanceDetail {
    /// As in the map.
    pub instance: GraphInstance,
    /// Path of its control socket, which speaks the interface of `nw service openapi`.
    pub control: Option<String>,
    /// Text of the graph that it runs; null if it does not answer.
    pub graph: Option<String>,
    /// Text of the graph that it should run; null if it is not wanted.
    pub wanted_graph: Option<String>,
}

/// `GET /v1/instances/{name}/logs`: the end of an instance's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstanceLog {
    /// Lines, the newest last.
    pub lines: Vec<String>,
}

/// `GET /v1/scale`, `GET /v1/scale/{service}`: number of instances of a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceScale {
    /// Service.
    pub service: String,
    /// Number of instances that are wanted.
    pub wanted: u32,
    /// Number of instances that run.
    pub running: u32,
    /// Fewest instances that the document permits.
    pub min: u32,
    /// Most instances that the document permits.
    pub max: u32,
    /// Whether a person has set the number.
    pub pinned: bool,
    /// The last decision of scaling, with figures.
    pub reason: Option<String>,
}

/// `PUT /v1/scale/{service}`: sets or releases the number of instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleChange {
    /// Number of instances, which scaling then does not change; null lets scaling decide again.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub instances: Option<u32>,
}

/// `GET /v1/routes`: a route of a name router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkRoute {
    /// Instance: `NAME on HOST`.
    pub instance: String,
    /// Element that routes by name.
    pub element: String,
    /// Prefix.
    pub prefix: String,
    /// Face of the instance that leads to the prefix.
    pub face: String,
    /// Cost.
    pub cost: u64,
    /// What set it: `graph`, `control`, `registration`.
    pub origin: String,
    /// Who set it: the key that signed the registration, or the person who added the route; null
    /// for routes of the document and those that were computed.
    #[serde(default)]
    pub by: Option<String>,
}

/// `GET /v1/countermeasures`: the defence of one element against one kind of attack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkDefence {
    /// Watched element.
    pub element: String,
    /// Attack: `poisoning` or `flooding`.
    pub attack: String,
    /// State: `normal`, `suspicious`, `verifying`, `confirmed`, `isolated` or `quiet`.
    pub state: String,
    /// Whether what is usual is not known yet: nothing is suspicious then.
    pub learning: bool,
    /// Whether a person forbids countermeasures at the element.
    pub vetoed: bool,
    /// Why the state is what it is, with figures; null before the first change.
    pub reason: Option<String>,
    /// Countermeasures in effect.
    pub countermeasures: Vec<NetworkCountermeasure>,
}

/// A countermeasure in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkCountermeasure {
    /// Element that it adds to the network.
    pub name: String,
    /// Element of the document that it is placed at.
    pub at: String,
    /// What it does, with figures.
    pub effect: String,
}

/// `PUT /v1/countermeasures/{element}/veto`: whether a person forbids countermeasures there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Veto {
    /// Whether countermeasures at the element are forbidden; what is in effect is removed.
    pub forbidden: bool,
}

/// `GET /v1/history`: one version of the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentVersion {
    /// Version, from 1.
    pub version: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What asked for it.
    pub author: String,
    /// The reason given for it.
    pub reason: String,
    /// Digest of the text.
    pub digest: String,
    /// Whether it is in effect.
    pub current: bool,
}

/// `GET /v1/history/{version}`: the text of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DocumentText {
    /// Version.
    pub version: u64,
    /// Text.
    pub text: String,
}

/// `POST /v1/undo`: return to an earlier document, as a new version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UndoRequest {
    /// Version whose text is in effect again; default: the one before the current one.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub version: Option<u64>,
}

/// `GET /v1/audit`: a change that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What asked for it.
    pub author: String,
    /// What was asked for.
    pub action: String,
    /// Whether it was accepted, or why not.
    pub result: String,
}

/// `POST /v1/stop`: how the manager ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// Whether services go on; otherwise they are drained and stopped first.
    #[serde(default)]
    pub keep: bool,
}

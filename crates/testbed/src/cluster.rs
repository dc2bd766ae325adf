//! The testbed as a whole.

use crate::balancer::{Balancer, Entry, keepalived};
use crate::ends::{Consumer, Producer, Publication, PublishPlan};
use crate::error::LabError;
use crate::losses::Losses;
use crate::node::{CARD, Node, Switch, Traffic};
use crate::picture;
use crate::plan::{
    Addresses, MEMBERS_MAX, Net, OUTSIDE, PORT, Plan, Role, RouterProgram, Transport, member_port,
};
use crate::process::Running;
use crate::quota::Groups;
use crate::remains::{self, Claim};
use crate::router::{Listen, Router};
use nw_api::balancer::MemberState;
use nw_name::Name;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// For addresses to move and routes to be known.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

/// Content stores of ends hold nothing: what is measured is the cluster.
const NO_STORE: &str = "[content_store]\npackets = 0\nmib = 0\n";
/// Whoever reaches a member may register routes for itself, as a producer that comes over the cluster's address.
const OPEN: &str = "[management]\ndigest = \"anywhere\"\nlocalhop = \"anywhere\"\n";

/// A router of the cluster.
#[derive(Debug)]
pub struct Member {
    /// From 1 on; its address and its port follow from it.
    pub number: u8,
    /// Its router. Dropped before the machine.
    pub router: Router,
    /// Its machine.
    pub node: Node,
}

impl Member {
    /// Its own UDP port.
    pub const fn port(&self) -> u16 {
        member_port(self.number)
    }
}

/// Consumers, a cluster, producers, and what joins them. All of it is removed when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    consumers: Vec<Consumer>,
    producers: Vec<Producer>,
    balancers: Vec<Balancer>,
    members: Vec<Member>,
    switch: Switch,
    groups: Option<Groups>,
    plan: Plan,
    /// Last: it removes whatever is left.
    claim: Claim,
}

impl Cluster {
    /// Builds it. It is ready when this returns.
    ///
    /// # Errors
    /// What is missing on this machine, in one sentence. Nothing is left behind.
    pub fn build(plan: &Plan) -> Result<Cluster, LabError> {
        plan.check()?;
        remains::needs_root()?;
        if !plan.nw.exists() {
            return Err(LabError::Missing(format!(
                "{} is not there: cargo build --release -p nw-cli",
                plan.nw.display()
            )));
        }
        if plan.balancers > 1 {
            keepalived()?;
        }
        let wants_quota = plan.member_share.is_some() || plan.end_share.is_some();
        let groups = if wants_quota { Some(Groups::find()?) } else { None };
        let claim = Claim::new()?;
        let switch = Switch::make(&claim.name, plan)?;
        let mut cluster = Cluster {
            consumers: Vec::new(),
            producers: Vec::new(),
            balancers: Vec::new(),
            members: Vec::new(),
            switch,
            groups,
            plan: plan.clone(),
            claim,
        };
        cluster.start()?;
        Ok(cluster)
    }

    fn start(&mut self) -> Result<(), LabError> {
        match self.plan.balancers {
            0 => self.start_single()?,
            _ => self.start_cluster()?,
        }
        for number in 1..=self.plan.producers {
            let producer = self.start_producer(number)?;
            self.producers.push(producer);
        }
        for number in 1..=self.plan.consumers {
            let consumer = self.start_consumer(number)?;
            self.consumers.push(consumer);
        }
        Ok(())
    }

    fn start_cluster(&mut self) -> Result<(), LabError> {
        let nodes = (1..=self.plan.balancers).map(|number| self.node(Role::Balancer, number, None, None));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        for number in 1..=self.plan.members as u8 {
            let member = self.start_member(number)?;
            self.members.push(member);
        }
        let entries: Vec<_> = self.members.iter().map(|member| self.entry(member)).collect();
        let stand_in = nodes.len() > 1;
        for node in nodes {
            node.take_by_threads(&self.switch)?;
            if !stand_in {
                node.take_gateways(&self.switch)?;
            }
            let mut balancer = Balancer::new(node, &self.plan, &entries)?;
            balancer.start()?;
            self.balancers.push(balancer);
        }
        if stand_in {
            for (balancer, priority) in self.balancers.iter_mut().zip([150, 100]) {
                balancer.start_keepalived(priority)?;
            }
            let end = Instant::now() + PATIENCE;
            while !self.balancers[0].is_active()? {
                if Instant::now() > end {
                    return Err(
                        self.balancers[0].complaint("keepalived did not give it the cluster's addresses")
                    );
                }
                std::thread::sleep(STEP);
            }
        }
        self.wait_until_active()
    }

    fn start_member(&self, number: u8) -> Result<Member, LabError> {
        let at = usize::from(number) - 1;
        let rate = self.plan.member_rate_mbit(at);
        let node = self.node(Role::Member, number.into(), self.plan.member_share, rate)?;
        let place = (node.addresses, member_port(number));
        let router = self.start_router(&self.member_program(number), &node, place, &self.member_config())?;
        Ok(Member { number, router, node })
    }

    fn entry(&self, member: &Member) -> Entry {
        let addresses = member.node.addresses;
        let v6 = self.plan.has_v6().then(|| addresses.v6.to_string());
        Entry {
            name: member.node.name.clone(),
            addresses: std::iter::once(addresses.v4.to_string()).chain(v6).collect(),
            port: member.port(),
            weight: self.plan.weight(usize::from(member.number) - 1),
            socket: member.router.socket.clone(),
        }
    }

    /// Waits until every balancer gives names to every member.
    fn wait_until_active(&self) -> Result<(), LabError> {
        for balancer in &self.balancers {
            balancer.wait_until("all members take names", |status| {
                status.members.len() == self.members.len()
                    && status.members.iter().all(|member| member.state == MemberState::Active)
            })?;
        }
        Ok(())
    }

    /// Adds a router to the running cluster; its number. It takes names when this returns.
    ///
    /// # Errors
    /// When there is no room, or it does not become active.
    pub fn add_member(&mut self) -> Result<u8, LabError> {
        self.needs_balancer()?;
        let number = (1..=MEMBERS_MAX as u8)
            .find(|number| self.members.iter().all(|member| member.number != *number))
            .ok_or_else(|| LabError::Plan(format!("a cluster has at most {MEMBERS_MAX} members")))?;
        let member = self.start_member(number)?;
        let entry = self.entry(&member);
        self.members.push(member);
        for balancer in &self.balancers {
            balancer.add(&entry)?;
        }
        self.wait_until_active()?;
        Ok(number)
    }

    /// Removes a router from the running cluster: no new names, then off when nothing is pending. Its machine is gone when this returns.
    ///
    /// # Errors
    /// When there is no such member, or it does not become free.
    pub fn remove_member(&mut self, number: u8) -> Result<(), LabError> {
        self.needs_balancer()?;
        let name = self.member(number)?.node.name.clone();
        for balancer in &self.balancers {
            balancer.remove(&name)?;
        }
        for balancer in &self.balancers {
            balancer.wait_until(&format!("{name} is gone"), |status| {
                status.members.iter().all(|member| member.name != name)
            })?;
        }
        self.members.retain(|member| member.number != number);
        Ok(())
    }

    /// Kills a member's router without a word. The balancer knows nothing of it.
    ///
    /// # Errors
    /// When there is no such member.
    pub fn kill_member(&mut self, number: u8) -> Result<(), LabError> {
        self.member(number)?;
        let member =
            self.members.iter_mut().find(|member| member.number == number).expect("looked for above");
        member.router.process.kill();
        Ok(())
    }

    /// Starts a killed member's router anew, without any routes.
    ///
    /// # Errors
    /// When there is no such member, or it does not start.
    pub fn revive_member(&mut self, number: u8) -> Result<(), LabError> {
        let node = &self.member(number)?.node;
        let place = (node.addresses, member_port(number));
        let router = self.start_router(&self.member_program(number), node, place, &self.member_config())?;
        let member =
            self.members.iter_mut().find(|member| member.number == number).expect("looked for above");
        member.router = router;
        Ok(())
    }

    fn needs_balancer(&self) -> Result<(), LabError> {
        match self.balancers.is_empty() {
            true => Err(LabError::Plan("there is no balancer: one router is all there is".into())),
            false => Ok(()),
        }
    }

    /// A plain router in the cluster's place: it has the cluster's address.
    fn start_single(&mut self) -> Result<(), LabError> {
        let node = self.node(Role::Balancer, 1, self.plan.member_share, None)?;
        node.send_by_threads(&self.switch)?;
        node.take_gateways(&self.switch)?;
        let router = self.start_router(
            &self.member_program(1),
            &node,
            (self.addresses(), PORT),
            &self.member_config(),
        )?;
        self.members.push(Member { number: 1, router, node });
        Ok(())
    }

    fn start_producer(&self, number: usize) -> Result<Producer, LabError> {
        let node = self.node(Role::Producer, number, self.plan.end_share, self.plan.end_rate_mbit)?;
        let config = format!("{NO_STORE}{}", self.ethernet_config());
        let router = self.start_router(&self.namewire(), &node, (node.addresses, PORT), &config)?;
        Ok(Producer {
            router,
            node,
            nw: self.plan.nw.clone(),
            cluster: self.uri(),
            contents: self.claim.contents.clone(),
        })
    }

    fn start_consumer(&self, number: usize) -> Result<Consumer, LabError> {
        let node = self.node(Role::Consumer, number, self.plan.end_share, self.plan.end_rate_mbit)?;
        let is_ethernet = self.plan.transport == Transport::Ethernet;
        let uri = match is_ethernet {
            true => format!("ether://[{}]", self.balancers[0].node.mac(OUTSIDE)?),
            false => self.uri(),
        };
        let mut consumer = Consumer { router: None, node, nw: self.plan.nw.clone(), uri };
        // Applications have no Ethernet faces.
        if self.plan.consumer_routers || is_ethernet {
            let config = format!("{NO_STORE}{}", self.ethernet_config());
            let router = self.start_router(
                &self.namewire(),
                &consumer.node,
                (consumer.node.addresses, PORT),
                &config,
            )?;
            let local = is_ethernet.then(|| format!("dev://{CARD}"));
            router.add_route(&Name::default(), &consumer.uri, local.as_deref())?;
            consumer.uri = router.uri().to_string();
            consumer.router = Some(router);
        }
        Ok(consumer)
    }

    fn node(
        &self,
        role: Role,
        number: usize,
        share: Option<f64>,
        rate_mbit: Option<f64>,
    ) -> Result<Node, LabError> {
        let share = self.groups.as_ref().zip(share);
        Node::make((&self.claim.name, &self.claim.folder), &self.switch, role, number, share, rate_mbit)
    }

    fn start_router(
        &self,
        program: &RouterProgram,
        node: &Node,
        (addresses, port): (Addresses, u16),
        config: &str,
    ) -> Result<Router, LabError> {
        Router::start(program, node, Listen { addresses, port, has_v6: self.plan.has_v6() }, config)
    }

    fn member_program(&self, number: u8) -> RouterProgram {
        match self.plan.router_for.is_empty() || self.plan.router_for.contains(&number) {
            true => self.plan.router.clone(),
            false => self.namewire(),
        }
    }

    fn namewire(&self) -> RouterProgram {
        RouterProgram::Namewire(self.plan.nw.clone())
    }

    fn member_config(&self) -> String {
        let store = match self.plan.cache_packets {
            0 => NO_STORE.to_owned(),
            // Room for packets of the largest size, so that their number is the bound.
            packets => {
                format!("[content_store]\npackets = {packets}\nmib = {}\n", (packets * 10).div_ceil(1024))
            }
        };
        format!("{store}{OPEN}{}{}", self.ethernet_config(), self.plan.member_config)
    }

    fn ethernet_config(&self) -> String {
        match self.plan.transport {
            Transport::Ethernet => format!("[faces.ethernet]\nlisten = true\nwhitelist = [\"{CARD}\"]\n"),
            Transport::Udp4 | Transport::Udp6 => String::new(),
        }
    }

    /// What all names of it start with: `nwlab1`.
    pub fn name(&self) -> &str {
        &self.claim.name
    }

    /// Where its sockets, configurations and logs are.
    pub fn folder(&self) -> &Path {
        &self.claim.folder
    }

    /// Where what is published is kept, and what is fetched may be: it goes with the rest.
    pub fn contents(&self) -> &Path {
        &self.claim.contents
    }

    /// The cluster's addresses; its port is [`PORT`].
    pub const fn addresses(&self) -> Addresses {
        Net::Consumers.gateway()
    }

    /// The cluster as a face.
    pub fn uri(&self) -> String {
        face_uri(self.addresses(), self.plan.transport)
    }

    /// Who asks, the first one at 0.
    pub fn consumers(&self) -> &[Consumer] {
        &self.consumers
    }

    /// Who answers, the first one at 0.
    pub fn producers(&self) -> &[Producer] {
        &self.producers
    }

    /// Those before the members, the first one at 0; none where the plan says so.
    pub fn balancers(&self) -> &[Balancer] {
        &self.balancers
    }

    /// A balancer, to be killed, broken or started anew.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn balancer_mut(&mut self, at: usize) -> &mut Balancer {
        &mut self.balancers[at]
    }

    /// The routers of the cluster, in the order in which they came.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Publishes on a producer (the first is 0), tells the cluster the way there, and waits until all members know it.
    ///
    /// # Errors
    /// When it is not served in time, or a router refuses the route or does not learn of it.
    pub fn publish(&self, producer: usize, name: &Name, plan: &PublishPlan) -> Result<Publication, LabError> {
        let at = &self.producers[producer];
        let publication = at.publish(name, plan)?;
        match plan.register_with_cluster {
            true => self.wait_for_route(name)?,
            false => self.add_route(name, &self.producer_uri(at)?)?,
        }
        Ok(publication)
    }

    /// Answers every Interest below a prefix on a producer (the first is 0) and tells the cluster the way there. `options` are those of
    /// `nw bench answer`.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub fn answer(&self, producer: usize, prefix: &Name, options: &[&str]) -> Result<Running, LabError> {
        let at = &self.producers[producer];
        let running = at.answer(prefix, options)?;
        self.add_route(prefix, &self.producer_uri(at)?)?;
        Ok(running)
    }

    /// Sends what is asked for under a prefix to a face of the members: tells one of them, as the balancer tells the others, and waits for that.
    ///
    /// # Errors
    /// When a router refuses, or does not learn of it.
    pub fn add_route(&self, prefix: &Name, next_hop: &str) -> Result<(), LabError> {
        let local = (self.plan.transport == Transport::Ethernet).then(|| format!("dev://{CARD}"));
        self.control_member()?.router.add_route(prefix, next_hop, local.as_deref())?;
        self.wait_for_route(prefix)
    }

    /// The member whose routes the others get.
    fn control_member(&self) -> Result<&Member, LabError> {
        let mut name = None;
        for balancer in &self.balancers {
            if balancer.is_running() {
                name = balancer.status()?.control_member;
                break;
            }
        }
        let named = self.members.iter().find(|member| Some(&member.node.name) == name.as_ref());
        named.or(self.members.first()).ok_or_else(|| LabError::Plan("no member is left".into()))
    }

    fn wait_for_route(&self, prefix: &Name) -> Result<(), LabError> {
        let end = Instant::now() + PATIENCE;
        for member in &self.members {
            while !member.router.has_route(prefix)? {
                if Instant::now() > end {
                    let said = format!("it has not learnt the way to {prefix} within {PATIENCE:?}");
                    return Err(member.router.process.complaint(&said));
                }
                std::thread::sleep(STEP);
            }
        }
        Ok(())
    }

    fn producer_uri(&self, producer: &Producer) -> Result<String, LabError> {
        match self.plan.transport {
            Transport::Ethernet => Ok(format!("ether://[{}]", producer.node.mac(CARD)?)),
            _ => Ok(face_uri(producer.node.addresses, self.plan.transport)),
        }
    }

    /// What passed each node's link so far, by the node's name; a balancer has `b1-outside` and `b1-inside`. From the node's side.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn traffic(&self) -> Result<HashMap<String, Traffic>, LabError> {
        self.switch.traffic()
    }

    /// What was lost so far, and where.
    ///
    /// # Errors
    /// When the system does not say, or somebody who runs does not answer.
    pub fn losses(&self) -> Result<Losses, LabError> {
        let mut losses = Losses::default();
        losses.look(&self.switch.space, "the switch")?;
        let consumers = self.consumers.iter().map(|end| (&end.node, end.router.as_ref()));
        let producers = self.producers.iter().map(|end| (&end.node, Some(&end.router)));
        let members = self.members.iter().map(|member| (&member.node, Some(&member.router)));
        for (node, router) in consumers.chain(producers).chain(members) {
            losses.look(&node.space, &node.name)?;
            if let Some(router) = router {
                losses.at_router(&router.drops()?, &node.name);
            }
        }
        for balancer in &self.balancers {
            losses.look(&balancer.node.space, &balancer.node.name)?;
            if balancer.process().is_some() {
                losses.at_balancer(&balancer.status()?.verdicts, &balancer.node.name);
            }
        }
        Ok(losses)
    }

    /// Limits the link of a member, each way.
    ///
    /// # Errors
    /// When this system can't.
    pub fn limit_member(&self, number: u8, rate_mbit: f64) -> Result<(), LabError> {
        self.member(number)?.node.limit(&self.switch, rate_mbit)
    }

    /// Limits the link of a producer (the first is 0), each way.
    ///
    /// # Errors
    /// When this system can't.
    pub fn limit_producer(&self, at: usize, rate_mbit: f64) -> Result<(), LabError> {
        self.producers[at].node.limit(&self.switch, rate_mbit)
    }

    /// A member by its number.
    ///
    /// # Errors
    /// When there is none.
    pub fn member(&self, number: u8) -> Result<&Member, LabError> {
        let found = self.members.iter().find(|member| member.number == number);
        found.ok_or_else(|| LabError::Plan(format!("there is no member {number}")))
    }

    /// A drawing of it, with addresses and what can be typed.
    pub fn picture(&self) -> String {
        picture::draw(self)
    }

    /// The same for programs.
    pub fn description(&self) -> serde_json::Value {
        picture::describe(self)
    }
}

fn face_uri(addresses: Addresses, transport: Transport) -> String {
    match transport {
        Transport::Udp6 => format!("udp6://[{}]:{PORT}", addresses.v6),
        Transport::Udp4 | Transport::Ethernet => format!("udp4://{}:{PORT}", addresses.v4),
    }
}

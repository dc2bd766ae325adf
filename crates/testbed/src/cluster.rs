//! The testbed as a whole.

use crate::balancer::{Balancer, MemberEntry, keepalived};
use crate::cgroup::CgroupHierarchy;
use crate::cleanup::{self, LabLock};
use crate::diagram;
use crate::endpoints::{Consumer, Producer, Publication, PublishPlan};
use crate::error::LabError;
use crate::loss_counters::LossCounters;
use crate::node::{IFACE, Node, Switch, Traffic};
use crate::plan::{
    Addresses, MEMBERS_MAX, Net, OUTSIDE, PORT, Plan, Role, RouterProgram, Transport, member_port,
};
use crate::process::Running;
use crate::router::{Listen, Router};
use nw_api::balancer::MemberState;
use nw_name::Name;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time for addresses to move and routes to be distributed.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Endpoints have no content store, so that only the cluster is measured.
const NO_STORE: &str = "[content_store]\npackets = 0\nmib = 0\n";
/// Producers register routes for themselves over the cluster's address, from any face.
const OPEN_MANAGEMENT: &str = "[management]\ndigest = \"anywhere\"\nlocalhop = \"anywhere\"\n";

/// A member of the cluster.
#[derive(Debug)]
pub struct Member {
    /// The member's number, from 1, which determines its address and port.
    pub number: u8,
    /// The member's router, dropped before its node.
    pub router: Router,
    /// The node that the router runs on.
    pub node: Node,
}

impl Member {
    /// Returns the member's own UDP port.
    pub const fn port(&self) -> u16 {
        member_port(self.number)
    }
}

/// A testbed of consumers, a cluster, producers and the links between them. Everything is removed
/// on drop.
#[derive(Debug)]
pub struct Cluster {
    consumers: Vec<Consumer>,
    producers: Vec<Producer>,
    balancers: Vec<Balancer>,
    members: Vec<Member>,
    switch: Switch,
    cgroups: Option<CgroupHierarchy>,
    plan: Plan,
    /// The last field, because its drop removes everything that is left.
    lab: LabLock,
}

impl Cluster {
    /// Builds a testbed, which is ready when this returns.
    ///
    /// # Errors
    /// Returns an error that says what this machine lacks. Nothing is left behind.
    pub fn build(plan: &Plan) -> Result<Cluster, LabError> {
        plan.check()?;
        cleanup::needs_root()?;
        if !plan.nw.exists() {
            return Err(LabError::Missing(format!(
                "{} is not there: cargo build --release -p nw-cli",
                plan.nw.display()
            )));
        }
        if plan.balancers > 1 {
            keepalived()?;
        }
        let needs_cgroups = plan.member_share.is_some() || plan.mark_face_ended.is_some();
        let cgroups = if needs_cgroups { Some(CgroupHierarchy::find()?) } else { None };
        let lab = LabLock::new()?;
        let switch = Switch::make(&lab.name, plan)?;
        let mut cluster = Cluster {
            consumers: Vec::new(),
            producers: Vec::new(),
            balancers: Vec::new(),
            members: Vec::new(),
            switch,
            cgroups,
            plan: plan.clone(),
            lab,
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
        let nodes =
            (1..=self.plan.balancers).map(|number| self.node(Role::Balancer, number, None, None));
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        for number in 1..=self.plan.members as u8 {
            let member = self.start_member(number)?;
            self.members.push(member);
        }
        let entries: Vec<_> = self.members.iter().map(|member| self.entry(member)).collect();
        let has_backup = nodes.len() > 1;
        for node in nodes {
            node.receive_by_threads(&self.switch)?;
            if !has_backup {
                node.add_gateway_addresses(&self.switch)?;
            }
            let mut balancer = Balancer::new(node, &self.plan, &entries)?;
            balancer.start()?;
            self.balancers.push(balancer);
        }
        if has_backup {
            for (balancer, priority) in self.balancers.iter_mut().zip([150, 100]) {
                balancer.start_keepalived(priority)?;
            }
            let end = Instant::now() + SETTLE_TIMEOUT;
            while !self.balancers[0].is_active()? {
                if Instant::now() > end {
                    return Err(self.balancers[0]
                        .failure("keepalived did not give it the cluster's addresses"));
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        self.wait_until_active()
    }

    fn start_member(&self, number: u8) -> Result<Member, LabError> {
        let at = usize::from(number) - 1;
        let rate = self.plan.member_rate_mbit(at);
        let node = self.node(Role::Member, number.into(), self.plan.member_share, rate)?;
        let listen = (node.addresses, member_port(number));
        let router =
            self.start_router(&self.member_program(number), &node, listen, &self.member_config())?;
        Ok(Member { number, router, node })
    }

    fn entry(&self, member: &Member) -> MemberEntry {
        let addresses = member.node.addresses;
        let v6 = self.plan.has_ipv6().then(|| addresses.v6.to_string());
        MemberEntry {
            name: member.node.name.clone(),
            addresses: std::iter::once(addresses.v4.to_string()).chain(v6).collect(),
            port: member.port(),
            weight: self.plan.weight(usize::from(member.number) - 1),
            socket: member.router.socket.clone(),
        }
    }

    /// Waits until all members are active in all balancers.
    fn wait_until_active(&self) -> Result<(), LabError> {
        for balancer in &self.balancers {
            balancer.wait_until("all members take names", |status| {
                status.members.len() == self.members.len()
                    && status.members.iter().all(|member| member.state == MemberState::Active)
            })?;
        }
        Ok(())
    }

    /// Adds a member to the running cluster and returns its number. The member serves names when
    /// this returns.
    ///
    /// # Errors
    /// Returns an error if the cluster is full or the member does not become active.
    pub fn add_member(&mut self) -> Result<u8, LabError> {
        self.needs_balancer()?;
        let number = (1..=MEMBERS_MAX as u8)
            .find(|number| self.members.iter().all(|member| member.number != *number))
            .ok_or_else(|| {
                LabError::Plan(format!("a cluster has at most {MEMBERS_MAX} members"))
            })?;
        let member = self.start_member(number)?;
        let entry = self.entry(&member);
        self.members.push(member);
        for balancer in &self.balancers {
            balancer.add(&entry)?;
        }
        self.wait_until_active()?;
        Ok(number)
    }

    /// Drains a member, removes it from the running cluster, and removes its node.
    ///
    /// # Errors
    /// Returns an error if the member does not exist or can't be drained.
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

    /// Kills a member's router without informing the balancer.
    ///
    /// # Errors
    /// Returns an error if the member does not exist.
    pub fn kill_member(&mut self, number: u8) -> Result<(), LabError> {
        self.member(number)?;
        let member = self
            .members
            .iter_mut()
            .find(|member| member.number == number)
            .expect("looked for above");
        member.router.process.kill();
        Ok(())
    }

    /// Restarts a killed member's router, without any routes.
    ///
    /// # Errors
    /// Returns an error if the member does not exist or does not start.
    pub fn restart_member(&mut self, number: u8) -> Result<(), LabError> {
        let node = &self.member(number)?.node;
        let listen = (node.addresses, member_port(number));
        let router =
            self.start_router(&self.member_program(number), node, listen, &self.member_config())?;
        let member = self
            .members
            .iter_mut()
            .find(|member| member.number == number)
            .expect("looked for above");
        member.router = router;
        Ok(())
    }

    fn needs_balancer(&self) -> Result<(), LabError> {
        match self.balancers.is_empty() {
            true => Err(LabError::Plan("there is no balancer: one router is all there is".into())),
            false => Ok(()),
        }
    }

    /// Starts a single router with the cluster's address.
    fn start_single(&mut self) -> Result<(), LabError> {
        let node = self.node(Role::Balancer, 1, self.plan.member_share, None)?;
        node.send_by_threads(&self.switch)?;
        node.add_gateway_addresses(&self.switch)?;
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
        let node =
            self.node(Role::Producer, number, self.plan.mark_face_ended, self.plan.end_rate_mbit)?;
        let config = format!("{NO_STORE}{}", self.ethernet_config());
        let router = self.start_router(&self.namewire(), &node, (node.addresses, PORT), &config)?;
        Ok(Producer {
            router,
            node,
            nw: self.plan.nw.clone(),
            cluster: self.uri(),
            content_directory: self.lab.content_directory.clone(),
        })
    }

    fn start_consumer(&self, number: usize) -> Result<Consumer, LabError> {
        let node =
            self.node(Role::Consumer, number, self.plan.mark_face_ended, self.plan.end_rate_mbit)?;
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
            let local = is_ethernet.then(|| format!("dev://{IFACE}"));
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
        let share = self.cgroups.as_ref().zip(share);
        Node::make(
            (&self.lab.name, &self.lab.directory),
            &self.switch,
            role,
            number,
            share,
            rate_mbit,
        )
    }

    fn start_router(
        &self,
        program: &RouterProgram,
        node: &Node,
        (addresses, port): (Addresses, u16),
        config: &str,
    ) -> Result<Router, LabError> {
        Router::start(
            program,
            node,
            Listen { addresses, port, has_ipv6: self.plan.has_ipv6(), has_tcp: false },
            config,
        )
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
            // Enough space for packets of the largest size, so that their number is the limit.
            packets => {
                format!(
                    "[content_store]\npackets = {packets}\nmib = {}\n",
                    (packets * 10).div_ceil(1024)
                )
            }
        };
        format!("{store}{OPEN_MANAGEMENT}{}{}", self.ethernet_config(), self.plan.member_config)
    }

    fn ethernet_config(&self) -> String {
        match self.plan.transport {
            Transport::Ethernet => {
                format!("[faces.ethernet]\nlisten = true\nallow = [\"{IFACE}\"]\n")
            }
            Transport::Udp4 | Transport::Udp6 => String::new(),
        }
    }

    /// Returns the testbed's name, the prefix of all its names: `nwlab1`.
    pub fn name(&self) -> &str {
        &self.lab.name
    }

    /// Returns the directory of sockets, configurations and logs.
    pub fn directory(&self) -> &Path {
        &self.lab.directory
    }

    /// Returns the directory of published content, where fetched content may be stored as well. It
    /// is removed with the testbed.
    pub fn content_directory(&self) -> &Path {
        &self.lab.content_directory
    }

    /// Returns the cluster's addresses. Its port is [`PORT`].
    pub const fn addresses(&self) -> Addresses {
        Net::Consumers.gateway()
    }

    /// Returns the face URI of the cluster.
    pub fn uri(&self) -> String {
        face_uri(self.addresses(), self.plan.transport)
    }

    /// Returns the consumers.
    pub fn consumers(&self) -> &[Consumer] {
        &self.consumers
    }

    /// Returns the producers.
    pub fn producers(&self) -> &[Producer] {
        &self.producers
    }

    /// Returns the balancers, of which there may be none.
    pub fn balancers(&self) -> &[Balancer] {
        &self.balancers
    }

    /// Returns a balancer that can be killed or restarted.
    ///
    /// # Panics
    /// Panics if there is no balancer with this index.
    pub fn balancer_mut(&mut self, at: usize) -> &mut Balancer {
        &mut self.balancers[at]
    }

    /// Returns the members in the order in which they were added.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Publishes content on a producer, counted from 0, adds a route to it in the cluster, and
    /// waits until all members have the route.
    ///
    /// # Errors
    /// Returns an error if the content is not served in time, or a router refuses the route or does
    /// not get it.
    pub fn publish(
        &self,
        producer: usize,
        name: &Name,
        plan: &PublishPlan,
    ) -> Result<Publication, LabError> {
        let at = &self.producers[producer];
        let publication = at.publish(name, plan)?;
        match plan.register_with_cluster {
            true => self.wait_for_route(name)?,
            false => self.add_route(name, &self.producer_uri(at)?)?,
        }
        Ok(publication)
    }

    /// Answers every Interest below a prefix on a producer, counted from 0, and adds a route to it
    /// in the cluster. `options` are those of `nw bench answer`.
    ///
    /// # Errors
    /// Returns the errors of [`publish`](Self::publish).
    pub fn answer(
        &self,
        producer: usize,
        prefix: &Name,
        options: &[&str],
    ) -> Result<Running, LabError> {
        let at = &self.producers[producer];
        let running = at.answer(prefix, options)?;
        self.add_route(prefix, &self.producer_uri(at)?)?;
        Ok(running)
    }

    /// Adds a route on the control member and waits until the balancer has copied it to all others.
    ///
    /// # Errors
    /// Returns an error if a router refuses the route or does not get it.
    pub fn add_route(&self, prefix: &Name, next_hop: &str) -> Result<(), LabError> {
        let local = (self.plan.transport == Transport::Ethernet).then(|| format!("dev://{IFACE}"));
        self.control_member()?.router.add_route(prefix, next_hop, local.as_deref())?;
        self.wait_for_route(prefix)
    }

    /// Returns the member whose routes the balancer copies to the others.
    fn control_member(&self) -> Result<&Member, LabError> {
        let mut name = None;
        for balancer in &self.balancers {
            if balancer.is_running() {
                name = balancer.status()?.control_member;
                break;
            }
        }
        let control_member =
            self.members.iter().find(|member| Some(&member.node.name) == name.as_ref());
        control_member
            .or(self.members.first())
            .ok_or_else(|| LabError::Plan("no member is left".into()))
    }

    fn wait_for_route(&self, prefix: &Name) -> Result<(), LabError> {
        let end = Instant::now() + SETTLE_TIMEOUT;
        for member in &self.members {
            while !member.router.has_route(prefix)? {
                if Instant::now() > end {
                    let said =
                        format!("it has not got the route for {prefix} within {SETTLE_TIMEOUT:?}");
                    return Err(member.router.process.failure(&said));
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }

    fn producer_uri(&self, producer: &Producer) -> Result<String, LabError> {
        match self.plan.transport {
            Transport::Ethernet => Ok(format!("ether://[{}]", producer.node.mac(IFACE)?)),
            _ => Ok(face_uri(producer.node.addresses, self.plan.transport)),
        }
    }

    /// Returns the traffic of each node's link, by the node's name and from its side. A balancer
    /// has the links `b1-outside` and `b1-inside`.
    ///
    /// # Errors
    /// Returns an error if the counters can't be read.
    pub fn traffic(&self) -> Result<HashMap<String, Traffic>, LabError> {
        self.switch.traffic()
    }

    /// Returns the packets lost so far by place.
    ///
    /// # Errors
    /// Returns an error if the counters can't be read, or a running router or balancer does not
    /// answer.
    pub fn losses(&self) -> Result<LossCounters, LabError> {
        let mut losses = LossCounters::default();
        losses.add_namespace(&self.switch.netns, "the switch")?;
        let consumers = self.consumers.iter().map(|end| (&end.node, end.router.as_ref()));
        let producers = self.producers.iter().map(|end| (&end.node, Some(&end.router)));
        let members = self.members.iter().map(|member| (&member.node, Some(&member.router)));
        for (node, router) in consumers.chain(producers).chain(members) {
            losses.add_namespace(&node.netns, &node.name)?;
            if let Some(router) = router {
                losses.add_router(&router.drops()?, &node.name);
            }
        }
        for balancer in &self.balancers {
            losses.add_namespace(&balancer.node.netns, &balancer.node.name)?;
            if balancer.process().is_some() {
                losses.add_balancer(&balancer.status()?.verdicts, &balancer.node.name);
            }
        }
        Ok(losses)
    }

    /// Limits the rate of a member's link in both directions.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn limit_member(&self, number: u8, rate_mbit: f64) -> Result<(), LabError> {
        self.member(number)?.node.limit(&self.switch, rate_mbit)
    }

    /// Limits the rate of the link of a producer, counted from 0, in both directions.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn limit_producer(&self, at: usize, rate_mbit: f64) -> Result<(), LabError> {
        self.producers[at].node.limit(&self.switch, rate_mbit)
    }

    /// Returns the member with a number.
    ///
    /// # Errors
    /// Returns an error if the member does not exist.
    pub fn member(&self, number: u8) -> Result<&Member, LabError> {
        let found = self.members.iter().find(|member| member.number == number);
        found.ok_or_else(|| LabError::Plan(format!("there is no member {number}")))
    }

    /// Returns a diagram of the testbed with addresses and useful commands.
    pub fn diagram(&self) -> String {
        diagram::draw(self)
    }

    /// Returns the same as JSON.
    pub fn description(&self) -> serde_json::Value {
        diagram::describe(self)
    }
}

fn face_uri(addresses: Addresses, transport: Transport) -> String {
    match transport {
        Transport::Udp6 => format!("udp6://[{}]:{PORT}", addresses.v6),
        Transport::Udp4 | Transport::Ethernet => format!("udp4://{}:{PORT}", addresses.v4),
    }
}

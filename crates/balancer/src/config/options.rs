//! Every option: name, type, default, limits, documentation.

// Texts of the reference: their brackets are TOML.
#![allow(rustdoc::broken_intra_doc_links)]

use super::values::{Cidr, Ip, Weight};
use nw_api::config::Mode;
use nw_api::{item, section, words};
use nw_name::Name;
use std::net::SocketAddr;
use std::path::PathBuf;

words! {
    /// Where the program stands on the way of a frame.
    Attach {
        /// The first of the others that works.
        Auto = "auto",
        /// In the driver, before a frame becomes anything else.
        Native = "native",
        /// In the system, at the same place for drivers that can't.
        Generic = "generic",
        /// At traffic control's hook, where XDP can't be.
        TrafficControl = "tc",
    }
}

section! {
    /// What the cluster is to the outside, and where the balancer stands.
    Cluster = "cluster" {
        /// What it is called, in names of probes, files and metrics.
        name: String = "cluster".to_owned();
        /// Its address: one of IPv4, one of IPv6, or both. This machine must have them, but for two balancers behind keepalived.
        addresses: Vec<Ip> = vec![], as "[\"192.0.2.1\", \"2001:db8::1\"]";
        /// The UDP port that clients talk to.
        port: u32 = 6363, in 1..=65_535;
        /// Network interfaces of this machine that packets of clients and of members come by.
        interfaces: Vec<String> = vec![], as "[\"eth0\", \"eth1\"]";
        /// Where the program is attached: auto takes the fastest that works and says which.
        attach: Attach = Attach::Auto;
        /// The member that commands (/localhop/nfd) go to, and whose routes the others get; while it fails, another one stands in.
        control_member: Option<String> = None, as "\"m1\"";
        /// A text that keys the hash of names. Two balancers of one cluster need the same, here or in key_file.
        secret: Option<String> = None, as "\"a long text that nobody guesses\"";
        /// A file with the key, made with the first start if it is not there. When neither is given: <folder>/<name>.key.
        key_file: Option<PathBuf> = None, as "\"/etc/namewire/cluster.key\"";
        /// Where the balancer keeps what a restart must find: the key, members added while it ran.
        folder: PathBuf = PathBuf::from("/var/lib/namewire/balancer");
        /// A folder in a bpf file system: what is in the kernel outlives the process there.
        pin: PathBuf = PathBuf::from("/sys/fs/bpf/namewire");
        /// Change what this machine needs to be a gateway (net.ipv4.ip_forward, accept_local, …), say so, and change it back at a clean end.
        system_settings: bool = true;
        /// For faces over Ethernet (EtherType 0x8624): the interface towards clients.
        ethernet_outside: Option<String> = None, as "\"eth0\"";
        /// Likewise: the interface towards members.
        ethernet_inside: Option<String> = None, as "\"eth1\"";
    }
}

item! {
    /// A router of the cluster.
    MemberItem = "member" {
        /// What it is called. Its share of names follows from it, so it should keep it.
        name: String, as "\"m1\"";
        /// Its own addresses: one of each family that the cluster has.
        addresses: Vec<Ip>, as "[\"10.0.0.11\"]";
        /// Its own UDP port, which no other member has, and which is not the cluster's. Its router must listen there.
        port: u32, in 1..=65_535, as "6401";
        /// How much it takes in relation to the others: a number, or "measured" for what it is measured to forward when it joins.
        weight: Weight = Weight::Fixed(100);
        /// The unix socket of its router on this machine. Without, an agent does what is to be done there: nw balancer agent.
        control: Option<PathBuf> = None, as "\"/run/nfd/m1.sock\"";
        /// It gets its routes otherwise: it is not given those of the control member, and not waited for until it has them.
        own_routes: bool = false;
    }
}

item! {
    /// What becomes of names under a prefix. The longest one that fits decides.
    RuleItem = "rule" {
        /// The prefix.
        prefix: Name, as "\"/example/video\"";
        /// Only so many components choose the member, so that what differs behind them meets on one.
        depth: Option<u32> = None, in 1..=16, as "3";
        /// They go to the control member.
        control: bool = false;
    }
}

section! {
    /// Probes that must come back through a member, or it gets no names.
    Health = "health" {
        /// Probe at all.
        enabled: bool = true;
        /// Between two probes of a member, milliseconds.
        interval_ms: u32 = 500, in 50..=60_000;
        /// A probe that is not back by then is lost, milliseconds.
        timeout_ms: u32 = 1000, in 10..=60_000;
        /// A probe that takes longer counts as lost; 0 is no bound but timeout_ms. Milliseconds.
        slow_ms: u32 = 0, in 0..=60_000;
        /// So many lost in a row, and the member has failed.
        failures: u32 = 3, in 1..=100;
        /// So many back in a row, and it is healthy.
        successes: u32 = 3, in 1..=100;
    }
}

section! {
    /// How a member leaves: no new names, then gone when nothing is pending.
    Drain = "drain" {
        /// It is gone after so many seconds whatever is pending.
        limit_s: u32 = 20, in 0..=86_400;
        /// Where its router does not say what is pending: when nothing has passed it for so many milliseconds.
        quiet_ms: u32 = 5000, in 100..=600_000;
    }
}

section! {
    /// One FIB on all members: routes, their faces and strategies of the control member.
    Routes = "routes" {
        /// Give them to the other members at all.
        replicate: bool = true;
        /// Between two looks at the control member's routes, milliseconds. A look that reads a long list makes the next one wait four times as long.
        interval_ms: u32 = 250, in 50..=60_000;
        /// When the control member is not there at the start, another one stands in after so many seconds.
        patience_s: u32 = 30, in 0..=3600;
        /// Routes more than these are not given on, which is said.
        routes_max: u32 = 1_000_000, in 1..=10_000_000;
    }
}

section! {
    /// How weights are measured.
    Measure = "measure" {
        /// For so long, milliseconds, one member at a time and before it gets names.
        duration_ms: u32 = 1000, in 100..=60_000;
        /// Interests that are on their way at one time.
        window: u32 = 64, in 1..=1024;
        /// Octets of content that each brings back.
        content_len: u32 = 1000, in 0..=8000;
    }
}

words! {
    /// What starts and ends members.
    EngineKind {
        /// A process of this machine.
        Process = "process",
    }
}

section! {
    /// Members that come and go by load.
    Elastic = "elastic" {
        /// Add and remove members at all.
        enabled: bool = false;
        /// What starts and ends them.
        engine: EngineKind = EngineKind::Process;
        /// Fewest members that take names, those of the file among them.
        members_min: u32 = 1, in 1..=63;
        /// Most of them.
        members_max: u32 = 4, in 1..=63;
        /// Interests a second that one member of weight 100 carries.
        capacity_per_s: u32 = 50_000, in 1..=100_000_000;
        /// A member is added when the load is above this share of what all carry, percent.
        high_percent: u32 = 80, in 1..=1000;
        /// One is removed when the load would stay below this share of what the others carry, percent. Must be below high_percent.
        low_percent: u32 = 50, in 0..=1000;
        /// The load must be so for so many seconds.
        hold_s: u32 = 5, in 0..=3600;
        /// After a change nothing is changed for so many seconds.
        cool_down_s: u32 = 20, in 0..=86_400;
        /// Addresses for members that are started, one each; {number} in prefix and names counts them from 1.
        addresses: Vec<Ip> = vec![], as "[\"10.0.0.21\", \"10.0.0.22\"]";
        /// Ports for them: this one, and those that follow.
        port_first: u32 = 6500, in 1..=65_000;
        /// Words before the command, such as those that enter a network namespace.
        prefix: Vec<String> = vec![], as "[\"ip\", \"netns\", \"exec\", \"m{number}\"]";
        /// More of the configuration that a router is started with, as TOML; its sockets are the engine's.
        router_config: Option<PathBuf> = None, as "\"/etc/namewire/member.toml\"";
    }
}

section! {
    /// The control socket: commands, status, metrics over HTTP.
    ControlSection = "control" {
        /// Its path.
        path: PathBuf = PathBuf::from("/run/namewire/balancer.sock");
        /// Who may open it.
        mode: Mode = Mode(0o600);
        /// TCP addresses for monitoring: `/metrics` for Prometheus, `/healthz`, `/readyz`, nothing else, and no token.
        metrics_listen: Vec<SocketAddr> = vec![], as "[\"127.0.0.1:6382\"]";
        /// TCP addresses for commands and for agents. Requests need the token of `token_file`; without one only what `metrics_listen` has is
        /// served. There is no TLS: keep it inside the cluster's own network.
        listen: Vec<SocketAddr> = vec![], as "[\"10.0.0.1:6380\"]";
        /// Allow addresses in `listen` and `metrics_listen` that other machines reach; `listen` then needs `token_file`.
        allow_remote: bool = false;
        /// A file with a secret that requests to `listen` carry as `Authorization: Bearer …`.
        token_file: Option<PathBuf> = None, as "\"/etc/namewire/token\"";
        /// Connections at one time; more wait to be accepted.
        connections: u32 = 64, in 2..=1024;
    }
}

section! {
    /// Two balancers, of which one has the addresses: what `nw balancer vrrp` writes for keepalived.
    Vrrp = "vrrp" {
        /// The interface towards clients.
        outside: Option<String> = None, as "\"eth0\"";
        /// The cluster's addresses there, with their network.
        outside_addresses: Vec<Cidr> = vec![], as "[\"192.0.2.1/24\"]";
        /// The interface towards members.
        inside: Option<String> = None, as "\"eth1\"";
        /// The addresses there that members have as gateway.
        inside_addresses: Vec<Cidr> = vec![], as "[\"10.0.0.1/24\"]";
        /// The number of the outside's group of balancers, which no other group on that link has.
        outside_router_id: u32 = 51, in 1..=255;
        /// Likewise inside.
        inside_router_id: u32 = 52, in 1..=255;
        /// Between two advertisements, milliseconds. The other balancer takes over after three and a bit.
        advertise_ms: u32 = 500, in 10..=40_000;
    }
}

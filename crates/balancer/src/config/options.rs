//! All options of the balancer: name, type, default, limits, documentation.

// The documentation is printed in the reference: its brackets are TOML.
#![allow(rustdoc::broken_intra_doc_links)]

use super::values::{Cidr, Ip, Weight};
use nw_api::config::Mode;
use nw_api::{item, section, string_enum};
use nw_name::Name;
use std::net::SocketAddr;
use std::path::PathBuf;

string_enum! {
    /// Where the balancer's program is attached.
    Attach {
        /// The first of the following that works.
        Auto = "auto",
        /// XDP in the driver, the fastest.
        Native = "native",
        /// Generic XDP in the network stack, for drivers without XDP.
        Generic = "generic",
        /// The traffic-control hook, where XDP is not available.
        TrafficControl = "tc",
    }
}

section! {
    /// The addresses of the cluster, and how the balancer is attached.
    Cluster = "cluster" {
        /// The name of the cluster in probe names, file names and metrics.
        name: String = "cluster".to_owned();
        /// The cluster's addresses: one of IPv4, one of IPv6, or both. This machine must have them,
        /// except for two balancers behind keepalived.
        addresses: Vec<Ip> = vec![], as "[\"192.0.2.1\", \"2001:db8::1\"]";
        /// The UDP port that clients use.
        port: u32 = 6363, in 1..=65_535;
        /// Network interfaces of this machine towards clients and members.
        interfaces: Vec<String> = vec![], as "[\"eth0\", \"eth1\"]";
        /// Where the program is attached. auto: the fastest that works, which is logged; with a
        /// bridge among the interfaces tc, before Linux 6.6 generic.
        attach: Attach = Attach::Auto;
        /// The member that receives commands (/localhop/nfd) and whose routes are replicated to the
        /// others. While it fails, another member takes its place.
        control_member: Option<String> = None, as "\"m1\"";
        /// A text from which the key of the name hash is derived. Two balancers of one cluster need
        /// the same, here or in key_file.
        secret: Option<String> = None, as "\"a long text that can not be guessed\"";
        /// A file with the key, created at the first start. Default, without secret:
        /// <state_dir>/<name>.key.
        key_file: Option<PathBuf> = None, as "\"/etc/namewire/cluster.key\"";
        /// A directory for what must survive a restart: the key, members added by commands.
        state_dir: PathBuf = PathBuf::from("/var/lib/namewire/balancer"), was "folder";
        /// A directory in a bpf file system (bpffs), where the kernel's program and maps survive
        /// the process.
        bpffs_dir: PathBuf = PathBuf::from("/sys/fs/bpf/namewire"), was "pin";
        /// Change the system settings that a gateway needs (net.ipv4.ip_forward, accept_local, …),
        /// log the changes, and restore them at a clean end.
        system_settings: bool = true;
        /// The interface towards clients, for faces over Ethernet (EtherType 0x8624).
        ethernet_outside: Option<String> = None, as "\"eth0\"";
        /// The interface towards members, for faces over Ethernet.
        ethernet_inside: Option<String> = None, as "\"eth1\"";
    }
}

item! {
    /// A member: a router of the cluster.
    MemberItem = "member" {
        /// The member's name. Which names fall to it depends on it, so a router should keep its
        /// name.
        name: String, as "\"m1\"";
        /// The member's own addresses: one of each family that the cluster has.
        addresses: Vec<Ip>, as "[\"10.0.0.11\"]";
        /// The member's own UDP port, different from the cluster's and all other members'. Its
        /// router must listen there.
        port: u32, in 1..=65_535, as "6401";
        /// The member's share of names in relation to the others: a number, or "measured" for the
        /// rate measured when it joins.
        weight: Weight = Weight::Fixed(100);
        /// The unix socket of its router on this machine. Without it, run nw balancer agent beside
        /// its router.
        control: Option<PathBuf> = None, as "\"/run/nfd/m1.sock\"";
        /// The member gets its routes from elsewhere: those of the control member are not
        /// replicated to it, and it joins without them.
        external_routes: bool = false, was "own_routes";
    }
}

item! {
    /// How names under a prefix are distributed. The longest matching prefix decides.
    RuleItem = "rule" {
        /// The prefix.
        prefix: Name, as "\"/example/video\"";
        /// Only this many components choose the member, so that names with the same first
        /// components reach the same member.
        depth: Option<u32> = None, in 1..=16, as "3";
        /// Send all to the control member.
        control: bool = false;
    }
}

section! {
    /// Health checks: a member takes names only while probes return through it.
    Health = "health" {
        /// Send probes at all.
        enabled: bool = true;
        /// Time between two probes of a member, milliseconds.
        interval_ms: u32 = 500, in 50..=60_000;
        /// A probe without an answer within this time is lost, milliseconds.
        timeout_ms: u32 = 1000, in 10..=60_000;
        /// A probe that is answered later than this counts as lost, milliseconds. 0: no limit but
        /// timeout_ms.
        slow_ms: u32 = 0, in 0..=60_000;
        /// A member has failed after this many lost probes in a row.
        failures: u32 = 3, in 1..=100;
        /// A member is healthy after this many answered probes in a row.
        successes: u32 = 3, in 1..=100;
    }
}

section! {
    /// How a member leaves: it gets no new names, and is gone when no Interest is pending.
    Drain = "drain" {
        /// The member is gone after this time in any case, seconds.
        limit_s: u32 = 20, in 0..=86_400;
        /// For members without an agent: the member is gone after this time without a packet,
        /// milliseconds.
        idle_ms: u32 = 5000, in 100..=600_000, was "quiet_ms";
    }
}

section! {
    /// Replication of the control member's routes, faces and strategies to the other members.
    Routes = "routes" {
        /// Replicate them at all.
        replicate: bool = true;
        /// Time between two polls of the control member's routes, milliseconds. After a poll that
        /// read a long list, four times the duration of the poll if that is longer.
        interval_ms: u32 = 250, in 50..=60_000;
        /// If the control member does not appear after the start within this time, another member
        /// takes its place, seconds.
        failover_timeout_s: u32 = 30, in 0..=3600, was "patience_s"; // (retired word)
        /// Maximum number of replicated routes. Further ones are counted as skipped.
        routes_max: u32 = 1_000_000, in 1..=10_000_000;
    }
}

section! {
    /// How weights are measured (weight = "measured").
    Measure = "measure" {
        /// Duration of a measurement, milliseconds. One member is measured at a time, before it
        /// takes names.
        duration_ms: u32 = 1000, in 100..=60_000;
        /// Maximum number of outstanding Interests.
        window: u32 = 64, in 1..=1024;
        /// Content length of each Data, bytes.
        content_len: u32 = 1000, in 0..=8000;
    }
}

string_enum! {
    /// How members are started.
    LauncherKind {
        /// As a process of this machine.
        Process = "process",
        /// As a pod of a StatefulSet, whose replicas are counted up and down.
        Kubernetes = "kubernetes",
    }
}

section! {
    /// Autoscaling: members are added and removed by load.
    Elastic = "elastic" {
        /// Add and remove members at all.
        enabled: bool = false;
        /// How members are started. process: as processes of this machine. kubernetes: as pods of
        /// stateful_set, by a program with the cargo feature kubernetes.
        engine: LauncherKind = LauncherKind::Process;
        /// The StatefulSet whose pods are members, with their names: NAME or NAMESPACE/NAME;
        /// without a namespace, in the balancer's own. For engine = "kubernetes".
        stateful_set: Option<String> = None, as "\"namewire/nw-member\"";
        /// For engine = "kubernetes": decisions go on with a warning when pods have not joined or
        /// left within this time, seconds.
        pod_timeout_s: u32 = 120, in 1..=3600;
        /// Minimum number of members that take names, including those of the file.
        members_min: u32 = 1, in 1..=63;
        /// Maximum number of members that take names.
        members_max: u32 = 4, in 1..=63;
        /// Interests per second that a member of weight 100 can forward.
        capacity_per_s: u32 = 50_000, in 1..=100_000_000;
        /// A member is added while the load is above this percentage of the capacity.
        high_percent: u32 = 80, in 1..=1000;
        /// A member is removed while the load is below this percentage of the capacity that would
        /// remain. Must be below high_percent.
        low_percent: u32 = 50, in 0..=1000;
        /// The load must be that high or low for this time, seconds.
        hold_s: u32 = 5, in 0..=3600;
        /// Time after a change without further changes, seconds.
        cool_down_s: u32 = 20, in 0..=86_400;
        /// Addresses for started processes, one for each. {number} in prefix and names counts them
        /// from 1.
        addresses: Vec<Ip> = vec![], as "[\"10.0.0.21\", \"10.0.0.22\"]";
        /// The UDP port of the first started member; the others get the following ports.
        port_first: u32 = 6500, in 1..=65_000;
        /// Words before the command, for example to enter a network namespace.
        prefix: Vec<String> = vec![], as "[\"ip\", \"netns\", \"exec\", \"m{number}\"]";
        /// A TOML file with additional configuration for started routers. The launcher sets their
        /// sockets.
        router_config: Option<PathBuf> = None, as "\"/etc/namewire/member.toml\"";
    }
}

section! {
    /// The control socket: commands, status and metrics over HTTP.
    ControlSection = "control" {
        /// The path of the socket.
        path: PathBuf = PathBuf::from("/run/namewire/balancer.sock");
        /// The file mode of the socket.
        mode: Mode = Mode(0o600);
        /// TCP addresses for monitoring: `/metrics` for Prometheus, `/healthz`, `/readyz`. No token
        /// is needed.
        metrics_listen: Vec<SocketAddr> = vec![], as "[\"127.0.0.1:6382\"]";
        /// TCP addresses for commands. Requests need the token of `token_file`; without one, only
        /// the paths of `metrics_listen` are served. There is no TLS: use addresses in the
        /// cluster's own network.
        listen: Vec<SocketAddr> = vec![], as "[\"10.0.0.1:6380\"]";
        /// A TCP address for agents of members on other machines. They use TLS 1.3 and
        /// certificates; `nw balancer host add` makes a token with which one enrols.
        agents_listen: Option<SocketAddr> = None, as "\"10.0.0.1:6383\"";
        /// A group of members that are replaced at any time, such as pods. With the token of
        /// `group_token_file` their agents enrol, as often as needed, under names that are the
        /// group's, `-`, and more. The token allows nothing else.
        group: Option<String> = None, as "\"nw-member\"";
        /// A file with the token of `group`: at least 24 random characters, the same on both sides.
        /// It is read again at each enrolment, so it can be replaced.
        group_token_file: Option<PathBuf> = None, as "\"/etc/namewire/group-token\"";
        /// Maximum number of agents of `group` at a time. The name of one that has ended counts for
        /// an hour.
        group_members_max: u32 = 100, in 1..=1000;
        /// Allow addresses in `listen` and `metrics_listen` that other machines can reach; `listen`
        /// then needs `token_file`.
        allow_remote: bool = false;
        /// A file with a secret that requests to `listen` carry as `Authorization: Bearer …`.
        token_file: Option<PathBuf> = None, as "\"/etc/namewire/token\"";
        /// Maximum number of connections. More wait until one is closed.
        connections: u32 = 64, in 2..=1024;
    }
}

section! {
    /// Two balancers, of which one has the addresses. `nw balancer vrrp` writes the file for
    /// keepalived.
    Vrrp = "vrrp" {
        /// The interface towards clients.
        outside: Option<String> = None, as "\"eth0\"";
        /// The cluster's addresses on that interface, with prefix length.
        outside_addresses: Vec<Cidr> = vec![], as "[\"192.0.2.1/24\"]";
        /// The interface towards members.
        inside: Option<String> = None, as "\"eth1\"";
        /// The addresses on that interface that members use as gateway, with prefix length.
        inside_addresses: Vec<Cidr> = vec![], as "[\"10.0.0.1/24\"]";
        /// The virtual router id of the outside group, unique on that link.
        outside_router_id: u32 = 51, in 1..=255;
        /// The virtual router id of the inside group, unique on that link.
        inside_router_id: u32 = 52, in 1..=255;
        /// Time between two advertisements, milliseconds. The other balancer takes over after a
        /// little more than three of them.
        advertise_ms: u32 = 500, in 10..=40_000;
    }
}

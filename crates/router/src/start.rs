//! Start of a router: opens sockets, creates tables, starts the other shards, applies the
//! configuration.
//!
//! Memory is placed on the memory node of the thread that touches it first. So the first shard's
//! tables and AF_XDP buffers are created while this thread runs on the first shard's node, and the
//! other shards' threads are started while it is not bound.

use crate::StartError;
use crate::authority::{Authority, advertiser_signer};
use crate::environment::{HostEnvironment, environment};
use crate::handle::{Handle, HostRequest};
use crate::host::{CHUNKS_MAX, Host, PACKETS_MAX, SHARD_WAKE_TOKEN, WAKE_TOKEN, unix_path};
use crate::placement::{Machine, Placement};
use crate::plane::Plane;
use crate::resolver::{Resolver, addresses};
use crate::settings::{self, ShardShare};
use crate::shards::ShardPool;
use crate::shortage_log::ShortageLog;
use crate::wall_clock::WallClock;
use crate::xdp::KernelSteering;
use nw_api::config::Config;
use nw_api::rest::EventLoopStats;
use nw_control::{Control, ControlConfig, DesiredConfig, OperationId};
use nw_element_api::{FaceId, FaceTable, Packet, Pool, Shortages, Timestamp};
use nw_faces::{ActivatedUnixSocket, FaceEvent, Faces};
use nw_name::HashKey;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;
use std::time;

/// Requests that may be queued for the event loop.
const REQUESTS_MAX: usize = 64;

/// Random numbers of a router: the secret of its keyed hash, and the seed of its nonces.
type Secrets = (HashKey, u64);

/// The parts of a [`Host`] that exist before its [`Control`].
struct HostParts {
    faces: Faces,
    face_table: FaceTable,
    plane: Plane,
    pool: Pool,
    shard_pool: Option<ShardPool>,
    resolver: Resolver,
    wall: WallClock,
    batch: Vec<Packet>,
    out: Vec<Packet>,
    closed_faces: Vec<FaceEvent>,
    pending_face_events: Vec<FaceEvent>,
    pending_connects: Vec<(FaceId, OperationId)>,
    packets: u64,
    loop_time: EventLoopStats,
}

impl Host {
    /// Starts a router: opens every listener of a configuration, and applies its faces, routes and
    /// strategies.
    ///
    /// # Errors
    /// If a listener can't be opened, a key file can't be read, the tables don't fit, or the system
    /// refuses a resource. The text says what helps.
    pub fn new(config: Config) -> Result<Self, StartError> {
        Host::with_inherited(config, None)
    }

    /// Starts a router as [`new`](Self::new) does, with an inherited Unix socket, already
    /// listening, in place of the configured one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_inherited(
        mut config: Config,
        inherited: Option<ActivatedUnixSocket>,
    ) -> Result<Self, StartError> {
        settings::address_space_fits(&config).map_err(StartError::Tables)?;
        raise_descriptor_limit();
        nw_faces::disable_fastbins();
        let (epoll, wake) = open_epoll()?;
        let secrets = random_secrets().map_err(refused("random bytes"))?;
        let wall = WallClock::start();
        let authority = Authority::new(&config, wall.unix_ms())?;
        let started = time::Instant::now();
        if config.forwarder.shards == 0 {
            config.forwarder.shards = Machine::detect().shards() as u32;
        }
        let placement = Placement::of(&config.forwarder);
        let (sender, requests) = crossbeam_channel::bounded(REQUESTS_MAX);
        let handle = Handle { sender, wake: Arc::clone(&wake) };
        let resolver = resolver_for(&handle);
        let mut parts =
            HostParts::open(&config, inherited, &epoll, secrets, wall, resolver, &placement)?;
        parts.start_shards(&config, &epoll, secrets, started, &placement)?;
        let _guard = placement.on_first_node();
        let (control, config) = parts.create_control(config, secrets.1)?;
        if config.tables.lock {
            let locked = rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT);
            locked.map_err(|errno| StartError::Lock { errno })?;
        }
        Ok(Host {
            handle,
            epoll,
            wake,
            requests,
            started,
            config,
            control,
            authority,
            faces: parts.faces,
            face_table: parts.face_table,
            plane: parts.plane,
            pool: parts.pool,
            shard_pool: parts.shard_pool,
            resolver: parts.resolver,
            wall: parts.wall,
            batch: parts.batch,
            out: parts.out,
            closed_faces: parts.closed_faces,
            pending_face_events: parts.pending_face_events,
            pending_connects: parts.pending_connects,
            packets: parts.packets,
            loop_time: parts.loop_time,
            local_batch: Vec::new(),
            has_backlog: false,
            deferred_queries: Vec::new(),
            observer: None,
            tracer: None,
            trace_id: 0,
            shortage_log: ShortageLog::default(),
            query_shortages: Shortages::default(),
        })
    }
}

impl HostParts {
    /// Creates the first shard's tables and faces, and opens the listeners.
    fn open(
        config: &Config,
        inherited: Option<ActivatedUnixSocket>,
        epoll: &OwnedFd,
        (key, seed): Secrets,
        wall: WallClock,
        resolver: Resolver,
        placement: &Placement,
    ) -> Result<Self, StartError> {
        let now = Timestamp::START;
        let share = ShardShare { shard: 0, shards: config.forwarder.shards as usize };
        // AF_XDP buffers are touched first by the thread that registers them.
        let _guard = placement.on_first_node();
        let mut faces = Faces::new(settings::faces(config, share), epoll.as_fd())?;
        let plane = settings::plane(config, key, seed, share);
        let mut pool = Pool::new(key, CHUNKS_MAX, PACKETS_MAX);
        faces.open_internal(now);
        faces.open_null(now);
        listen(config, inherited, &mut faces)?;
        faces.set_interface_policy(now, settings::interfaces(config), &mut pool)?;
        let steering = KernelSteering { key, shards: share.shards as u8 };
        faces.set_xdp(now, settings::xdp(config), Box::new(steering))?;
        Ok(HostParts {
            faces,
            face_table: FaceTable::new(),
            plane,
            pool,
            shard_pool: None,
            resolver,
            wall,
            batch: Vec::new(),
            out: Vec::new(),
            closed_faces: Vec::new(),
            pending_face_events: Vec::new(),
            pending_connects: Vec::new(),
            packets: 0,
            loop_time: EventLoopStats::default(),
        })
    }

    /// Starts the other shards, if the configuration has any, and watches the first shard's waker.
    fn start_shards(
        &mut self,
        config: &Config,
        epoll: &OwnedFd,
        secrets: Secrets,
        started: time::Instant,
        placement: &Placement,
    ) -> Result<(), StartError> {
        if config.forwarder.shards == 1 {
            return Ok(());
        }
        let shard_pool = ShardPool::start(config, secrets, started, &self.faces, placement)?;
        let waker = shard_pool.links().waker().as_fd();
        epoll::add(
            epoll,
            waker,
            epoll::EventData::new_u64(SHARD_WAKE_TOKEN),
            epoll::EventFlags::IN,
        )
        .map_err(refused("to watch a descriptor"))?;
        self.shard_pool = Some(shard_pool);
        Ok(())
    }

    /// Creates control and applies the whole configuration in every shard. Returns control and the
    /// options that it does not keep itself.
    fn create_control(
        &mut self,
        config: Config,
        seed: u64,
    ) -> Result<(Control, Config), StartError> {
        let now = Timestamp::START;
        environment!(self, now).absorb_face_events();
        let control_config = ControlConfig {
            version: concat!("namewire ", env!("CARGO_PKG_VERSION")).to_owned(),
            seed,
            next_hops_max: config.tables.next_hops_per_prefix as usize,
            routes_max: config.tables.routes as usize,
        };
        let mut control = Control::new(control_config, &mut environment!(self, now))
            .map_err(|refusal| StartError::Tables(refusal.text))?;
        let signer = advertiser_signer(&config)?;
        let desired = DesiredConfig::new(config, &addresses).signed_by(signer);
        let settings = desired.settings.clone();
        control.apply_config(desired, &mut environment!(self, now));
        while control.has_work() {
            control.work(now, &mut environment!(self, now));
        }
        if let Some(shard_pool) = &mut self.shard_pool {
            shard_pool.wait_applied(now, &mut self.faces, &self.face_table, &mut self.pool);
        }
        Ok((control, settings))
    }
}

/// Returns a function that describes a refusal of the operating system.
fn refused(request: &'static str) -> impl Fn(Errno) -> StartError {
    move |errno| StartError::System { request, errno }
}

/// Opens the epoll descriptor, and the event descriptor by which a [`Handle`] wakes the loop.
fn open_epoll() -> Result<(OwnedFd, Arc<OwnedFd>), StartError> {
    let epoll =
        epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused("an epoll descriptor"))?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(refused("an event descriptor"))?;
    epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE_TOKEN), epoll::EventFlags::IN)
        .map_err(refused("to watch a descriptor"))?;
    Ok((epoll, Arc::new(wake)))
}

/// Creates a resolver that reports to the event loop behind `handle`.
fn resolver_for(handle: &Handle) -> Resolver {
    let handle = handle.clone();
    Resolver::new(move |resolved| handle.send(HostRequest::Resolved(resolved)))
}

/// Raises the soft limit of open files to the hard limit: each face needs a descriptor, and the
/// usual soft limit of 1024 is too low.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%errno, "can't raise the limit of open files; faces may be refused");
    }
}

fn random_secrets() -> Result<Secrets, Errno> {
    let mut bytes = [0; 40];
    getrandom::fill(&mut bytes).map_err(|_| Errno::IO)?;
    let word = |index: usize| u64::from_ne_bytes(core::array::from_fn(|i| bytes[8 * index + i]));
    Ok((HashKey::new([word(0), word(1), word(2), word(3)]), word(4)))
}

fn listen(
    config: &Config,
    inherited: Option<ActivatedUnixSocket>,
    faces: &mut Faces,
) -> Result<(), StartError> {
    if let Some(inherited) = inherited {
        faces.adopt_unix(inherited)?;
    } else if config.unix.enabled {
        faces.listen_unix(&unix_path(config), config.unix.mode.0)?;
    }
    for address in &config.tcp.listen {
        faces.listen_tcp(*address)?;
    }
    for address in &config.udp.listen {
        faces.listen_udp(*address)?;
    }
    for address in &config.websocket.listen {
        faces.listen_websocket(*address)?;
    }
    Ok(())
}

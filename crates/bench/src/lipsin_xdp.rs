//! The XDP program for publications, between pairs of interfaces (veth) in a namespace of its own.
//!
//! Frames of 1,400 bytes from memory pass through the program as if received, are redirected, and
//! are received and dropped by a program at the far end. All of this is processor time of the
//! calling thread; the reception of the frames at this node, which the driver does, is not in it.

use crate::netns::Netns;
use crate::veth::path::within;
use anyhow::{Context, Result, ensure};
use nw_faces::interfaces::Interfaces;
use nw_kernel::{
    LIPSIN_TABLES, LipsinCounters, LipsinLink, LipsinLinks, LipsinProgram, NO_LINK_ID, XdpMode,
};
use nw_pubsub::filter::{FILL_BITS_MAX, LinkScheme};
use nw_wire::publication::{ETHER_TYPE, EnvelopeBuilder, Fid};
use std::time::Duration;

/// Links of the node, of which the packet leaves by one, as in `lipsin/memory`.
const LINKS: u32 = 16;
const PACKET_LEN: usize = 1400;
/// Frames of one call: each of its 64 buffers is used fewer than 255 times, the first hop limit.
const FRAMES_PER_CALL: u32 = 8192;
const CALLS: u32 = 100;
/// Address of the neighbours on the way in, and of this node there. On the way out they are
/// exchanged, so that a frame that was forwarded can be forwarded again.
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OWN: [u8; 6] = [2, 0, 0, 0, 0, 2];
const INTERNAL: u32 = 1;
const OUTGOING: u32 = 100;

/// Returns processor time per frame, microseconds, and the frames that did not arrive, of each run.
///
/// # Errors
/// If the namespace or the program can't be made, or frames are treated otherwise than expected.
pub fn measure(runs: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let space = Netns::new()?;
    for (near, far) in [("in0", "in1"), ("out0", "out1")] {
        space.ip(&["link", "add", near, "type", "veth", "peer", "name", far])?;
        for name in [near, far] {
            space.ip(&["link", "set", name, "up"])?;
        }
    }
    within(space.name(), move || run_all(runs))
}

fn run_all(runs: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let table = Interfaces::watch()?;
    let index = |name: &str| table.named(name).map(|found| found.index).context("an interface");
    let (ingress, egress, far_end) = (index("in0")?, index("out0")?, index("out1")?);
    let mut near = LipsinProgram::load()?;
    near.attach((ingress, "in0"), Some(XdpMode::Native))?;
    near.attach((egress, "out0"), Some(XdpMode::Native))?;
    let mut links = vec![link(ingress, (OWN, STATION), None)];
    links.push(link(egress, (STATION, OWN), Some(OUTGOING)));
    links.extend((2..LINKS).map(|at| link(egress, (STATION, [at as u8; 6]), Some(OUTGOING + at))));
    near.set_links(&node(links, FILL_BITS_MAX))?;
    let mut far = LipsinProgram::load()?;
    far.attach((far_end, "out1"), Some(XdpMode::Native))?;
    // No identifier is below this limit, so all are dropped and counted.
    far.set_links(&node(vec![link(far_end, (OWN, STATION), None)], 0))?;
    let frame = frame()?;
    near.run_live(&frame, ingress, FRAMES_PER_CALL)?;
    let (mut cpu_us, mut lost) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let (before, arrived) = (near.counters()?, far.counters()?.of("fill_limit"));
        let started = thread_cpu()?;
        for _ in 0..CALLS {
            near.run_live(&frame, ingress, FRAMES_PER_CALL)?;
        }
        let used = thread_cpu()?.saturating_sub(started);
        let frames = CALLS * FRAMES_PER_CALL;
        check(&before, &near.counters()?, frames)?;
        // What the far end has not taken yet, it takes now.
        std::thread::sleep(Duration::from_millis(50));
        let arrived = far.counters()?.of("fill_limit") - arrived;
        cpu_us.push(used.as_secs_f64() * 1e6 / f64::from(frames));
        lost.push(f64::from(frames) - arrived as f64);
    }
    Ok((cpu_us, lost))
}

fn ids(number: u32) -> [Fid; LIPSIN_TABLES] {
    core::array::from_fn(|table| {
        LinkScheme::default().link_id(number, table as u8).unwrap_or(NO_LINK_ID)
    })
}

fn link(interface: u32, (own, station): ([u8; 6], [u8; 6]), number: Option<u32>) -> LipsinLink {
    let outgoing = number.map_or([NO_LINK_ID; LIPSIN_TABLES], ids);
    LipsinLink { interface, own, station, outgoing }
}

fn node(links: Vec<LipsinLink>, fill_bits_max: u32) -> LipsinLinks {
    LipsinLinks { internal: ids(INTERNAL), links, fill_bits_max, last_hop: 1 }
}

fn frame() -> Result<Vec<u8>> {
    let (payload, fid) = (vec![7; PACKET_LEN - 44], ids(OUTGOING)[0]);
    let builder =
        EnvelopeBuilder { hop_limit: 255, fid, payload: &payload, ..EnvelopeBuilder::default() };
    let mut frame = [&OWN[..], &STATION, &ETHER_TYPE.to_be_bytes()].concat();
    builder.encode(&mut frame).context("a packet")?;
    ensure!(frame.len() == 14 + PACKET_LEN, "{} bytes", frame.len());
    Ok(frame)
}

/// Checks that all frames were forwarded by the one link.
fn check(before: &LipsinCounters, after: &LipsinCounters, frames: u32) -> Result<()> {
    let forwarded = after.of("forwarded") - before.of("forwarded");
    ensure!(forwarded == u64::from(frames), "{forwarded} of {frames} frames: {after:?}");
    Ok(())
}

fn thread_cpu() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = stat.split(' ').next().and_then(|n| n.parse().ok());
    nanoseconds.map(Duration::from_nanos).context("/proc/thread-self/schedstat has no time")
}

//! Both ends of a path that the balancer is measured on, and what it is measured against there.

use super::options::Hop;
use super::statistics::RunTime;
use crate::error::{Cause, KernelError};
use crate::object::verified;
use aya::maps::{MapError, PerCpuArray, PerCpuValues};
use aya::programs::xdp::XdpMode as Flags;
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfLoader};

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/figures.o"));
/// `struct target` of `bpf/figures.bpf.c`.
const WORDS: usize = 9;
const HEADS: usize = 44;

/// One of the programs.
#[derive(Debug)]
struct Figure {
    ebpf: Ebpf,
    name: &'static str,
}

impl Figure {
    fn load(name: &'static str, words: [u64; WORDS]) -> Result<Figure, KernelError> {
        let load = || -> Result<Figure, Cause> {
            let mut ebpf = EbpfLoader::new().btf(None).load(CODE)?;
            let map = ebpf.map_mut("target").ok_or(MapError::ElementNotFound)?;
            let mut map: PerCpuArray<_, [u64; WORDS]> = map.try_into()?;
            let cpus = nr_cpus().map_err(|(_, e)| e)?;
            map.set(0, PerCpuValues::try_from(vec![words; cpus])?, 0)?;
            let mut figure = Figure { ebpf, name };
            let program = figure.xdp()?;
            verified(|| program.load())?;
            Ok(figure)
        };
        load().map_err(|e| KernelError::of("a program for figures", e))
    }

    fn attach(&mut self, interface_index: u32) -> Result<(), KernelError> {
        let attach = |figure: &mut Figure| -> Result<(), Cause> {
            // The link goes with the program, and that with this value.
            figure.xdp()?.attach_to_if_index(interface_index, Flags::Driver)?;
            Ok(())
        };
        attach(self).map_err(|e| KernelError::of("attaching a program for figures", e))
    }

    fn frames(&self) -> Result<u64, KernelError> {
        let read = || -> Result<u64, Cause> {
            let map = self.ebpf.map("target").ok_or(MapError::ElementNotFound)?;
            let map: PerCpuArray<_, [u64; WORDS]> = map.try_into()?;
            Ok(map.get(&0, 0)?.iter().map(|words| words[2]).sum())
        };
        read().map_err(|e| KernelError::of("reading what a program for figures counted", e))
    }

    fn xdp(&mut self) -> Result<&mut Xdp, Cause> {
        Ok(self.ebpf.program_mut(self.name).ok_or(ProgramError::NotLoaded)?.try_into()?)
    }
}

/// Swaps the addresses and ports of each UDP datagram over IPv4 and sends it by one next hop: the least that a program that forwards can do.
#[derive(Debug)]
pub struct Swap(Figure);

impl Swap {
    /// Loads the program; frames will leave by `hop`.
    ///
    /// # Errors
    /// As [`Balancer::load`](super::Balancer::load).
    pub fn load(hop: &Hop) -> Result<Swap, KernelError> {
        Figure::load("nw_swap", words(&[&hop.mac, &hop.own_mac, &hop.interface_index.to_ne_bytes()]))
            .map(Swap)
    }

    /// Attaches to an interface, natively, until this value is dropped.
    ///
    /// # Errors
    /// When the driver can't, or another program is there.
    pub fn attach(&mut self, interface_index: u32) -> Result<(), KernelError> {
        self.0.attach(interface_index)
    }

    /// Frames that were swapped and sent.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn frames(&self) -> Result<u64, KernelError> {
        self.0.frames()
    }

    /// How often it ran, and how long, while [`Statistics`](super::Statistics) were kept.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn run_time(&mut self) -> Result<RunTime, KernelError> {
        self.0
            .xdp()
            .and_then(|program| RunTime::of(program))
            .map_err(|e| KernelError::of("reading a program's statistics", e))
    }

    /// The program itself, for test runs.
    #[doc(hidden)]
    pub fn program(&mut self) -> Result<&mut Xdp, KernelError> {
        self.0.xdp().map_err(|e| KernelError::of("a program for figures", e))
    }
}

/// Sends one frame again and again, millions in a second, as if a driver had received them.
#[derive(Debug)]
pub struct Source {
    figure: Figure,
    frame: Vec<u8>,
}

impl Source {
    /// Of a frame with UDP over IPv4 and without a tag, out of this interface. Its first 44 octets are written anew each time; what changes others
    /// on its way changes those sent later.
    ///
    /// # Errors
    /// As [`Balancer::load`](super::Balancer::load).
    pub fn load(interface_index: u32, frame: &[u8]) -> Result<Source, KernelError> {
        let mut heads = [0; HEADS];
        let len = frame.len().min(HEADS);
        heads[..len].copy_from_slice(&frame[..len]);
        let words = words(&[&[0; 12], &interface_index.to_ne_bytes(), &[0; 8], &heads]);
        Ok(Source { figure: Figure::load("nw_source", words)?, frame: frame.to_vec() })
    }

    /// Sends so many, from this thread.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn send(&mut self, count: u32) -> Result<(), KernelError> {
        let frame = &self.frame;
        let send = |figure: &mut Figure| -> Result<(), Cause> {
            let attrs = TestRunAttrs::new().xdp_live_frames(64);
            figure.xdp()?.test_run(TestRunOptions {
                data_in: Some(frame),
                repeat: count,
                attrs,
                ..TestRunOptions::default()
            })?;
            Ok(())
        };
        send(&mut self.figure).map_err(|e| KernelError::of("sending frames for figures", e))
    }
}

/// Drops what comes by an interface, and counts it.
#[derive(Debug)]
pub struct Sink(Figure);

impl Sink {
    /// At this interface, natively, until this value is dropped.
    ///
    /// # Errors
    /// As [`Swap::attach`].
    pub fn attach(interface_index: u32) -> Result<Sink, KernelError> {
        let mut figure = Figure::load("nw_sink", [0; WORDS])?;
        figure.attach(interface_index)?;
        Ok(Sink(figure))
    }

    /// Frames that came.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn frames(&self) -> Result<u64, KernelError> {
        self.0.frames()
    }
}

/// `struct target` from its first octets; zeros behind them.
fn words(parts: &[&[u8]]) -> [u64; WORDS] {
    let octets = parts.concat();
    std::array::from_fn(|word| {
        u64::from_ne_bytes(std::array::from_fn(|i| octets.get(8 * word + i).copied().unwrap_or(0)))
    })
}

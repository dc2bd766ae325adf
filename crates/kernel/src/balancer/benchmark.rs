//! Programs for measuring the balancer: a source and a sink of frames, and a minimal forwarder to
//! compare with.

use super::options::Hop;
use super::statistics::RunTime;
use crate::error::{Cause, KernelError};
use crate::object::verified;
use aya::maps::{MapError, PerCpuArray, PerCpuValues};
use aya::programs::xdp::XdpMode as Flags;
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp};
use aya::util::nr_cpus;
use aya::{Ebpf, EbpfLoader};

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/benchmark.o"));
/// Length of `struct target` in `bpf/benchmark.bpf.c`, 8-byte words.
const WORDS: usize = 9;
/// Length of the headers that the source writes, bytes.
const HEADERS_LEN: usize = 44;

/// One of the programs, with its map.
#[derive(Debug)]
struct BenchmarkProgram {
    ebpf: Ebpf,
    name: &'static str,
}

impl BenchmarkProgram {
    fn load(name: &'static str, words: [u64; WORDS]) -> Result<BenchmarkProgram, KernelError> {
        let load = || -> Result<BenchmarkProgram, Cause> {
            let mut ebpf = EbpfLoader::new().btf(None).load(CODE)?;
            let map = ebpf.map_mut("target").ok_or(MapError::ElementNotFound)?;
            let mut map: PerCpuArray<_, [u64; WORDS]> = map.try_into()?;
            let cpus = nr_cpus().map_err(|(_, e)| e)?;
            map.set(0, PerCpuValues::try_from(vec![words; cpus])?, 0)?;
            let mut loaded = BenchmarkProgram { ebpf, name };
            let program = loaded.xdp()?;
            verified(|| program.load())?;
            Ok(loaded)
        };
        load().map_err(|e| KernelError::of("a measuring program", e))
    }

    fn attach(&mut self, interface_index: u32) -> Result<(), KernelError> {
        let attach = |program: &mut BenchmarkProgram| -> Result<(), Cause> {
            // The link is owned by the program, and the program by this value.
            program.xdp()?.attach_to_if_index(interface_index, Flags::Driver)?;
            Ok(())
        };
        attach(self).map_err(|e| KernelError::of("attaching a measuring program", e))
    }

    fn frames(&self) -> Result<u64, KernelError> {
        let read = || -> Result<u64, Cause> {
            let map = self.ebpf.map("target").ok_or(MapError::ElementNotFound)?;
            let map: PerCpuArray<_, [u64; WORDS]> = map.try_into()?;
            Ok(map.get(&0, 0)?.iter().map(|words| words[2]).sum())
        };
        read().map_err(|e| KernelError::of("reading the counters of a measuring program", e))
    }

    fn xdp(&mut self) -> Result<&mut Xdp, Cause> {
        Ok(self.ebpf.program_mut(self.name).ok_or(ProgramError::NotLoaded)?.try_into()?)
    }
}

/// Swaps the addresses and ports of UDP datagrams over IPv4 and sends them to one next hop: the
/// least work of any forwarding program.
#[derive(Debug)]
pub struct Swap(BenchmarkProgram);

impl Swap {
    /// Loads the program. Frames are sent to `hop`.
    ///
    /// # Errors
    /// The errors of [`Balancer::load`](super::Balancer::load).
    pub fn load(hop: &Hop) -> Result<Swap, KernelError> {
        BenchmarkProgram::load(
            "nw_swap",
            words(&[&hop.mac, &hop.own_mac, &hop.interface_index.to_ne_bytes()]),
        )
        .map(Swap)
    }

    /// Attaches to an interface, in the driver, until this value is dropped.
    ///
    /// # Errors
    /// The driver has no XDP, or another program is attached.
    pub fn attach(&mut self, interface_index: u32) -> Result<(), KernelError> {
        self.0.attach(interface_index)
    }

    /// Returns the number of frames swapped and sent.
    ///
    /// # Errors
    /// The counters can't be read.
    pub fn frames(&self) -> Result<u64, KernelError> {
        self.0.frames()
    }

    /// Returns the runs while [`Statistics`](super::Statistics) were enabled.
    ///
    /// # Errors
    /// The statistics can't be read.
    pub fn run_time(&mut self) -> Result<RunTime, KernelError> {
        self.0
            .xdp()
            .and_then(|program| RunTime::of(program))
            .map_err(|e| KernelError::of("reading a program's statistics", e))
    }

    /// Returns the program, for test runs.
    #[doc(hidden)]
    pub fn program(&mut self) -> Result<&mut Xdp, KernelError> {
        self.0.xdp().map_err(|e| KernelError::of("a measuring program", e))
    }
}

/// Sends one frame repeatedly, millions per second, as if a driver had received it.
#[derive(Debug)]
pub struct Source {
    program: BenchmarkProgram,
    frame: Vec<u8>,
}

impl Source {
    /// Creates a source of a frame with UDP over IPv4 and without a VLAN tag, towards this
    /// interface. The first 44 bytes are written anew each time; other bytes keep changes made on
    /// the way.
    ///
    /// # Errors
    /// The errors of [`Balancer::load`](super::Balancer::load).
    pub fn load(interface_index: u32, frame: &[u8]) -> Result<Source, KernelError> {
        let mut heads = [0; HEADERS_LEN];
        let len = frame.len().min(HEADERS_LEN);
        heads[..len].copy_from_slice(&frame[..len]);
        let words = words(&[&[0; 12], &interface_index.to_ne_bytes(), &[0; 8], &heads]);
        Ok(Source { program: BenchmarkProgram::load("nw_source", words)?, frame: frame.to_vec() })
    }

    /// Sends `count` frames from this thread.
    ///
    /// # Errors
    /// The kernel refuses the test run.
    pub fn send(&mut self, count: u32) -> Result<(), KernelError> {
        let frame = &self.frame;
        let send = |program: &mut BenchmarkProgram| -> Result<(), Cause> {
            let attrs = TestRunAttrs::new().xdp_live_frames(64);
            program.xdp()?.test_run(TestRunOptions {
                data_in: Some(frame),
                repeat: count,
                attrs,
                ..TestRunOptions::default()
            })?;
            Ok(())
        };
        send(&mut self.program).map_err(|e| KernelError::of("sending frames for a measurement", e))
    }
}

/// Counts and drops all frames that arrive at an interface.
#[derive(Debug)]
pub struct Sink(BenchmarkProgram);

impl Sink {
    /// Attaches to an interface, in the driver, until this value is dropped.
    ///
    /// # Errors
    /// The errors of [`Swap::attach`].
    pub fn attach(interface_index: u32) -> Result<Sink, KernelError> {
        let mut program = BenchmarkProgram::load("nw_sink", [0; WORDS])?;
        program.attach(interface_index)?;
        Ok(Sink(program))
    }

    /// Returns the number of frames that arrived.
    ///
    /// # Errors
    /// The counters can't be read.
    pub fn frames(&self) -> Result<u64, KernelError> {
        self.0.frames()
    }
}

/// Returns the words of `struct target` with these first bytes, padded with zeros.
fn words(parts: &[&[u8]]) -> [u64; WORDS] {
    let bytes = parts.concat();
    std::array::from_fn(|word| {
        u64::from_ne_bytes(std::array::from_fn(|i| bytes.get(8 * word + i).copied().unwrap_or(0)))
    })
}

//! Jobs that elements offload to other threads are completed, even if the graph changes meanwhile.

use nw_element_api::decode::decode;
use nw_element_api::{DropCause, FaceId, FaceInfo, LinkType, Packet, Pool, Scope, Timestamp};
use nw_graph::{ChangeMode, Engine, Graph, GraphFile, OffloadJob};
use nw_name::{HashKey, Name};
use nw_wire::{DigestSha256, InterestBuilder};

const KEY: HashKey = HashKey::new([5, 6, 7, 8]);
const SOUTH: FaceId = FaceId::from_slot(300, 0);
const NORTH: FaceId = FaceId::from_slot(301, 0);
const INFO: FaceInfo = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
const PACKETS: u64 = 100;

/// Signed Interests from the south leave to the north if valid; `queue_max` may wait for
/// verification.
fn graph(queue_max: u32) -> Graph {
    let text = format!(
        "face south = udp4://192.0.2.1:6363\nface north = udp4://192.0.2.2:6363\n\
         check = signature_verifier(digest = true, held = {queue_max})\ndiscard = sink\n\
         south -> check.packet\nnorth -> discard\ncheck.valid -> north\ncheck.invalid -> discard\n"
    );
    GraphFile::read("test", &text).unwrap_or_else(|problems| panic!("{problems}")).graph
}

struct TestBench {
    engine: Engine,
    pool: Pool,
    out: Vec<Packet>,
}

impl TestBench {
    fn new(queue_max: u32) -> Self {
        let mut engine =
            Engine::new(&graph(queue_max), KEY, 7).unwrap_or_else(|faults| panic!("{faults:?}"));
        engine.add_face(SOUTH, INFO, 0, false);
        engine.add_face(NORTH, INFO, 1, false);
        let (mut pool, mut out) = (Pool::new(KEY, 32, 512), Vec::new());
        engine.apply(Timestamp::START, &mut pool, &mut out).expect("good parameters");
        TestBench { engine, pool, out }
    }

    /// Receives [`PACKETS`] valid Interests.
    fn receive(&mut self) {
        let mut packets = Vec::new();
        for number in 0..PACKETS {
            let name = "/data".parse::<Name>().expect("a name").with_segment(number);
            let interest = InterestBuilder::new(name).nonce(1).encode_signed(&DigestSha256, &[]);
            let wire = interest.expect("signed");
            let packet = self.pool.copy_of(&wire).expect("a buffer");
            self.pool.meta_mut(&packet).ingress = SOUTH;
            decode(&mut self.pool, &packet).expect("a packet");
            packets.push(packet);
        }
        self.engine.process(Timestamp::START, &mut packets, &mut self.pool, &mut self.out);
    }

    fn take_all(&mut self) -> Vec<OffloadJob> {
        std::iter::from_fn(|| self.engine.take_task()).collect()
    }

    fn finish(&mut self, jobs: Vec<OffloadJob>) {
        for job in jobs {
            self.engine.complete_task(Timestamp::START, job, &mut self.pool, &mut self.out);
        }
    }

    fn change(&mut self, queue_max: u32, mode: ChangeMode) {
        let changed = self.engine.change(
            Timestamp::START,
            &graph(queue_max),
            mode,
            &mut self.pool,
            &mut self.out,
        );
        assert_eq!(changed.unwrap_or_else(|faults| panic!("{faults:?}")).removed_elements, 1);
    }

    /// Returns the packets that left, and those dropped with their element.
    fn end(mut self) -> (u64, u64) {
        let left = self.out.len() as u64;
        self.out.drain(..).for_each(|packet| self.pool.release(packet));
        (left, self.engine.drops().total(DropCause::Draining))
    }
}

/// Runs each job on its own thread and returns them in reverse order.
fn run(mut jobs: Vec<OffloadJob>) -> Vec<OffloadJob> {
    std::thread::scope(|scope| jobs.iter_mut().for_each(|job| _ = scope.spawn(|| job.run())));
    jobs.reverse();
    jobs
}

#[test]
fn job_finished_packet_leaves() {
    let mut bench = TestBench::new(PACKETS as u32);
    bench.receive();
    assert!(bench.out.is_empty() && !bench.engine.is_idle());
    let jobs = bench.take_all();
    assert!(jobs.len() > 1, "several threads can help");
    bench.finish(run(jobs));
    assert!(bench.engine.is_idle() && bench.engine.deadline().is_none());
    assert_eq!(bench.end(), (PACKETS, 0));
}

#[test]
fn job_of_removed_element_awaited_or_counted() {
    for (mode, expected) in
        [(ChangeMode::MakeBeforeBreak, (PACKETS, 0)), (ChangeMode::Drop, (0, PACKETS))]
    {
        let mut bench = TestBench::new(PACKETS as u32);
        bench.receive();
        let jobs = bench.take_all();
        bench.change(7, mode);
        bench.finish(run(jobs));
        bench.engine.tick(Timestamp::from_millis(10), &mut bench.pool, &mut bench.out);
        assert!(bench.engine.is_idle(), "{mode:?}");
        assert_eq!(bench.end(), expected, "{mode:?}");
    }
}

#[test]
fn job_without_threads_runs_on_timer() {
    let mut bench = TestBench::new(PACKETS as u32 / 2);
    bench.receive();
    while bench.engine.deadline().is_some() {
        bench.engine.tick(Timestamp::START, &mut bench.pool, &mut bench.out);
    }
    assert_eq!(bench.end(), (PACKETS, 0));
}

/// Threads panic, or finish after the element, the packets and the pool are gone.
#[test]
fn job_outliving_pool_reads_valid_memory() {
    let mut bench = TestBench::new(PACKETS as u32);
    bench.receive();
    let mut jobs = bench.take_all();
    let lost = jobs.pop().expect("several");
    let died = std::thread::spawn(move || {
        let _lost = lost;
        panic!("a thread that panics with a job");
    });
    assert!(died.join().is_err());
    bench.change(7, ChangeMode::Drop);
    bench.engine.tick(Timestamp::from_millis(10), &mut bench.pool, &mut bench.out);
    assert!(bench.engine.is_idle() && bench.pool.packets_in_use() == 0);
    // Leased buffers stay valid, and do not affect new packets.
    let chunks = bench.pool.chunks_in_use();
    bench.receive();
    assert!(bench.pool.chunks_in_use() >= chunks);
    let later = bench.take_all();
    bench.finish(run(later));
    assert_eq!(bench.end(), (PACKETS, PACKETS));
    drop(run(jobs));
}

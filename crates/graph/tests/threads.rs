//! Work that elements let other threads do: it comes back, whatever happens to the graph meanwhile.

use nw_element_api::decode::decode;
use nw_element_api::{Cause, FaceId, FaceInfo, Instant, LinkType, Packet, Pool, Scope};
use nw_graph::{ChangeOrder, Engine, Errand, Graph, GraphFile};
use nw_name::{HashKey, Name};
use nw_wire::{DigestSha256, InterestBuilder};

const KEY: HashKey = HashKey::new([5, 6, 7, 8]);
const SOUTH: FaceId = FaceId::from_slot(300, 0);
const NORTH: FaceId = FaceId::from_slot(301, 0);
const INFO: FaceInfo = FaceInfo { scope: Scope::NonLocal, link_type: LinkType::PointToPoint };
const PACKETS: u64 = 100;

/// Interests from the south leave to the north when they are good; so many may wait to be verified.
fn graph(held: u32) -> Graph {
    let text = format!(
        "face south = udp4://192.0.2.1:6363\nface north = udp4://192.0.2.2:6363\n\
         check = signature_verifier(digest = true, held = {held})\nnobody = sink\n\
         south -> check.packet\nnorth -> nobody\ncheck.valid -> north\ncheck.invalid -> nobody\n"
    );
    GraphFile::read("test", &text).unwrap_or_else(|problems| panic!("{problems}")).graph
}

struct Lab {
    engine: Engine,
    pool: Pool,
    out: Vec<Packet>,
}

impl Lab {
    fn new(held: u32) -> Self {
        let mut engine = Engine::new(&graph(held), KEY, 7).unwrap_or_else(|faults| panic!("{faults:?}"));
        engine.add_face(SOUTH, INFO, 0, false);
        engine.add_face(NORTH, INFO, 1, false);
        let (mut pool, mut out) = (Pool::new(KEY, 32, 512), Vec::new());
        engine.apply(Instant::START, &mut pool, &mut out).expect("good parameters");
        Lab { engine, pool, out }
    }

    /// Good ones.
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
        self.engine.process(Instant::START, &mut packets, &mut self.pool, &mut self.out);
    }

    fn take_all(&mut self) -> Vec<Errand> {
        std::iter::from_fn(|| self.engine.take_work()).collect()
    }

    fn finish(&mut self, errands: Vec<Errand>) {
        for errand in errands {
            self.engine.finish_work(Instant::START, errand, &mut self.pool, &mut self.out);
        }
    }

    fn change(&mut self, held: u32, order: ChangeOrder) {
        let changed = self.engine.change(Instant::START, &graph(held), order, &mut self.pool, &mut self.out);
        assert_eq!(changed.unwrap_or_else(|faults| panic!("{faults:?}")).removed, 1);
    }

    /// What left, and what was dropped because its element went.
    fn end(mut self) -> (u64, u64) {
        let left = self.out.len() as u64;
        self.out.drain(..).for_each(|packet| self.pool.release(packet));
        (left, self.engine.drops().total(Cause::Draining))
    }
}

/// Each on a thread of its own; they come back in another order.
fn run(mut errands: Vec<Errand>) -> Vec<Errand> {
    std::thread::scope(|scope| errands.iter_mut().for_each(|errand| _ = scope.spawn(|| errand.run())));
    errands.reverse();
    errands
}

#[test]
fn what_other_threads_verify_leaves_when_it_is_back() {
    let mut lab = Lab::new(PACKETS as u32);
    lab.receive();
    assert!(lab.out.is_empty() && !lab.engine.is_idle());
    let errands = lab.take_all();
    assert!(errands.len() > 1, "several threads can help");
    lab.finish(run(errands));
    assert!(lab.engine.is_idle() && lab.engine.deadline().is_none());
    assert_eq!(lab.end(), (PACKETS, 0));
}

#[test]
fn what_is_out_when_its_element_goes_is_awaited_or_counted() {
    for (order, expected) in [(ChangeOrder::MakeBeforeBreak, (PACKETS, 0)), (ChangeOrder::Drop, (0, PACKETS))]
    {
        let mut lab = Lab::new(PACKETS as u32);
        lab.receive();
        let errands = lab.take_all();
        lab.change(7, order);
        lab.finish(run(errands));
        lab.engine.tick(Instant::from_millis(10), &mut lab.pool, &mut lab.out);
        assert!(lab.engine.is_idle(), "{order:?}");
        assert_eq!(lab.end(), expected, "{order:?}");
    }
}

#[test]
fn who_has_no_threads_verifies_all_the_same() {
    let mut lab = Lab::new(PACKETS as u32 / 2);
    lab.receive();
    while lab.engine.deadline().is_some() {
        lab.engine.tick(Instant::START, &mut lab.pool, &mut lab.out);
    }
    assert_eq!(lab.end(), (PACKETS, 0));
}

/// Threads die, and come back too late: after the element, the packets and the pool have gone.
#[test]
fn threads_that_outlive_all_else_read_what_they_were_lent() {
    let mut lab = Lab::new(PACKETS as u32);
    lab.receive();
    let mut errands = lab.take_all();
    let lost = errands.pop().expect("several");
    let died = std::thread::spawn(move || {
        let _lost = lost;
        panic!("a thread that dies with an errand");
    });
    assert!(died.join().is_err());
    lab.change(7, ChangeOrder::Drop);
    lab.engine.tick(Instant::from_millis(10), &mut lab.pool, &mut lab.out);
    assert!(lab.engine.is_idle() && lab.pool.packets_in_use() == 0);
    // What was lent is still where it was, and does not come in the way of what comes now.
    let chunks = lab.pool.chunks_in_use();
    lab.receive();
    assert!(lab.pool.chunks_in_use() >= chunks);
    let later = lab.take_all();
    lab.finish(run(later));
    assert_eq!(lab.end(), (PACKETS, PACKETS));
    drop(run(errands));
}

//! A cluster of three members, with functions that run frames through the program.

use super::frames::OWN_MAC;
use aya::programs::{TestRun, TestRunOptions};
use nw_kernel::balancer::{
    AttachMode, Balancer, BalancerCounters, BalancerOptions, Hop, MemberEntry, Verdict,
};
use nw_name::{HashKey, Name, NameRef};
use nw_slot_table::{Member, Rules, SLOTS, Table};

pub const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 5, 7]);
pub const VIP: &str = "192.0.2.1:6363";
pub const VIP6: &str = "[2001:db8::1]:6363";
pub const DROP: u32 = 1;
pub const PASS: u32 = 2;
pub const TX: u32 = 3;
pub const REDIRECT: u32 = 4;
const TC_SHOT: u32 = 2;
const TC_REDIRECT: u32 = 7;
const TC_UNSPECIFIED: u32 = u32::MAX;

pub fn options() -> BalancerOptions {
    BalancerOptions {
        key: KEY,
        cluster_v4: Some([192, 0, 2, 1].into()),
        cluster_v6: Some("2001:db8::1".parse().expect("an address")),
        port: 6363,
        ethernet: None,
        pin: None,
    }
}

pub fn member_mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, number]
}

pub fn member_port(number: u8) -> u16 {
    6370 + u16::from(number)
}

/// Returns a member on interface 9, untagged.
pub fn entry(number: u8) -> MemberEntry {
    MemberEntry {
        address_v4: Some([10, 0, 0, number].into()),
        address_v6: Some(format!("fd00::{number}").parse().expect("an address")),
        port: member_port(number),
        hop: Some(Hop {
            interface_index: 9,
            own_mac: OWN_MAC,
            mac: member_mac(number),
            vlan: None,
            mtu_bytes: 9000,
        }),
        mac: None,
    }
}

pub fn members(count: u8) -> Vec<Member> {
    (1..=count)
        .map(|number| Member {
            number,
            id: u64::from(number) * 31,
            weight: 100,
            accepts_names: true,
        })
        .collect()
}

/// The program with its members and slot table.
pub struct Cluster {
    pub balancer: Balancer,
    pub table: Table,
    /// The programs that [`expect`](Self::expect) uses: XDP only, or traffic control too.
    pub mode: AttachMode,
}

impl Cluster {
    pub fn new() -> Self {
        Cluster::with(&options())
    }

    pub fn with(options: &BalancerOptions) -> Self {
        let mut balancer = Balancer::load(options)
            .unwrap_or_else(|e| panic!("{e}: {:?}", std::error::Error::source(&e)));
        for number in 1..=3 {
            balancer.set_member(number, &entry(number)).expect("a member");
        }
        let table = Table::compute(&members(3), 7);
        assert_eq!(balancer.set_slots(table.slots()).expect("slots"), SLOTS);
        balancer.set_control(1).expect("a control member");
        Cluster { balancer, table, mode: AttachMode::TrafficControl }
    }

    /// Runs a frame; returns the action, and the frame as it leaves.
    pub fn run(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        self.run_on(frame, None)
    }

    /// Runs a frame that arrives on this interface.
    pub fn run_on(&mut self, frame: &[u8], index: Option<u32>) -> (u32, Vec<u8>) {
        let mut out = vec![0; frame.len() + 64];
        let options = |context| TestRunOptions {
            data_in: Some(frame),
            ctx_in: context,
            ..TestRunOptions::default()
        };
        let end = frame.len() as u32;
        let context: Option<Vec<u8>> = index.map(|index| {
            [0, end, 0, index, 0, 0].iter().flat_map(|n: &u32| n.to_ne_bytes()).collect()
        });
        let program = self.balancer.program().expect("loaded");
        let result = program
            .test_run(TestRunOptions { data_out: Some(&mut out), ..options(context.as_deref()) })
            .expect("a test run");
        out.truncate(result.data_size_out as usize);
        (result.return_value, out)
    }

    pub fn counters(&self) -> BalancerCounters {
        self.balancer.counters().expect("counters")
    }

    /// Runs a frame and checks its verdict, action and bytes.
    #[track_caller]
    pub fn expect(&mut self, what: &str, frame: &[u8], verdict: Verdict, action: u32, out: &[u8]) {
        self.expect_on(what, frame, None, verdict, action, out);
    }

    /// Runs a frame that arrives on this interface, and checks its verdict, action and bytes.
    #[track_caller]
    pub fn expect_on(
        &mut self,
        what: &str,
        frame: &[u8],
        index: Option<u32>,
        verdict: Verdict,
        action: u32,
        out: &[u8],
    ) {
        let before = self.counters();
        let (acted, left) = self.run_on(frame, index);
        let after = self.counters();
        let counted: Vec<_> = after
            .verdicts()
            .filter(|(verdict, count)| *count != before.verdict(*verdict))
            .map(|(verdict, count)| (verdict, count - before.verdict(verdict)))
            .collect();
        assert_eq!(counted, [(verdict, 1)], "{what}: counted");
        assert_eq!(acted, action, "{what}: the action");
        assert_eq!(hex(&left), hex(out), "{what}: the frame");
        if self.mode == AttachMode::TrafficControl {
            self.expect_tc(what, frame, index, verdict, action, out);
        }
    }

    /// Checks the same with the traffic-control program.
    #[track_caller]
    fn expect_tc(
        &mut self,
        what: &str,
        frame: &[u8],
        index: Option<u32>,
        verdict: Verdict,
        action: u32,
        out: &[u8],
    ) {
        // The kernel makes no test with nothing after the Ethernet header.
        if frame.len() <= 14 {
            return;
        }
        let before = self.counters().verdict(verdict);
        let (acted, left) = self.run_tc(frame, index);
        assert_eq!(self.counters().verdict(verdict), before + 1, "{what}, tc: counted");
        let expected = match action {
            DROP => TC_SHOT,
            PASS => TC_UNSPECIFIED,
            _ => TC_REDIRECT,
        };
        assert_eq!(acted, expected, "{what}, tc: the action");
        let mut out = out.to_vec();
        // An added tag is not in the frame yet: the driver inserts it.
        if expected == TC_REDIRECT && out[12..14] == [0x81, 0] {
            out.drain(12..16);
        }
        assert_eq!(hex(&left), hex(&out), "{what}, tc: the frame");
    }

    /// Runs a frame with the traffic-control program.
    pub fn run_tc(&mut self, frame: &[u8], index: Option<u32>) -> (u32, Vec<u8>) {
        let mut out = vec![0; frame.len() + 64];
        // `struct __sk_buff`: the tenth number is the ingress interface.
        let mut context = [0; 48];
        context[36..40].copy_from_slice(&index.unwrap_or(0).to_ne_bytes());
        let program = self.balancer.program_tc().expect("loaded");
        let options = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ctx_in: index.map(|_| &context[..]),
            ..TestRunOptions::default()
        };
        let result = program.test_run(options).expect("a test run");
        out.truncate(result.data_size_out as usize);
        (result.return_value, out)
    }

    pub fn member_of(&self, name: &str) -> u8 {
        let name: Name = name.parse().expect("a name");
        self.member_by(name.as_ref(), &Rules::default())
    }

    pub fn member_by(&self, name: NameRef<'_>, rules: &Rules) -> u8 {
        nw_slot_table::locate_name(name, &KEY, rules, &self.table, 1).member
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
